/*
 * The text and Markdown reports: the model, the verdict, one table, what limits trust and what to
 * do about it, how it was measured. With everything wanted, also all inputs and points, every
 * column, and how each figure came about. What stands below the table is a list of paragraphs; the
 * style decides whether they are wrapped lines or bullets.
 */
#include "report/profile/report.h"

#include "base/format.h"
#include "base/text.h"
#include "report/load/report.h"
#include "report/memory/report.h"
#include "report/ops/report.h"
#include "report/page.h"
#include "report/profile/json.h"
#include "report/profile/view.h"
#include "report/recorded/report.h"
#include "report/verdict.h"

#include <math.h>
#include <string.h>

#define INPUTS_NAMED 3 /* in the line of the model */
#define BUSY 1.5       /* load of the machine that is worth telling */
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
    if (point->flops == 0 && !point->flops_complete) {
        prn_buffer_add(out, ", FLOPs not known");
    } else if (isfinite(point->flops)) {
        prn_buffer_add(out, point->flops_complete ? ", " : ", at least ");
        add_counted(out, point->flops, "FLOP");
        prn_buffer_add(out, " per run");
    }
    if (point->batch > 1 && !label_has_batch(point))
        prn_buffer_printf(out, ", batch of %s", prn_format_integer(text, (uint64_t)point->batch));
}

/* " · input bytes int32 1x2048" */
static void add_inputs(struct prn_buffer *out, const struct prn_point *p)
{
    char shape[PRN_RANK_MAX * 24];
    for (size_t i = 0; i < p->n_inputs && i < INPUTS_NAMED; i++) {
        const struct prn_profile_input *input = &p->inputs[i];
        prn_buffer_printf(out, "%s%s %s %s",
                          i > 0             ? ", "
                          : p->n_inputs > 1 ? " · inputs "
                                            : " · input ",
                          input->name, prn_dtype_name(input->dtype),
                          prn_dims_text(input->dims, input->rank, shape, sizeof shape));
    }
    if (p->n_inputs > INPUTS_NAMED)
        prn_buffer_printf(out, " and %zu more", p->n_inputs - INPUTS_NAMED);
}

/* " · 3.00 MiB · 785 k parameters · 739 MFLOP · input bytes int32 1x2048" */
static void add_facts(struct report *r, size_t index, struct prn_buffer *facts)
{
    const struct prn_profile *p = r->profile;
    const struct prn_profile_model *model = &p->models[index];
    const struct prn_point *point = p->n_models > 1 ? &p->points[index] : r->point;
    char text[PRN_FORMAT_SIZE];
    if (model->bytes >= 0)
        prn_buffer_printf(facts, " · %s", prn_format_bytes(text, (double)model->bytes));
    if (model->parameters >= 0)
        prn_buffer_printf(facts, " · %s parameters",
                          prn_format_count(text, (double)model->parameters));
    if (p->n_points > p->n_models) {
        prn_buffer_printf(facts, " · %zu points", p->n_points / p->n_models);
        return;
    }
    if (!isfinite(point->flops) || (point->flops == 0 && !point->flops_complete)) {
        prn_buffer_add(facts, " · FLOPs not known");
    } else {
        prn_buffer_add(facts, point->flops_complete ? " · " : " · at least ");
        add_counted(facts, point->flops, "FLOP");
    }
    if (point->batch > 1)
        prn_buffer_printf(facts, " · batch of %s",
                          prn_format_integer(text, (uint64_t)point->batch));
    if (!r->prose.look.verbose)
        add_inputs(facts, point);
}

