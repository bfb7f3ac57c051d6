/* From samples to statistics. The unit of every interval is the launch: blocks and runs within a
 * process are alike in ways that the next process is not. */
#include "measure/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Samples come in time order, so a launch's and a block's are contiguous. */
static size_t run_length(const struct prn_sample *s, size_t n, bool by_block)
{
    size_t i = 1;
    while (i < n && s[i].launch == s[0].launch && (!by_block || s[i].block == s[0].block))
        i++;
    return i;
}

typedef double figure_of(const struct prn_sample *s, size_t n, double *scratch);

/* Times as numbers that have a logarithm. */
static void copy_times(const struct prn_sample *s, size_t n, double *values)
{
    for (size_t i = 0; i < n; i++)
        values[i] = (double)(s[i].ns > 0 ? s[i].ns : 1);
}

static double median(const struct prn_sample *s, size_t n, double *scratch)
{
    copy_times(s, n, scratch);
    prn_stats_sort(scratch, n);
    return prn_stats_median(scratch, n);
}

static double mean(const struct prn_sample *s, size_t n, double *scratch)
{
    copy_times(s, n, scratch);
    return prn_stats_mean(scratch, n);
}

static double log_median(const struct prn_sample *s, size_t n, double *scratch)
{
    return log(median(s, n, scratch));
}

static const struct prn_interval nothing = {NAN, NAN, NAN};

/* With one launch, its blocks are all there is to tell how times vary. */
static bool blocks_are_units(const struct prn_sample *samples, size_t n)
{
    return run_length(samples, n, false) == n;
}

/* The logarithms of a figure of the units, which `units` has room for; returns how many. */
static size_t unit_logs(const struct prn_sample *samples, size_t n, figure_of *figure,
                        double *units, double *scratch)
{
    bool by_block = blocks_are_units(samples, n);
    size_t n_units = 0;
    for (size_t i = 0; i < n;) {
        size_t len = run_length(samples + i, n - i, by_block);
        units[n_units++] = log(figure(samples + i, len, scratch));
        i += len;
    }
    return n_units;
}

/* A figure of all samples, with the interval that those of the units give. */
static struct prn_interval interval_of(const struct prn_sample *samples, size_t n,
                                       figure_of *figure)
{
    double *scratch = n ? calloc(n, sizeof *scratch) : NULL;
    double *units = n ? calloc(n, sizeof *units) : NULL;
    struct prn_interval r = nothing;
    if (scratch && units) {
        r = prn_stats_mean_interval(units, unit_logs(samples, n, figure, units, scratch));
        r.estimate = figure(samples, n, scratch);
        r.low = fmin(exp(r.low), r.estimate);
        r.high = fmax(exp(r.high), r.estimate);
    }
    free(scratch);
    free(units);
    return r;
}

struct prn_interval prn_median_interval(const struct prn_sample *samples, size_t n)
{
    return interval_of(samples, n, median);
}

struct prn_interval prn_mean_interval(const struct prn_sample *samples, size_t n)
{
    return interval_of(samples, n, mean);
}

double prn_median_log_error(const struct prn_sample *samples, size_t n)
{
    double *scratch = n ? calloc(2 * n, sizeof *scratch) : NULL;
    double error = NAN;
    if (scratch && !blocks_are_units(samples, n)) {
        size_t launches = unit_logs(samples, n, median, scratch, scratch + n);
        if (launches >= PRN_UNITS_MIN)
            error = prn_stats_sd(scratch, launches) / sqrt((double)launches);
    }
    free(scratch);
    return error;
}

struct prn_interval prn_ratio_interval(const struct prn_sample *a, size_t n_a,
                                       const struct prn_sample *b, size_t n_b)
{
    size_t most = n_a > n_b ? n_a : n_b;
    double *scratch = most ? calloc(most, sizeof *scratch) : NULL;
    struct pair {
        int32_t launch;
        double log_ratio;
    } *pairs = most ? calloc(most, sizeof *pairs) : NULL;
    double *units = most ? calloc(most, sizeof *units) : NULL;
    struct prn_interval r = nothing;
    if (!scratch || !pairs || !units)
        goto done;
    size_t n_pairs = 0;
    for (size_t i = 0, k = 0; i < n_a && k < n_b;) {
        size_t len_a = run_length(a + i, n_a - i, true);
        size_t len_b = run_length(b + k, n_b - k, true);
        if (a[i].block == b[k].block)
            pairs[n_pairs++] = (struct pair){a[i].launch, log_median(a + i, len_a, scratch) -
                                                              log_median(b + k, len_b, scratch)};
        bool forward_a = a[i].block <= b[k].block;
        bool forward_b = b[k].block <= a[i].block;
        i += forward_a ? len_a : 0;
        k += forward_b ? len_b : 0;
    }
    if (n_pairs == 0)
        goto done;
    bool by_block = pairs[0].launch == pairs[n_pairs - 1].launch;
    size_t n_units = 0;
    for (size_t i = 0; i < n_pairs;) {
        size_t n = 0;
        int32_t launch = pairs[i].launch;
        do {
            scratch[n++] = pairs[i++].log_ratio;
        } while (i < n_pairs && !by_block && pairs[i].launch == launch);
        /* The median, because one disturbed block must not speak for a launch. */
        prn_stats_sort(scratch, n);
        units[n_units++] = prn_stats_median(scratch, n);
    }
    r = prn_stats_mean_interval(units, n_units);
    r = (struct prn_interval){exp(r.low), exp(r.estimate), exp(r.high)};
done:
    free(scratch);
    free(pairs);
    free(units);
    return r;
}

