/*
 * A graph on the backends of a session, wherever these are: struct prn_host_ops has two
 * implementations, processes of this machine (graph_local.c) and the hosts of a service
 * (graph_remote.c).
 *
 * - One backend's failure is its own. One that couldn't load the graph, or whose process died,
 *   fails with the same message from then on.
 * - Each backend has its own copy of the inputs, so that none can spoil another's.
 * - Nothing here is for several threads at once; the session sees to that.
 */
#ifndef PRN_RECORD_GRAPH_H
#define PRN_RECORD_GRAPH_H

#include "base/random.h"
#include "exec/executor.h"
#include "measure/backends.h"
#include "model/model.h"
#include "record/record.h"
#include "spec/spec.h"

struct prn_host_ops;
struct prn_remote;
struct prn_remote_ops;

/* What all graphs of a session run on. */
struct prn_graph_host {
    const struct prn_host_ops *ops;
    struct prn_spec *backends;
    size_t n_backends;
    double timeout_s;
    const volatile int *cancelled;
    size_t warmups, repeats;
    /* of this machine */
    const char *program; /* as in struct prn_executor_config */
    struct prn_library_choice library;
    struct prn_random random; /* for the order of backends */
    size_t *order;            /* room for it */
    /* of a service */
    const struct prn_remote_ops *remote;
    struct prn_remote *connection;
};

/* What a graph is for those backends that take it in one format. */
struct prn_graph_form {
    int format; /* PRONY_FORMAT_… */
    size_t n_inputs, n_outputs;
    const char **input_names, **output_names;
    int32_t *map; /* its inputs, as indices of the graph's */
};

struct prn_graph_backend {
    const struct prn_graph_form *form; /* NULL: there is none for it */
    bool loaded;                       /* it can be run */
    const char *load_failure;          /* why it couldn't be loaded; NULL: it could */
    struct prony_error failure;        /* of loading or of the last run; code 0: none */
    int64_t *samples;                  /* of the last run: `repeats` of them */
    struct prn_graph_check check;      /* of its outputs, in the graph's arena */
    struct prn_graph_launch launch;    /* 0: not known */
    /* what loading said; NULL: nothing */
    const char *version, *library, *sandbox;
};

struct prony_graph {
    struct prony_session *session;
    struct prn_graph_host *host;
    int64_t id;
    const char *name;         /* for reports */
    const char *local_reason; /* why it can't be run anywhere; NULL: it can */
    int64_t upload_ns;        /* 0: nothing was sent */
    int64_t load_ns;          /* 0: not known */
    struct prn_arena arena;
    size_t n_forms;
    struct prn_graph_form *forms;
    /* Of all forms. Of those that were loaded from memory only the names are known, and the caller
     * may give more than these. */
    size_t n_inputs;
    struct prn_value *inputs;
    bool from_forms;
    const char *const *refusals;  /* while it is loaded: why backends aren't asked; may be NULL */
    struct prony_tensor *ordered; /* room for the caller's, in the order of `inputs` */
    struct prn_graph_backend *on; /* one per backend of the host */
    size_t room;                  /* samples that fit, of each backend */
    struct prn_graph_outcome *outcomes; /* of the last run, one per backend */
    void *place;                        /* the implementation's own */
};

struct prn_host_ops {
    /* On every backend, setting `loaded` or `failure` of each. Fails when waiting was cancelled and
     * for want of memory, not because of backends. `model` is what `path` holds. */
    int (*load)(struct prony_graph *graph, const char *path, const struct prn_model *model,
                struct prony_error *err);
    /* The same from memory: `forms` are those of which graph->forms are made. NULL: what is in
     * memory must be written to a file first. */
    int (*load_forms)(struct prony_graph *graph, const struct prony_graph_form *forms,
                      struct prony_error *err);
    void (*release)(struct prony_graph *graph); /* also of a graph that wasn't loaded */
    /* On every backend that is loaded, filling its samples or its failure. Inputs are in the order
     * of the graph's. `outputs`: somebody will ask for them. Fails with PRONY_ECANCELED only. */
    int (*run)(struct prony_graph *graph, const struct prony_tensor *inputs, size_t n_inputs,
               bool outputs, struct prony_error *err);
    /* Begins what a `run` with the same arguments then finishes. NULL: nothing goes on between
     * calls. Fails with PRONY_ECANCELED only. */
    int (*begin)(struct prony_graph *graph, const struct prony_tensor *inputs, size_t n_inputs,
                 bool outputs, struct prony_error *err);
    void (*abandon)(struct prony_graph *graph); /* what was begun, if anything */
    /* A copy of what a backend gave in the last run, in which it succeeded. */
    int (*outputs)(struct prony_graph *graph, size_t backend, struct prony_outputs **ret_outputs,
                   struct prony_error *err);
};

