"""The wheel: one pip command makes it of a build, and it works in an empty environment without a compiler."""

import os
import platform
import shutil
import subprocess
import sys
import zipfile

import minuet
import pytest
from conftest import BUILD, PACKAGE, ROOT

VERSION = minuet.__version__
PLATFORM = f"manylinux_2_34_{platform.machine()}"
NAME = f"minuet-{VERSION}-py3-none-{PLATFORM}.whl"
INFO = f"minuet-{VERSION}.dist-info"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-index", "-w", folder, PACKAGE],
        check=True,
        env={**os.environ, "MINUET_BUILD": str(BUILD)},
    )
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """Returns an environment with the wheel and this one's numpy, and the variables to run it with: no compiler is in
    its path, and nothing of the repository."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next((folder / "lib").iterdir()) / "site-packages"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", site, wheel], check=True
    )
    import numpy

    packages = os.path.dirname(os.path.dirname(numpy.__file__))
    for entry in os.listdir(packages):
        if entry.startswith("numpy"):
            os.symlink(os.path.join(packages, entry), site / entry)
    variables = {"PATH": str(folder / "bin"), "HOME": str(folder / "home"), "LANG": "C.UTF-8"}
    return folder, site, variables


def test_name_and_contents(wheel):
    assert wheel.name == NAME
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
        modes = {item.filename: item.external_attr >> 16 & 0o777 for item in archive.infolist()}
        record = archive.read(f"{INFO}/RECORD").decode()
    for name in (
        "minuet/__init__.py",
        "minuet/py.typed",
        "minuet/lib/libminuet.so.0.3",
        "minuet/lib/minuet-compile",
        "minuet/bin/minuet",
        "minuet/include/minuet/minuet.h",
        "minuet/share/doc/minuet/networks/README.md",
        "minuet/share/doc/minuet/PYTHON.md",
        f"{INFO}/licenses/LICENSE",
        "minuet/jax/README.md",
        "minuet/SEVERAL_GPUS.md",
    ):
        assert name in names
    assert ("minuet/lib/libminuet_xla.so" in names) == (BUILD / "lib/libminuet_xla.so").exists()
    assert modes["minuet/lib/minuet-compile"] == modes["minuet/bin/minuet"] == 0o755
    assert modes[f"{INFO}/RECORD"] == modes["minuet/__init__.py"] == 0o644
    # Who distributes liblzf has to give its licence too.
    assert (f"{INFO}/licenses/LICENSE.liblzf.txt" in names) == ("minuet/lib/liblzf.so.1" in names)
    assert len(names) == len(set(names)) == len(record.splitlines())
    assert wheel.stat().st_size < 8e6


def test_metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"{INFO}/METADATA").decode()
        assert archive.read(f"{INFO}/entry_points.txt") == b"[console_scripts]\nminuet = minuet._command:main\n"
    for line in (f"Version: {VERSION}", "Requires-Dist: numpy>=1.24", "Requires-Python: >=3.10"):
        assert f"{line}\n" in text
    assert text.count("Requires-Dist") == 1


@pytest.fixture
def backend(monkeypatch):
    monkeypatch.syspath_prepend(PACKAGE / "backend")
    monkeypatch.setenv("MINUET_BUILD", str(BUILD))
    import minuet_build

    return minuet_build


def test_the_same_build_gives_the_same_wheel(wheel, backend, tmp_path, monkeypatch):
    def files():
        return {path.name: path.stat().st_mtime_ns for path in BUILD.iterdir() if path.is_file()}

    before = files()
    name = backend.build_wheel(str(tmp_path))
    assert (tmp_path / name).read_bytes() == wheel.read_bytes()
    assert files() == before  # The build folder may be read-only.
    assert backend.read_version() + "-" in wheel.name
    monkeypatch.setenv("MINUET_BUILD", str(tmp_path))
    with pytest.raises(RuntimeError, match="build the library first"):
        backend.build_wheel(str(tmp_path))


def test_the_tag_is_that_of_the_library(backend, tmp_path):
    library = tmp_path / "libminuet.so"
    for machine, name in ((62, "x86_64"), (183, "aarch64")):
        library.write_bytes(b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little"))
        assert backend.tag_of(library) == f"py3-none-manylinux_2_34_{name}"
    library.write_bytes(b"\x7fELF" + bytes(14) + (243).to_bytes(2, "little"))
    with pytest.raises(RuntimeError, match="ELF number 243"):
        backend.tag_of(library)


def test_platform(wheel):
    """auditwheel says that the binaries run on every system of the wheel's name."""
    pytest.importorskip("auditwheel")
    done = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True)
    text = " ".join(done.stdout.split())
    assert f'following platform tag: "{PLATFORM}"' in text, done.stdout + done.stderr