struct prn_unpaired prn_unpaired_of(double a, const double *logs_a, size_t n_a, double b,
                                    const double *logs_b, size_t n_b)
{
    struct prn_unpaired u = {.a = a, .b = b, .ratio = nothing, .p = NAN};
    if (!(a > 0) || !(b > 0))
        return u;
    struct prn_welch welch = prn_stats_welch(logs_a, n_a, logs_b, n_b);
    u.ratio.estimate = a / b;
    u.ratio.low = fmin(exp(welch.difference.low), u.ratio.estimate);
    u.ratio.high = fmax(exp(welch.difference.high), u.ratio.estimate);
    u.p = welch.p;
    return u;
}

int prn_ratio_unpaired(const struct prn_sample *a, size_t n_a, const struct prn_sample *b,
                       size_t n_b, struct prn_unpaired *ret_ratio)
{
    if (n_a == 0 || n_b == 0) {
        *ret_ratio = (struct prn_unpaired){.a = NAN, .b = NAN, .ratio = nothing, .p = NAN};
        return 0;
    }
    double *units = calloc(n_a + n_b, sizeof *units);
    double *scratch = calloc(n_a > n_b ? n_a : n_b, sizeof *scratch);
    int code = units && scratch ? 0 : PRONY_ENOMEM;
    if (code == 0) {
        size_t units_a = unit_logs(a, n_a, median, units, scratch);
        size_t units_b = unit_logs(b, n_b, median, units + units_a, scratch);
        *ret_ratio = prn_unpaired_of(median(a, n_a, scratch), units, units_a,
                                     median(b, n_b, scratch), units + units_a, units_b);
        ret_ratio->by_block = blocks_are_units(a, n_a) || blocks_are_units(b, n_b);
    }
    free(units);
    free(scratch);
    return code;
}

enum prn_verdict prn_verdict_of(struct prn_interval ratio, double smallest_difference)
{
    const double most = 1 + smallest_difference;
    if (isnan(ratio.estimate))
        return PRN_VERDICT_NONE;
    if (ratio.low > most)
        return PRN_VERDICT_SLOWER;
    if (ratio.high < 1 / most)
        return PRN_VERDICT_FASTER;
    return ratio.low >= 1 / most && ratio.high <= most ? PRN_VERDICT_SAME : PRN_VERDICT_UNSURE;
}

static double percentile(const double *sorted, size_t n, double p)
{
    return n >= prn_stats_percentile_need(p) ? prn_stats_quantile(sorted, n, p) : NAN;
}

/* Launches that gave samples. */
static size_t launches_of(const struct prn_sample *samples, size_t n)
{
    size_t launches = 0;
    for (size_t i = 0; i < n; i++)
        launches += i == 0 || samples[i].launch != samples[i - 1].launch;
    return launches;
}

static int summarise_result(struct prn_result *r, struct prony_error *err)
{
    size_t n = r->n_samples;
    double *values = calloc(n, sizeof *values);
    if (!values)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        values[i] = (double)r->samples[i].ns;
    prn_stats_sort(values, n);
    bool enough = launches_of(r->samples, n) >= PRN_UNITS_MIN;
    struct prn_interval interval = enough ? prn_median_interval(r->samples, n) : nothing;
    struct prn_sample_stats *s = &r->stats;
    s->median_ns = prn_stats_median(values, n);
    s->low_ns = isfinite(interval.low) && interval.low > 0 ? interval.low : NAN;
    s->high_ns = isfinite(interval.high) ? interval.high : NAN;
    s->mean_ns = prn_stats_mean(values, n);
    s->sd_ns = prn_stats_sd(values, n);
    s->min_ns = values[0];
    s->max_ns = values[n - 1];
#define PRN_X(name, p) s->name##_ns = percentile(values, n, p);
    PRN_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    double q1 = prn_stats_quantile(values, n, 0.25);
    double q3 = prn_stats_quantile(values, n, 0.75);
    s->spread = n < PRN_UNITS_MIN ? NAN : s->median_ns > 0 ? (q3 - q1) / s->median_ns : 0;
    s->outliers = 0;
    for (size_t i = 0; i < n; i++)
        s->outliers += values[i] < q1 - 3 * (q3 - q1) || values[i] > q3 + 3 * (q3 - q1);
    free(values);
    return 0;
}

