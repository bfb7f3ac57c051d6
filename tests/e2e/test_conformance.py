"""ONNX's own backend tests: a part of them on each runtime; `make conformance` runs them all."""
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT

EVERY = 13  # prime, so that it doesn't pick the same variant of each operator


@pytest.mark.parametrize("software", ["onnxrt-cpu", "openvino-cpu"])
def test_a_part_gives_what_the_table_says(software):
    done = subprocess.run([sys.executable, ROOT / "tests/conformance/run.py", "--build", BUILD,
                           "--every", str(EVERY), software], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
