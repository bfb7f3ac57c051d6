"""Builds the wheel: the Python files, the extension, and an installation of prony beside them.

CMake does the building, in the folder `build` of the source tree (PRONY_BUILD names another), and
only what isn't built yet. The runtimes that tools/setup fetches go into the wheel; PRONY_SETUP=no
takes those that are there.
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


def run(*argv):
    finished = subprocess.run(
        [str(word) for word in argv], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if finished.returncode != 0:
        sys.stderr.write(finished.stdout.decode(errors="replace"))
        sys.exit(f"setup: '{argv[0]}' failed")


def build_prony():
    if os.environ.get("PRONY_SETUP") != "no":
        run("tools/setup", BUILD, "run")
    if not (BUILD / "CMakeCache.txt").exists():
        run("cmake", "-G", "Ninja", "-S", ROOT, "-B", BUILD, "-DPRONY_PYTHON=ON",
            f"-DPython3_EXECUTABLE={sys.executable}")
    run("cmake", "--build", BUILD)
    if not (BUILD / "python/prony/_native.abi3.so").exists():
        sys.exit(f"setup: no extension in '{BUILD}/python': are Python's headers there?")


def install_bundle(folder):
    """An installation without what only programs in C need. Wheels have no symbolic links, so each
    is the file that it stands for."""
    shutil.rmtree(folder, ignore_errors=True)
    run("cmake", "--install", BUILD, "--prefix", folder)
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".a", ".pc") or path.name == "libprony.so":
            path.unlink()
        elif path.is_symlink() and not (path.resolve().name.startswith("libprony.so")):
            target = path.resolve()
            path.unlink()
            shutil.copy2(target, path)
    for link in folder.rglob("libprony.so.*"):
        if link.is_symlink():
            target = link.resolve()
            link.unlink()
            target.rename(link)


class BuildPackage(build_py):
    def run(self):
        super().run()
        build_prony()
        package = pathlib.Path(self.build_lib).resolve() / "prony"
        shutil.copy2(BUILD / "python/prony/_native.abi3.so", package)
        install_bundle(package / "_bundle")


class StableWheel(bdist_wheel):
    def get_tag(self):
        return "cp311", "abi3", super().get_tag()[2]


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


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
