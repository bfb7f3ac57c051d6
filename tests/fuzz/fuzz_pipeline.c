/* The pipeline's files: the first byte chooses which one the rest is. */
#include "pipeline/device_types.h"
#include "pipeline/devices.h"
#include "pipeline/models.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_MAX ((size_t)16 << 20)

static void put(const void *data, size_t size, char path[64], int *fd)
{
    *fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (*fd < 0 || write(*fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, 64, "/proc/self/fd/%d", *fd);
}

/* What can be read can be written, and reads back as the same. */
static void check_results(const char *path)
{
    struct prn_layer_profile *profile, *again;
    struct prn_buffer text = PRN_BUFFER_INIT(TEXT_MAX), second = PRN_BUFFER_INIT(TEXT_MAX);
    struct prony_error err;
    if (prn_layer_profile_read(path, &profile, &err) < 0)
        return;
    if (prn_layer_profile_write(profile, &text, &err) == 0) {
        char copy[64];
        int fd;
        put(prn_buffer_text(&text), text.len, copy, &fd);
        if (prn_layer_profile_read(copy, &again, &err) < 0 ||
            prn_layer_profile_write(again, &second, &err) < 0 ||
            strcmp(prn_buffer_text(&text), prn_buffer_text(&second)) != 0)
            abort();
        prn_layer_profile_free(again);
        close(fd);
    }
    prn_buffer_release(&text);
    prn_buffer_release(&second);
    prn_layer_profile_free(profile);
}

static struct prn_layer_profile *small_profile(void)
{
    struct prn_layer_head head = {"m", "torch.float32", 8, 1};
    struct prn_layer_entry entry = {
        .layer = 1, .memory_mb = 1, .memory_fixed_mb = NAN, .time_s = 1, .time_ci_s = NAN};
    struct prn_layer_profile *profile;
    if (prn_layer_profile_open("-", &head, &profile, NULL) < 0 ||
        prn_layer_profile_add(profile, &entry, NULL) < 0)
        abort();
    return profile;
}

/* A file that could be extended has the entry then. */
static void check_models(const char *path)
{
    struct prn_layer_profile *profile = small_profile();
    struct prn_buffer text = PRN_BUFFER_INIT(TEXT_MAX);
    struct prn_arena arena = PRN_ARENA_INIT(TEXT_MAX);
    struct prn_pipeline_model model;
    struct prony_error err;
    if (prn_models_read(path, "m", &arena, &model, &err) == 0 && model.layers == 0)
        abort();
    if (prn_models_extend(path, profile, true, &text, &err) == 0) {
        char copy[64];
        int fd;
        put(prn_buffer_text(&text), text.len, copy, &fd);
        if (prn_models_read(copy, "m", &arena, &model, &err) < 0 || model.layers != 1)
            abort();
        close(fd);
    }
    prn_arena_release(&arena);
    prn_buffer_release(&text);
    prn_layer_profile_free(profile);
}

static void check_types(const char *path)
{
    static const struct prn_device_query query = {"m", "torch.float32", 8, 1};
    struct prn_device_properties properties = {"t", 1, 1, NAN};
    struct prn_layer_profile *profile = small_profile();
    struct prn_buffer text = PRN_BUFFER_INIT(TEXT_MAX);
    struct prn_arena arena = PRN_ARENA_INIT(TEXT_MAX);
    struct prn_device_type *types;
    struct prony_error err;
    size_t n;
    bool readable = prn_device_types_read(path, &query, &arena, &types, &n, &err) == 0;
    if (prn_device_types_extend(path, &properties, profile, true, &text, &err) == 0) {
        char copy[64];
        int fd;
        put(prn_buffer_text(&text), text.len, copy, &fd);
        if (prn_device_types_read(copy, &query, &arena, &types, &n, &err) < 0 && readable)
            abort();
        close(fd);
    }
    prn_arena_release(&arena);
    prn_buffer_release(&text);
    prn_layer_profile_free(profile);
}

static void check_devices(const char *path)
{
    struct prn_arena arena = PRN_ARENA_INIT(TEXT_MAX);
    struct prn_device_hosts *types;
    struct prony_error err;
    size_t n;
    if (prn_devices_read(path, &arena, &types, &n, &err) == 0)
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < types[i].n; k++)
                if (!types[i].hosts[k][0])
                    abort();
    prn_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(const char *path) = {check_results, check_models, check_types,
                                                       check_devices};
    if (size == 0)
        return 0;
    char path[64];
    int fd;
    put(data + 1, size - 1, path, &fd);
    checks[data[0] % 4](path);
    close(fd);
    return 0;
}
