/*
 * A hash map from strings to integers, for symbol tables: names to indices. Keys are borrowed and
 * must outlive the map. The hash is seeded per process, so input can't choose its collisions.
 */
#ifndef PRN_BASE_MAP_H
#define PRN_BASE_MAP_H

#include "base/error.h"

#include <stdbool.h>

struct prn_map_slot {
    const char *key;
    size_t len;
    uint64_t hash;
    size_t value;
};

struct prn_map {
    struct prn_map_slot *slots;
    size_t capacity; /* power of two, or 0 */
    size_t count;
    uint64_t seed; /* of the hash, from the first key on */
};

#define PRN_MAP_INIT ((struct prn_map){0})
#define PRN_MAP_NONE SIZE_MAX

void prn_map_release(struct prn_map *m);

/* Sets key → value, replacing an older value. 0 or PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_map_set(struct prn_map *m, const char *key, size_t value);
PRONY_MUST_CHECK int prn_map_set_n(struct prn_map *m, const char *key, size_t len, size_t value);

/* The value, or PRN_MAP_NONE. */
size_t prn_map_get(const struct prn_map *m, const char *key);
size_t prn_map_get_n(const struct prn_map *m, const char *key, size_t len);

#endif
