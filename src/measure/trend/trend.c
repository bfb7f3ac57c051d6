#include "measure/trend/trend.h"

#include "measure/comparison/comparison.h"
#include "measure/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_MAX ((size_t)1 << 30)
#define DEFAULT_DIFFERENCE 0.005
#define OUTSIDE 0.05 /* of a 95 % interval */

/* The median of absolute deviations is that much below a standard deviation. */
#define MAD_TO_SD 1.4826
/* Deviations from which on a report counts less. */
#define FAR 2.5

struct prn_trend *prn_trend_new(void)
{
    struct prn_trend *t = calloc(1, sizeof *t);
    if (t)
        t->arena = PRN_ARENA_INIT(ARENA_MAX);
    return t;
}

void prn_trend_free(struct prn_trend *trend)
{
    if (!trend)
        return;
    prn_arena_release(&trend->arena);
    free(trend);
}

/* ---- Points ---- */

/* The canary of the machine that a result was measured on. */
static double canary_of(const struct prn_profile *profile, const struct prn_result *result)
{
    for (size_t i = 0; i < profile->n_hosts; i++)
        if (result->hardware && strcmp(profile->hosts[i].hardware, result->hardware) == 0)
            return profile->hosts[i].canary_best_ns;
    return profile->canary_best_ns;
}

struct prn_trend_point prn_trend_point(const struct prn_profile *profile,
                                       const struct prn_result *result)
{
    bool measured = prn_result_measured(result) && result->stats.median_ns > 0;
    double smallest = profile->settings.smallest_difference;
    struct prn_trend_point p = {
        .origin = {.created = profile->created, .runtime_version = result->runtime_version},
        .launches = (int64_t)result->n_launches,
        .samples = (int64_t)result->n_samples,
        .median_ns = measured ? result->stats.median_ns : NAN,
        .low_ns = measured ? result->stats.low_ns : NAN,
        .high_ns = measured ? result->stats.high_ns : NAN,
        .log_error = measured ? prn_median_log_error(result->samples, result->n_samples) : NAN,
        .canary_ns = canary_of(profile, result),
        .smallest_difference = isfinite(smallest) ? smallest : DEFAULT_DIFFERENCE,
        .flags = result->flags,
        .error = result->error_code ? result->error : NULL,
        .segment = -1,
    };
    return p;
}

/* ---- Levels ---- */

struct analysis {
    struct prn_trend_series *series;
    size_t n;        /* points that were measured */
    size_t *place;   /* of each in the series */
    double *logs;    /* of their medians */
    double *known;   /* weights of these, by how well they are known */
    double *weights; /* the same, less for those far from the others */
    double *rest;    /* what is left of them around the levels */
    struct prn_change_point *found;
    size_t n_found;
};

static size_t segment_begin(const struct analysis *a, size_t segment)
{
    return segment > 0 ? a->found[segment - 1].at : 0;
}

static size_t segment_end(const struct analysis *a, size_t segment)
{
    return segment < a->n_found ? a->found[segment].at : a->n;
}

struct level {
    double log, weight;
};

static struct level level_of(const struct analysis *a, size_t segment)
{
    struct level l = {0, 0};
    for (size_t i = segment_begin(a, segment); i < segment_end(a, segment); i++) {
        l.log += a->weights[i] * a->logs[i];
        l.weight += a->weights[i];
    }
    l.log /= l.weight;
    return l;
}

/* What values of weight 1 spread by around the levels, and how many of them tell. Where a report is
 * like the one before, as on a machine that is slow for days, they tell less than they are many:
 * their spread counts as that much larger. NAN: no memory, or too few. */
static double spread_around_levels(const struct analysis *a, double *ret_df)
{
    double sum = 0;
    for (size_t s = 0; s <= a->n_found; s++) {
        struct level l = level_of(a, s);
        for (size_t i = segment_begin(a, s); i < segment_end(a, s); i++) {
            a->rest[i] = a->logs[i] - l.log;
            sum += a->weights[i] * a->rest[i] * a->rest[i];
        }
    }
    *ret_df = (double)a->n - (double)a->n_found - 1;
    return *ret_df > 0 ? sqrt(sum / *ret_df * prn_stats_persistence(a->rest, a->n)) : NAN;
}

