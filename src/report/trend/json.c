/* The tables of a history. It is written only. */
#include "report/trend/report.h"

#include "base/format.h"
#include "format/json.h"
#include "report/page.h"
#include "report/profile/parts.h"

#include <math.h>

#define PRN_OF struct prn_report_origin
static const struct prn_member origin_members[] = {PRN_REPORT_ORIGIN_LIST(PRN_DESCRIBE)};
static const struct prn_schema origin_schema = PRN_SCHEMA(NULL, origin_members, NULL);
static const struct prn_schema last_schema =
    PRN_SCHEMA("Origin", origin_members, "Where and when a report comes from.");
#undef PRN_OF

#define PRN_OF struct prn_trend_point
static const struct prn_member point_members[] = {
    PRN_INLINE(origin, &origin_schema),
    PRN_TREND_POINT_LIST(PRN_DESCRIBE) //
    PRN_FLAGS(flags, prn_flag_names, "What is wrong with it."),
    PRN_INTEGER(segment, "Which segment it belongs to, from 1; null: it failed.",
                .flags = PRN_NULL),
};
static const struct prn_schema point_schema =
    PRN_SCHEMA("HistoryPoint", point_members, "The result of a report.");
#undef PRN_OF

#define PRN_OF struct prn_trend_segment
static const struct prn_member segment_members[] = {PRN_TREND_SEGMENT_LIST(PRN_DESCRIBE)};
static const struct prn_schema segment_schema =
    PRN_SCHEMA("HistorySegment", segment_members, "Reports between two changes.");
#undef PRN_OF

#define PRN_OF struct prn_trend_change
static const struct prn_member change_members[] = {
    PRN_INLINE(origin, &origin_schema),
    PRN_INTEGER(before, "Number of the last report before it."),
    PRN_INTERVAL(ratio, "Level after over level before, with its 95 % interval."),
    PRN_NUMBER(canary_ratio, "The same of the canary's median; null: not known."),
    PRN_NUMBER(p, "How often chance divides the series as well."),
};
static const struct prn_schema change_schema =
    PRN_SCHEMA("HistoryChange", change_members, "A change, and the first report after it.");
#undef PRN_OF

#define PRN_OF struct prn_trend_series
static const struct prn_member series_members[] = {
    PRN_TREND_NAMES_LIST(PRN_DESCRIBE) //
    PRN_INTEGER(measured, "Reports that didn't fail."),
    PRN_INTEGER(left_out, "Older reports that weren't looked at."),
    PRN_INTEGER(shifts, "Changes that the canary had, too, and that aren't larger than its."),
    PRN_ARRAY(points, n_points, &point_schema, "Oldest first."),
    PRN_ARRAY(segments, n_segments, &segment_schema, "What lies between changes."),
    PRN_ARRAY(changes, n_changes, &change_schema, "Oldest first."),
};
static const struct prn_schema series_schema =
    PRN_SCHEMA("HistorySeries", series_members,
               "What can be compared: a backend with the same inputs on like machines.");
#undef PRN_OF

static void write_verdict(struct prn_json_writer *w, const char *key, const void *record)
{
    struct prn_buffer verdict = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_trend_verdict(record, &verdict);
    prn_part_take_text(w, key, &verdict);
}

#define PRN_OF struct prn_trend
static const struct prn_member trend_members[] = {
    PRN_CONSTANT("schema", PRN_TREND_SCHEMA),
    PRN_COMPUTED(TEXT, "verdict", write_verdict, PRN_VERDICT_DOC),
    PRN_TEXT(model, "The model, as the history calls it."),
    PRN_INTEGER(n_reports, "Reports in all series.", .key = "reports"),
    PRN_ARRAY(series, n_series, &series_schema, "By machine, then by backend."),
};
const struct prn_schema prn_trend_schema =
    PRN_SCHEMA("History", trend_members,
               "How the times of a model changed: 'prony history show MODEL --format json'.");
#undef PRN_OF

#define PRN_OF struct prn_trend_listed
static const struct prn_member listed_members[] = {
    PRN_TREND_NAMES_LIST(PRN_DESCRIBE)  //
    PRN_TREND_LISTED_LIST(PRN_DESCRIBE) //
    PRN_OBJECT(last, &last_schema, "The last report."),
};
static const struct prn_schema listed_schema =
    PRN_SCHEMA("HistoryRow", listed_members, "A series.");
#undef PRN_OF

#define PRN_OF struct prn_trend_list
static const struct prn_member list_members[] = {
    PRN_CONSTANT("schema", PRN_TREND_LIST_SCHEMA),
    PRN_TEXT(file, "Where the history is."),
    PRN_INTEGER(reports, "Reports."),
    PRN_INTEGER(models, "Models."),
    PRN_INTEGER(machines, "Machines that can be told apart."),
    PRN_INTEGER(bytes, "Size of the reports, as they were added."),
    PRN_ARRAY(rows, n_rows, &listed_schema, "By model, backend, sizes and machine."),
};
const struct prn_schema prn_trend_list_schema = PRN_SCHEMA(
    "HistoryList", list_members, "What a history holds: 'prony history list --format json'.");
#undef PRN_OF

#define PRN_OF struct prn_pruned
static const struct prn_member pruned_members[] = {PRN_CONSTANT("schema", PRN_PRUNED_SCHEMA),
                                                   PRN_PRUNED_LIST(PRN_DESCRIBE)};
const struct prn_schema prn_pruned_schema =
    PRN_SCHEMA("HistoryPrune", pruned_members, "What 'prony history prune --format json' removed.");
static const struct prn_member pruned_columns[] = {PRN_PRUNED_LIST(PRN_DESCRIBE)};
static const struct prn_schema pruned_line = PRN_SCHEMA(NULL, pruned_columns, NULL);
#undef PRN_OF

