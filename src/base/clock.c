#include "base/clock.h"

#include "base/error.h"
#include "base/stats.h"

static int64_t read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t prn_clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC_RAW);
}

int64_t prn_monotonic_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t prn_wall_clock_ms(void)
{
    return read_clock(CLOCK_REALTIME) / 1000000;
}

struct timespec prn_timespec(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
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

void prn_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}
