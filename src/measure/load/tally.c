#include "measure/load/tally.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Nobody idle, and a queue left at the end: together these are what more requests than can be
 * answered look like; a queue alone comes and goes by chance. */
#define BUSY_SHARE 0.98
#define DRAIN_SHARE 0.05
/* Share of the latency that the generator's own lateness may be. */
#define LATENESS_SHARE 0.05
/* Share of disturbed blocks from which on a row is noisy. */
#define NOISY_SHARE 0.1

void prn_load_tally_release(struct prn_load_tally *t)
{
    free(t->samples);
    prn_sketch_release(&t->lateness);
    *t = PRN_LOAD_TALLY_INIT;
}

static int make_room(struct prn_load_tally *t, size_t n, struct prony_error *err)
{
    if (t->n + n <= t->capacity)
        return 0;
    size_t capacity = (t->n + n) * 3 / 2;
    struct prn_sample *samples = reallocarray(t->samples, capacity, sizeof *samples);
    if (!samples)
        return prn_fail_memory(err);
    t->samples = samples;
    t->capacity = capacity;
    return 0;
}

/* What one block comes to. */
struct block {
    int64_t span_ns, lead_ns, last_due_ns, last_end_ns;
    double wait_ns, service_ns; /* sums over requests that count */
    size_t n;
    double time_ns, answered, busy_ns; /* from the lead to the end */
};

/* Which slice of its block a request is in. */
static int32_t slice_of(const struct prn_load_tally *t, const struct block *b,
                        const struct prn_drive_request *r)
{
    double share = (double)(r->due_ns - b->lead_ns) / (double)(b->span_ns - b->lead_ns);
    int32_t slice = (int32_t)(share * t->slices);
    return slice < t->slices ? slice : t->slices - 1;
}

static int count_request(struct prn_load_tally *t, struct block *b,
                         const struct prn_drive_request *r, int32_t launch, struct prony_error *err)
{
    int32_t block = (int32_t)t->blocks;
    if (t->slices > 1)
        block = block * t->slices + slice_of(t, b, r);
    t->samples[t->n++] = (struct prn_sample){r->end_ns - r->due_ns, launch, block};
    b->wait_ns += (double)(r->start_ns - r->due_ns);
    b->service_ns += (double)(r->end_ns - r->start_ns);
    b->n++;
    /* A worker that was ready before the request was due is late by itself, not by a queue. */
    if (r->ready_ns > r->due_ns)
        return 0;
    return prn_sketch_add(&t->lateness, (double)(r->start_ns - r->due_ns)) < 0
               ? prn_fail_memory(err)
               : 0;
}

/* Until when a block is looked at. An open loop lasts as long as requests come and are answered:
 * time in which none happened to come is time too, unless there was no room for more. A closed loop
 * lasts as long as all workers are at work. */
static int64_t block_end(const struct block *b, const struct prn_drive_plan *plan,
                         const struct prn_drive_request *requests, const struct prn_drive_end *end)
{
    bool full = end->n == plan->most_requests;
    if (plan->rate > 0)
        return !full && !end->gave_up && plan->span_ns > b->last_end_ns ? plan->span_ns
                                                                        : b->last_end_ns;
    return full ? requests[end->n - 1].start_ns : plan->span_ns;
}

/* Adds up what was answered between the lead and the end; a request that lies across one of them
 * counts with the part that is inside. */
static void add_time(struct block *b, int64_t until_ns, const struct prn_drive_request *requests,
                     size_t n)
{
    const int64_t from_ns = b->lead_ns;
    for (size_t i = 0; i < n; i++) {
        const struct prn_drive_request *r = &requests[i];
        int64_t begin_ns = r->start_ns > from_ns ? r->start_ns : from_ns;
        int64_t end_ns = r->end_ns < until_ns ? r->end_ns : until_ns;
        if (end_ns <= begin_ns)
            continue;
        b->answered += (double)(end_ns - begin_ns) / (double)(r->end_ns - r->start_ns);
        b->busy_ns += (double)(end_ns - begin_ns);
    }
    b->time_ns = until_ns > from_ns ? (double)(until_ns - from_ns) : 0;
}

