/*
 * The table of results. Columns are data: a title, how much they matter, and a function that writes
 * a cell. All cells are made first; a column without any is left out; then tables are filled with
 * the columns that matter most until the width is used up, and what is left goes to the next table.
 */
#include "report/profile_view.h"

#include "base/format.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GAP 2

struct cell_context {
    const struct prn_view *view;
    const struct prn_result *result;
    size_t index;
};

struct column {
    const char *title;
    enum prn_table_align align;
    int rank;             /* 0: always in the first table; otherwise the smaller, the sooner */
    bool also_unmeasured; /* has a cell for failed results too */
    void (*write)(const struct cell_context *c, struct prn_buffer *out);
};

static void write_instance(const struct cell_context *c, struct prn_buffer *out)
{
    prn_text_clean(out, c->result->hardware);
}

static void write_processor(const struct cell_context *c, struct prn_buffer *out)
{
    prn_text_clean(out, c->result->processor ? c->result->processor : "N/A");
}

static void write_backend(const struct cell_context *c, struct prn_buffer *out)
{
    prn_buffer_add(out, c->view->backends[c->index]);
}

static void add_duration(struct prn_buffer *out, double ns)
{
    char text[PRN_FORMAT_SIZE];
    if (isfinite(ns) && ns >= 0)
        prn_buffer_add(out, prn_format_duration(text, ns));
}

static void write_time(const struct cell_context *c, struct prn_buffer *out)
{
    if (c->result->error_code != 0)
        prn_buffer_add(out, "failed");
    else if (!prn_result_measured(c->result))
        prn_buffer_add(out, "none");
    else
        add_duration(out, c->result->stats.median_ns);
    if (c->result->flags != 0)
        prn_buffer_add_char(out, '*');
}

static void write_half_width(const struct cell_context *c, struct prn_buffer *out)
{
    prn_view_percent(out, prn_result_half_width(c->result));
}

static void write_spread(const struct cell_context *c, struct prn_buffer *out)
{
    prn_view_percent(out, c->result->stats.spread);
}

