/* The tables on load. Each is one list of columns, a title for people, a name for CSV and a value;
 * the style decides how a value is written. */
#include "report/load/report.h"

#include "base/text.h"
#include "report/load/json.h"
#include "spec/spec.h"

#include <math.h>
#include <stdio.h>

struct sheet {
    struct prn_table *table;
    enum prn_table_style style;
    bool heading; /* columns are being named, not filled */
    int error;    /* of a cell that couldn't be made */
};

/* ---- Values ---- */

const char *prn_load_rate_text(char buffer[PRN_FORMAT_SIZE], double rate_per_s)
{
    char number[PRN_FORMAT_SIZE];
    if (isnan(rate_per_s))
        snprintf(buffer, PRN_FORMAT_SIZE, "closed loop");
    else
        snprintf(buffer, PRN_FORMAT_SIZE, "%.40s/s", prn_format_count(number, rate_per_s));
    return buffer;
}

void prn_slo_limit_text(const struct prn_slo *slo, struct prn_buffer *out)
{
    char text[PRN_FORMAT_SIZE];
    prn_buffer_printf(out, "p%.4g ≤ %s", 100 * slo->percentile,
                      prn_format_duration(text, slo->limit_ns));
}

double prn_load_cost(const struct prn_profile *profile, const struct prn_result *result,
                     double rate_per_s)
{
    double inferences_per_s = rate_per_s * (double)prn_result_point(profile, result)->batch;
    return prn_cost_per_million(result->usd_per_hour, 1e9 / inferences_per_s);
}

/* ---- Cells ---- */

static bool exact(const struct sheet *s)
{
    return s->style == PRN_TABLE_STYLE_CSV;
}

/* Names the column; true when its cell is to be written instead. */
static bool column(const struct sheet *s, const char *title, const char *csv,
                   enum prn_table_align align)
{
    if (s->heading)
        prn_table_column(s->table, exact(s) ? csv : title, align);
    return !s->heading;
}

static void text(struct sheet *s, const char *title, const char *csv, const char *value)
{
    if (!column(s, title, csv, PRN_TABLE_ALIGN_LEFT))
        return;
    struct prn_buffer escaped = PRN_BUFFER_INIT((size_t)8 << 20);
    if (s->style == PRN_TABLE_STYLE_MARKDOWN)
        prn_markdown_text(&escaped, value);
    else
        prn_buffer_add(&escaped, value);
    s->error = escaped.error ? escaped.error : s->error;
    prn_table_cell(s->table, "%s", prn_buffer_text(&escaped));
    prn_buffer_release(&escaped);
}

/* The text of a buffer, which is released. */
static void take_text(struct sheet *s, const char *title, const char *csv, struct prn_buffer *value)
{
    s->error = value->error ? value->error : s->error;
    text(s, title, csv, prn_buffer_text(value));
    prn_buffer_release(value);
}

/* A number that people read in another way. */
static void number(struct sheet *s, const char *title, const char *csv, double value,
                   const char *readable)
{
    if (!column(s, title, csv, PRN_TABLE_ALIGN_RIGHT))
        return;
    if (exact(s))
        prn_table_cell_exact(s->table, value);
    else
        prn_table_cell(s->table, "%s", readable);
}

static void duration(struct sheet *s, const char *title, const char *csv, double ns)
{
    char buffer[PRN_FORMAT_SIZE];
    number(s, title, csv, ns, isfinite(ns) ? prn_format_duration(buffer, ns) : "-");
}

static void rate(struct sheet *s, const char *title, const char *csv, double per_s,
                 const char *unknown, const char *mark)
{
    char buffer[PRN_FORMAT_SIZE];
    char marked[PRN_FORMAT_SIZE + 8];
    snprintf(marked, sizeof marked, "%s%s",
             isfinite(per_s) ? prn_load_rate_text(buffer, per_s) : unknown, mark);
    number(s, title, csv, per_s, marked);
}

static void count(struct sheet *s, const char *title, const char *csv, int64_t value)
{
    char buffer[PRN_FORMAT_SIZE];
    if (!column(s, title, csv, PRN_TABLE_ALIGN_RIGHT))
        return;
    if (exact(s))
        prn_table_cell(s->table, "%lld", (long long)value);
    else
        prn_table_cell(s->table, "%s", prn_format_integer(buffer, (uint64_t)value));
}

static void share(struct sheet *s, const char *title, const char *csv, double value)
{
    char buffer[PRN_FORMAT_SIZE] = "-";
    if (isfinite(value))
        snprintf(buffer, sizeof buffer, "%.0f %%", 100 * value);
    number(s, title, csv, value, buffer);
}

static void dollars(struct sheet *s, const char *title, const char *csv, double value)
{
    char buffer[PRN_FORMAT_SIZE];
    number(s, title, csv, value, isfinite(value) ? prn_format_dollars(buffer, value) : "N/A");
}

