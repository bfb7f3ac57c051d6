#include "measure/watch.h"

#include "base/clock.h"

#include <math.h>

#define WAIT_TOLERANCE 0.10 /* of a block's time */
/* After a stop, threads share a core for a few ms until the kernel spreads them. */
#define WAIT_GRACE_NS 5e6

struct prn_watch prn_watch_init(int64_t cores)
{
    return (struct prn_watch){.cores = cores, .least_wait = NAN};
}

void prn_watch_begin(struct prn_watch *w, struct prn_canary *canary, struct prn_executor *x)
{
    int64_t threads = 0;
    w->canary_ns = prn_canary_run(canary);
    w->waited_ns = prn_executor_waited_ns(x, &threads);
    w->start_ns = prn_clock_ns();
    prn_executor_unpark(x);
}

bool prn_watch_end(struct prn_watch *w, struct prn_canary *canary, struct prn_executor *x)
{
    int64_t threads = 0;
    prn_executor_park(x);
    double waited_ns = (double)(prn_executor_waited_ns(x, &threads) - w->waited_ns);
    double share = fmax(0, waited_ns - WAIT_GRACE_NS) / (double)(prn_clock_ns() - w->start_ns);
    double after_ns = prn_canary_run(canary);
    w->least_wait = fmin(w->least_wait, share);
    double own = threads > w->cores ? w->least_wait : 0;
    return prn_canary_disturbed(canary, fmax(w->canary_ns, after_ns)) ||
           share > own + WAIT_TOLERANCE;
}
