/* A trace as JSON, schema prony.trace/1: every group, every digit, times in µs as in the trace. */
#include "report/trace/view.h"

#include <math.h>

static void symbol(struct prn_json_writer *w, const char *key, const struct prn_symbol *s)
{
    if (s)
        prn_json_text(w, key, s->text);
}

void prn_trace_key_members(struct prn_json_writer *w, const struct prn_trace_key *key,
                           struct prn_buffer *scratch)
{
    if (key->node)
        prn_json_text(w, "node", prn_trace_node_name(key->node, scratch));
    symbol(w, "op", key->op);
    symbol(w, "provider", key->provider);
    symbol(w, "dimensions", key->dimensions);
    symbol(w, "input_type_shape", key->shape);
}

static void statistics(struct prn_json_writer *w, const struct prn_sketch *s, double first_ns)
{
    struct prn_interval mean = prn_sketch_mean_interval(s);
    bool p90 = s->count >= prn_stats_percentile_need(0.9);
    prn_json_object(w, "per_run");
    prn_json_number(w, "mean_us", mean.estimate / 1e3);
    prn_json_number(w, "mean_low_us", mean.low / 1e3);
    prn_json_number(w, "mean_high_us", mean.high / 1e3);
    prn_json_number(w, "p50_us", prn_sketch_quantile(s, 0.5) / 1e3);
    prn_json_number(w, "p90_us", p90 ? prn_sketch_quantile(s, 0.9) / 1e3 : NAN);
    prn_json_number(w, "max_us", s->max / 1e3);
    prn_json_bool(w, "exact", prn_sketch_is_exact(s));
    prn_json_number(w, "first_us", first_ns / 1e3);
    prn_json_end(w);
}

static void group(struct prn_json_writer *w, const struct prn_trace_rows *rows, size_t i, bool gpu,
                  struct prn_buffer *scratch)
{
    const struct prn_trace_group *g = rows->groups[i];
    double all = (double)rows->table->total.ns;
    struct prn_trace_key key = g->key;
    prn_json_object(w, NULL);
    if (gpu) {
        prn_json_text(w, "kernel", i < rows->shown ? rows->names[i] : key.node->text);
        prn_json_text(w, "symbol", key.node->text);
        key.node = NULL; /* a kernel isn't a node */
    }
    prn_trace_key_members(w, &key, scratch);
    prn_json_number(w, "duration_us", (double)g->total.ns / 1e3);
    prn_json_number(w, "pct", all > 0 ? 100 * ((double)g->total.ns / all) : NAN);
    prn_json_integer(w, "count", (int64_t)g->total.count);
    statistics(w, &g->per_run, g->first.count > 0 ? (double)g->first.ns : NAN);
    if (g->memory.events > 0)
        prn_schema_write(w, "memory", &prn_trace_use_schema, &g->memory);
    prn_json_end(w);
}

static void table(struct prn_json_writer *w, const char *key, const struct prn_trace_rows *rows,
                  bool gpu, struct prn_buffer *scratch)
{
    prn_json_object(w, key);
    prn_json_number(w, "duration_us", (double)rows->table->total.ns / 1e3);
    prn_json_integer(w, "count", (int64_t)rows->table->total.count);
    prn_json_array(w, "groups");
    for (size_t i = 0; i < rows->n; i++)
        group(w, rows, i, gpu, scratch);
    prn_json_end(w);
    prn_json_end(w);
}

