"""Programs for the headers of released versions go on to work: tools/lint/check_abi.py, and that it can fail."""

import ctypes
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT
from minuet import _abi

pytest.importorskip("pycparser")
sys.path.insert(0, str(ROOT / "tools/lint"))
import check_abi


@pytest.fixture(scope="module")
def today():
    return check_abi.Abi(ROOT / "include")


@pytest.fixture
def problems(tmp_path, today):
    """Returns a function that says what a change of the headers breaks."""

    def changed(*changes):
        include = tmp_path / "include"
        shutil.copytree(ROOT / "include", include, dirs_exist_ok=True)
        for old, new in changes:
            found = [path for path in include.rglob("*.h") if old in path.read_text()]
            assert found, old
            found[0].write_text(found[0].read_text().replace(old, new, 1))
        return check_abi.compare(today, check_abi.Abi(include))

    return changed


def test_headers_of_released_versions_are_kept():
    done = subprocess.run([sys.executable, ROOT / "tools/lint/check_abi.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_layouts_are_those_of_ctypes(today):
    assert len(today.structs) > 30
    for name, (size, fields) in today.structs.items():
        kind = getattr(_abi, name)
        assert size == ctypes.sizeof(kind), name
        assert [(field, getattr(kind, field).offset) for field, *_ in kind._fields_] == [
            (field, offset) for field, offset, _ in fields
        ]


def test_what_may_change(problems):
    assert problems() == []
    assert (
        problems(
            (
                "MINUET_API uint32_t minuet_version(void);",
                "MINUET_API uint32_t minuet_version(void);\nint minuet_new(void);",
            )
        )
        == []
    )
    assert problems(("} minuet_reach_options;", "int32_t more[2]; } minuet_reach_options;")) == []
    assert problems(("} minuet_pyramid_level;", "int64_t more; } minuet_pyramid_level;")) == []
    assert problems(("MINUET_UNAVAILABLE = 14", "MINUET_UNAVAILABLE = 14, MINUET_NEW = 15")) == []


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("MINUET_API uint32_t minuet_version(void);", "", "minuet_version is gone"),
        ("uint32_t minuet_version(void)", "uint64_t minuet_version(void)", "minuet_version was uint32_t(void), and is"),
        ("minuet_job_wait(minuet_job* job)", "minuet_job_wait(minuet_job* job, int32_t ms)", "minuet_job_wait was"),
        ("MINUET_UNAVAILABLE = 14", "MINUET_UNAVAILABLE = 15", "MINUET_UNAVAILABLE was 14, and is 15"),
        ("MINUET_F16 = 2", "MINUET_HALF = 2", "MINUET_F16 is gone"),
        ("#define MINUET_MAX_DIM 4", "#define MINUET_MAX_DIM 5", "MINUET_MAX_DIM was 4"),
        ("int64_t bundle_ptx;", "", "minuet_context_options had "),
        ("int64_t cache_shared;", "int64_t more, cache_shared;", "there was `int64_t cache_shared`"),
        ("int64_t cpu_threads;", "int32_t cpu_threads, more;", "there was `int64_t cpu_threads`"),
        ("int64_t cpu_threads;", "int64_t threads;", "now `int64_t threads`"),
        ("} minuet_tensor;", "int64_t more; } minuet_tensor;", "minuet_tensor has neither struct_size"),
        ("typedef int32_t minuet_jit;", "typedef int64_t minuet_jit;", "minuet_jit was int32_t"),
        ("sizeof(minuet_reach_options), 0", "sizeof(minuet_reach_options), 1", "MINUET_REACH_OPTIONS_INIT no longer"),
    ],
)  # fmt: skip
def test_what_may_not(problems, old, new, words):
    assert any(words in problem for problem in problems((old, new)))


def test_elements_grow_only_with_their_size(problems):
    """A struct of ELEMENTS may grow as long as the options say how large the caller's is."""
    found = problems(
        ("} minuet_pyramid_level;", "int64_t more; } minuet_pyramid_level;"),
        ("size_t level_bytes;", "size_t other_bytes;"),
    )
    assert any("minuet_pyramid_level has neither struct_size nor a row" in problem for problem in found)


def test_the_headers_of_a_release_are_never_replaced(tmp_path):
    shutil.copytree(ROOT / "include", tmp_path / "include")
    assert check_abi.check(tmp_path) == ["tests/runtime/abi/released has no headers of a released version"]
    header = tmp_path / "include/minuet/minuet.h"
    suffix = re.search('VERSION_SUFFIX "[^"]*"', header.read_text())[0]
    header.write_text(header.read_text().replace(suffix, 'VERSION_SUFFIX "-dev"'))
    assert check_abi.snapshot(tmp_path) == []
    assert check_abi.check(tmp_path) == []
    assert check_abi.snapshot(tmp_path) == []  # those of a version that is not released yet
    header.write_text(header.read_text().replace('VERSION_SUFFIX "-dev"', 'VERSION_SUFFIX ""'))
    assert check_abi.snapshot(tmp_path) == []
    (problem,) = check_abi.snapshot(tmp_path)
    assert "stay as they are" in problem
