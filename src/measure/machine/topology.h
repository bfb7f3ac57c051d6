/* The cores that this process may use, one thread of each, and the caches behind them, as the
 * kernel tells. What it doesn't tell is left out. */
#ifndef PRN_MEASURE_MACHINE_TOPOLOGY_H
#define PRN_MEASURE_MACHINE_TOPOLOGY_H

#include "base/arena.h"

#define PRN_CACHE_LEVELS_MAX 4

struct prn_cache {
    int64_t bytes; /* of the instance; 0: there is none */
    int instance;  /* the same for cores that share it */
};

struct prn_core {
    int cpu;                                       /* as the kernel counts them */
    struct prn_cache caches[PRN_CACHE_LEVELS_MAX]; /* L1 first; for data */
};

struct prn_topology {
    size_t n_cores; /* at least one */
    struct prn_core *cores;
    size_t n_levels; /* that the first core has */
};

/* False: no memory. */
bool prn_topology_read(struct prn_topology *ret_topology, struct prn_arena *arena);

/* Bytes of a level's caches behind the first `threads` cores, all together; and the least that one
 * of these cores has of it, when all of them share it. */
int64_t prn_topology_capacity(const struct prn_topology *t, size_t level, size_t threads);
int64_t prn_topology_share(const struct prn_topology *t, size_t level, size_t threads);

#endif
