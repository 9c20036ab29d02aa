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
        assert [row["what"] for row in rows] == ["inference", "training step"]
        assert rows[1]["last_loss"] < rows[1]["first_loss"]
    assert abi[0]["digest"] == jit[0]["digest"] == without[0]["digest"]
    assert jit[1]["digest"] == without[1]["digest"] != jit[0]["digest"]
    for row in [*abi, *jit, *without]:
        assert 0 < row["wall_ms"]["p10"] <= row["wall_ms"]["median"] <= row["wall_ms"]["p90"]
