/* Recorded programs as CSV: the same columns for local code, graphs and totals, empty where they
 * don't apply. */
#include "report/recorded/report.h"

#include "base/table.h"

#include <math.h>

struct sheet {
    struct prn_table *table;
    const struct prn_profile *profile;
    const struct prn_recorded *recorded;
    size_t index; /* of `recorded` */
    int error;    /* of cells that could not be made */
};

static void add_integer(struct sheet *s, int64_t value)
{
    prn_table_cell(s->table, "%lld", (long long)value);
}

static void add_empty(struct sheet *s, size_t n)
{
    while (n-- > 0)
        prn_table_cell(s->table, "%s", "");
}

static void add_profile(struct sheet *s, const char *row)
{
    prn_table_cell(s->table, "%s", row);
    prn_table_cell_text(s->table, s->recorded->function);
    add_integer(s, (int64_t)s->index + 1);
    add_integer(s, s->recorded->runs);
    add_integer(s, s->recorded->discarded);
    add_integer(s, s->recorded->repeats);
    prn_table_cell(s->table, "%s", s->recorded->compiled ? "yes" : "no");
}

/* Which segment, and which graph that is. */
static void add_segment(struct sheet *s, size_t number)
{
    const struct prn_recorded_graph *graph =
        prn_profile_graph(s->profile, s->recorded->segments[number].graph);
    add_integer(s, (int64_t)number);
    if (!graph) {
        add_empty(s, 3);
        return;
    }
    add_integer(s, graph->id);
    prn_table_cell_text(s->table, graph->name);
    prn_table_cell_text(s->table, graph->local_reason);
}

static void add_backend(struct sheet *s, size_t backend)
{
    const struct prn_result *result = &s->profile->results[backend];
    prn_table_cell_text(s->table, result->name);
    prn_table_cell_text(s->table, result->hardware);
    prn_table_cell_text(s->table, result->software);
    prn_table_cell_text(s->table, result->processor);
    prn_table_cell_exact(s->table, result->usd_per_hour);
}

static void add_series(struct sheet *s, const struct prn_series *series)
{
    bool known = series->count > 0;
    add_integer(s, series->count);
    prn_table_cell_exact(s->table, known ? series->mean_ns : NAN);
    prn_table_cell_exact(s->table, known ? series->sd_ns : NAN);
    prn_table_cell_exact(s->table, known ? series->min_ns : NAN);
    prn_table_cell_exact(s->table, known ? series->max_ns : NAN);
}

/* "10 × out of memory; 20 × no such kernel". */
static void add_failures(struct sheet *s, const struct prn_segment_result *result)
{
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 20);
    for (size_t i = 0; i < result->n_failures; i++)
        prn_buffer_printf(&text, "%s%lld × %s", i > 0 ? "; " : "",
                          (long long)result->failures[i].count, result->failures[i].message);
    add_integer(s, result->failed);
    prn_table_cell_text(s->table, prn_buffer_text(&text));
    if (text.error)
        s->error = text.error;
    prn_buffer_release(&text);
}

static void add_local_row(struct sheet *s, size_t number)
{
    const struct prn_segment *segment = &s->recorded->segments[number];
    add_profile(s, "local");
    add_segment(s, number);
    add_empty(s, 5);
    add_series(s, &segment->local);
    add_empty(s, 6);
}

static void add_graph_rows(struct sheet *s, size_t number)
{
    const struct prn_segment *segment = &s->recorded->segments[number];
    /* A graph that ran locally has times of that, too. */
    if (segment->local.count > 0)
        add_local_row(s, number);
    for (size_t i = 0; i < s->profile->n_results; i++) {
        add_profile(s, "graph");
        add_segment(s, number);
        add_backend(s, i);
        add_series(s, &segment->results[i].times);
        add_failures(s, &segment->results[i]);
        add_empty(s, 4);
    }
}

static void add_totals(struct sheet *s)
{
    for (size_t i = 0; i < s->profile->n_results; i++) {
        const struct prn_recorded_total *total = &s->recorded->totals[i];
        add_profile(s, "total");
        add_empty(s, 4);
        add_backend(s, i);
        add_empty(s, 7);
        prn_table_cell_exact(s->table, s->recorded->local_ns);
        prn_table_cell_exact(s->table, total->backend_ns);
        prn_table_cell_exact(s->table, total->total_ns);
        prn_table_cell_exact(s->table, total->usd_per_million);
    }
}

int prn_recorded_csv(const struct prn_profile *profile, struct prn_buffer *out,
                     struct prony_error *err)
{
    struct sheet s = {.table = prn_table_new(), .profile = profile};
    prn_table_columns(s.table, "row|function|profile|runs|discarded_runs|repeats|compiled|"
                               "segment|graph|graph_name|local_reason|backend|hardware|"
                               "software|processor|usd_per_hour|samples|mean_ns|sd_ns|min_ns|"
                               "max_ns|failed|failures|local_ns|backend_ns|total_ns|"
                               "usd_per_million");
    for (s.index = 0; s.index < profile->n_profiles; s.index++) {
        s.recorded = &profile->profiles[s.index];
        for (size_t i = 0; i < s.recorded->n_segments; i++)
            if (s.recorded->segments[i].graph != 0)
                add_graph_rows(&s, i);
            else
                add_local_row(&s, i);
        add_totals(&s);
    }
    if (s.error && !out->error)
        out->error = s.error;
    return prn_table_end(s.table, PRN_TABLE_STYLE_CSV, out, err);
}
