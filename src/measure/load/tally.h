/*
 * From requests to figures: a tally takes the blocks of one load and gives a row. Pure arithmetic
 * on times; what drives the model is exec/drive.h, what decides how long is load.c and slo.c.
 */
#ifndef PRN_MEASURE_LOAD_TALLY_H
#define PRN_MEASURE_LOAD_TALLY_H

#include "base/sketch.h"
#include "exec/drive.h"
#include "measure/load/load.h"

/* Share of a block at its beginning that isn't counted. */
#define PRN_LOAD_LEAD 0.1

/* Most requests that are kept for one load. */
#define PRN_LOAD_REQUESTS_MAX 4000000

struct prn_load_tally {
    struct prn_sample *samples; /* latencies of the requests that count, in time order */
    size_t n, capacity;
    struct prn_sketch lateness; /* of requests whose worker waited for them */
    double wait_ns, service_ns; /* sums */
    double time_ns;             /* in which requests were answered */
    double answered;            /* how many in that time, */
    double busy_ns;             /* and how long workers ran them */
    int64_t blocks, overloaded_blocks, disturbed_blocks, launches;
    int32_t slices; /* parts of equal time that a block is cut into, which count as blocks of the
                       samples; 0: one */
    bool gave_up;
};

#define PRN_LOAD_TALLY_INIT ((struct prn_load_tally){0})

void prn_load_tally_release(struct prn_load_tally *t);

/* Adds a block that was driven by a process. `disturbed`: something else ran meanwhile. */
PRONY_MUST_CHECK int prn_load_tally_add(struct prn_load_tally *t, const struct prn_drive_plan *plan,
                                        const struct prn_drive_request *requests,
                                        const struct prn_drive_end *end, int32_t launch,
                                        bool disturbed, struct prony_error *err);

/* Requests pile up: a block was given up, or in half of them nobody was idle and a queue was left
 * at the end. */
bool prn_load_tally_overloaded(const struct prn_load_tally *t);

/* Whether latency grew from slice to slice, so that what was seen isn't what would be: the slope
 * over the slices is surely positive, and the last third takes half as long again as the first, and
 * a tenth of the limit at least. */
bool prn_load_tally_grows(const struct prn_load_tally *t, double limit_ns);

/* 95 % interval of the share of requests that took longer than `limit_ns`; NAN without requests.
 * Wilson's, with as many independent requests as the variance between launches (between blocks,
 * with fewer than PRN_UNITS_MIN launches) says that there are. */
struct prn_interval prn_load_share_over(const struct prn_sample *samples, size_t n,
                                        double limit_ns);

PRONY_MUST_CHECK int prn_load_tally_row(const struct prn_load_tally *t, double asked_per_s,
                                        int64_t workers, struct prn_load_row *ret_row,
                                        struct prony_error *err);

#endif
