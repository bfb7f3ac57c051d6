/*
 * prony: measures what an inference workload takes and costs on a backend.
 *
 * Invariants
 * - A function that can fail returns 0 or a negative PRONY_E… code. Where a `struct prony_error`
 *   is taken it may be NULL; it is left untouched on success.
 * - Out-parameters are named `ret_…` and are written only on success.
 * - The library never prints, exits or aborts on input, and starts no threads, unless a session is
 *   on a server. Models run in processes of their own (`prony executor`), here or there, which end
 *   with their session.
 * - Strings are UTF-8 and end in NUL. `const` pointers are borrowed for the call only.
 *
 * Simple use
 *     struct prony_error err;
 *     printf("prony %s\n", prony_version());
 *     if (something(&err) < 0)
 *         fprintf(stderr, "%s\n", err.text);
 *
 * Traces of ONNX Runtime
 *     struct prony_trace *trace;
 *     if (prony_trace_open("trace.json", NULL, &trace, &err) == 0) {
 *         struct prony_trace_group group;
 *         for (size_t i = 0; prony_trace_group(trace, PRONY_TRACE_CPU, i, &group) == 0; i++)
 *             printf("%s %.0f ns\n", group.op, group.mean_ns);
 *         prony_trace_close(trace);
 *     }
 *
 * Programs: what each piece takes on several backends (docs/programs.md, examples/)
 *     const char *backends[] = {"onnxrt-cpu", "onnxrt-cpu[threads=1]"};
 *     struct prony_session_options options = PRONY_SESSION_OPTIONS_INIT;
 *     options.backends = backends;
 *     options.n_backends = 2;
 *     prony_session_open(&options, &session, &err);
 *     prony_graph_load(session, "encoder.onnx", &encoder, &err);
 *     for (int i = 0; i < 10; i++) {
 *         prony_region_begin(session, "predict", &err);
 *         prepare(&input);
 *         prony_graph_run(encoder, &input, 1, NULL, &outputs, &err);
 *         use(outputs);
 *         prony_region_end(session, &err);
 *         prony_outputs_free(outputs);
 *     }
 *     prony_session_profile(session, &profile, &err);
 *     prony_profile_save(profile, "predict.json", &err);   then: prony report predict.json
 */
#ifndef PRONY_PRONY_H
#define PRONY_PRONY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PRONY_VERSION_MAJOR 0
#define PRONY_VERSION_MINOR 2
#define PRONY_VERSION_PATCH 0

#define PRONY_API __attribute__((visibility("default")))
#define PRONY_MUST_CHECK __attribute__((warn_unused_result))

/* Every error of the library: name, number, text. */
#define PRONY_ERROR_MAP(X)                          \
    X(EUSAGE, -1, "invalid use")                    \
    X(ENOMEM, -2, "out of memory")                  \
    X(EIO, -3, "input or output failed")            \
    X(ENOENT, -4, "not found")                      \
    X(EFORMAT, -5, "malformed input")               \
    X(EUNSUPPORTED, -6, "not supported")            \
    X(ELIMIT, -7, "over a limit")                   \
    X(EUNAVAILABLE, -8, "backend unavailable")      \
    X(ERUNTIME, -9, "the inference runtime failed") \
    X(ECRASH, -10, "the executor process died")     \
    X(ETIMEDOUT, -11, "took too long")              \
    X(ECANCELED, -12, "cancelled")                  \
    X(EDENIED, -13, "access denied")

enum prony_error_code {
    PRONY_OK = 0,
#define PRONY_X(name, number, text) PRONY_##name = number,
    PRONY_ERROR_MAP(PRONY_X)
#undef PRONY_X
};

#define PRONY_ERROR_TEXT_SIZE 512

struct prony_error {
    int code;                         /* one of PRONY_E… */
    char text[PRONY_ERROR_TEXT_SIZE]; /* one line for a person, without a final newline */
};

/* The `prony` program that sessions use unless they are told another: PRONY_PROGRAM, the one that
 * was installed or built with the library, or the first on PATH. To be freed with free(). */
PRONY_API PRONY_MUST_CHECK int prony_program(char **ret_path, struct prony_error *err);

/* "1.2.3": the version of the library that runs, not of the header. */
PRONY_API const char *prony_version(void);

