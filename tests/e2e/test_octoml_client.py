"""The published octoml-profile client against the service, unchanged."""
import numpy as np

from conftest import PATIENCE, ROOT, TORCH, run_program
from service import SMALL, WEIGHT, eventually, serving


def test_octoml_profile_0_2_2(tmp_path):
    (tmp_path / "model.onnx").write_bytes(SMALL)
    np.save(tmp_path / "w.npy", WEIGHT)
    with serving(tmp_path / "s", env={"PRONY_PYTHON": str(TORCH)}) as service, service.client() as client:
        done = run_program([TORCH, ROOT / "tests/octoml_client.py", service.address, tmp_path],
                           timeout=2 * PATIENCE, cwd=tmp_path)
        assert done.status == 0 and done.stdout.endswith("done\n"), done
        assert "using defaults: local/onnxrt-cpu, local/torch-eager-cpu, local/torch-inductor-cpu" in done.stderr
        eventually(lambda: client.backends().details[0].free == 1, "it closed its sessions")
        assert client.status().cache.hits >= 2
