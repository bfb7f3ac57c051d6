/* TensorDtype of inference_base.proto, and the types under ONNX's numbers. */
#ifndef PRN_RPC_TENSOR_DTYPE_H
#define PRN_RPC_TENSOR_DTYPE_H

#include "model/dtype.h"

#include <inference_base.pb-c.h>

/* Indexed by TensorDtype; what it doesn't have is PRN_DTYPE_UNDEFINED. */
#define PRN_X(name, onnx) [OCTOML_PROFILE__TENSOR_DTYPE__TENSOR_DTYPE_##name] = PRN_DTYPE_##onnx
static const int prn_tensor_dtypes[] = {
    PRN_X(F16, FLOAT16),   PRN_X(F32, FLOAT),     PRN_X(F64, DOUBLE),    PRN_X(I8, INT8),
    PRN_X(I16, INT16),     PRN_X(I32, INT32),     PRN_X(I64, INT64),     PRN_X(UINT8, UINT8),
    PRN_X(UINT16, UINT16), PRN_X(UINT32, UINT32), PRN_X(UINT64, UINT64), PRN_X(BOOL, BOOL),
};
#undef PRN_X

#endif
