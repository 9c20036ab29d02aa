"""What the ranks of tools/bench/scale.py share, and what the script makes of their results."""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import ROOT

BENCH = ROOT / "tools/bench"
sys.path.insert(0, str(BENCH))
import measuring  # noqa: E402
import scale  # noqa: E402
import scale_jax  # noqa: E402
import scaling  # noqa: E402
import tables  # noqa: E402


def rows_of(batches: scaling.Batches, step: int) -> set[tuple[Any, ...]]:
    """The voxels of all ranks, with the number of the cloud among all, and their labels."""
    found = set()
    for rank in range(batches.ranks):
        coordinates, features, labels = batches.draw(step, rank)
        assert coordinates.dtype == np.int32 and features.shape == (len(coordinates), scaling.IN_CHANNELS)
        coordinates = coordinates + np.array([rank * batches.clouds_of_rank, 0, 0, 0])
        found |= {(*row, label) for row, label in zip(coordinates.tolist(), labels.tolist(), strict=True)}
    return found


def test_a_batch_is_the_same_for_any_number_of_ranks() -> None:
    scene = measuring.random_voxels(200, 20)
    of_one, of_four = (scaling.Batches("random", scene, 4, ranks) for ranks in (1, 4))
    assert rows_of(of_one, 3) == rows_of(of_four, 3) != rows_of(of_one, 4)
    sizes = [len(of_four.draw(0, rank)[0]) for rank in range(4)]
    assert len(set(sizes)) > 1 and all(140 <= size <= 200 for size in sizes)
    whole = [of_four.draw(0, rank, whole=True)[0] for rank in range(4)]
    assert all(np.array_equal(each, whole[0]) and len(each) == 200 for each in whole)
    assert of_four.capacities(2) == [256, 256] and of_one.capacities(1) == [1024]
    assert all(extent % 16 == 0 for extent in of_one.shape)
    equal = scaling.Batches("random", scene, 4, 4, equal=True)
    drawn = [equal.draw(0, rank)[0][:, 1:] for rank in range(4)]
    assert all(len(each) == 170 for each in drawn) and not np.array_equal(drawn[0], drawn[1])
    with pytest.raises(ValueError, match="4 clouds cannot be divided among 3 ranks"):
        scaling.Batches("random", scene, 4, 3)


def test_a_step_is_divided() -> None:
    parts = scaling.divide(steps=[[10, 12], [11, 14]], alone=[[8, 9], [6, 10]])
    assert parts["wall_ms"]["median"] == 12.5
    assert parts["communication_ms"]["median"] == 3.5  # 11 - 8 and 14 - 10
    assert [waiting["median"] for waiting in parts["waiting_ms"]] == [0.5, 1.0]


def test_kernels_by_their_names() -> None:
    names = {
        "void minuet::fused_convolution<minuet::FusedSpec{}>()": "ours",
        "_ZN6minuet6gatherILj1EEEvv": "ours",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "exchange",
        "void at::native::vectorized_elementwise_kernel<4>()": "other",
    }
    assert {name: scaling.kernel_class(name) for name in names} == names
    events = [("minuet::gather", 1000.0), ("minuet::scatter", 3000.0), ("nccl", 500.0)]
    assert scaling.sum_by_class(events, 2) == {"ours": 2.0, "exchange": 0.25, "other": 0.0}


def test_kernels_of_a_gpu_in_a_profile_of_jax() -> None:
    def line(name: str, *events: tuple[str, float]) -> Any:
        return SimpleNamespace(name=name, events=[SimpleNamespace(name=each, duration_ns=ns) for each, ns in events])

    planes = [
        SimpleNamespace(name="/host:CPU", lines=[line("python", ("minuet", 1e6))]),
        SimpleNamespace(name="/device:GPU:1", lines=[line("Stream #7(Compute)", ("minuet::gather", 2000.0)),
                                                      line("XLA Ops", ("custom-call", 9e9))]),
    ]  # fmt: skip
    assert scale_jax.events_of(planes, "/device:GPU:1") == [("minuet::gather", 2.0)]
    assert scale_jax.events_of(planes, "/device:GPU:0") == []


class Record(measuring.Record):
    """A result that is not written."""

    def __init__(self) -> None:
        super().__init__("")


def framework() -> scale.Framework:
    return scale.Framework("torch", argparse.Namespace(), Record())


def start_of(which: str, count: int, compiled: list[int], cached: int = 7) -> dict[str, Any]:
    names = ("compiled", "disk_hits", "waits")
    starts = [
        {"start": {"seconds": 1 + n, "kernels": dict.fromkeys(names, each), "cached": cached - len(compiled) + 1 + n}}
        for n, each in enumerate(compiled)
    ]
    return scale.start_row(which, count, starts)