#define PRN_X(name, p)                                                             \
    static void write_##name(const struct cell_context *c, struct prn_buffer *out) \
    {                                                                              \
        add_duration(out, c->result->stats.name##_ns);                             \
    }
PRN_PERCENTILE_MAP(PRN_X)
#undef PRN_X

static void write_throughput(const struct cell_context *c, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    double rate = prn_result_rate(c->view->profile, c->result);
    if (isfinite(rate))
        prn_buffer_printf(out, "%s/s", prn_format_count(text, rate));
}

static void write_gflops(const struct cell_context *c, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    double gflops = prn_result_gflops(c->view->profile, c->result);
    if (isfinite(gflops))
        prn_buffer_add(out, prn_format_significant(text, gflops, 3));
}

static void write_first_run(const struct cell_context *c, struct prn_buffer *out)
{
    add_duration(out, (double)c->view->launches[c->index].first_run_ns);
}

static void write_load(const struct cell_context *c, struct prn_buffer *out)
{
    add_duration(out, (double)c->view->launches[c->index].load_ns);
}

static void write_peak(const struct cell_context *c, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    int64_t peak = c->view->launches[c->index].peak_bytes;
    if (peak >= 0)
        prn_buffer_add(out, prn_format_bytes(text, (double)peak));
}

/* Decimals that show a ratio to the hundredth, or finer where the interval is. */
static int ratio_decimals(double estimate, double half)
{
    if (estimate >= 100)
        return 0;
    if (estimate >= 10)
        return 1;
    return half > 0 && half < 0.005 ? 3 : 2;
}

static void write_ratio(const struct cell_context *c, struct prn_buffer *out)
{
    const struct prn_interval *ratio = &c->result->ratio;
    if (c->view->n_measured < 2 || !isfinite(ratio->estimate))
        return;
    double half = (ratio->high - ratio->low) / 2;
    if (ratio->estimate >= 1e6) {
        char text[PRN_FORMAT_SIZE];
        prn_buffer_printf(out, "%s×", prn_format_significant(text, ratio->estimate, 3));
        return;
    }
    int decimals = ratio_decimals(ratio->estimate, half);
    prn_buffer_printf(out, "%.*f×", decimals, ratio->estimate);
    if (c->result->verdict == PRN_VERDICT_SAME) {
        prn_buffer_add(out, " same");
        return;
    }
    if (half > 0 && half < 1e6)
        prn_buffer_printf(out, " ±%.*f", decimals, fmax(half, pow(10, -decimals)));
    if (c->result->verdict == PRN_VERDICT_UNSURE)
        prn_buffer_add(out, " ?");
}

static void write_cost(const struct cell_context *c, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    double cost = prn_result_cost(c->view->profile, c->result);
    prn_buffer_add(out, isfinite(cost) ? prn_format_dollars(text, cost) : "N/A");
}

static void write_samples(const struct cell_context *c, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    prn_buffer_add(out, prn_format_integer(text, c->result->n_samples));
}

static const struct column columns[] = {
    {"Instance", PRN_TABLE_ALIGN_LEFT, 0, true, write_instance},
    {"Processor", PRN_TABLE_ALIGN_LEFT, 0, true, write_processor},
    {"Backend", PRN_TABLE_ALIGN_LEFT, 0, true, write_backend},
    {"Time", PRN_TABLE_ALIGN_RIGHT, 0, true, write_time},
    {"±", PRN_TABLE_ALIGN_RIGHT, 0, false, write_half_width},
    {"Spread", PRN_TABLE_ALIGN_RIGHT, 5, false, write_spread},
    {"p90", PRN_TABLE_ALIGN_RIGHT, 9, false, write_p90},
    {"p95", PRN_TABLE_ALIGN_RIGHT, 12, false, write_p95},
    {"p99", PRN_TABLE_ALIGN_RIGHT, 8, false, write_p99},
    {"p99.9", PRN_TABLE_ALIGN_RIGHT, 13, false, write_p999},
    {"Throughput", PRN_TABLE_ALIGN_RIGHT, 1, false, write_throughput},
    {"GFLOP/s", PRN_TABLE_ALIGN_RIGHT, 10, false, write_gflops},
    {"First run", PRN_TABLE_ALIGN_RIGHT, 6, false, write_first_run},
    {"Load", PRN_TABLE_ALIGN_RIGHT, 7, false, write_load},
    {"Peak memory", PRN_TABLE_ALIGN_RIGHT, 4, false, write_peak},
    {"vs best", PRN_TABLE_ALIGN_RIGHT, 2, false, write_ratio},
    {"Cost ($/MReq)", PRN_TABLE_ALIGN_RIGHT, 3, false, write_cost},
    {"Samples", PRN_TABLE_ALIGN_RIGHT, 11, false, write_samples},
};

#define N_COLUMNS PRN_ARRAY_SIZE(columns)

struct grid {
    struct prn_arena arena;
    const char **cells; /* row by row */
    size_t n_rows;
    size_t widths[N_COLUMNS]; /* 0: no cell has anything */
    size_t name_width;        /* of the names in front of further tables */
};

static void widen(size_t *width, const char *text)
{
    size_t own = prn_text_width(text);
    *width = own > *width ? own : *width;
}

/* One cell as it will stand in the table; NULL when memory runs out. */
static const char *make_cell(const struct prn_view *view, bool markdown, size_t row, size_t k,
                             struct prn_arena *arena)
{
    struct cell_context c = {.view = view, .index = row, .result = &view->profile->results[row]};
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 20);
    struct prn_buffer escaped = PRN_BUFFER_INIT((size_t)8 << 20);
    if (columns[k].also_unmeasured || prn_result_measured(c.result))
        columns[k].write(&c, &text);
    if (markdown)
        prn_markdown_text(&escaped, prn_buffer_text(&text));
    const char *cell = NULL;
    if (!text.error && !escaped.error)
        cell = prn_arena_strdup(arena, prn_buffer_text(markdown ? &escaped : &text));
    prn_buffer_release(&text);
    prn_buffer_release(&escaped);
    return cell;
}

