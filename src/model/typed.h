/*
 * The typed fields of ONNX's TensorProto (float_data, int32_data, …): an older way to store
 * elements than raw_data. Each element type belongs to one of the fields.
 */
#ifndef PRN_MODEL_TYPED_H
#define PRN_MODEL_TYPED_H

#include "model/dtype.h"

/* Which field holds elements of a type; 0 when none does. */
uint32_t prn_typed_field(int dtype);

/* Bytes of the tensor that one entry of its typed field makes: half a complex number, a byte of
 * packed small elements, or one element. */
size_t prn_typed_entry_bytes(int dtype);

/* Reads the elements out of a TensorProto, packed or not, as `bytes` little-endian bytes. False
 * when the entries are damaged or aren't exactly as many. */
bool prn_typed_decode(const void *message, size_t len, int dtype, void *data, size_t bytes);

#endif
