/*
 * Finds and loads the shared library of a runtime: the file that was asked for, else the one that
 * the environment names, else what the loader finds, else the copy that set-up put beside the
 * program. It stays in the process: threads of runtimes don't survive being unloaded.
 */
#ifndef PRN_RUNTIME_LIBRARY_H
#define PRN_RUNTIME_LIBRARY_H

#include "base/error.h"

#define PRN_LIBRARY_NAMES_MAX 2

struct prn_library_search {
    const char *title;                        /* "ONNX Runtime", for errors */
    const char *variable;                     /* of the environment: "PRONY_ORT_LIB" */
    const char *names[PRN_LIBRARY_NAMES_MAX]; /* file names; the first one is what set-up fetches */
    const char *folder;                       /* where set-up puts it: "onnxruntime" */
    const char *how_to_get;                   /* one line */
};

/* `wanted` may be NULL. The error names all that was tried and how to get one. `ret_path` gets the
 * path of the file that was loaded. */
PRONY_MUST_CHECK int prn_library_load(const struct prn_library_search *search, const char *wanted,
                                      void **ret_handle, char *ret_path, size_t size,
                                      struct prony_error *err);

#endif
