/*
 * Distinct texts, numbered from 0 in the order of their first use. A table has a limit on texts, so
 * that a trace can't make it grow without end. Texts stay where they are until release.
 */
#ifndef PRN_TRACE_SYMBOLS_H
#define PRN_TRACE_SYMBOLS_H

#include "base/arena.h"
#include "base/map.h"

struct prn_symbol {
    const char *text; /* ends in NUL */
    size_t len;
    uint32_t id;
};

struct prn_symbols {
    struct prn_map by_text;
    struct prn_arena *arena; /* borrowed */
    const struct prn_symbol **items;
    size_t n;
    size_t limit;
};

#define PRN_SYMBOLS_INIT(most, memory) ((struct prn_symbols){.arena = (memory), .limit = (most)})

void prn_symbols_release(struct prn_symbols *t);

/* The symbol of a text, made when it is new. PRONY_ELIMIT past the limit, PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_symbols_get(struct prn_symbols *t, const char *text, size_t len,
                                     const struct prn_symbol **ret_symbol);

#endif
