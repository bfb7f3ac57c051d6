/* Finds and loads the ONNX Runtime library, and fills our view of its table of functions. */
#include "runtime/onnxrt/api.h"

#include "base/buffer.h"
#include "base/self.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ort_api_base {
    const void *const *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
};

#define HOW_TO_GET                                                                      \
    "give --ort-lib FILE or set PRONY_ORT_LIB (the npm package onnxruntime-node holds " \
    "libonnxruntime.so.1; 'make demo' fetches it)"

static void *try_load(const char *name, struct prn_buffer *tried)
{
    /* A path that isn't there is not worth a line of the loader's. */
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *reason = dlerror();
        bool absent = strchr(name, '/') ? access(name, F_OK) != 0
                                        : reason && strstr(reason, "cannot open shared object");
        prn_buffer_printf(tried, "%s'%s' (%s)", tried->len ? ", " : "", name,
                          absent ? "not found" : reason);
    }
    return handle;
}

static void *search(const char *wanted, struct prn_buffer *tried)
{
    const char *from_environment = getenv("PRONY_ORT_LIB");
    if (wanted)
        return try_load(wanted, tried);
    if (from_environment && from_environment[0])
        return try_load(from_environment, tried);
    void *handle = try_load("libonnxruntime.so.1", tried);
    if (!handle)
        handle = try_load("libonnxruntime.so", tried);
    char folder[PATH_MAX];
    if (handle || !prn_own_folder(folder))
        return handle;
    /* What set-up fetched lies beside this program or library. */
    static const char *const places[] = {"deps/onnxruntime", "../lib/prony", "prony",
                                         "../" PRN_LIBDIR "/prony", "../deps/onnxruntime"};
    for (size_t i = 0; !handle && i < PRN_ARRAY_SIZE(places); i++) {
        char path[PATH_MAX + 64];
        snprintf(path, sizeof path, "%s/%s/libonnxruntime.so.1", folder, places[i]);
        if (access(path, F_OK) == 0)
            handle = try_load(path, tried);
    }
    return handle;
}

static int fill_table(struct ort_library *library, struct prony_error *err)
{
    union {
        void *object;
        const struct ort_api_base *(*function)(void);
    } symbol = {.object = dlsym(library->handle, "OrtGetApiBase")};
    const struct ort_api_base *base = symbol.object ? symbol.function() : NULL;
    if (!base)
        return prn_fail(err, PRONY_EUNAVAILABLE, "'%s' is not an ONNX Runtime library; " HOW_TO_GET,
                        library->path);
    snprintf(library->version, sizeof library->version, "%s", base->GetVersionString());
    int major = 0;
    int minor = 0;
    if (sscanf(library->version, "%d.%d", &major, &minor) != 2 || major != 1 ||
        minor < ORT_OLDEST_MINOR)
        return prn_fail(err, PRONY_EUNAVAILABLE,
                        "ONNX Runtime %s in '%s' is too old, 1.%d or newer is needed; " HOW_TO_GET,
                        library->version, library->path, ORT_OLDEST_MINOR);
    const void *const *table = base->GetApi(ORT_OLDEST_MINOR);
    if (!table)
        return prn_fail(err, PRONY_EUNAVAILABLE,
                        "ONNX Runtime %s in '%s' doesn't offer the C API of 1.%d", library->version,
                        library->path, ORT_OLDEST_MINOR);
#define ORT_X(position, name, result, parameters) \
    memcpy(&library->api.name, &table[position], sizeof library->api.name);
    ORT_FUNCTIONS(ORT_X)
#undef ORT_X
    return 0;
}

int ort_library_load(struct ort_library *library, const char *wanted, struct prony_error *err)
{
    /* A profiler doesn't phone home. It must be said before the library is there (its own switch
     * comes too late), and it also spares the measurement a thread and fsyncs. */
    setenv("ORT_DISABLE_TELEMETRY", "1", 1);
    struct prn_buffer tried = PRN_BUFFER_INIT(4096);
    library->handle = search(wanted, &tried);
    if (!library->handle) {
        int code =
            prn_fail(err, PRONY_EUNAVAILABLE, "cannot load ONNX Runtime: " HOW_TO_GET "; tried %s",
                     prn_buffer_text(&tried));
        prn_buffer_release(&tried);
        return code;
    }
    prn_buffer_release(&tried);
    struct link_map *map = NULL;
    if (dlinfo(library->handle, RTLD_DI_LINKMAP, &map) == 0 && map)
        snprintf(library->path, sizeof library->path, "%s", map->l_name);
    return fill_table(library, err);
}
