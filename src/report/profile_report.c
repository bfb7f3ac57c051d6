/*
 * The text and Markdown reports: what was measured, the table, and below it everything that a
 * reader must know to trust or distrust it. What stands below is a list of paragraphs; the style
 * decides whether they are wrapped lines or bullets.
 */
#include "report/profile_report.h"

#include "base/format.h"
#include "base/text.h"
#include "report/load_report.h"
#include "report/ops_report.h"
#include "report/page.h"
#include "report/profile_json.h"
#include "report/profile_view.h"
#include "report/recorded_report.h"

#include <math.h>
#include <string.h>

#define TABLE_WIDTH 120
#define INPUTS_SHOWN 16
#define POINTS_SHOWN 16
#define SHAPES_SHOWN 4
#define NAMES_SHOWN 6 /* of the rows of a sweep, in one sentence */

const char *const prn_report_formats[] = {"text", "json", "csv", "md", "html", NULL};
const char *const prn_report_tables[] = {"results",     "ledger", "operators", "nodes", "kernels",
                                         "differences", "load",   "trials",    NULL};

struct report {
    const struct prn_view *view;
    const struct prn_profile *profile;
    const struct prn_point *point; /* the first one */
    struct prn_prose prose;
};

/* "8.18 GFLOP": a count whose multiple stands before its unit. */
static void add_counted(struct prn_buffer *out, double count, const char *unit)
{
    char text[PRN_FORMAT_SIZE];
    prn_format_count(text, count);
    prn_buffer_printf(out, "%s%s%s", text, strchr(text, ' ') ? "" : " ", unit);
}

static void add_percent(struct prn_buffer *out, double fraction)
{
    prn_buffer_printf(out, "%.3g %%", fraction * 100);
}

/* ---- Above the table ---- */

/* Whether the label of a point says its batch already. */
static bool label_has_batch(const struct prn_point *point)
{
    for (size_t i = 0; i < point->n_swept; i++)
        if (point->swept[i].size == point->batch)
            return true;
    return false;
}

/* ", 8.18 GFLOP per run, batch of 8" */
static void add_work(struct prn_buffer *out, const struct prn_point *point)
{
    char text[PRN_FORMAT_SIZE];
    if (isfinite(point->flops)) {
        prn_buffer_add(out, point->flops_complete ? ", " : ", at least ");
        add_counted(out, point->flops, "FLOP");
        prn_buffer_add(out, " per run");
    }
    if (point->batch > 1 && !label_has_batch(point))
        prn_buffer_printf(out, ", batch of %s", prn_format_integer(text, (uint64_t)point->batch));
}

static void describe_model(struct report *r)
{
    const struct prn_profile *p = r->profile;
    const struct prn_point *point = r->point;
    char text[PRN_FORMAT_SIZE];
    struct prn_buffer facts = PRN_BUFFER_INIT(1024);
    if (p->model_bytes >= 0)
        prn_buffer_printf(&facts, ", %s", prn_format_bytes(text, (double)p->model_bytes));
    if (p->model_parameters >= 0)
        prn_buffer_printf(&facts, ", %s parameters",
                          prn_format_count(text, (double)p->model_parameters));
    if (p->n_points > 1)
        prn_buffer_printf(&facts, ", %zu points", p->n_points);
    else
        add_work(&facts, point);
    struct prn_buffer name = PRN_BUFFER_INIT((size_t)1 << 16);
    prn_text_clean(&name, p->model_path ? p->model_path : "unknown model");
    if (r->prose.markdown) {
        prn_buffer_add(r->prose.out, "**");
        prn_markdown_text(r->prose.out, prn_buffer_text(&name));
        prn_buffer_add(r->prose.out, "**");
    } else {
        prn_buffer_add(r->prose.out, prn_buffer_text(&name));
    }
    prn_buffer_printf(r->prose.out, "%s%s\n", facts.len ? ": " : "",
                      facts.len ? prn_buffer_text(&facts) + 2 : "");
    if (r->prose.markdown)
        prn_buffer_add_char(r->prose.out, '\n');
    prn_prose_pass_error(&r->prose, &name);
    prn_prose_pass_error(&r->prose, &facts);
    prn_buffer_release(&name);
    prn_buffer_release(&facts);
}