/* The interval of a percentile: a range for people, two columns for programs. */
static void interval(struct sheet *s, const char *title, const char *low_csv, const char *high_csv,
                     struct prn_interval i)
{
    char low[PRN_FORMAT_SIZE];
    char high[PRN_FORMAT_SIZE];
    char range[2 * PRN_FORMAT_SIZE + 8] = "-";
    if (isfinite(i.low) && isfinite(i.high))
        snprintf(range, sizeof range, "%s to %s", prn_format_duration(low, i.low),
                 prn_format_duration(high, i.high));
    number(s, title, low_csv, i.low, range);
    if (exact(s))
        number(s, title, high_csv, i.high, "");
}

static void flags(struct sheet *s, unsigned bits)
{
    struct prn_buffer names = PRN_BUFFER_INIT(256);
#define PRN_X(name, bit, meaning) \
    if (bits & (bit))             \
        prn_buffer_printf(&names, "%s%s", names.len ? " " : "", #name);
    PRN_LOAD_FLAG_MAP(PRN_X)
#undef PRN_X
    take_text(s, "Flags", "flags", &names);
}

/* ---- Rows of tables ---- */

static void csv_interval(struct sheet *s, const char *name, const char *low, const char *high,
                         struct prn_interval i)
{
    duration(s, name, name, i.estimate);
    interval(s, name, low, high, i);
}

static void exact_row(struct sheet *s, const struct prn_load_row *row)
{
    number(s, NULL, "asked_per_s", row->asked_per_s, "");
    number(s, NULL, "achieved_per_s", row->achieved_per_s, "");
    count(s, NULL, "workers", row->workers);
    count(s, NULL, "requests", row->requests);
    number(s, NULL, "duration_s", row->duration_s, "");
    count(s, NULL, "launches", row->launches);
    count(s, NULL, "blocks", row->blocks);
    count(s, NULL, "disturbed_blocks", row->disturbed_blocks);
#define PRN_X(name, p) \
    csv_interval(s, #name "_ns", #name "_low_ns", #name "_high_ns", row->name##_ns);
    PRN_LOAD_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    duration(s, NULL, "mean_ns", row->mean_ns);
    duration(s, NULL, "max_ns", row->max_ns);
    duration(s, NULL, "wait_ns", row->wait_ns);
    duration(s, NULL, "service_ns", row->service_ns);
    share(s, NULL, "utilisation", row->utilisation);
    duration(s, NULL, "lateness_ns", row->lateness_ns);
    flags(s, row->flags);
}

/* The column that was added last is left out where there is no room, the highest rank first. */
static void may_go(struct sheet *s, int rank)
{
    if (s->heading)
        prn_table_omit_rank(s->table, rank);
}

static void readable_row(struct sheet *s, const struct prn_load_row *row)
{
    rate(s, "Asked", NULL, row->asked_per_s, "closed", "");
    rate(s, "Achieved", NULL, row->achieved_per_s, "-", row->flags ? "*" : "");
    count(s, "Workers", NULL, row->workers);
    may_go(s, 6);
    share(s, "Busy", NULL, row->utilisation);
    may_go(s, 4);
    duration(s, "Wait", NULL, row->wait_ns);
    may_go(s, 2);
    duration(s, "p50", NULL, row->p50_ns.estimate);
    duration(s, "p90", NULL, row->p90_ns.estimate);
    may_go(s, 3);
    duration(s, "p99", NULL, row->p99_ns.estimate);
    interval(s, "p99 is within", NULL, NULL, row->p99_ns);
    may_go(s, 1);
    duration(s, "p99.9", NULL, row->p999_ns.estimate);
    may_go(s, 5);
    count(s, "Requests", NULL, row->requests);
    may_go(s, 7);
}

/* What rows of several files are told apart by. */
static void csv_origin(struct sheet *s, const struct prn_view *view, size_t index)
{
    const struct prn_profile *p = view->profile;
    struct prn_buffer model = PRN_BUFFER_INIT((size_t)1 << 16);
    prn_text_clean(&model, p->models->path ? p->models->path : "");
    take_text(s, NULL, "model", &model);
    count(s, NULL, "batch", s->heading ? 0 : prn_result_point(p, &p->results[index])->batch);
}

static void load_row(struct sheet *s, const struct prn_view *view, size_t index,
                     const struct prn_load_row *row)
{
    if (exact(s))
        csv_origin(s, view, index);
    text(s, "Backend", "backend",
         s->heading ? ""
         : exact(s) ? view->names[index]
                    : view->calls[index]);
    if (s->heading)
        prn_table_shrink(s->table);
    if (exact(s))
        exact_row(s, row);
    else
        readable_row(s, row);
}

/* No rate holds as far as is known, but not all was tried. */
static bool is_unknown(const struct prn_slo *slo)
{
    return !slo->single_fails && (!slo->complete || isfinite(prn_slo_seen_per_s(slo)));
}

static void slo_row(struct sheet *s, const struct prn_view *view, size_t index,
                    const struct prn_slo *slo)
{
    static const struct prn_result no_result;
    const struct prn_result *result = s->heading ? &no_result : &view->profile->results[index];
    struct prn_buffer limit = PRN_BUFFER_INIT(256);
    double holds = prn_slo_holds_per_s(slo);
    prn_slo_limit_text(slo, &limit);
    text(s, "Backend", NULL, s->heading ? "" : exact(s) ? view->names[index] : view->calls[index]);
    if (s->heading)
        prn_table_shrink(s->table);
    take_text(s, "Limit", NULL, &limit);
    rate(s, "Holds up to", NULL, holds, is_unknown(slo) ? "not known" : "no rate", "");
    rate(s, "Fails at", NULL, prn_slo_fails_per_s(slo), "-", "");
    rate(s, "Capacity", NULL, slo->capacity_per_s, "-", "");
    may_go(s, 1);
    count(s, "Trials", NULL, (int64_t)slo->n_trials);
    may_go(s, 2);
    dollars(s, "Cost ($/MReq)", NULL, prn_load_cost(view->profile, result, holds));
    may_go(s, 1);
    dollars(s, "Plain cost", NULL, prn_result_cost(view->profile, result));
    may_go(s, 3);
}

static void trial_row(struct sheet *s, const struct prn_view *view, size_t index,
                      const struct prn_slo *slo, const struct prn_slo_trial *trial)
{
    csv_origin(s, view, index);
    text(s, NULL, "backend", s->heading ? "" : exact(s) ? view->names[index] : view->calls[index]);
    number(s, NULL, "percentile", slo->percentile, "");
    number(s, NULL, "limit_ns", slo->limit_ns, "");
    number(s, NULL, "rate_per_s", trial->rate_per_s, "");
    count(s, NULL, "requests", trial->requests);
    number(s, NULL, "duration_s", trial->duration_s, "");
    number(s, NULL, "percentile_ns", trial->percentile_ns, "");
    number(s, NULL, "share_over", trial->share.estimate, "");
    number(s, NULL, "share_over_low", trial->share.low, "");
    number(s, NULL, "share_over_high", trial->share.high, "");
    number(s, NULL, "overloaded", trial->overloaded, "");
    text(s, NULL, "verdict", prn_name_of(prn_slo_verdict_names, trial->verdict));
    number(s, NULL, "confirms", trial->confirms > 0, "");
    number(s, NULL, "disturbed", trial->disturbed > 0, "");
}

/* ---- Tables ---- */

static struct sheet new_sheet(enum prn_table_style style, const struct prn_look *look)
{
    struct sheet s = {.table = prn_table_new(), .style = style, .heading = true};
    if (look) {
        prn_table_width(s.table, look->width);
        prn_table_rest(s.table, look->verbose ? NULL : PRN_LOOK_MORE, 2);
    }
    return s;
}

static int end_sheet(struct sheet *s, struct prn_buffer *out, struct prony_error *err)
{
    bool empty = s->table && prn_table_rows(s->table) == 0 && !exact(s);
    int code = s->error ? prn_fail(err, s->error, "%s", prony_error_text(s->error)) : 0;
    if (code == 0 && !empty)
        code = prn_table_write(s->table, s->style, out, err);
    prn_table_free(s->table);
    return code;
}

int prn_load_table(const struct prn_view *view, enum prn_table_style style,
                   const struct prn_look *look, struct prn_buffer *out, struct prony_error *err)
{
    static const struct prn_load_row no_row;
    struct sheet s = new_sheet(style, look);
    load_row(&s, view, 0, &no_row);
    s.heading = false;
    for (size_t i = 0; i < view->profile->n_results; i++) {
        const struct prn_load *load = view->profile->results[i].load;
        for (size_t k = 0; load && k < load->n_rows; k++)
            load_row(&s, view, i, &load->rows[k]);
    }
    return end_sheet(&s, out, err);
}

int prn_slo_table(const struct prn_view *view, enum prn_table_style style,
                  const struct prn_look *look, struct prn_buffer *out, struct prony_error *err)
{
    static const struct prn_slo no_slo;
    struct sheet s = new_sheet(style, look);
    slo_row(&s, view, 0, &no_slo);
    s.heading = false;
    for (size_t i = 0; i < view->profile->n_results; i++) {
        const struct prn_load *load = view->profile->results[i].load;
        if (load && load->slo)
            slo_row(&s, view, i, load->slo);
    }
    return end_sheet(&s, out, err);
}

int prn_slo_trials_csv(const struct prn_view *view, struct prn_buffer *out, struct prony_error *err)
{
    static const struct prn_slo no_slo;
    static const struct prn_slo_trial no_trial;
    struct sheet s = new_sheet(PRN_TABLE_STYLE_CSV, NULL);
    trial_row(&s, view, 0, &no_slo, &no_trial);
    s.heading = false;
    for (size_t i = 0; i < view->profile->n_results; i++) {
        const struct prn_load *load = view->profile->results[i].load;
        for (size_t k = 0; load && load->slo && k < load->slo->n_trials; k++)
            trial_row(&s, view, i, load->slo, &load->slo->trials[k]);
    }
    return end_sheet(&s, out, err);
}
