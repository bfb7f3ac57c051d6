/*
 * Histories as text and Markdown: the verdict, then for each series a table with a row for each
 * report. Its last columns are a chart, in which time goes downwards and the line of a report is
 * its 95 % interval, and what there is to know of the row.
 */
#include "report/trend/report.h"

#include "base/format.h"
#include "base/text.h"
#include "report/prose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Rows of a series, unless all are asked for: the last ones, and where something changed. */
#define ROWS_SHOWN 20
#define FAILURES_TOLD 3
/* The chart has what others leave of the line. */
#define OTHERS_WIDTH 66
#define CHART_MIN 12
#define CHART_MAX 40
#define CELL_MAX ((size_t)1 << 20)

struct report {
    const struct prn_trend *trend;
    const struct prn_trend_series *series;
    struct prn_prose prose;
    struct prn_table *table;
    int chart;          /* characters of it */
    double left, right; /* logarithms at both ends of the chart */
};

static void text_cell(struct report *r, const char *text)
{
    struct prn_buffer cell = PRN_BUFFER_INIT(CELL_MAX);
    struct prn_buffer clean = PRN_BUFFER_INIT(CELL_MAX);
    prn_text_clean(&clean, text ? text : "");
    if (r->prose.markdown)
        prn_markdown_text(&cell, prn_buffer_text(&clean));
    else
        prn_buffer_add(&cell, prn_buffer_text(&clean));
    prn_table_cell(r->table, "%s", prn_buffer_text(&cell));
    prn_prose_pass_error(&r->prose, &cell);
    prn_prose_pass_error(&r->prose, &clean);
    prn_buffer_release(&cell);
    prn_buffer_release(&clean);
}

/* "2026-01-02"; in full "2026-01-02 03:04". */
static void time_cell(struct report *r, const char *created)
{
    char text[17] = "";
    if (created && strlen(created) >= 16 && created[10] == 'T')
        snprintf(text, sizeof text, r->prose.look.verbose ? "%.10s %.5s" : "%.10s", created,
                 created + 11);
    text_cell(r, text[0] ? text : created);
}

static void commit_cell(struct report *r, const struct prn_report_origin *o)
{
    char text[PRN_COMMIT_SHOWN + 2] = "";
    if (o->commit)
        snprintf(text, sizeof text, "%.*s%s", PRN_COMMIT_SHOWN, o->commit, o->changed ? "+" : "");
    text_cell(r, text);
}

static void duration_cell(struct report *r, double ns)
{
    char text[PRN_FORMAT_SIZE];
    prn_table_cell(r->table, "%s", isnan(ns) ? "failed" : prn_format_duration(text, ns));
}

/* Half of an interval in % of its middle; "?" where there is none. */
static void precision_cell(struct report *r, double median, double low, double high)
{
    char text[PRN_FORMAT_SIZE];
    double half = 100 * (high - low) / 2 / median;
    if (isnan(median))
        prn_table_cell(r->table, "%s", "");
    else if (!isfinite(half))
        prn_table_cell(r->table, "?");
    else
        prn_table_cell(r->table, "%s %%", prn_format_significant(text, half, 2));
}

/* ---- The chart ---- */

static bool has_interval(const struct prn_trend_point *p)
{
    return p->low_ns > 0 && isfinite(p->high_ns);
}

static void find_ends(struct report *r)
{
    r->left = INFINITY;
    r->right = -INFINITY;
    for (size_t i = 0; i < r->series->n_points; i++) {
        const struct prn_trend_point *p = &r->series->points[i];
        if (!(p->median_ns > 0))
            continue;
        r->left = fmin(r->left, log(has_interval(p) ? p->low_ns : p->median_ns));
        r->right = fmax(r->right, log(has_interval(p) ? p->high_ns : p->median_ns));
    }
}

static int column_of(const struct report *r, double ns)
{
    double width = r->right - r->left;
    double at = width > 0 ? (log(ns) - r->left) / width : 0.5;
    return (int)lround(at * (r->chart - 1));
}

