"""Processes that start together on one empty cache folder, as ranks of a training do: each kernel is compiled once."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

import minuet
import pytest
from conftest import PACKAGE, ROOT

sys.path.insert(0, str(ROOT / "tools/bench"))
from scaling import kernels_in

RANKS = 8
# One process: it says when it is ready, waits until all are, and loads a network.
CODE = """
import json, pathlib, sys, time
import minuet

folder, rank = pathlib.Path(sys.argv[1]), sys.argv[2]
context = minuet.Context(sys.argv[3])
device = minuet.Device(context, "cuda:0")
(folder / rank).touch()
while not (folder / "go").exists():
    time.sleep(0.001)
begin = time.monotonic()
plan = minuet.Plan.network(context, "minkunet42", channels=[8] * 9, dtype="float16", dataflow="fused")
plan.load(device)
counters = context.kernel_counters()
names = ("compiled", "disk_hits", "bundle_hits", "failures", "lock_timeouts", "waits")
print(json.dumps({"seconds": time.monotonic() - begin, **{name: getattr(counters, name) for name in names}}))
"""


def start(folder: pathlib.Path, ranks: int, cache: pathlib.Path) -> list[dict[str, Any]]:
    """Starts so many processes on a cache folder, and returns what each counted."""
    folder.mkdir()
    settings = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CODE, str(folder), str(rank), str(cache)], env=settings, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for rank in range(ranks)
    ]  # fmt: skip
    deadline = time.monotonic() + 120
    while any(not (folder / str(rank)).exists() for rank in range(ranks)):
        ended = [process.poll() for process in processes]
        if any(code is not None for code in ended) or time.monotonic() > deadline:
            break  # What they wrote says why.
        time.sleep(0.01)
    (folder / "go").touch()
    written = [process.communicate(timeout=600) for process in processes]
    for process, (_, errors) in zip(processes, written, strict=True):
        assert process.returncode == 0, errors
    return [json.loads(output) for output, _ in written]


@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_ranks_compile_each_kernel_once(device: minuet.Device, tmp_path: pathlib.Path) -> None:
    (alone,) = start(tmp_path / "alone", 1, tmp_path / "cache of one")
    assert alone["compiled"] > 10
    assert alone["disk_hits"] == alone["bundle_hits"] == 0
    first = start(tmp_path / "first", RANKS, tmp_path / "cache")
    print(
        f"one process took {alone['seconds']:.2f} s, and the slowest of {RANKS} {max(r['seconds'] for r in first):.2f}"
    )
    assert sum(rank["compiled"] for rank in first) == alone["compiled"]
    assert any(rank["waits"] for rank in first), "no rank met another: this machine started them one by one"
    for rank in first:
        assert rank["compiled"] + rank["disk_hits"] == alone["compiled"]
        assert rank["failures"] == rank["lock_timeouts"] == 0
    assert kernels_in(tmp_path / "cache") == alone["compiled"]  # By which tools/bench/scale.py counts, too.
    for rank in start(tmp_path / "second", RANKS, tmp_path / "cache"):
        assert (rank["compiled"], rank["disk_hits"]) == (0, alone["compiled"])
