/* Element types of tensors, under ONNX's own numbers (TensorProto.DataType), which ONNX Runtime's C
 * API shares. */
#ifndef PRN_MODEL_DTYPE_H
#define PRN_MODEL_DTYPE_H

#include "base/error.h"

#include <stdbool.h>

#define PRN_DTYPE_MAP(X) PRONY_DTYPE_MAP(X)

enum prn_dtype {
    PRN_DTYPE_UNDEFINED = 0,
#define PRN_X(number, name, text, bits) PRN_DTYPE_##name = number,
    PRN_DTYPE_MAP(PRN_X)
#undef PRN_X
        PRN_DTYPE_COUNT, /* one more than the last */
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
