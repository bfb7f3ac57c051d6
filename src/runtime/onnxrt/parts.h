/* What the files of this folder share: the runtime's state, and how a status becomes an error. */
#ifndef PRN_RUNTIME_ONNXRT_PARTS_H
#define PRN_RUNTIME_ONNXRT_PARTS_H

#include "runtime/onnxrt/api.h"
#include "runtime/runtime.h"

struct prn_runtime {
    bool is_lane; /* all but the outputs and what is below them is borrowed */
    struct ort_library library;
    char version[128];
    const char *provider; /* beside the CPU's: "CUDAExecutionProvider"; NULL: none */
    char provider_name[64];
    bool records_placement; /* the session will tell which nodes each provider got */
    OrtEnv *env;
    OrtSessionOptions *options;
    OrtSession *session;
    OrtAllocator *allocator; /* the default one; not ours to free */
    OrtMemoryInfo *cpu;
    bool io_binding;  /* runs go through a binding that keeps the outputs' buffers */
    bool is_saved;    /* what was loaded is in optimised_fd, and nobody took it yet */
    int optimised_fd; /* memory that the optimised model is saved to; -1: it isn't */
    OrtValue **inputs;
    char **input_names;
    size_t n_inputs;
    char **output_names; /* freed by the allocator */
    size_t n_outputs;
    OrtValue **outputs; /* of the last run */
    OrtIoBinding *binding;
    /* what the last output() call handed out */
    int64_t dims[PRN_RUNTIME_RANK_MAX];
    char *strings;
};

/* Turns a status into an error, releasing it. */
PRONY_MUST_CHECK int ort_check(struct prn_runtime *r, OrtStatus *status, int code,
                               struct prony_error *err);

/* Puts a backend's option into the session's, unless it is for others (lib, device). */
PRONY_MUST_CHECK int ort_set_option(struct prn_runtime *r, const struct prn_spec_option *option,
                                    struct prony_error *err);

/* Appends the provider of the backend, if it has one beside the CPU's (providers.c). */
PRONY_MUST_CHECK int ort_set_provider(struct prn_runtime *r,
                                      const struct prn_runtime_config *config,
                                      struct prony_error *err);

/* What follows the name that people know: "ExecutionProvider" of "CUDAExecutionProvider". */
const char *ort_provider_rest(const char *name);

/* Slots of the vtable. */
const char *ort_offers(const struct prn_runtime *r);
const char *const *ort_readable(const struct prn_runtime *r);
PRONY_MUST_CHECK int ort_placement(struct prn_runtime *r, struct prn_placed **ret_rows,
                                   size_t *ret_n, struct prony_error *err);

#endif
