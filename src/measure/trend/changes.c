#include "measure/trend/changes.h"

#include "base/random.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SEED 1

/* What the shortest interval that holds half of all values is multiplied by to give the standard
 * deviation of a normal distribution. It hardly grows where a change moves the other half away. */
#define SHORTEST_HALF_TO_SD 0.7413

/* ---- Weights ---- */

/* Of an array that it sorts. */
static double shortest_half(double *values, size_t n)
{
    size_t half = n / 2;
    double shortest = INFINITY;
    prn_stats_sort(values, n);
    for (size_t i = 0; i + half < n; i++)
        shortest = fmin(shortest, values[i + half] - values[i]);
    return shortest;
}

int prn_changes_weights(const double *values, const double *errors, size_t n, double *weights)
{
    double *scratch = calloc(n + 1, sizeof *scratch);
    if (!scratch)
        return PRONY_ENOMEM;
    double worst = 0;
    for (size_t i = 0; i < n; i++)
        worst = errors[i] > worst ? errors[i] : worst; /* NAN isn't */
    for (size_t i = 0; i < n; i++)
        weights[i] = isnan(errors[i]) ? worst * worst : errors[i] * errors[i];
    double beside = 0;
    if (n > 0) {
        memcpy(scratch, values, n * sizeof *scratch);
        double spread = SHORTEST_HALF_TO_SD * shortest_half(scratch, n);
        memcpy(scratch, weights, n * sizeof *scratch);
        prn_stats_sort(scratch, n);
        beside = fmax(0, spread * spread - prn_stats_median(scratch, n));
    }
    double least = INFINITY;
    for (size_t i = 0; i < n; i++) {
        weights[i] += beside;
        least = fmin(least, weights[i]);
    }
    /* Where one is known exactly nothing can be said of the others beside it. */
    for (size_t i = 0; i < n; i++)
        weights[i] = least > 0 ? least / weights[i] : 1;
    free(scratch);
    return 0;
}

/* ---- Dividing ---- */

struct divider {
    const double *values, *weights;
    size_t n;
    size_t *order;  /* which value stands where */
    size_t *bounds; /* of the parts found so far: n_parts + 1 of them */
    size_t n_parts;
    double *sums;   /* (n + 1)²: of weighted distances, rows and columns up to a place */
    double *weight; /* n + 1: sum of weights up to a place */
    double *square; /* n + 1: of their squares */
    struct prn_random random;
};

static void sum_part(struct divider *d, size_t from, size_t n)
{
    const size_t *order = d->order + from;
    const size_t width = n + 1;
    memset(d->sums, 0, width * sizeof *d->sums);
    d->weight[0] = d->square[0] = 0;
    for (size_t i = 0; i < n; i++) {
        double x = d->values[order[i]];
        double w = d->weights[order[i]];
        double row = 0;
        const double *above = d->sums + i * width;
        double *sums = d->sums + (i + 1) * width;
        sums[0] = 0;
        for (size_t k = 0; k < n; k++) {
            row += w * d->weights[order[k]] * sqrt(fabs(x - d->values[order[k]]));
            sums[k + 1] = above[k + 1] + row;
        }
        d->weight[i + 1] = d->weight[i] + w;
        d->square[i + 1] = d->square[i] + w * w;
    }
}

/* The energy distance between [0, t) and [t, b) of the part that was summed, scaled as for a test.
 */
static double divergence(const struct divider *d, size_t width, size_t t, size_t b)
{
    double first = d->weight[t];
    double second = d->weight[b] - first;
    double tt = d->sums[t * width + t];
    double tb = d->sums[t * width + b];
    double bb = d->sums[b * width + b];
    /* Twice the sum over pairs, and twice the sum of their weights. */
    double pairs_first = first * first - d->square[t];
    double pairs_second = second * second - (d->square[b] - d->square[t]);
    double between = 2 * (tb - tt) / (first * second);
    double within = tt / pairs_first + (bb - 2 * tb + tt) / pairs_second;
    return first * second / (first + second) * (between - within);
}

