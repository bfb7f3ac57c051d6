/*
 * PyTorch. Its functions are Python's (python/src/executor.c): an executor becomes a Python process
 * before it opens one of these, so what is here only says what there is, and why there isn't.
 */
#include "runtime/runtime.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int torch_open(const struct prn_runtime_config *config, struct prn_runtime **ret_runtime,
                      struct prony_error *err)
{
    (void)config;
    (void)ret_runtime;
    const char *python = secure_getenv("PRONY_PYTHON");
    if (!python || !*python)
        return prn_fail(
            err, PRONY_EUNAVAILABLE,
            "PyTorch runs in Python: set PRONY_PYTHON to an interpreter that has torch and "
            "prony");
    return prn_fail(err, PRONY_EUNAVAILABLE, "cannot run '%s' (from PRONY_PYTHON): %s", python,
                    access(python, X_OK) < 0 ? strerror(errno) : "it isn't a program");
}

#define OPTIONS                                                                       \
    {"threads", "N", "threads of an operator (0: one per core, the default)", false}, \
        {"fp16", "on|off", "weights and inputs in float16 (default off)", false},     \
        {"bf16", "on|off", "weights and inputs in bfloat16 (default off)", false},

static const struct prn_runtime_option cpu_options[] = {OPTIONS{NULL, NULL, NULL, false}};

static const struct prn_runtime_option cuda_options[] = {
    {"device", "N", "which GPU (default 0)", false}, OPTIONS{NULL, NULL, NULL, false}};

#define RUNTIME(name, software_name, title_text, device_options, on_gpu, by_compiler) \
    const struct prn_runtime_ops name = {                                             \
        .software = software_name,                                                    \
        .title = title_text,                                                          \
        .gpu = on_gpu,                                                                \
        .python = true,                                                               \
        .takes_fxproto = true,                                                        \
        .in_default = true,                                                           \
        .compiles = by_compiler,                                                      \
        .options = device_options,                                                    \
        .open = torch_open,                                                           \
    }

extern const struct prn_runtime_ops prn_torch_eager_cpu, prn_torch_eager_cuda,
    prn_torch_inductor_cpu, prn_torch_inductor_cuda;

RUNTIME(prn_torch_eager_cpu, "torch-eager-cpu", "PyTorch, CPU", cpu_options, false, false);
RUNTIME(prn_torch_eager_cuda, "torch-eager-cuda", "PyTorch, CUDA", cuda_options, true, false);
RUNTIME(prn_torch_inductor_cpu, "torch-inductor-cpu", "PyTorch, compiled, CPU", cpu_options, false,
        true);
RUNTIME(prn_torch_inductor_cuda, "torch-inductor-cuda", "PyTorch, compiled, CUDA", cuda_options,
        true, true);
