#include "service/tries.h"

#include "base/lock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PLACES 1024 /* that are told apart */

/* A bucket that wrong tries fill and time empties. */
struct place {
    double wrong;
    int64_t at_ns;
};

PRN_LOCK(tries);

struct prn_tries {
    pthread_mutex_t lock;
    double at_once, per_s;
    uint64_t seed; /* so that nobody can choose to share a place */
    struct place places[PLACES] PRN_GUARDED(tries);
};

PRN_LOCK_FUNCTIONS(tries, struct prn_tries, lock)

int prn_tries_new(double at_once, double per_s, struct prn_tries **ret_tries,
                  struct prony_error *err)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        return prn_fail(err, PRONY_EIO, "cannot get random bytes");
    struct prn_tries *t = calloc(1, sizeof *t);
    if (!t)
        return prn_fail_memory(err);
    pthread_mutex_init(&t->lock, NULL);
    t->at_once = at_once;
    t->per_s = per_s;
    t->seed = seed;
    *ret_tries = t;
    return 0;
}

void prn_tries_free(struct prn_tries *tries)
{
    if (!tries)
        return;
    pthread_mutex_destroy(&tries->lock);
    free(tries);
}

/* As it is by now. */
static struct place *place_of_locked(struct prn_tries *t, const char *name, int64_t now_ns)
    PRN_HOLDS(tries)
{
    uint64_t hash = t->seed;
    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    hash ^= hash >> 32;
    struct place *place = &t->places[hash % PLACES];
    double gone = (double)(now_ns - place->at_ns) * 1e-9 * t->per_s;
    place->wrong = place->wrong > gone ? place->wrong - gone : 0;
    place->at_ns = now_ns;
    return place;
}

double prn_tries_wait_s(struct prn_tries *tries, const char *place, int64_t now_ns)
{
    tries_lock(tries);
    double over = place_of_locked(tries, place, now_ns)->wrong - (tries->at_once - 1);
    tries_unlock(tries);
    return over > 0 ? over / tries->per_s : 0;
}

void prn_tries_was_wrong(struct prn_tries *tries, const char *place, int64_t now_ns)
{
    tries_lock(tries);
    place_of_locked(tries, place, now_ns)->wrong += 1;
    tries_unlock(tries);
}