/* "PRONY_EIO" for PRONY_EIO, "PRONY_OK" for 0; never NULL. */
PRONY_API const char *prony_error_name(int code);

/* A short general text for a code; `struct prony_error` has the particular one. Never NULL. */
PRONY_API const char *prony_error_text(int code);

/*
 * What ONNX Runtime's profiler wrote, read in one pass and little memory; gzip and zstd are
 * recognised. A run is one `model_run`; run 0 is warm-up and left out unless it is asked for.
 */
struct prony_trace;

#define PRONY_TRACE_UNSET INT64_MIN

/* What events of nodes are grouped by. */
enum prony_trace_by {
    PRONY_TRACE_BY_NODE = 1,
    PRONY_TRACE_BY_OP = 2,
    PRONY_TRACE_BY_PROVIDER = 4,
    PRONY_TRACE_BY_SHAPE = 8,
};

/* Begin with PRONY_TRACE_OPTIONS_INIT and change what matters. */
struct prony_trace_options {
    size_t struct_size;
    int64_t start, end; /* runs [start, end), negative from the end; PRONY_TRACE_UNSET: default */
    const char *gather; /* or a list of runs, "[1, 3, 5]" or "range(2, 20, 3)" */
    unsigned by;        /* PRONY_TRACE_BY_…, added up */
    const char *const *filters; /* names with wildcards; without any, everything counts */
    size_t n_filters;
    int recover;       /* not 0: skip broken events */
    size_t max_groups; /* 0: 16384 */
};

#define PRONY_TRACE_OPTIONS_INIT                                                        \
    {                                                                                   \
        sizeof(struct prony_trace_options), PRONY_TRACE_UNSET, PRONY_TRACE_UNSET, NULL, \
            PRONY_TRACE_BY_OP, NULL, 0, 0, 0                                            \
    }

/* `path` may be "-" for standard input; `options` NULL for the defaults. */
PRONY_API PRONY_MUST_CHECK int prony_trace_open(const char *path,
                                                const struct prony_trace_options *options,
                                                struct prony_trace **ret_trace,
                                                struct prony_error *err);
PRONY_API void prony_trace_close(struct prony_trace *trace);

struct prony_trace_run {
    int64_t start_ns, duration_ns;
    int64_t node_ns; /* while at least one node ran */
};

/* Run `index` of all in the trace, analysed or not; PRONY_ENOENT past the last. */
PRONY_API PRONY_MUST_CHECK int prony_trace_run(const struct prony_trace *trace, uint64_t index,
                                               struct prony_trace_run *ret_run);

enum prony_trace_kind {
    PRONY_TRACE_CPU = 0, /* nodes */
    PRONY_TRACE_GPU = 1, /* kernels */
};

/* Texts live until the trace is closed; NULL: not grouped by it. Times per run are over the runs
 * that were analysed, 0 where the group didn't occur. */
struct prony_trace_group {
    const char *node; /* a node's name, or a kernel's, as the compiler wrote it */
    const char *op, *provider, *shape;
    uint64_t count;
    int64_t total_ns;
    double mean_ns, mean_low_ns, mean_high_ns; /* 95 % interval: infinite with fewer than 5 runs */
    double p50_ns, p90_ns, max_ns;
    int64_t first_ns; /* in run 0 */
};

/* Group `index`, longest first; PRONY_ENOENT past the last. */
PRONY_API PRONY_MUST_CHECK int prony_trace_group(const struct prony_trace *trace,
                                                 enum prony_trace_kind kind, size_t index,
                                                 struct prony_trace_group *ret_group);

/* Element types of tensors, under ONNX's own numbers: number, name, text, bits per element (0: no
 * fixed size). */
