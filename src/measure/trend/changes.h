/*
 * Where the level of a series changes: E-divisive (Matteson and James, "A nonparametric approach
 * for multiple change point analysis of multivariate data", 2014) with its permutation test.
 *
 * The series is divided where the energy distance between the values before and after is largest,
 * then its parts are. Distances count by their roots (the method's exponent is 1/2), so that a few
 * reports that other work disturbed don't hide what the others show. A division counts when values
 * in random order give one as large in at most PRN_CHANGES_LEVEL of the tries; permutations stay
 * within the parts that were found before. So nothing is assumed of how values are distributed,
 * only that without a change their order says nothing.
 *
 * Values have uncertainties: one weighs by 1 / (t² + e²), with e its standard error and t² what
 * values vary by beside that. Both come from the values whatever their order, so that the test
 * remains exact.
 */
#ifndef PRN_MEASURE_TREND_CHANGES_H
#define PRN_MEASURE_TREND_CHANGES_H

#include <prony/prony.h>

#include <stddef.h>

/* False alarms per series without changes, at most. */
#define PRN_CHANGES_LEVEL 0.01
#define PRN_CHANGES_PERMUTATIONS 999
/* Values on either side of a change. */
#define PRN_CHANGES_SIDE 3
/* Of fewer values no division can count: 2 of the 126 ways to divide 9 values into 4 and 5 are as
 * extreme as the most extreme one. */
#define PRN_CHANGES_MIN 10
/* Time grows with the square of the number of values. */
#define PRN_CHANGES_MAX 500

struct prn_change_point {
    size_t at; /* the first value after it */
    double p;  /* of the test that found it */
};

/* Weights of values, the largest being 1. `errors` are standard errors; NAN: not known, and then as
 * large as the largest that is. Returns 0 or PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_changes_weights(const double *values, const double *errors, size_t n,
                                         double *weights);

/* Finds the changes of n ≤ PRN_CHANGES_MAX values, in their order; `points` has room for
 * n / PRN_CHANGES_SIDE of them. The same values give the same changes. Returns 0 or PRONY_ENOMEM.
 */
PRONY_MUST_CHECK int prn_changes_find(const double *values, const double *weights, size_t n,
                                      struct prn_change_point *points, size_t *ret_n);

#endif
