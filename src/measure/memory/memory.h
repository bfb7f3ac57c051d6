/*
 * Where the memory goes: the runtime, weights, what loading takes besides, and what is alive at the
 * peak of a run, tensor by tensor.
 *
 * - It is measured in a launch of its own, whose first run counts. Memory patterns, which take one
 *   piece for all activations before a run, are off: what a node takes shows at the node.
 * - What the process has before and after each step is the kernel's word; what is in the arena is
 *   the runtime's. The parts of a run are held against the growth of the process: what neither
 *   explains is told.
 */
#ifndef PRN_MEASURE_MEMORY_H
#define PRN_MEASURE_MEMORY_H

#include "measure/measure.h"
#include "measure/ops/graph.h"

struct prn_live;

/* Most tensors that are kept. */
#define PRN_MEMORY_TENSORS_MAX 1000

struct prn_memory_tensor {
    const char *name;
    int64_t bytes;
    const char *made_by;      /* the node, or its operator where it has no name */
    const char *last_read_by; /* NULL: it is an output of the model */
};

/* Bytes; -1: the runtime doesn't tell. */
struct prn_memory {
    const char *error;   /* why there is nothing else here; NULL: there is */
    int64_t total_bytes; /* of the process after the first run; the parts add up to it */
    int64_t peak_bytes;  /* the most that it ever had, while loading for example */
    int64_t runtime_bytes;
    int64_t weights_bytes;
    int64_t session_bytes; /* that loading took besides, and the run did not use again */
    int64_t inputs_bytes;
    int64_t run_bytes; /* by which the process grew with the first run */
    int64_t activations_bytes, workspace_bytes, rounding_bytes;
    int64_t idle_bytes;        /* that the arena holds besides */
    int64_t unexplained_bytes; /* of what the process has; below 0: it has less than these */
    const char *peak_node;     /* as the runtime calls it; NULL: it doesn't tell */
    int64_t tensors_bytes;     /* of all that are alive there */
    size_t n_tensors;
    struct prn_memory_tensor *tensors; /* largest first */
};

/* Measures each result that was measured. `graphs` and `lives` have an entry for each point. Fails
 * only when out of memory; what goes wrong otherwise is in the results. */
PRONY_MUST_CHECK int prn_memory_measure(const struct prn_measure_request *request,
                                        struct prn_ops_graph *const *graphs,
                                        struct prn_live *const *lives, struct prn_profile *profile,
                                        struct prony_error *err);

#endif
