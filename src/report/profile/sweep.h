/*
 * What the reports say about a sweep as a whole, computed here for all formats: how times scale
 * with what was swept, and which rows are best. A profile is a sweep when it has several points, or
 * backends that differ in one option that is a positive integer. Used inside src/report only.
 *
 * Scaling compares a row with the one that has the smallest value of one swept thing and the same
 * of everything else, among those that were measured:
 *
 * - batch gain: time per item of that row over this one's (1.8: an item costs 1.8 times less);
 * - efficiency of an option such as threads: the speed-up over that row, divided by the ratio of
 * the values (1: perfect).
 *
 * Best are the rows with the shortest time (latency), the shortest time per item (throughput) and
 * the lowest cost per item. A row that can't be told from the best is marked too: by the paired
 * comparison within a point, by overlapping intervals otherwise.
 */
#ifndef PRN_REPORT_PROFILE_SWEEP_H
#define PRN_REPORT_PROFILE_SWEEP_H

#include "base/buffer.h"
#include "measure/profile.h"

/* Most options whose scaling is shown; more would fill no page. */
#define PRN_SWEEP_AXES_MAX 16

struct prn_sweep_axis {
    const char *option; /* "threads"; NULL: the batch */
    double *scaling;    /* one for each result; NAN: none */
};

#define PRN_MARK_MAP(X)         \
    X(LATENCY, "latency")       \
    X(THROUGHPUT, "throughput") \
    X(COST, "cost")

enum prn_mark {
#define PRN_X(name, text) PRN_MARK_##name,
    PRN_MARK_MAP(PRN_X)
#undef PRN_X
        PRN_MARK_COUNT
};

struct prn_sweep_view {
    bool active; /* it is a sweep; otherwise all that follows is empty */
    size_t n_axes;
    struct prn_sweep_axis *axes;
    bool *best[PRN_MARK_COUNT];  /* one for each result */
    bool shared[PRN_MARK_COUNT]; /* by several rows that can't be told apart */
};

PRONY_MUST_CHECK int prn_sweep_view_init(struct prn_sweep_view *sweep,
                                         const struct prn_profile *profile, struct prn_arena *arena,
                                         struct prony_error *err);

/* Appends what a row is best for: "latency, cost?"; the '?' where others share it. */
void prn_sweep_marks(const struct prn_sweep_view *sweep, size_t result, const char *separator,
                     struct prn_buffer *out);

/* Time of one item, in ns. */
double prn_result_item_ns(const struct prn_profile *p, const struct prn_result *r);

#endif
