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
#define WIDE_RATIO 0.2 /* half of the interval over the estimate */
#define RANK_SWEEP 1   /* of what a sweep is made for */
#define RANK_LAST 14

struct cell_context {
    const struct prn_view *view;
    const struct prn_result *result;
    size_t index;
    size_t axis; /* of a column that there is for each axis of a sweep */
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
    if (!c->view->compared[c->index] || !isfinite(ratio->estimate))
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
    /* Intervals are of logarithms: a wide one isn't symmetric. */
    if (half > WIDE_RATIO * ratio->estimate && half < 1e6)
        prn_buffer_printf(out, " (%.*f to %.*f)", decimals, ratio->low, decimals, ratio->high);
    else if (half > 0 && half < 1e6)
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

static void write_sizes(const struct cell_context *c, struct prn_buffer *out)
{
    if (c->view->profile->n_points > 1)
        prn_text_clean(out, prn_result_point(c->view->profile, c->result)->label);
}

/* Only where it isn't the time of a run. */
static void write_item(const struct cell_context *c, struct prn_buffer *out)
{
    const struct prn_profile *p = c->view->profile;
    bool batched = false;
    for (size_t i = 0; i < p->n_points; i++)
        batched = batched || p->points[i].batch > 1;
    if (c->view->sweep.active && batched)
        add_duration(out, prn_result_item_ns(p, c->result));
}

static void write_scaling(const struct cell_context *c, struct prn_buffer *out)
{
    const struct prn_sweep_axis *axis = &c->view->sweep.axes[c->axis];
    char text[PRN_FORMAT_SIZE];
    double scaling = axis->scaling[c->index];
    if (!isfinite(scaling))
        return;
    if (axis->option)
        prn_buffer_printf(out, "%.0f %%", 100 * scaling);
    else
        prn_buffer_printf(out, "%s×", prn_format_significant(text, scaling, 3));
}

static void write_best(const struct cell_context *c, struct prn_buffer *out)
{
    prn_sweep_marks(&c->view->sweep, c->index, ", ", out);
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
    {"Sizes", PRN_TABLE_ALIGN_LEFT, 0, true, write_sizes},
    {"Time", PRN_TABLE_ALIGN_RIGHT, 0, true, write_time},
    {"±", PRN_TABLE_ALIGN_RIGHT, 0, false, write_half_width},
    {"Per item", PRN_TABLE_ALIGN_RIGHT, RANK_SWEEP, false, write_item},
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
    {NULL, PRN_TABLE_ALIGN_RIGHT, 2, false, write_scaling}, /* once for each axis of a sweep */
    {"vs best", PRN_TABLE_ALIGN_RIGHT, 2, false, write_ratio},
    {"Cost ($/MReq)", PRN_TABLE_ALIGN_RIGHT, 3, false, write_cost},
    {"Samples", PRN_TABLE_ALIGN_RIGHT, 11, false, write_samples},
    {"Best", PRN_TABLE_ALIGN_LEFT, RANK_SWEEP, false, write_best},
};

/* A column as it is laid out; that for scaling is there once for each axis. */
struct placed {
    const struct column *column;
    const char *title;
    int rank;
    size_t axis;
    size_t width; /* 0: no cell has anything */
};

struct grid {
    struct prn_arena arena;
    struct placed *columns;
    size_t n_columns;
    const char **cells; /* row by row */
    size_t n_rows;
    size_t name_width; /* of the names in front of further tables */
};

static void widen(size_t *width, const char *text)
{
    size_t own = prn_text_width(text);
    *width = own > *width ? own : *width;
}

/* The text as it will stand in the table; NULL when memory runs out. */
static const char *finished_text(const struct prn_buffer *text, bool markdown,
                                 struct prn_arena *arena)
{
    struct prn_buffer escaped = PRN_BUFFER_INIT((size_t)8 << 20);
    if (markdown)
        prn_markdown_text(&escaped, prn_buffer_text(text));
    const char *finished = NULL;
    if (!text->error && !escaped.error)
        finished = prn_arena_strdup(arena, prn_buffer_text(markdown ? &escaped : text));
    prn_buffer_release(&escaped);
    return finished;
}

static const char *make_cell(const struct prn_view *view, bool markdown, size_t row,
                             const struct placed *placed, struct prn_arena *arena)
{
    struct cell_context c = {
        .view = view, .index = row, .result = &view->profile->results[row], .axis = placed->axis};
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 20);
    if (placed->column->also_unmeasured || prn_result_measured(c.result))
        placed->column->write(&c, &text);
    const char *cell = finished_text(&text, markdown, arena);
    prn_buffer_release(&text);
    return cell;
}

/* "Scaling" alone where one option was swept; the text below says which. */
static const char *scaling_title(const struct prn_sweep_view *sweep, size_t index, bool markdown,
                                 struct prn_arena *arena)
{
    const struct prn_sweep_axis *axis = &sweep->axes[index];
    size_t n_options = sweep->n_axes - !sweep->axes[0].option;
    struct prn_buffer title = PRN_BUFFER_INIT((size_t)1 << 16);
    struct prn_buffer option = PRN_BUFFER_INIT((size_t)1 << 16);
    prn_text_clean(&option, axis->option ? axis->option : "");
    prn_buffer_add(&title, axis->option ? "Scaling" : "Batch gain");
    if (axis->option && n_options > 1)
        prn_buffer_printf(&title, " (%s)", prn_buffer_text(&option));
    if (option.error)
        title.error = option.error;
    const char *text = finished_text(&title, markdown, arena);
    prn_buffer_release(&option);
    prn_buffer_release(&title);
    return text;
}

