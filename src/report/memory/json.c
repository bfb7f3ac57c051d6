#include "report/memory/json.h"

#include "measure/memory/memory.h"

#define PRN_OF struct prn_memory_tensor
static const struct prn_member tensor_members[] = {
    PRN_TEXT(name, "Its name in the model."),
    PRN_INTEGER(bytes, "Its size."),
    PRN_TEXT(made_by, "The node that makes it, or its operator."),
    PRN_TEXT(last_read_by, "The node that reads it last; null for an output of the model.",
             .flags = PRN_NULL),
};
static const struct prn_schema tensor_schema =
    PRN_SCHEMA("MemoryTensor", tensor_members, "A tensor that is alive at the peak.");
#undef PRN_OF

#define PRN_OF struct prn_memory
#define TOLD(member, doc) \
    PRN_INTEGER(member, doc " Null when the runtime doesn't tell.", .flags = PRN_NULL)
static const struct prn_member memory_members[] = {
    PRN_TEXT(error, "Why it isn't known; null when it is.", .flags = PRN_NULL),
    PRN_INTEGER(total_bytes, "What the process has after its first run: all that follows but run. "
                             "Where the runtime doesn't tell of activations, run stands for them."),
    PRN_INTEGER(peak_bytes, "The most that it ever had, loading included; null when not known.",
                .flags = PRN_NULL),
    PRN_INTEGER(runtime_bytes, "Before the model is loaded."),
    PRN_INTEGER(weights_bytes, "Weights of the model."),
    PRN_INTEGER(session_bytes,
                "What loading took besides (the graph, weights in another order, memory "
                "given back) and the run did not use again."),
    PRN_INTEGER(inputs_bytes, "Inputs of the model."),
    PRN_INTEGER(run_bytes,
                "By how much the first run made the process grow; less than what it "
                "needs where it uses again what loading gave back.",
                .min = INT64_MIN),
    TOLD(activations_bytes, "Tensors that are alive at the peak."),
    TOLD(workspace_bytes, "What the node at the peak takes while it runs."),
    TOLD(rounding_bytes, "What the arena adds to what is asked for."),
    TOLD(idle_bytes, "What the arena holds besides."),
    PRN_INTEGER(unexplained_bytes,
                "None of these; below 0: the process has less than these add up to.",
                .min = INT64_MIN),
    PRN_TEXT(peak_node, "Where most is alive, as the runtime calls it; null when it doesn't tell.",
             .flags = PRN_NULL),
    PRN_INTEGER(tensors_bytes, "Sizes of all tensors that are alive there, by the model."),
    PRN_ARRAY(tensors, n_tensors, &tensor_schema, "Those tensors, largest first.",
              .max = PRN_MEMORY_TENSORS_MAX),
};
const struct prn_schema prn_memory_schema =
    PRN_SCHEMA("Memory", memory_members, "Where the memory goes.");
#undef PRN_OF
