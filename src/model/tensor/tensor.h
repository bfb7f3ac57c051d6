/*
 * A tensor with data, and the files that one can come from: .npy (NumPy 1.0-3.0, little-endian,
 * C order), .pb (ONNX TensorProto), .raw (bytes, shape known from elsewhere).
 *
 * Strings are held as one block: `elements` + 1 offsets (uint64_t) into the characters that follow
 * them, so that a tensor is always one run of bytes.
 */
#ifndef PRN_MODEL_TENSOR_H
#define PRN_MODEL_TENSOR_H

#include "model/model.h"

struct prn_tensor {
    int dtype;
    size_t rank;
    int64_t dims[PRN_RANK_MAX];
    size_t bytes;
    void *data; /* heap, owned; NULL when bytes is 0 */
};

void prn_tensor_release(struct prn_tensor *t);

/* Reads a file for input `input`: the kind by its ending. The type and shape must fit the input;
 * dimensions that the model leaves open take the file's. .raw takes the input's own shape; uint16
 * stands for bfloat16, which NumPy doesn't have. */
PRONY_MUST_CHECK int prn_tensor_read(const char *path, const struct prn_input *input,
                                     struct prn_tensor *ret_tensor, struct prony_error *err);

/* Parses an ONNX TensorProto (all typed fields, raw_data; external data refused). `name` is for
 * errors; *ret_name, if wanted, is the tensor's own name, to be freed. */
PRONY_MUST_CHECK int prn_tensor_parse_pb(const void *data, size_t len, const char *name,
                                         struct prn_tensor *ret_tensor, char **ret_name,
                                         struct prony_error *err);

/* Parses a NumPy file in memory. bool, ints, floats, complex; float16 as '<f2'; strings '<U'. */
PRONY_MUST_CHECK int prn_tensor_parse_npy(const void *data, size_t len, const char *name,
                                          struct prn_tensor *ret_tensor, struct prony_error *err);

/* How an input is filled. */
enum prn_fill {
    PRN_FILL_DEFAULT, /* by the input's role */
    PRN_FILL_RANDOM,
    PRN_FILL_ONES,
    PRN_FILL_ZEROS,
    PRN_FILL_NUMBER,
};

/* Makes a tensor for an input. Deterministic: the same seed, name, type and shape give the same
 * bytes, whatever other inputs there are. Defaults: floats in [0,1), ids in [0, bound), masks and
 * other integers and bools 1, strings "a". */
PRONY_MUST_CHECK int prn_tensor_fill(const struct prn_input *input, enum prn_fill fill,
                                     double number, uint64_t seed, struct prn_tensor *ret_tensor,
                                     struct prony_error *err);

/* Converts one value to an element of `dtype` at `data` (packed types at bit position `index`).
 * Saturates: a finite value beyond the type becomes its largest; integers drop the fraction. And
 * back; half, bfloat16 and the float8 kinds are decoded, strings give NAN. Of a complex number this
 * is the real part; both parts can be had as twice as many elements of the real type. */
void prn_tensor_set(void *data, int dtype, size_t index, double value);
double prn_tensor_get(const void *data, int dtype, size_t index);

#endif
