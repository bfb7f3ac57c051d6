/* Pools of type slurm: what the file says of them. Whether the cluster agrees is asked when the
 * service starts (slurm_check.c). */
#include "service/config/slurm_pool.h"

#include "service/config/address.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define OPTIONS_MAX 64
#define TIME_S 3600.0
#define SESSION_S 600.0
#define IDLE_S 300.0
#define JOIN_S 120.0
#define POLL_S 5.0

int prn_config_read_slurm_text(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                               const struct prn_yaml_node *node, void *into)
{
    struct prn_config_slurm_text *text = into;
    text->line = node->line;
    return prn_yaml_text(r, key->name, node, &text->text);
}

/* What prony sets itself, or what would make something else of a job. */
static const char *const own_options[] = {
    "account",
    "array",
    "batch",
    "chdir",
    "clusters",
    "comment",
    "constraint",
    "error",
    "exclusive",
    "export",
    "export-file",
    "get-user-env",
    "gres",
    "help",
    "hold",
    "ignore-pbs",
    "input",
    "job-name",
    "kill-on-invalid-dep",
    "no-kill",
    "no-requeue",
    "nodes",
    "ntasks",
    "output",
    "overcommit",
    "oversubscribe",
    "parsable",
    "partition",
    "qos",
    "quiet",
    "requeue",
    "share",
    "test-only",
    "time",
    "usage",
    "verbose",
    "version",
    "wait",
    "wrap",
};

/* sbatch takes the beginning of an option's name for all of it. */
static const char *own_option(const char *option, size_t length)
{
    for (size_t i = 0; i < PRN_ARRAY_SIZE(own_options); i++)
        if (strncmp(own_options[i], option, length) == 0)
            return own_options[i];
    return NULL;
}

static int check_option(const struct prn_yaml_reader *r, const char *key,
                        const struct prn_yaml_node *node, const char *option)
{
    size_t length = strcspn(option, "=");
    if (strncmp(option, "--", 2) != 0 || length < 3 || !isalpha((unsigned char)option[2]))
        return prn_yaml_fail_at(r, node, key, "'%.100s' isn't written --option or --option=value",
                                option);
    const char *own = own_option(option + 2, length - 2);
    if (own)
        return prn_yaml_fail_at(r, node, key, "--%s is prony's to set; see the keys of the pool",
                                own);
    return 0;
}

int prn_config_read_slurm_options(const struct prn_yaml_reader *r, const struct prn_yaml_key *key,
                                  const struct prn_yaml_node *node, void *into)
{
    struct prn_config_slurm *slurm = into;
    const char **options = NULL;
    size_t n = 0;
    int code = prn_yaml_texts(r, key->name, node, OPTIONS_MAX, &options, &n);
    for (size_t i = 0; code == 0 && i < n; i++)
        code = check_option(r, key->name, node->kind == PRN_YAML_LIST ? node->items[i] : node,
                            options[i]);
    if (code == 0) {
        slurm->options = options;
        slurm->n_options = n;
    }
    return code;
}

static bool is_variable(const char *name)
{
    bool fits = isalpha((unsigned char)name[0]) || name[0] == '_';
    for (const char *c = name; *c; c++)
        fits = fits && (isalnum((unsigned char)*c) || *c == '_');
    return fits;
}

int prn_config_read_slurm_environment(const struct prn_yaml_reader *r,
                                      const struct prn_yaml_key *key,
                                      const struct prn_yaml_node *node, void *into)
{
    struct prn_config_slurm *slurm = into;
    if (node->kind != PRN_YAML_MAP || node->n > OPTIONS_MAX)
        return prn_yaml_fail_at(r, node, key->name, "not a map of up to %d names and values",
                                OPTIONS_MAX);
    const char **variables = PRN_ARENA_ARRAY(r->arena, node->n, const char *);
    if (!variables)
        return prn_fail_memory(r->err);
    for (size_t i = 0; i < node->n; i++) {
        const char *name = node->keys[i];
        const char *value = NULL;
        /* Those of Slurm would change what its programs do here. */
        if (!is_variable(name) || strncmp(name, "SLURM_", 6) == 0 ||
            strncmp(name, "SBATCH_", 7) == 0 || strncmp(name, "LD_", 3) == 0)
            return prn_yaml_fail_at(r, node->items[i], key->name, "'%.100s' can't be set for a job",
                                    name);
        int code = prn_yaml_text(r, name, node->items[i], &value);
        if (code < 0)
            return code;
        code = prn_yaml_join(r, name, "=", value, &variables[i]);
        if (code < 0)
            return code;
    }
    slurm->environment = variables;
    slurm->n_environment = node->n;
    return 0;
}