static void describe_inputs(struct report *r)
{
    const struct prn_point *p = r->point;
    char shape[PRN_RANK_MAX * 24];
    for (size_t i = 0; i < p->n_inputs && i < INPUTS_SHOWN; i++) {
        const struct prn_profile_input *input = &p->inputs[i];
        prn_buffer_printf(&r->prose.line, "input %s: %s %s", input->name,
                          prn_dtype_name(input->dtype),
                          prn_dims_text(input->dims, input->rank, shape, sizeof shape));
        if (input->source)
            prn_buffer_printf(&r->prose.line, " (%s)", input->source);
        prn_prose_flush(&r->prose, 2);
    }
    if (p->n_inputs > INPUTS_SHOWN) {
        prn_buffer_printf(&r->prose.line, "and %zu more inputs", p->n_inputs - INPUTS_SHOWN);
        prn_prose_flush(&r->prose, 2);
    }
}

/* One line for a point of a sweep: shapes and work. */
static void describe_point(struct report *r, const struct prn_point *point)
{
    struct prn_buffer *line = &r->prose.line;
    char shape[PRN_RANK_MAX * 24];
    prn_buffer_printf(line, "%s: ", point->label);
    for (size_t i = 0; i < point->n_inputs && i < SHAPES_SHOWN; i++) {
        const struct prn_profile_input *input = &point->inputs[i];
        prn_buffer_printf(line, "%s%s %s", i > 0 ? ", " : "", input->name,
                          prn_dims_text(input->dims, input->rank, shape, sizeof shape));
    }
    if (point->n_inputs > SHAPES_SHOWN)
        prn_buffer_printf(line, " and %zu more", point->n_inputs - SHAPES_SHOWN);
    add_work(line, point);
    prn_prose_flush(&r->prose, 2);
}

/* The first point's inputs in full, then what the others have of their own. */
static void describe_points(struct report *r)
{
    const struct prn_profile *p = r->profile;
    describe_inputs(r);
    for (size_t i = 0; p->n_points > 1 && i < p->n_points && i < POINTS_SHOWN; i++)
        describe_point(r, &p->points[i]);
    if (p->n_points > POINTS_SHOWN) {
        prn_buffer_printf(&r->prose.line, "and %zu more points", p->n_points - POINTS_SHOWN);
        prn_prose_flush(&r->prose, 2);
    }
    prn_buffer_add_char(r->prose.out, '\n');
}

/* ---- Below the table: what went wrong ---- */

static void describe_failures(struct report *r)
{
    for (size_t i = 0; i < r->profile->n_results; i++) {
        const struct prn_result *result = &r->profile->results[i];
        if (result->error_code != 0)
            prn_prose_paragraph(&r->prose, "%s failed: %s", r->view->names[i],
                                result->error ? result->error
                                              : prony_error_text(result->error_code));
    }
}

/* A sweep has many rows: a sentence names the first of them and counts the rest. */
static bool is_named(const struct report *r, size_t before)
{
    return !r->view->sweep.active || before < NAMES_SHOWN;
}

/* Adds the name of a result to a list that has `before` already. */
static void add_name(struct report *r, size_t index, size_t before)
{
    if (is_named(r, before))
        prn_buffer_printf(&r->prose.line, "%s%s", before > 0 ? ", " : "", r->view->names[index]);
}

/* Ends a list of `n` names. */
static void add_unnamed(struct report *r, size_t n)
{
    if (n > 0 && !is_named(r, n - 1))
        prn_buffer_printf(&r->prose.line, " and %zu more", n - NAMES_SHOWN);
}

