/* The verdict on a trace: which operator the time goes to, and to how few nodes; and if it goes
 * elsewhere, where. */
#include "report/trace/view.h"

#include "base/format.h"
#include "base/map.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define NODES_TOLD 5

/* The operator that takes longest in all its groups together; NULL: none is known. */
static int find_operator(const struct prn_trace_table *table, const struct prn_symbol **ret_op,
                         int64_t *ret_ns)
{
    struct prn_map index = PRN_MAP_INIT;
    int64_t *sums = calloc(table->n + 1, sizeof *sums);
    int code = sums ? 0 : PRONY_ENOMEM;
    size_t n = 0;
    for (size_t i = 0; i < table->n && code == 0; i++) {
        const struct prn_trace_group *g = table->groups[i];
        size_t at = g->key.op ? prn_map_get(&index, g->key.op->text) : PRN_MAP_NONE;
        if (g->key.op && at == PRN_MAP_NONE)
            code = prn_map_set(&index, g->key.op->text, at = n++);
        if (!g->key.op || code < 0)
            continue;
        sums[at] += g->total.ns;
        if (sums[at] > *ret_ns) {
            *ret_ns = sums[at];
            *ret_op = g->key.op;
        }
    }
    free(sums);
    prn_map_release(&index);
    return code;
}

static void add_percent(double part, double whole, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    prn_buffer_printf(out, "%s %%", prn_format_significant(text, 100 * part / whole, 2));
}

/* "the first 5 of 96 nodes take 40 %"; of a few, the longest. */
static int add_nodes(const struct prn_trace_table *table, const char *before,
                     struct prn_buffer *out, struct prony_error *err)
{
    const struct prn_trace_group **groups;
    size_t n;
    int code = prn_trace_sorted(table, &groups, &n, err);
    if (code < 0)
        return code;
    double sum = 0;
    size_t told = n > NODES_TOLD ? NODES_TOLD : 1;
    for (size_t i = 0; i < n && i < told; i++)
        sum += (double)groups[i]->total.ns;
    free(groups);
    prn_buffer_printf(out, "%sthe %s ", before, told == 1 ? "longest" : "first 5");
    prn_buffer_printf(out, "of %zu node%s take%s ", n, n == 1 ? "" : "s", told == 1 ? "s" : "");
    add_percent(sum, (double)table->total.ns, out);
    return 0;
}

static const struct prn_trace_table *table_by(const struct prn_trace *t, unsigned bit)
{
    for (size_t i = 0; i < PRN_ARRAY_SIZE(t->cpu); i++)
        if ((t->cpu[i].by & bit) && t->cpu[i].total.ns > 0)
            return &t->cpu[i];
    return NULL;
}

/* Where the time of CPU nodes goes; nothing when the tables don't tell. */
static int add_cpu(const struct prn_trace *t, struct prn_buffer *out, struct prony_error *err)
{
    const struct prn_trace_table *by_op = table_by(t, PRN_TRACE_BY_OP);
    const struct prn_trace_table *by_node = table_by(t, PRN_TRACE_BY_NODE);
    const struct prn_symbol *op = NULL;
    int64_t op_ns = 0;
    if (by_op && find_operator(by_op, &op, &op_ns) < 0)
        return prn_fail_memory(err);
    if (op) {
        add_percent((double)op_ns, (double)by_op->total.ns, out);
        prn_buffer_add(out, " of the nodes' time is ");
        prn_text_clean(out, op->text);
    }
    int code = by_node ? add_nodes(by_node, op ? "; " : "Of the nodes' time, ", out, err) : 0;
    if (code == 0 && (op || by_node))
        prn_buffer_add_char(out, '.');
    return code;
}

/* Where most of a run isn't in nodes (they wait for a device, or for each other), operators explain
 * little of it. */
static void add_elsewhere(const struct prn_trace *t, struct prn_buffer *out)
{
    static const char *const parts[] = {
#define PRN_X(name, field, title) [PRN_LEDGER_##name] = title,
        PRN_LEDGER_ROWS(PRN_X)
#undef PRN_X
    };
    const double total = t->ledger_ns[PRN_LEDGER_TOTAL];
    const double node = t->ledger_ns[PRN_LEDGER_NODE];
    size_t most = PRN_LEDGER_NODE;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(parts); i++)
        if (t->ledger_ns[i] > t->ledger_ns[most])
            most = i;
    if (most == PRN_LEDGER_NODE || !(total > 0))
        return;
    prn_buffer_add(out, "Nodes are only ");
    add_percent(node, total, out);
    prn_buffer_add(out, " of a run; ");
    add_percent(t->ledger_ns[most], total, out);
    prn_buffer_printf(out, " is %c%s. ", parts[most][0] | ' ', parts[most] + 1);
}

int prn_trace_verdict(const struct prn_trace_report *r, struct prn_buffer *out,
                      struct prony_error *err)
{
    const struct prn_trace *t = r->trace;
    char text[PRN_FORMAT_SIZE];
    if (t->has_ledger && t->ledger_nodes > 0)
        add_elsewhere(t, out);
    int code = add_cpu(t, out, err);
    if (code < 0)
        return code;
    if (r->gpu.n == 1 && t->gpu.total.ns > 0)
        prn_buffer_printf(out, "%sAll GPU time is in one kernel.", out->len ? " " : "");
    if (r->gpu.n > 1 && t->gpu.total.ns > 0) {
        prn_buffer_printf(out, "%sThe longest of %zu GPU kernels takes ", out->len ? " " : "",
                          r->gpu.n);
        add_percent((double)r->gpu.groups[0]->total.ns, (double)t->gpu.total.ns, out);
        prn_buffer_add(out, " of their time.");
    }
    if (r->cpu.n == 0 && r->gpu.n == 0)
        prn_buffer_add(out, "The chosen runs and names have no kernel times.");
    if (t->has_ledger && t->n_selected > 0)
        prn_buffer_printf(
            out, "%sA run takes %s on average.", out->len ? " " : "",
            prn_format_duration(text, t->ledger_ns[PRN_LEDGER_TOTAL] / (double)t->n_selected));
    return prn_buffer_error(out, err);
}