/* ---- CSV ---- */

struct line {
    const struct prn_trend_series *series;
    const struct prn_trend_point *point;
    double level_ns, change_ratio, change_low, change_high, change_p;
};

#define PRN_OF struct prn_trend_series
static const struct prn_member names_members[] = {PRN_TREND_NAMES_LIST(PRN_DESCRIBE)};
static const struct prn_schema names_schema = PRN_SCHEMA(NULL, names_members, NULL);
#undef PRN_OF

#define PRN_OF struct line
static const struct prn_member line_members[] = {
    PRN_INLINE_POINTER(series, &names_schema),
    PRN_INLINE_POINTER(point, &point_schema),
    PRN_NUMBER(level_ns, "Of its segment."),
    PRN_NUMBER(change_ratio, "Of a change before it."),
    PRN_NUMBER(change_low, "Its interval."),
    PRN_NUMBER(change_high, "Upper end."),
    PRN_NUMBER(change_p, "Its p."),
};
static const struct prn_schema line_schema = PRN_SCHEMA(NULL, line_members, NULL);
#undef PRN_OF

static void add_line(struct prn_table *t, const struct prn_trend_series *s, size_t i)
{
    const struct prn_trend_point *p = &s->points[i];
    struct line line = {s, p, NAN, NAN, NAN, NAN, NAN};
    if (p->segment > 0)
        line.level_ns = s->segments[p->segment - 1].level_ns;
    for (size_t k = 0; k < s->n_changes; k++)
        if (s->changes[k].at == i) {
            line.change_ratio = s->changes[k].ratio.estimate;
            line.change_low = s->changes[k].ratio.low;
            line.change_high = s->changes[k].ratio.high;
            line.change_p = s->changes[k].p;
        }
    prn_schema_cells(t, &line_schema, &line);
}

int prn_trend_csv(const struct prn_trend *trend, struct prn_buffer *out, struct prony_error *err)
{
    struct prn_table *t = prn_table_new();
    prn_schema_columns(t, &line_schema);
    for (size_t i = 0; i < trend->n_series; i++)
        for (size_t k = 0; k < trend->series[i].n_points; k++)
            add_line(t, &trend->series[i], k);
    return prn_table_end(t, PRN_TABLE_STYLE_CSV, out, err);
}

/* ---- By format ---- */

static int write_part(const void *report, bool json, struct prn_buffer *out,
                      struct prony_error *err)
{
    static const struct prn_look look = {.verbose = true, .width = PRN_PAGE_TEXT_WIDTH};
    return json ? prn_schema_write_json(&prn_trend_schema, report, out, err)
                : prn_trend_text(report, &look, out, err);
}

int prn_trend_report(const struct prn_trend *trend, enum prn_report_format format,
                     const struct prn_look *look, struct prn_buffer *out, struct prony_error *err)
{
    struct prn_look own = *look;
    own.markdown = format == PRN_REPORT_FORMAT_MARKDOWN;
    switch (format) {
    case PRN_REPORT_FORMAT_JSON:
        return prn_schema_write_json(&prn_trend_schema, trend, out, err);
    case PRN_REPORT_FORMAT_CSV:
        return prn_trend_csv(trend, out, err);
    case PRN_REPORT_FORMAT_HTML:
        return prn_page_of_report(write_part, trend, out, err);
    default:
        return prn_trend_text(trend, &own, out, err);
    }
}

static int list_csv(const struct prn_trend_list *list, struct prn_buffer *out,
                    struct prony_error *err)
{
    struct prn_table *t = prn_table_new();
    prn_schema_columns(t, &listed_schema);
    for (size_t i = 0; i < list->n_rows; i++)
        prn_schema_cells(t, &listed_schema, &list->rows[i]);
    return prn_table_end(t, PRN_TABLE_STYLE_CSV, out, err);
}

int prn_trend_list_report(const struct prn_trend_list *list, enum prn_report_format format,
                          const struct prn_look *look, struct prn_buffer *out,
                          struct prony_error *err)
{
    struct prn_look own = *look;
    own.markdown = format == PRN_REPORT_FORMAT_MARKDOWN;
    switch (format) {
    case PRN_REPORT_FORMAT_JSON:
        return prn_schema_write_json(&prn_trend_list_schema, list, out, err);
    case PRN_REPORT_FORMAT_CSV:
        return list_csv(list, out, err);
    default:
        return prn_trend_list_text(list, &own, out, err);
    }
}

static int pruned_csv(const struct prn_pruned *pruned, struct prn_buffer *out,
                      struct prony_error *err)
{
    struct prn_table *t = prn_table_new();
    prn_schema_columns(t, &pruned_line);
    prn_schema_cells(t, &pruned_line, pruned);
    return prn_table_end(t, PRN_TABLE_STYLE_CSV, out, err);
}

int prn_pruned_report(const struct prn_pruned *pruned, enum prn_report_format format,
                      struct prn_buffer *out, struct prony_error *err)
{
    char bytes[PRN_FORMAT_SIZE];
    switch (format) {
    case PRN_REPORT_FORMAT_JSON:
        return prn_schema_write_json(&prn_pruned_schema, pruned, out, err);
    case PRN_REPORT_FORMAT_CSV:
        return pruned_csv(pruned, out, err);
    default:
        prn_buffer_printf(out, "%s %lld report%s (%s); %lld %s.\n",
                          pruned->dry_run ? "Would remove" : "Removed", (long long)pruned->removed,
                          pruned->removed == 1 ? "" : "s",
                          prn_format_bytes(bytes, (double)pruned->removed_bytes),
                          (long long)pruned->left, pruned->left == 1 ? "is left" : "are left");
        return prn_buffer_error(out, err);
    }
}
