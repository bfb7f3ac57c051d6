/* The public functions for traces. */
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

struct groups {
    const struct prn_trace_group **items; /* longest first */
    const char **nodes;                   /* their names as shown */
    size_t n;
};

struct prony_trace {
    struct prn_trace *trace;
    struct groups groups[2]; /* by enum prony_trace_kind */
    struct prn_arena names;
};

static int check_options(const struct prony_trace_options *o, struct prony_error *err)
{
    const unsigned all =
        PRONY_TRACE_BY_NODE | PRONY_TRACE_BY_OP | PRONY_TRACE_BY_PROVIDER | PRONY_TRACE_BY_SHAPE;
    if (o->struct_size != sizeof *o)
        return prn_fail(err, PRONY_EUSAGE,
                        "struct prony_trace_options has another size: begin with "
                        "PRONY_TRACE_OPTIONS_INIT");
    if (o->by == 0 || (o->by & ~all))
        return prn_fail(err, PRONY_EUSAGE, "'by' must be of PRONY_TRACE_BY_…");
    for (size_t i = 0; i < o->n_filters; i++)
        if (!o->filters || !o->filters[i])
            return prn_fail(err, PRONY_EUSAGE, "'filters' is NULL, or one of them");
    return 0;
}

static int sort_groups(struct prony_trace *t, const struct prn_trace_table *table,
                       enum prony_trace_kind kind, struct prony_error *err)
{
    struct groups *groups = &t->groups[kind];
    int code = prn_trace_sorted(table, &groups->items, &groups->n, err);
    if (code < 0)
        return code;
    groups->nodes = PRN_ARENA_ARRAY(&t->names, groups->n + 1, const char *);
    for (size_t i = 0; groups->nodes && i < groups->n; i++) {
        const struct prn_symbol *node = groups->items[i]->key.node;
        if (node && !(groups->nodes[i] = prn_arena_strndup(
                          &t->names, node->text,
                          kind == PRONY_TRACE_CPU ? prn_trace_node_length(node) : node->len)))
            return prn_fail_memory(err);
    }
    return groups->nodes ? 0 : prn_fail_memory(err);
}

static int read_trace(struct prony_trace *t, const char *path, const struct prony_trace_options *o,
                      struct prony_error *err)
{
    struct prn_trace_options options = {
        .runs = {.start = o->start, .end = o->end, .gather = o->gather},
        .by = {o->by, 0},
        .filters = o->filters,
        .n_filters = o->n_filters,
        .recover = o->recover != 0,
        .groups_max = o->max_groups};
    struct prn_trace_files files;
    int code = prn_trace_files_open(&path, 1, &files, err);
    if (code < 0)
        return code;
    code = prn_trace_read(&files, &options, &t->trace, err);
    prn_trace_files_close(&files);
    if (code == 0)
        code = sort_groups(t, &t->trace->cpu[0], PRONY_TRACE_CPU, err);
    if (code == 0)
        code = sort_groups(t, &t->trace->gpu, PRONY_TRACE_GPU, err);
    return code;
}

int prony_trace_open(const char *path, const struct prony_trace_options *options,
                     struct prony_trace **ret_trace, struct prony_error *err)
{
    static const struct prony_trace_options defaults = PRONY_TRACE_OPTIONS_INIT;
    if (!path || !ret_trace)
        return prn_fail(err, PRONY_EUSAGE, "path and ret_trace are needed");
    const struct prony_trace_options *o = options ? options : &defaults;
    int code = check_options(o, err);
    if (code < 0)
        return code;
    struct prony_trace *t = calloc(1, sizeof *t);
    if (!t)
        return prn_fail_memory(err);
    t->names = PRN_ARENA_INIT((size_t)256 << 20);
    code = read_trace(t, path, o, err);
    if (code < 0)
        prony_trace_close(t);
    else
        *ret_trace = t;
    return code;
}

void prony_trace_close(struct prony_trace *t)
{
    if (!t)
        return;
    free(t->groups[0].items);
    free(t->groups[1].items);
    prn_arena_release(&t->names);
    prn_trace_free(t->trace);
    free(t);
}

int prony_trace_run(const struct prony_trace *t, uint64_t index, struct prony_trace_run *ret_run)
{
    if (!t || !ret_run)
        return PRONY_EUSAGE;
    if (index >= t->trace->n_runs)
        return PRONY_ENOENT;
    const struct prn_trace_run *run = &t->trace->runs[index];
    *ret_run = (struct prony_trace_run){run->start_ns, run->duration_ns, run->node_ns};
    return 0;
}

int prony_trace_group(const struct prony_trace *t, enum prony_trace_kind kind, size_t index,
                      struct prony_trace_group *ret_group)
{
    if (!t || !ret_group || (kind != PRONY_TRACE_CPU && kind != PRONY_TRACE_GPU))
        return PRONY_EUSAGE;
    const struct groups *groups = &t->groups[kind];
    if (index >= groups->n)
        return PRONY_ENOENT;
    const struct prn_trace_group *g = groups->items[index];
    struct prn_interval mean = prn_sketch_mean_interval(&g->per_run);
    *ret_group = (struct prony_trace_group){
        .node = groups->nodes[index],
        .op = g->key.op ? g->key.op->text : NULL,
        .provider = g->key.provider ? g->key.provider->text : NULL,
        .shape = g->key.shape ? g->key.shape->text : NULL,
        .count = g->total.count,
        .total_ns = g->total.ns,
        .mean_ns = mean.estimate,
        .mean_low_ns = mean.low,
        .mean_high_ns = mean.high,
        .p50_ns = prn_sketch_quantile(&g->per_run, 0.5),
        .p90_ns = prn_sketch_quantile(&g->per_run, 0.9),
        .max_ns = g->per_run.max,
        .first_ns = g->first.ns,
    };
    return 0;
}