/* Names of the results with a flag, in the paragraph; false when there are none. */
static bool add_flagged(struct report *r, unsigned bit, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < r->profile->n_results; i++)
        if (r->profile->results[i].flags & bit) {
            if (n == 0)
                prn_buffer_printf(&r->prose.line, "* %s ", name);
            add_name(r, i, n++);
        }
    add_unnamed(r, n);
    if (n > 0)
        prn_buffer_add(&r->prose.line, ": ");
    return n > 0;
}

static const struct prn_output_check *worst_output(const struct prn_result *result)
{
    const struct prn_output_check *worst = NULL;
    double most = -1;
    for (size_t i = 0; i < result->n_outputs; i++) {
        const struct prn_output_check *o = &result->outputs[i];
        double error = o->same_shape && isfinite(o->max_rel) ? o->max_rel : HUGE_VAL;
        if (error > most) {
            worst = o;
            most = error;
        }
    }
    return worst;
}

static void describe_mismatch(struct report *r, size_t index)
{
    const struct prn_output_check *o = worst_output(&r->profile->results[index]);
    const char *reference = r->profile->settings.reference;
    prn_buffer_printf(&r->prose.line, "* MISMATCH %s: outputs differ from %s%s",
                      r->view->names[index], reference ? "those of " : "the first backend's",
                      reference ? reference : "");
    if (o && !o->same_shape)
        prn_buffer_printf(&r->prose.line, "; '%s' has another shape or type", o->name);
    else if (o && !isfinite(o->max_rel))
        prn_buffer_printf(&r->prose.line, "; '%s' has values that can't be subtracted", o->name);
    else if (o)
        prn_buffer_printf(&r->prose.line, "; '%s' by up to %.2g (relative %.2g, cosine %.6g)",
                          o->name, o->max_abs, o->max_rel, o->cosine);
    prn_prose_paragraph(&r->prose,
                        ". A fast wrong answer is no result: check its precision and options.");
}

static void describe_flags(struct report *r)
{
    const struct prn_profile *p = r->profile;
    if (add_flagged(r, PRN_FLAG_UNSTABLE, "UNSTABLE"))
        prn_prose_paragraph(&r->prose,
                            "times had not settled after ten warm-up windows. Fix the processor's "
                            "frequency, stop other work, or give more --warmups.");
    if (add_flagged(r, PRN_FLAG_NOISY, "NOISY"))
        prn_prose_paragraph(
            &r->prose, "other work disturbed this machine while it was measured, and went on when "
                       "blocks were repeated. Stop it, and measure again.");
    if (add_flagged(r, PRN_FLAG_IMPRECISE, "IMPRECISE")) {
        prn_buffer_add(&r->prose.line, "the wanted precision");
        if (isfinite(p->settings.precision)) {
            prn_buffer_add(&r->prose.line, " of ±");
            add_percent(&r->prose.line, p->settings.precision);
        }
        prn_prose_paragraph(
            &r->prose, " was not reached. A longer --max-time or more --launches may reach it.");
    }
    for (size_t i = 0; i < p->n_results; i++)
        if (p->results[i].flags & PRN_FLAG_MISMATCH)
            describe_mismatch(r, i);
    if (add_flagged(r, PRN_FLAG_INTERRUPTED, "INTERRUPTED"))
        prn_prose_paragraph(
            &r->prose, "measuring was interrupted; the figures rest on what was measured until "
                       "then.");
}

/* ---- Below the table: how sure it is ---- */

static void describe_agreement(struct report *r)
{
    const struct prn_profile *p = r->profile;
    double most = 0;
    size_t compared = 0;
    for (size_t i = 0; i < p->n_results; i++) {
        const struct prn_result *result = &p->results[i];
        if (!prn_result_measured(result) || result->n_outputs == 0)
            continue;
        if (result->flags & PRN_FLAG_MISMATCH)
            return;
        compared++;
        for (size_t k = 0; k < result->n_outputs; k++) {
            if (!isfinite(result->outputs[k].max_rel))
                return;
            most = fmax(most, result->outputs[k].max_rel);
        }
    }
    if (compared > 0 && r->view->any_compared)
        prn_prose_paragraph(&r->prose,
                            "Outputs of all backends agree%s (largest relative difference %.2g).",
                            p->n_points > 1 ? " where they were fed the same" : "", most);
}

