#include "trace/window.h"

#include "trace/scan.h"

#include <stdlib.h>
#include <string.h>

int prn_window_init(struct prn_window *w, struct prn_source *source, size_t capacity, size_t limit,
                    struct prony_error *err)
{
    *w = (struct prn_window){.source = source, .capacity = capacity, .limit = limit};
    w->data = calloc(1, capacity + PRN_SCAN_PADDING);
    return w->data ? 0 : prn_fail_memory(err);
}

void prn_window_release(struct prn_window *w)
{
    free(w->data);
    w->data = NULL;
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

static int grow(struct prn_window *w, struct prony_error *err)
{
    if (w->capacity >= w->limit)
        return PRONY_ELIMIT;
    size_t capacity = 2 * w->capacity < w->limit ? 2 * w->capacity : w->limit;
    char *data = realloc(w->data, capacity + PRN_SCAN_PADDING);
    if (!data)
        return prn_fail_memory(err);
    w->data = data;
    w->capacity = capacity;
    return 0;
}

int prn_window_more(struct prn_window *w, struct prony_error *err)
{
    size_t rest = w->len - w->at;
    w->lines += count_newlines(w->data, w->at);
    w->base += w->at;
    memmove(w->data, w->data + w->at, rest);
    w->at = 0;
    w->len = rest;
    size_t wanted = rest + rest / 2 + 1;
    if (wanted < w->wanted)
        wanted = w->wanted;
    while (!w->ended && w->len < wanted) {
        int code = w->len == w->capacity ? grow(w, err) : 0;
        size_t n = 0;
        if (code == 0)
            code = prn_source_read(w->source, w->data + w->len, w->capacity - w->len, &n, err);
        if (code < 0) {
            memset(w->data + w->len, 0, PRN_SCAN_PADDING);
            return code;
        }
        w->len += n;
        w->ended = n == 0;
    }
    memset(w->data + w->len, 0, PRN_SCAN_PADDING);
    return 0;
}

uint64_t prn_window_line(const struct prn_window *w, size_t offset)
{
    return w->lines + count_newlines(w->data, offset) + 1;
}
