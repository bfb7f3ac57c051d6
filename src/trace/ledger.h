/*
 * Where the time of one run goes, from timestamps.
 *
 * - Let R be the run's interval, N the union of its nodes' intervals and E that of its Execute
 *   events, both clipped to R. R is divided into node, overhead, before, after and unexplained,
 *   which always add up to total.
 * - Nodes that overlap count once in `node`. `node_sum` adds up the unions of each thread, so that
 *   node_sum / node tells how many ran at a time; nodes inside a node of the same thread (the
 *   bodies of If and Loop) don't count as parallel.
 * - Events come in any order, before the run's own. Memory is bounded: of a run with more than half
 *   a million intervals that don't touch, the oldest are summed up. Their part in a division of R
 *   is then taken to be in proportion, and the run is `approximate` where that isn't exact.
 * - Times are in ns and clipped to ±73 years; a negative duration counts as 0.
 *
 *     struct prn_ledger *l = prn_ledger_new();
 *     r = prn_ledger_node(l, thread, start, duration);    (for each node)
 *     r = prn_ledger_execute(l, start, duration);
 *     prn_ledger_close(l, start, duration, &run);         (then the next run)
 *     prn_ledger_free(l);
 */
#ifndef PRN_TRACE_LEDGER_H
#define PRN_TRACE_LEDGER_H

#include <prony/prony.h>

#include <stdbool.h>
#include <stdint.h>

struct prn_ledger;

struct prn_ledger_run {
    int64_t total;
    int64_t node;        /* in N */
    int64_t overhead;    /* in E, outside N */
    int64_t before;      /* before the first E, outside N */
    int64_t after;       /* after the last E, outside N */
    int64_t unexplained; /* else outside N: between two E, or all of it if there is no E */
    int64_t node_sum;
    int64_t nested; /* of the node events' time: inside another node of the same thread */
    uint64_t nodes; /* node events, wherever they were */
    bool approximate;
};

/* NULL when out of memory. */
struct prn_ledger *prn_ledger_new(void);
void prn_ledger_free(struct prn_ledger *l);

/* These return 0 or PRONY_ENOMEM; then the event is not in the ledger. */
PRONY_MUST_CHECK int prn_ledger_node(struct prn_ledger *l, int64_t thread, int64_t start,
                                     int64_t duration);
PRONY_MUST_CHECK int prn_ledger_execute(struct prn_ledger *l, int64_t start, int64_t duration);

/* The run's own event: computes, and empties the ledger for the next run. */
void prn_ledger_close(struct prn_ledger *l, int64_t start, int64_t duration,
                      struct prn_ledger_run *ret_run);

/* Moves all events of `from`, whose threads are others, to `l`. After PRONY_ENOMEM some are lost.
 */
PRONY_MUST_CHECK int prn_ledger_absorb(struct prn_ledger *l, struct prn_ledger *from);

/* Forgets the events since the last run. */
void prn_ledger_clear(struct prn_ledger *l);

#endif
