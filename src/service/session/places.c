#include "service/session/places.h"

#include <assert.h>
#include <stdlib.h>

#define CAPACITY_MIN 16

/* The part of the tree that a node stands for is as long as its lowest bit. */
static size_t span(size_t number)
{
    return number & (~number + 1);
}

void prn_places_release(struct prn_places *p)
{
    free(p->tree);
    *p = PRN_PLACES_INIT;
}

bool prn_places_has_room(const struct prn_places *p, size_t n)
{
    return n <= p->capacity - p->used;
}

int prn_places_renumber(struct prn_places *p, size_t n, size_t more)
{
    size_t capacity = CAPACITY_MIN;
    while (capacity < 2 * n + more)
        capacity *= 2;
    assert(capacity <= UINT32_MAX);
    uint32_t *tree = calloc(capacity + 1, sizeof *tree);
    if (!tree)
        return PRONY_ENOMEM;
    for (size_t i = 1; i <= capacity; i++) {
        size_t before = i - span(i); /* ones in (before, i] */
        size_t last = i < n ? i : n;
        tree[i] = last > before ? (uint32_t)(last - before) : 0;
    }
    free(p->tree);
    *p = (struct prn_places){.tree = tree, .capacity = capacity, .used = n};
    return 0;
}

size_t prn_places_join(struct prn_places *p)
{
    assert(prn_places_has_room(p, 1));
    size_t number = ++p->used;
    for (size_t i = number; i <= p->capacity; i += span(i))
        p->tree[i]++;
    return number;
}

void prn_places_leave(struct prn_places *p, size_t number)
{
    assert(number > 0 && number <= p->used);
    for (size_t i = number; i <= p->capacity; i += span(i))
        p->tree[i]--;
}

size_t prn_places_count(const struct prn_places *p, size_t number)
{
    size_t count = 0;
    for (size_t i = number; i > 0; i -= span(i))
        count += p->tree[i];
    return count;
}
