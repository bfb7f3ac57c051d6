/* The tables of recorded programs. Their columns, spacing and order of rows are those that users of
 * octoml-profile know; figures that would round away get more digits. */
#include "report/recorded/view.h"

#include "spec/spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TOP_GRAPHS 3

/* A table being filled. */
struct sheet {
    const struct prn_recorded_view *view;
    const struct prn_recorded *recorded;
    struct prn_table *table;
    bool markdown, verbose;
    size_t n_columns;
    int error; /* of cells that could not be made */
};

static struct sheet new_sheet(const struct prn_recorded_view *view,
                              const struct prn_recorded *recorded, const struct prn_look *look)
{
    struct sheet s = {.view = view,
                      .recorded = recorded,
                      .table = prn_table_new(),
                      .markdown = look->markdown,
                      .verbose = look->verbose};
    if (!look->markdown)
        prn_table_width(s.table, look->width);
    prn_table_rest(s.table, look->verbose ? NULL : PRN_LOOK_MORE, 1);
    return s;
}

static void add_column(struct sheet *s, const char *title, enum prn_table_align align)
{
    prn_table_column(s->table, title, align);
    s->n_columns++;
}

/* A cell with a name, which may hold anything. */
static void add_name(struct sheet *s, const char *before, const char *name)
{
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 20);
    if (s->markdown)
        prn_markdown_text(&text, name);
    else
        prn_buffer_add(&text, name);
    if (text.error)
        s->error = text.error;
    prn_table_cell(s->table, "%s%s", before, prn_buffer_text(&text));
    prn_buffer_release(&text);
}

static void add_ms(struct sheet *s, double ns)
{
    char text[PRN_FORMAT_SIZE];
    prn_table_cell(s->table, "%s", isfinite(ns) ? prn_format_ms(text, ns) : "N/A");
}

static void add_integer(struct sheet *s, int64_t value)
{
    char text[PRN_FORMAT_SIZE];
    prn_table_cell(s->table, "%s", prn_format_integer(text, (uint64_t)value));
}

static void add_fraction(struct sheet *s, double fraction,
                         void (*write)(struct prn_buffer *, double))
{
    struct prn_buffer text = PRN_BUFFER_INIT(PRN_FORMAT_SIZE);
    write(&text, fraction);
    if (text.error)
        s->error = text.error;
    prn_table_cell(s->table, "%s", prn_buffer_text(&text));
    prn_buffer_release(&text);
}

static void add_empty(struct sheet *s, size_t n)
{
    while (n-- > 0)
        prn_table_cell(s->table, "%s", "");
}

/* A line between groups of rows; Markdown has none. */
static void add_gap(struct sheet *s)
{
    if (!s->markdown)
        add_empty(s, s->n_columns);
}

static int recorded_table_finish(struct sheet *s, struct prn_buffer *out, struct prony_error *err)
{
    if (s->error && !out->error)
        out->error = s->error;
    return prn_table_end(s->table, s->markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT,
                         out, err);
}

/* ---- A row per backend ---- */

static void add_flags(struct sheet *s, unsigned flags)
{
    struct prn_buffer text = PRN_BUFFER_INIT(1024);
    prn_flags_text(&text, flags);
    if (text.error)
        s->error = text.error;
    prn_table_cell(s->table, "%s", prn_buffer_text(&text));
    prn_buffer_release(&text);
}

bool prn_recorded_priced(const struct prn_profile *profile, bool verbose)
{
    bool priced = verbose;
    for (size_t i = 0; i < profile->n_results; i++)
        priced |= isfinite(profile->results[i].usd_per_hour);
    return priced;
}

