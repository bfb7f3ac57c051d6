/* Loads the OpenVINO library, and fills our view of its functions. */
#include "runtime/openvino/api.h"

#include "model/dtype.h"
#include "runtime/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define HOW_TO_GET \
    "'pip install openvino' provides it, --ov-lib FILE or PRONY_OPENVINO_LIB names it"

const struct prn_library_search ov_search = {
    .title = "OpenVINO",
    .option = "ov-lib",
    .help = "OpenVINO library to load (libopenvino_c.so)",
    .variable = "PRONY_OPENVINO_LIB",
    .names = {"libopenvino_c.so"},
    .folder = "openvino",
    .site = {"openvino/libs", "libopenvino_c.so"},
    .how_to_get = HOW_TO_GET,
};

int ov_element_of(int dtype)
{
    switch (dtype) {
#define OV_X(number, name, bits) \
    case PRN_DTYPE_##name:       \
        return number;
        OV_ELEMENT_MAP(OV_X)
#undef OV_X
    default:
        return -1;
    }
}

int ov_element_dtype(int element)
{
    switch (element) {
#define OV_X(number, name, bits) \
    case number:                 \
        return PRN_DTYPE_##name;
        OV_ELEMENT_MAP(OV_X)
#undef OV_X
    default:
        return PRN_DTYPE_UNDEFINED;
    }
}

static int find_functions(struct ov_library *library, struct prony_error *err)
{
    const char *missing = NULL;
#define OV_X(name, result, parameters)                                 \
    {                                                                  \
        void *symbol = dlsym(library->loaded.handle, #name);           \
        memcpy(&library->api.name, &symbol, sizeof library->api.name); \
        missing = symbol || missing ? missing : #name;                 \
    }
    OV_FUNCTIONS(OV_X)
#undef OV_X
    if (missing)
        return prn_fail(
            err, PRONY_EUNAVAILABLE,
            "'%s' is not an OpenVINO C library, or it is too old: it has no %s; " HOW_TO_GET,
            library->loaded.path, missing);
    return 0;
}

static void read_version(struct ov_library *library)
{
    ov_version_t version = {0};
    if (library->api.ov_get_openvino_version(&version) != 0)
        return;
    /* "2026.4.1-22982-e213a147257-releases/2026/4" */
    snprintf(library->version, sizeof library->version, "%.*s",
             (int)strcspn(version.buildNumber, "-"), version.buildNumber);
    library->api.ov_version_free(&version);
}

static bool has_bits(const struct ov_api *api, OV_ELEMENT element, size_t bits)
{
    enum { ELEMENTS = 64 };
    int64_t dims[] = {ELEMENTS};
    const ov_shape_t shape = {1, dims};
    ov_tensor_t *tensor = NULL;
    size_t bytes = 0;
    bool same = api->ov_tensor_create(element, shape, &tensor) == 0 &&
                api->ov_tensor_get_byte_size(tensor, &bytes) == 0 && bytes == ELEMENTS * bits / 8;
    if (tensor)
        api->ov_tensor_free(tensor);
    return same;
}

/* A type that was put in or left out shifts all behind it, and their sizes tell. */
static int check_elements(const struct ov_library *library, struct prony_error *err)
{
    bool known = true;
#define OV_X(number, name, bits) \
    known = known && (bits == 0 || has_bits(&library->api, number, bits));
    OV_ELEMENT_MAP(OV_X)
#undef OV_X
    if (!known)
        return prn_fail(
            err, PRONY_EUNAVAILABLE,
            "OpenVINO %s in '%s' has unknown numbers for element types; 2026.4 works; " HOW_TO_GET,
            library->version, library->loaded.path);
    return 0;
}

int ov_library_load(struct ov_library *library, const struct prn_runtime_config *config,
                    struct prony_error *err)
{
    int code = prn_library_load(&ov_search, config, &library->loaded, err);
    if (code == 0)
        code = find_functions(library, err);
    if (code == 0) {
        read_version(library);
        code = check_elements(library, err);
    }
    return code;
}
