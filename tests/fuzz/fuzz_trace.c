/*
 * The reading and analysis of traces. The first byte chooses whether faults are skipped, how many
 * bytes are read at a time, and whether a second thread helps; the rest is the trace. Whatever it
 * is, sums have to add up, limits to hold, and the result not to depend on how it was read.
 */
#include "trace/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS_MAX 24

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    int code;
    struct prony_error err;
    struct prn_trace *trace; /* NULL when it failed */
};

static struct outcome read_trace(const uint8_t *data, size_t size, size_t step, bool recover,
                                 bool two_threads)
{
    struct outcome o = {0};
    struct prn_source *source;
    struct prn_trace_options options = {
        .runs = {.start = 0, .end = PRN_RUN_UNSET},
        .by = {PRN_TRACE_BY_OP | PRN_TRACE_BY_SHAPE, PRN_TRACE_BY_NODE | PRN_TRACE_BY_PROVIDER},
        .kernel_shapes = true,
        .kernel_dimensions = true,
        .mapping = true,
        .recover = recover,
        .two_threads = two_threads,
        .groups_max = GROUPS_MAX};
    o.code = prn_source_open_memory(data, size, step, &source, &o.err);
    if (o.code < 0)
        return o;
    struct prn_trace_files files = prn_trace_files_of(source);
    o.code = prn_trace_read(&files, &options, &o.trace, &o.err);
    prn_source_close(source);
    return o;
}

static void check_table(const struct prn_trace_table *table)
{
    struct prn_trace_sum sum = {0};
    for (size_t i = 0; i < table->n; i++) {
        const struct prn_trace_group *g = table->groups[i];
        sum.count += g->total.count;
        sum.ns += g->total.ns;
        if (g->total.ns < 0 || g->first.ns < 0)
            abort();
    }
    if (sum.count != table->total.count || sum.ns != table->total.ns)
        abort();
    const struct prn_trace_group **sorted;
    size_t n;
    if (prn_trace_sorted(table, &sorted, &n, NULL) < 0)
        return;
    for (size_t i = 1; i < n; i++)
        if (sorted[i - 1]->total.ns < sorted[i]->total.ns)
            abort();
    free(sorted);
}

static void check_ledger(const struct prn_ledger_run *run)
{
    if (run->node + run->overhead + run->before + run->after + run->unexplained != run->total)
        abort();
    if (run->node < 0 || run->overhead < 0 || run->before < 0 || run->after < 0 ||
        run->unexplained < 0 || run->node_sum < run->node)
        abort();
}

static void check_trace(const struct prn_trace *t)
{
    const struct prn_trace_table *tables[] = {&t->cpu[0], &t->cpu[1], &t->gpu, &t->mapping,
                                              &t->mapped};
    size_t groups = 0;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(tables); i++) {
        check_table(tables[i]);
        groups += tables[i]->n;
    }
    if (groups > GROUPS_MAX || t->n_selected != (t->n_runs ? t->n_runs : 1))
        abort();
    /* Both tables of nodes have the same events; a kernel is in one table, or in both. */
    if (t->cpu[0].total.ns != t->cpu[1].total.ns || t->cpu[0].total.ns != t->mapped.total.ns ||
        t->gpu.total.count != t->kernels || t->kernels_unresolved > t->kernels ||
        t->mapping.total.ns > t->gpu.total.ns)
        abort();
    if (t->n_runs > 0)
        check_ledger(&t->first_ledger);
    if (t->has_ledger && t->ledger[PRN_LEDGER_TOTAL].count != t->n_selected)
        abort();
}

static bool same_sum(struct prn_trace_sum a, struct prn_trace_sum b)
{
    return a.count == b.count && a.ns == b.ns;
}

/* `plain`: what went wrong is told in the same words. Of damaged data the damage is told, once the
 * decoder has got there. */
static void check_same(const struct outcome *a, const struct outcome *b, bool plain)
{
    if (a->code != b->code)
        abort();
    if (a->code < 0) {
        /* With two threads another limit may be met first. */
        if (plain && a->code != PRONY_ELIMIT && strcmp(a->err.text, b->err.text) != 0)
            abort();
        return;
    }
    const struct prn_trace *s = a->trace;
    const struct prn_trace *t = b->trace;
    if (s->counts.events != t->counts.events || s->counts.lost != t->counts.lost ||
        (!s->first_fault && s->counts.bytes != t->counts.bytes) || s->n_runs != t->n_runs ||
        s->outside != t->outside || !same_sum(s->cpu[0].total, t->cpu[0].total) ||
        !same_sum(s->gpu.total, t->gpu.total) || !same_sum(s->mapping.total, t->mapping.total) ||
        s->cpu[0].n != t->cpu[0].n || s->cpu[1].n != t->cpu[1].n || s->gpu.n != t->gpu.n ||
        s->mapping.n != t->mapping.n || (s->first_fault == NULL) != (t->first_fault == NULL) ||
        (plain && s->first_fault && strcmp(s->first_fault, t->first_fault) != 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    bool recover = data[0] & 1;
    bool two_threads = data[0] & 2;
    size_t step = 1 + (data[0] >> 2);
    struct outcome whole = read_trace(data + 1, size - 1, 0, recover, false);
    struct outcome split = read_trace(data + 1, size - 1, step, recover, two_threads);
    bool plain = size < 2 || (data[1] != 0x1f && data[1] != 0x28); /* not gzip or zstd */
    check_same(&whole, &split, plain);
    if (whole.trace)
        check_trace(whole.trace);
    prn_trace_free(whole.trace);
    prn_trace_free(split.trace);
    return 0;
}