#define PRONY_DTYPE_MAP(X)                     \
    X(1, FLOAT, "float", 32)                   \
    X(2, UINT8, "uint8", 8)                    \
    X(3, INT8, "int8", 8)                      \
    X(4, UINT16, "uint16", 16)                 \
    X(5, INT16, "int16", 16)                   \
    X(6, INT32, "int32", 32)                   \
    X(7, INT64, "int64", 64)                   \
    X(8, STRING, "string", 0)                  \
    X(9, BOOL, "bool", 8)                      \
    X(10, FLOAT16, "float16", 16)              \
    X(11, DOUBLE, "double", 64)                \
    X(12, UINT32, "uint32", 32)                \
    X(13, UINT64, "uint64", 64)                \
    X(14, COMPLEX64, "complex64", 64)          \
    X(15, COMPLEX128, "complex128", 128)       \
    X(16, BFLOAT16, "bfloat16", 16)            \
    X(17, FLOAT8E4M3FN, "float8e4m3fn", 8)     \
    X(18, FLOAT8E4M3FNUZ, "float8e4m3fnuz", 8) \
    X(19, FLOAT8E5M2, "float8e5m2", 8)         \
    X(20, FLOAT8E5M2FNUZ, "float8e5m2fnuz", 8) \
    X(21, UINT4, "uint4", 4)                   \
    X(22, INT4, "int4", 4)                     \
    X(23, FLOAT4E2M1, "float4e2m1", 4)         \
    X(24, FLOAT8E8M0, "float8e8m0", 8)         \
    X(25, UINT2, "uint2", 2)                   \
    X(26, INT2, "int2", 2)

enum prony_dtype {
    PRONY_DTYPE_UNDEFINED = 0,
#define PRONY_X(number, name, text, bits) PRONY_DTYPE_##name = number,
    PRONY_DTYPE_MAP(PRONY_X)
#undef PRONY_X
};

/* A tensor in the caller's memory, or in that of outputs. Elements lie packed, row by row; of types
 * under 8 bits several share a byte. Strings are one block: `elements` + 1 offsets (uint64_t) into
 * the characters that follow them. */
struct prony_tensor {
    const char *name;
    int dtype; /* PRONY_DTYPE_…; 0: an output that isn't a tensor, without data */
    size_t rank;
    const int64_t *dims;
    const void *data;
    size_t bytes;
};

/*
 * A session: backends, the graphs that are loaded on them, and what is recorded.
 *
 * All functions on a session and its graphs may be called from several threads. Runs and loads take
 * turns, because two at once would measure each other. An executor process ends with the thread
 * that loaded its graph, so load graphs in a thread that lives as long as they are used. Closing
 * the session is for when no other call is under way.
 */
struct prony_session;

/* What a session on a server waits for. */
enum prony_notice_kind {
    PRONY_NOTICE_QUEUED = 0,    /* others hold the hardware */
    PRONY_NOTICE_UPLOADING = 1, /* a file of a graph; one that the server has is done at once */
};

struct prony_notice {
    enum prony_notice_kind kind;
    const char *subject; /* the hardware, or the file */
    uint64_t place;      /* in the queue, from 1 */
    double waited_s;
    const char *const *holders; /* who holds such hardware, hashed */
    size_t n_holders;
    uint64_t done_bytes, total_bytes;
};

/* Begin with PRONY_SESSION_OPTIONS_INIT and change what matters. */
struct prony_session_options {
    size_t struct_size;
    const char *const *backends; /* "[local/]software[options]"; none: every runtime found here, or
                                    what the server's preset "all" or else "default" has */
    size_t n_backends;
    int64_t repeats;           /* timed runs per graph, backend and call: 10 */
    int64_t warmups;           /* untimed runs before them: 1 */
    double timeout_s;          /* for loading a graph, and for one run: 120 */
    const char *ort_library;   /* the libonnxruntime.so to load; NULL: search */
    const char *hardware_file; /* names and prices of hardware, docs/hardware.md; NULL: none */
    const char *program;       /* the prony program; NULL: PRONY_PROGRAM, with the library, PATH */
    int strict;                /* not 0: loading and running fail when one backend fails */
    const volatile int *cancelled; /* becomes non-zero to end waiting, with PRONY_ECANCELED */
    /* A server to run on instead, docs/remote.md: "host:port" or "unix:/path"; NULL: here. The
     * connection has TLS unless the server is on this machine or `insecure` isn't 0. */
    const char *server;
    const char *token; /* for TLS only; NULL: PRONY_TOKEN, or the user's file */
    int insecure;
    const char *ca_file; /* PEM of who signs the server's certificate; NULL: the system's */
    /* Told while the session waits, in the thread that made the call; NULL: nobody. */
    void (*notice)(void *context, const struct prony_notice *notice);
    void *context;
    /* Asked now and then while a server is waited for, in the thread that made the call: not 0 ends
     * that call with PRONY_ECANCELED, until which the answer must stay the same. The session goes
     * on with the next call. NULL: nobody. */
    int (*interrupted)(void *context);
    /* For each of `backends` the hardware whose place it takes, "" for none: names and reports call
     * it "local instead of r6i.large/onnxrt-cpu", and it has no price. NULL: none of them. */
    const char *const *instead_of;
};

