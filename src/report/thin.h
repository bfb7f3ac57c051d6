/*
 * Big data made small enough for a picture. What is left out is never lost silently: extremes stay,
 * and the rest is counted. A picture drawn of what is kept looks like one drawn of everything, as
 * long as it has no more pixels than buckets were asked for.
 */
#ifndef PRN_REPORT_THIN_H
#define PRN_REPORT_THIN_H

#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>

/* Consecutive values of a series; all buckets but a few have the same number of them. */
struct prn_thin_bucket {
    size_t first, count;
    int64_t low, high;
};

/* Fills at most `most` buckets, in order, and returns how many: with n <= most, one per value. */
size_t prn_thin_series(const int64_t *values, size_t n, size_t most,
                       struct prn_thin_bucket *buckets);

/* How values are spread: `bins` equal steps from `low` to `high`; what lies above is counted apart.
 * The last bin includes `high`. */
struct prn_thin_histogram {
    int64_t low, high;
    uint64_t above;
};

/* Counts into `counts`, which has `bins` entries. The range ends six interquartile ranges above the
 * third quartile, or at the largest value if that is less, so that a few outliers don't press all
 * others into one bin. `sorted` is in ascending order and not empty. */
struct prn_thin_histogram prn_thin_histogram(const int64_t *sorted, size_t n, size_t bins,
                                             uint64_t *counts);

/* An event on a lane of a timeline. */
struct prn_thin_span {
    int64_t start_ns, duration_ns;
    uint32_t lane, name, op; /* numbers of the caller's */
};

/* Events of a lane that aren't kept, by the pixel that they start in. */
struct prn_thin_rest {
    uint32_t lane;
    uint32_t pixel;
    uint64_t count;
    int64_t busy_ns; /* sum of their durations */
};

struct prn_thin_spans {
    size_t n; /* kept, by start: the first of the array */
    size_t n_rest;
    struct prn_thin_rest *rest; /* by lane and pixel; belongs to the arena */
};

/* Reorders `spans`: the `most` longest come first, sorted by start, longer ones first where that is
 * equal. The others are counted in `pixels` steps of the time from `start_ns`, `duration_ns` long.
 */
PRONY_MUST_CHECK int prn_thin_spans(struct prn_thin_span *spans, size_t n, size_t most,
                                    int64_t start_ns, int64_t duration_ns, size_t pixels,
                                    struct prn_arena *arena, struct prn_thin_spans *ret_thinned,
                                    struct prony_error *err);

#endif
