/*
 * ONNX Runtime's C API for the benchmarks, without its header: functions by their position in its
 * table. Not prony's own declarations, so that what prony is measured against doesn't share its
 * mistakes. A failure ends the program.
 */
#ifndef PRN_BENCH_ORT_H
#define PRN_BENCH_ORT_H

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    GET_ERROR_MESSAGE = 2,
    CREATE_ENV = 3,
    CREATE_SESSION = 7,
    RUN = 9,
    CREATE_SESSION_OPTIONS = 10,
    ENABLE_PROFILING = 14,
    SET_INTRA_OP_THREADS = 24,
    GET_INPUT_COUNT = 30,
    GET_INPUT_TYPE = 33,
    GET_INPUT_NAME = 36,
    GET_OUTPUT_NAME = 37,
    CREATE_TENSOR = 49,
    CAST_TO_TENSOR_INFO = 55,
    GET_ELEMENT_TYPE = 60,
    GET_RANK = 61,
    GET_DIMS = 62,
    CREATE_CPU_MEMORY_INFO = 69,
    ALLOCATOR_FREE = 76,
    GET_ALLOCATOR = 78,
    RELEASE_VALUE = 96,
    RELEASE_TYPE_INFO = 98,
    END_PROFILING = 110,
};

static const void *const *api;

#define CALL(position, result, parameters, ...) \
    ((result(*) parameters)(uintptr_t)api[position])(__VA_ARGS__)

static inline void must(void *status)
{
    if (status) {
        fprintf(stderr, "%s: %s\n", program_invocation_short_name,
                CALL(GET_ERROR_MESSAGE, const char *, (void *), status));
        exit(1);
    }
}

static inline void load(const char *path)
{
    setenv("ORT_DISABLE_TELEMETRY", "1", 1);
    void *library = dlopen(path, RTLD_NOW);
    void *symbol = library ? dlsym(library, "OrtGetApiBase") : NULL;
    if (!symbol) {
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, dlerror());
        exit(1);
    }
    const void *const *(*const *base)(uint32_t) =
        ((const void *const *(*const *(*)(void))(uint32_t))(uintptr_t)symbol)();
    api = base[0](17);
}

#endif