#define PRONY_SESSION_OPTIONS_INIT                                                              \
    {                                                                                           \
        sizeof(struct prony_session_options), NULL, 0, 10, 1, 120.0, NULL, NULL, NULL, 0, NULL, \
            NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL                                         \
    }

/* `options` NULL for the defaults. */
PRONY_API PRONY_MUST_CHECK int prony_session_open(const struct prony_session_options *options,
                                                  struct prony_session **ret_session,
                                                  struct prony_error *err);
/* Forgets what was recorded and begins anew with these options; graphs stay loaded. Fails while a
 * region is open. */
PRONY_API PRONY_MUST_CHECK int prony_session_restart(struct prony_session *session, int64_t repeats,
                                                     int64_t warmups, int strict,
                                                     struct prony_error *err);
/* Ends the executors and frees the graphs; an open region is cancelled. NULL does nothing. */
PRONY_API void prony_session_close(struct prony_session *session);

/* The canonical name of backend `index`, "local/onnxrt-cpu"; NULL past the last. */
PRONY_API const char *prony_session_backend(const struct prony_session *session, size_t index);

/*
 * A graph: an ONNX model, loaded once on every backend of its session, which owns it. Ids count
 * from 1 in the order of loading.
 *
 * A backend that can't load it fails at each run; the others don't mind. A graph that no backend
 * can load is loaded all the same: running it returns the reason, and inside a region the caller
 * may compute the result instead, which counts as local code.
 */
struct prony_graph;

PRONY_API PRONY_MUST_CHECK int prony_graph_load(struct prony_session *session, const char *path,
                                                struct prony_graph **ret_graph,
                                                struct prony_error *err);
/* The same from memory, which is copied; `name` is for reports. External data can't be used. */
PRONY_API PRONY_MUST_CHECK int prony_graph_load_memory(struct prony_session *session,
                                                       const char *name, const void *data,
                                                       size_t size, struct prony_graph **ret_graph,
                                                       struct prony_error *err);

/*
 * A graph in several forms, one for each format that backends take: those whose software is called
 * "torch-…" take FXPROTO, all others ONNX. Each backend gets the form that it takes. One whose form
 * isn't there, or couldn't be made, can't run the graph and says so.
 *
 * Files are named as the graph knows them; the first is the graph itself, "model.onnx" or
 * "model.dat". A server gets a file only if it has none with the same contents. Nothing is copied:
 * all of it is borrowed for the call. On this machine only ONNX is run.
 */
enum prony_format {
    PRONY_FORMAT_ONNX = 1,
    PRONY_FORMAT_FXPROTO = 2,
};

struct prony_file {
    const char *name; /* relative: "model.onnx", "weights/0" */
    const void *data;
    size_t bytes;
    const uint8_t *sha256; /* its 32 bytes, of whoever knows them; NULL: computed */
};

struct prony_graph_form {
    int format; /* PRONY_FORMAT_… */
    const struct prony_file *files;
    size_t n_files;
    /* In the graph's order. A run picks its inputs by these names. */
    const char *const *input_names;
    size_t n_inputs;
    const char *const *output_names;
    size_t n_outputs;
    const char *failure; /* why there is no such form, and there are no files; NULL: there is */
};

PRONY_API PRONY_MUST_CHECK int
prony_graph_load_forms(struct prony_session *session, const char *name,
                       const struct prony_graph_form *forms, size_t n_forms,
                       struct prony_graph **ret_graph, struct prony_error *err);
/* The same for a caller who knows that some backends can't run it: `refusals` has an entry for each
 * backend of the session, why it isn't asked, or NULL. Nothing is sent for those alone. */