static void chart_cell(struct report *r, const struct prn_trend_point *p)
{
    struct prn_buffer cell = PRN_BUFFER_INIT(CELL_MAX);
    int median = p->median_ns > 0 ? column_of(r, p->median_ns) : -1;
    int low = median >= 0 && has_interval(p) ? column_of(r, p->low_ns) : median;
    int high = median >= 0 && has_interval(p) ? column_of(r, p->high_ns) : median;
    for (int i = 0; i < r->chart; i++)
        prn_buffer_add(&cell, i == median && median >= 0             ? "●"
                              : i >= low && i <= high && median >= 0 ? "─"
                                                                     : " ");
    prn_table_cell(r->table, "%s", prn_buffer_text(&cell));
    prn_prose_pass_error(&r->prose, &cell);
    prn_buffer_release(&cell);
}

/* The times at both ends, as far apart as these are. */
static void chart_column(struct report *r)
{
    char ends[2][PRN_FORMAT_SIZE];
    char title[2 * PRN_FORMAT_SIZE + CHART_MAX] = "";
    if (r->right > r->left) {
        prn_format_duration(ends[0], exp(r->left));
        prn_format_duration(ends[1], exp(r->right));
        int gap = r->chart - (int)prn_text_width(ends[0]) - (int)prn_text_width(ends[1]);
        snprintf(title, sizeof title, "%s%*s%s", ends[0], gap > 1 ? gap : 1, "", ends[1]);
    }
    prn_table_column(r->table, title, PRN_TABLE_ALIGN_LEFT);
    prn_table_omit(r->table);
}

/* ---- Rows ---- */

static const struct prn_trend_change *change_at(const struct prn_trend_series *s, size_t point)
{
    for (size_t i = 0; i < s->n_changes; i++)
        if (s->changes[i].at == point)
            return &s->changes[i];
    return NULL;
}

