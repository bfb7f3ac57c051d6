/*
 * The table of results. Columns are data: a title, how much they matter, and a function that writes
 * a cell. All cells are made first; a column without any is left out. If the rest is too wide,
 * names are shortened to what tells them apart, and then the columns that matter least go: for
 * good, or with everything wanted to further tables.
 */
#include "report/profile/view.h"

#include "base/format.h"
#include "base/map.h"
#include "base/text.h"
#include "report/names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GAP 2
#define WIDE_RATIO 0.2 /* half of the interval over the estimate */
#define NAME_MIN \
    12 /* characters that a shortened name has at least, where there is room for more */

struct cell_context {
    const struct prn_view *view;
    const struct prn_result *result;
    size_t index;
    size_t axis; /* of a column that there is for each axis of a sweep */
    bool verbose;
};

struct column {
    const char *title;
    enum prn_table_align align;
    int rank; /* 0: always in the first table; otherwise the smaller, the sooner */
    enum { ALWAYS, VERBOSE, BRIEF } when;
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
    prn_buffer_add(out, c->view->fulls[c->index]);
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
    if (c->verbose && c->result->flags != 0)
        prn_buffer_add_char(out, '*');
}

static void write_half_width(const struct cell_context *c, struct prn_buffer *out)
{
    double half = prn_result_half_width(c->result);
    if (c->verbose || !isnan(half))
        prn_view_half_width(out, half);
}

static void write_spread(const struct cell_context *c, struct prn_buffer *out)
{
    prn_view_percent(out, c->result->n_samples < PRN_UNITS_MIN ? NAN : c->result->stats.spread);
}