PRONY_API PRONY_MUST_CHECK int
prony_graph_load_forms_except(struct prony_session *session, const char *name,
                              const struct prony_graph_form *forms, size_t n_forms,
                              const char *const *refusals, struct prony_graph **ret_graph,
                              struct prony_error *err);
/* A graph that the caller computes by itself, and why: reports list it. Running it fails with the
 * reason, and records that it was called. */
PRONY_API PRONY_MUST_CHECK int prony_graph_local(struct prony_session *session, const char *name,
                                                 const char *reason, struct prony_graph **ret_graph,
                                                 struct prony_error *err);

PRONY_API int64_t prony_graph_id(const struct prony_graph *graph);
/* Why backend `index` couldn't load it; NULL: it could. */
PRONY_API const char *prony_graph_failure(const struct prony_graph *graph, size_t backend);
/* Why no backend runs it; NULL: one does. */
PRONY_API const char *prony_graph_local_reason(const struct prony_graph *graph);

/*
 * Runs the graph on every backend in turn, warm-ups and repeats of each, and records the times if
 * the thread has an open region. Every input of the model is given once, in any order; a graph that
 * was loaded as forms may be given more, of which each form picks its own.
 *
 * `ret_outputs`, if it isn't NULL, gets a copy of the outputs of `backend`, or, where that is NULL,
 * of the first backend that succeeded; to be freed by the caller. Returns 0 when at least one
 * backend succeeded (with a `backend`: that one; with the option `strict`: all). Otherwise the
 * failures have still been recorded.
 */
struct prony_outputs;

PRONY_API PRONY_MUST_CHECK int
prony_graph_run(struct prony_graph *graph, const struct prony_tensor *inputs, size_t n_inputs,
                const char *backend, struct prony_outputs **ret_outputs, struct prony_error *err);

/*
 * The same in two halves, for a caller who computes the result, too. What the inputs point to, and
 * the array itself, must stay until the run is finished or cancelled, which frees it. In between
 * the clock of the thread's region stands still, and the thread can neither end the region, which
 * would not be recorded, nor, with `overlap`, load or run anything else.
 *
 * With `overlap`, a run on a server is under way when this returns; otherwise, and on this machine,
 * it happens in prony_run_finish(), so that neither disturbs the other. A run that can't be begun
 * fails when it is finished, on every backend. Outputs can be had if they were asked for here.
 */
struct prony_run;

PRONY_API PRONY_MUST_CHECK int prony_graph_start(struct prony_graph *graph,
                                                 const struct prony_tensor *inputs, size_t n_inputs,
                                                 int want_outputs, int overlap,
                                                 struct prony_run **ret_run,
                                                 struct prony_error *err);
/* The caller has just computed the result: the time since prony_graph_start() is what the graph
 * takes here. It counts as local time of backends that can't run the graph. NULL does nothing. */
PRONY_API void prony_run_computed(struct prony_run *run);
/*
 * What the caller computed: the outputs, in the graph's order. The run was started with outputs.
 * When it is finished, those of every backend are compared with these, as `prony profile` compares
 * backends; the profile says where they differ. They stay until then. Of each backend only the
 * first run is compared.
 */
PRONY_API PRONY_MUST_CHECK int prony_run_expect(struct prony_run *run,
                                                const struct prony_tensor *expected,
                                                size_t n_expected, struct prony_error *err);
/* What prony_graph_run() returns. */
PRONY_API PRONY_MUST_CHECK int prony_run_finish(struct prony_run *run, const char *backend,
                                                struct prony_outputs **ret_outputs,
                                                struct prony_error *err);
/* Ends it, also on the server; the thread's region will not be recorded. NULL does nothing. */
PRONY_API void prony_run_cancel(struct prony_run *run);

/* Output `index`, in the model's order, or the one of a name; PRONY_ENOENT when there is none. What
 * it points to lives until prony_outputs_free(). */
PRONY_API PRONY_MUST_CHECK int prony_outputs_get(const struct prony_outputs *outputs, size_t index,
                                                 struct prony_tensor *ret_tensor);
PRONY_API PRONY_MUST_CHECK int prony_outputs_find(const struct prony_outputs *outputs,
                                                  const char *name,
                                                  struct prony_tensor *ret_tensor);
