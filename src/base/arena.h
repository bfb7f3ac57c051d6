/*
 * An arena: many small allocations with one lifetime, freed together. Memory comes back zeroed and
 * aligned for any type. An arena has a limit, so that input can't make it grow without end; past
 * it, or out of memory, allocations return NULL.
 */
#ifndef PRN_BASE_ARENA_H
#define PRN_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prn_arena_chunk;

struct prn_arena {
    struct prn_arena_chunk *chunks; /* newest first */
    size_t used_bytes;              /* handed out so far */
    size_t limit_bytes;
};

#define PRN_ARENA_INIT(most) ((struct prn_arena){.limit_bytes = (most)})

void prn_arena_release(struct prn_arena *a);

void *prn_arena_alloc(struct prn_arena *a, size_t size);

/* Whether the limit allows another `size` bytes: tells why an allocation failed. */
bool prn_arena_has_room(const struct prn_arena *a, size_t size);

/* `count` × `size` bytes; NULL also when the product overflows. */
void *prn_arena_array(struct prn_arena *a, size_t count, size_t size);

/* A copy of `len` bytes with a NUL behind them. */
char *prn_arena_strndup(struct prn_arena *a, const char *text, size_t len);
char *prn_arena_strdup(struct prn_arena *a, const char *text);

/* Moves all that `from` has handed out to `a`, with which it lives from then on. */
void prn_arena_join(struct prn_arena *a, struct prn_arena *from);

/* One `type`, or an array of them. */
#define PRN_ARENA_NEW(a, type) ((type *)prn_arena_alloc((a), sizeof(type)))
#define PRN_ARENA_ARRAY(a, count, type) ((type *)prn_arena_array((a), (count), sizeof(type)))

#endif