/* exp(log ± t × error), outside of which it is with this probability. */
static struct prn_interval interval_of(double log_estimate, double error, double df, double outside)
{
    double half =
        df >= PRN_UNITS_MIN ? prn_stats_student_quantile(1 - outside / 2, df) * error : NAN;
    return (struct prn_interval){exp(log_estimate - half), exp(log_estimate),
                                 exp(log_estimate + half)};
}

/* Reports that other work disturbed are far from their segment's median: beyond some deviations
 * they count the less the farther they are. */
static void reweigh(struct analysis *a, double *scratch)
{
    for (size_t s = 0; s <= a->n_found; s++) {
        size_t begin = segment_begin(a, s);
        size_t n = segment_end(a, s) - begin;
        memcpy(scratch, a->logs + begin, n * sizeof *scratch);
        prn_stats_sort(scratch, n);
        for (size_t i = 0; i < n; i++)
            a->rest[begin + i] = fabs(a->logs[begin + i] - prn_stats_median(scratch, n));
    }
    memcpy(scratch, a->rest, a->n * sizeof *scratch);
    prn_stats_sort(scratch, a->n);
    double far = a->n > 0 ? FAR * MAD_TO_SD * prn_stats_median(scratch, a->n) : 0;
    for (size_t i = 0; i < a->n; i++) {
        double less = far > 0 && a->rest[i] > far ? far / a->rest[i] : 1;
        a->weights[i] = a->known[i] * less * less;
    }
}

/* ---- Changes ---- */

static double median_canary(const struct analysis *a, size_t segment, double *scratch)
{
    size_t n = 0;
    for (size_t i = segment_begin(a, segment); i < segment_end(a, segment); i++) {
        double canary = a->series->points[a->place[i]].canary_ns;
        if (canary > 0)
            scratch[n++] = canary;
    }
    prn_stats_sort(scratch, n);
    return n > 0 ? prn_stats_median(scratch, n) : NAN;
}

/* The larger of the smallest differences of both segments. */
static double smallest_of(const struct analysis *a, size_t change)
{
    double smallest = 0;
    for (size_t i = segment_begin(a, change); i < segment_end(a, change + 1); i++)
        smallest = fmax(smallest, a->series->points[a->place[i]].smallest_difference);
    return smallest;
}

struct judged {
    struct prn_interval ratio;
    double canary_ratio;
    double strength; /* how far it clears what it must; below 0: it doesn't */
    bool shift;      /* it would without the canary's */
};

static double distance_beyond(struct prn_interval ratio, double must_clear)
{
    double nearest = fmax(log(ratio.low), -log(ratio.high));
    return nearest - log1p(must_clear);
}

static struct judged judge(const struct analysis *a, size_t change, double *scratch)
{
    struct level before = level_of(a, change);
    struct level after = level_of(a, change + 1);
    double df = 0;
    double spread = spread_around_levels(a, &df);
    double error = spread * sqrt(1 / before.weight + 1 / after.weight);
    struct judged j = {.ratio = interval_of(after.log - before.log, error, df, OUTSIDE)};
    /* It was looked for at every place, and is the largest of all. */
    struct prn_interval wide =
        interval_of(after.log - before.log, error, df, OUTSIDE / (double)a->n);
    j.canary_ratio = median_canary(a, change + 1, scratch) / median_canary(a, change, scratch);
    double smallest = smallest_of(a, change);
    double shift = isfinite(j.canary_ratio) ? exp(fabs(log(j.canary_ratio))) - 1 : 0;
    double must_clear = shift > PRN_CANARY_SHIFT ? fmax(shift, smallest) : smallest;
    j.strength = distance_beyond(wide, must_clear);
    j.shift = distance_beyond(wide, smallest) > 0;
    return j;
}

/* Takes away what doesn't count, the weakest first: what is left has other segments then. */
static void drop_small(struct analysis *a, double *scratch)
{
    for (;;) {
        reweigh(a, scratch);
        if (a->n_found == 0)
            return;
        size_t weakest = 0;
        struct judged worst = judge(a, 0, scratch);
        for (size_t i = 1; i < a->n_found; i++) {
            struct judged j = judge(a, i, scratch);
            if (!(j.strength >= worst.strength)) {
                worst = j;
                weakest = i;
            }
        }
        if (worst.strength > 0)
            return;
        a->series->shifts += worst.shift;
        memmove(&a->found[weakest], &a->found[weakest + 1],
                (a->n_found - weakest - 1) * sizeof *a->found);
        a->n_found--;
    }
}

