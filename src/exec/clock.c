#include "exec/executor.h"

#include "base/stats.h"

#include <time.h>

int64_t prn_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double prn_clock_cost_ns(void)
{
    double costs[101];
    for (size_t i = 0; i < PRN_ARRAY_SIZE(costs); i++) {
        int64_t start = prn_clock_ns();
        for (int k = 0; k < 10; k++)
            (void)prn_clock_ns();
        costs[i] = (double)(prn_clock_ns() - start) / 11;
    }
    prn_stats_sort(costs, PRN_ARRAY_SIZE(costs));
    return prn_stats_median(costs, PRN_ARRAY_SIZE(costs));
}
