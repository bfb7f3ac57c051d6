/*
 * Reproducible pseudo-random numbers (xoshiro256++, seeded through splitmix64): the same seed gives
 * the same numbers on every machine. Not for secrets.
 */
#ifndef PRN_BASE_RANDOM_H
#define PRN_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct prn_random {
    uint64_t state[4];
};

void prn_random_seed(struct prn_random *r, uint64_t seed);

/* A stream of its own for each name. */
void prn_random_seed_named(struct prn_random *r, uint64_t seed, const char *name);

uint64_t prn_random_u64(struct prn_random *r);

/* Uniform in [0, bound), without bias; bound > 0. */
uint64_t prn_random_below(struct prn_random *r, uint64_t bound);

/* Uniform in [0, 1). */
double prn_random_double(struct prn_random *r);

/* Standard normal. */
double prn_random_normal(struct prn_random *r);

/* Puts 0 … n-1 in random order. */
void prn_random_shuffle(struct prn_random *r, size_t *order, size_t n);

#endif
