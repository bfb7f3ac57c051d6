/*
 * Watches over a block: the canary runs before and after it, while the executor is stopped, and the
 * executor's threads are asked how long they waited for a core. The canary tells of a slower core;
 * a busy one shows in threads that waited for it, unless there are more of them than cores, when
 * they make each other wait.
 *
 *     struct prn_watch watch = prn_watch_init(cores);   (one per backend)
 *     prn_watch_begin(&watch, &canary, executor);       (lets the executor go on)
 *     …
 *     bool disturbed = prn_watch_end(&watch, &canary, executor);   (stops it again)
 */
#ifndef PRN_MEASURE_WATCH_H
#define PRN_MEASURE_WATCH_H

#include "exec/executor.h"
#include "measure/canary.h"

struct prn_watch {
    int64_t cores;
    double least_wait; /* smallest share of a block spent waiting for a core; NAN: none yet */
    double canary_ns;  /* before the block */
    int64_t waited_ns; /* until the block */
    int64_t start_ns;
};

struct prn_watch prn_watch_init(int64_t cores);
void prn_watch_begin(struct prn_watch *w, struct prn_canary *canary, struct prn_executor *x);

/* Whether something else ran during the block. */
bool prn_watch_end(struct prn_watch *w, struct prn_canary *canary, struct prn_executor *x);

#endif