static bool piles_up(const struct block *b, const struct prn_drive_plan *plan)
{
    double span_ns = (double)(b->last_due_ns - b->lead_ns);
    double drain_ns = (double)(b->last_end_ns - b->last_due_ns);
    return plan->rate > 0 && b->n > 1 &&
           b->busy_ns > BUSY_SHARE * b->time_ns * (double)plan->workers &&
           drain_ns > DRAIN_SHARE * span_ns;
}

int prn_load_tally_add(struct prn_load_tally *t, const struct prn_drive_plan *plan,
                       const struct prn_drive_request *requests, const struct prn_drive_end *end,
                       int32_t launch, bool disturbed, struct prony_error *err)
{
    /* What was given up may not have got beyond its lead. */
    struct block b = {.span_ns = plan->span_ns,
                      .lead_ns =
                          end->gave_up ? 0 : (int64_t)((double)plan->span_ns * PRN_LOAD_LEAD)};
    int code = make_room(t, end->n, err);
    for (size_t i = 0; code == 0 && i < end->n; i++) {
        if (requests[i].due_ns < b.lead_ns)
            continue;
        code = count_request(t, &b, &requests[i], launch, err);
        b.last_due_ns = requests[i].due_ns;
        b.last_end_ns = requests[i].end_ns > b.last_end_ns ? requests[i].end_ns : b.last_end_ns;
    }
    if (code < 0)
        return code;
    add_time(&b, block_end(&b, plan, requests, end), requests, end->n);
    t->time_ns += b.time_ns;
    t->answered += b.answered;
    t->busy_ns += b.busy_ns;
    t->wait_ns += b.wait_ns;
    t->service_ns += b.service_ns;
    t->blocks++;
    t->disturbed_blocks += disturbed;
    t->overloaded_blocks += piles_up(&b, plan);
    t->launches = launch + 1 > t->launches ? launch + 1 : t->launches;
    t->gave_up |= end->gave_up;
    return 0;
}

bool prn_load_tally_overloaded(const struct prn_load_tally *t)
{
    return t->gave_up || (t->blocks > 0 && 2 * t->overloaded_blocks >= t->blocks);
}

/* ---- Growth ---- */

#define GROWTH_FACTOR 1.5 /* of the last third over the first */
#define GROWTH_CERTAINTY 0.99
#define GROWTH_NEAR 0.1 /* of the limit: what grows far below it is noise */

/* Mean latency by slice, over all blocks; false when a slice has none. */
static bool slice_means(const struct prn_load_tally *t, double *means)
{
    double *counts = calloc((size_t)t->slices, sizeof *counts);
    bool all = counts != NULL;
    for (size_t i = 0; counts && i < t->n; i++) {
        int32_t slice = t->samples[i].block % t->slices;
        means[slice] += (double)t->samples[i].ns;
        counts[slice]++;
    }
    for (int32_t i = 0; counts && i < t->slices; i++) {
        all &= counts[i] > 0;
        means[i] /= counts[i];
    }
    free(counts);
    return all;
}

/* The slope of values at 0, 1, 2, … over its standard error; large when they lie on a line. */
static double slope_t(const double *y, int32_t n)
{
    double mean = prn_stats_mean(y, (size_t)n);
    double middle = (n - 1) / 2.0;
    double sxx = 0;
    double sxy = 0;
    double rest = 0;
    for (int32_t i = 0; i < n; i++) {
        sxx += (i - middle) * (i - middle);
        sxy += (i - middle) * (y[i] - mean);
    }
    for (int32_t i = 0; i < n; i++) {
        double off = y[i] - mean - sxy / sxx * (i - middle);
        rest += off * off;
    }
    return sxy / sxx / sqrt(fmax(rest / (n - 2) / sxx, 1e-300));
}

