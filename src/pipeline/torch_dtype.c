#include "pipeline/torch_dtype.h"

#include "base/error.h"

#include <string.h>

size_t prn_torch_dtype_bytes(const char *name)
{
    static const struct {
        const char *name;
        size_t bytes;
    } known[] = {
        {"float32", 4},
        {"float", 4},
        {"float64", 8},
        {"double", 8},
        {"float16", 2},
        {"half", 2},
        {"bfloat16", 2},
        {"float8_e4m3fn", 1},
        {"float8_e4m3fnuz", 1},
        {"float8_e5m2", 1},
        {"float8_e5m2fnuz", 1},
        {"uint8", 1},
        {"int8", 1},
        {"uint16", 2},
        {"int16", 2},
        {"short", 2},
        {"uint32", 4},
        {"int32", 4},
        {"int", 4},
        {"uint64", 8},
        {"int64", 8},
        {"long", 8},
        {"bool", 1},
        {"complex64", 8},
        {"complex128", 16},
    };
    static const char prefix[] = "torch.";
    if (strncmp(name, prefix, strlen(prefix)) != 0)
        return 0;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(known); i++)
        if (strcmp(name + strlen(prefix), known[i].name) == 0)
            return known[i].bytes;
    return 0;
}
