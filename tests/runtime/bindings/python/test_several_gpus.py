"""The examples of the page SEVERAL_GPUS.md run as they stand: those of PyTorch on two ranks, and those of JAX on four
devices of the host."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys

import pytest
from conftest import PACKAGE, run_python

BLOCKS = re.findall(r"```python\n(.*?)```", (PACKAGE / "minuet/SEVERAL_GPUS.md").read_text(), re.DOTALL)
OF_TORCH, OF_JAX = ([block for block in BLOCKS if f"import {name}\n" in block] for name in ("torch", "jax"))
RANKS = 2


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.parametrize("number", range(len(OF_TORCH)))
def test_torch(number: int) -> None:
    """Runs an example as torchrun does."""
    pytest.importorskip("torch")
    settings = {**os.environ, "PYTHONPATH": str(PACKAGE), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    settings |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(RANKS)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OF_TORCH[number]],
            env={**settings, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            text=True,
            stderr=subprocess.PIPE,
        )
        for rank in range(RANKS)
    ]
    try:
        errors = [process.communicate(timeout=300)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * RANKS, "\n".join(errors)


@pytest.mark.parametrize("number", range(len(OF_JAX)))
def test_jax(number: int) -> None:
    pytest.importorskip("jax")
    pytest.importorskip("minuet.jax", exc_type=ImportError)
    settings = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = run_python(OF_JAX[number], environment=settings, timeout=300)
    assert done.returncode == 0, done.stderr


def test_the_page_has_examples_of_both() -> None:
    assert (len(OF_TORCH), len(OF_JAX), len(BLOCKS)) == (2, 2, 4)


def test_every_name_of_the_page_is_there() -> None:
    import minuet

    text = (PACKAGE / "minuet/SEVERAL_GPUS.md").read_text()
    for name in re.findall(r"\bminuet\.([A-Za-z]\w+)", text):
        assert hasattr(minuet, name) or importlib.util.find_spec(f"minuet.{name}"), name
