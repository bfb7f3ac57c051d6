"""Builds the wheel: the Python files, the extension, and an installation of prony beside them.

CMake does the building, in the folder `build` of the source tree (PRONY_BUILD names another), and
only what isn't built yet. Nothing is installed on the machine: Debian packages that are missing are
named, and the build ends. PRONY_SETUP=no doesn't look for them, and takes what is there.

The wheel is for this machine; `make wheel` makes one for others of it.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("PRONY_BUILD", ROOT / "build")).resolve()
STAGE = BUILD / "wheel"  # what setuptools makes stays out of the source tree


def version():
    header = (ROOT / "include/prony/prony.h").read_text()
    return ".".join(re.findall(r"#define PRONY_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))


def run(what, *argv, **variables):
    """pip shows what is printed when it is told to (-v), and when the build fails."""
    print(f"prony: {what}", flush=True)
    try:
        finished = subprocess.run(
            [str(word) for word in argv], cwd=ROOT, env={**os.environ, **variables},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except FileNotFoundError:
        sys.exit(f"prony: error: '{argv[0]}' is not installed")
    if finished.returncode != 0:
        sys.stderr.write(finished.stdout.decode(errors="replace"))
        sys.exit(f"prony: error: '{argv[0]}' failed: see above")


def build_prony():
    if os.environ.get("PRONY_SETUP") != "no":
        run("looking for what the build needs", "tools/setup", BUILD, "build",
            PRONY_APT="no", PRONY_RUNTIMES="no")
    if not (BUILD / "CMakeCache.txt").exists():
        run(f"configuring in '{BUILD}'", "cmake", "-G", "Ninja", "-S", ROOT, "-B", BUILD,
            "-DPRONY_PYTHON=ON", f"-DPython3_EXECUTABLE={sys.executable}")
    run(f"building in '{BUILD}'", "cmake", "--build", BUILD)
    if not (BUILD / "python/prony/_native.abi3.so").exists():
        sys.exit(f"prony: error: no extension in '{BUILD}/python': are Python's headers there?")


class BuildPackage(build_py):
    def run(self):
        super().run()
        build_prony()
        package = pathlib.Path(self.build_lib).resolve() / "prony"
        shutil.copy2(BUILD / "python/prony/_native.abi3.so", package)
        shutil.rmtree(package / "_bundle", ignore_errors=True)
        run("installing the program into the package", "cmake", "--install", BUILD, "--strip",
            "--component", "program", "--prefix", package / "_bundle")
        run("stripping the extension", "strip", package / "_native.abi3.so")


class StableWheel(bdist_wheel):
    def get_tag(self):
        return "cp310", "abi3", super().get_tag()[2]


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


if not (ROOT / "CMakeLists.txt").exists():
    sys.exit(f"prony: error: '{ROOT}' is not prony's source tree: the folder 'python' can't be built "
             "without what lies around it. Run 'pip install ./python' in a clone of the repository, "
             "or install a wheel.")
STAGE.mkdir(parents=True, exist_ok=True)
setup(
    version=version(),
    packages=["prony", "octoml_profile"],
    package_data={"prony": ["py.typed", "*.pyi"], "octoml_profile": ["py.typed"]},
    distclass=BinaryDistribution,
    cmdclass={"build_py": BuildPackage, "bdist_wheel": StableWheel},
    options={
        "build": {"build_base": str(STAGE / "build")},
        "egg_info": {"egg_base": str(STAGE)},
        "bdist_wheel": {"bdist_dir": str(STAGE / "wheel")},
    },
)
