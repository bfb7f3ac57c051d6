/*
 * Drives a loaded model with requests, as its clients would, by several workers at once. A worker
 * is a thread with a lane of the runtime (runtime.h).
 *
 * - Open loop (rate > 0): requests arrive at random times with exponential gaps, a Poisson process,
 *   whether or not anyone is free. The times are drawn before the first request is run, so nothing
 *   that happens can move them. Workers take requests in order; one that comes while all are busy
 *   waits. Its latency is end - due, and a stall counts for every request that came during it.
 * - Closed loop (rate 0): each worker takes its next request when it has finished the last one.
 * - All of it happens inside the executor: no message is passed while requests run, and a worker
 *   that is free waits for its request by itself, so there is no dispatcher to wake it up.
 *
 * Nothing is left out: requests[0 … n-1] are all that arrived, unless it gave up.
 */
#ifndef PRN_EXEC_DRIVE_H
#define PRN_EXEC_DRIVE_H

#include "runtime/runtime.h"

#define PRN_DRIVE_WORKERS_MAX 256

/* Ten years: what doesn't fit isn't a time of ours. */
#define PRN_DRIVE_TIME_MAX_NS ((int64_t)315360000 * 1000000000)

struct prn_drive_plan {
    size_t workers;       /* at least 1, and no more than there are lanes */
    double rate;          /* arrivals per second; 0: closed loop */
    uint64_t seed;        /* of the arrivals */
    size_t most_requests; /* room for them */
    int64_t span_ns;      /* requests arrive, or are begun, within this time */
    int64_t patience_ns;  /* gives up once a request had to wait longer for a worker */
};

/* One request; times are from the beginning. */
struct prn_drive_request {
    int64_t due_ns;   /* when it arrived; of a closed loop: when its worker was ready */
    int64_t ready_ns; /* when a worker was free to wait for it */
    int64_t start_ns; /* when it was run: not before both */
    int64_t end_ns;
};

struct prn_drive_end {
    size_t n;     /* requests that were run: all, or the first ones when it gave up */
    bool gave_up; /* requests came faster than they could be answered */
};

/* Writes the arrivals of an open loop to the requests' due_ns and returns how many there are: those
 * within the span, as far as there is room. */
size_t prn_drive_schedule(const struct prn_drive_plan *plan, struct prn_drive_request *requests);

/* Runs the plan on lanes of `ops`, of which only prepare and run are called. The calling thread is
 * one of the workers. Fails when a run fails. */
PRONY_MUST_CHECK int prn_drive(const struct prn_drive_plan *plan, const struct prn_runtime_ops *ops,
                               struct prn_runtime *const *lanes, struct prn_drive_request *requests,
                               struct prn_drive_end *ret_end, struct prony_error *err);

#endif