/* The backend that they are of; lives as long as the outputs. */
PRONY_API const char *prony_outputs_backend(const struct prony_outputs *outputs);
PRONY_API void prony_outputs_free(struct prony_outputs *outputs); /* NULL does nothing */

/*
 * One run with repeats and warm-ups of its own: the times of every backend, and its outputs if they
 * are wanted. No region records it, and the clock of the thread's region stands still. Backends
 * that fail say why; the call itself fails when inputs are wrong, when waiting was cancelled, and
 * for want of memory. What the functions return lives until prony_measured_free().
 */
struct prony_measured;

PRONY_API PRONY_MUST_CHECK int
prony_graph_measure(struct prony_graph *graph, const struct prony_tensor *inputs, size_t n_inputs,
                    int64_t repeats, int64_t warmups, int want_outputs,
                    struct prony_measured **ret_measured, struct prony_error *err);
/* Of backend `index`: why it failed; NULL: it didn't. */
PRONY_API const char *prony_measured_failure(const struct prony_measured *measured, size_t index);
/* Its times in ns; NULL: it failed. */
PRONY_API const int64_t *prony_measured_times(const struct prony_measured *measured, size_t index,
                                              size_t *ret_n);
/* Its outputs; NULL: it failed, or they weren't wanted. */
PRONY_API const struct prony_outputs *prony_measured_outputs(const struct prony_measured *measured,
                                                             size_t index);
PRONY_API void prony_measured_free(struct prony_measured *measured); /* NULL does nothing */

/*
 * Regions: named pieces of the caller's program. Inside one, graph runs and the local code between
 * them become segments: local, graph, local, … local. Local code is timed around the graphs, and
 * never includes them or the wait for them. A run outside of a region isn't recorded.
 *
 * - A region belongs to the thread that began it. Several threads may be in regions at once, also
 *   in ones of the same name. In one thread, regions of a session don't nest: PRONY_EUSAGE.
 * - Runs of one name with the same sequence of graphs make one profile.
 * - A run in which a graph was loaded, or the caller says that something was compiled, is discarded
 *   as soon as there is one without.
 * - A region that isn't ended is cancelled when the session is closed.
 */
PRONY_API PRONY_MUST_CHECK int prony_region_begin(struct prony_session *session, const char *name,
                                                  struct prony_error *err);
/* Whatever is returned, the region is closed. A failure means that it wasn't recorded. */
PRONY_API PRONY_MUST_CHECK int prony_region_end(struct prony_session *session,
                                                struct prony_error *err);
/* Leaves the region without a trace, after an error in the caller's code. Without one: nothing. */
PRONY_API void prony_region_cancel(struct prony_session *session);
/* Says that something was compiled in the open region. Without one: nothing. */
PRONY_API void prony_region_compiled(struct prony_session *session);

/*
 * What has been recorded so far. A profile is a copy: it lives on when more is recorded and when
 * the session is closed.
 */
struct prony_profile;

PRONY_API PRONY_MUST_CHECK int prony_session_profile(struct prony_session *session,
                                                     struct prony_profile **ret_profile,
                                                     struct prony_error *err);
PRONY_API void prony_profile_free(struct prony_profile *profile); /* NULL does nothing */

/* The runs of one region that had the same sequence of graphs. */
struct prony_recording {
    const char *region; /* lives as long as the profile */
    int64_t runs;       /* that count */
    int64_t discarded;  /* because something was compiled in them */
    int compiled;       /* not 0: all runs compiled, and there are no totals */
    size_t n_graphs;    /* in one run */
    double local_ns;    /* local code of one run */
};

/* Recording `index`, in the order of first runs; PRONY_ENOENT past the last. */
PRONY_API PRONY_MUST_CHECK int prony_profile_recording(const struct prony_profile *profile,
                                                       size_t index,
                                                       struct prony_recording *ret_recording);

/* What one run of a recording comes to on a backend, in means. NAN: not known. */
struct prony_recording_total {
    const char *backend; /* lives as long as the profile */
    int64_t samples;     /* of all graphs */
    int64_t failures;    /* runs of graphs that failed */
    double graphs_ns;
    double total_ns;        /* with the local code */
    double usd_per_million; /* such runs */
};