static void describe_model(struct report *r, size_t index)
{
    const struct prn_profile_model *model = &r->profile->models[index];
    const char *called = r->profile->n_models > 1 ? model->name : model->path;
    struct prn_buffer *out = r->prose.out;
    struct prn_buffer facts = PRN_BUFFER_INIT((size_t)1 << 20);
    struct prn_buffer name = PRN_BUFFER_INIT((size_t)1 << 20);
    struct prn_buffer clean = PRN_BUFFER_INIT((size_t)1 << 20);
    const char *separator = " · ";
    prn_text_clean(&name, called ? called : "unknown model");
    add_facts(r, index, &facts);
    prn_text_clean(&clean, prn_buffer_text(&facts) + (facts.len ? strlen(separator) : 0));
    if (r->prose.markdown) {
        prn_buffer_add(out, "**");
        prn_markdown_text(out, prn_buffer_text(&name));
        prn_buffer_add(out, "** ");
        prn_markdown_text(out, prn_buffer_text(&clean));
        prn_buffer_add(out, "\n\n");
    } else {
        /* A name that is longer than a line goes on in the next, and so do the facts. */
        prn_text_wrap(out, prn_buffer_text(&name), 0, 2, r->prose.look.width);
        size_t column = prn_text_width(prn_buffer_text(&name)) + 3;
        if (column < r->prose.look.width && out->len > 0 && !out->error) {
            out->data[--out->len] = '\0';
            prn_buffer_add(out, "   ");
        } else {
            column = 2;
            prn_buffer_add(out, "  ");
        }
        prn_text_wrap(out, prn_buffer_text(&clean), column, 2, r->prose.look.width);
    }
    prn_prose_pass_error(&r->prose, &name);
    prn_prose_pass_error(&r->prose, &facts);
    prn_prose_pass_error(&r->prose, &clean);
    prn_buffer_release(&clean);
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

/* One line for a point of a sweep, or of several models: shapes and work. */
static void describe_point(struct report *r, size_t index)
{
    const struct prn_profile *p = r->profile;
    const struct prn_point *point = &p->points[index];
    struct prn_buffer *line = &r->prose.line;
    char shape[PRN_RANK_MAX * 24];
    if (p->n_models > 1)
        prn_buffer_printf(line, "%s%s", p->models[index % p->n_models].name,
                          point->label[0] ? ", " : "");
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
        describe_point(r, i);
    if (p->n_points > POINTS_SHOWN) {
        prn_buffer_printf(&r->prose.line, "and %zu more points", p->n_points - POINTS_SHOWN);
        prn_prose_flush(&r->prose, 2);
    }
}

/* ---- Below the table: what went wrong ---- */

static void PRN_PRINTF(2, 3) warn(struct report *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    prn_buffer_vprintf(&r->prose.line, format, args);
    va_end(args);
    prn_prose_warning(&r->prose);
}

static void describe_failures(struct report *r)
{
    for (size_t i = 0; i < r->profile->n_results; i++) {
        const struct prn_result *result = &r->profile->results[i];
        if (result->error_code != 0)
            warn(r, "%s failed: %s", r->view->calls[i],
                 result->error ? result->error : prony_error_text(result->error_code));
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
        prn_buffer_printf(&r->prose.line, "%s%s", before > 0 ? ", " : "", r->view->calls[index]);
}

/* Ends a list of `n` names. */
static void add_unnamed(struct report *r, size_t n)
{
    if (n > 0 && !is_named(r, n - 1))
        prn_buffer_printf(&r->prose.line, " and %zu more", n - NAMES_SHOWN);
}

static size_t count_flagged(const struct report *r, unsigned bit)
{
    size_t n = 0;
    for (size_t i = 0; i < r->profile->n_results; i++)
        n += (r->profile->results[i].flags & bit) != 0;
    return n;
}

/* The results with a flag: "x, y and 3 more", or nothing where all that were measured have it. */
static void add_flagged(struct report *r, const char *before, unsigned bit)
{
    size_t n = 0;
    if (count_flagged(r, bit) == r->view->n_measured && r->view->n_measured > 1)
        return;
    prn_buffer_add(&r->prose.line, before);
    for (size_t i = 0; i < r->profile->n_results; i++)
        if (r->profile->results[i].flags & bit)
            add_name(r, i, n++);
    add_unnamed(r, n);
}

static void describe_mismatch(struct report *r, size_t index)
{
    const struct prn_result *result = &r->profile->results[index];
    const char *reference = r->profile->settings.reference;
    prn_buffer_printf(&r->prose.line, "Outputs of %s differ from %s%s", r->view->calls[index],
                      reference ? "those of " : "the first backend's", reference ? reference : "");
    const struct prn_output_check *o =
        prn_view_difference(&r->prose.line, result->outputs, result->n_outputs);
    prn_buffer_add(&r->prose.line, ". Check its precision and options");
    if (o && o->same_shape && o->max_rel > 0 && o->max_rel < 0.5)
        prn_buffer_printf(&r->prose.line, ", or accept this with --tolerance %.2g%%",
                          100 * 1.05 * o->max_rel);
    warn(r, ".");
}

/* Models need not agree, but whoever compares their times must know. */
static void describe_model_outputs(struct report *r)
{
    const struct prn_profile *p = r->profile;
    for (size_t i = 0; i < p->n_points; i++) {
        const struct prn_point *point = &p->points[i];
        if (point->outputs_differing == 0)
            continue;
        prn_buffer_printf(&r->prose.line, "Outputs of %s differ from those of %s",
                          p->models[i % p->n_models].name, p->models[0].name);
        if (point->label[0])
            prn_buffer_printf(&r->prose.line, " at %s", point->label);
        prn_view_difference(&r->prose.line, point->outputs, point->n_outputs);
        warn(r, ".");
    }
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

/* How long warm-up was where times hadn't settled when it ended. */
static void describe_unstable(struct report *r)
{
    struct range runs = {SIZE_MAX, 0};
    size_t launches = 0;
    size_t unsettled = 0;
    if (count_flagged(r, PRN_FLAG_UNSTABLE) == 0)
        return;
    for (size_t i = 0; i < r->profile->n_results; i++) {
        const struct prn_result *result = &r->profile->results[i];
        if (!(result->flags & PRN_FLAG_UNSTABLE))
            continue;
        launches += result->n_launches;
        for (size_t k = 0; k < result->n_launches; k++) {
            const struct prn_launch *launch = &result->launches[k];
            if (launch->settled || launch->first_run_ns < 0)
                continue;
            unsettled++;
            widen(&runs, launch->warmup_runs > 0 ? (size_t)launch->warmup_runs : 0);
        }
    }
    prn_buffer_add(&r->prose.line, "Not settled: times");
    add_flagged(r, " of ", PRN_FLAG_UNSTABLE);
    prn_buffer_add(&r->prose.line, " still changed");
    if (unsettled > 0) {
        prn_buffer_add(&r->prose.line, " after ");
        add_range(&r->prose.line, runs, "warm-up run", "warm-up runs");
        prn_buffer_printf(&r->prose.line, " in %zu of %zu process%s", unsettled, launches,
                          launches == 1 ? "" : "es");
    }
    warn(r, ". Stop other work, fix the processor's frequency, or allow more --warmups or a longer "
            "--max-time.");
}

/* " (load 8)", where the machine has more to do than cores. */
static void add_load(struct report *r)
{
    const struct prn_environment *e = &r->profile->environment;
    double load = fmax(e->load_before, e->load_after);
    if (r->profile->n_hosts == 0 && load > BUSY)
        prn_buffer_printf(&r->prose.line, " (load %.*f)", load < 10 ? 1 : 0, load);
}

/* "Not precise: the machine was busy (load 8), so times are known to ±10 %, not ±1 %. …" */
static void describe_imprecise(struct report *r)
{
    const struct prn_profile *p = r->profile;
    bool noisy = count_flagged(r, PRN_FLAG_NOISY) > 0;
    double widest = 0;
    if (count_flagged(r, PRN_FLAG_IMPRECISE) == 0)
        return;
    for (size_t i = 0; i < p->n_results; i++)
        if (p->results[i].flags & PRN_FLAG_IMPRECISE)
            widest = fmax(widest, prn_result_half_width(&p->results[i]));
    prn_buffer_add(&r->prose.line, "Not precise: ");
    if (noisy) {
        prn_buffer_add(&r->prose.line, "the machine was busy");
        add_load(r);
        prn_buffer_add(&r->prose.line, ", so ");
    }
    prn_buffer_add(&r->prose.line, "times");
    add_flagged(r, " of ", PRN_FLAG_IMPRECISE);
    if (widest > p->settings.precision && widest <= 1) {
        prn_buffer_add(&r->prose.line, " are known to ±");
        prn_view_half_width(&r->prose.line, widest);
        prn_buffer_add(&r->prose.line, ", not ±");
    } else {
        prn_buffer_add(&r->prose.line, " may not be known to ±");
    }
    add_percent(&r->prose.line, isfinite(p->settings.precision) ? p->settings.precision : 0.01);
    warn(r, noisy ? ". Stop other work and repeat."
                  : ". A longer --max-time or more --launches may help.");
}

static void describe_noise(struct report *r)
{
    if (count_flagged(r, PRN_FLAG_NOISY) == 0 || count_flagged(r, PRN_FLAG_IMPRECISE) > 0)
        return;
    prn_buffer_add(&r->prose.line, "Noisy: other work ran on this machine");
    add_load(r);
    add_flagged(r, " while it measured ", PRN_FLAG_NOISY);
    warn(r, ". Stop other work and repeat.");
}

static void describe_flags(struct report *r)
{
    const struct prn_profile *p = r->profile;
    describe_imprecise(r);
    describe_noise(r);
    describe_unstable(r);
    for (size_t i = 0; i < p->n_results; i++)
        if (p->results[i].flags & PRN_FLAG_MISMATCH)
            describe_mismatch(r, i);
    if (count_flagged(r, PRN_FLAG_INTERRUPTED) > 0) {
        prn_buffer_add(&r->prose.line, "Interrupted: the figures");
        add_flagged(r, " of ", PRN_FLAG_INTERRUPTED);
        warn(r, " use what was measured until then.");
    }
}

/* ---- Below the table: how sure it is ---- */

/* NaN on both sides may be the same fault, or two. */
static void describe_nan(struct report *r)
{
    char text[PRN_FORMAT_SIZE];
    for (size_t i = 0; i < r->profile->n_results; i++) {
        const struct prn_result *result = &r->profile->results[i];
        for (size_t k = 0; k < result->n_outputs; k++) {
            const struct prn_output_check *o = &result->outputs[k];
            if (o->both_nan <= 0)
                continue;
            warn(r,
                 "Output '%s' is NaN (not a number) in %s place%s, on %s and on the backend that "
                 "it is compared with, so whether they agree there is unknown. Real inputs "
                 "(--inputs, --input) may give numbers.",
                 o->name, prn_format_integer(text, (uint64_t)o->both_nan),
                 o->both_nan == 1 ? "" : "s", r->view->calls[i]);
            return;
        }
    }
}

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
            if (!isfinite(result->outputs[k].max_rel) || result->outputs[k].both_nan > 0)
                return;
            most = fmax(most, result->outputs[k].max_rel);
        }
    }
    if (compared > 0 && r->view->any_compared)
        prn_prose_paragraph(
            &r->prose,
            "Outputs of all backends agree%s (largest relative difference "
            "%.2g%s).",
            p->n_points > 1 ? " where they were fed the same" : "", most,
            most > p->settings.tolerance ? ", in values so small that it is rounding" : "");
}

