"""In a notebook: a kernel of Jupyter's, and the messages that it sends to whoever shows the cells."""
import contextlib
import json
import pathlib
import xml.etree.ElementTree

import prony
import pytest
from front import ONNXRT, OPENVINO
from jupyter_client.manager import start_new_kernel
from python_parts import PATIENCE

# The specification's first program, in the cells in which somebody would write it.
CELLS = [
    """
import torch
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import softmax
from prony import accelerate, remote_profile, RemoteInferenceSession
""",
    """
net = Sequential(Linear(100, 200), ReLU(), Linear(200, 10))

@accelerate
def predict(x):
    return softmax(net(x), dim=-1)
""",
    f"""
with remote_profile(RemoteInferenceSession([{ONNXRT!r}, {OPENVINO!r}])) as handle:
    for _ in range(10):
        predict(torch.randn(1, 100))
handle.report()
""",
]


class Notebook:
    def __init__(self, client, manager):
        self.client, self.manager = client, manager

    def run(self, cell, hook=None):
        """What a cell sends, by kind of message, in its order; `hook` gets each as it comes."""
        messages = []

        def keep(message):
            messages.append((message["msg_type"], message["content"]))
            if hook:
                hook(*messages[-1])

        self.client.execute_interactive(cell, timeout=PATIENCE, output_hook=keep)
        return messages

    def works(self, *cells):
        """The messages of the last of the cells, none of which raises."""
        for cell in cells:
            messages = self.run(cell)
            assert not [c["traceback"] for kind, c in messages if kind == "error"]
        return messages


@pytest.fixture(scope="module")
def notebook():
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=PATIENCE)
    try:
        yield Notebook(client, manager)
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


def lines_of(messages):
    """What the progress line showed, one after the other. It is one, which is updated."""
    shown = [content for kind, content in messages if kind.endswith("display_data")]
    assert len({content["transient"]["display_id"] for content in shown}) == 1
    assert [kind for kind, _ in messages if kind == "display_data"] == ["display_data"]
    return [content["data"]["text/plain"] for content in shown]


def test_the_first_program(notebook):
    messages = notebook.works(*CELLS)
    [result] = [content["data"] for kind, content in messages if kind == "execute_result"]
    page = xml.etree.ElementTree.fromstring(f"<div>{result['text/html']}</div>")
    assert page.find("h4").text == "predict: 9 runs, 1 more discarded"
    head, *rows = [[cell.text for cell in row] for row in page.find("table")]
    assert head == ["Backend", "Backend Time (ms)", "Total Time (ms)", "95 % interval",
                    "Cost ($/MReq)", "Flags"]
    assert [row[0] for row in rows] == [ONNXRT, OPENVINO]
    for _, backend_ms, total_ms, _, cost, _ in rows:
        assert 0 < float(backend_ms) < float(total_ms) and cost == "N/A"
    printed = "".join(content["text"] for kind, content in messages
                      if kind == "stream" and content["name"] == "stdout")
    assert "Profile `predict[1/1]` ran 9 times (1 more discarded: it compiled)." in printed


def test_uploads_are_shown(notebook, server):
    """By the thread that uploads while the result is computed. (What is shown when is for the tests of
    progress on a terminal, which have a clock of their own.)"""
    messages = notebook.works(f"""
import torch
from prony import accelerate, remote_profile
big = torch.nn.Linear(4000, 4000).eval()

@accelerate
def apply(x):
    return big(x)

with remote_profile(backends={ONNXRT!r}, server_addr={server!r}, num_repeats=1,
                    print_results_to=None):
    apply(torch.randn(1, 4000))
""")
    *lines, last = lines_of(messages)
    assert "uploading weights/0 [........................] 0 B of 61 MiB" in lines
    assert "uploaded weights/0, 61 MiB" in lines and last == ""


@contextlib.contextmanager
def held(server):
    """Somebody else has the hardware."""
    session = prony.RemoteInferenceSession(ONNXRT, server_addr=server)
    try:
        yield session
    finally:
        session.close()


WAIT = f"""
from prony import RemoteInferenceSession
with RemoteInferenceSession({ONNXRT!r}, server_addr={{server!r}}) as session:
    print(session.backends[0])
"""


def test_the_queue_is_shown(notebook, server):
    with held(server) as session:
        def release(kind, content):
            if kind == "display_data":
                session.close()

        messages = notebook.run(WAIT.format(server=server), release)
    *lines, last = lines_of(messages)
    assert lines[0].startswith("waiting for local: place 1 in the queue, held by "), lines
    assert last == "" and ("stream", {"name": "stdout", "text": ONNXRT + "\n"}) in messages


def test_waiting_can_be_interrupted(notebook, server):
    with held(server):
        def interrupt(kind, content):
            if kind == "display_data":
                notebook.manager.interrupt_kernel()

        messages = notebook.run(WAIT.format(server=server), interrupt)
    assert [content["ename"] for kind, content in messages if kind == "error"] == ["KeyboardInterrupt"]
    assert lines_of(messages)[-1] == ""
    notebook.works(WAIT.format(server=server))


@pytest.mark.long
def test_the_tour(notebook, tmp_path):
    """Every cell of the notebook among the examples, in a folder of its own."""
    path = pathlib.Path(__file__).resolve().parents[2] / "examples/pytorch/tour.ipynb"
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) == 10 and not any(cell["outputs"] for cell in cells), "kept without times"
    notebook.works(f"import os; os.chdir({str(tmp_path)!r})")
    shown = []
    for cell in cells:
        messages = notebook.works("".join(cell["source"]))
        shown.append("".join(content["data"]["text/plain"] for kind, content in messages
                             if kind == "execute_result"))
        printed = "".join(content["text"] for kind, content in messages if kind == "stream")
        if "remote_profile(session)" in "".join(cell["source"]):
            assert "Profile `recognise[1/1]` ran 9 times" in printed
        if "segments" in "".join(cell["source"]):
            assert printed.count("Local python") == 2 and "Graph #1" in printed
    assert ONNXRT in shown[3] and shown[5].startswith("<Report: recognise (9 runs)")
    assert "local/openvino-cpu" in shown[7]
    assert f"[('{ONNXRT}', False), ('{OPENVINO}', False)]" in shown[8]
    assert (tmp_path / "recognise.json").exists() and "recognise[1/1]" in shown[9]