static void note_cell(struct report *r, size_t point)
{
    const struct prn_trend_point *p = &r->series->points[point];
    const struct prn_trend_change *c = change_at(r->series, point);
    struct prn_buffer note = PRN_BUFFER_INIT(CELL_MAX);
    char text[PRN_FORMAT_SIZE];
    if (c) {
        bool slower = c->ratio.estimate > 1;
        prn_buffer_printf(
            &note, "%s %s× as %s", slower ? "▲" : "▼",
            prn_format_ratio(text, slower ? c->ratio.estimate : 1 / c->ratio.estimate),
            slower ? "slow" : "fast");
    }
#define PRN_X(name, bit, meaning) \
    if (p->flags & (bit))         \
        prn_buffer_printf(&note, "%s%s", note.len ? "; " : "", #name);
    PRN_FLAG_MAP(PRN_X)
#undef PRN_X
    text_cell(r, prn_buffer_text(&note));
    prn_prose_pass_error(&r->prose, &note);
    prn_buffer_release(&note);
}

static bool has_commits(const struct prn_trend_series *s)
{
    for (size_t i = 0; i < s->n_points; i++)
        if (s->points[i].origin.commit)
            return true;
    return false;
}

/* One branch needs no column. */
static bool has_branches(const struct prn_trend_series *s)
{
    for (size_t i = 1; i < s->n_points; i++) {
        const char *a = s->points[0].origin.branch;
        const char *b = s->points[i].origin.branch;
        if (strcmp(a ? a : "", b ? b : "") != 0)
            return true;
    }
    return false;
}

static size_t write_rows(struct report *r, bool commits, bool branches)
{
    const struct prn_trend_series *s = r->series;
    size_t hidden = 0;
    for (size_t i = 0; i < s->n_points; i++) {
        const struct prn_trend_point *p = &s->points[i];
        bool recent = i + ROWS_SHOWN >= s->n_points;
        if (!recent && !r->prose.look.verbose && !change_at(s, i)) {
            hidden++;
            continue;
        }
        prn_table_cell(r->table, "%lld", (long long)p->origin.report);
        time_cell(r, p->origin.created);
        if (commits)
            commit_cell(r, &p->origin);
        if (branches)
            text_cell(r, p->origin.branch);
        duration_cell(r, p->median_ns);
        precision_cell(r, p->median_ns, p->low_ns, p->high_ns);
        if (!r->prose.markdown)
            chart_cell(r, p);
        note_cell(r, i);
    }
    return hidden;
}

static int write_table(struct report *r, size_t *ret_hidden, struct prony_error *err)
{
    bool commits = has_commits(r->series);
    bool branches = has_branches(r->series);
    int left = (int)r->prose.look.width - OTHERS_WIDTH;
    r->chart = left < CHART_MIN ? CHART_MIN : left > CHART_MAX ? CHART_MAX : left;
    r->table = prn_table_new();
    if (!r->prose.markdown)
        prn_table_width(r->table, r->prose.look.width);
    prn_table_columns(r->table, ">No.|Measured");
    if (commits)
        prn_table_column(r->table, "Commit", PRN_TABLE_ALIGN_LEFT);
    if (branches) {
        prn_table_column(r->table, "Branch", PRN_TABLE_ALIGN_LEFT);
        prn_table_omit(r->table);
    }
    prn_table_columns(r->table, ">Time|>±");
    find_ends(r);
    if (!r->prose.markdown)
        chart_column(r);
    prn_table_column(r->table, "", PRN_TABLE_ALIGN_LEFT);
    prn_table_shrink(r->table);
    *ret_hidden = write_rows(r, commits, branches);
    int code = prn_table_write(r->table,
                               r->prose.markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT,
                               r->prose.out, err);
    prn_table_free(r->table);
    return code;
}

/* ---- Below a table ---- */

static void write_levels(struct report *r)
{
    const struct prn_trend_series *s = r->series;
    char text[3][PRN_FORMAT_SIZE];
    for (size_t i = 0; i < s->n_segments && s->n_changes > 0; i++) {
        const struct prn_trend_segment *g = &s->segments[i];
        prn_buffer_printf(&r->prose.line, "Reports %lld to %lld (%lld): %s", (long long)g->first,
                          (long long)g->last, (long long)g->reports,
                          prn_format_duration(text[0], g->level_ns));
        if (isfinite(g->high_ns))
            prn_buffer_printf(&r->prose.line, " (95 %%: %s to %s)",
                              prn_format_duration(text[1], g->low_ns),
                              prn_format_duration(text[2], g->high_ns));
        prn_prose_paragraph(&r->prose, ".");
    }
}

/* The newest failures, each reason once. */
static void write_failures(struct report *r)
{
    const struct prn_trend_series *s = r->series;
    const char *last = NULL;
    size_t told = 0;
    for (size_t i = s->n_points; i-- > 0 && told < FAILURES_TOLD;) {
        const struct prn_trend_point *p = &s->points[i];
        if (!p->error || (last && strcmp(last, p->error) == 0))
            continue;
        last = p->error;
        told++;
        prn_prose_paragraph(&r->prose, "Report %lld failed: %s", (long long)p->origin.report,
                            p->error);
    }
}

static void write_warnings(struct report *r, size_t hidden)
{
    const struct prn_trend_series *s = r->series;
    write_failures(r);
    if (s->shifts > 0) {
        prn_buffer_printf(&r->prose.line,
                          "The machine changed its speed: the canary, a fixed piece of work, "
                          "changed with the times %lld time%s. What isn't larger than that is not "
                          "called a change.",
                          (long long)s->shifts, s->shifts == 1 ? "" : "s");
        prn_prose_warning(&r->prose);
    }
    if (hidden > 0)
        prn_prose_paragraph(&r->prose, "%zu older report%s not listed: --verbose.", hidden,
                            hidden == 1 ? " is" : "s are");
    if (s->left_out > 0)
        prn_prose_paragraph(&r->prose, "%lld older report%s not looked at: --last.",
                            (long long)s->left_out, s->left_out == 1 ? " was" : "s were");
}

static int write_series(struct report *r, struct prony_error *err)
{
    const struct prn_trend_series *s = r->series;
    size_t hidden = 0;
    const char *parts[] = {prn_trend_backend(s->backend), s->sizes, s->machine};
    struct prn_buffer clean = PRN_BUFFER_INIT(CELL_MAX);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(parts); i++) {
        prn_buffer_add(&clean, i && *parts[i] ? " · " : "");
        prn_text_clean(&clean, parts[i]);
    }
    struct prn_buffer *out = r->prose.out;
    prn_buffer_add(out, r->prose.markdown ? "\n### " : "\n");
    if (r->prose.markdown)
        prn_markdown_text(out, prn_buffer_text(&clean));
    else
        prn_text_wrap(out, prn_buffer_text(&clean), 0, 2, r->prose.look.width);
    prn_buffer_add(out, r->prose.markdown ? "\n\n" : "");
    prn_prose_pass_error(&r->prose, &clean);
    prn_buffer_release(&clean);
    int code = write_table(r, &hidden, err);
    if (code < 0)
        return code;
    if (r->prose.markdown)
        prn_buffer_add(out, "\n");
    write_levels(r);
    write_warnings(r, hidden);
    return 0;
}

