/* Loads the ONNX Runtime library, and fills our view of its table of functions. */
#include "runtime/onnxrt/api.h"

#include "runtime/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ort_api_base {
    const void *const *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
};

#define HOW_TO_GET "'pip install onnxruntime' provides it, --ort-lib FILE or PRONY_ORT_LIB names it"

const struct prn_library_search ort_search = {
    .title = "ONNX Runtime",
    .option = "ort-lib",
    .help = "ONNX Runtime library to load (libonnxruntime.so)",
    .variable = "PRONY_ORT_LIB",
    .names = {"libonnxruntime.so.1", "libonnxruntime.so"},
    .folder = "onnxruntime",
    .site = {"onnxruntime/capi", "libonnxruntime.so"},
    .how_to_get = HOW_TO_GET,
};

static int fill_table(struct ort_library *library, struct prony_error *err)
{
    union {
        void *object;
        const struct ort_api_base *(*function)(void);
    } symbol = {.object = dlsym(library->loaded.handle, "OrtGetApiBase")};
    const struct ort_api_base *base = symbol.object ? symbol.function() : NULL;
    if (!base)
        return prn_fail(err, PRONY_EUNAVAILABLE, "'%s' is not an ONNX Runtime library; " HOW_TO_GET,
                        library->loaded.path);
    snprintf(library->version, sizeof library->version, "%s", base->GetVersionString());
    int major = 0;
    int minor = 0;
    if (sscanf(library->version, "%d.%d", &major, &minor) != 2 || major != 1 ||
        minor < ORT_OLDEST_MINOR)
        return prn_fail(err, PRONY_EUNAVAILABLE,
                        "ONNX Runtime %s in '%s' is too old, 1.%d or newer is needed; " HOW_TO_GET,
                        library->version, library->loaded.path, ORT_OLDEST_MINOR);
    const void *const *table = base->GetApi(ORT_OLDEST_MINOR);
    if (!table)
        return prn_fail(err, PRONY_EUNAVAILABLE,
                        "ONNX Runtime %s in '%s' doesn't offer the C API of 1.%d", library->version,
                        library->loaded.path, ORT_OLDEST_MINOR);
#define ORT_X(position, name, result, parameters) \
    memcpy(&library->api.name, &table[position], sizeof library->api.name);
    ORT_FUNCTIONS(ORT_X)
#undef ORT_X
#define ORT_X(since, position, name, result, parameters) \
    if (minor >= (since))                                \
        memcpy(&library->api.name, &table[position], sizeof library->api.name);
    ORT_LATER_FUNCTIONS(ORT_X)
#undef ORT_X
    return 0;
}

int ort_library_load(struct ort_library *library, const struct prn_runtime_config *config,
                     struct prony_error *err)
{
    /* A profiler doesn't phone home. It must be said before the library is there (its own switch
     * comes too late), and it also spares the measurement a thread and fsyncs. */
    setenv("ORT_DISABLE_TELEMETRY", "1", 1);
    int code = prn_library_load(&ort_search, config, &library->loaded, err);
    return code < 0 ? code : fill_table(library, err);
}