struct range {
    size_t low, high;
};

static void widen(struct range *range, size_t value)
{
    range->low = value < range->low ? value : range->low;
    range->high = value > range->high ? value : range->high;
}

static void add_range(struct prn_buffer *out, struct range range, const char *one, const char *many)
{
    char low[PRN_FORMAT_SIZE];
    char high[PRN_FORMAT_SIZE];
    prn_format_integer(low, range.low);
    prn_format_integer(high, range.high);
    if (range.low == range.high)
        prn_buffer_printf(out, "%s %s", low, range.low == 1 ? one : many);
    else
        prn_buffer_printf(out, "%s to %s %s", low, high, many);
}

static void describe_method(struct report *r)
{
    const struct prn_profile *p = r->profile;
    struct range samples = {SIZE_MAX, 0};
    struct range launches = {SIZE_MAX, 0};
    double shortest = INFINITY;
    bool priced = true;
    for (size_t i = 0; i < p->n_results; i++) {
        const struct prn_result *result = &p->results[i];
        if (!prn_result_measured(result))
            continue;
        widen(&samples, result->n_samples);
        widen(&launches, result->n_launches);
        shortest = fmin(shortest, result->stats.median_ns);
        priced = priced && isfinite(result->usd_per_hour);
    }
    prn_buffer_add(&r->prose.line, "Time is the median of ");
    add_range(&r->prose.line, samples, "run", "runs");
    prn_buffer_add(&r->prose.line, " in ");
    add_range(&r->prose.line, launches, "launch", "launches");
    prn_prose_paragraph(&r->prose,
                        " (fresh processes)%s; ± is half of its 95 %% interval over %s, Spread the "
                        "interquartile range, both in %% of it.",
                        r->view->sweep.active     ? " per row"
                        : r->view->n_measured > 1 ? " per backend"
                                                  : "",
                        launches.high > 1 ? "launches" : "blocks");
    if (launches.high == 1)
        prn_prose_paragraph(
            &r->prose,
            "One launch can't tell how the next process would differ, often by 1 or 2 %%: "
            "--launches 5 can.");
    if (r->view->any_compared) {
        prn_buffer_printf(&r->prose.line,
                          "vs best is the ratio of times%s, paired block by block%s",
                          p->n_points > 1 ? " to the fastest of the same sizes" : "",
                          p->n_hosts > 1 ? " on the same host and unpaired across hosts" : "");
        if (isfinite(p->settings.smallest_difference)) {
            prn_buffer_add(&r->prose.line, "; \"same\": within ");
            add_percent(&r->prose.line, p->settings.smallest_difference);
        }
        prn_prose_paragraph(&r->prose, "; \"?\": more --launches would tell.");
    }
    if (isfinite(p->timer_ns) && p->timer_ns > 0.005 * shortest)
        prn_prose_paragraph(&r->prose, "Reading the clock takes %.0f ns, which is in every time.",
                            p->timer_ns);
    if (!priced)
        prn_prose_paragraph(
            &r->prose, "Cost is N/A where no price is known; --hardware-file of 'prony profile' "
                       "gives one.");
}

/* Names a percentile that isn't shown for want of samples; `*missing` counts those of a result. */
static void add_missing(struct report *r, size_t index, double ns, double p, size_t *missing)
{
    size_t n = r->profile->results[index].n_samples;
    size_t need = prn_stats_percentile_need(p);
    char text[PRN_FORMAT_SIZE];
    if (isfinite(ns) || n >= need)
        return;
    if (*missing == 0)
        prn_buffer_printf(&r->prose.line, "%s%s for ",
                          r->prose.line.len ? "; " : "Too few samples: ", r->view->names[index]);
    prn_buffer_printf(&r->prose.line, "%sp%g (%s more)", *missing ? ", " : "", p * 100,
                      prn_format_integer(text, need - n));
    ++*missing;
}