bool prn_load_tally_grows(const struct prn_load_tally *t, double limit_ns)
{
    if (t->slices < 6)
        return false;
    double *means = calloc((size_t)t->slices, sizeof *means);
    bool grows = false;
    if (means && slice_means(t, means)) {
        size_t third = (size_t)t->slices / 3;
        double first = prn_stats_mean(means, third);
        double last = prn_stats_mean(means + (size_t)t->slices - third, third);
        grows =
            last > GROWTH_FACTOR * first && last > GROWTH_NEAR * limit_ns &&
            slope_t(means, t->slices) > prn_stats_student_quantile(GROWTH_CERTAINTY, t->slices - 2);
    }
    free(means);
    return grows;
}

/* ---- Shares and percentiles ---- */

/* What a group of requests (a launch or a block) adds to the variance of a share. */
struct groups {
    size_t n;
    double squares; /* of (over - share × requests), summed */
};

/* How many launches have requests. */
static size_t launches_of(const struct prn_sample *s, size_t n)
{
    size_t launches = 0;
    int32_t seen[PRN_UNITS_MIN];
    for (size_t i = 0; i < n && launches < PRN_UNITS_MIN; i++) {
        bool known = false;
        for (size_t k = 0; k < launches && !known; k++)
            known = seen[k] == s[i].launch;
        if (!known)
            seen[launches++] = s[i].launch;
    }
    return launches;
}

static struct groups group_variance(const struct prn_sample *s, size_t n, double limit_ns,
                                    double share)
{
    struct groups g = {0};
    bool by_block = launches_of(s, n) < PRN_UNITS_MIN;
    int32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t group = by_block ? s[i].block : s[i].launch;
        most = group > most ? group : most;
    }
    double *residuals = calloc((size_t)most + 1, sizeof *residuals);
    bool *seen = calloc((size_t)most + 1, sizeof *seen);
    for (size_t i = 0; residuals && seen && i < n; i++) {
        int32_t group = by_block ? s[i].block : s[i].launch;
        residuals[group] += ((double)s[i].ns > limit_ns) - share;
        g.n += !seen[group];
        seen[group] = true;
    }
    for (int32_t i = 0; residuals && seen && i <= most; i++)
        g.squares += residuals[i] * residuals[i];
    free(residuals);
    free(seen);
    return g;
}

/* Wilson's interval of a share of `n` independent trials, `t` standard errors wide. */
static struct prn_interval wilson(double share, double n, double t)
{
    double scale = 1 + t * t / n;
    double centre = (share + t * t / (2 * n)) / scale;
    double half = t / scale * sqrt(share * (1 - share) / n + t * t / (4 * n * n));
    /* At the ends rounding would leave a rest. */
    return (struct prn_interval){share > 0 ? fmax(0, centre - half) : 0, share,
                                 share < 1 ? fmin(1, centre + half) : 1};
}

/* The same from a sum of squares over groups. */
static struct prn_interval grouped_interval(double share, size_t n, struct groups g)
{
    const struct prn_interval unknown = {0, share, 1};
    if (g.n < 1)
        return unknown;
    double t = g.n > 1 ? prn_stats_student_quantile(0.975, (double)(g.n - 1)) : 1.96;
    double independent = share * (1 - share) * (double)n; /* variance of the sum, were they so */
    double grouped = g.n > 1 ? g.squares * (double)g.n / (double)(g.n - 1) : 0;
    double effect = independent > 0 ? fmax(1, grouped / independent) : 1;
    return wilson(share, (double)n / effect, t);
}

struct prn_interval prn_load_share_over(const struct prn_sample *samples, size_t n, double limit_ns)
{
    if (n == 0)
        return (struct prn_interval){NAN, NAN, NAN};
    size_t over = 0;
    for (size_t i = 0; i < n; i++)
        over += (double)samples[i].ns > limit_ns;
    double share = (double)over / (double)n;
    return grouped_interval(share, n, group_variance(samples, n, limit_ns, share));
}

