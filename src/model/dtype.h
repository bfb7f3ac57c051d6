/* Element types of tensors, under ONNX's own numbers (TensorProto.DataType), which ONNX Runtime's C
 * API shares. */
#ifndef PRN_MODEL_DTYPE_H
#define PRN_MODEL_DTYPE_H

#include "base/error.h"

#include <stdbool.h>

/* number, C name, name as ONNX Runtime's shapes write it, bits per element (0: no fixed size) */
#define PRN_DTYPE_MAP(X)                       \
    X(1, FLOAT, "float", 32)                   \
    X(2, UINT8, "uint8", 8)                    \
    X(3, INT8, "int8", 8)                      \
    X(4, UINT16, "uint16", 16)                 \
    X(5, INT16, "int16", 16)                   \
    X(6, INT32, "int32", 32)                   \
    X(7, INT64, "int64", 64)                   \
    X(8, STRING, "string", 0)                  \
    X(9, BOOL, "bool", 8)                      \
    X(10, FLOAT16, "float16", 16)              \
    X(11, DOUBLE, "double", 64)                \
    X(12, UINT32, "uint32", 32)                \
    X(13, UINT64, "uint64", 64)                \
    X(14, COMPLEX64, "complex64", 64)          \
    X(15, COMPLEX128, "complex128", 128)       \
    X(16, BFLOAT16, "bfloat16", 16)            \
    X(17, FLOAT8E4M3FN, "float8e4m3fn", 8)     \
    X(18, FLOAT8E4M3FNUZ, "float8e4m3fnuz", 8) \
    X(19, FLOAT8E5M2, "float8e5m2", 8)         \
    X(20, FLOAT8E5M2FNUZ, "float8e5m2fnuz", 8) \
    X(21, UINT4, "uint4", 4)                   \
    X(22, INT4, "int4", 4)                     \
    X(23, FLOAT4E2M1, "float4e2m1", 4)         \
    X(24, FLOAT8E8M0, "float8e8m0", 8)         \
    X(25, UINT2, "uint2", 2)                   \
    X(26, INT2, "int2", 2)

enum prn_dtype {
    PRN_DTYPE_UNDEFINED = 0,
#define PRN_X(number, name, text, bits) PRN_DTYPE_##name = number,
    PRN_DTYPE_MAP(PRN_X)
#undef PRN_X
};

/* "float"; "type 99" for a number that isn't known. Never NULL. */
const char *prn_dtype_name(int dtype);

/* Bits per element; 0 for strings and unknown types. */
int prn_dtype_bits(int dtype);

bool prn_dtype_is_float(int dtype);   /* any width, complex excepted */
bool prn_dtype_is_integer(int dtype); /* any width, bool excepted */

/* The product of `dims`; PRONY_ELIMIT when one is negative or the product overflows. */
PRONY_MUST_CHECK int prn_dims_elements(const int64_t *dims, size_t rank, int64_t *ret_elements);

/* Bytes of a packed tensor (int4: two to a byte, rounded up); PRONY_ELIMIT on overflow,
 * PRONY_EUNSUPPORTED for types without a fixed size. */
PRONY_MUST_CHECK int prn_dtype_bytes(int dtype, const int64_t *dims, size_t rank,
                                     size_t *ret_bytes);

/* "1x3x224x224", "scalar" for rank 0. */
const char *prn_dims_text(const int64_t *dims, size_t rank, char *buffer, size_t size);

#endif
