"""FXPROTO through the extension: trees of Python values, packed and read again."""
import json
import subprocess

import pytest

from conftest import BUILD, TORCH
from fxgraph import fx

TREE = {
    "nodes": [
        ("placeholder", "w"), ("placeholder", "x"),
        ("call_function", "y", ("op", "aten", "add", "Tensor"), [("node", "x"), ("node", "w")],
         [("alpha", ("int", -123456789012345678901234567890)), ("other", ("float", 1.5))]),
        ("call_function", "z", ("operator", "getitem"), [("list", [("bool", True), ("none",)])], []),
        ("call_function", "t", ("torch", "tensor"),
         [("tuple", [("string", "µ"), ("device", "cuda", 1), ("device", "cpu", None), ("dtype", 66),
                     ("memory_format", 3), ("layout", 1)])], []),
        ("output", "out", ("tuple", [("node", "y"), ("list", [])]))],
    "fixed_inputs": [("tensor", 66, [2, 3], 0, 16, 24)],
}


# Reads pieces of code, and prints what each of them printed: importing torch takes longest.
LOOP = f"""
import contextlib, io, json, sys
from prony import _native as n
TREE = {TREE!r}
for line in sys.stdin:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(json.loads(line), dict(n=n, TREE=TREE))
    print(json.dumps(out.getvalue()), flush=True)
"""


@pytest.fixture(scope="module")
def native():
    """native(code): what it prints, in an interpreter that has torch."""
    with subprocess.Popen([TORCH, "-c", LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={"PYTHONPATH": str(BUILD / "python"),
                               "PYTHONDONTWRITEBYTECODE": "1"}) as process:
        def call(code):
            process.stdin.write(json.dumps(code) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield call
        process.stdin.close()


def test_round_trip(native):
    packed = bytes.fromhex(native("assert n.fx_unpack(n.fx_pack(TREE)) == TREE\n"
                                  "print(n.fx_pack(TREE).hex())"))
    model = fx.Model.FromString(packed)
    assert [node.name for node in model.graph.nodes] == ["w", "x", "y", "z", "t", "out"]
    call = model.graph.nodes[2].call_function
    assert call.kwargs[0].value.integer == "-123456789012345678901234567890"
    assert model.fixed_inputs[0].value.tensor.shape == [2, 3]
    assert model.SerializeToString(deterministic=True) == packed


BAD = {
    "[]": "ValueError: what is given isn't as the tree of an FXPROTO graph has it",
    "{}": "ValueError: what is given isn't as",
    "dict(TREE, nodes=[1])": "ValueError: a tuple isn't as",
    "dict(TREE, nodes=[('placeholder',)])": "ValueError: a tuple isn't as",
    "dict(TREE, nodes=[('magic', 'x')])": "ValueError: a node isn't as",
    "dict(TREE, nodes=[('output', 'x', ('magic',))])": "ValueError: a value isn't as",
    "dict(TREE, nodes=[('output', 'x', ('int', '1'))])": "ValueError: an integer isn't as",
    "dict(TREE, nodes=[('output', 'x', ('string', 'a\\0b'))])": "ValueError: a text with a NUL isn't as",
    "dict(TREE, nodes=[('output', 'x', ('node', 'x'))])": "ValueError: 1 fixed inputs for 0",
    "dict(TREE, nodes=[('output', 'x', ('dtype', 1 << 40))])": "ValueError: a number isn't as",
    "dict(TREE, fixed_inputs=[('tensor', 66, [1 << 70], 0, 0, 4)])": "OverflowError: ",
    "dict(TREE, fixed_inputs=[('tensor', 66, [2], 0, 0, 4)])": "ValueError: node 'fixed input': a tensor",
    "loop": "RecursionError: ",
}


def test_bad_trees(native):
    """Each is an exception that says what is wrong, and nothing leaks through."""
    said = json.loads(native(
        "import json\nitems = []; items.append(('list', items))\n"
        "loop = dict(TREE, nodes=[('output', 'x', ('list', items))])\nsaid = {}\n"
        f"for bad in {list(BAD)!r}:\n"
        "    try:\n        said[bad] = repr(n.fx_pack(eval(bad)))\n"
        "    except Exception as e:\n        said[bad] = f'{type(e).__name__}: {e}'\n"
        "print(json.dumps(said))"))
    for bad, text in BAD.items():
        assert said[bad].startswith(text), (bad, said[bad])


@pytest.mark.parametrize("data, text", [("b''", "it has no nodes"), ("b'\\xff'", "it ends too early"),
                                        ("n.fx_pack(TREE)[:-3]", "ends too early")])
def test_bad_bytes(native, data, text):
    assert text in native(f"try:\n    n.fx_unpack({data})\nexcept ValueError as e:\n    print(e)")