int prn_recorded_summary_table(const struct prn_recorded_view *view,
                               const struct prn_recorded *recorded, const struct prn_look *look,
                               struct prn_buffer *out, struct prony_error *err)
{
    struct sheet s = new_sheet(view, recorded, look);
    const struct prn_profile *p = view->profile;
    bool hardware = look->verbose || !prn_view_all_local(p);
    bool priced = prn_recorded_priced(p, look->verbose);
    if (hardware) {
        add_column(&s, "Instance", PRN_TABLE_ALIGN_LEFT);
        add_column(&s, "Processor", PRN_TABLE_ALIGN_LEFT);
        prn_table_omit(s.table);
    }
    add_column(&s, "Backend", PRN_TABLE_ALIGN_LEFT);
    prn_table_shrink(s.table);
    add_column(&s, "Backend Time (ms)", PRN_TABLE_ALIGN_RIGHT);
    prn_table_omit(s.table);
    add_column(&s, "Total Time (ms)", PRN_TABLE_ALIGN_RIGHT);
    add_column(&s, "±", PRN_TABLE_ALIGN_RIGHT);
    if (priced)
        add_column(&s, "Cost ($/MReq)", PRN_TABLE_ALIGN_RIGHT);
    bool flagged = false;
    for (size_t i = 0; i < view->profile->n_results; i++)
        flagged |= recorded->totals[i].flags != 0;
    if (flagged)
        add_column(&s, "Flags", PRN_TABLE_ALIGN_LEFT);
    for (size_t i = 0; i < view->profile->n_results; i++) {
        const struct prn_result *result = &view->profile->results[i];
        const struct prn_recorded_total *total = &recorded->totals[i];
        char text[PRN_FORMAT_SIZE];
        double cost = prn_cost_per_million(result->usd_per_hour, total->median_ns);
        if (hardware) {
            add_name(&s, "", result->hardware);
            add_name(&s, "", result->processor ? result->processor : "N/A");
        }
        add_name(&s, "", view->backends.backends[i]);
        add_ms(&s, recorded->compiled ? total->backend_ns : total->backend_median_ns);
        add_ms(&s, total->median_ns);
        if (isfinite(total->median_ns))
            add_fraction(&s, prn_recorded_half_width(total), prn_view_half_width);
        else
            add_empty(&s, 1);
        if (priced)
            prn_table_cell(s.table, "%s", isfinite(cost) ? prn_format_dollars(text, cost) : "N/A");
        if (flagged)
            add_flags(&s, total->flags);
    }
    return recorded_table_finish(&s, out, err);
}

/* ---- A row per segment and backend ---- */

struct segment_style {
    bool numbered; /* numbers stand in a column of their own */
    size_t indent; /* of backends, behind the number */
    const char *samples, *mean;
};

/* In the classic layout counts have five places at least. */
static const struct segment_style modern = {true, 2, "Samples", "Avg ms"};
static const struct segment_style classic = {false, 1, " Runs", "Mean ms"};

static void add_spread_columns(struct sheet *s)
{
    add_column(s, "±", PRN_TABLE_ALIGN_RIGHT);
    add_column(s, "SD", PRN_TABLE_ALIGN_RIGHT);
    add_column(s, "Min ms", PRN_TABLE_ALIGN_RIGHT);
    add_column(s, "Max ms", PRN_TABLE_ALIGN_RIGHT);
}

static void add_series(struct sheet *s, const struct prn_series *times)
{
    bool known = times->count > 0;
    add_integer(s, times->count);
    add_ms(s, known ? times->mean_ns : NAN);
    if (!s->verbose)
        return;
    if (!known) {
        add_empty(s, 4);
        return;
    }
    add_fraction(s, prn_series_half_width(times, s->recorded->runs), prn_view_half_width);
    add_fraction(s, times->sd_ns / times->mean_ns, prn_view_percent);
    add_ms(s, times->min_ns);
    add_ms(s, times->max_ns);
}

/* The cell, or two, that name a segment: its number and what it is. */
static void name_segment(struct sheet *s, const struct segment_style *style, size_t number,
                         const char *what)
{
    char most[32];
    int width = snprintf(most, sizeof most, "%zu", s->recorded->n_segments - 1);
    if (style->numbered) {
        prn_table_cell(s->table, "%zu", number);
        prn_table_cell(s->table, "%s", what);
    } else {
        prn_table_cell(s->table, "%*zu  %s", width, number, what);
    }
}