/* Why there is no ±, and what gives one. */
static void describe_few_launches(struct report *r)
{
    size_t fewest = SIZE_MAX;
    for (size_t i = 0; i < r->profile->n_results; i++)
        if (prn_result_measured(&r->profile->results[i]) &&
            r->profile->results[i].n_launches < fewest)
            fewest = r->profile->results[i].n_launches;
    if (fewest >= PRN_UNITS_MIN)
        return;
    warn(r,
         "No ±: %zu process%s cannot show how much processes differ, often by 1 or 2 %%. Use %s.",
         fewest, fewest == 1 ? "" : "es", prn_view_launches_cure(r->profile, fewest));
}

static void describe_method(struct report *r)
{
    const struct prn_profile *p = r->profile;
    struct range samples = {SIZE_MAX, 0};
    struct range launches = {SIZE_MAX, 0};
    bool priced = true;
    for (size_t i = 0; i < p->n_results; i++) {
        const struct prn_result *result = &p->results[i];
        if (!prn_result_measured(result))
            continue;
        widen(&samples, result->n_samples);
        widen(&launches, result->n_launches);
        priced = priced && isfinite(result->usd_per_hour);
    }
    prn_buffer_add(&r->prose.line, "Time is the median of ");
    add_range(&r->prose.line, samples, "run", "runs");
    prn_buffer_add(&r->prose.line, " in ");
    add_range(&r->prose.line, launches, "launch", "launches");
    prn_buffer_printf(&r->prose.line, " (%s)%s",
                      launches.high == 1 ? "a fresh process" : "fresh processes",
                      r->view->sweep.active     ? " per row"
                      : r->view->n_measured > 1 ? " per backend"
                                                : "");
    if (launches.high >= PRN_UNITS_MIN)
        prn_prose_paragraph(&r->prose,
                            "; ± is half of its 95 %% interval over launches, Spread the "
                            "interquartile range, both in %% of it.");
    else
        prn_prose_paragraph(&r->prose, "; Spread is the interquartile range, in %% of it.");
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
                          r->prose.line.len ? "; " : "Too few samples: ", r->view->calls[index]);
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
            prn_buffer_add(&r->prose.line, "Outliers (included): ");
        if (!sweep)
            prn_buffer_printf(&r->prose.line, "%s%s of %s", rows > 0 ? ", " : "",
                              prn_format_integer(text, (uint64_t)result->stats.outliers),
                              r->view->calls[i]);
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

