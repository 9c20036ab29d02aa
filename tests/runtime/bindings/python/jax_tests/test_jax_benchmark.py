"""tools/bench/training_step_jax.py on the CPU device: all engines give results with the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("jax")
pytest.importorskip("minuet.jax", exc_type=ImportError)

from conftest import PACKAGE, ROOT

SCRIPT = ROOT / "tools/bench/training_step_jax.py"


def rows_of(engine: str) -> list[dict[str, Any]]:
    cloud = ["--device", "cpu", "--points", "300", "--repeats", "2"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--engine", engine, *cloud],
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_all_engines_have_the_same_bits():
    abi, jit, without = (rows_of(engine) for engine in ("abi", "jax", "jax-without-command-buffers"))
    assert [row["what"] for row in abi] == ["inference"]
    for rows in (jit, without):
        assert [row["what"] for row in rows] == ["inference"] * 2 + ["training step"] * 2
        assert ["prepared" in row["mode"] for row in rows] == [False, True, False, False]
        assert ["flat" in row["mode"] for row in rows] == [False, False, False, True]
        for row in rows[2:]:
            assert row["last_loss"] < row["first_loss"]
    of_inference = {row["digest"] for row in [*abi, *jit[:2], *without[:2]]}
    of_training = {row["digest"] for row in [*jit[2:], *without[2:]]}
    assert len(of_inference) == len(of_training) == 1
    assert of_inference != of_training
    for row in [*abi, *jit, *without]:
        assert 0 < row["wall_ms"]["p10"] <= row["wall_ms"]["median"] <= row["wall_ms"]["p90"]
