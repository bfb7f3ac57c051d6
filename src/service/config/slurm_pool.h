/* The keys of a pool of type slurm. Used by src/service/config*.c only. */
#ifndef PRN_SERVICE_CONFIG_SLURM_POOL_H
#define PRN_SERVICE_CONFIG_SLURM_POOL_H

#include "format/yaml_fields.h"
#include "service/config/config.h"

#define PRN_SLURM_TIME_MAX_S (30 * 86400.0)

prn_yaml_read_value prn_config_read_slurm_text;        /* struct prn_config_slurm_text */
prn_yaml_read_value prn_config_read_slurm_options;     /* struct prn_config_slurm */
prn_yaml_read_value prn_config_read_slurm_environment; /* struct prn_config_slurm */

#define PRN_CONFIG_OF_SLURM(member) offsetof(struct prn_config_pool, slurm.member)
#define PRN_CONFIG_SLURM_DURATION(name, member, least)                      \
    PRN_YAML_KEY(name, prn_yaml_read_duration, PRN_CONFIG_OF_SLURM(member), \
                 PRN_YAML_RANGE(least, PRN_SLURM_TIME_MAX_S))
#define PRN_CONFIG_SLURM_TEXT(name) \
    PRN_YAML_KEY(#name, prn_config_read_slurm_text, PRN_CONFIG_OF_SLURM(name), .text = true)

#define PRN_CONFIG_SLURM_KEYS                                                                    \
    PRN_CONFIG_SLURM_TEXT(partition), PRN_CONFIG_SLURM_TEXT(constraint),                         \
        PRN_CONFIG_SLURM_TEXT(gres), PRN_CONFIG_SLURM_TEXT(account), PRN_CONFIG_SLURM_TEXT(qos), \
        PRN_CONFIG_SLURM_DURATION("time", time_s, 60),                                           \
        PRN_CONFIG_SLURM_DURATION("session", session_s, 1),                                      \
        PRN_CONFIG_SLURM_DURATION("idle", idle_s, 0.1),                                          \
        PRN_CONFIG_SLURM_DURATION("join", join_s, 1),                                            \
        PRN_CONFIG_SLURM_DURATION("poll", poll_s, 0.1),                                          \
        PRN_YAML_KEY("hosts", prn_yaml_read_count, PRN_CONFIG_OF_SLURM(hosts),                   \
                     PRN_YAML_RANGE(1, 10000)),                                                  \
        PRN_YAML_KEY("server", prn_yaml_read_text, PRN_CONFIG_OF_SLURM(server)),                 \
        PRN_YAML_KEY("ca", prn_yaml_read_text, PRN_CONFIG_OF_SLURM(ca)),                         \
        PRN_YAML_KEY("program", prn_yaml_read_text, PRN_CONFIG_OF_SLURM(program)),               \
        PRN_YAML_KEY("output", prn_yaml_read_text, PRN_CONFIG_OF_SLURM(output)),                 \
        PRN_YAML_KEY("options", prn_config_read_slurm_options,                                   \
                     offsetof(struct prn_config_pool, slurm)),                                   \
        PRN_YAML_KEY("environment", prn_config_read_slurm_environment,                           \
                     offsetof(struct prn_config_pool, slurm))

/* What is left open gets its default; `node` is the pool's. */
PRONY_MUST_CHECK int prn_config_slurm_complete(const struct prn_yaml_reader *r,
                                               const struct prn_yaml_node *node,
                                               struct prn_config_pool *pool);

#endif
