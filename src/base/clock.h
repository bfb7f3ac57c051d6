/* The clocks. What is measured is measured with prn_clock_ns(); what is waited for, with the
 * monotonic one, because that is what the kernel's waits understand. */
#ifndef PRN_BASE_CLOCK_H
#define PRN_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

int64_t prn_clock_ns(void);      /* CLOCK_MONOTONIC_RAW */
double prn_clock_cost_ns(void);  /* of one reading, found by trying in some 20 µs */
int64_t prn_monotonic_ns(void);  /* CLOCK_MONOTONIC */
int64_t prn_wall_clock_ms(void); /* since 1970 */

/* For pthread_cond_timedwait() and its like on CLOCK_MONOTONIC. */
struct timespec prn_timespec(int64_t ns);
/* A condition that is waited for on that clock. */
void prn_condition_init(pthread_cond_t *condition);

#endif
