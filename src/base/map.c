#include "base/map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

static uint64_t seed(void)
{
    uint64_t value = 0x9e3779b97f4a7c15u;
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random)
        memcpy(&value, random, sizeof value);
    return value;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash(const struct prn_map *m, const char *key, size_t len)
{
    uint64_t h = m->seed ^ mix(len ^ 0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu);
    while (len > 0) {
        uint64_t word = 0;
        size_t n = len < sizeof word ? len : sizeof word;
        memcpy(&word, key, n);
        h = mix(h ^ word, 0x8ebc6af09c88c6e3u) + 0x589965cc75374cc3u;
        key += n;
        len -= n;
    }
    return mix(h, 0x1d8e4e27c47d124fu);
}

void prn_map_release(struct prn_map *m)
{
    free(m->slots);
    *m = PRN_MAP_INIT;
}

/* The slot that holds the key, or the empty one where it belongs. */
static struct prn_map_slot *find(const struct prn_map *m, const char *key, size_t len, uint64_t h)
{
    size_t i = (size_t)h & (m->capacity - 1);
    while (m->slots[i].key) {
        struct prn_map_slot *s = &m->slots[i];
        if (s->hash == h && s->len == len && memcmp(s->key, key, len) == 0)
            return s;
        i = (i + 1) & (m->capacity - 1);
    }
    return &m->slots[i];
}

static int grow(struct prn_map *m)
{
    struct prn_map bigger = {.capacity = m->capacity ? m->capacity * 2 : 16,
                             .count = m->count,
                             .seed = m->capacity ? m->seed : seed()};
    bigger.slots = calloc(bigger.capacity, sizeof *bigger.slots);
    if (!bigger.slots)
        return PRONY_ENOMEM;
    for (size_t i = 0; i < m->capacity; i++) {
        const struct prn_map_slot *s = &m->slots[i];
        if (s->key)
            *find(&bigger, s->key, s->len, s->hash) = *s;
    }
    free(m->slots);
    *m = bigger;
    return 0;
}

int prn_map_set_n(struct prn_map *m, const char *key, size_t len, size_t value)
{
    if (m->count + 1 > m->capacity / 2 && grow(m) < 0)
        return PRONY_ENOMEM;
    uint64_t h = hash(m, key, len);
    struct prn_map_slot *s = find(m, key, len, h);
    if (!s->key) {
        *s = (struct prn_map_slot){.key = key, .len = len, .hash = h};
        m->count++;
    }
    s->value = value;
    return 0;
}

int prn_map_set(struct prn_map *m, const char *key, size_t value)
{
    return prn_map_set_n(m, key, strlen(key), value);
}

size_t prn_map_get_n(const struct prn_map *m, const char *key, size_t len)
{
    if (m->capacity == 0)
        return PRN_MAP_NONE;
    const struct prn_map_slot *s = find(m, key, len, hash(m, key, len));
    return s->key ? s->value : PRN_MAP_NONE;
}

size_t prn_map_get(const struct prn_map *m, const char *key)
{
    return prn_map_get_n(m, key, strlen(key));
}