static void mapping(struct prn_json_writer *w, const struct prn_trace_report *r)
{
    prn_json_array(w, "mapping");
    for (size_t i = 0; i < r->n_mapping; i++) {
        const struct prn_trace_mapping_row *row = &r->mapping[i];
        prn_json_object(w, NULL);
        symbol(w, "op", row->kernel->key.op);
        symbol(w, "input_type_shape", row->kernel->key.shape);
        prn_json_number(w, "op_count", row->op_count);
        symbol(w, "dimensions", row->kernel->key.dimensions);
        prn_json_number(w, "kernel_count", row->kernel_count);
        prn_json_number(w, "kernel_average_us", row->kernel_average_us);
        prn_json_number(w, "kernel_total_us", row->kernel_total_us);
        prn_json_number(w, "op_us", row->op_us);
        prn_json_number(w, "op_average_us", row->op_average_us);
        prn_json_number(w, "kernel_pct", row->kernel_pct);
        prn_json_number(w, "op_pct", row->op_pct);
        prn_json_text(w, "symbol", row->kernel->key.node->text);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void ledger_part(struct prn_json_writer *w, const struct prn_trace *t, const char *key,
                        enum prn_ledger_row row, int64_t first_ns)
{
    double total = t->ledger_ns[PRN_LEDGER_TOTAL];
    prn_json_object(w, key);
    prn_json_number(w, "duration_us", t->ledger_ns[row] / 1e3);
    prn_json_number(w, "pct", total > 0 ? 100 * (t->ledger_ns[row] / total) : NAN);
    statistics(w, &t->ledger[row], (double)first_ns);
    prn_json_end(w);
}

static void ledger(struct prn_json_writer *w, const struct prn_trace *t)
{
    if (!t->has_ledger) {
        prn_json_null(w, "ledger");
        return;
    }
    double node = t->ledger_ns[PRN_LEDGER_NODE];
    prn_json_object(w, "ledger");
#define PRN_X(name, field, title) \
    ledger_part(w, t, #field, PRN_LEDGER_##name, t->first_ledger.field);
    PRN_LEDGER_ROWS(PRN_X)
#undef PRN_X
    ledger_part(w, t, "run", PRN_LEDGER_TOTAL, t->first_ledger.total);
    prn_json_number(w, "parallel_factor", node > 0 ? t->ledger_node_sum_ns / node : NAN);
    prn_json_number(w, "nested_us", t->ledger_nested_ns / 1e3);
    prn_json_number(w, "nodes_per_run", (double)t->ledger_nodes / (double)t->n_selected);
    prn_json_bool(w, "approximate", t->ledger_approximate);
    prn_json_end(w);
}

/* Runs are numbered on from file to file. */
static void files(struct prn_json_writer *w, const struct prn_trace *t)
{
    prn_json_array(w, "files");
    for (size_t i = 0; i < t->n_files; i++) {
        prn_json_object(w, NULL);
        prn_json_text(w, "name", t->files[i].name);
        prn_json_integer(w, "events", (int64_t)t->files[i].events);
        prn_json_integer(w, "first_run", (int64_t)t->files[i].first_run);
        prn_json_integer(w, "runs", (int64_t)t->files[i].n_runs);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void runs(struct prn_json_writer *w, const struct prn_trace *t)
{
    prn_json_object(w, "runs");
    prn_json_integer(w, "found", (int64_t)t->n_runs);
    prn_json_integer(w, "analysed", (int64_t)t->n_selected);
    prn_json_text(w, "selected", t->selected);
    if (t->n_runs <= PRN_TRACE_RUNS_LISTED) {
        prn_json_array(w, "list");
        for (uint64_t i = 0; i < t->n_runs; i++) {
            prn_json_array_compact(w, NULL);
            prn_json_number(w, NULL, (double)t->runs[i].start_ns / 1e3);
            prn_json_number(w, NULL, (double)t->runs[i].duration_ns / 1e3);
            prn_json_number(w, NULL, (double)t->runs[i].node_ns / 1e3);
            prn_json_end(w);
        }
        prn_json_end(w);
    } else {
        prn_json_null(w, "list");
    }
    prn_json_end(w);
}

static void say(void *context, const char *sentence)
{
    prn_json_text(context, NULL, sentence);
}

int prn_trace_json_write(const struct prn_trace_report *r, struct prn_buffer *out,
                         struct prony_error *err)
{
    const struct prn_trace *t = r->trace;
    struct prn_json_writer w = prn_json_writer_init(out);
    struct prn_buffer scratch = PRN_BUFFER_INIT(PRN_TRACE_EVENT_MAX);
    int code = prn_trace_verdict(r, &scratch, err);
    if (code < 0) {
        prn_buffer_release(&scratch);
        return code;
    }
    prn_json_object(&w, NULL);
    prn_json_text(&w, "schema", "prony.trace/1");
    prn_json_text(&w, "verdict", prn_buffer_text(&scratch));
    prn_buffer_clear(&scratch);
    prn_json_object(&w, "trace");
    prn_json_text(&w, "name", t->name);
    prn_json_integer(&w, "bytes", (int64_t)t->counts.bytes);
    prn_json_integer(&w, "events", (int64_t)t->counts.events);
    prn_json_integer(&w, "passed_over", (int64_t)t->counts.passed_over);
    prn_json_integer(&w, "repaired", (int64_t)t->counts.repaired);
    prn_json_integer(&w, "lost", (int64_t)t->counts.lost);
    if (t->n_files > 1)
        files(&w, t);
    prn_json_end(&w);
    runs(&w, t);
    prn_json_array(&w, "warnings");
    prn_trace_report_warnings(r, say, &w);
    prn_json_end(&w);
    ledger(&w, t);
    table(&w, "cpu", &r->cpu, false, &scratch);
    table(&w, "gpu", &r->gpu, true, &scratch);
    if (r->options.mapping)
        mapping(&w, r);
    if (t->memory.n > 0)
        code = prn_trace_memory_json(&w, t, err);
    prn_json_end(&w);
    if (scratch.error)
        out->error = scratch.error;
    prn_buffer_release(&scratch);
    return code < 0 ? code : prn_buffer_error(out, err);
}