static size_t line_of(const struct prn_yaml_node *pool, const char *key)
{
    const struct prn_yaml_node *node = prn_yaml_get(pool, key);
    return node ? node->line : 0;
}

/* Jobs begin in the root folder of a node: where would 'logs/%j' be? */
static int check_path(const struct prn_yaml_reader *r, const struct prn_yaml_node *pool,
                      const char *key, const char *path)
{
    if (!path || path[0] == '/')
        return 0;
    return prn_yaml_fail_at(r, prn_yaml_get(pool, key), key,
                            "'%.100s' is a path on the nodes, and must begin with '/'", path);
}

static int check_server(const struct prn_yaml_reader *r, const struct prn_yaml_node *pool,
                        const char *server)
{
    struct prn_address address = {0};
    const char *fault = server ? prn_address_parse(server, &address) : NULL;
    const char *port = server ? strrchr(server, ':') : NULL;
    if (server && (!port || strchr(port, ']') || strcmp(port, ":0") == 0))
        fault = "no port; it is written HOST:PORT";
    else if (!fault && address.socket_file)
        fault = "nodes can't open a socket of this machine's file system";
    return fault ? prn_yaml_fail_at(r, prn_yaml_get(pool, "server"), "server", "'%.100s': %s",
                                    server, fault)
                 : 0;
}

static int check_nodes_side(const struct prn_yaml_reader *r, const struct prn_yaml_node *node,
                            const struct prn_config_slurm *slurm)
{
    /* A program without a folder is searched in PATH there. */
    const char *program = slurm->program && strchr(slurm->program, '/') ? slurm->program : NULL;
    int code = check_server(r, node, slurm->server);
    if (code == 0)
        code = check_path(r, node, "ca", slurm->ca);
    if (code == 0)
        code = check_path(r, node, "program", program);
    return code == 0 ? check_path(r, node, "output", slurm->output) : code;
}

int prn_config_slurm_complete(const struct prn_yaml_reader *r, const struct prn_yaml_node *node,
                              struct prn_config_pool *pool)
{
    struct prn_config_slurm *slurm = &pool->slurm;
    const struct prn_yaml_node *session = prn_yaml_get(node, "session");
    if (pool->n_software == 0)
        return prn_yaml_fail_at(r, node, "software",
                                "a pool of type slurm must list the software of its hosts");
    slurm->time_s = slurm->time_s > 0 ? slurm->time_s : TIME_S;
    slurm->session_s = slurm->session_s > 0 ? slurm->session_s : fmin(SESSION_S, slurm->time_s / 2);
    slurm->idle_s = slurm->idle_s > 0 ? slurm->idle_s : IDLE_S;
    slurm->join_s = slurm->join_s > 0 ? slurm->join_s : JOIN_S;
    slurm->poll_s = slurm->poll_s > 0 ? slurm->poll_s : POLL_S;
    slurm->hosts = slurm->hosts > 0 ? slurm->hosts : 1;
    slurm->output = slurm->output ? slurm->output : "/dev/null";
    slurm->time_line = line_of(node, "time");
    slurm->options_line = line_of(node, "options");
    if (slurm->session_s > slurm->time_s)
        return prn_yaml_fail_at(r, session, "session",
                                "longer than 'time', the limit of a job (%g s)", slurm->time_s);
    return check_nodes_side(r, node, slurm);
}