/* ---- The whole ---- */

/* Times so short that reading the clock is a part of them. */
static void describe_timer(struct report *r)
{
    const struct prn_profile *p = r->profile;
    double shortest = INFINITY;
    for (size_t i = 0; i < p->n_results; i++)
        if (prn_result_measured(&p->results[i]))
            shortest = fmin(shortest, p->results[i].stats.median_ns);
    if (isfinite(p->timer_ns) && p->timer_ns > 0.005 * shortest)
        warn(r, "Reading the clock takes %.0f ns, which is part of every time.", p->timer_ns);
}

/* What limits trust, and what to do about it. */
static void write_warnings(struct report *r)
{
    const struct prn_profile *p = r->profile;
    describe_failures(r);
    describe_model_outputs(r);
    describe_flags(r);
    for (size_t i = 0; i < p->n_notes; i++) {
        const char *note = p->notes[i];
        bool letter = note[0] >= 'a' && note[0] <= 'z';
        size_t len = strlen(note);
        warn(r, "%c%s%s", letter ? note[0] - 'a' + 'A' : note[0], note + (len > 0),
             len > 0 && note[len - 1] == '.' ? "" : ".");
    }
    if (r->view->n_measured == 0)
        return;
    describe_nan(r);
    describe_few_launches(r);
    describe_timer(r);
}

