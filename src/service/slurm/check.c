/* Whether the cluster has what a pool asks for. sinfo tells what there is, so that an error can
 * name the key; whether the account may submit such a job, sbatch itself is asked. */
#include "service/slurm/command.h"

#include "service/slurm/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SINFO_S 30.0

struct check {
    const struct prn_config_pool *pool;
    const char *file;
    const char *sinfo; /* what it printed */
    struct prony_error *err;
};

static int fail_at(const struct check *c, size_t line, const char *key, const char *format, ...)
    PRN_PRINTF(4, 5);

static int fail_at(const struct check *c, size_t line, const char *key, const char *format, ...)
{
    struct prony_error fault;
    va_list args;
    va_start(args, format);
    prn_vfail(&fault, PRONY_EFORMAT, format, args);
    va_end(args);
    return prn_fail(c->err, PRONY_EFORMAT, "'%s', line %zu: '%s': %s", c->file, line, key,
                    fault.text);
}

/* ---- What nodes have ---- */

typedef bool node_test(const struct prn_slurm_node *node, const void *wanted);

static bool in_partition(const struct check *c, const struct prn_slurm_node *node)
{
    const char *partition = c->pool->slurm.partition.text;
    return partition ? strcmp(node->partition, partition) == 0 : node->is_default;
}

/* Whether a node of the pool's partition fits; `wanted` is for fits(). */
static int any_node(const struct check *c, node_test *fits, const void *wanted, bool *ret_found)
{
    char *copy = strdup(c->sinfo);
    char *at = copy;
    struct prn_slurm_node node;
    if (!copy)
        return prn_fail_memory(c->err);
    *ret_found = false;
    while (!*ret_found && prn_slurm_next_node(&at, &node))
        *ret_found = in_partition(c, &node) && fits(&node, wanted);
    free(copy);
    return 0;
}

static bool is_there(const struct prn_slurm_node *node, const void *wanted)
{
    (void)node;
    (void)wanted;
    return true;
}

static bool has_feature(const struct prn_slurm_node *node, const void *wanted)
{
    return prn_slurm_has_feature(node->features, wanted);
}

static bool has_gres(const struct prn_slurm_node *node, const void *wanted)
{
    return prn_slurm_has_gres(node->gres, wanted);
}

static bool has_time(const struct prn_slurm_node *node, const void *wanted)
{
    return node->limit_s >= *(const double *)wanted;
}

/* ---- The keys ---- */

static int check_partition(const struct check *c)
{
    const struct prn_config_slurm_text *partition = &c->pool->slurm.partition;
    bool found;
    int code = any_node(c, is_there, NULL, &found);
    if (code < 0 || found)
        return code;
    if (!partition->text)
        return fail_at(c, c->pool->line, "partition",
                       "the cluster has no default partition, so one must be named");
    return fail_at(c, partition->line, "partition", "Slurm knows no partition '%.100s' with nodes",
                   partition->text);
}

static int check_constraint(const struct check *c)
{
    const struct prn_config_slurm_text *constraint = &c->pool->slurm.constraint;
    const char *at = constraint->text ? constraint->text : "";
    char name[PRN_SLURM_NAME_SIZE];
    while (prn_slurm_next_feature(&at, name)) {
        bool found;
        int code = any_node(c, has_feature, name, &found);
        if (code < 0)
            return code;
        if (!found)
            return fail_at(c, constraint->line, "constraint",
                           "no node of the partition has the feature '%s'", name);
    }
    return 0;
}

static int check_gres(const struct check *c)
{
    const struct prn_config_slurm_text *gres = &c->pool->slurm.gres;
    bool found = true;
    int code = gres->text ? any_node(c, has_gres, gres->text, &found) : 0;
    if (code == 0 && !found)
        code = fail_at(c, gres->line, "gres", "no node of the partition has '%.100s'", gres->text);
    return code;
}

static int check_time(const struct check *c)
{
    double time_s = ceil(c->pool->slurm.time_s / 60) * 60;
    bool found = true;
    int code = any_node(c, has_time, &time_s, &found);
    if (code == 0 && !found)
        code = fail_at(c, c->pool->slurm.time_line ? c->pool->slurm.time_line : c->pool->line,
                       "time", "the partition allows no jobs of %g min", time_s / 60);
    return code;
}

/* A limit of how many jobs there may be is none of the configuration's faults: a service that was
 * restarted may have as many. One of none at all is. */
static bool is_full_for_now(const char *complaint)
{
    enum prn_slurm_full full = prn_slurm_full(complaint);
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_SLURM_OUTPUT_MAX);
    struct prony_error err;
    bool some = full == PRN_SLURM_FULL_GROUP;
    if (full == PRN_SLURM_FULL_USER)
        some = prn_slurm_list(NULL, NULL, &out, &err) == 0 && out.len > 0;
    prn_buffer_release(&out);
    return some;
}