/* The best division of a part; 0: it is too short for one. */
static double divide_part(struct divider *d, size_t from, size_t to, size_t *ret_at)
{
    size_t n = to - from;
    size_t width = n + 1;
    double best = 0;
    size_t at = 0;
    if (n < 2 * PRN_CHANGES_SIDE)
        return 0;
    sum_part(d, from, n);
    for (size_t t = PRN_CHANGES_SIDE; t + PRN_CHANGES_SIDE <= n; t++)
        for (size_t b = t + PRN_CHANGES_SIDE; b <= n; b++) {
            double q = divergence(d, width, t, b);
            if (q > best) {
                best = q;
                at = t;
            }
        }
    *ret_at = from + at;
    return best;
}

static double divide_best(struct divider *d, size_t *ret_at)
{
    double best = 0;
    for (size_t i = 0; i < d->n_parts; i++) {
        size_t at = 0;
        double q = divide_part(d, d->bounds[i], d->bounds[i + 1], &at);
        if (q > best) {
            best = q;
            *ret_at = at;
        }
    }
    return best;
}

static void shuffle_parts(struct divider *d)
{
    for (size_t p = 0; p < d->n_parts; p++) {
        size_t from = d->bounds[p];
        for (size_t i = d->bounds[p + 1] - from; i > 1; i--) {
            size_t k = (size_t)prn_random_below(&d->random, i);
            size_t other = d->order[from + k];
            d->order[from + k] = d->order[from + i - 1];
            d->order[from + i - 1] = other;
        }
    }
}

/* How often chance divides as well; as soon as that is too often, the rest isn't tried. */
static double chance(struct divider *d, double found)
{
    const size_t most = (size_t)(PRN_CHANGES_LEVEL * (PRN_CHANGES_PERMUTATIONS + 1));
    size_t as_large = 1;
    size_t tries = 1;
    size_t ignored;
    for (; tries <= PRN_CHANGES_PERMUTATIONS && as_large <= most; tries++) {
        shuffle_parts(d);
        /* Equal ones may differ by rounding. */
        as_large += divide_best(d, &ignored) >= found * (1 - 1e-12);
    }
    for (size_t i = 0; i < d->n; i++)
        d->order[i] = i;
    return (double)as_large / (double)tries;
}

static void add_bound(struct divider *d, size_t at)
{
    size_t i = ++d->n_parts;
    for (; d->bounds[i - 1] > at; i--)
        d->bounds[i] = d->bounds[i - 1];
    d->bounds[i] = at;
}

static int by_place(const void *a, const void *b)
{
    const struct prn_change_point *x = a;
    const struct prn_change_point *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static size_t divide_all(struct divider *d, struct prn_change_point *points)
{
    size_t found = 0;
    for (;;) {
        size_t at = 0;
        double q = divide_best(d, &at);
        if (!(q > 0))
            break;
        double p = chance(d, q);
        if (p > PRN_CHANGES_LEVEL)
            break;
        points[found++] = (struct prn_change_point){at, p};
        add_bound(d, at);
    }
    qsort(points, found, sizeof *points, by_place);
    return found;
}

int prn_changes_find(const double *values, const double *weights, size_t n,
                     struct prn_change_point *points, size_t *ret_n)
{
    *ret_n = 0;
    if (n < PRN_CHANGES_MIN)
        return 0;
    struct divider d = {.values = values, .weights = weights, .n = n, .n_parts = 1};
    d.order = calloc(n, sizeof *d.order);
    d.bounds = calloc(n + 2, sizeof *d.bounds);
    d.sums = calloc((n + 1) * (n + 1), sizeof *d.sums);
    d.weight = calloc(n + 1, sizeof *d.weight);
    d.square = calloc(n + 1, sizeof *d.square);
    int code = d.order && d.bounds && d.sums && d.weight && d.square ? 0 : PRONY_ENOMEM;
    if (code == 0) {
        for (size_t i = 0; i < n; i++)
            d.order[i] = i;
        d.bounds[1] = n;
        prn_random_seed(&d.random, SEED);
        *ret_n = divide_all(&d, points);
    }
    free(d.order);
    free(d.bounds);
    free(d.sums);
    free(d.weight);
    free(d.square);
    return code;
}
