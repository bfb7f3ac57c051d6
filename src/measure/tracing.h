/*
 * The trace that a runtime's profiler writes in an executor: a folder in which it may make files,
 * until it has opened its own, and that file.
 *
 *     prn_tracing_begin(&t, err);   a launch with t.folder as its profile_folder, a loaded model
 *     prn_tracing_catch(&t, err);   … runs, prn_executor_end_profiling() …
 *     prn_tracing_open(&t, &source, err);
 *     prn_tracing_end(&t);
 */
#ifndef PRN_MEASURE_TRACING_H
#define PRN_MEASURE_TRACING_H

#include "trace/source.h"

#include <limits.h>

/* A trace of this size ends; one of a million events, where ONNX Runtime ends, is smaller. */
#define PRN_TRACING_BYTES_MAX ((int64_t)1 << 30)

struct prn_tracing {
    char folder[PATH_MAX]; /* "": there is none */
    int fd;                /* -1: none */
};

PRONY_MUST_CHECK int prn_tracing_begin(struct prn_tracing *t, struct prony_error *err);

/* The runtime opens its trace when it loads the model. Then prony opens it too, and takes the name
 * and the folder away: from here on nothing else can be written, and nothing is left behind,
 * whatever ends either process. */
PRONY_MUST_CHECK int prn_tracing_catch(struct prn_tracing *t, struct prony_error *err);

/* To read what is in it, for the caller to close. */
PRONY_MUST_CHECK int prn_tracing_open(const struct prn_tracing *t, struct prn_source **ret_source,
                                      struct prony_error *err);

/* At any time after the beginning, successful or not. */
void prn_tracing_end(struct prn_tracing *t);

#endif
