/*
 * Memory, as node events tell it since ONNX Runtime 1.30: what the allocator of the node's provider
 * says after the kernel, before its inputs are given back.
 *
 * - Figures of groups and runs are the most of any run that counts: run 0, in which growth shows
 *   (memory patterns hide it later), and the selected ones.
 * - What an allocator says covers everything that uses it: concurrent runs, parallel nodes, and for
 *   If, Loop and Scan their bodies.
 * - An allocator's peak never falls. So workspace (allocated and freed inside a kernel) is seen
 *   only where it raises the peak: it is a lower bound elsewhere.
 */
#ifndef PRN_TRACE_MEMORY_H
#define PRN_TRACE_MEMORY_H

#include "format/schema.h"
#include "trace/symbols.h"

/* What one event says, in bytes. */
struct prn_trace_mem {
    bool known;
    int64_t in_use, requested, in_use_delta, peak, held, held_delta;
};

#define PRN_TRACE_MEMORY_LIST(X)                                              \
    X(INTEGER, live_bytes, "Most bytes in use after a node, with rounding.")  \
    X(INTEGER, growth_bytes,                                                  \
      "What stays in use after a node minus what was before it, added up "    \
      "over a run; the most of any run.",                                     \
      .min = INT64_MIN)                                                       \
    X(INTEGER, waste_bytes, "Most that rounding adds to what was asked for.") \
    X(INTEGER, workspace_bytes,                                               \
      "Most by which a node raised the allocator's peak above what stays "    \
      "in use; 0 where it didn't raise the peak.")                            \
    X(INTEGER, arena_growth_bytes,                                            \
      "What the arena took from the system during a node, added up "          \
      "over a run; the most of any run.",                                     \
      .min = INT64_MIN)

/* Of a group in a run, or of all its runs. */
struct prn_trace_use {
    uint64_t events; /* that told; 0: nothing is known */
    PRN_TRACE_MEMORY_LIST(PRN_DECLARE)
};

/* Joins parts of one run: growth adds up. */
void prn_trace_use_add(struct prn_trace_use *sum, const struct prn_trace_use *part);

/* Joins runs: the most of each. */
void prn_trace_use_most(struct prn_trace_use *most, const struct prn_trace_use *run);

/* Of a run. */
#define PRN_TRACE_RUN_MEMORY_LIST(X)                                              \
    X(INTEGER, live_bytes, "Most bytes in use after a node.")                     \
    X(INTEGER, waste_bytes, "Most that rounding adds to what was asked for.")     \
    X(INTEGER, peak_bytes, "The allocator's peak up to here, since it was made.") \
    X(INTEGER, arena_bytes, "What the arena has taken from the system.")          \
    X(INTEGER, growing_nodes, "Node events after which more was in use than before them.")

struct prn_trace_run_memory {
    uint64_t events;
    PRN_TRACE_RUN_MEMORY_LIST(PRN_DECLARE)
};

void prn_trace_run_memory_add(struct prn_trace_run_memory *sum,
                              const struct prn_trace_run_memory *part);

/* An allocator: that of a provider. */
#define PRN_TRACE_ALLOCATORS_MAX 8

/* When the peak was reached, as far as the events of two nodes in a row tell. */
enum prn_trace_peak_when {
    PRN_TRACE_PEAK_IN,     /* while the node ran */
    PRN_TRACE_PEAK_BEFORE, /* before it began: memory patterns take their piece before a run */
    PRN_TRACE_PEAK_BY,     /* not after it: nothing is known of what came before */
};

struct prn_trace_allocator {
    const struct prn_symbol *provider; /* NULL: the events name none */
    int64_t peak_bytes;
    enum prn_trace_peak_when peak_when;
    const struct prn_symbol *peak_node; /* event name; NULL: it wasn't kept */
    uint64_t peak_run;
    int64_t live_bytes, arena_bytes; /* most */
};

struct prn_trace_memory {
    struct prn_trace_allocator allocators[PRN_TRACE_ALLOCATORS_MAX];
    size_t n;                             /* 0: the trace tells nothing of memory */
    uint64_t first_events, first_growing; /* of run 0: node events, and those that grew */
    uint64_t later_events, later_growing; /* of all others */
};

/* Takes in an event; returns what it says of its node, to be added to the run's. `name` may be NULL
 * when it isn't kept. */
struct prn_trace_use prn_trace_memory_take(struct prn_trace_memory *m,
                                           const struct prn_trace_mem *mem,
                                           const struct prn_symbol *provider,
                                           const struct prn_symbol *name, uint64_t run,
                                           struct prn_trace_run_memory *strand);

/* A run has ended. */
void prn_trace_memory_end_run(struct prn_trace_memory *m, uint64_t run,
                              const struct prn_trace_run_memory *memory);

/* Whether memory patterns hide growth after run 0. */
bool prn_trace_memory_is_hidden(const struct prn_trace_memory *m);

#endif