/* In a sweep on one machine, what the rows have in common gives way to what they differ in. */
static int rank_of(const struct prn_view *view, const struct column *column)
{
    const struct prn_profile *p = view->profile;
    bool hardware = column->write == write_instance || column->write == write_processor;
    if (view->sweep.active && column->write == write_peak)
        return RANK_SWEEP;
    if (!hardware || !view->sweep.active)
        return column->rank;
    for (size_t i = 1; i < p->n_results; i++)
        if (strcmp(p->results[i].hardware, p->results[0].hardware) != 0)
            return column->rank;
    return RANK_LAST;
}

static int place_columns(const struct prn_view *view, bool markdown, struct grid *g,
                         struct prony_error *err)
{
    size_t most = PRN_ARRAY_SIZE(columns) + view->sweep.n_axes;
    g->columns = PRN_ARENA_ARRAY(&g->arena, most, struct placed);
    if (!g->columns)
        return prn_fail_memory(err);
    for (size_t k = 0; k < PRN_ARRAY_SIZE(columns); k++) {
        bool scaling = columns[k].write == write_scaling;
        size_t times = scaling ? view->sweep.n_axes : 1;
        for (size_t axis = 0; axis < times; axis++) {
            const char *title =
                scaling ? scaling_title(&view->sweep, axis, markdown, &g->arena) : columns[k].title;
            if (!title)
                return prn_fail_memory(err);
            g->columns[g->n_columns++] = (struct placed){.column = &columns[k],
                                                         .title = title,
                                                         .rank = rank_of(view, &columns[k]),
                                                         .axis = axis};
        }
    }
    return 0;
}

static int fill_grid(const struct prn_view *view, bool markdown, struct grid *g,
                     struct prony_error *err)
{
    int code = place_columns(view, markdown, g, err);
    if (code < 0)
        return code;
    g->n_rows = view->profile->n_results;
    g->cells = PRN_ARENA_ARRAY(&g->arena, g->n_rows * g->n_columns, const char *);
    if (!g->cells)
        return prn_fail_memory(err);
    widen(&g->name_width, "Backend");
    for (size_t row = 0; row < g->n_rows; row++) {
        widen(&g->name_width, view->names[row]);
        for (size_t k = 0; k < g->n_columns; k++) {
            struct placed *placed = &g->columns[k];
            const char *cell = make_cell(view, markdown, row, placed, &g->arena);
            if (!cell)
                return prn_fail_memory(err);
            if (cell[0])
                widen(&placed->width, placed->title);
            widen(&placed->width, cell);
            g->cells[row * g->n_columns + k] = cell;
        }
    }
    return 0;
}

/* The column that matters most among those of `left`, or the number of columns. */
static size_t next_column(const struct grid *g, const bool *left)
{
    size_t best = g->n_columns;
    for (size_t k = 0; k < g->n_columns; k++)
        if (left[k] && (best == g->n_columns || g->columns[k].rank < g->columns[best].rank))
            best = k;
    return best;
}

/* Moves columns from `left` to `chosen` as long as they fit; at least one. */
static void choose_columns(const struct grid *g, bool first, size_t width, bool *left, bool *chosen)
{
    size_t used = first ? 0 : g->name_width;
    bool any = false;
    for (size_t k = 0; k < g->n_columns; k++)
        chosen[k] = false;
    for (;;) {
        size_t k = next_column(g, left);
        if (k == g->n_columns)
            return;
        size_t with = used + (used ? GAP : 0) + g->columns[k].width;
        bool must = (first && g->columns[k].rank == 0) || !any;
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
    for (size_t k = 0; k < g->n_columns; k++)
        if (chosen[k])
            prn_table_column(table, g->columns[k].title, g->columns[k].column->align);
    for (size_t row = 0; row < g->n_rows; row++) {
        /* A result without figures has nothing to say in a further table. */
        if (!first && !prn_result_measured(&view->profile->results[row]))
            continue;
        if (!first)
            prn_table_cell(table, "%s", view->names[row]);
        for (size_t k = 0; k < g->n_columns; k++)
            if (chosen[k])
                prn_table_cell(table, "%s", g->cells[row * g->n_columns + k]);
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
    bool *left = PRN_ARENA_ARRAY(&g.arena, g.n_columns, bool);
    bool *chosen = PRN_ARENA_ARRAY(&g.arena, g.n_columns, bool);
    if (code == 0 && (!left || !chosen))
        code = prn_fail_memory(err);
    for (size_t k = 0; code == 0 && k < g.n_columns; k++)
        left[k] = g.columns[k].width > 0;
    for (bool first = true; code == 0 && next_column(&g, left) < g.n_columns; first = false) {
        choose_columns(&g, first, width, left, chosen);
        if (!first)
            prn_buffer_add_char(out, '\n');
        code = write_table(view, &g, first, chosen, style, out, err);
    }
    prn_arena_release(&g.arena);
    return code;
}
