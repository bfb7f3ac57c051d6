/*
 * The distribution of non-negative values (run totals in ns) in bounded memory.
 *
 * - count, zeros, min, max, mean and m2 (the sum of squared deviations) are exact at any size.
 * - Up to PRN_SKETCH_EXACT values above 0 are kept as they are; zeros are only counted. Quantiles
 *   are exact so far.
 * - After that the values are counted in logarithmic buckets: fine ones around the bulk of the
 *   data, where the median and p90 are, and on either side wider and wider ones for the few values
 *   outside. Quantiles are interpolated inside a bucket, between the smallest and the largest value
 *   that it holds.
 * - A sketch takes at most 2 KiB, one with a single value 32 bytes.
 * - A call that fails leaves the sketch as it was.
 *
 *     struct prn_sketch s = PRN_SKETCH_INIT;
 *     int r = prn_sketch_add(&s, 1.5e6);
 *     …
 *     double median = prn_sketch_quantile(&s, 0.5);
 *     prn_sketch_release(&s);
 */
#ifndef PRN_BASE_SKETCH_H
#define PRN_BASE_SKETCH_H

#include "base/stats.h"

#include <prony/prony.h>

#include <stdbool.h>

#define PRN_SKETCH_EXACT 128

/* The fine buckets, and those on each side of them. */
#define PRN_SKETCH_FINE 256
#define PRN_SKETCH_SIDE 16
#define PRN_SKETCH_BUCKETS (PRN_SKETCH_FINE + 2 * PRN_SKETCH_SIDE)

struct prn_sketch {
    uint64_t count; /* of all values, zeros included */
    uint64_t zeros;
    double min; /* of all values; so are max, mean and m2 */
    double max;
    double mean;
    double m2;
    double least;                       /* smallest value above 0 */
    double *values;                     /* those above 0, ascending, while exact */
    struct prn_sketch_buckets *buckets; /* afterwards */
    uint32_t capacity;                  /* of values */
};

#define PRN_SKETCH_INIT ((struct prn_sketch){0})

void prn_sketch_release(struct prn_sketch *s);

/* `value` is finite and ≥ 0. Returns 0 or PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_sketch_add(struct prn_sketch *s, double value);

/* Adds n zeros: runs in which a group didn't occur. */
void prn_sketch_add_zeros(struct prn_sketch *s, uint64_t n);

/* Like prn_stats_quantile; NAN when empty. */
double prn_sketch_quantile(const struct prn_sketch *s, double q);

/* NAN when empty. */
double prn_sketch_mean(const struct prn_sketch *s);

/* Sample standard deviation (n-1); 0 for n < 2. */
double prn_sketch_sd(const struct prn_sketch *s);

/* 95 % interval of the mean, as prn_stats_amount_interval makes it; infinite with fewer than
 * PRN_UNITS_MIN values. */
struct prn_interval prn_sketch_mean_interval(const struct prn_sketch *s);

bool prn_sketch_is_exact(const struct prn_sketch *s);

/* What the sketch holds on the heap. */
size_t prn_sketch_bytes(const struct prn_sketch *s);

/* For callers who need many order statistics of a sketch that doesn't change meanwhile. */
struct prn_sketch_order {
    const struct prn_sketch *sketch;
    uint64_t end[PRN_SKETCH_BUCKETS]; /* values up to and including this bucket; unless exact */
};

void prn_sketch_order_init(struct prn_sketch_order *o, const struct prn_sketch *s);

/* The value with `rank` others before it; rank < count. */
double prn_sketch_order_value(const struct prn_sketch_order *o, uint64_t rank);

/* The standard error, relative to the value, that the buckets bring into it: 0 while exact. Small
 * where the neighbouring buckets are equally full, because then the value's own is evenly filled.
 */
double prn_sketch_order_error(const struct prn_sketch_order *o, uint64_t rank);

struct prn_ratio {
    struct prn_interval ratio; /* median(b) / median(a), with a 95 % interval */
    double p;                  /* two-sided, for a ratio of 1 */
};

/*
 * Compares the medians of two independent samples by the bootstrap; the same seed gives the same
 * result. `resolution` is the standard deviation of the rounding error of one unit, in the unit of
 * the values; it keeps data that look constant after rounding from seeming known beyond it, however
 * many there are.
 *
 * - The interval holds the middle 95 % of the bootstrap's ratios, and is widened by `resolution`.
 * - p comes from a permutation of the units, which outliers don't blunt: of their ranks while both
 *   samples are known exactly, of the medians' ratio when they are larger. It is never smaller than
 *   the resolution allows (log of the ratio, Student's t with min(n_a, n_b) - 1 degrees of
 * freedom).
 * - `persistence` has what prn_stats_persistence() says of a and b, which count as so many times
 * fewer units; NULL: all are independent.
 * - Fewer than two units on a side: p is 1 and the interval infinite (NAN when a side is empty).
 * - A median of 0: the ratio is INFINITY, 0 or, if both are 0, NAN; the ends are NAN, and so is p
 *   if both are 0.
 */
struct prn_ratio prn_sketch_median_ratio(const struct prn_sketch *a, const struct prn_sketch *b,
                                         double resolution, uint64_t seed,
                                         const double persistence[2]);

#endif