static void name_backend(struct sheet *s, const struct segment_style *style, const char *name)
{
    char text[64];
    int width = snprintf(text, sizeof text, "%zu", s->recorded->n_segments - 1);
    int indent = (int)style->indent + (style->numbered ? 0 : width + 2);
    snprintf(text, sizeof text, "%*s", indent, "");
    if (style->numbered)
        prn_table_cell(s->table, "%s", "");
    add_name(s, text, name);
}

static void add_local(struct sheet *s, const struct segment_style *style, size_t number)
{
    const struct prn_segment *segment = &s->recorded->segments[number];
    char what[32];
    if (style->numbered)
        snprintf(what, sizeof what, "L%s", s->view->local + 1);
    else
        snprintf(what, sizeof what, "Uncompiled");
    name_segment(s, style, number, what);
    add_series(s, &segment->local);
    add_empty(s, 1);
}

static void add_graph(struct sheet *s, const struct segment_style *style, size_t number)
{
    const struct prn_segment *segment = &s->recorded->segments[number];
    const struct prn_profile *p = s->view->profile;
    const struct prn_recorded_graph *graph = prn_profile_graph(p, segment->graph);
    char what[40];
    snprintf(what, sizeof what, "Graph #%lld", (long long)segment->graph);
    name_segment(s, style, number, what);
    add_empty(s, s->n_columns - (style->numbered ? 2 : 1));
    if (graph && graph->local_reason) {
        name_backend(s, style, "ran locally");
        add_series(s, &segment->local);
        add_empty(s, 1);
        return;
    }
    for (size_t i = 0; i < p->n_results; i++) {
        name_backend(s, style, s->view->backends.names[i]);
        add_series(s, &segment->results[i].times);
        add_integer(s, segment->results[i].failed);
    }
}

int prn_recorded_segment_table(const struct prn_recorded_view *view,
                               const struct prn_recorded *recorded, enum prn_recorded_layout layout,
                               const struct prn_look *look, struct prn_buffer *out,
                               struct prony_error *err)
{
    const struct segment_style *style = layout == PRN_RECORDED_LAYOUT_CLASSIC ? &classic : &modern;
    struct sheet s = new_sheet(view, recorded, look);
    if (style->numbered)
        add_column(&s, "", PRN_TABLE_ALIGN_RIGHT);
    add_column(&s, "Segment", PRN_TABLE_ALIGN_LEFT);
    prn_table_shrink(s.table);
    add_column(&s, style->samples, PRN_TABLE_ALIGN_RIGHT);
    add_column(&s, style->mean, PRN_TABLE_ALIGN_RIGHT);
    if (look->verbose)
        add_spread_columns(&s);
    add_column(&s, "Failures", PRN_TABLE_ALIGN_RIGHT);
    for (size_t i = 0; i < recorded->n_segments; i++) {
        if (i > 0)
            add_gap(&s);
        if (recorded->segments[i].graph != 0)
            add_graph(&s, style, i);
        else
            add_local(&s, style, i);
    }
    return recorded_table_finish(&s, out, err);
}

/* ---- The graphs that take longest ---- */

static void add_share(struct sheet *s, size_t backend, double part_ns)
{
    char text[PRN_FORMAT_SIZE];
    if (!s->recorded->compiled)
        prn_table_cell(s->table, "%s",
                       prn_recorded_share(text, part_ns, s->recorded->totals[backend].total_ns));
}

/* One graph, or with `calls` 0 several together. */
static void add_subgraph(struct sheet *s, const struct prn_subgraph *subgraph)
{
    const struct prn_profile *p = s->view->profile;
    const struct prn_recorded_graph *graph = prn_profile_graph(p, subgraph->id);
    if (graph && graph->local_reason) {
        add_name(s, "  ", "ran locally");
        add_empty(s, s->n_columns - 1);
        return;
    }
    for (size_t i = 0; i < p->n_results; i++) {
        const struct prn_subgraph_time *time = &subgraph->times[i];
        add_name(s, "  ", s->view->backends.names[i]);
        if (subgraph->calls > 0)
            add_ms(s, time->run_ns / (double)subgraph->calls);
        else
            add_empty(s, 1);
        add_ms(s, time->run_ns);
        add_share(s, i, time->run_ns);
        add_integer(s, time->failed);
    }
}

