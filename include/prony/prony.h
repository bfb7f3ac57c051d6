/*
 * prony: measures what an inference workload takes and costs on a backend.
 *
 * Invariants
 * - A function that can fail returns 0 or a negative PRONY_E… code. Where a `struct prony_error`
 *   is taken it may be NULL; it is left untouched on success.
 * - Out-parameters are named `ret_…` and are written only on success.
 * - The library never prints, exits or aborts on input, and starts no threads.
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
 */
#ifndef PRONY_PRONY_H
#define PRONY_PRONY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PRONY_VERSION_MAJOR 0
#define PRONY_VERSION_MINOR 1
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
    X(ECANCELED, -12, "cancelled")

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
    double mean_ns, mean_low_ns, mean_high_ns; /* with its 95 % interval */
    double p50_ns, p90_ns, max_ns;
    int64_t first_ns; /* in run 0 */
};

/* Group `index`, longest first; PRONY_ENOENT past the last. */
PRONY_API PRONY_MUST_CHECK int prony_trace_group(const struct prony_trace *trace,
                                                 enum prony_trace_kind kind, size_t index,
                                                 struct prony_trace_group *ret_group);

#ifdef __cplusplus
}
#endif
#endif