/* A key of the pool, and its line; 0: the pool doesn't have it. */
struct named {
    const char *key;
    size_t line;
};

/* Which of them a complaint of sbatch's is about, as far as that is known. */
static struct named named_by(const struct prn_config_slurm *slurm, enum prn_slurm_fault fault)
{
    const struct named gres = {"gres", slurm->gres.line};
    const struct named constraint = {"constraint", slurm->constraint.line};
    switch (fault) {
    case PRN_SLURM_FAULT_PARTITION:
        return (struct named){"partition", slurm->partition.line};
    case PRN_SLURM_FAULT_CONSTRAINT:
        return constraint;
    case PRN_SLURM_FAULT_GRES:
        return gres;
    case PRN_SLURM_FAULT_NODES:
        return gres.line ? gres : constraint;
    case PRN_SLURM_FAULT_ACCOUNT:
        return (struct named){"account", slurm->account.line};
    case PRN_SLURM_FAULT_QOS:
        return (struct named){"qos", slurm->qos.line};
    case PRN_SLURM_FAULT_TIME:
        return (struct named){"time", slurm->time_line};
    case PRN_SLURM_FAULT_OPTIONS:
        return (struct named){"options", slurm->options_line};
    default:
        return (struct named){0};
    }
}

static int check_submission(const struct check *c)
{
    const struct prn_slurm_job_order order = {
        .pool = c->pool, .id = "00000000", .server = "localhost:1", .key = "none"};
    struct prony_error fault;
    int code = prn_slurm_try(&order, &fault);
    if (code == PRONY_ENOMEM)
        return prn_fail_memory(c->err);
    if (code == 0 || is_full_for_now(fault.text))
        return 0;
    const struct named named = named_by(&c->pool->slurm, prn_slurm_fault(fault.text));
    return fail_at(c, named.line ? named.line : c->pool->line, named.line ? named.key : "pools",
                   "Slurm takes no jobs of the pool '%s': %s", c->pool->hardware, fault.text);
}

/* Nodes can't open a socket in this machine's file system. */
static int check_server(const struct check *c, const struct prn_config *config)
{
    bool found = c->pool->slurm.server;
    for (size_t i = 0; i < config->n_listen; i++)
        found = found || strncmp(config->listen[i].text, "unix:", 5) != 0;
    return found ? 0
                 : fail_at(c, c->pool->line, "server",
                           "the service listens on no address that a node could reach");
}

static int check_pool(const struct check *c)
{
    static int (*const checks[])(const struct check *) = {check_partition, check_constraint,
                                                          check_gres, check_time, check_submission};
    int code = 0;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(checks) && code == 0; i++)
        code = checks[i](c);
    return code;
}

static int run_for(const struct check *c, const char *const *argv, struct prn_buffer *out)
{
    const struct prn_slurm_call call = {.argv = argv, .timeout_s = SINFO_S};
    struct prony_error fault;
    int code = prn_slurm_run(&call, out, &fault);
    if (code == PRONY_ENOMEM)
        return prn_fail_memory(c->err);
    return code == 0 ? 0
                     : fail_at(c, c->pool->line, "type", "the pool '%s' needs Slurm: %s",
                               c->pool->hardware, fault.text);
}

/* Without scancel, say, jobs would be submitted that nobody could end. */
static int check_programs(const struct check *c)
{
    static const char *const names[] = {"sbatch", "squeue", "scancel", "scontrol"};
    int code = 0;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(names) && code == 0; i++) {
        const char *const argv[] = {names[i], "--version", NULL};
        struct prn_buffer out = PRN_BUFFER_INIT(4096);
        code = run_for(c, argv, &out);
        prn_buffer_release(&out);
    }
    return code;
}

static int ask_sinfo(const struct check *c, struct prn_buffer *out)
{
    static const char *const argv[] = {
        "sinfo", "--noheader", "--all", "--Node", "--format=" PRN_SLURM_SINFO_FORMAT, NULL};
    int code = run_for(c, argv, out);
    return code == 0 ? check_programs(c) : code;
}

int prn_slurm_check(const struct prn_config *config, const char *file, struct prony_error *err)
{
    struct prn_buffer sinfo = PRN_BUFFER_INIT(PRN_SLURM_OUTPUT_MAX);
    bool asked = false;
    int code = 0;
    for (size_t i = 0; i < config->n_pools && code == 0; i++) {
        struct check c = {.pool = &config->pools[i], .file = file ? file : "", .err = err};
        if (c.pool->type != PRN_POOL_SLURM)
            continue;
        code = check_server(&c, config);
        if (code == 0 && !asked)
            code = ask_sinfo(&c, &sinfo);
        asked = true;
        c.sinfo = prn_buffer_text(&sinfo);
        if (code == 0)
            code = check_pool(&c);
    }
    prn_buffer_release(&sinfo);
    return code;
}