/* A percentile, and its interval by Woodruff's method: that of the share above it, turned into
 * percentiles again. */
static struct prn_interval percentile(const struct prn_load_tally *t, const double *sorted,
                                      double p)
{
    if (t->n < prn_stats_percentile_need(p))
        return (struct prn_interval){NAN, NAN, NAN};
    double estimate = prn_stats_quantile(sorted, t->n, p);
    struct groups g = group_variance(t->samples, t->n, estimate, 1 - p);
    struct prn_interval share = grouped_interval(1 - p, t->n, g);
    return (struct prn_interval){fmin(estimate, prn_stats_quantile(sorted, t->n, 1 - share.high)),
                                 estimate,
                                 fmax(estimate, prn_stats_quantile(sorted, t->n, 1 - share.low))};
}

/* Nobody waits in a closed loop; where requests pile up, waiting has no mean. */
static void fill_latencies(const struct prn_load_tally *t, const double *sorted, bool overloaded,
                           struct prn_load_row *row)
{
    bool open = isfinite(row->asked_per_s);
    const struct prn_interval unknown = {NAN, NAN, NAN};
#define PRN_X(name, p) row->name##_ns = overloaded ? unknown : percentile(t, sorted, p);
    PRN_LOAD_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    const double n = (double)t->n;
    row->service_ns = t->n ? t->service_ns / n : NAN;
    row->wait_ns = open && t->n && !overloaded ? t->wait_ns / n : NAN;
    row->mean_ns = open ? row->wait_ns + row->service_ns : row->service_ns;
    row->max_ns = t->n ? sorted[t->n - 1] : NAN;
}

static unsigned flags_of(const struct prn_load_tally *t, const double *sorted, bool overloaded,
                         double lateness_ns)
{
    unsigned flags = overloaded ? PRN_LOAD_FLAG_OVERLOADED : 0;
    if (!overloaded && t->n &&
        lateness_ns > LATENESS_SHARE * prn_stats_quantile(sorted, t->n, 0.99))
        flags |= PRN_LOAD_FLAG_LATE;
    if ((double)t->disturbed_blocks > NOISY_SHARE * (double)t->blocks)
        flags |= PRN_LOAD_FLAG_NOISY;
    return flags;
}

int prn_load_tally_row(const struct prn_load_tally *t, double asked_per_s, int64_t workers,
                       struct prn_load_row *ret_row, struct prony_error *err)
{
    double *sorted = calloc(t->n + 1, sizeof *sorted);
    if (!sorted)
        return prn_fail_memory(err);
    for (size_t i = 0; i < t->n; i++)
        sorted[i] = (double)t->samples[i].ns;
    prn_stats_sort(sorted, t->n);
    bool open = isfinite(asked_per_s);
    bool overloaded = open && prn_load_tally_overloaded(t);
    struct prn_load_row row = {
        .asked_per_s = asked_per_s,
        .workers = workers,
        .launches = t->launches,
        .blocks = t->blocks,
        .disturbed_blocks = t->disturbed_blocks,
        .requests = (int64_t)t->n,
        .duration_s = t->time_ns * 1e-9,
        .achieved_per_s = t->time_ns > 0 ? t->answered / (t->time_ns * 1e-9) : NAN,
        .utilisation = t->time_ns > 0 ? fmin(1, t->busy_ns / t->time_ns / (double)workers) : NAN,
        .lateness_ns = open ? prn_sketch_quantile(&t->lateness, 0.99) : NAN,
    };
    fill_latencies(t, sorted, overloaded, &row);
    row.flags = flags_of(t, sorted, overloaded, row.lateness_ns);
    free(sorted);
    *ret_row = row;
    return 0;
}
