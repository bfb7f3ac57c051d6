/*
 * Places in a line that anybody may leave: each one who joins gets a number, and how many numbers
 * up to one are still there is known in logarithmic time (a binary indexed tree of ones). Numbers
 * run out; then the line is numbered again from 1, which its owner does, who knows the order.
 */
#ifndef PRN_SERVICE_SESSION_PLACES_H
#define PRN_SERVICE_SESSION_PLACES_H

#include "base/error.h"

#include <stdbool.h>

struct prn_places {
    uint32_t *tree; /* [1] … [capacity]; a power of two, or 0 */
    size_t capacity;
    size_t used; /* numbers given out */
};

#define PRN_PLACES_INIT ((struct prn_places){0})

void prn_places_release(struct prn_places *p);

/* Whether there are `n` more numbers. */
bool prn_places_has_room(const struct prn_places *p, size_t n);

/* Begins again with `n` who are there under the numbers 1 … n, with room for at least as many,
 * and for `more`. On PRONY_ENOMEM everything is as it was. */
PRONY_MUST_CHECK int prn_places_renumber(struct prn_places *p, size_t n, size_t more);

/* The next number; there must be room. */
size_t prn_places_join(struct prn_places *p);
void prn_places_leave(struct prn_places *p, size_t number);

/* How many with a number up to this one are there. */
size_t prn_places_count(const struct prn_places *p, size_t number);

#endif