#define PRN_X(name, p)                                                             \
    static void write_##name(const struct cell_context *c, struct prn_buffer *out) \
    {                                                                              \
        add_duration(out, c->result->stats.name##_ns);                             \
    }
PRN_PERCENTILE_MAP(PRN_X)
#undef PRN_X

/* Runs, or what a run has several of. */
static void write_rate(const struct cell_context *c, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    double rate = prn_result_rate(c->view->profile, c->result);
    if (isfinite(rate))
        prn_buffer_add(out, prn_format_count(text, rate));
}

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
    bool enough = c->result->n_launches >= PRN_UNITS_MIN;
    double half = enough ? (ratio->high - ratio->low) / 2 : NAN;
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

/* Whether the ratio's interval is so wide that its middle says little. */
static bool is_wide(const struct prn_result *r)
{
    double half = (r->ratio.high - r->ratio.low) / 2;
    return r->n_launches >= PRN_UNITS_MIN && half > WIDE_RATIO * r->ratio.estimate && half < 1e6;
}

/* "fastest", "1.60×", ">1.22×", "same", "1.05× ?": what the row is beside the fastest of its
 * point. */
static void write_standing(const struct cell_context *c, struct prn_buffer *out)
{
    const struct prn_result *r = c->result;
    char text[PRN_FORMAT_SIZE];
    if (!c->view->compared[c->index] || !isfinite(r->ratio.estimate))
        return;
    if (prn_view_is_fastest(c->view, c->index))
        prn_buffer_add(out, "fastest");
    else if (r->verdict == PRN_VERDICT_SAME)
        prn_buffer_add(out, "same");
    else if (r->verdict == PRN_VERDICT_SLOWER && is_wide(r))
        prn_buffer_printf(out, ">%s×", prn_format_significant(text, r->ratio.low, 3));
    else if (r->verdict == PRN_VERDICT_SLOWER)
        prn_buffer_printf(out, "%s×", prn_format_significant(text, r->ratio.estimate, 3));
    else if (r->verdict != PRN_VERDICT_NONE)
        prn_buffer_printf(out, "%s× ?", prn_format_significant(text, r->ratio.estimate, 3));
    if (r->flags & PRN_FLAG_MISMATCH)
        prn_buffer_printf(out, "%sdiffers", out->len ? ", " : "");
}

static void write_known_cost(const struct cell_context *c, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    double cost = prn_result_cost(c->view->profile, c->result);
    if (isfinite(cost))
        prn_buffer_add(out, prn_format_dollars(text, cost));
}

static void write_cost(const struct cell_context *c, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    double cost = prn_result_cost(c->view->profile, c->result);
    prn_buffer_add(out, isfinite(cost) ? prn_format_dollars(text, cost) : "N/A");
}

static void write_model(const struct cell_context *c, struct prn_buffer *out)
{
    if (c->view->profile->n_models > 1)
        prn_text_clean(out, prn_result_model(c->view->profile, c->result)->name);
}

/* "1.25× as fast", "same", "1.02× ?": what the row is beside the first model. */
static void write_model_ratio(const struct cell_context *c, struct prn_buffer *out)
{
    const struct prn_result *r = c->result;
    char text[PRN_FORMAT_SIZE];
    const char *ratio = prn_format_significant(text, 1 / r->model_ratio.estimate, 3);
    if (r->model_verdict == PRN_VERDICT_SAME)
        prn_buffer_add(out, "same");
    else if (r->model_verdict == PRN_VERDICT_UNSURE)
        prn_buffer_printf(out, "%s× ?", ratio);
    else if (r->model_verdict != PRN_VERDICT_NONE)
        prn_buffer_printf(out, "%s× as fast", ratio);
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
    {"Backend", PRN_TABLE_ALIGN_LEFT, 0, ALWAYS, true, write_backend},
    {"Instance", PRN_TABLE_ALIGN_LEFT, 12, VERBOSE, true, write_instance},
    {"Processor", PRN_TABLE_ALIGN_LEFT, 13, VERBOSE, true, write_processor},
    {"Model", PRN_TABLE_ALIGN_LEFT, 0, ALWAYS, true, write_model},
    {"Sizes", PRN_TABLE_ALIGN_LEFT, 0, ALWAYS, true, write_sizes},
    {"Time", PRN_TABLE_ALIGN_RIGHT, 0, ALWAYS, true, write_time},
    {"±", PRN_TABLE_ALIGN_RIGHT, 2, ALWAYS, false, write_half_width},
    {"Per item", PRN_TABLE_ALIGN_RIGHT, 2, ALWAYS, false, write_item},
    {"Spread", PRN_TABLE_ALIGN_RIGHT, 5, VERBOSE, false, write_spread},
    {"p90", PRN_TABLE_ALIGN_RIGHT, 9, VERBOSE, false, write_p90},
    {"p95", PRN_TABLE_ALIGN_RIGHT, 7, ALWAYS, false, write_p95},
    {"p99", PRN_TABLE_ALIGN_RIGHT, 8, VERBOSE, false, write_p99},
    {"p99.9", PRN_TABLE_ALIGN_RIGHT, 13, VERBOSE, false, write_p999},
    {"Runs/s", PRN_TABLE_ALIGN_RIGHT, 6, BRIEF, false, write_rate},
    {"Throughput", PRN_TABLE_ALIGN_RIGHT, 1, VERBOSE, false, write_throughput},
    {"GFLOP/s", PRN_TABLE_ALIGN_RIGHT, 10, VERBOSE, false, write_gflops},
    {"First run", PRN_TABLE_ALIGN_RIGHT, 6, VERBOSE, false, write_first_run},
    {"Load", PRN_TABLE_ALIGN_RIGHT, 7, VERBOSE, false, write_load},
    {"Memory", PRN_TABLE_ALIGN_RIGHT, 5, ALWAYS, false, write_peak},
    {NULL, PRN_TABLE_ALIGN_RIGHT, 3, ALWAYS, false, write_scaling}, /* once per axis of a sweep */
    {"vs best", PRN_TABLE_ALIGN_RIGHT, 2, VERBOSE, false, write_ratio},
    {"vs first", PRN_TABLE_ALIGN_LEFT, 1, ALWAYS, false, write_model_ratio},
    {"$/million", PRN_TABLE_ALIGN_RIGHT, 4, BRIEF, false, write_known_cost},
    {"Cost ($/MReq)", PRN_TABLE_ALIGN_RIGHT, 3, VERBOSE, false, write_cost},
    {"Samples", PRN_TABLE_ALIGN_RIGHT, 11, VERBOSE, false, write_samples},
    {"", PRN_TABLE_ALIGN_LEFT, 1, BRIEF, false, write_standing},
    {"Best", PRN_TABLE_ALIGN_LEFT, 1, ALWAYS, false, write_best},
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
    const struct prn_look *look;
    struct placed *columns; /* names first */
    size_t n_columns;
    const char **cells; /* row by row */
    size_t n_rows;
    const char **listed; /* names that were shortened, in the order of their numbers */
    size_t n_listed;
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

static const char *make_cell(const struct prn_view *view, const struct prn_look *look, size_t row,
                             const struct placed *placed, struct prn_arena *arena)
{
    struct cell_context c = {.view = view,
                             .index = row,
                             .result = &view->profile->results[row],
                             .axis = placed->axis,
                             .verbose = look->verbose};
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 20);
    if (placed->column->also_unmeasured || prn_result_measured(c.result))
        placed->column->write(&c, &text);
    const char *cell = finished_text(&text, look->markdown, arena);
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

static bool is_shown(const struct column *column, const struct prn_look *look)
{
    return column->when == ALWAYS || (column->when == VERBOSE) == look->verbose;
}

/* A run has several items in a batch. */
static const char *rate_title(const struct prn_profile *p)
{
    for (size_t i = 0; i < p->n_points; i++)
        if (p->points[i].batch > 1)
            return "Items/s";
    return "Runs/s";
}

static int place_columns(const struct prn_view *view, struct grid *g, struct prony_error *err)
{
    size_t most = PRN_ARRAY_SIZE(columns) + view->sweep.n_axes;
    g->columns = PRN_ARENA_ARRAY(&g->arena, most, struct placed);
    if (!g->columns)
        return prn_fail_memory(err);
    for (size_t k = 0; k < PRN_ARRAY_SIZE(columns); k++) {
        bool scaling = columns[k].write == write_scaling;
        size_t times = scaling ? view->sweep.n_axes : is_shown(&columns[k], g->look);
        for (size_t axis = 0; axis < times; axis++) {
            const char *title =
                scaling ? scaling_title(&view->sweep, axis, g->look->markdown, &g->arena)
                : columns[k].write == write_rate ? rate_title(view->profile)
                                                 : columns[k].title;
            if (!title)
                return prn_fail_memory(err);
            g->columns[g->n_columns++] = (struct placed){
                .column = &columns[k], .title = title, .rank = columns[k].rank, .axis = axis};
        }
    }
    return 0;
}

static int fill_grid(const struct prn_view *view, struct grid *g, struct prony_error *err)
{
    int code = place_columns(view, g, err);
    if (code < 0)
        return code;
    g->n_rows = view->profile->n_results;
    g->cells = PRN_ARENA_ARRAY(&g->arena, g->n_rows * g->n_columns, const char *);
    if (!g->cells)
        return prn_fail_memory(err);
    for (size_t row = 0; row < g->n_rows; row++)
        for (size_t k = 0; k < g->n_columns; k++) {
            struct placed *placed = &g->columns[k];
            const char *cell = make_cell(view, g->look, row, placed, &g->arena);
            if (!cell)
                return prn_fail_memory(err);
            if (cell[0])
                widen(&placed->width, placed->title);
            widen(&placed->width, cell);
            g->cells[row * g->n_columns + k] = cell;
        }
    return 0;
}

/* ---- Names that are too long ---- */

static size_t total_width(const struct grid *g, bool essential)
{
    size_t total = 0;
    for (size_t k = 0; k < g->n_columns; k++)
        if (g->columns[k].width > 0 && (!essential || g->columns[k].rank == 0))
            total += (total ? GAP : 0) + g->columns[k].width;
    return total;
}

/* What is left for names beside the columns that must be there, and a part of the width at most. */
static size_t name_room(const struct grid *g)
{
    size_t others = total_width(g, true) - g->columns[0].width;
    size_t room = others + NAME_MIN < g->look->width ? g->look->width - others : NAME_MIN;
    size_t part = g->look->width * 2 / 5;
    return room > part && part >= NAME_MIN ? part : room;
}

/* "[3] onnxrt…": a name of `room` characters at most, and its number in the list below. */
static const char *numbered_name(struct grid *g, const char *name, size_t number)
{
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_buffer_printf(&text, "[%zu] %s", number, name);
    const char *copy = text.error ? NULL : prn_arena_strdup(&g->arena, prn_buffer_text(&text));
    prn_buffer_release(&text);
    return copy;
}

static int shorten_names(const struct prn_view *view, struct grid *g)
{
    size_t room = name_room(g);
    if (g->columns[0].width <= room)
        return 0;
    char digits[24];
    size_t number_width = (size_t)snprintf(digits, sizeof digits, "[%zu] ", g->n_rows);
    const char **shorts = PRN_ARENA_ARRAY(&g->arena, g->n_rows, const char *);
    g->listed = PRN_ARENA_ARRAY(&g->arena, g->n_rows, const char *);
    struct prn_map numbers = PRN_MAP_INIT;
    if (!shorts || !g->listed)
        return PRONY_ENOMEM;
    room = room > number_width + 4 ? room - number_width : 4;
    int code = prn_names_shorten(view->fulls, g->n_rows, room, &g->arena, shorts);
    g->columns[0].width = prn_text_width(g->columns[0].title);
    for (size_t row = 0; row < g->n_rows && code == 0; row++) {
        const char *name = shorts[row];
        if (strcmp(name, view->fulls[row]) != 0) {
            size_t number = prn_map_get(&numbers, view->fulls[row]);
            if (number == PRN_MAP_NONE) {
                g->listed[g->n_listed] = view->fulls[row];
                number = ++g->n_listed;
                code = prn_map_set(&numbers, view->fulls[row], number);
            }
            name = numbered_name(g, name, number);
        }
        if (!name)
            code = PRONY_ENOMEM;
        else
            widen(&g->columns[0].width, name);
        g->cells[row * g->n_columns] = name;
    }
    prn_map_release(&numbers);
    return code;
}

static void list_names(const struct grid *g, struct prn_buffer *out)
{
    if (g->n_listed > 0)
        prn_buffer_add_char(out, '\n');
    for (size_t i = 0; i < g->n_listed; i++) {
        prn_buffer_printf(out, "[%zu] ", i + 1);
        char digits[24];
        size_t indent = (size_t)snprintf(digits, sizeof digits, "[%zu] ", i + 1);
        prn_text_wrap(out, g->listed[i], indent, indent, g->look->width);
    }
}

/* ---- Tables ---- */

/* The column that matters most among those that are left and weren't tried for this table; the
 * number of columns when there is none. */
static size_t next_column(const struct grid *g, const bool *left, const bool *tried)
{
    size_t best = g->n_columns;
    for (size_t k = 0; k < g->n_columns; k++)
        if (left[k] && !tried[k] &&
            (best == g->n_columns || g->columns[k].rank < g->columns[best].rank))
            best = k;
    return best;
}

/* Moves columns from `left` to `chosen` that fit beside the names; at least one. */
static bool choose_columns(const struct grid *g, bool first, bool *left, bool *chosen, bool *tried)
{
    size_t used = first ? 0 : g->columns[0].width;
    bool any = false;
    for (size_t k = 0; k < g->n_columns; k++)
        chosen[k] = tried[k] = false;
    for (size_t k; (k = next_column(g, left, tried)) < g->n_columns;) {
        size_t with = used + (used ? GAP : 0) + g->columns[k].width;
        bool must = (first && g->columns[k].rank == 0) || !any;
        tried[k] = true;
        if (with > g->look->width && !must)
            continue;
        used = with;
        any = true;
        left[k] = false;
        chosen[k] = true;
    }
    return any;
}

static int write_table(const struct prn_view *view, const struct grid *g, bool first,
                       const bool *chosen, struct prn_buffer *out, struct prony_error *err)
{
    struct prn_table *table = prn_table_new();
    if (!g->look->verbose)
        prn_table_bare(table);
    if (!g->look->markdown)
        prn_table_width(table, g->look->width);
    for (size_t k = 0; k < g->n_columns; k++)
        if (chosen[k] || (k == 0 && !first)) {
            prn_table_column(table, g->columns[k].title, g->columns[k].column->align);
            if (k == 0 || g->columns[k].column->write == write_sizes)
                prn_table_shrink(table);
        }
    for (size_t row = 0; row < g->n_rows; row++) {
        /* A result without figures has nothing to say in a further table. */
        if (!first && !prn_result_measured(&view->profile->results[row]))
            continue;
        for (size_t k = 0; k < g->n_columns; k++)
            if (chosen[k] || (k == 0 && !first))
                prn_table_cell(table, "%s", g->cells[row * g->n_columns + k]);
    }
    return prn_table_end(table, g->look->markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT,
                         out, err);
}

/* The row of the fastest stands out. */
static void paint_fastest(const struct prn_view *view, const struct grid *g, size_t start,
                          struct prn_buffer *out)
{
    struct prn_buffer table = PRN_BUFFER_INIT(out->limit);
    if (!g->look->colour || g->look->markdown || out->error || view->n_measured < 2)
        return;
    prn_buffer_append(&table, out->data + start, out->len - start);
    const char *line = prn_buffer_text(&table);
    out->len = start;
    for (size_t row = 0; *line; row++) {
        size_t len = strcspn(line, "\n") + 1;
        size_t begin = out->len;
        size_t above = g->look->verbose ? 2 : 1; /* titles, and the rule below them */
        prn_buffer_append(out, line, len);
        if (row >= above && row - above < g->n_rows && prn_view_is_fastest(view, row - above))
            prn_paint(g->look, PRN_PAINT_GOOD, out, begin);
        line += len;
    }
    if (table.error)
        out->error = table.error;
    prn_buffer_release(&table);
}

int prn_view_tables(const struct prn_view *view, const struct prn_look *look,
                    struct prn_buffer *out, struct prony_error *err)
{
    struct prn_look limited = *look;
    limited.width = look->markdown ? SIZE_MAX : look->width;
    struct grid g = {.arena = PRN_ARENA_INIT((size_t)256 << 20), .look = &limited};
    int code = fill_grid(view, &g, err);
    bool *left = PRN_ARENA_ARRAY(&g.arena, g.n_columns, bool);
    bool *chosen = PRN_ARENA_ARRAY(&g.arena, g.n_columns, bool);
    bool *tried = PRN_ARENA_ARRAY(&g.arena, g.n_columns, bool);
    if (code == 0 && (!left || !chosen || !tried))
        code = prn_fail_memory(err);
    if (code == 0 && total_width(&g, false) > limited.width && shorten_names(view, &g) < 0)
        code = prn_fail_memory(err);
    for (size_t k = 0; code == 0 && k < g.n_columns; k++)
        left[k] = g.columns[k].width > 0;
    for (bool first = true; code == 0 && (first || look->verbose); first = false) {
        size_t start = out->len;
        if (!choose_columns(&g, first, left, chosen, tried))
            break;
        if (!first)
            prn_buffer_add_char(out, '\n');
        code = write_table(view, &g, first, chosen, out, err);
        if (first)
            paint_fastest(view, &g, start, out);
    }
    if (code == 0)
        list_names(&g, out);
    prn_arena_release(&g.arena);
    return code;
}
