"""The benchmarks in JAX on the CPU device: all engines of training_step_jax.py give results with the same bits, and
rows of scale.py are complete."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

jax = pytest.importorskip("jax")
sparse = pytest.importorskip("minuet.jax", exc_type=ImportError)

import numpy as np  # noqa: E402
from conftest import PACKAGE, ROOT  # noqa: E402
from jax_problems import cells, normal, values_of  # noqa: E402

BENCH = ROOT / "tools/bench"
SCRIPT = BENCH / "training_step_jax.py"
takes_minutes = pytest.mark.skipif(
    not os.environ.get("MINUET_LONG_TESTS"), reason="MINUET_LONG_TESTS=1 runs the benchmarks of whole networks"
)
sys.path.insert(0, str(BENCH))
import measuring  # noqa: E402
import scale_networks_jax  # noqa: E402


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


@takes_minutes
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


def test_engines_run_in_turn():
    rows = rows_of("turns")
    assert [(row["what"], row["mode"]) for row in rows] == [
        ("inference, in turn", "C ABI"),
        ("inference, in turn", "jit"),
        ("inference, in turn", "jit, polled"),
        ("addition, in turn", "jit"),
        ("addition, in turn", "jit, polled"),
    ]
    for row in rows:
        assert 0 < row["enqueued_ms"]["median"] <= row["wall_ms"]["median"]


def test_single_ops_are_the_network(generator):
    """The network by single ops has the output and the statistics of the network as one op."""
    capacities = [64] * 5
    network = sparse.Network("minkunet42", capacities, channels=[8] * 9, is_trained=True)
    ops = scale_networks_jax.OpNetwork(capacities)
    parameters = values_of(generator, network)
    points, count, x = np.zeros((64, 4), np.int32), np.array([50], np.int32), normal(generator, 64, 4)
    points[:50] = cells(generator, 50)
    found = []
    for made in (network, ops):
        cloud = made.pyramid(points, count)
        sparse.check(cloud)
        found.append(made.train(parameters, cloud, x))
    (output, statistics), (of_ops, other) = found
    assert sorted(statistics) == sorted(other) == sorted(network.statistics)
    assert not np.asarray(of_ops)[50:].any()
    # The two add in other orders, through 49 layers.
    assert np.linalg.norm(of_ops - output) <= 1e-4 * np.linalg.norm(output)
    for name, wanted in statistics.items():
        assert np.linalg.norm(other[name] - wanted) <= 1e-4 * np.linalg.norm(wanted), name


@takes_minutes
def test_rows_of_scaling(tmp_path: pathlib.Path):
    """Two devices of the host in one process. The cloud has many voxels on the coarsest level, too: float16 has no room
    for the gradients of batch norms over a few."""
    output = tmp_path / "scale.json"
    np.save(tmp_path / "cloud.npy", measuring.random_voxels(200, 64))
    words = ["--commit", "abc", "--output", str(output), "--jax", "--device", "cpu"]
    words += ["--cloud", f"wide={tmp_path / 'cloud.npy'}"]
    words += ["--counts", "2", "--strong", "--batch", "2", "--repeats", "2"]
    settings = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run(
        [sys.executable, BENCH / "scale.py", *words], env=settings, text=True, capture_output=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(output.read_text())
    assert not document["failed"]
    starts, rows = ([row for row in document["rows"] if key in row] for key in ("start", "wall_ms"))
    assert [(row["start"], row["devices"], row["processes"]) for row in starts] == [("first", 2, 1), ("second", 2, 1)]
    assert [(row["what"], row["mode"], row.get("statistics")) for row in rows] == [
        ("training step", "ops, shared norms, jit", "of all ranks"),
        ("training step", "network, jit", "of each rank"),
        ("training step", "network, flat, jit", "of each rank"),
        ("inference", "network, jit, prepared", None),
    ]
    for row in rows:
        assert [rank["rank"] for rank in row["ranks"]] == [0, 1]
        for rank in row["ranks"]:
            assert len(rank["step_ms"]) == len(rank["alone_ms"]) == len(rank["voxels"]) == 2
        assert row["ranks"][0]["voxels"] != row["ranks"][1]["voxels"]
    for row in rows[:3]:
        assert len(row["loss_curve"]) == 4
    assert rows[1]["loss_curve"] == pytest.approx(rows[2]["loss_curve"], rel=1e-3)
