"""libminuet in one process with torch, jaxlib and an LLVM of another version, loaded before and after them."""

import os
import re
import subprocess
import sys

import minuet
import pytest
from conftest import HERE, PACKAGE, skip_or_fail
from minuet._library import library

PROGRAM = HERE / "one_process.py"


def run(order, **variables):
    path = os.path.realpath(library._name)
    settings = {**os.environ, "PYTHONPATH": str(PACKAGE), "MINUET_LIBRARY": path, **variables}
    # torch warns of the software CUDA device, which tools/check offers in place of a GPU.
    settings["PYTHONWARNINGS"] = "ignore:CUDA initialization:UserWarning"
    return subprocess.run(
        [sys.executable, "-B", PROGRAM, order, path], env=settings, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("order", ["first", "last"])
def test_beside_torch_jax_and_llvm(order):
    done = run(order, JAX_PLATFORMS="cpu")
    if done.returncode == 77:
        skip_or_fail("torch", done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert minuet.system_info().llvm not in done.stdout
    print(done.stdout)


def test_no_symbol_of_libminuet_comes_from_another_library(tmp_path):
    """What libminuet has of LLVM and zstd is bound within it, also where a libLLVM comes first in the global scope."""
    done = run("last", JAX_PLATFORMS="cpu", LD_BIND_NOW="1", LD_DEBUG="bindings", LD_DEBUG_OUTPUT=str(tmp_path / "log"))
    if done.returncode == 77:
        skip_or_fail("torch", done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    bindings = []
    for log in tmp_path.iterdir():
        with open(log, errors="replace") as lines:
            for line in lines:
                found = re.search(r"binding file (\S+) \[0\] to (\S+) \[0\]: \w+ symbol `([^']+)'", line)
                if found and "libminuet.so" in found[0]:
                    bindings.append(found.groups())
    assert len(bindings) > 50
    system = re.compile(r"/(libc|libm|libstdc\+\+|libgcc_s|libdl|libpthread|libz|libzstd|ld-linux[\w-]*|libminuet)\.so")
    foreign = [row for row in bindings if "libminuet.so" in row[0] and not system.search(row[1])]
    taken = [row for row in bindings if "libminuet.so" in row[1] and not row[2].startswith("minuet_")]
    assert foreign == []
    assert taken == []
    assert not [row for row in bindings if "llvm" in row[2].lower()]
