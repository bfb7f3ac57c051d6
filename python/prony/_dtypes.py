"""Element types under the numbers that ONNX and FXPROTO (proto/fxgraph.proto) give them."""

from __future__ import annotations

import torch

ONNX: dict[torch.dtype, int] = {
    torch.float32: 1, torch.uint8: 2, torch.int8: 3, torch.uint16: 4, torch.int16: 5,
    torch.int32: 6, torch.int64: 7, torch.bool: 9, torch.float16: 10, torch.float64: 11,
    torch.uint32: 12, torch.uint64: 13, torch.complex64: 14, torch.complex128: 15,
    torch.bfloat16: 16,
}

FX: dict[torch.dtype, int] = {
    torch.bool: 16, torch.int8: 32, torch.int16: 33, torch.int32: 34, torch.int64: 35,
    torch.uint8: 48, torch.uint16: 49, torch.uint32: 50, torch.uint64: 51, torch.float16: 65,
    torch.float32: 66, torch.float64: 67, torch.bfloat16: 81,
    torch.complex32: 98, torch.complex64: 99, torch.complex128: 100,
}

FROM_ONNX: dict[int, torch.dtype] = {number: dtype for dtype, number in ONNX.items()}
