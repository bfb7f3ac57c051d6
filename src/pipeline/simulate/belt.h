/*
 * A belt carries batches from one thread to the next, in order. It holds as many as its capacity
 * says, and whoever puts one more waits. One of capacity 0 holds none: a batch goes from hand to
 * hand once the taker waits for it.
 */
#ifndef PRN_PIPELINE_SIMULATE_BELT_H
#define PRN_PIPELINE_SIMULATE_BELT_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* What is carried begins with this. */
struct prn_belt_item {
    struct prn_belt_item *next;
};

struct prn_belt {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct prn_belt_item *first, **end;
    size_t n, capacity;
    size_t takers; /* that wait */
    bool stopped;
};

void prn_belt_init(struct prn_belt *belt, size_t capacity);
/* What is left on it stays with whoever owns it. */
void prn_belt_release(struct prn_belt *belt);

/* False once the belt was stopped; the item still is the caller's then. */
PRONY_MUST_CHECK bool prn_belt_put(struct prn_belt *belt, struct prn_belt_item *item);
/* NULL once the belt was stopped. */
struct prn_belt_item *prn_belt_take(struct prn_belt *belt);
/* Takes without waiting, also from a belt that was stopped; NULL: there is nothing. */
struct prn_belt_item *prn_belt_pick(struct prn_belt *belt);

/* Ends all waiting, now and later. */
void prn_belt_stop(struct prn_belt *belt);

#endif
