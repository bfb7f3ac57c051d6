/* Which runtimes work on this machine: each is asked in an executor of its own. */
#ifndef PRN_MEASURE_DISCOVER_H
#define PRN_MEASURE_DISCOVER_H

#include "exec/executor.h"

struct prn_found_runtime {
    const struct prn_runtime_ops *ops;
    bool available;
    const char *version; /* when available */
    const char *library;
    const char *reason; /* when not */
};

/* `ret_found` has one entry per runtime that this build knows, or per one that takes ONNX, and
 * belongs to `arena`. `program` is that of the executors; NULL: this one. */
PRONY_MUST_CHECK int prn_discover(const char *ort_library, const char *program, bool only_onnx,
                                  struct prn_arena *arena, struct prn_found_runtime **ret_found,
                                  size_t *ret_n, struct prony_error *err);

#endif