extern const struct prn_host_ops prn_host_local;
extern const struct prn_host_ops prn_host_remote;

struct prony_outputs {
    struct prn_arena arena;
    const char *backend;
    size_t n;
    struct prn_place *places;
    unsigned char *data; /* heap */
};

/* Reads and checks the model at `path`, then loads it on every backend. Fails when the model is
 * wrong, when waiting was cancelled, and for want of memory; not because of backends. */
PRONY_MUST_CHECK int prn_graph_load(struct prn_graph_host *host, const char *path, const char *name,
                                    struct prony_graph **ret_graph, struct prony_error *err);
/* A graph of which each backend gets the form that its software takes. The forms have been checked.
 * `refusals`: for each backend why it isn't asked, or NULL; NULL: all are. */
PRONY_MUST_CHECK int prn_graph_load_forms(struct prn_graph_host *host, const char *name,
                                          const struct prony_graph_form *forms, size_t n_forms,
                                          const char *const *refusals,
                                          struct prony_graph **ret_graph, struct prony_error *err);
/* One that no backend is to run. */
PRONY_MUST_CHECK int prn_graph_new_local(struct prn_graph_host *host, const char *name,
                                         const char *reason, struct prony_graph **ret_graph,
                                         struct prony_error *err);
void prn_graph_free(struct prony_graph *graph);
/* Makes room for the samples of so many repeats; PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_graph_reserve(struct prony_graph *graph, size_t repeats);

/* The first backend's failure, with its name in front; PRONY_OK when none failed. `all`: only when
 * all failed. */
int prn_graph_failure(const struct prony_graph *graph, bool all, struct prony_error *err);

/* Whether these are the model's inputs: PRONY_EUSAGE says which isn't. */
PRONY_MUST_CHECK int prn_graph_check_inputs(const struct prony_graph *graph,
                                            const struct prony_tensor *inputs, size_t n_inputs,
                                            struct prony_error *err);

/* Runs on all backends and fills graph->outcomes. The inputs have passed prn_graph_check_inputs().
 * `outputs`: prn_graph_outputs() will be called. Fails with PRONY_ECANCELED only. */
PRONY_MUST_CHECK int prn_graph_run(struct prony_graph *graph, const struct prony_tensor *inputs,
                                   size_t n_inputs, bool outputs, struct prony_error *err);

/* Lets the run that prn_graph_run() is then called for, with the same arguments, begin; false in
 * `*ret_begun` where it can't. Fails with PRONY_ECANCELED only. */
PRONY_MUST_CHECK int prn_graph_begin(struct prony_graph *graph, const struct prony_tensor *inputs,
                                     size_t n_inputs, bool outputs, bool *ret_begun,
                                     struct prony_error *err);
void prn_graph_abandon(struct prony_graph *graph);

/* A copy of the outputs that `backend` gave in the last run, in which it succeeded. */
PRONY_MUST_CHECK int prn_graph_outputs(struct prony_graph *graph, size_t backend,
                                       struct prony_outputs **ret_outputs, struct prony_error *err);

/* Holds what the backends gave in the last run, for which outputs were wanted, against what the
 * caller computed, in the order of the outputs. Fills `check` of those that succeeded and weren't
 * compared yet. Fails for want of memory only. */
PRONY_MUST_CHECK int prn_graph_compare(struct prony_graph *graph,
                                       const struct prony_tensor *expected, size_t n,
                                       struct prony_error *err);

#endif