/* ---- What is told ---- */

static void fill_segment(const struct analysis *a, size_t segment, struct prn_trend_segment *to)
{
    struct prn_trend_point *points = a->series->points;
    size_t begin = segment_begin(a, segment);
    size_t end = segment_end(a, segment);
    struct level l = level_of(a, segment);
    double df = 0;
    double spread = spread_around_levels(a, &df);
    struct prn_interval level = interval_of(l.log, spread / sqrt(l.weight), df, OUTSIDE);
    *to = (struct prn_trend_segment){.first = points[a->place[begin]].origin.report,
                                     .last = points[a->place[end - 1]].origin.report,
                                     .reports = (int64_t)(end - begin),
                                     .level_ns = level.estimate,
                                     .low_ns = level.low,
                                     .high_ns = level.high};
    for (size_t i = begin; i < end; i++)
        points[a->place[i]].segment = (int64_t)segment + 1;
}

static void fill_change(const struct analysis *a, size_t change, double *scratch,
                        struct prn_trend_change *to)
{
    size_t at = a->found[change].at;
    struct judged j = judge(a, change, scratch);
    *to = (struct prn_trend_change){
        .origin = a->series->points[a->place[at]].origin,
        .before = a->series->points[a->place[at - 1]].origin.report,
        .at = a->place[at],
        .ratio = j.ratio,
        .canary_ratio = j.canary_ratio,
        .p = a->found[change].p,
    };
}

static int tell(struct analysis *a, double *scratch, struct prn_arena *arena)
{
    struct prn_trend_series *s = a->series;
    s->segments = PRN_ARENA_ARRAY(arena, a->n_found + 1, struct prn_trend_segment);
    s->changes = PRN_ARENA_ARRAY(arena, a->n_found + 1, struct prn_trend_change);
    if (!s->segments || !s->changes)
        return PRONY_ENOMEM;
    if (a->n == 0)
        return 0;
    s->n_segments = a->n_found + 1;
    s->n_changes = a->n_found;
    for (size_t i = 0; i <= a->n_found; i++)
        fill_segment(a, i, &s->segments[i]);
    for (size_t i = 0; i < a->n_found; i++)
        fill_change(a, i, scratch, &s->changes[i]);
    return 0;
}

/* ---- The whole ---- */

static int analyse(struct analysis *a, double *scratch, struct prn_arena *arena)
{
    struct prn_trend_series *s = a->series;
    for (size_t i = 0; i < s->n_points; i++) {
        if (!(s->points[i].median_ns > 0))
            continue;
        scratch[a->n] = s->points[i].log_error;
        a->logs[a->n] = log(s->points[i].median_ns);
        a->place[a->n++] = i;
    }
    s->measured = (int64_t)a->n;
    size_t found = 0;
    int code = prn_changes_weights(a->logs, scratch, a->n, a->known);
    if (code == 0)
        code = prn_changes_find(a->logs, a->known, a->n, a->found, &found);
    if (code < 0)
        return code;
    a->n_found = found;
    drop_small(a, scratch);
    return tell(a, scratch, arena);
}

int prn_trend_analyse(struct prn_trend_series *series, struct prn_arena *arena)
{
    size_t n = series->n_points;
    struct analysis a = {.series = series};
    series->n_segments = series->n_changes = 0;
    series->shifts = 0;
    a.place = calloc(n + 1, sizeof *a.place);
    a.logs = calloc(n + 1, sizeof *a.logs);
    a.known = calloc(n + 1, sizeof *a.known);
    a.weights = calloc(n + 1, sizeof *a.weights);
    a.rest = calloc(n + 1, sizeof *a.rest);
    a.found = calloc(n / PRN_CHANGES_SIDE + 1, sizeof *a.found);
    double *scratch = calloc(n + 1, sizeof *scratch);
    int code = a.place && a.logs && a.known && a.weights && a.rest && a.found && scratch
                   ? 0
                   : PRONY_ENOMEM;
    if (code == 0)
        code = analyse(&a, scratch, arena);
    free(a.place);
    free(a.logs);
    free(a.known);
    free(a.weights);
    free(a.rest);
    free(a.found);
    free(scratch);
    return code;
}