def test_starts_that_compile_too_much_are_failures() -> None:
    measured = framework()
    of_two = start_of("first", 2, [3, 4])
    assert (of_two["seconds"], of_two["kernels"]["compiled"], of_two["processes"]) == (2, 7, 2)
    for row in (start_of("first", 1, [7]), start_of("second", 1, [0]), of_two, start_of("second", 2, [0, 0])):
        measured.check_start(row)
    assert not measured.record.document["failed"]
    measured.check_start(start_of("first", 4, [3, 4, 1, 0]))
    measured.check_start(start_of("second", 4, [0, 1, 0, 0]))
    measured.check_start(start_of("second", 8, [0], cached=8))
    assert list(measured.record.document["failed"]) == [
        "torch, 4 devices: first start", "torch, 4 devices: second start", "torch, 8 devices: second start",
    ]  # fmt: skip


def row_of(count: int, curve: list[float], **other: Any) -> dict[str, Any]:
    row = {"scaling": "strong", "cloud": "os1", "mode": "graph", "statistics": "of all ranks", "devices": count}
    return {**row, "loss_curve": curve, **other}


def test_losses_of_another_curve_are_a_failure() -> None:
    measured = framework()
    close = row_of(2, [3.01, 2.0])
    for row in (row_of(1, [3.0, 2.0]), close, row_of(2, [9.0, 9.0], statistics="of each rank")):
        measured.check_losses(row)
    assert close["loss_difference"] == pytest.approx(0.01 / 3, abs=1e-6)
    measured.check_losses(row_of(2, [9.0], scaling="weak"))
    assert not measured.record.document["failed"]
    for wrong in ([3.0, 2.1], [3.0, float("nan")]):
        measured.check_losses(row_of(4, wrong))
        assert len(measured.record.document["failed"]) == 1
        measured.record.document["failed"].clear()


def scale_row(framework: str, scaling_of: str, count: int, wall: float, voxels: int = 100) -> dict[str, Any]:
    """A row of a training step that lasts this long."""
    rank = {"waiting_ms": measuring.spread([1.0]), "kernels_ms": {"ours": 6.0, "exchange": 2.0}, "memory_mib": {}}
    row = {
        **row_of(count, []),
        "framework": framework,
        "scaling": scaling_of,
        "what": "training step",
        "voxels": voxels,
    }
    times = {"communication_ms": measuring.spread([10.0]), "wall_ms": measuring.spread([wall])}
    return {**row, **times, "ranks": [rank] * count}


def test_the_table_has_the_efficiency() -> None:
    """Voxels of a device and a millisecond, in terms of those with the fewest devices of the same kind."""
    rows = [
        scale_row("JAX", scaling_of, count, wall, voxels)
        for scaling_of, count, voxels, wall in (("weak", 1, 100, 10.0), ("weak", 2, 180, 12.0), ("strong", 2, 100, 6.0))
    ]
    cells = list(tables.scale_rows(rows))
    assert [row[9] for row in cells] == ["1.00", "0.75", "1.00"]
    assert cells[1][:9] == (
        "JAX", "weak", "training step", "graph", "os1", "2", "180", "12.00", "12.00 - 12.00",
    )  # fmt: skip
    assert cells[1][10:] == ("10.00", "1.00 - 1.00", "6.00", "2.00", "-")


def test_the_plots_have_each_way(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [scale_row("JAX", "weak", count, 10.0) for count in (1, 2)] + [scale_row("PyTorch", "strong", 1, 9.0)]
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"device_counts": [1, 2], "rows": rows}))
    subprocess.run([sys.executable, BENCH / "scale_plots.py", tmp_path], check=True)
    text = (tmp_path / "scales.svg").read_text()
    for name in ("(1) JAX: graph, os1, one.json", "(2) JAX: graph, os1, two.json", "(1) PyTorch: graph, os1, one.json"):
        assert name in text
    for words in ("training step; scaling: weak", "step; scaling: strong"):
        assert words in text
    empty = tmp_path / "empty"
    empty.mkdir()
    done = subprocess.run([sys.executable, BENCH / "scale_plots.py", empty], capture_output=True, text=True)
    assert done.returncode == 2 and "there is no result of scale.py" in done.stderr


def test_a_process_that_fails_ends_the_others(tmp_path: pathlib.Path) -> None:
    waits = [sys.executable, "-c", "import time; time.sleep(600)", "--output", str(tmp_path / "0")]
    fails = [sys.executable, "-c", "raise SystemExit(3)", "--output", str(tmp_path / "1")]
    with pytest.raises(RuntimeError, match="ended with 3"):
        scale.run_processes([waits, fails], tmp_path, [])


def test_counts_that_the_machine_does_not_have(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["scale.py", "--commit", "a", "--output", "b", "--counts", "64", "--points", "9"])
    with pytest.raises(SystemExit):
        scale.main()
    assert "64 GPUs are needed, and the machine has" in capsys.readouterr().err
