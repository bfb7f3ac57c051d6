/* What the files behind tensor.h share. */
#ifndef PRN_MODEL_TENSOR_PARTS_H
#define PRN_MODEL_TENSOR_PARTS_H

#include "model/tensor/tensor.h"

#define PRN_TENSOR_MAX_BYTES ((size_t)16 << 30)

/* Fails with "cannot read 'name': …". */
int prn_tensor_fail(struct prony_error *err, int code, const char *name, const char *format, ...)
    PRN_PRINTF(4, 5);

/* Elements and bytes of the shape that `t` has, checked against the limit; 0 bytes for strings. */
PRONY_MUST_CHECK int prn_tensor_measure(const struct prn_tensor *t, const char *name,
                                        int64_t *ret_elements, size_t *ret_bytes,
                                        struct prony_error *err);

/* Memory for `bytes`; the tensor owns it. */
PRONY_MUST_CHECK int prn_tensor_allocate(struct prn_tensor *t, size_t bytes,
                                         struct prony_error *err);

/* Memory for `elements` strings of `characters` bytes in all, which are then added in order. */
PRONY_MUST_CHECK int prn_tensor_allocate_strings(struct prn_tensor *t, size_t elements,
                                                 size_t characters, struct prony_error *err);
void prn_tensor_add_string(struct prn_tensor *t, size_t elements, size_t index, const char *text,
                           size_t len);

/* Bools from outside: every byte that isn't 0 becomes 1. */
void prn_tensor_clean_bools(struct prn_tensor *t);

/* As prn_tensor_parse_npy. NumPy has no name for bfloat16, the float8 kinds and the packed types,
 * and writes only how wide they are; `expected`, if not 0, then tells which one it is. */
PRONY_MUST_CHECK int prn_tensor_parse_npy_as(const void *data, size_t len, const char *name,
                                             int expected, struct prn_tensor *ret_tensor,
                                             struct prony_error *err);

#endif
