/*
 * Results of one model over time, as a history keeps them (store/archive.h): what belongs together,
 * where its time changed, and by how much.
 *
 * - A series is what can be compared: a backend (hardware, software, options), fed inputs of the
 *   same names, types and shapes, on machines with one fingerprint. Reports of other machines make
 *   a series of their own.
 * - Changes are looked for in the logarithms of medians (changes.h). Between two of them is a
 *   segment; its level is the weighted mean, in which reports far from the others count less. The
 * interval of a change comes from the spread of reports around the levels of all segments: reports
 * are its units.
 * - A change counts when its interval, widened for the number of places where it might have been
 *   found, clears the smallest difference that counts and, where the canary changed with it, what
 *   the canary changed by. One that doesn't is no change, and its segments are one.
 */
#ifndef PRN_MEASURE_TREND_H
#define PRN_MEASURE_TREND_H

#include "measure/profile.h"
#include "measure/trend/changes.h"

/* Which code, where and when: what is known of a report beside what it says. */
#define PRN_REPORT_ORIGIN_LIST(X)                                                           \
    X(INTEGER, report, "Its number in the history.")                                        \
    X(TEXT, created, "When it was measured (ISO 8601, UTC).", .flags = PRN_NULL)            \
    X(TEXT, commit, "The commit that was checked out; null: not known.", .flags = PRN_NULL) \
    X(TEXT, branch, "Its branch; null: none, or not known.", .flags = PRN_NULL)             \
    X(BOOL, changed, "Files differed from that commit.")                                    \
    X(TEXT, runtime_version, "Of the runtime; null when it never started.", .flags = PRN_NULL)

struct prn_report_origin {
    PRN_REPORT_ORIGIN_LIST(PRN_DECLARE)
};

/* A result of a report. */
#define PRN_TREND_POINT_LIST(X)                                                 \
    X(INTEGER, launches, "Processes.")                                          \
    X(INTEGER, samples, "Timed runs.")                                          \
    X(NUMBER, median_ns, "Median of all timed runs; null: it failed.")          \
    X(NUMBER, low_ns, "Lower end of its 95 % interval, over launches.")         \
    X(NUMBER, high_ns, "Upper end.")                                            \
    X(NUMBER, canary_ns, "Shortest time of the canary, a fixed piece of work.") \
    X(TEXT, error, "Why it failed.", .flags = PRN_NULL)

struct prn_trend_point {
    struct prn_report_origin origin;
    PRN_TREND_POINT_LIST(PRN_DECLARE)
    double log_error;           /* standard error of the median's logarithm; NAN: not known */
    double smallest_difference; /* that counts */
    unsigned flags;             /* enum prn_flag */
    int64_t segment;            /* which one it belongs to, from 1; -1: it failed */
};

/* What lies between two changes. */
#define PRN_TREND_SEGMENT_LIST(X)                                                       \
    X(INTEGER, first, "Number of its first report in the history.")                     \
    X(INTEGER, last, "And of its last.")                                                \
    X(INTEGER, reports, "How many it has.")                                             \
    X(NUMBER, level_ns, "Weighted geometric mean of their medians.")                    \
    X(NUMBER, low_ns, "Lower end of its 95 % interval; null: too few reports for one.") \
    X(NUMBER, high_ns, "Upper end.")

struct prn_trend_segment {
    PRN_TREND_SEGMENT_LIST(PRN_DECLARE)
};

struct prn_trend_change {
    struct prn_report_origin origin; /* of the first report after it */
    int64_t before;                  /* report: the last one before it */
    size_t at;                       /* which point that first one is */
    struct prn_interval ratio;       /* level after over level before, 95 % */
    double canary_ratio;             /* the same of the canary; NAN: not known */
    double p;                        /* of the test that found it */
};

/* What is known of a series as a whole. */
#define PRN_TREND_NAMES_LIST(X)                                                             \
    X(TEXT, model, "The model, as the history calls it.")                                   \
    X(TEXT, backend, "Hardware, software, options; ' #2' after it tells equal ones apart.") \
    X(TEXT, sizes, "What it was fed: what a sweep set, or the shape of the first input.")   \
    X(TEXT, machine, "Processor and cores, or the name that --machine gave.")

struct prn_trend_series {
    PRN_TREND_NAMES_LIST(PRN_DECLARE)
    size_t n_points, n_segments, n_changes;
    struct prn_trend_point *points; /* oldest first */
    struct prn_trend_segment *segments;
    struct prn_trend_change *changes;
    int64_t measured; /* points that didn't fail */
    int64_t left_out; /* older ones that weren't looked at */
    int64_t shifts;   /* changes that weren't larger than the canary's */
};

struct prn_trend {
    struct prn_arena arena;
    const char *model; /* as asked for */
    size_t n_series, n_reports;
    struct prn_trend_series *series;
};

/* ---- What a history holds ---- */

#define PRN_TREND_LISTED_LIST(X)                                        \
    X(INTEGER, reports, "Reports that have it.")                        \
    X(NUMBER, median_ns, "Median of the last one; null: it failed.")    \
    X(NUMBER, low_ns, "Lower end of its 95 % interval, over launches.") \
    X(NUMBER, high_ns, "Upper end.")

struct prn_trend_listed {
    PRN_TREND_NAMES_LIST(PRN_DECLARE)
    PRN_TREND_LISTED_LIST(PRN_DECLARE)
    struct prn_report_origin last;
};

struct prn_trend_list {
    const char *file; /* where it is */
    int64_t reports, models, machines;
    int64_t bytes; /* of all reports, as they were added */
    size_t n_rows;
    struct prn_trend_listed *rows;
};

#define PRN_PRUNED_LIST(X)                                            \
    X(BOOL, dry_run, "Nothing was removed: these are what would be.") \
    X(INTEGER, removed, "Reports that were removed.")                 \
    X(INTEGER, left, "Reports that are left.")                        \
    X(INTEGER, removed_bytes, "Size of those, as they were added.")

struct prn_pruned {
    PRN_PRUNED_LIST(PRN_DECLARE)
};

/* Fills segments, changes and what follows from them; the points are set. At most PRN_CHANGES_MAX
 * of them are measured. 0 or PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_trend_analyse(struct prn_trend_series *series, struct prn_arena *arena);

struct prn_trend *prn_trend_new(void);
void prn_trend_free(struct prn_trend *trend); /* NULL does nothing */

/* What a result of a profile is as a point: all but its origin and texts, which are borrowed. */
struct prn_trend_point prn_trend_point(const struct prn_profile *profile,
                                       const struct prn_result *result);

#endif
