/* Medians over runs of a recorded function, and what is to be known about them. */
#include "record/record.h"

#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

/* A median of fewer values has no interval of 95 %, not even from the smallest to the largest. */
#define RUNS_MIN 6
#define IMPRECISE_FROM 0.1 /* half of the interval, as a part of the median */

bool prn_segment_is_in_local(const struct prn_profile *profile, const struct prn_segment *segment)
{
    const struct prn_recorded_graph *graph = prn_profile_graph(profile, segment->graph);
    return graph && graph->local_reason && segment->local.count == 0;
}

/* What a segment takes with a backend; NULL when nobody knows. */
static const struct prn_series *series_of(const struct prn_segment *segment, size_t backend)
{
    const struct prn_series *series = &segment->local;
    if (segment->graph != 0 && segment->results[backend].times.count > 0)
        series = &segment->results[backend].times;
    return series->n_samples > 0 ? series : NULL;
}

/* The median of the samples of run `run` out of `runs`; `scratch` has room for all samples. */
static double time_in_run(const struct prn_series *s, size_t run, size_t runs, double *scratch)
{
    size_t begin = run * s->n_samples / runs;
    size_t end = (run + 1) * s->n_samples / runs;
    for (size_t i = begin; i < end; i++)
        scratch[i - begin] = (double)s->samples_ns[i];
    prn_stats_sort(scratch, end - begin);
    return prn_stats_median(scratch, end - begin);
}

/* The values of each run, and room for the samples of one. */
struct scratch {
    double *totals, *backend, *local, *graphs, *samples;
};

static int make_scratch(const struct prn_recorded *p, size_t n_backends, struct scratch *ret)
{
    size_t most = 1;
    for (size_t i = 0; i < p->n_segments; i++) {
        const struct prn_segment *segment = &p->segments[i];
        most = segment->local.n_samples > most ? segment->local.n_samples : most;
        for (size_t b = 0; segment->graph && b < n_backends; b++) {
            size_t n = segment->results[b].times.n_samples;
            most = n > most ? n : most;
        }
    }
    double *all = calloc(most, 5 * sizeof *all);
    if (!all)
        return PRONY_ENOMEM;
    *ret = (struct scratch){all, all + most, all + 2 * most, all + 3 * most, all + 4 * most};
    return 0;
}

/* Runs that the samples of all segments can be told apart by; 0: a segment has none. */
static size_t known_runs(const struct prn_profile *profile, const struct prn_recorded *p,
                         size_t backend)
{
    size_t n = p->runs > 0 ? (size_t)p->runs : 0;
    for (size_t i = 0; i < p->n_segments && n > 0; i++) {
        const struct prn_series *s = series_of(&p->segments[i], backend);
        if (!prn_segment_is_in_local(profile, &p->segments[i]))
            n = !s ? 0 : s->n_samples < n ? s->n_samples : n;
    }
    return n;
}

static double median_of(double *values, size_t n)
{
    prn_stats_sort(values, n);
    return n > 0 ? prn_stats_median(values, n) : NAN;
}

/* How many of the smallest and of the largest of n values lie outside of the 95 % interval of the
 * median: the largest k for which at most 2.5 % of samples have fewer than k below the median. */
static size_t outside(size_t n)
{
    double term = pow(0.5, (double)n);
    double sum = term;
    size_t k = 0;
    if (term == 0) /* so many that the normal distribution does */
        return (size_t)floor((double)n / 2 - 0.98 * sqrt((double)n));
    while (sum <= 0.025) {
        k++;
        term *= (double)(n - k + 1) / (double)k;
        sum += term;
    }
    return k;
}

static void find_median(struct prn_recorded_total *total, double *totals, size_t n)
{
    total->median_ns = median_of(totals, n);
    if (n < RUNS_MIN)
        return;
    size_t k = outside(n);
    total->low_ns = totals[k > 0 ? k - 1 : 0];
    total->high_ns = totals[n - (k > 0 ? k : 1)];
    if (total->high_ns - total->low_ns > 2 * IMPRECISE_FROM * total->median_ns)
        total->flags |= PRN_FLAG_IMPRECISE;
}

static unsigned flags_of(const struct prn_profile *profile, const struct prn_recorded *p,
                         size_t backend)
{
    unsigned flags = 0;
    for (size_t i = 0; i < p->n_segments; i++) {
        const struct prn_segment *segment = &p->segments[i];
        const struct prn_recorded_graph *graph = prn_profile_graph(profile, segment->graph);
        if (segment->graph == 0)
            continue;
        if (segment->results[backend].times.count == 0)
            flags |= PRN_FLAG_PARTIAL;
        if (graph && graph->checks && graph->checks[backend].mismatch)
            flags |= PRN_FLAG_MISMATCH;
    }
    return flags;
}

static void summarise(const struct prn_profile *profile, struct prn_recorded *p, size_t backend,
                      struct scratch *s)
{
    struct prn_recorded_total *total = &p->totals[backend];
    bool ran = isfinite(total->backend_ns);
    size_t n = ran && !p->compiled ? known_runs(profile, p, backend) : 0;
    total->flags = ran ? flags_of(profile, p, backend) : 0;
    total->backend_median_ns = total->local_graphs_median_ns = NAN;
    total->median_ns = total->low_ns = total->high_ns = NAN;
    for (size_t run = 0; run < n; run++) {
        s->totals[run] = s->backend[run] = s->graphs[run] = 0;
        for (size_t i = 0; i < p->n_segments; i++) {
            const struct prn_series *series = series_of(&p->segments[i], backend);
            if (!series)
                continue;
            double ns = time_in_run(series, run, n, s->samples);
            s->totals[run] += ns;
            if (series != &p->segments[i].local)
                s->backend[run] += ns;
            else if (p->segments[i].graph != 0)
                s->graphs[run] += ns;
        }
    }
    if (n == 0)
        return;
    find_median(total, s->totals, n);
    total->backend_median_ns = median_of(s->backend, n);
    total->local_graphs_median_ns = median_of(s->graphs, n);
}

static double local_median(const struct prn_recorded *p, struct scratch *s)
{
    size_t n = p->runs > 0 ? (size_t)p->runs : 0;
    for (size_t i = 0; i < p->n_segments; i += 2)
        n = p->segments[i].local.n_samples < n ? p->segments[i].local.n_samples : n;
    for (size_t run = 0; run < n; run++) {
        s->local[run] = 0;
        for (size_t i = 0; i < p->n_segments; i += 2)
            s->local[run] += time_in_run(&p->segments[i].local, run, n, s->samples);
    }
    return median_of(s->local, n);
}

int prn_recorded_summarise(const struct prn_profile *profile, struct prn_recorded *p)
{
    struct scratch s;
    if (make_scratch(p, profile->n_results, &s) < 0)
        return PRONY_ENOMEM;
    p->local_median_ns = local_median(p, &s);
    for (size_t b = 0; b < profile->n_results; b++)
        summarise(profile, p, b, &s);
    free(s.totals);
    return 0;
}
