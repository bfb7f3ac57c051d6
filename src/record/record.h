/*
 * Recording: from calls of named functions to profiles. Pure bookkeeping: times come from outside.
 *
 * - A call is a list of segments: local code, a graph, local code, … local code. Its footprint is
 *   the list of its graphs. Calls of one function with the same footprint make one profile.
 * - Calls in which something was compiled are kept apart: the first call without replaces them,
 *   later ones are discarded. If every call compiled, they are what there is, and marked.
 * - A backend that fails at a graph costs that call all of its repeats there, and nothing else.
 * - Memory is bounded, whatever is recorded: the limits below, and thinned-out samples.
 *
 *     struct prn_recorder r = PRN_RECORDER_INIT(n_backends, repeats);
 *     prn_recorder_begin(&r, "predict", &call, err);
 *     prn_call_graph(call, local_ns, graph, outcomes, err);
 *     prn_recorder_end(&r, call, local_ns, err);
 *     prn_recorder_fill(&r, profile, err);
 *     prn_recorder_release(&r);
 *
 * A recorder is for one thread at a time; several calls may be open, and prn_call_…() touch nothing
 * but their call.
 */
#ifndef PRN_RECORD_RECORD_H
#define PRN_RECORD_RECORD_H

#include "base/array.h"
#include "base/map.h"
#include "record/series.h"

#define PRN_RECORD_NAME_MAX 1024         /* bytes of a function's name */
#define PRN_RECORD_FUNCTIONS_MAX 1000    /* different names */
#define PRN_RECORD_FOOTPRINTS_MAX 1000   /* profiles of one function */
#define PRN_RECORD_GRAPHS_MAX 10000      /* graph segments in one call */
#define PRN_RECORD_MESSAGES_MAX 16       /* different failures of one segment on one backend */
#define PRN_RECORD_SAMPLES_MAX (1 << 24) /* kept in all series together; in one call as well */
#define PRN_RECORD_BYTES_MAX ((size_t)256 << 20) /* everything but samples */

struct prn_call;
struct prn_recorder_function;

struct prn_recorder {
    size_t n_backends;
    int64_t repeats; /* timed runs of a graph per call */
    struct prn_arena arena;
    struct prn_series_budget budget;
    struct prn_map names; /* → index of `functions` */
    size_t n_functions;
    struct prn_recorder_function **functions; /* in the order of their first calls */
    struct prn_call *idle;                    /* calls to use again */
};

#define PRN_RECORDER_INIT(backends, runs)                                 \
    ((struct prn_recorder){.n_backends = (backends),                      \
                           .repeats = (runs),                             \
                           .arena = PRN_ARENA_INIT(PRN_RECORD_BYTES_MAX), \
                           .budget = {PRN_RECORD_SAMPLES_MAX},            \
                           .names = PRN_MAP_INIT})

/* Also frees calls, except those that are open. */
void prn_recorder_release(struct prn_recorder *r);

/* Begins a call. The name is copied the first time it is seen. */
PRONY_MUST_CHECK int prn_recorder_begin(struct prn_recorder *r, const char *name,
                                        struct prn_call **ret_call, struct prony_error *err);

/* Ends a call with a last piece of local code and adds it to its profile. Whatever is returned, the
 * call is closed; after a failure nothing of it has been added. */
PRONY_MUST_CHECK int prn_recorder_end(struct prn_recorder *r, struct prn_call *call,
                                      int64_t local_ns, struct prony_error *err);
/* Closes a call as if it had not been. */
void prn_recorder_cancel(struct prn_recorder *r, struct prn_call *call);

const char *prn_call_function(const struct prn_call *call);

/* Something was compiled during this call. */
void prn_call_compiled(struct prn_call *call);

/* What one backend made of a graph: times, or a failure. */
struct prn_graph_outcome {
    const int64_t *samples_ns;
    size_t n_samples;
    const char *failure; /* NULL: none */
};

/* Whether another graph fits into the call; PRONY_ELIMIT says what is too much. */
PRONY_MUST_CHECK int prn_call_check(const struct prn_call *call, struct prony_error *err);

/* Adds local code and the graph after it, with one outcome per backend. `own_ns` is what the
 * program took to compute the graph itself; -1: it didn't. */
PRONY_MUST_CHECK int prn_call_graph(struct prn_call *call, int64_t local_ns, int64_t graph,
                                    int64_t own_ns, const struct prn_graph_outcome *outcomes,
                                    struct prony_error *err);

/* Writes everything recorded into profile->profiles. The profile's results (one per backend, with
 * prices) and graphs (with their local_reason, ids counting from 1) are there already. */
PRONY_MUST_CHECK int prn_recorder_fill(const struct prn_recorder *r, struct prn_profile *profile,
                                       struct prony_error *err);

/* Whether a graph ran nowhere, and what the program did instead is in the local code after it. */
bool prn_segment_is_in_local(const struct prn_profile *profile, const struct prn_segment *segment);

/* Finds the medians and flags of a function's totals, whose means, graphs and segments are there;
 * 0 or PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_recorded_summarise(const struct prn_profile *profile,
                                            struct prn_recorded *recorded);

/* ---- For prn_recorder_fill() ---- */

/* A graph segment on one backend, over all calls. */
struct prn_tally_result {
    struct prn_series_builder times;
    size_t n_failures;
    struct prn_failure failures[PRN_RECORD_MESSAGES_MAX + 1]; /* the last one: all others */
};

/* One footprint of a function. */
struct prn_tally {
    int64_t runs, discarded;
    bool compiled; /* all of its runs */
    size_t n_graphs;
    const int64_t *graphs;
    struct prn_series_builder *local; /* one more than there are graphs */
    struct prn_series_builder *own;   /* of each graph: what the program took to compute it */
    struct prn_tally_result *results; /* by graph, then by backend */
};

struct prn_recorder_function {
    const char *name;
    size_t n_tallies;
    struct prn_tally **tallies;
    struct prn_tally *last;    /* the one that got the last call; NULL at first */
    struct prn_map footprints; /* bytes of `graphs` → index of `tallies` */
};

#endif
