/*
 * The configuration of a service: docs/serve-config.md is the reference of the file. All of it is
 * optional; without a file the service offers this machine as hardware `local`, on a loopback port
 * that the system chooses.
 *
 * - What was loaded is complete and right: defaults are filled in, options of the command line have
 *   taken the place of what the file says, files of TLS have been read once, and relative paths of
 *   the file begin at its own folder.
 * - Errors name the file, the line and the key.
 * - A loaded configuration doesn't change. A reload makes another one, and prn_config_compare()
 *   says what differs and what of it must wait for a restart.
 */
#ifndef PRN_SERVICE_CONFIG_CONFIG_H
#define PRN_SERVICE_CONFIG_CONFIG_H

#include "record/net.h"
#include "spec/spec.h"

/* No limit, for a quota. */
#define PRN_CONFIG_NO_LIMIT SIZE_MAX

struct prn_config_address {
    const char *text; /* "127.0.0.1:0", "[::1]:50051", "unix:/run/prony.sock" */
    bool local; /* reached from this machine alone: loopback, or a socket in the file system */
    bool tls;   /* certificate and key are given, and it isn't a socket in the file system */
};

/* Where the hosts of a pool come from. A new kind is a value here, a row in a table, and a struct
 * of its own keys in struct prn_config_pool. */
enum prn_pool_type {
    PRN_POOL_LOCAL, /* workers that the service starts, or that are started by hand elsewhere */
    PRN_POOL_SLURM, /* jobs of Slurm that the service submits when somebody waits */
};

const char *prn_pool_type_name(enum prn_pool_type type);

/* What the cluster has a say in. */
struct prn_config_slurm_text {
    const char *text; /* NULL: not given */
    size_t line;
};

struct prn_config_slurm {
    struct prn_config_slurm_text partition, constraint, gres, account, qos;
    size_t time_line, options_line; /* 0: not given */
    double time_s;                  /* of a job */
    double session_s;               /* a job that has less left takes no further session */
    double idle_s;                  /* a worker without a session leaves after it */
    double join_s;                  /* for the worker of a job that runs to join */
    double poll_s;                  /* between two looks at the jobs */
    size_t hosts;                   /* most of them at once */
    const char *server;             /* where workers find the service; NULL: where it listens */
    const char *ca;                 /* a file on the nodes; NULL: none */
    const char *program;            /* on the nodes; NULL: this one */
    const char *output;             /* of a job, as sbatch takes it */
    size_t n_options;
    const char *const *options; /* for sbatch */
    size_t n_environment;
    const char *const *environment; /* "NAME=value" */
};

/* Limits of time of a session; 0: none. */
struct prn_config_times {
    double session_s; /* from when it has its hosts */
    double idle_s;    /* without work: heartbeats aren't */
};

struct prn_config_pool {
    const char *hardware;
    enum prn_pool_type type;
    size_t line;           /* in the file, for later errors; 0: from no file */
    const char *processor; /* NULL when neither the file nor prony knows it */
    double usd_per_hour;   /* NAN: likewise */
    struct prn_config_times times;
    size_t n_software; /* 0: whatever a worker finds */
    const char *const *software;
    struct {
        size_t count; /* workers that the service starts on its own machine */
    } local;
    struct prn_config_slurm slurm;
};

struct prn_config_preset {
    const char *name;
    size_t n;
    const struct prn_spec *specs;
};

struct prn_config_quota {
    const char *user;
    size_t backends; /* PRN_CONFIG_NO_LIMIT: as many as they like */
};

/* Instead of those for all; NAN: not given. */
struct prn_config_user_times {
    const char *user;
    struct prn_config_times times;
};

/* A user's share of the hosts, or priority. */
struct prn_config_weight {
    const char *user;
    double value;
};

struct prn_config_fair {
    double window_s;
    size_t n_shares, n_priorities;
    const struct prn_config_weight *shares, *priorities;
};

struct prn_config_limits {
    uint64_t message_bytes;
    uint64_t model_bytes; /* of all files of one model */
    uint64_t
        session_memory_bytes; /* of a session's executors on one host; 0: no limit of its own */
    double run_timeout_s;     /* of one Run or LoadModel on one backend */
    size_t sessions;          /* of all users, waiting ones included */
    size_t models_per_session;
    struct prn_config_times times;
};

