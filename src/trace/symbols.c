#include "trace/symbols.h"

#include "base/array.h"

#include <stdlib.h>

void prn_symbols_release(struct prn_symbols *t)
{
    prn_map_release(&t->by_text);
    free(t->items);
    t->items = NULL;
    t->n = 0;
}

static int add(struct prn_symbols *t, const char *text, size_t len)
{
    const struct prn_symbol **items =
        prn_array_grow(t->items, t->n, sizeof(const struct prn_symbol *));
    if (!items)
        return PRONY_ENOMEM;
    t->items = items;
    struct prn_symbol *symbol = PRN_ARENA_NEW(t->arena, struct prn_symbol);
    const char *copy = prn_arena_strndup(t->arena, text, len);
    /* The arena's limit is there for the same reason as the table's. */
    if (!symbol || !copy)
        return prn_arena_has_room(t->arena, sizeof *symbol + len + 1) ? PRONY_ENOMEM : PRONY_ELIMIT;
    *symbol = (struct prn_symbol){.text = copy, .len = len, .id = (uint32_t)t->n};
    if (prn_map_set_n(&t->by_text, copy, len, t->n) < 0)
        return PRONY_ENOMEM;
    t->items[t->n++] = symbol;
    return 0;
}

int prn_symbols_get(struct prn_symbols *t, const char *text, size_t len,
                    const struct prn_symbol **ret_symbol)
{
    size_t i = prn_map_get_n(&t->by_text, text, len);
    if (i == PRN_MAP_NONE) {
        if (t->n >= t->limit)
            return PRONY_ELIMIT;
        int code = add(t, text, len);
        if (code < 0)
            return code;
        i = t->n - 1;
    }
    *ret_symbol = t->items[i];
    return 0;
}
