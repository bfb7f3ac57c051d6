"""examples/systemd and examples/container: systemd takes the units, prony takes their command lines."""
import re
import shlex
import shutil

import pytest
import yaml

from conftest import PROGRAM, ROOT, sh
from service import make_certificate

FOLDER = ROOT / "examples/systemd"
UNITS = sorted(p.name for p in FOLDER.glob("*.service")) + ["prony-backup.timer"]
PAGE = (ROOT / "docs/operate.md").read_text()
# Of 10 ("UNSAFE"); what systemd makes of a unit without any of its protection is 9.2 or more.
EXPOSED = {"prony-serve.service": 40, "prony-worker.service": 40, "prony-backup.service": 60}


@pytest.fixture
def units(tmp_path):
    """The units, with programs that are on this machine."""
    for name in UNITS:
        text = (FOLDER / name).read_text()
        text = text.replace("/usr/bin/prony", str(tmp_path / "prony"))
        (tmp_path / name).write_text(re.sub(r"^Documentation=man.*\n", "", text, flags=re.M))
    (tmp_path / "prony").symlink_to(PROGRAM)  # a unit's path has no spaces
    return tmp_path


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd")
def test_systemd_takes_them(units):
    sh("systemd-analyze", "verify", "--man=no", *(units / name for name in UNITS),
       env={"SYSTEMD_LOG_LEVEL": "warning"})
    for name, most in EXPOSED.items():
        sh("systemd-analyze", "security", "--offline=yes", f"--threshold={most}", units / name)


def commands():
    for name in UNITS:
        for line in re.findall(r"^ExecStart=(.*)$", (FOLDER / name).read_text(), re.M):
            yield name, shlex.split(line)


def test_prony_takes_the_command_lines(prony, workdir):
    seen = 0
    for name, (program, *words) in commands():
        assert program == "/usr/bin/prony"
        words = [re.sub(r"^(/|%d/)", f"{workdir}/", w).replace("${PRONY_SERVER}", "127.0.0.1:1")
                 .replace("${PRONY_HARDWARE}", "lab-cpu") for w in words]
        done = prony(*words)
        assert done.status == 1 and "No such file or directory" in done.stderr, (name, done.stderr)
        assert prony(*words, "--colour").status == 2
        seen += 1
    assert seen == 3


def test_prony_takes_the_configuration(prony, workdir):
    make_certificate(workdir)
    text = (FOLDER / "serve.yml").read_text().replace("/etc/prony/", "").replace("/var/lib/prony", "state")
    (workdir / "serve.yml").write_text(text)
    done = prony("serve", "--config", "serve.yml", "--backup", "x")
    assert done.status == 1 and "state.db': No such file" in done.stderr
    assert yaml.safe_load(text)["pools"][0]["name"] in PAGE


def test_the_page_names_every_file():
    for path in [*FOLDER.iterdir(), *(ROOT / "examples/container").iterdir()]:
        assert path.name in PAGE or path.name in UNITS and path.stem in PAGE, path
    version = sh("python3", ROOT / "tools/version.py").strip()
    assert f"-t prony:{version}" in (ROOT / "examples/container/Containerfile").read_text()
