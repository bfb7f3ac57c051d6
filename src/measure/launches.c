/* What the launches of a result have one of: loading time, first run, memory. */
#include "measure/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_integers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The values of one field over the launches that know it; returns how many. */
static size_t collect(const struct prn_result *r, size_t offset, int64_t *values)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n_launches; i++) {
        int64_t value;
        memcpy(&value, (const char *)&r->launches[i] + offset, sizeof value);
        if (value >= 0)
            values[n++] = value;
    }
    return n;
}

/* The upper one of two middles; -1 when nothing is known. */
static int64_t median(const struct prn_result *r, size_t offset, int64_t *scratch)
{
    size_t n = collect(r, offset, scratch);
    qsort(scratch, n, sizeof *scratch, compare_integers);
    return n > 0 ? scratch[n / 2] : -1;
}

int prn_launch_figures(const struct prn_result *result, struct prn_launch_figures *ret_figures)
{
    int64_t *scratch = calloc(result->n_launches + 1, sizeof *scratch);
    if (!scratch)
        return PRONY_ENOMEM;
    int64_t peak = -1;
    for (size_t i = 0; i < result->n_launches; i++)
        peak = result->launches[i].peak_bytes > peak ? result->launches[i].peak_bytes : peak;
    *ret_figures = (struct prn_launch_figures){
        .load_ns = median(result, offsetof(struct prn_launch, load_ns), scratch),
        .first_run_ns = median(result, offsetof(struct prn_launch, first_run_ns), scratch),
        .baseline_bytes = median(result, offsetof(struct prn_launch, baseline_bytes), scratch),
        .peak_bytes = peak};
    free(scratch);
    return 0;
}

static size_t collect_logs(const struct prn_result *r, size_t offset, int64_t *scratch,
                           double *logs)
{
    size_t n = collect(r, offset, scratch);
    for (size_t i = 0; i < n; i++)
        logs[i] = log((double)(scratch[i] > 0 ? scratch[i] : 1));
    return n;
}

int prn_launch_ratio(const struct prn_result *a, int64_t figure_a, const struct prn_result *b,
                     int64_t figure_b, size_t offset, struct prn_unpaired *ret_ratio)
{
    size_t n = a->n_launches + b->n_launches;
    double *logs = calloc(n + 1, sizeof *logs);
    int64_t *scratch = calloc(n + 1, sizeof *scratch);
    int code = logs && scratch ? 0 : PRONY_ENOMEM;
    if (code == 0) {
        size_t n_a = collect_logs(a, offset, scratch, logs);
        size_t n_b = collect_logs(b, offset, scratch, logs + n_a);
        *ret_ratio = prn_unpaired_of(figure_a < 0 ? NAN : (double)figure_a, logs, n_a,
                                     figure_b < 0 ? NAN : (double)figure_b, logs + n_a, n_b);
    }
    free(logs);
    free(scratch);
    return code;
}
