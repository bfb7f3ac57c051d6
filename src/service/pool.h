/*
 * A few threads for what would hold up the network's: disk work. Jobs of one line run one after the
 * other, in the order in which they were given; lines run side by side.
 */
#ifndef PRN_SERVICE_POOL_H
#define PRN_SERVICE_POOL_H

#include "base/error.h"

#include <stdbool.h>

struct prn_pool;

/* A place in a row, inside whatever the work is for. Zeroed to begin with. */
struct prn_job_line {
    struct prn_pool_job *first, *last;
    bool busy; /* a job of it is under way, or it waits for its turn */
    struct prn_job_line *next;
};

struct prn_pool_job {
    void (*run)(struct prn_pool_job *job);
    /* After run(), when the pool has let go of the line: the job and what its line is for may be
     * freed here, and not before. */
    void (*over)(struct prn_pool_job *job);
    struct prn_pool_job *next;
};

PRONY_MUST_CHECK int prn_pool_new(size_t threads, struct prn_pool **ret_pool,
                                  struct prony_error *err);
/* Runs what is left, and ends the threads. */
void prn_pool_free(struct prn_pool *pool);

/* The job is embedded in what it works on. Once it has run, it may be given again. */
void prn_pool_add(struct prn_pool *pool, struct prn_job_line *line, struct prn_pool_job *job);

#endif
