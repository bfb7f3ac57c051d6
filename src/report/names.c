#include "report/names.h"

#include "base/buffer.h"
#include "base/map.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES ((size_t)1 << 20)
#define COMMON_MIN 4 /* bytes that are worth an ellipsis */

/* How many bytes the long names have in common at their beginnings and ends. Both stop at the edge
 * of a word, so that "threads=16" and "threads=12" don't become "6" and "2". */
struct common {
    size_t head, tail;
    size_t n; /* long names */
};

static bool is_edge(char c)
{
    return strchr("/[](),=;:| ", c) != NULL;
}

static size_t shared_head(const char *a, const char *b, size_t most)
{
    size_t n = 0;
    while (n < most && a[n] && a[n] == b[n])
        n++;
    return n;
}

static size_t shared_tail(const char *a, const char *b, size_t most)
{
    size_t len_a = strlen(a);
    size_t len_b = strlen(b);
    size_t n = 0;
    while (n < most && n < len_a && n < len_b && a[len_a - 1 - n] == b[len_b - 1 - n])
        n++;
    return n;
}

static struct common find_common(const char *const *full, size_t n, size_t width)
{
    struct common c = {0};
    const char *first = NULL;
    size_t shortest = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        if (prn_text_width(full[i]) <= width || (first && strcmp(first, full[i]) == 0))
            continue;
        size_t len = strlen(full[i]);
        shortest = len < shortest ? len : shortest;
        c.head = first ? shared_head(first, full[i], c.head) : len;
        c.tail = first ? shared_tail(first, full[i], c.tail) : len;
        first = first ? first : full[i];
        c.n++;
    }
    if (c.n < 2)
        return (struct common){.n = c.n};
    while (c.head > 0 && !is_edge(first[c.head - 1]))
        c.head--;
    size_t len = strlen(first);
    while (c.tail > 0 && !is_edge(first[len - c.tail]))
        c.tail--;
    if (c.head + c.tail > shortest)
        c.tail = shortest - c.head;
    c.head = c.head < COMMON_MIN ? 0 : c.head;
    c.tail = c.tail < COMMON_MIN ? 0 : c.tail;
    return c;
}

/* The name without what is common to all long ones, then without its middle. */
static void shorten(const char *full, struct common common, size_t width, struct prn_buffer *out)
{
    struct prn_buffer own = PRN_BUFFER_INIT(NAME_MAX_BYTES);
    size_t len = strlen(full);
    if (common.head > 0)
        prn_buffer_add(&own, "…");
    prn_buffer_append(&own, full + common.head, len - common.head - common.tail);
    if (common.tail > 0)
        prn_buffer_add(&own, "…");
    prn_text_shorten(out, prn_buffer_text(&own), width);
    if (own.error)
        out->error = own.error;
    prn_buffer_release(&own);
}

/* The name, or with a number behind it when another one has it already; NULL: no memory. */
static const char *make_unique(const char *full, const char *wanted, size_t width,
                               const struct prn_map *taken, struct prn_arena *arena)
{
    struct prn_buffer name = PRN_BUFFER_INIT(NAME_MAX_BYTES);
    prn_buffer_add(&name, wanted);
    for (size_t n = 2; prn_map_get(taken, prn_buffer_text(&name)) != PRN_MAP_NONE; n++) {
        char number[32];
        size_t digits = (size_t)snprintf(number, sizeof number, " #%zu", n);
        prn_buffer_clear(&name);
        prn_text_shorten(&name, full, width > digits + 2 ? width - digits : 2);
        prn_buffer_add(&name, number);
    }
    const char *copy = name.error ? NULL : prn_arena_strdup(arena, prn_buffer_text(&name));
    prn_buffer_release(&name);
    return copy;
}

static const char *shortened(const char *full, struct common common, size_t width,
                             const struct prn_map *taken, struct prn_arena *arena)
{
    struct prn_buffer wanted = PRN_BUFFER_INIT(NAME_MAX_BYTES);
    if (prn_text_width(full) <= width)
        prn_buffer_add(&wanted, full);
    else
        shorten(full, common, width, &wanted);
    const char *name =
        wanted.error ? NULL : make_unique(full, prn_buffer_text(&wanted), width, taken, arena);
    prn_buffer_release(&wanted);
    return name;
}

int prn_names_shorten(const char *const *full, size_t n, size_t width, struct prn_arena *arena,
                      const char **ret_short)
{
    struct common common = find_common(full, n, width);
    struct prn_map taken = PRN_MAP_INIT;
    struct prn_map seen = PRN_MAP_INIT;
    int code = 0;
    for (size_t i = 0; i < n && code == 0; i++) {
        size_t before = prn_map_get(&seen, full[i]);
        if (before != PRN_MAP_NONE) {
            ret_short[i] = ret_short[before];
            continue;
        }
        ret_short[i] = shortened(full[i], common, width, &taken, arena);
        code = ret_short[i] ? prn_map_set(&taken, ret_short[i], i) : PRONY_ENOMEM;
        if (code == 0)
            code = prn_map_set(&seen, full[i], i);
    }
    prn_map_release(&seen);
    prn_map_release(&taken);
    return code;
}
