"""The packages as users install them: in a new Debian 12 that has nothing of what builds prony.

The new system is a folder that mmdebstrap fills from the mirror that this machine's apt uses, and
programs run in it as in a machine of its own: with chroot, in namespaces of mounts and processes.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD, PATIENCE, ROOT, run_program, sh

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
# A measurement that is quick, and no more than that.
QUICK = ("--launches", "1", "--repeats", "5", "--warmups", "1", "--format", "json")
IN_ROOT = """
root=$1
shift
mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" &&
exec chroot --userspec=1000:1000 "$root" env -i -C /tmp HOME=/tmp LC_ALL=C.UTF-8 \
    PATH=/usr/local/bin:/usr/bin:/bin "$@"
"""


class System:
    """A Debian 12 in a folder."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, *argv, **options):
        """Runs a program in it, as an ordinary user."""
        return run_program(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
                            IN_ROOT, "sh", self.folder, *argv], **options)

    def sh(self, *argv):
        done = self.run(*argv)
        assert done.status == 0, f"{argv}\n{done.stdout}{done.stderr}"
        return done.stdout

    def has(self, pattern):
        return sorted(str(path) for path in self.folder.glob(pattern))


def apt_settings():
    """What reaches the mirror: sources of Debian 12, and the options for the way there."""
    lines = sh("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)",
               "Created-By: Packages", "Origin: Debian").splitlines()
    signed = f"[signed-by={KEYS}] " if os.path.exists(KEYS) else ""
    sources = [f"deb {signed}{line}" for line in lines if " bookworm" in line]
    options = [line for line in sh("apt-config", "dump").splitlines()
               if re.match(r"Acquire::(https?::|Check-Valid-Until|ForceIPv[46]|Retries)", line)]
    return sources, options


@pytest.fixture
def install_debian(tmp_path):
    """install_debian(package...): a new Debian 12 with these packages, names or files."""
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        pytest.skip("root and mmdebstrap are needed")
    sources, options = apt_settings()
    if not sources:
        pytest.skip("this machine's apt has no sources of Debian 12")
    folder = tmp_path / "root"

    def call(*packages):
        files = [package for package in packages if isinstance(package, pathlib.Path)]
        names = [package for package in packages if package not in files]
        done = run_program(
            ["mmdebstrap", "--quiet", "--variant=apt", "--format=directory",
             *[f"--aptopt={option}" for option in options], *[f"--include={name}" for name in names],
             *[f"--customize-hook=copy-in '{file}' /var" for file in files],
             *[f"--customize-hook=chroot \"$1\" apt-get install -y -q --no-install-recommends "
               f"'/var/{file.name}'" for file in files],
             "bookworm", folder, "-"], input="\n".join(sources) + "\n", timeout=1200)
        assert done.status == 0, done.stdout + done.stderr
        return System(folder)

    yield call
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """What `make release` makes of the tree as it is, committed or not."""
    tree = tmp_path_factory.mktemp("release") / "prony"
    shutil.copytree(ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns(
        ".git", "build", "build-*", BUILD.name, "__pycache__", ".pytest_cache"))
    git = ("git", "-C", tree, "-c", "user.name=me", "-c", "user.email=me@localhost")
    sh(*git, "init", "-q")
    sh(*git, "add", "-A")
    sh(*git, "commit", "-q", "-m", "all of it")
    (tree / "build").mkdir()
    for fetched in ("deps", "node", "venv-package"):
        (tree / "build" / fetched).symlink_to(BUILD / fetched)
    sh("tools/release", "build", cwd=tree, timeout=1500)
    return tree / "build/release"


@pytest.fixture(scope="module")
def wheel(release):
    (found,) = release.glob("prony-*.whl")
    return found


@pytest.fixture(scope="module")
def debs(release):
    """By the name of the package."""
    return {path.name.split("_")[0]: path for path in release.glob("*.deb")}