void prn_view_warnings(const struct prn_view *view, struct prn_buffer *out)
{
    const struct prn_look look = {.width = PRN_LOOK_UNLIMITED};
    struct report r = {.view = view, .profile = view->profile, .prose = prn_prose_init(&look, out)};
    write_warnings(&r);
    prn_prose_release(&r.prose);
}

static void write_details(struct report *r)
{
    if (r->view->n_measured > 0) {
        describe_agreement(r);
        describe_method(r);
        describe_sweep(r);
        describe_percentiles(r);
        describe_outliers(r);
    }
    prn_view_environment(r->profile, &r->prose);
}

/* "330 and 255 runs", "90 to 330 runs". */
static void add_runs(struct report *r)
{
    struct range samples = {SIZE_MAX, 0};
    const struct prn_profile *p = r->profile;
    char text[PRN_FORMAT_SIZE];
    size_t told = 0;
    for (size_t i = 0; i < p->n_results; i++)
        if (prn_result_measured(&p->results[i]))
            widen(&samples, p->results[i].n_samples);
    if (r->view->n_measured > 3 || samples.low == samples.high) {
        add_range(&r->prose.line, samples, "run", "runs");
        return;
    }
    for (size_t i = 0; i < p->n_results; i++)
        if (prn_result_measured(&p->results[i]))
            prn_verdict_name(told++, r->view->n_measured,
                             prn_format_integer(text, p->results[i].n_samples), &r->prose.line);
    prn_buffer_add(&r->prose.line, " runs");
}

