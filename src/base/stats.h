/*
 * Statistics of samples. Functions that need order take sorted arrays (prn_stats_sort); all are
 * pure. Quantiles are the linear interpolation that NumPy calls "linear" (R's type 7).
 */
#ifndef PRN_BASE_STATS_H
#define PRN_BASE_STATS_H

#include <prony/prony.h>

#include <stddef.h>
#include <stdint.h>

void prn_stats_sort(double *values, size_t n);

/* Of a sorted array with n ≥ 1. */
double prn_stats_quantile(const double *sorted, size_t n, double q);
double prn_stats_median(const double *sorted, size_t n);

double prn_stats_mean(const double *values, size_t n);

/* Sample standard deviation (n-1); 0 for n < 2. */
double prn_stats_sd(const double *values, size_t n);

/* The probability that a Student variable with `df` ≥ 1 degrees of freedom stays below t. For
 * negative t the error is relative to it, however small it gets. */
double prn_stats_student_cdf(double t, double df);

/* The t that a Student variable with `df` ≥ 1 degrees of freedom stays below with probability p. */
double prn_stats_student_quantile(double p, double df);

/* Samples that a percentile needs before it is worth printing: p90 64, p95 130, p99 662, p99.9
 * 6,636; 1 for p ≤ 0.5. */
size_t prn_stats_percentile_need(double p);

/* Units (launches, runs) that an interval for people takes: of fewer it is so wide that it says
 * nothing. */
#define PRN_UNITS_MIN 5

/* How much two processes of one program may differ for their whole life, as a fraction of a time of
 * `ns` (docs/measuring.md): where only one of each was measured, less than that shows nothing. */
double prn_stats_process_difference(double ns);

struct prn_interval {
    double low;
    double estimate;
    double high;
};

/* 95 % interval of the mean of n independent units (t distribution). With one unit the interval
 * knows nothing and is infinite. */
struct prn_interval prn_stats_mean_interval(const double *units, size_t n);

/* The same of times and rates, which are never below 0: neither is the interval. */
struct prn_interval prn_stats_amount_interval(const double *units, size_t n);

/* The same from the mean and the standard deviation. */
struct prn_interval prn_stats_interval(double mean, double sd, uint64_t n);

/* How far the means of two groups of independent units are apart, with unequal spreads allowed
 * (Welch's t). */
struct prn_welch {
    struct prn_interval difference; /* mean of a minus mean of b; 95 % */
    double p;                       /* two-sided, of there being none; NAN: fewer than two units */
};
struct prn_welch prn_stats_welch(const double *a, size_t n_a, const double *b, size_t n_b);

/* The two-sided p of two sorted samples being one: how often a random division of all values into
 * two groups of these sizes has rank sums as far apart. Ranks, so one outlier is like another, and
 * equal values share theirs. Exact up to 32 values, then by the normal distribution, which is
 * cautious far out. */
double prn_stats_rank_sum(const double *a, size_t n_a, const double *b, size_t n_b);

/* By how much the variance of a mean or a median of these values, in the order in which they were
 * measured, is larger than if none depended on the one before: (1 + r) / (1 - r), with r the
 * correlation of the ranks of neighbours. 1 when it is negative, or there are fewer than 8 values;
 * at most 19. NAN: no memory. */
double prn_stats_persistence(const double *values, size_t n);

/* The two-sided p, and the z of which it is one. */
double prn_stats_p_of_z(double z);
double prn_stats_z_of_p(double p);

/* Adjusts n p-values for being looked at together (Holm's method): `adjusted` keeps their order and
 * is at most 1. NAN stays NAN and isn't counted. Returns 0 or PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_stats_holm(const double *p, size_t n, double *adjusted);

#endif
