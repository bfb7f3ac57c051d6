/* Which runtimes work on this machine: each is asked in an executor of its own. */
#ifndef PRN_MEASURE_DISCOVER_H
#define PRN_MEASURE_DISCOVER_H

#include "exec/executor.h"
#include "measure/backends.h"

struct prn_found_runtime {
    const struct prn_runtime_ops *ops;
    bool available;
    const char *version; /* when available */
    const char *library;
    const char *origin; /* who named the library, or where it was found */
    const char *offers; /* other runtimes that the library lists, with commas */
    const char *reason; /* when not */
};

/* `ret_found` has one entry per runtime that this build knows, or per one that takes ONNX, without
 * those that their library doesn't list; it belongs to `arena`. */
PRONY_MUST_CHECK int prn_discover(const struct prn_backends_here *here, bool only_onnx,
                                  struct prn_arena *arena, struct prn_found_runtime **ret_found,
                                  size_t *ret_n, struct prony_error *err);

/* Fails when a library that was asked for, for all backends of a runtime, isn't one: nobody who
 * names a file wants another one measured. */
PRONY_MUST_CHECK int prn_discover_check(const struct prn_found_runtime *found, size_t n,
                                        const struct prn_library_choice *library,
                                        struct prony_error *err);

#endif
