#!/usr/bin/env python3
"""Repeats the evidence of the tables: runs the cases that are wrong through a runtime's own Python
package, without prony, and says how they come out there.

    tests/conformance/own_api.py onnxrt-cpu|openvino-cpu

Needs the packages onnx, numpy, and onnxruntime or openvino of the release that is tested.
"""
import sys

import numpy
import onnx
from onnx import numpy_helper

from run import DATA, FOLDER, read_table

RELATIVE, ABSOLUTE = 1e-3, 1e-7  # as ONNX's own runner


def tensors(folder, kind):
    paths = sorted(folder.glob(f"{kind}_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
    return [numpy_helper.to_array(onnx.load_tensor(path)) for path in paths]


def run_onnxrt(model, inputs):
    import onnxruntime
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: x for i, x in zip(session.get_inputs(), inputs)})


def run_openvino(model, inputs):
    import openvino
    core = openvino.Core()
    core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request = core.compile_model(core.read_model(model), "CPU").create_infer_request()
    for i, x in enumerate(inputs[:len(request.input_tensors)]):
        request.set_input_tensor(i, openvino.Tensor(numpy.ascontiguousarray(x)))
    request.infer()
    return [tensor.data for tensor in request.output_tensors]


def difference(actual, expected):
    if actual.shape != expected.shape:
        return f"shape {actual.shape}, not {expected.shape}"
    if actual.dtype.kind in "OUS":
        bad = sum(str(a) != str(b) for a, b in zip(actual.flat, expected.flat))
    else:
        bad = numpy.sum(~numpy.isclose(actual.astype(float), expected.astype(float), RELATIVE,
                                       ABSOLUTE, equal_nan=True))
    return f"{bad} of {actual.size} elements differ" if bad else None


def main():
    software = sys.argv[1]
    run = {"onnxrt-cpu": run_onnxrt, "openvino-cpu": run_openvino}[software]
    table = read_table(FOLDER / "expected" / f"{software}.tsv")
    for case in (case for case, (verdict, _) in table.items() if verdict == "wrong"):
        folder = DATA / case
        try:
            outputs = run(str(folder / "model.onnx"), tensors(folder / "test_data_set_0", "input"))
            faults = [difference(numpy.asarray(a), e) for a, e in
                      zip(outputs, tensors(folder / "test_data_set_0", "output"))]
            says = "; ".join(f"output {i}: {fault}" for i, fault in enumerate(faults) if fault)
        except Exception as fault:  # whatever the package raises is what it says
            says = "refused: " + str(fault).splitlines()[0]
        print(f"{case}\t{says or 'passed'}")


if __name__ == "__main__":
    main()
