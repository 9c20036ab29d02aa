"""Builds the wheel: a build backend (PEP 517) that packs what CMake has built, with the standard library alone.

`pip install ./runtime/bindings/python` takes the build folder that MINUET_BUILD names, else build/release of this
repository. The wheel holds the pure Python package and an installed tree of the build beside it: lib/ (libminuet,
minuet-compile, which it starts, and libminuet_xla, where the build has it), bin/ (the command-line tool), include/ and
share/.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parents[1]
ROOT = HERE.parents[2]
# Linux with glibc 2.34 or newer, to which test_wheel.py holds the binaries.
PLATFORM = "manylinux_2_34"
# Maps ELF's e_machine to the name that wheels use for the machine.
MACHINES = {62: "x86_64", 183: "aarch64"}
# The installed tree less what find_package and pkg-config read, which is for an installation of its own.
NOT_PACKED = ("lib/cmake", "lib/pkgconfig")
# Libraries that a wheel may not expect of its host, which the tool needs, with their licences beside this file.
BUNDLED = {"liblzf.so.1": "LICENSE.liblzf.txt"}
# The end of CMake's script writes into the build folder, which may be read-only.
MANIFEST = re.compile(r'(file\(WRITE ")[^"]*(/\$\{CMAKE_INSTALL_MANIFEST\}")')
# A zip archive knows no earlier date, and the same build gives the same wheel.
DATE = (1980, 1, 1, 0, 0, 0)


def read_version() -> str:
    """Returns the version of the header in Python's form: 0.3.0-dev is 0.3.0.dev0."""
    text = (ROOT / "include/minuet/minuet.h").read_text()
    numbers = [re.search(rf"define MINUET_VERSION_{part} (\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    suffix = re.search(r'define MINUET_VERSION_SUFFIX "(.*?)"', text)
    if not all(numbers) or suffix is None or suffix[1] not in ("", "-dev"):
        raise RuntimeError("include/minuet/minuet.h has no version of a form that is known here")
    return ".".join(number[1] for number in numbers if number) + (".dev0" if suffix[1] else "")


def build_folder() -> pathlib.Path:
    """Returns the folder of CMake's build."""
    folder = pathlib.Path(os.environ.get("MINUET_BUILD") or ROOT / "build/release")
    for name in ("lib/libminuet.so", "lib/minuet-compile", "bin/minuet"):
        if not (folder / name).exists():
            raise RuntimeError(
                f"{folder / name} does not exist: build the library first (cmake --preset release && cmake --build "
                "build/release --target minuet minuet_cli, and minuet_xla for JAX), or name another build folder in "
                "MINUET_BUILD"
            )
    return folder


def install(folder: pathlib.Path, target: pathlib.Path, *options: str) -> None:
    """Installs the build folder into a target folder, with further options for CMake. Writes nothing else."""
    with tempfile.TemporaryDirectory() as scratch:
        script = pathlib.Path(scratch) / "install.cmake"
        text = (folder / "cmake_install.cmake").read_text()
        script.write_text(MANIFEST.sub(lambda found: f"{found[1]}{scratch}{found[2]}", text))
        command = ["cmake", f"-DCMAKE_INSTALL_PREFIX={target}", *options, "-P", str(script)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def install_tree(folder: pathlib.Path, target: pathlib.Path) -> None:
    """Installs the build, stripped, and removes what a wheel does not take."""
    install(folder, target, *(["-DCMAKE_INSTALL_DO_STRIP=1"] if shutil.which("strip") else []))
    for name in NOT_PACKED:
        shutil.rmtree(target / name, ignore_errors=True)
    # A wheel has no links: the library is there once, by the name that the tool asks the loader for.
    versioned = sorted((target / "lib").glob("libminuet.so.*"), key=lambda path: len(path.name))
    content = versioned[-1].read_bytes()
    for path in (target / "lib").glob("libminuet.so*"):
        path.unlink()
    soname = target / "lib" / versioned[0].name
    soname.write_bytes(content)
    soname.chmod(0o755)
    needed = subprocess.run(["ldd", str(target / "bin/minuet")], capture_output=True, text=True, check=True).stdout
    for name in BUNDLED:
        found = re.search(rf"{re.escape(name)} => (\S+)", needed)
        if found:
            shutil.copyfile(found[1], target / "lib" / name)


def tag_of(library: pathlib.Path) -> str:
    """Returns the tag of a wheel with this library: any Python 3, on the machine that the library is for."""
    with library.open("rb") as file:
        machine = int.from_bytes(file.read(20)[18:], "little")
    if machine not in MACHINES:
        raise RuntimeError(f"{library} is for a machine that wheels of minuet are not made for (ELF number {machine})")
    return f"py3-none-{PLATFORM}_{MACHINES[machine]}"


def metadata(version: str) -> str:
    """Returns the METADATA file."""
    readme = (HERE / "README.md").read_text()
    return (
        "Metadata-Version: 2.1\nName: minuet\n"
        f"Version: {version}\n"
        "Summary: 3-D sparse convolution networks on NVIDIA GPUs and on the CPU, compiled at run time\n"
        "Requires-Python: >=3.10\nRequires-Dist: numpy>=1.24\nClassifier: Typing :: Typed\n"
        "Classifier: Operating System :: POSIX :: Linux\nDescription-Content-Type: text/markdown\n\n" + readme
    )


def information(version: str, tag: str, tree: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """Gives the files of the folder *.dist-info, less RECORD."""
    yield "METADATA", metadata(version).encode()
    yield "WHEEL", f"Wheel-Version: 1.0\nGenerator: minuet_build\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    yield "entry_points.txt", b"[console_scripts]\nminuet = minuet._command:main\n"
    yield "licenses/LICENSE", (ROOT / "LICENSE").read_bytes()
    for name, licence in BUNDLED.items():
        if (tree / "lib" / name).exists():
            yield f"licenses/{licence}", (HERE / "backend" / licence).read_bytes()


def files_of(folder: pathlib.Path, prefix: str) -> Iterator[tuple[str, bytes, int]]:
    """Gives the name, the content and the mode of each file below a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"{prefix}/{path.relative_to(folder)}", path.read_bytes(), path.stat().st_mode


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    version = read_version()
    folder = build_folder()
    tag = tag_of(folder / "lib/libminuet.so")
    name = f"minuet-{version}-{tag}.whl"
    info = f"minuet-{version}.dist-info"
    record = []
    with (
        tempfile.TemporaryDirectory() as scratch,
        zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as archive,
    ):

        def write(path: str, content: bytes, mode: int = 0o644) -> None:
            entry = zipfile.ZipInfo(path, DATE)
            entry.external_attr = (0o100000 | (0o755 if mode & 0o100 else 0o644)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)

        def add(path: str, content: bytes, mode: int = 0o644) -> None:
            write(path, content, mode)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}\n")

        tree = pathlib.Path(scratch)
        install_tree(folder, tree)
        for item in [*files_of(HERE / "minuet", "minuet"), *files_of(tree, "minuet")]:
            add(*item)
        for path, content in information(version, tag, tree):
            add(f"{info}/{path}", content)
        write(f"{info}/RECORD", ("".join(record) + f"{info}/RECORD,,\n").encode())
    return name


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    raise RuntimeError("there is no source distribution: clone the repository, build it, and install from there")
