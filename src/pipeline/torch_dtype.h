/* PyTorch's names of element types, by which the pipeline's files call them. */
#ifndef PRN_PIPELINE_TORCH_DTYPE_H
#define PRN_PIPELINE_TORCH_DTYPE_H

#include <stddef.h>

/* Bytes of an element of "torch.float32" and its like; 0 when the name isn't known. */
size_t prn_torch_dtype_bytes(const char *name);

/* "torch.float32" for PRN_DTYPE_FLOAT; NULL when PyTorch has no such type. */
const char *prn_torch_dtype_name(int dtype);

#endif