/* One percentile over all rows of a sweep. */
static void add_missing_rows(struct report *r, double p)
{
    size_t rows = 0;
    size_t fewest = SIZE_MAX;
    size_t need = prn_stats_percentile_need(p);
    char text[PRN_FORMAT_SIZE];
    for (size_t i = 0; i < r->profile->n_results; i++) {
        const struct prn_result *result = &r->profile->results[i];
        if (!prn_result_measured(result) || result->n_samples >= need)
            continue;
        rows++;
        fewest = result->n_samples < fewest ? result->n_samples : fewest;
    }
    if (rows > 0)
        prn_buffer_printf(&r->prose.line, "%sp%g in %zu row%s (up to %s more)",
                          r->prose.line.len ? ", " : "Too few samples: ", p * 100, rows,
                          rows > 1 ? "s" : "", prn_format_integer(text, need - fewest));
}

static void describe_percentiles(struct report *r)
{
    if (r->view->sweep.active) {
#define PRN_X(name, p) add_missing_rows(r, p);
        PRN_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    }
    for (size_t i = 0; i < r->profile->n_results && !r->view->sweep.active; i++) {
        const struct prn_result *result = &r->profile->results[i];
        size_t missing = 0;
        if (!prn_result_measured(result))
            continue;
#define PRN_X(name, p) add_missing(r, i, result->stats.name##_ns, p, &missing);
        PRN_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    }
    if (r->prose.line.len > 0)
        prn_prose_paragraph(&r->prose, ".");
}

static void describe_outliers(struct report *r)
{
    char text[PRN_FORMAT_SIZE];
    bool sweep = r->view->sweep.active;
    size_t rows = 0;
    double total = 0;
    for (size_t i = 0; i < r->profile->n_results; i++) {
        const struct prn_result *result = &r->profile->results[i];
        if (!prn_result_measured(result) || result->stats.outliers == 0)
            continue;
        if (rows == 0)
            prn_buffer_add(&r->prose.line, "Outliers, which are kept: ");
        if (!sweep)
            prn_buffer_printf(&r->prose.line, "%s%s of %s", rows > 0 ? ", " : "",
                              prn_format_integer(text, (uint64_t)result->stats.outliers),
                              r->view->names[i]);
        total += (double)result->stats.outliers;
        rows++;
    }
    if (rows > 0 && sweep)
        prn_buffer_printf(&r->prose.line, "%.0f in %zu row%s", total, rows, rows > 1 ? "s" : "");
    if (rows > 0)
        prn_prose_paragraph(&r->prose, ".");
}

/* ---- Below the table: what a sweep says ---- */

static void describe_sweep(struct report *r)
{
    const struct prn_sweep_view *sweep = &r->view->sweep;
    bool best = false;
    bool shared = false;
    for (int mark = 0; mark < PRN_MARK_COUNT; mark++) {
        shared = shared || sweep->shared[mark];
        for (size_t i = 0; sweep->best[mark] && i < r->profile->n_results; i++)
            best = best || sweep->best[mark][i];
    }
    for (size_t i = 0; i < sweep->n_axes; i++) {
        if (sweep->axes[i].option)
            prn_prose_paragraph(
                &r->prose,
                "Scaling with %s is the speed-up over the row that has the smallest value of it "
                "and all else equal, divided by the ratio of the values: 100 %% is perfect.",
                sweep->axes[i].option);
        else
            prn_prose_paragraph(&r->prose,
                                "Batch gain is the time per item of the row with the smallest "
                                "batch and all else equal, over this row's.");
    }
    if (best)
        prn_prose_paragraph(&r->prose,
                            "Best marks the shortest time (latency), the most items per second "
                            "(throughput) and the lowest cost of an item%s.",
                            shared ? "; with \"?\" where rows can't be told apart, because their "
                                     "intervals overlap or they differ too little"
                                   : "");
}

