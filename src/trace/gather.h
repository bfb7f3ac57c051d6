/*
 * The --gather expression: a Python-like list expression over the indices of runs, such as
 * `[0] + [i for i in range(5, 90) if i % 3 == 0]`. It is parsed and evaluated here and never run as
 * code: there are whole numbers of 64 bits, flat lists of them, and nothing else.
 *
 * What it knows, with Python's precedence and meaning:
 *   12  0x1f  1_000  True  False  [a, b]  (a, b)  {a, b}  a, b  [*x, a]  (x)
 *   range(stop)  range(start, stop[, step])  list(x)  tuple(x)  set(x)  sorted(x)  reversed(x)
 *   x[a]  x[a:b:c]
 *   + - * // % **   on numbers; + and * also on lists ([0] * 3, [0] + range(4))
 *   < <= > >= == !=  in  not in  and  or  not
 *   [x for v in list if condition for w in list ...]
 * A range counts as a list everywhere, also where Python wants list() around it.
 *
 * Whatever the expression is, the call ends soon and with little memory: its length, its depth, the
 * values in a list and the steps of an evaluation are limited.
 */
#ifndef PRN_TRACE_GATHER_H
#define PRN_TRACE_GATHER_H

#include "base/error.h"

/* The values in the order and with the repeats of the expression; some may be negative. */
struct prn_gather {
    int64_t *runs; /* may be NULL when n is 0 */
    size_t n;
};

/* Evaluates the expression. On success the caller releases *ret_gather. A faulty expression is
 * PRONY_EUSAGE with a text like "--gather: column 7: …", counted in characters from 1. */
PRONY_MUST_CHECK int prn_gather_parse(const char *expression, struct prn_gather *ret_gather,
                                      struct prony_error *err);

void prn_gather_release(struct prn_gather *g);

#endif
