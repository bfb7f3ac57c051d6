/*
 * Fields of the configuration file. A map is read by a table: each row knows a key, how its value
 * is read and where it goes. Whatever is wrong fails with the file, the line and the key. Used by
 * src/service/config*.c only.
 */
#ifndef PRN_SERVICE_CONFIG_FIELDS_H
#define PRN_SERVICE_CONFIG_FIELDS_H

#include "format/yaml.h"
#include "service/config/config.h"

struct prn_config_reader {
    const struct prn_yaml *yaml;
    const char
        *folder; /* of the file, where relative paths begin, with its '/'; "": the current one */
    struct prn_arena *arena;
    struct prony_error *err;
};

struct prn_config_key;

/* Reads `node`, which isn't null, into `into`. */
typedef int prn_config_read(const struct prn_config_reader *r, const struct prn_config_key *key,
                            const struct prn_yaml_node *node, void *into);

struct prn_config_key {
    const char *name;
    prn_config_read *read;
    size_t offset;    /* of what it is read into, from what the map is read into */
    double min, max;  /* of numbers */
    bool may_be_none; /* "none" stands for `none` */
    uint64_t none;
    const struct prn_config_key *keys; /* of a section */
    size_t n_keys;
    bool text;         /* fills a const char *, which the function doesn't tell */
    bool restart;      /* a reload keeps the old value */
    const char *unset; /* what NULL or 0 bytes is called when a reload changes it */
};

/* The keys of the file, into a struct prn_config, and those of a pool of a type. */
extern const struct prn_config_key prn_config_keys[];
extern const size_t prn_config_n_keys;
const struct prn_config_key *prn_config_pool_keys(enum prn_pool_type type, size_t *ret_n);

/* A row, and what may stand behind its first three. */
#define PRN_CONFIG_KEY(text, how, where, ...)                         \
    {                                                                 \
        .name = (text), .read = (how), .offset = (where), __VA_ARGS__ \
    }
#define PRN_CONFIG_RANGE(low, high) .min = (low), .max = (high)
#define PRN_CONFIG_OR_NONE(value) .may_be_none = true, .none = (value)
#define PRN_CONFIG_RESTART(unset_text) .restart = true, .unset = (unset_text)

/* A map inside: its rows count from where those of the map around it do. */
#define PRN_CONFIG_SECTION(text, rows) \
    PRN_CONFIG_KEY(text, prn_config_read_section, 0, .keys = (rows), .n_keys = PRN_ARRAY_SIZE(rows))

/* Keys whose value is null are as if they weren't there. `what` is the map's own key. */
PRONY_MUST_CHECK int prn_config_read_map(const struct prn_config_reader *r, const char *what,
                                         const struct prn_yaml_node *node,
                                         const struct prn_config_key *keys, size_t n_keys,
                                         void *into);

int prn_config_fail(const struct prn_config_reader *r, const struct prn_yaml_node *node,
                    const char *key, const char *format, ...) PRN_PRINTF(4, 5);

/* Rows' functions, by the type of what they fill. */
prn_config_read prn_config_read_text;     /* const char * */
prn_config_read prn_config_read_path;     /* const char * */
prn_config_read prn_config_read_count;    /* size_t: a whole number */
prn_config_read prn_config_read_size;     /* uint64_t: "20 GiB" */
prn_config_read prn_config_read_duration; /* double, in seconds: "30s" */
prn_config_read prn_config_read_real;     /* double */
prn_config_read prn_config_read_section;
prn_config_read prn_config_read_node; /* const struct prn_yaml_node *, for later */

/* A text of a list: not empty, no control characters. */
PRONY_MUST_CHECK int prn_config_text(const struct prn_config_reader *r, const char *key,
                                     const struct prn_yaml_node *node, const char **ret_text);
/* The list under a key, or a single text as a list of one; `ret_items` are borrowed from it. */
PRONY_MUST_CHECK int prn_config_list(const struct prn_config_reader *r, const char *key,
                                     const struct prn_yaml_node *node, size_t most,
                                     const struct prn_yaml_node *const **ret_items, size_t *ret_n);

#endif
