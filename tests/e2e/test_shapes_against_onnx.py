"""Shapes and work of `prony model` against ONNX's own examples and published figures.

The onnx package makes a small model with inputs and expected outputs for every operator. Declared
shapes are taken out and inputs made constants, so that a shape can only come from inference.
"""
import collections
import json
import warnings

import numpy
import onnx
import pytest
from onnx import numpy_helper

CASES_PER_OPERATOR = 2
# Their output's shape depends on data that isn't followed.
DATA_DEPENDENT = {"Unique", "NonMaxSuppression", "SequenceAt", "ConcatFromSequence"}
# FLOPs at the networks' standard sizes; the published numbers of multiply-adds are about half.
NETWORKS = {
    "mobilenet-v2": 0.62e9,
    "resnet50": 8.22e9,
    "vit-base-patch16-224": 35.2e9,
    "bert-base": 22.4e9,
}


def tensor(value):
    if isinstance(value, onnx.TensorProto):
        return value
    return numpy_helper.from_array(numpy.asarray(value))


def examples():
    """(name, model, shapes of its outputs) of a few examples per operator."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    taken = collections.Counter()
    for case in cases:
        model = case.model
        values = [*model.graph.input, *model.graph.output] if model else []
        operator = model.graph.node[0].op_type if model else None
        if (not values or not all(v.type.HasField("tensor_type") for v in values)
                or taken[operator] == CASES_PER_OPERATOR):
            continue
        taken[operator] += 1
        arguments, results = case.data_sets[0]
        for value, argument in zip(model.graph.input, arguments):
            constant = model.graph.initializer.add()
            constant.CopyFrom(tensor(argument))
            constant.name = value.name
        del model.graph.input[:]
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")
        yield case.name, model, [list(tensor(r).dims) for r in results]


def test_examples(prony, workdir):
    path = workdir / "example.onnx"
    wrong = []
    compared = 0
    for name, model, expected in examples():
        onnx.save(model, path)
        done = prony("model", path, "--format", "json")
        assert done.status == 0, (name, done.stderr)
        found = json.loads(done.stdout)
        unknown = {n["op_type"] for n in found["not_counted"]
                   if n["reason"] == "operator not known"}
        if unknown or DATA_DEPENDENT & {o["op_type"] for o in found["operators"]}:
            continue
        dims = [output["dims"] for output in found["outputs"]]
        compared += 1
        if dims != expected:
            wrong.append((name, dims, expected))
    assert not wrong
    assert compared > 300


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name, prony, networks):
    done = prony("model", networks[name], "--format", "json")
    assert done.status == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["not_counted"] == []
    assert found["total"]["flops"] == pytest.approx(NETWORKS[name], rel=0.005)
