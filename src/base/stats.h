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

struct prn_interval {
    double low;
    double estimate;
    double high;
};

/* 95 % interval of the mean of n independent units (t distribution). With one unit the interval
 * knows nothing and is infinite. */
struct prn_interval prn_stats_mean_interval(const double *units, size_t n);

/* The same from the mean and the standard deviation. */
struct prn_interval prn_stats_interval(double mean, double sd, uint64_t n);

/* How far the means of two groups of independent units are apart, with unequal spreads allowed
 * (Welch's t). */
struct prn_welch {
    struct prn_interval difference; /* mean of a minus mean of b; 95 % */
    double p;                       /* two-sided, of there being none; NAN: fewer than two units */
};
struct prn_welch prn_stats_welch(const double *a, size_t n_a, const double *b, size_t n_b);

/* Adjusts n p-values for being looked at together (Holm's method): `adjusted` keeps their order and
 * is at most 1. NAN stays NAN and isn't counted. Returns 0 or PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_stats_holm(const double *p, size_t n, double *adjusted);

#endif