static int fill_grid(const struct prn_view *view, bool markdown, struct grid *g,
                     struct prony_error *err)
{
    g->n_rows = view->profile->n_results;
    g->cells = PRN_ARENA_ARRAY(&g->arena, g->n_rows * N_COLUMNS, const char *);
    if (!g->cells)
        return prn_fail_memory(err);
    widen(&g->name_width, "Backend");
    for (size_t row = 0; row < g->n_rows; row++) {
        widen(&g->name_width, view->names[row]);
        for (size_t k = 0; k < N_COLUMNS; k++) {
            const char *cell = make_cell(view, markdown, row, k, &g->arena);
            if (!cell)
                return prn_fail_memory(err);
            if (cell[0])
                widen(&g->widths[k], columns[k].title);
            widen(&g->widths[k], cell);
            g->cells[row * N_COLUMNS + k] = cell;
        }
    }
    return 0;
}

/* The column that matters most among those of `left`, or N_COLUMNS. */
static size_t next_column(const bool *left)
{
    size_t best = N_COLUMNS;
    for (size_t k = 0; k < N_COLUMNS; k++)
        if (left[k] && (best == N_COLUMNS || columns[k].rank < columns[best].rank))
            best = k;
    return best;
}

/* Moves columns from `left` to `chosen` as long as they fit; at least one. */
static void choose_columns(const struct grid *g, bool first, size_t width, bool *left, bool *chosen)
{
    size_t used = first ? 0 : g->name_width;
    bool any = false;
    for (;;) {
        size_t k = next_column(left);
        if (k == N_COLUMNS)
            return;
        size_t with = used + (used ? GAP : 0) + g->widths[k];
        bool must = (first && columns[k].rank == 0) || !any;
        if (with > width && !must)
            return;
        used = with;
        any = true;
        left[k] = false;
        chosen[k] = true;
    }
}

static int write_table(const struct prn_view *view, const struct grid *g, bool first,
                       const bool *chosen, enum prn_table_style style, struct prn_buffer *out,
                       struct prony_error *err)
{
    struct prn_table *table = prn_table_new();
    if (!first)
        prn_table_column(table, "Backend", PRN_TABLE_ALIGN_LEFT);
    for (size_t k = 0; k < N_COLUMNS; k++)
        if (chosen[k])
            prn_table_column(table, columns[k].title, columns[k].align);
    for (size_t row = 0; row < g->n_rows; row++) {
        /* A result without figures has nothing to say in a further table. */
        if (!first && !prn_result_measured(&view->profile->results[row]))
            continue;
        if (!first)
            prn_table_cell(table, "%s", view->names[row]);
        for (size_t k = 0; k < N_COLUMNS; k++)
            if (chosen[k])
                prn_table_cell(table, "%s", g->cells[row * N_COLUMNS + k]);
    }
    int code = prn_table_write(table, style, out, err);
    prn_table_free(table);
    return code;
}

int prn_view_tables(const struct prn_view *view, enum prn_table_style style, size_t width,
                    struct prn_buffer *out, struct prony_error *err)
{
    struct grid g = {.arena = PRN_ARENA_INIT((size_t)256 << 20)};
    int code = fill_grid(view, style == PRN_TABLE_STYLE_MARKDOWN, &g, err);
    bool left[N_COLUMNS];
    for (size_t k = 0; k < N_COLUMNS; k++)
        left[k] = g.widths[k] > 0;
    for (bool first = true; code == 0 && next_column(left) < N_COLUMNS; first = false) {
        bool chosen[N_COLUMNS] = {false};
        choose_columns(&g, first, width, left, chosen);
        if (!first)
            prn_buffer_add_char(out, '\n');
        code = write_table(view, &g, first, chosen, style, out, err);
    }
    prn_arena_release(&g.arena);
    return code;
}
