#!/usr/bin/env python3
"""Writes tests/data/tensors: one small tensor of every element type in each format that prony
reads, made by NumPy and onnx, and expected.txt, which says what is in them. Some of them also start
the fuzz corpus.

    build/venv/bin/python tests/data/make_tensors.py

    expected.txt: FILE  TYPE NUMBER  DIMS (1x2, "scalar")  VALUES

Values are decimal numbers; complex ones are two, strings are UTF-8 in hexadecimal ("-" when empty).
codes.txt has, for every type of 8 bits or less that has no name in C, its number and the value of
each code.
"""
import pathlib
import shutil

import ml_dtypes
import numpy
from onnx import TensorProto, helper, numpy_helper

FOLDER = pathlib.Path(__file__).resolve().parent / "tensors"
CORPUS = FOLDER.parent.parent / "fuzz" / "corpus" / "tensor"
SEEDS = ["float.npy", "string.npy", "bool.npy", "version2.npy", "scalar.npy", "empty.npy",
         "float.pb", "string.pb", "int4.pb", "uint64.pb", "complex64.pb", "int16-raw.pb"]
NEWEST = TensorProto.INT2  # later types aren't known to prony
NUMPY_NAMES = {
    TensorProto.BFLOAT16: "bfloat16", TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz", TensorProto.FLOAT8E5M2: "float8_e5m2",
    TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz", TensorProto.UINT4: "uint4",
    TensorProto.INT4: "int4", TensorProto.FLOAT4E2M1: "float4_e2m1fn",
    TensorProto.FLOAT8E8M0: "float8_e8m0fnu", TensorProto.UINT2: "uint2", TensorProto.INT2: "int2",
}
SIGNED = (TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64)
UNSIGNED = (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64)


def array_of(number):
    """A 1x5 array of a type, with its extremes; packed types then end inside a byte."""
    if number == TensorProto.STRING:
        return numpy.array([["", "a", "Grüße", "日本", "🙂"]])
    if number == TensorProto.BOOL:
        return numpy.array([[True, False, True, True, False]])
    if number in (TensorProto.COMPLEX64, TensorProto.COMPLEX128):
        return numpy.array([[0, 1, -2.5 + 3j, 0.5j, 1e10]],
                           dtype=helper.tensor_dtype_to_np_dtype(number))
    if number == TensorProto.FLOAT8E8M0:
        return numpy.array([[1, 2, 0.5, 2.0 ** 100, 2.0 ** -100]], dtype=ml_dtypes.float8_e8m0fnu)
    if number in NUMPY_NAMES:
        dtype = getattr(ml_dtypes, NUMPY_NAMES[number])
        bits = {TensorProto.UINT2: [0, 1, 2, 3, 2], TensorProto.INT2: [0, 1, -2, -1, 1],
                TensorProto.UINT4: [0, 1, 15, 8, 7], TensorProto.INT4: [0, 1, -8, -1, 7]}
        return numpy.array([bits.get(number, [0, 1, -1.5, 6, 0.5])]).astype(dtype)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    if number in SIGNED + UNSIGNED:
        limits = numpy.iinfo(dtype)
        # Extremes of 64 bits aren't exact as a double; what is near them is.
        top = limits.max if limits.bits < 64 else limits.max // 2 + 1
        return numpy.array([[0, 1, 100, limits.min, top]], dtype=dtype)
    limits = numpy.finfo(dtype)
    return numpy.array([[0, -1.5, limits.max, limits.smallest_subnormal, numpy.inf]], dtype=dtype)


def text_of(value):
    if isinstance(value, (str, bytes)):
        return (value.encode() if isinstance(value, str) else value).hex() or "-"
    if isinstance(value, (complex, numpy.complexfloating)):
        return f"{value.real:.17g} {value.imag:.17g}"
    return f"{float(value):.17g}"


class Writer:
    def __init__(self):
        FOLDER.mkdir(exist_ok=True)
        self.lines = []

    def expect(self, file, number, array):
        dims = "x".join(map(str, array.shape)) or "scalar"
        values = " ".join(text_of(value) for value in array.ravel().tolist())
        self.lines.append(f"{file}\t{number}\t{dims}\t{values}\n")

    def npy(self, name, number, array, version=None):
        with open(FOLDER / name, "wb") as file:
            numpy.lib.format.write_array(file, array, version, allow_pickle=False)
        self.expect(name, number, array)

    def pb(self, name, tensor, array):
        (FOLDER / name).write_bytes(tensor.SerializeToString(deterministic=True))
        self.expect(name, tensor.data_type, array)


def typed(number, array):
    """The same tensor in its typed field."""
    flat = array.ravel()
    if number == TensorProto.STRING:
        flat = [text.encode() for text in flat.tolist()]
    return helper.make_tensor("typed", number, array.shape, flat)


def codes_of(number):
    dtype = numpy.dtype(getattr(ml_dtypes, NUMPY_NAMES[number]))
    if dtype.itemsize > 1:
        return ""
    codes = numpy.arange({TensorProto.FLOAT4E2M1: 16, TensorProto.UINT4: 16, TensorProto.INT4: 16,
                          TensorProto.UINT2: 4, TensorProto.INT2: 4}.get(number, 256),
                         dtype=numpy.uint8)
    return " ".join([str(number), *(text_of(v) for v in codes.view(dtype).tolist())]) + "\n"


def main():
    out = Writer()
    for name, number in sorted(TensorProto.DataType.items(), key=lambda item: item[1]):
        if not TensorProto.UNDEFINED < number <= NEWEST:
            continue
        array = array_of(number)
        out.npy(f"{name.lower()}.npy", number, array)
        out.pb(f"{name.lower()}.pb", typed(number, array), array)
        if number != TensorProto.STRING:
            raw = numpy_helper.from_array(array, "raw")
            assert raw.data_type == number and raw.raw_data
            out.pb(f"{name.lower()}-raw.pb", raw, array)
    floats = numpy.arange(3, dtype=numpy.float32)
    out.npy("version2.npy", TensorProto.FLOAT, floats, (2, 0))
    out.npy("version3.npy", TensorProto.FLOAT, floats, (3, 0))
    out.npy("scalar.npy", TensorProto.FLOAT, numpy.array(2.5, dtype=numpy.float32))
    out.npy("empty.npy", TensorProto.FLOAT, numpy.zeros((2, 0), dtype=numpy.float32))
    out.npy("bytes.npy", TensorProto.STRING, numpy.array([b"ab", b"", b"c"]))
    out.pb("scalar.pb", helper.make_tensor("scalar", TensorProto.INT64, [], [-7]),
           numpy.array(-7))
    out.pb("empty.pb", helper.make_tensor("empty", TensorProto.DOUBLE, [0, 3], []),
           numpy.zeros((0, 3)))
    (FOLDER / "expected.txt").write_text("".join(out.lines))
    (FOLDER / "codes.txt").write_text("".join(map(codes_of, NUMPY_NAMES)))
    CORPUS.mkdir(exist_ok=True)
    for name in SEEDS:
        shutil.copy(FOLDER / name, CORPUS / name)


if __name__ == "__main__":
    main()
