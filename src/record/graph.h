/*
 * A graph on the backends of a session: one executor process for each, started when the graph is
 * loaded, and stopped (SIGSTOP) whenever it isn't its turn, so that threads of a runtime that spin
 * disturb neither other backends nor the caller's own code.
 *
 * - One backend's failure is its own. A process that died isn't started again: its backend fails
 *   with the same message from then on.
 * - Each executor has its own copy of the inputs, so that none can spoil another's.
 * - Nothing here is for several threads at once; the session sees to that.
 */
#ifndef PRN_RECORD_GRAPH_H
#define PRN_RECORD_GRAPH_H

#include "base/random.h"
#include "exec/executor.h"
#include "model/model.h"
#include "record/record.h"
#include "spec/spec.h"

/* What all graphs of a session run on. */
struct prn_host {
    const struct prn_spec *backends;
    size_t n_backends;
    const char *program, *ort_library; /* as in struct prn_executor_config and prn_runtime_config */
    double timeout_s;
    const volatile int *cancelled;
    size_t warmups, repeats;
    struct prn_random random; /* for the order of backends */
    size_t *order;            /* room for it */
};

struct prn_graph_backend {
    struct prn_executor *executor; /* NULL: it couldn't be loaded, or died */
    int inputs_fd;                 /* shared memory with the inputs; -1 without executor */
    struct prony_error failure;    /* of loading or of the last run; code 0: none */
    int64_t *samples;              /* of the last run: `repeats` of them */
};

struct prony_graph {
    struct prony_session *session;
    struct prn_host *host;
    int64_t id;
    const char *name;         /* for reports */
    const char *local_reason; /* why it can't be run anywhere; NULL: it can */
    struct prn_arena arena;
    size_t n_inputs;
    struct prn_value *inputs;
    struct prn_graph_backend *on;       /* one per backend of the host */
    struct prn_graph_outcome *outcomes; /* of the last run, one per backend */
};

struct prony_outputs {
    struct prn_arena arena;
    const char *backend;
    size_t n;
    struct prn_place *places;
    unsigned char *data; /* heap */
};

/* Reads and checks the model at `path`, then loads it on every backend. Fails when the model is
 * wrong, when waiting was cancelled, and for want of memory; not because of backends. */
PRONY_MUST_CHECK int prn_graph_load(struct prn_host *host, const char *path, const char *name,
                                    struct prony_graph **ret_graph, struct prony_error *err);
void prn_graph_free(struct prony_graph *graph);

/* The first backend's failure, with its name in front; PRONY_OK when none failed. `all`: only when
 * all failed. */
int prn_graph_failure(const struct prony_graph *graph, bool all, struct prony_error *err);

/* Whether these are the model's inputs: PRONY_EUSAGE says which isn't. */
PRONY_MUST_CHECK int prn_graph_check_inputs(const struct prony_graph *graph,
                                            const struct prony_tensor *inputs, size_t n_inputs,
                                            struct prony_error *err);

/* Runs on all backends, one after the other in random order, and fills graph->outcomes. Fails with
 * PRONY_ECANCELED only. */
PRONY_MUST_CHECK int prn_graph_run(struct prony_graph *graph, const struct prony_tensor *inputs,
                                   size_t n_inputs, struct prony_error *err);

/* A copy of the outputs that `backend` gave in the last run, in which it succeeded. */
PRONY_MUST_CHECK int prn_graph_outputs(struct prony_graph *graph, size_t backend,
                                       struct prony_outputs **ret_outputs, struct prony_error *err);

#endif
