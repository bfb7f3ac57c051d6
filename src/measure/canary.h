/*
 * The canary: a fixed piece of work that takes the same time whenever the machine is undisturbed.
 * It runs around each block of measurements, while every executor is stopped; when it is slow, so
 * was the block.
 */
#ifndef PRN_MEASURE_CANARY_H
#define PRN_MEASURE_CANARY_H

#include <stdbool.h>
#include <stdint.h>

/* A block is disturbed when its canary took more than this times the best one. */
#define PRN_CANARY_TOLERANCE 1.10

struct prn_canary {
    double best_ns; /* fastest so far; 0 before the first */
};

/* Runs it once (about half a millisecond) and returns its time. */
double prn_canary_run(struct prn_canary *c);

/* Whether a time that prn_canary_run returned says that something else ran. */
bool prn_canary_disturbed(const struct prn_canary *c, double ns);

#endif