/* The rest as one: sums of times and failures. */
static int add_others(struct sheet *s, const struct prn_subgraph *others, size_t n,
                      struct prn_arena *arena, struct prony_error *err)
{
    const struct prn_profile *p = s->view->profile;
    struct prn_subgraph all = {.times =
                                   PRN_ARENA_ARRAY(arena, p->n_results, struct prn_subgraph_time)};
    if (!all.times)
        return prn_fail_memory(err);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < p->n_results; i++) {
            int64_t *failed = &all.times[i].failed;
            all.times[i].run_ns += others[k].times[i].run_ns;
            if (__builtin_add_overflow(*failed, others[k].times[i].failed, failed))
                *failed = INT64_MAX;
        }
    prn_table_cell(s->table, "%zu other subgraph%s", n, n == 1 ? "" : "s");
    add_empty(s, s->n_columns - 1);
    add_subgraph(s, &all);
    return 0;
}

static void add_all_local(struct sheet *s)
{
    size_t n = s->recorded->n_segments - prn_recorded_calls(s->recorded);
    prn_table_cell(s->table, "%zu %s segment%s", n, s->view->local, n == 1 ? "" : "s");
    add_empty(s, 1);
    add_ms(s, s->recorded->local_ns);
    add_empty(s, s->n_columns - 3);
    for (size_t i = 0; !s->recorded->compiled && i < s->view->profile->n_results; i++) {
        add_name(s, "  ", s->view->backends.names[i]);
        add_empty(s, 2);
        add_share(s, i, s->recorded->local_ns);
        add_empty(s, 1);
    }
}

static int fill_top(struct sheet *s, struct prn_arena *arena, struct prony_error *err)
{
    size_t n;
    struct prn_subgraph *subgraphs;
    int code = prn_recorded_subgraphs(s->view->profile, s->recorded, arena, &n, &subgraphs, err);
    if (code < 0)
        return code;
    for (size_t i = 0; i < n && i < TOP_GRAPHS; i++) {
        prn_table_cell(s->table, "Graph #%lld (%zu call%s)", (long long)subgraphs[i].id,
                       subgraphs[i].calls, subgraphs[i].calls == 1 ? "" : "s");
        add_empty(s, s->n_columns - 1);
        add_subgraph(s, &subgraphs[i]);
        add_gap(s);
    }
    if (n > TOP_GRAPHS) {
        code = add_others(s, subgraphs + TOP_GRAPHS, n - TOP_GRAPHS, arena, err);
        add_gap(s);
    }
    add_all_local(s);
    return code;
}

int prn_recorded_top_table(const struct prn_recorded_view *view,
                           const struct prn_recorded *recorded, const struct prn_look *look,
                           struct prn_buffer *out, struct prony_error *err)
{
    struct sheet s = new_sheet(view, recorded, look);
    struct prn_arena arena = PRN_ARENA_INIT((size_t)256 << 20);
    add_column(&s, "Top subgraph", PRN_TABLE_ALIGN_LEFT);
    prn_table_shrink(s.table);
    add_column(&s, "Avg ms/call", PRN_TABLE_ALIGN_RIGHT);
    add_column(&s, "Avg ms/run", PRN_TABLE_ALIGN_RIGHT);
    if (!recorded->compiled)
        add_column(&s, "Runtime % of e2e", PRN_TABLE_ALIGN_RIGHT);
    add_column(&s, "Failures", PRN_TABLE_ALIGN_RIGHT);
    int code = fill_top(&s, &arena, err);
    prn_arena_release(&arena);
    if (code < 0) {
        prn_table_free(s.table);
        return code;
    }
    return recorded_table_finish(&s, out, err);
}
