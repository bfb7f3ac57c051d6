#include "pipeline/torch_dtype.h"

#include "model/dtype.h"

#include <string.h>

/* Of several names of a type, the first is the one that PyTorch prints. */
static const struct {
    const char *name;
    int dtype;
} known[] = {
    {"torch.float32", PRN_DTYPE_FLOAT},
    {"torch.float", PRN_DTYPE_FLOAT},
    {"torch.float64", PRN_DTYPE_DOUBLE},
    {"torch.double", PRN_DTYPE_DOUBLE},
    {"torch.float16", PRN_DTYPE_FLOAT16},
    {"torch.half", PRN_DTYPE_FLOAT16},
    {"torch.bfloat16", PRN_DTYPE_BFLOAT16},
    {"torch.float8_e4m3fn", PRN_DTYPE_FLOAT8E4M3FN},
    {"torch.float8_e4m3fnuz", PRN_DTYPE_FLOAT8E4M3FNUZ},
    {"torch.float8_e5m2", PRN_DTYPE_FLOAT8E5M2},
    {"torch.float8_e5m2fnuz", PRN_DTYPE_FLOAT8E5M2FNUZ},
    {"torch.uint8", PRN_DTYPE_UINT8},
    {"torch.int8", PRN_DTYPE_INT8},
    {"torch.uint16", PRN_DTYPE_UINT16},
    {"torch.int16", PRN_DTYPE_INT16},
    {"torch.short", PRN_DTYPE_INT16},
    {"torch.uint32", PRN_DTYPE_UINT32},
    {"torch.int32", PRN_DTYPE_INT32},
    {"torch.int", PRN_DTYPE_INT32},
    {"torch.uint64", PRN_DTYPE_UINT64},
    {"torch.int64", PRN_DTYPE_INT64},
    {"torch.long", PRN_DTYPE_INT64},
    {"torch.bool", PRN_DTYPE_BOOL},
    {"torch.complex64", PRN_DTYPE_COMPLEX64},
    {"torch.complex128", PRN_DTYPE_COMPLEX128},
};

size_t prn_torch_dtype_bytes(const char *name)
{
    for (size_t i = 0; i < PRN_ARRAY_SIZE(known); i++)
        if (strcmp(name, known[i].name) == 0)
            return (size_t)prn_dtype_bits(known[i].dtype) / 8;
    return 0;
}

const char *prn_torch_dtype_name(int dtype)
{
    for (size_t i = 0; i < PRN_ARRAY_SIZE(known); i++)
        if (known[i].dtype == dtype)
            return known[i].name;
    return NULL;
}
