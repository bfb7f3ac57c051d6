#include "measure/canary.h"

#include "base/clock.h"
#include "base/stats.h"
#include "exec/executor.h"

#define PARTS 5
#define STEPS 25000

/* A chain of dependent multiplications over a table that fits the first-level cache: as fast as the
 * core is, and slowed by a shared core or a lower clock. */
static uint64_t canary_work(uint64_t seed)
{
    static uint64_t table[512];
    uint64_t x = seed | 1;
    for (int i = 0; i < STEPS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        table[(x >> 32) & 511] += x;
        x ^= table[(x >> 41) & 511];
    }
    return x;
}

double prn_canary_run(struct prn_canary *c)
{
    static volatile uint64_t sink;
    double parts[PARTS];
    /* The median of a few parts: one interrupt is not a neighbour. */
    for (int i = 0; i < PARTS; i++) {
        int64_t start = prn_clock_ns();
        sink = canary_work(sink + (uint64_t)i);
        parts[i] = (double)(prn_clock_ns() - start);
    }
    prn_stats_sort(parts, PARTS);
    double ns = prn_stats_median(parts, PARTS);
    if (c->best_ns == 0 || ns < c->best_ns)
        c->best_ns = ns;
    return ns;
}

bool prn_canary_disturbed(const struct prn_canary *c, double ns)
{
    return ns > c->best_ns * PRN_CANARY_TOLERANCE;
}
