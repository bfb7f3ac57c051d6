#include "base/random.h"

#include <math.h>

static uint64_t rotate_left(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

void prn_random_seed(struct prn_random *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        uint64_t z = seed;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        r->state[i] = z ^ (z >> 31);
    }
}

void prn_random_seed_named(struct prn_random *r, uint64_t seed, const char *name)
{
    /* FNV-1a: the same on every machine, unlike the hash of prn_map. */
    uint64_t h = 0xcbf29ce484222325u ^ seed * 0x9e3779b97f4a7c15u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    prn_random_seed(r, h);
}

uint64_t prn_random_u64(struct prn_random *r)
{
    uint64_t *s = r->state;
    uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t prn_random_below(struct prn_random *r, uint64_t bound)
{
    uint64_t threshold = -bound % bound;
    for (;;) {
        uint64_t x = prn_random_u64(r);
        if (x >= threshold)
            return x % bound;
    }
}

double prn_random_double(struct prn_random *r)
{
    return (double)(prn_random_u64(r) >> 11) * 0x1.0p-53;
}

double prn_random_normal(struct prn_random *r)
{
    double u = 1.0 - prn_random_double(r);
    double v = prn_random_double(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

void prn_random_shuffle(struct prn_random *r, size_t *order, size_t n)
{
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)prn_random_below(r, i);
        size_t swap = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swap;
    }
}