/* PRONY_ENOENT past the last recording or backend. */
PRONY_API PRONY_MUST_CHECK int prony_profile_total(const struct prony_profile *profile,
                                                   size_t recording, size_t backend,
                                                   struct prony_recording_total *ret_total);

enum prony_report_format {
    PRONY_REPORT_TEXT = 0,
    PRONY_REPORT_MARKDOWN = 1,
    PRONY_REPORT_CSV = 2,  /* has no layouts */
    PRONY_REPORT_JSON = 3, /* neither; `prony report` shows it again */
};

enum prony_report_layout {
    PRONY_LAYOUT_SUMMARY = 0,
    PRONY_LAYOUT_SEGMENTS = 1,
    PRONY_LAYOUT_CLASSIC = 2,
};

/* Begin with PRONY_REPORT_OPTIONS_INIT and change what matters. */
struct prony_report_options {
    size_t struct_size;
    enum prony_report_format format;
    enum prony_report_layout layout;
    int verbose; /* not 0: nothing is abridged */
};

#define PRONY_REPORT_OPTIONS_INIT                                                       \
    {                                                                                   \
        sizeof(struct prony_report_options), PRONY_REPORT_TEXT, PRONY_LAYOUT_SUMMARY, 0 \
    }

/* The report as a text, to be freed with free(). `options` NULL: text, summary. */
PRONY_API PRONY_MUST_CHECK int prony_profile_report(const struct prony_profile *profile,
                                                    const struct prony_report_options *options,
                                                    char **ret_text, struct prony_error *err);

/* Writes the profile as JSON, for `prony report`; the file is replaced as a whole or not at all. */
PRONY_API PRONY_MUST_CHECK int prony_profile_save(const struct prony_profile *profile,
                                                  const char *path, struct prony_error *err);

/*
 * A server without a session: nothing is reserved, and nobody is waited for.
 */
struct prony_server_options {
    size_t struct_size;
    const char *server, *token; /* and what follows: as in struct prony_session_options */
    int insecure;
    const char *ca_file;
    const volatile int *cancelled;
    int (*interrupted)(void *context);
    void *context;
};

#define PRONY_SERVER_OPTIONS_INIT                                                  \
    {                                                                              \
        sizeof(struct prony_server_options), NULL, NULL, 0, NULL, NULL, NULL, NULL \
    }

/* Whether it is there and, over TLS, takes the token. */
PRONY_API PRONY_MUST_CHECK int prony_server_ping(const struct prony_server_options *options,
                                                 struct prony_error *err);

/* What it offers. Texts live as long as the offer. */
struct prony_offer;

PRONY_API PRONY_MUST_CHECK int prony_server_list(const struct prony_server_options *options,
                                                 struct prony_offer **ret_offer,
                                                 struct prony_error *err);
PRONY_API void prony_offer_free(struct prony_offer *offer); /* NULL does nothing */

struct prony_offer_backend {
    const char *name;                /* "r6i.large/onnxrt-cpu" */
    const char *processor, *version; /* of the runtime; NULL: not known */
    double usd_per_hour;             /* NAN: not known */
    const char *const *options;      /* that it knows */
    size_t n_options;
    int64_t hosts, free_hosts; /* -1: not said */
};

/* PRONY_ENOENT past the last. */
PRONY_API PRONY_MUST_CHECK int prony_offer_backend(const struct prony_offer *offer, size_t index,
                                                   struct prony_offer_backend *ret_backend);

struct prony_offer_preset {
    const char *name;
    const char *const *backends;
    size_t n_backends;
};

/* PRONY_ENOENT past the last. */
PRONY_API PRONY_MUST_CHECK int prony_offer_preset(const struct prony_offer *offer, size_t index,
                                                  struct prony_offer_preset *ret_preset);

/* 1 when the connection would have TLS and there is no token: neither a given one nor the user's
 * own. Then a person could be asked for it, prony_server_ping() could check it, and it could be
 * saved. Otherwise 0. */
PRONY_API PRONY_MUST_CHECK int prony_server_lacks_token(const struct prony_server_options *options,
                                                        struct prony_error *err);
/* As the user's own, in a file that nobody else can read. */
PRONY_API PRONY_MUST_CHECK int prony_token_save(const char *token, struct prony_error *err);

#ifdef __cplusplus
}
#endif
#endif
