#include "model/dtype.h"

#include <stdio.h>

const char *prn_dtype_name(int dtype)
{
    static _Thread_local char unknown[24];
    switch (dtype) {
#define PRN_X(number, name, text, bits) \
    case number:                        \
        return text;
        PRN_DTYPE_MAP(PRN_X)
#undef PRN_X
    default:
        snprintf(unknown, sizeof unknown, "type %d", dtype);
        return unknown;
    }
}

int prn_dtype_bits(int dtype)
{
    switch (dtype) {
#define PRN_X(number, name, text, bits) \
    case number:                        \
        return bits;
        PRN_DTYPE_MAP(PRN_X)
#undef PRN_X
    default:
        return 0;
    }
}

bool prn_dtype_is_float(int dtype)
{
    switch (dtype) {
    case PRN_DTYPE_FLOAT:
    case PRN_DTYPE_FLOAT16:
    case PRN_DTYPE_DOUBLE:
    case PRN_DTYPE_BFLOAT16:
    case PRN_DTYPE_FLOAT8E4M3FN:
    case PRN_DTYPE_FLOAT8E4M3FNUZ:
    case PRN_DTYPE_FLOAT8E5M2:
    case PRN_DTYPE_FLOAT8E5M2FNUZ:
    case PRN_DTYPE_FLOAT8E8M0:
    case PRN_DTYPE_FLOAT4E2M1:
        return true;
    default:
        return false;
    }
}

bool prn_dtype_is_integer(int dtype)
{
    switch (dtype) {
    case PRN_DTYPE_UINT8:
    case PRN_DTYPE_INT8:
    case PRN_DTYPE_UINT16:
    case PRN_DTYPE_INT16:
    case PRN_DTYPE_INT32:
    case PRN_DTYPE_INT64:
    case PRN_DTYPE_UINT32:
    case PRN_DTYPE_UINT64:
    case PRN_DTYPE_UINT4:
    case PRN_DTYPE_INT4:
    case PRN_DTYPE_UINT2:
    case PRN_DTYPE_INT2:
        return true;
    default:
        return false;
    }
}

int prn_dims_elements(const int64_t *dims, size_t rank, int64_t *ret_elements)
{
    int64_t elements = 1;
    for (size_t i = 0; i < rank; i++)
        if (dims[i] < 0 || __builtin_mul_overflow(elements, dims[i], &elements))
            return PRONY_ELIMIT;
    *ret_elements = elements;
    return 0;
}

int prn_dtype_bytes(int dtype, const int64_t *dims, size_t rank, size_t *ret_bytes)
{
    int bits = prn_dtype_bits(dtype);
    int64_t elements;
    int64_t total;
    if (bits == 0)
        return PRONY_EUNSUPPORTED;
    if (prn_dims_elements(dims, rank, &elements) < 0 ||
        __builtin_mul_overflow(elements, (int64_t)bits, &total) || total > INT64_MAX - 7)
        return PRONY_ELIMIT;
    *ret_bytes = (size_t)((total + 7) / 8);
    return 0;
}

const char *prn_dims_text(const int64_t *dims, size_t rank, char *buffer, size_t size)
{
    if (rank == 0)
        snprintf(buffer, size, "scalar");
    size_t used = 0;
    for (size_t i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%lld", i ? "x" : "",
                                 (long long)dims[i]);
    return buffer;
}
