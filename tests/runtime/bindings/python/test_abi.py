"""The declarations of the C ABI are those of the headers, and the package uses all of them."""

import ctypes
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from conftest import PACKAGE, ROOT
from minuet import _abi

# Functions that the package has no use for, and why.
NOT_CALLED = {
    "minuet_status_name": "Status has the names",
    "minuet_execution_run": "run takes arrays, which serve all outputs",
    "minuet_execution_output_shape": "output_shape asks for any output",
    "minuet_execution_output_coordinates": "output_coordinates asks for any output",
}


def test_declarations_are_those_of_the_headers():
    pytest.importorskip("pycparser")
    done = subprocess.run([sys.executable, PACKAGE / "generate_abi.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_check_finds_a_header_that_has_moved(tmp_path):
    pytest.importorskip("pycparser")
    package = tmp_path / "runtime/bindings/python"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "include", tmp_path / "include")
    header = tmp_path / "include/minuet/minuet.h"
    header.write_text(header.read_text().replace("int64_t cpu_threads;", "int32_t cpu_threads;"))
    done = subprocess.run([sys.executable, package / "generate_abi.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "cpu_threads" in done.stdout


def structs():
    kinds = [kind for kind in vars(_abi).values() if isinstance(kind, type) and issubclass(kind, ctypes.Structure)]
    return [kind for kind in kinds if hasattr(kind, "_fields_")]


def test_layouts_are_those_of_the_compiler(tmp_path):
    lines = [f"#include <minuet/{path.name}>" for path in sorted((ROOT / "include/minuet").glob("*.h"))]
    names = [kind.__name__ for kind in structs()]
    assert len(names) > 30
    for name in names:
        kind = getattr(_abi, name)
        lines.append(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(kind)}, "{name}");')
        for field, *_ in kind._fields_:
            offset = getattr(kind, field).offset
            lines.append(f'_Static_assert(offsetof({name}, {field}) == {offset}, "{name}.{field}");')
    source = tmp_path / "layouts.c"
    source.write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        ["cc", "-std=c11", "-fsyntax-only", f"-I{ROOT / 'include'}", source], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_every_function_is_called():
    text = "".join(path.read_text() for path in (PACKAGE / "minuet").glob("_[a-z]*.py") if path.name != "_abi.py")
    called = set(re.findall(r"minuet_\w+", text))
    missing = set(_abi.FUNCTIONS) - called
    assert missing == set(NOT_CALLED)


def test_every_option_is_set():
    text = "".join(path.read_text() for path in (PACKAGE / "minuet").glob("_[a-z]*.py") if path.name != "_abi.py")
    for kind in structs():
        if not kind.__name__.endswith(("_options", "_arguments")):
            continue
        for field, *_ in kind._fields_:
            # struct_size is set where a struct is made; what begins a row of names is set in a loop.
            if field in ("ext", "reserved", "log_user", "user"):
                continue
            setter = rf'(options|arguments)\.{field}\b|"{field}"|\b{field}=(?!=)'
            assert re.search(setter, text), f"nothing sets {kind.__name__}.{field}"


def test_struct_sizes_are_set():
    """Every struct with a struct_size is made with it."""
    for path in (PACKAGE / "minuet").glob("_[a-z]*.py"):
        if path.name == "_abi.py":
            continue
        for name, argument in re.findall(r"= _abi\.(minuet_\w+)\(([^)]*)", path.read_text()):
            kind = getattr(_abi, name)
            if isinstance(kind, type) and "struct_size" in dict(kind._fields_):
                assert argument.lstrip().startswith(f"struct_size=ctypes.sizeof(_abi.{name}"), f"{path.name}: {name}"


def test_integers_that_c_would_cut_off():
    row = _abi.minuet_pyramid_level(capacity=np.int64(7))
    assert (row.capacity, row.parent) == (7, 0)
    for value in (2**31, -(2**31) - 1, 2**40):
        with pytest.raises(ValueError, match=f"parent is {value}, and -2147483648 to 2147483647 are taken"):
            row.parent = value
    row.parent = -(2**31)
    assert row.parent == -(2**31)
    with pytest.raises(TypeError):
        row.parent = 1.5
    options = _abi.minuet_pyramid_options()
    with pytest.raises(ValueError, match="keep_coordinates is -1, and 0 to 4294967295"):
        options.keep_coordinates = -1


def test_package_is_in_the_right_place():
    import minuet

    assert pathlib.Path(minuet.__file__).is_relative_to(PACKAGE)
    assert minuet.version() == ".".join(minuet.__version__.split(".")[:3])
