/*
 * A session: backends, graphs loaded on them, and regions that record what happens.
 *
 * Loads and runs of all threads take turns (`turn`): two at once would measure each other. Waiting
 * for one's turn is no local code of a region.
 */
#ifndef PRN_RECORD_SESSION_H
#define PRN_RECORD_SESSION_H

#include "measure/backends.h"
#include "record/graph.h"
#include "record/region.h"
#include "record/turn.h"

#define PRN_SESSION_GRAPHS_MAX 10000

struct prn_session_config {
    struct prn_texts backends;     /* none: all that work here, or are offered */
    const char *const *instead_of; /* as in struct prony_session_options; NULL: none */
    const char *hardware_file;     /* NULL: none */
    struct prn_library_choice library;
    const char *program; /* of the executors; NULL: prn_program_find() */
    int64_t repeats, warmups;
    double timeout_s;
    bool strict; /* one backend's failure is the call's */
    const volatile int *cancelled;
    /* A service to run on instead of this machine; NULL: none. */
    const char *server, *token, *ca_file;
    bool insecure;
    void (*notice)(void *context, const struct prony_notice *notice); /* may be NULL */
    int (*interrupted)(void *context);                                /* too */
    void *context;
};

struct prony_session {
    struct prn_arena arena;
    struct prn_graph_host host;
    struct prn_regions regions;
    bool strict;
    double load_before;       /* of the machine, when the session was opened */
    struct prn_profile *head; /* what the backends are, as far as it is known */
    bool *noted;              /* by backend: a graph that was loaded has said what runs it */
    void (*notice)(void *context, const struct prony_notice *notice);
    int (*interrupted)(void *context);
    void *context;
    struct prn_turn turn; /* for `host`, `head` and everything below */
    size_t n_graphs;
    struct prony_graph **graphs; /* id - 1 → graph */
};

PRONY_MUST_CHECK int prn_session_open(const struct prn_session_config *config,
                                      struct prony_session **ret_session, struct prony_error *err);
void prn_session_close(struct prony_session *session);
/* Forgets what was recorded; graphs stay loaded. */
PRONY_MUST_CHECK int prn_session_restart(struct prony_session *session, int64_t repeats,
                                         int64_t warmups, bool strict, struct prony_error *err);

/* In a region, the call that is being recorded counts as one that compiled. */
PRONY_MUST_CHECK int prn_session_load(struct prony_session *session, const char *path,
                                      struct prony_graph **ret_graph, struct prony_error *err);
PRONY_MUST_CHECK int prn_session_load_memory(struct prony_session *session, const char *name,
                                             const void *data, size_t size,
                                             struct prony_graph **ret_graph,
                                             struct prony_error *err);

PRONY_MUST_CHECK int prn_session_load_forms(struct prony_session *session, const char *name,
                                            const struct prony_graph_form *forms, size_t n_forms,
                                            const char *const *refusals,
                                            struct prony_graph **ret_graph,
                                            struct prony_error *err);
/* A graph for which no backend is asked. */
PRONY_MUST_CHECK int prn_session_add_local(struct prony_session *session, const char *name,
                                           const char *reason, struct prony_graph **ret_graph,
                                           struct prony_error *err);

/* A run in two halves, between which the clock of the thread's region stands still. With `overlap`
 * it begins at once where it can, and keeps the turn until it is finished or cancelled. Both free
 * it. */
struct prony_run {
    struct prony_graph *graph;
    const struct prony_tensor *inputs;
    size_t n_inputs;
    bool outputs; /* are wanted */
    bool has_turn;
    const struct prony_tensor *expected; /* what the caller computed; NULL: not told */
    size_t n_expected;
    int64_t started_ns;        /* when the caller could begin to compute it */
    int64_t own_ns;            /* what that took; -1: not told */
    struct prn_region *region; /* if it still has that number */
    uint64_t region_number;
};

PRONY_MUST_CHECK int prn_run_start(struct prony_graph *graph, const struct prony_tensor *inputs,
                                   size_t n_inputs, bool outputs, bool overlap,
                                   struct prony_run **ret_run, struct prony_error *err);
/* The caller has just computed the result. */
void prn_run_computed(struct prony_run *run);
PRONY_MUST_CHECK int prn_run_finish(struct prony_run *run, const char *backend,
                                    struct prony_outputs **ret_outputs, struct prony_error *err);
void prn_run_cancel(struct prony_run *run);

/* Runs and, in a region, records. `backend` is whose outputs are wanted; NULL: the first that
 * succeeds. `ret_outputs` may be NULL. */
PRONY_MUST_CHECK int prn_session_run(struct prony_graph *graph, const struct prony_tensor *inputs,
                                     size_t n_inputs, const char *backend,
                                     struct prony_outputs **ret_outputs, struct prony_error *err);

/* A run that nobody records, of which every backend's times and outputs are kept: measured.c. */
struct prn_measured_wish {
    size_t repeats, warmups;
    bool outputs;
};

PRONY_MUST_CHECK int prn_session_measure(struct prony_graph *graph,
                                         const struct prony_tensor *inputs, size_t n_inputs,
                                         const struct prn_measured_wish *wish,
                                         struct prony_measured **ret_measured,
                                         struct prony_error *err);

/* What has been recorded so far; shares nothing with the session. */
PRONY_MUST_CHECK int prn_session_profile(struct prony_session *session,
                                         struct prn_profile **ret_profile, struct prony_error *err);

#endif
