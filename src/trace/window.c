#include "trace/window.h"

#include "trace/scan.h"

#include <stdlib.h>
#include <string.h>

/* Room in front of a block, for what is left of the one before. */
#define ROOM ((size_t)64 << 10)

static int init_block(struct prn_block *b, size_t capacity, struct prony_error *err)
{
    b->bytes = calloc(1, ROOM + capacity + PRN_SCAN_PADDING);
    b->capacity = capacity;
    return b->bytes ? 0 : prn_fail_memory(err);
}

int prn_window_init(struct prn_window *w, struct prn_source *source, size_t capacity, size_t limit,
                    struct prony_error *err)
{
    *w = (struct prn_window){.source = source, .limit = limit};
    int code = init_block(&w->block, capacity, err);
    w->data = code == 0 ? w->block.bytes + ROOM : NULL;
    return code;
}

int prn_window_add_spare(struct prn_window *w, struct prony_error *err)
{
    return init_block(&w->spare, w->block.capacity, err);
}

void prn_window_release(struct prn_window *w)
{
    free(w->block.bytes);
    free(w->spare.bytes);
    *w = (struct prn_window){0};
}

void prn_window_restart(struct prn_window *w, struct prn_source *source)
{
    *w = (struct prn_window){.source = source,
                             .block = w->block,
                             .spare = w->spare,
                             .limit = w->limit,
                             .wanted = w->wanted,
                             .data = w->block.bytes + ROOM};
    memset(w->data, 0, PRN_SCAN_PADDING);
}

typedef unsigned char lanes __attribute__((vector_size(16)));

/* 1 in each lane that holds a newline. */
static inline lanes newlines(const char *p)
{
    lanes bytes;
    memcpy(&bytes, p, sizeof bytes);
    return -(lanes)(bytes == '\n');
}

/* Every byte of the stream passes through here once, so it counts many at a time, in lanes that are
 * added up before they can overflow. */
static uint64_t count_newlines(const char *p, size_t len)
{
    const size_t block = 4 * sizeof(lanes);
    uint64_t count = 0;
    while (len >= block) {
        lanes sums = {0};
        for (size_t i = 0; i < 63 && len >= block; i++, p += block, len -= block)
            sums += (newlines(p) + newlines(p + 16)) + (newlines(p + 32) + newlines(p + 48));
        for (size_t i = 0; i < sizeof(lanes); i++)
            count += sums[i];
    }
    for (; len > 0; p++, len--)
        count += *p == '\n';
    return count;
}

/* Moves what is left to the front of its block, which is made to hold `len` bytes at least. What is
 * left may begin in the room before the front, and so be longer than the block's capacity. */
static int move_to_front(struct prn_window *w, size_t len, struct prony_error *err)
{
    if (len > w->block.capacity) {
        size_t capacity = 2 * w->block.capacity < w->limit ? 2 * w->block.capacity : w->limit;
        capacity = capacity < len ? len : capacity;
        char *bytes = malloc(ROOM + capacity + PRN_SCAN_PADDING);
        if (!bytes)
            return prn_fail_memory(err);
        memcpy(bytes + ROOM, w->data, w->len);
        free(w->block.bytes);
        w->block = (struct prn_block){bytes, capacity};
    } else {
        memmove(w->block.bytes + ROOM, w->data, w->len);
    }
    w->data = w->block.bytes + ROOM;
    return 0;
}

void prn_window_read_ahead(struct prn_window *w)
{
    size_t n = 1;
    w->ahead_len = 0;
    w->ahead_code = 0;
    while (n > 0 && w->ahead_code == 0 && w->ahead_len < w->wanted) {
        w->ahead_code = prn_source_read(w->source, w->spare.bytes + ROOM + w->ahead_len,
                                        w->spare.capacity - w->ahead_len, &n, &w->ahead_error);
        w->ahead_len += w->ahead_code == 0 ? n : 0;
    }
    w->ahead_ended = n == 0 && w->ahead_code == 0;
    w->is_ahead = true;
}

/* Puts what was read ahead behind what is left. */
static int take_ahead(struct prn_window *w, struct prony_error *err)
{
    if (w->len <= ROOM) {
        char *data = w->spare.bytes + ROOM - w->len;
        struct prn_block block = w->block;
        memcpy(data, w->data, w->len);
        w->block = w->spare;
        w->spare = block;
        w->data = data;
    } else {
        int code = move_to_front(w, w->len + w->ahead_len, err);
        if (code < 0)
            return code;
        memcpy(w->data + w->len, w->spare.bytes + ROOM, w->ahead_len);
    }
    w->len += w->ahead_len;
    w->ended = w->ahead_ended;
    w->ahead_len = 0;
    w->is_ahead = w->ahead_code < 0; /* to be told the next time */
    return 0;
}

/* Reads until there are `wanted` bytes. */
static int fill(struct prn_window *w, size_t wanted, struct prony_error *err)
{
    while (!w->ended && w->len < wanted) {
        size_t room = (size_t)(w->block.bytes + ROOM + w->block.capacity - (w->data + w->len));
        size_t n = 0;
        int code = 0;
        if (room == 0) {
            code = move_to_front(w, w->len + 1, err);
        } else {
            code = prn_source_read(w->source, w->data + w->len, room, &n, err);
            w->ended = code == 0 && n == 0;
        }
        if (code < 0)
            return code;
        w->len += n;
    }
    return 0;
}

int prn_window_more(struct prn_window *w, struct prony_error *err)
{
    w->lines += count_newlines(w->data, w->at);
    w->base += w->at;
    w->data += w->at;
    w->len -= w->at;
    w->at = 0;
    if (w->len >= w->limit)
        return PRONY_ELIMIT;
    int code = 0;
    size_t wanted = w->len + w->len / 2 + 1;
    if (w->is_ahead && w->ahead_code < 0 && w->ahead_len == 0) {
        code = w->ahead_code;
        if (err)
            *err = w->ahead_error;
    } else if (w->is_ahead) {
        code = take_ahead(w, err);
    } else {
        code = move_to_front(w, w->len, err);
        wanted = wanted < w->wanted ? w->wanted : wanted;
    }
    if (code == 0 && !w->is_ahead)
        code = fill(w, wanted < w->limit ? wanted : w->limit, err);
    memset(w->data + w->len, 0, PRN_SCAN_PADDING);
    return code;
}

uint64_t prn_window_line(const struct prn_window *w, size_t offset)
{
    return w->lines + count_newlines(w->data, offset) + 1;
}
