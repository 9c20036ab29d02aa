"""tools/bench/scale.py in PyTorch, with two ranks of gloo: the losses, gradients and statistics of one rank with the
whole batch, plans that rank 0 makes, and complete rows."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import minuet  # noqa: E402
import numpy as np  # noqa: E402
import plain_spconv  # noqa: E402
from conftest import PACKAGE, ROOT  # noqa: E402
from fused_problems import UNet  # noqa: E402
from torch import distributed, nn  # noqa: E402
from torch_problems import expect_close  # noqa: E402

BENCH = ROOT / "tools/bench"
sys.path.insert(0, str(BENCH))
import measuring  # noqa: E402
import scale_torch  # noqa: E402
import scaling  # noqa: E402
from training_step import capacity_step  # noqa: E402

STEPS, RATE, CLASSES = 4, 0.05, 5


def batches(ranks: int) -> scaling.Batches:
    """Two clouds of different sizes in each batch, for so many ranks."""
    return scaling.Batches("random", measuring.random_voxels(150, 14), 2, ranks)


class Scenes(scale_torch.Scenes):
    """Batches with as many classes as the network has."""

    def tensors(self, step: int, whole: bool = False) -> list[Any]:
        coordinates, features, labels = super().tensors(step, whole)
        return [coordinates, features, labels % CLASSES]


def new_network(s: Any) -> nn.Module:
    torch.manual_seed(7)
    return UNet(s)


def join(rank: int, folder: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)


def train(rank: int, folder: str, fixed: bool) -> None:
    """Trains one of two ranks, in float32."""
    join(rank, folder)
    scenes = Scenes(batches(2), rank, "cpu")
    steps = []

    def make(scenes: Scenes, device: str) -> scale_torch.RankStep:
        step = scale_torch.rank_step(scenes, device)
        # Without autocast; the scale of the loss is a power of two, which rounds nothing.
        step.half = True
        step.optimizer.param_groups[0]["lr"] = RATE
        steps.append(step)
        return step

    scale_torch.minkunet42 = lambda *_: new_network(scale_torch.spconv)
    call = capacity_step(scenes, "cpu", make=make) if fixed else make(scenes, "cpu")
    state = steps[0].optimizer.state
    results: dict[str, Any] = {"losses": [], "gradients": []}
    for number in range(STEPS):
        loss, status = call(*scenes.tensors(number))
        assert (status is not None) == fixed
        assert not fixed or not int(status)
        results["losses"].append(float(loss.detach()))
        if number == 0:  # Momentum began as zeros, and is the gradient then.
            parameters = steps[0].network.module.named_parameters()
            results["gradients"] = {name: state[each]["momentum_buffer"].clone() for name, each in parameters}
    results["state"] = steps[0].network.module.state_dict()
    torch.save(results, f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


def reference() -> dict[str, Any]:
    """Trains one rank with the clouds of both, in float64 by plain ops of torch."""
    scenes = Scenes(batches(1), 0, "cpu")
    network = new_network(scale_torch.spconv).state_dict()
    plain = new_network(plain_spconv).double()
    plain.load_state_dict(network)
    optimizer = torch.optim.SGD(plain.parameters(), lr=RATE, momentum=0.9)
    results: dict[str, Any] = {"losses": []}
    for number in range(STEPS):
        coordinates, features, labels = scenes.tensors(number)
        optimizer.zero_grad()
        x = plain_spconv.SparseConvTensor(features.double(), coordinates, scenes.shape, 2)
        loss = nn.functional.cross_entropy(plain(x).features, labels)
        loss.backward()
        if number == 0:
            results["gradients"] = {name: each.grad.clone() for name, each in plain.named_parameters()}
        optimizer.step()
        results["losses"].append(float(loss.detach()))
    return {**results, "state": plain.state_dict()}


@pytest.mark.parametrize("fixed", [False, True], ids=["exact", "capacity"])
def test_the_loss_curve_of_one_rank(tmp_path: pathlib.Path, fixed: bool) -> None:
    """Ranks with clouds of different sizes learn what one rank learns from all clouds."""
    sizes = [[len(batches(2).draw(step, rank)[0]) for rank in range(2)] for step in range(STEPS)]
    assert all(one != two for one, two in sizes)
    torch.multiprocessing.spawn(train, (str(tmp_path), fixed), nprocs=2)
    ranks, wanted = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)], reference()
    losses = [sum(parts) / 2 for parts in zip(*(rank["losses"] for rank in ranks), strict=True)]
    assert losses == pytest.approx(wanted["losses"], rel=1e-5)
    assert len(set(np.round(losses, 3))) == STEPS
    for name, want in wanted["gradients"].items():
        assert want.abs().max() > 0
        # Biases before a batch norm would have gradients of 0; the network has none of them.
        expect_close(ranks[0]["gradients"][name], want, torch.float32)
    for name, got in ranks[0]["state"].items():
        assert torch.equal(got, ranks[1]["state"][name]), name
        expect_close(got, wanted["state"][name], torch.float32)


PLAN = {"name": "minkunet42", "channels": [8] * 9, "seed": 3}


def run_plan(plan: minuet.Plan, device: minuet.Device, rank: int) -> Any:
    """Runs a plan on the clouds of a rank."""
    coordinates, features, _ = batches(2).draw(0, rank)
    execution = minuet.Execution(plan, device)
    execution.prepare(coordinates)
    return execution.run(features)


def infer(rank: int, folder: str) -> None:
    """Runs the plan that rank 0 has made, with values that no other rank knows."""
    join(rank, folder)
    device = minuet.Device(minuet.Context(), "cpu")

    def make(context: minuet.Context) -> minuet.Plan:
        assert rank == 0, "another rank made the plan, too"
        return minuet.Plan.network(context, **PLAN)

    plan = scale_torch.broadcast_plan(device, make)
    plan.load(device)
    np.save(f"{folder}/{rank}.npy", run_plan(plan, device, rank))
    distributed.destroy_process_group()


def test_a_plan_of_rank_0_runs_on_all(tmp_path: pathlib.Path) -> None:
    """Each rank has the bits of a plan of its own."""
    torch.multiprocessing.spawn(infer, (str(tmp_path),), nprocs=2)
    device = minuet.Device(minuet.Context(), "cpu")
    plan = minuet.Plan.network(device.context, **PLAN)
    plan.load(device)
    for rank in range(2):
        wanted, got = run_plan(plan, device, rank), np.load(tmp_path / f"{rank}.npy")
        assert got.any() and got.tobytes() == wanted.tobytes()


def test_rows(tmp_path: pathlib.Path) -> None:
    """The script with 1 and 2 ranks, and the table of its result."""
    output = tmp_path / "scale.json"
    words = ["--commit", "abc", "--output", str(output), "--torch", "--device", "cpu", "--points", "200"]
    words += ["--strong", "--batch", "2", "--repeats", "2", "--mode", "ops, shared norms", "--mode", "plan"]
    settings = {**os.environ, "PYTHONPATH": str(PACKAGE), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, BENCH / "scale.py", *words], env=settings, text=True, capture_output=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(output.read_text())
    assert not document["failed"]
    assert (document["device_counts"], document["commit"], document["scenes"]) == ([1, 2], "abc", {"random_200": 200})
    starts, rows = ([row for row in document["rows"] if key in row] for key in ("start", "wall_ms"))
    assert [(row["devices"], row["start"]) for row in starts] == [
        (count, which) for count in (1, 2) for which in ("first", "second")
    ]
    assert all(
        row["seconds"] > 0 and row["kernels"]["compiled"] == 0 for row in starts
    )  # The CPU device compiles nothing.
    assert [(row["devices"], row["what"]) for row in rows] == [
        (count, what) for count in (1, 2) for what in ("training step", "inference")
    ]
    for row in rows:
        assert row["scaling"] == "strong" and row["clouds"] == 2 and row["voxels"] == rows[0]["voxels"]
        assert [rank["rank"] for rank in row["ranks"]] == list(range(row["devices"]))
        for rank in row["ranks"]:
            assert len(rank["step_ms"]) == len(rank["alone_ms"]) == len(rank["voxels"]) == 2
            assert rank["memory_mib"]["process"] > 0 and rank["waiting_ms"]["median"] >= 0
    of_two = rows[2]
    assert of_two["statistics"] == "of all ranks" and of_two["loss_difference"] <= 2e-2
    table = subprocess.run(
        [sys.executable, BENCH / "tables.py", output], capture_output=True, text=True, check=True
    ).stdout
    assert "| PyTorch | strong | training step | ops, shared norms, capacity | random_200 | 2 |" in table
    assert "| PyTorch | 2 | first | 2 |" in table