/* Blocks of two hosts have the same numbers, but not the same time. */
static int ratio_of(const struct prn_result *a, const struct prn_result *b,
                    struct prn_interval *ret_ratio, struct prony_error *err)
{
    if (!a->hardware || !b->hardware || strcmp(a->hardware, b->hardware) == 0) {
        *ret_ratio = prn_ratio_interval(a->samples, a->n_samples, b->samples, b->n_samples);
        return 0;
    }
    struct prn_unpaired unpaired;
    if (prn_ratio_unpaired(a->samples, a->n_samples, b->samples, b->n_samples, &unpaired) < 0)
        return prn_fail_memory(err);
    *ret_ratio = unpaired.ratio;
    return 0;
}

/* With one launch an interval only knows how blocks of two processes differ, not how two other
 * processes would: by a few percent, and by half where a run takes microseconds. So nothing is the
 * same, and a difference must be larger than that. */
static enum prn_verdict verdict_of(const struct prn_result *r, const struct prn_result *other,
                                   struct prn_interval ratio, double smallest_difference)
{
    if (launches_of(r->samples, r->n_samples) > 1 &&
        launches_of(other->samples, other->n_samples) > 1)
        return prn_verdict_of(ratio, smallest_difference);
    double processes = prn_stats_process_difference(other->stats.median_ns);
    enum prn_verdict verdict = prn_verdict_of(ratio, fmax(smallest_difference, processes));
    return verdict == PRN_VERDICT_SAME ? PRN_VERDICT_UNSURE : verdict;
}

/* A ratio and what it says; NONE when one of both failed. */
static int compare_two(const struct prn_profile *p, const struct prn_result *a,
                       const struct prn_result *b, struct prn_interval *ret_ratio,
                       enum prn_verdict *ret_verdict, struct prony_error *err)
{
    if (!b || a->error_code || b->error_code || a->n_samples == 0 || b->n_samples == 0)
        return 0;
    int code = ratio_of(a, b, ret_ratio, err);
    if (code < 0)
        return code;
    *ret_verdict = verdict_of(a, b, *ret_ratio, p->settings.smallest_difference);
    /* Enough for a verdict may be too little for an interval. */
    if (launches_of(a->samples, a->n_samples) < PRN_UNITS_MIN)
        ret_ratio->low = ret_ratio->high = NAN;
    return 0;
}

/* Ratios to the fastest result of one cohort, and to the first model's; results of other cohorts
 * were fed something else. */
static int compare_results(struct prn_profile *profile, size_t cohort, struct prony_error *err)
{
    struct prn_result *best = NULL;
    for (size_t i = 0; i < profile->n_results; i++) {
        struct prn_result *r = &profile->results[i];
        if (prn_result_cohort(profile, r) == cohort && r->n_samples > 0 && r->error_code == 0 &&
            (!best || r->stats.median_ns < best->stats.median_ns))
            best = r;
    }
    for (size_t i = 0; best && i < profile->n_results; i++) {
        struct prn_result *r = &profile->results[i];
        if (prn_result_cohort(profile, r) != cohort)
            continue;
        int code = compare_two(profile, r, prn_result_first_model(profile, r), &r->model_ratio,
                               &r->model_verdict, err);
        if (code == 0 && r != best)
            code = compare_two(profile, r, best, &r->ratio, &r->verdict, err);
        if (code < 0)
            return code;
    }
    if (best)
        best->ratio = (struct prn_interval){1, 1, 1};
    return 0;
}

int prn_summarise(struct prn_profile *profile, struct prony_error *err)
{
    for (size_t i = 0; i < profile->n_results; i++) {
        struct prn_result *r = &profile->results[i];
        r->ratio = r->model_ratio = nothing;
        r->verdict = r->model_verdict = PRN_VERDICT_NONE;
        if (r->n_samples == 0)
            continue;
        int code = summarise_result(r, err);
        if (code < 0)
            return code;
    }
    int code = 0;
    for (size_t i = 0; code == 0 && (i == 0 || i < profile->n_points / profile->n_models); i++)
        code = compare_results(profile, i, err);
    return code;
}
