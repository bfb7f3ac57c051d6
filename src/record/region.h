/*
 * Regions: named pieces of the caller's program, timed while they happen, in any thread.
 *
 * - A thread has at most one open region; beginning a second one is an error, because the graphs
 *   of the inner one would count as local code of the outer one.
 * - Local code is timed from the end of one call of the library to the beginning of the next: what
 *   a graph takes, and waiting for other threads' graphs, isn't local code.
 * - A region that an error spoiled records nothing, and says so when it ends.
 *
 * All functions may be called from several threads at once. What prn_region_pause() gives belongs
 * to the calling thread until prn_region_resume().
 */
#ifndef PRN_RECORD_REGION_H
#define PRN_RECORD_REGION_H

#include "record/record.h"

#include <pthread.h>

struct prn_region;

struct prn_regions {
    pthread_mutex_t lock; /* for everything below */
    struct prn_recorder recorder;
    struct prn_region *open;
    struct prn_region *idle; /* to be used again */
    uint64_t last;           /* number of a region */
};

#define PRN_REGIONS_INIT(n_backends, repeats)                \
    ((struct prn_regions){.lock = PTHREAD_MUTEX_INITIALIZER, \
                          .recorder = PRN_RECORDER_INIT(n_backends, repeats)})

/* Forgets what was recorded, for calls with so many timed runs of a graph. Fails when a region is
 * open, whose call would be lost. */
PRONY_MUST_CHECK int prn_regions_restart(struct prn_regions *regions, int64_t repeats,
                                         struct prony_error *err);
/* Cancels what is open. */
void prn_regions_release(struct prn_regions *regions);

PRONY_MUST_CHECK int prn_region_begin(struct prn_regions *regions, const char *name,
                                      struct prony_error *err);
/* Whatever is returned, the thread has no open region any more. */
PRONY_MUST_CHECK int prn_region_end(struct prn_regions *regions, struct prony_error *err);
/* Records nothing. Does nothing without an open region. */
void prn_region_cancel(struct prn_regions *regions);

/* The region of this thread, with its clock stopped; NULL when there is none. A clock that was
 * stopped several times goes on when it was resumed as often. */
struct prn_region *prn_region_pause(struct prn_regions *regions);
/* Lets the clock go on; NULL does nothing, here and below. */
void prn_region_resume(struct prn_region *region);

/* For who keeps a region paused beyond a call: ending or cancelling it is then possible, and leaves
 * nothing to resume. A number that is never used again, and the region if it is still the one that
 * had that number. */
uint64_t prn_region_number(const struct prn_region *region);
struct prn_region *prn_region_if(struct prn_region *region, uint64_t number);

/* A number for the calling thread, not 0 and never used again. */
uint64_t prn_region_thread(void);

/* While paused: */

void prn_region_compiled(struct prn_region *region);
/* Whether another graph can be recorded. A region in which it can't is spoiled. */
PRONY_MUST_CHECK int prn_region_check(struct prn_region *region, struct prony_error *err);
/* Ends the local code so far and puts a graph after it; `own_ns` as in prn_call_graph(). */
PRONY_MUST_CHECK int prn_region_graph(struct prn_region *region, int64_t graph, int64_t own_ns,
                                      const struct prn_graph_outcome *outcomes,
                                      struct prony_error *err);
/* This region can't be recorded as it happened; the first reason counts. */
void prn_region_spoil(struct prn_region *region, const struct prony_error *reason);

/* Writes what was recorded into the profile, as prn_recorder_fill() does. */
PRONY_MUST_CHECK int prn_regions_fill(struct prn_regions *regions, struct prn_profile *profile,
                                      struct prony_error *err);

#endif