/* "5 processes of each, 330 and 255 runs · ONNX Runtime 1.31.1 · AMD EPYC, 2 cores" */
static void write_origin(struct report *r)
{
    const struct prn_profile *p = r->profile;
    struct prn_buffer *line = &r->prose.line;
    struct range launches = {SIZE_MAX, 0};
    for (size_t i = 0; i < p->n_results; i++)
        if (prn_result_measured(&p->results[i]))
            widen(&launches, p->results[i].n_launches);
    if (r->view->n_measured > 0) {
        add_range(line, launches, "process", "processes");
        prn_buffer_add(line, r->view->n_measured > 1 ? " of each, " : ", ");
        add_runs(r);
    }
    prn_view_runtimes(p, line->len ? " · " : "", line);
    if (p->n_hosts > 0)
        prn_buffer_printf(line, "%s%zu host%s of a service", line->len ? " · " : "", p->n_hosts,
                          p->n_hosts == 1 ? "" : "s");
    else if (p->environment.cpu)
        prn_buffer_printf(line, "%s%s", line->len ? " · " : "", p->environment.cpu);
    if (p->n_hosts == 0 && p->environment.cpu && p->environment.cores > 0)
        prn_buffer_printf(line, ", %lld core%s", (long long)p->environment.cores,
                          p->environment.cores > 1 ? "s" : "");
    prn_prose_flush(&r->prose, 0);
}

static int write_table(struct report *r, struct prony_error *err)
{
    prn_buffer_add_char(r->prose.out, '\n');
    int code = prn_view_tables(r->view, &r->prose.look, r->prose.out, err);
    prn_buffer_add_char(r->prose.out, '\n');
    return code;
}

static int write_report(struct report *r, struct prony_error *err)
{
    const struct prn_profile *p = r->profile;
    const struct prn_look *look = &r->prose.look;
    for (size_t i = 0; i < r->profile->n_models; i++)
        describe_model(r, i);
    if (look->verbose)
        describe_points(r);
    if (!r->prose.markdown || look->verbose)
        prn_buffer_add_char(r->prose.out, '\n');
    prn_view_verdict(r->view, &r->prose.line);
    prn_prose_verdict(&r->prose);
    int code = p->n_results > 0 ? write_table(r, err) : 0;
    if (code < 0 || p->n_results == 0)
        return code;
    write_warnings(r);
    prn_view_specs(p, &r->prose);
    if (look->verbose)
        write_details(r);
    else
        write_origin(r);
    if (prn_load_present(p))
        code = prn_load_section(r->view, &r->prose, err);
    if (code == 0)
        code = prn_memory_sections(r->view, &r->prose, err);
    if (code == 0)
        code = prn_ops_sections(r->view, look, r->prose.out, err);
    if (code == 0 && look->more && !look->markdown && !look->verbose)
        prn_prose_paragraph(&r->prose, "More: %s", look->more);
    return code;
}

static int write_prose(const struct prn_view *view, const struct prn_look *look,
                       struct prn_buffer *out, struct prony_error *err)
{
    static const struct prn_result first;
    struct report r = {.view = view,
                       .profile = view->profile,
                       .point = prn_result_point(view->profile, &first),
                       .prose = prn_prose_init(look, out)};
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
        code = prn_load_table(&view, PRN_TABLE_STYLE_CSV, NULL, out, err);
    else if (table == PRN_REPORT_TABLE_TRIALS)
        code = prn_slo_trials_csv(&view, out, err);
    else
        code = prn_ops_csv(&view, table, out, err);
    prn_view_release(&view);
    return code;
}

int prn_profile_report(const struct prn_profile *profile, enum prn_report_format format,
                       const struct prn_look *look, struct prn_buffer *out, struct prony_error *err)
{
    struct prn_look own = look ? *look : (struct prn_look){0};
    own.markdown = format == PRN_REPORT_FORMAT_MARKDOWN;
    if (format == PRN_REPORT_FORMAT_JSON)
        return prn_profile_write_json(profile, out, err);
    if (format == PRN_REPORT_FORMAT_CSV)
        return prn_profile_report_csv(profile, PRN_REPORT_TABLE_RESULTS, out, err);
    if (format == PRN_REPORT_FORMAT_HTML)
        return prn_page_of_profile(profile, out, err);
    if (profile->recorded)
        return prn_recorded_report(profile, PRN_RECORDED_LAYOUT_SUMMARY, &own, out, err);
    struct prn_view view;
    int code = prn_view_init(&view, profile, err);
    if (code < 0)
        return code;
    code = write_prose(&view, &own, out, err);
    prn_view_release(&view);
    return code;
}