def test_quickstart(installed):
    folder, _, variables = installed
    done = subprocess.run([folder / "bin/python", "-m", "minuet"], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "second inference" in done.stdout
    assert str(ROOT) not in done.stdout


def test_tool(installed):
    folder, _, variables = installed
    done = subprocess.run(
        [folder / "bin/python", "-m", "minuet", "info"], env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "device        cpu" in done.stdout
    # pip writes the script `minuet` of entry_points.txt where an environment has pip; it calls this function.
    done = subprocess.run(
        [
            folder / "bin/python",
            "-c",
            "from minuet._command import main; raise SystemExit(main())",
            "run",
            "--list-networks",
        ],
        env=variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "minkunet42" in done.stdout
    bad = subprocess.run([folder / "bin/python", "-m", "minuet", "fly"], env=variables, capture_output=True, text=True)
    assert bad.returncode == 2


def test_no_compiler_is_needed(installed):
    """The environment has no compiler and no NVRTC, and all of the package that needs none works in it."""
    folder, _, variables = installed
    for name in ("cc", "c++", "gcc", "g++", "clang", "nvcc", "ld"):
        assert shutil.which(name, path=variables["PATH"]) is None
    hidden = {**variables, "MINUET_NVRTC": "/nowhere", "MINUET_CUBLASLT": "/nowhere"}
    for words in (["--help"], ["run", "--help"], ["info"], []):
        done = subprocess.run(
            [folder / "bin/python", "-m", "minuet", *words], env=hidden, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert ("Usage" in done.stdout) == ("--help" in words)
    code = "import minuet; print(minuet.system_info().nvrtc)"
    done = subprocess.run([folder / "bin/python", "-c", code], env=hidden, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


def test_without_numpy_the_error_names_it(installed):
    """pip installs numpy with the wheel (test_metadata); a Python that lacks it says so."""
    folder, _, variables = installed
    code = "import sys; sys.modules['numpy'] = None; import minuet"
    done = subprocess.run([folder / "bin/python", "-c", code], env=variables, capture_output=True, text=True)
    assert done.returncode == 1
    assert "numpy" in done.stderr.splitlines()[-1]


def test_cuda_libraries_of_wheels(installed):
    """NVRTC and cuBLASLt of the nvidia-* wheels are found, by the package and by the library; variables go first."""
    folder, site, variables = installed
    lib = site / "nvidia/cu13/lib"
    lib.mkdir(parents=True)
    code = (
        "import minuet, minuet._cuda_libraries as found; print(found.nvrtc()); print(found.cublaslt());"
        "minuet.Context(disable_disk_cache=True); print(minuet.system_info())"
    )
    try:
        for name in ("libnvrtc.so.13", "libcublasLt.so.13"):
            (lib / name).write_text("no library")
        done = subprocess.run([folder / "bin/python", "-c", code], env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[:2] == [str(lib / "libnvrtc.so.13"), str(lib / "libcublasLt.so.13")]
        named = {**variables, "MINUET_NVRTC": "/x", "MINUET_CUBLASLT": "/y"}
        done = subprocess.run([folder / "bin/python", "-c", code], env=named, capture_output=True, text=True)
        assert done.stdout.splitlines()[:2] == ["None", "None"]
    finally:
        for path in lib.iterdir():
            path.unlink()
        for path in (lib, lib.parent, lib.parent.parent):
            path.rmdir()


def test_a_program_that_links_to_the_wheel(installed, tmp_path):
    """C programs find the header and the library in the installed package."""
    _, site, variables = installed
    source = tmp_path / "version.c"
    source.write_text("#include <minuet/minuet.h>\nint main(void) { return minuet_version() != 300; }\n")
    package = site / "minuet"
    subprocess.run(
        [
            "cc",
            source,
            f"-I{package / 'include'}",
            package / "lib/libminuet.so.0.3",
            f"-Wl,-rpath,{package / 'lib'}",
            "-o",
            tmp_path / "version",
        ],
        check=True,
    )
    subprocess.run([tmp_path / "version"], check=True, env=variables)
