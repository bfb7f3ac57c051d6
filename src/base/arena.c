#include "base/arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

struct prn_arena_chunk {
    struct prn_arena_chunk *next;
    size_t size;
    size_t used;
    alignas(max_align_t) unsigned char data[];
};

/* The first chunk is small, because there may be thousands of arenas with little in them; each
 * later one is as large as all before it, up to the second of these. */
#define CHUNK_FIRST_BYTES ((size_t)2 * 1024)
#define CHUNK_MOST_BYTES ((size_t)32 * 1024)

void prn_arena_release(struct prn_arena *a)
{
    while (a->chunks) {
        struct prn_arena_chunk *next = a->chunks->next;
        free(a->chunks);
        a->chunks = next;
    }
    a->used_bytes = 0;
}

static size_t rounded(size_t size)
{
    const size_t align = alignof(max_align_t);
    return (size + align - 1) & ~(align - 1);
}

static size_t chunk_bytes(const struct prn_arena *a)
{
    if (a->used_bytes < CHUNK_FIRST_BYTES)
        return CHUNK_FIRST_BYTES;
    return a->used_bytes < CHUNK_MOST_BYTES ? a->used_bytes : CHUNK_MOST_BYTES;
}

bool prn_arena_has_room(const struct prn_arena *a, size_t size)
{
    return size <= SIZE_MAX / 2 && rounded(size) <= a->limit_bytes &&
           a->used_bytes <= a->limit_bytes - rounded(size);
}

void *prn_arena_alloc(struct prn_arena *a, size_t size)
{
    if (!prn_arena_has_room(a, size))
        return NULL;
    size = rounded(size);
    struct prn_arena_chunk *c = a->chunks;
    if (!c || c->size - c->used < size) {
        size_t bytes = chunk_bytes(a);
        bytes = size > bytes / 4 ? size : bytes;
        struct prn_arena_chunk *fresh = calloc(1, sizeof *fresh + bytes);
        if (!fresh)
            return NULL;
        fresh->size = bytes;
        /* A large allocation gets a chunk of its own; the one with room left stays in front. */
        if (c && bytes == size) {
            fresh->next = c->next;
            c->next = fresh;
        } else {
            fresh->next = c;
            a->chunks = fresh;
        }
        c = fresh;
    }
    void *p = c->data + c->used;
    c->used += size;
    a->used_bytes += size;
    return p;
}

void *prn_arena_array(struct prn_arena *a, size_t count, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : prn_arena_alloc(a, bytes);
}

char *prn_arena_strndup(struct prn_arena *a, const char *text, size_t len)
{
    char *copy = len < SIZE_MAX ? prn_arena_alloc(a, len + 1) : NULL;
    if (copy && len)
        memcpy(copy, text, len);
    return copy;
}

char *prn_arena_strdup(struct prn_arena *a, const char *text)
{
    return prn_arena_strndup(a, text, strlen(text));
}

void prn_arena_join(struct prn_arena *a, struct prn_arena *from)
{
    struct prn_arena_chunk **end = &a->chunks;
    while (*end)
        end = &(*end)->next;
    *end = from->chunks;
    a->used_bytes += from->used_bytes;
    from->chunks = NULL;
    from->used_bytes = 0;
}
