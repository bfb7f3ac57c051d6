"""The examples with networks of transformers and diffusers: from a configuration, with random weights.
`make test-long` installs those two beside PyTorch, in an environment of their own."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

from python_parts import BUILD, PATIENCE, ROOT

MODELS = BUILD / "venv-models/bin/python"

pytestmark = [pytest.mark.long, pytest.mark.timeout(2 * PATIENCE),
              pytest.mark.skipif(not MODELS.exists(), reason="`make test-long` installs transformers")]

# What an example prints last; its functions, with the number of profiles of each.
EXAMPLES = {
    "distilbert": ("4 texts, 2 labels", {"classify": 1}),
    "minilm": ("sentences of 4 lengths, 1 graph", {"embed": 1}),
    "resnet": ("one of 10 labels: True", {"recognise": 1}),
    "t5": ("the same 6 tokens as without profiling", {"T5Stack.forward": 3}),
    "gpt_neo": ("the same 11 tokens here, there, and while profiling", {"GPTNeoModel.forward": 1}),
    "whisper": ("the same 6 words here and there", {"listen": 1, "step": 1}),
    "diffusion": ("a picture of 16×16", {"encode": 1, "denoise": 1, "decode": 1}),
    "clip": ("3 texts, chances that add up to 1.00", {"match": 1}),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(tmp_path, name):
    """Its graphs run on every backend, and give what PyTorch gives."""
    says, functions = EXAMPLES[name]
    # Executors of PyTorch have no need of transformers.
    done = subprocess.run(
        [MODELS, ROOT / f"examples/pytorch/{name}.py"], capture_output=True, text=True, cwd=tmp_path,
        timeout=2 * PATIENCE, env={**os.environ, "PRONY_PYTHON": sys.executable, "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr
    assert says in done.stdout.splitlines()[-1]
    found = dict(re.findall(r"^Function `(.*)` has (\d+) profiles?:", done.stdout, re.MULTILINE))
    assert {function: int(n) for function, n in found.items()} == functions, done.stdout
    assert "Outputs of all backends agree with those computed locally." in done.stdout
    assert "ran locally" not in done.stdout and "Problem:" not in done.stdout and "N/A  N/A" not in done.stdout
    assert not re.search(r"MISMATCH|PARTIAL|compilation occurred", done.stdout), done.stdout


def test_every_example_is_here():
    known = {path.stem for path in (ROOT / "examples/pytorch").glob("*.py")
             if "transformers" in path.read_text()}
    assert known == set(EXAMPLES)
    page = pathlib.Path(ROOT / "docs/pytorch.md").read_text()
    assert [name for name in EXAMPLES if f"examples/pytorch/{name}.py" not in page] == []