def test_release(release, wheel):
    version = sh(BUILD / "prony", "--version").split()[1]
    machine = sh("dpkg", "--print-architecture").strip()
    assert {path.name for path in release.iterdir()} == {
        "SHA256SUMS", f"prony-{version}.tar.gz", wheel.name, f"prony_{version}_{machine}.deb",
        f"libprony-dev_{version}_{machine}.deb"}
    assert wheel.name.startswith(f"prony-{version}-cp310-abi3-manylinux_2_")
    sh("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=release)


def measured(system, *program):
    """The profile that a program of it gives of a network that it made itself."""
    system.sh(*program, "synth", "mlp", "-o", "/tmp/mlp.onnx")
    profile = json.loads(system.sh(*program, "profile", "/tmp/mlp.onnx", *QUICK))
    assert [result["error"] for result in profile["results"]] == [None] * len(profile["results"])
    return {result["backend"]["software"]: result for result in profile["results"]}


def check_program(system, *program):
    """Pages, and what talks to others, are there."""
    system.sh("sh", "-c", '"$@" profile /tmp/mlp.onnx --launches 1 --repeats 5 --warmups 1 '
              "--format html -o /tmp/page.html", "sh", *program)
    assert "<script" in (system.folder / "tmp/page.html").read_text()
    served = system.sh("sh", "-c", '''
        "$@" serve --listen 127.0.0.1:0 > /tmp/served 2>&1 &
        until address=$(sed -n 's/.* serves on //p' /tmp/served) && [ "$address" ]; do sleep 0.1; done
        "$@" backends --server "$address" --format json
        kill $!''', "sh", *program)
    assert "onnxrt-cpu" in {row["software"] for row in json.loads(served)["backends"]}


def test_debian_package(debs, install_debian):
    system = install_debian("man-db", "bash-completion", debs["prony"])
    assert not system.has("usr/bin/*gcc*") and not system.has("usr/bin/python3*")
    version = sh(BUILD / "prony", "--version")
    assert system.sh("prony", "--version") == version
    found = measured(system, "prony")
    assert set(found) == {"onnxrt-cpu", "openvino-cpu"}
    libraries = {os.path.normpath(result["backend"]["library"]) for result in found.values()}
    assert {str(pathlib.Path(library).parent) for library in libraries} == {"/usr/lib/prony"}
    check_program(system, "prony")
    page = system.sh("env", "MANPAGER=cat", "man", "prony")
    assert "EXIT STATUS" in page and version.strip() in page
    offered = system.sh("bash", "-c", "source /usr/share/bash-completion/bash_completion; "
                        "_completion_loader prony; COMP_WORDS=(prony prof); COMP_CWORD=1; _prony; "
                        'echo "${COMPREPLY[@]}"')
    assert offered == "profile\n"
    assert system.has("usr/share/doc/prony/onnxruntime/**/LICENSE")


def test_development_package(debs):
    """Only its contents: what it depends on takes a compiler and a minute."""
    listed = sh("dpkg-deb", "-c", debs["libprony-dev"])
    for path in ("./usr/include/prony/prony.h", "/libprony.a", "/libprony.so ->", "/prony.pc"):
        assert path in listed
    program = sh("dpkg-deb", "-c", debs["prony"])
    assert "/libprony.so.0 ->" in program and "prony.h" not in program


def test_wheel_is_for_old_machines(wheel):
    shown = " ".join(sh(BUILD / "venv-package/bin/auditwheel", "show", wheel).split())
    tag = re.search(r'following platform tag: "manylinux_2_(\d+)_', shown)
    assert tag and int(tag[1]) <= 36, shown


@pytest.fixture(scope="module")
def wheels(wheel, tmp_path_factory):
    """A folder with the wheel, and with ONNX Runtime's and those that it needs."""
    folder = tmp_path_factory.mktemp("wheels")
    sh(BUILD / "venv-package/bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check",
       "download", "--only-binary=:all:", "--python-version", "3.11", "--dest", folder,
       "onnxruntime")
    shutil.copy(wheel, folder)
    return folder


def test_wheel(wheels, install_debian):
    system = install_debian("python3-venv")
    assert not system.has("usr/bin/*gcc*") and not system.has("usr/lib/**/libgrpc*")
    assert not system.has("usr/lib/**/libjansson*") and not system.has("usr/bin/node*")
    shutil.copytree(wheels, system.folder / "tmp/wheels")
    (system.folder / "tmp/wheels").chmod(0o755)
    system.sh("python3", "-m", "venv", "/tmp/venv")
    system.sh("/tmp/venv/bin/pip", "install", "--quiet", "--no-index", "--find-links", "/tmp/wheels",
              "prony[onnxruntime]")
    found = measured(system, "/tmp/venv/bin/prony")
    assert set(found) == {"onnxrt-cpu"}
    assert found["onnxrt-cpu"]["backend"]["library"].startswith("/tmp/venv/lib/python3.11/")
    check_program(system, "/tmp/venv/bin/python", "-m", "prony")
    version = system.sh("/tmp/venv/bin/python", "-c", "import prony; print(prony.__version__)")
    assert f"prony {version}" == sh(BUILD / "prony", "--version")
    done = system.run("/tmp/venv/bin/python", "-c", "from prony import accelerate")
    assert "pip install 'prony[torch]'" in done.stderr


def pythons():
    """Interpreters of this machine that the wheel is for, but the one that built it."""
    for minor in range(11, 20):
        named = [shutil.which(f"python3.{minor}"),
                 *pathlib.Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3")]
        for python in filter(None, named):
            done = subprocess.run([python, "-c", "import sys, venv; print(sys.version_info[1])"],
                                  capture_output=True, text=True, timeout=PATIENCE)
            if done.stdout == f"{minor}\n" and minor != sys.version_info[1]:
                yield python
                break


@pytest.mark.parametrize("python", list(pythons()))
def test_wheel_with_other_pythons(wheel, python, tmp_path):
    sh(python, "-m", "venv", tmp_path / "venv")
    sh(tmp_path / "venv/bin/python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install",
       "--no-index", wheel)
    version = sh(BUILD / "prony", "--version")
    assert sh(tmp_path / "venv/bin/prony", "--version", env={"PATH": "/nowhere"}) == version
    assert "prony " + sh(tmp_path / "venv/bin/python", "-c", "import prony; print(prony.__version__)",
                         env={"PYTHONPATH": ""}) == version