struct prn_config {
    struct prn_arena arena;
    size_t n_listen;
    const struct prn_config_address *listen;
    const char *tls_certificate; /* files; NULL, both of them: no TLS */
    const char *tls_key;
    const char *http; /* where the page and metrics are; NULL: nowhere */
    size_t n_pools;
    const struct prn_config_pool *pools;
    size_t n_presets; /* those that the file gives; see prn_config_preset() */
    const struct prn_config_preset *presets;
    size_t quota_default; /* backends of a user */
    size_t quota_waiting; /* sessions of a user that wait */
    size_t n_quotas;
    const struct prn_config_quota *quotas;
    size_t n_user_times;
    const struct prn_config_user_times *user_times;
    const char *queue; /* "first-come" or "fair" */
    struct prn_config_fair fair;
    double lease_s;
    const char *python;       /* the interpreter that has torch; NULL: as PRONY_PYTHON says */
    const char *state_folder; /* NULL: the user's own */
    const char *cache_folder; /* NULL: inside the state folder */
    uint64_t cache_bytes;
    struct prn_config_limits limits;
    const char *log_format; /* "text" or "json" */
    const char *audit_file; /* NULL: none */
};

/* Reads options->config_file, if there is one; `options` may be NULL. Faults of options name them
 * as the command line does. */
PRONY_MUST_CHECK int prn_config_load(const struct prn_serve_options *options,
                                     struct prn_config *ret_config, struct prony_error *err);
/* The same with a file's content; `name` stands for its path. */
PRONY_MUST_CHECK int prn_config_parse(const char *text, size_t len, const char *name,
                                      const struct prn_serve_options *options,
                                      struct prn_config *ret_config, struct prony_error *err);
void prn_config_release(struct prn_config *config);

/* The pool of a hardware; NULL: none. */
const struct prn_config_pool *prn_config_pool(const struct prn_config *config,
                                              const char *hardware);
/* Whether a pool offers a software, if a worker has it. */
bool prn_config_pool_offers(const struct prn_config_pool *pool, const char *software);
/* How many hosts sessions may wait for although they aren't there: those that the service brings by
 * itself, or one that joins. */
size_t prn_config_pool_promises(const struct prn_config_pool *pool);

/* NULL when the file doesn't give it. "all" then holds every backend that workers have, and
 * "default" those of them for which prn_config_in_default() is true. */
const struct prn_config_preset *prn_config_preset(const struct prn_config *config,
                                                  const char *name);
/* Whether octoml-profile's client can use it. */
bool prn_config_in_default(const char *software);

/* Most backends that a user may have at once. */
size_t prn_config_quota(const struct prn_config *config, const char *user);

/* Who is served first (service/session/queue.h): 1 and 0 for users that the file doesn't name. */
bool prn_config_is_fair(const struct prn_config *config);
double prn_config_share(const struct prn_config *config, const char *user);
int prn_config_priority(const struct prn_config *config, const char *user);

/* What holds for a user's session on hardware: the strictest of the user's, or else that for all,
 * and of the pools'. */
struct prn_config_times prn_config_times(const struct prn_config *config, const char *user,
                                         const char *const *hardware, size_t n);

/* Reads certificate and key, PEM, and checks that they belong together: at the start and again at
 * each reload. The caller frees both; both are NULL without TLS. */
PRONY_MUST_CHECK int prn_config_read_tls(const struct prn_config *config, char **ret_certificate,
                                         char **ret_key, struct prony_error *err);

struct prn_config_change {
    bool restart;     /* takes effect only after a restart; until then the old value holds */
    const char *text; /* "pool 'g5.xlarge': count 2 instead of 1" */
};

/* What is different in `after`, in the order of the reference; the texts belong to `arena`. */
PRONY_MUST_CHECK int prn_config_compare(const struct prn_config *before,
                                        const struct prn_config *after, struct prn_arena *arena,
                                        struct prn_config_change **ret_changes, size_t *ret_n,
                                        struct prony_error *err);
/* Gives `after` the values of `before` that need a restart; texts stay those of `before`. */
void prn_config_keep(const struct prn_config *before, struct prn_config *after);

/* ---- Tables of keys (format/yaml_fields.h), which reader and comparison share ---- */

struct prn_yaml_key;

/* The keys of the file, into a struct prn_config, and those of a pool of a type. */
const struct prn_yaml_key *prn_config_keys(size_t *ret_n);
const struct prn_yaml_key *prn_config_pool_keys(enum prn_pool_type type, size_t *ret_n);

#endif