static int write_report(struct report *r, struct prony_error *err)
{
    const struct prn_profile *p = r->profile;
    describe_model(r);
    describe_points(r);
    if (p->n_results == 0) {
        prn_prose_paragraph(&r->prose, "Nothing was measured.");
        return 0;
    }
    int code = prn_view_tables(r->view,
                               r->prose.markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT,
                               r->prose.markdown ? SIZE_MAX : TABLE_WIDTH, r->prose.out, err);
    if (code < 0)
        return code;
    prn_buffer_add_char(r->prose.out, '\n');
    describe_failures(r);
    describe_flags(r);
    for (size_t i = 0; i < p->n_notes; i++)
        prn_prose_paragraph(&r->prose, "Note: %s", p->notes[i]);
    if (r->view->n_measured > 0) {
        describe_agreement(r);
        describe_method(r);
        describe_sweep(r);
        describe_percentiles(r);
        describe_outliers(r);
    }
    if (prn_load_present(p))
        code =
            prn_load_section(r->view, &r->prose, r->prose.markdown ? SIZE_MAX : TABLE_WIDTH, err);
    if (code < 0)
        return code;
    prn_view_environment(p, &r->prose);
    return prn_ops_sections(r->view, r->prose.markdown, TABLE_WIDTH, r->prose.out, err);
}

static int write_prose(const struct prn_view *view, bool markdown, struct prn_buffer *out,
                       struct prony_error *err)
{
    static const struct prn_result first;
    struct report r = {.view = view,
                       .profile = view->profile,
                       .point = prn_result_point(view->profile, &first),
                       .prose = prn_prose_init(markdown, out)};
    int code = write_report(&r, err);
    prn_prose_release(&r.prose);
    return code < 0 ? code : prn_buffer_error(out, err);
}

int prn_profile_report_csv(const struct prn_profile *profile, enum prn_report_table table,
                           struct prn_buffer *out, struct prony_error *err)
{
    if (profile->recorded && table == PRN_REPORT_TABLE_RESULTS)
        return prn_recorded_csv(profile, out, err);
    struct prn_view view;
    int code = prn_view_init(&view, profile, err);
    if (code < 0)
        return code;
    if (table == PRN_REPORT_TABLE_RESULTS)
        code = prn_view_csv(&view, out, err);
    else if (table == PRN_REPORT_TABLE_LOAD)
        code = prn_load_table(&view, PRN_TABLE_STYLE_CSV, 0, out, err);
    else if (table == PRN_REPORT_TABLE_TRIALS)
        code = prn_slo_trials_csv(&view, out, err);
    else
        code = prn_ops_csv(&view, table, out, err);
    prn_view_release(&view);
    return code;
}

int prn_profile_report(const struct prn_profile *profile, enum prn_report_format format,
                       struct prn_buffer *out, struct prony_error *err)
{
    if (format == PRN_REPORT_FORMAT_JSON)
        return prn_profile_write_json(profile, out, err);
    if (format == PRN_REPORT_FORMAT_CSV)
        return prn_profile_report_csv(profile, PRN_REPORT_TABLE_RESULTS, out, err);
    if (format == PRN_REPORT_FORMAT_HTML)
        return prn_page_of_profile(profile, out, err);
    if (profile->recorded)
        return prn_recorded_report(profile, PRN_RECORDED_LAYOUT_SUMMARY, false,
                                   format == PRN_REPORT_FORMAT_MARKDOWN, out, err);
    struct prn_view view;
    int code = prn_view_init(&view, profile, err);
    if (code < 0)
        return code;
    code = write_prose(&view, format == PRN_REPORT_FORMAT_MARKDOWN, out, err);
    prn_view_release(&view);
    return code;
}