static void write_method(struct prn_prose *p)
{
    prn_buffer_add_char(p->out, '\n');
    prn_prose_paragraph(
        p,
        "Changes are found by E-divisive on the logarithms of the medians, each "
        "weighed by how well it is known, with a permutation test (%d permutations, "
        "p at most %g) and at least %d reports on either side. A change counts when "
        "its interval, widened for the number of places, clears the smallest "
        "difference that counts and what the canary changed by. A level is a "
        "weighted mean; reports are the units of its interval.",
        PRN_CHANGES_PERMUTATIONS, PRN_CHANGES_LEVEL, PRN_CHANGES_SIDE);
}

int prn_trend_text(const struct prn_trend *trend, const struct prn_look *look,
                   struct prn_buffer *out, struct prony_error *err)
{
    struct report r = {.trend = trend, .prose = prn_prose_init(look, out)};
    int code = 0;
    prn_trend_verdict(trend, &r.prose.line);
    prn_prose_verdict(&r.prose);
    for (size_t i = 0; i < trend->n_series && code == 0; i++) {
        r.series = &trend->series[i];
        code = write_series(&r, err);
    }
    if (code == 0 && look->verbose)
        write_method(&r.prose);
    prn_prose_release(&r.prose);
    return code < 0 ? code : prn_buffer_error(out, err);
}

/* ---- Lists ---- */

static bool list_has_sizes(const struct prn_trend_list *list)
{
    for (size_t i = 1; i < list->n_rows; i++)
        if (strcmp(list->rows[i].sizes, list->rows[0].sizes) != 0)
            return true;
    return false;
}

static void list_columns(struct prn_table *t, const struct prn_trend_list *list)
{
    prn_table_columns(t, "Model|Backend");
    if (list_has_sizes(list))
        prn_table_column(t, "Sizes", PRN_TABLE_ALIGN_LEFT);
    prn_table_columns(t, ">Reports|Last|>Time|>±|Machine");
    prn_table_wrap(t);
}

static void list_row(struct report *r, const struct prn_trend_list *list, size_t i)
{
    const struct prn_trend_listed *row = &list->rows[i];
    text_cell(r, row->model);
    text_cell(r, prn_trend_backend(row->backend));
    if (list_has_sizes(list))
        text_cell(r, row->sizes);
    prn_table_cell(r->table, "%lld", (long long)row->reports);
    time_cell(r, row->last.created);
    duration_cell(r, row->median_ns);
    precision_cell(r, row->median_ns, row->low_ns, row->high_ns);
    text_cell(r, row->machine);
}

int prn_trend_list_text(const struct prn_trend_list *list, const struct prn_look *look,
                        struct prn_buffer *out, struct prony_error *err)
{
    struct report r = {.prose = prn_prose_init(look, out), .table = prn_table_new()};
    char bytes[PRN_FORMAT_SIZE];
    prn_buffer_printf(&r.prose.line, "%lld report%s of %lld model%s on %lld machine%s, %s, in %s.",
                      (long long)list->reports, list->reports == 1 ? "" : "s",
                      (long long)list->models, list->models == 1 ? "" : "s",
                      (long long)list->machines, list->machines == 1 ? "" : "s",
                      prn_format_bytes(bytes, (double)list->bytes), list->file);
    prn_prose_verdict(&r.prose);
    int code = 0;
    if (list->n_rows > 0) {
        prn_buffer_add_char(out, '\n');
        if (!look->markdown)
            prn_table_width(r.table, r.prose.look.width);
        list_columns(r.table, list);
        for (size_t i = 0; i < list->n_rows; i++)
            list_row(&r, list, i);
        code = prn_table_write(
            r.table, look->markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT, out, err);
    }
    prn_table_free(r.table);
    prn_prose_release(&r.prose);
    return code < 0 ? code : prn_buffer_error(out, err);
}
