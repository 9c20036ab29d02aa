"""Training on generated rooms gives the losses of the same network on dense grids in plain PyTorch: by one process, and
by two GPUs with a room each."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dense_spconv  # noqa: E402
import minuet.torch.spconv as spconv  # noqa: E402
from room_training import make_network, train  # noqa: E402
from scenes import SHAPE, draw_batch  # noqa: E402
from torch import distributed, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

RANKS = 2


def losses_of(s: Any, seed: int, steps: int, rooms: int, width: int = 4) -> list[float]:
    """Trains the network of a seed, and returns the loss of each step."""
    return train(make_network(s, seed, width), steps, rooms)


def train_rank(rank: int, folder: str, seed: int, steps: int, width: int) -> None:
    """Trains one of two ranks, which share statistics and gradients, and writes the losses of the batches."""
    device = torch.device("cuda", rank)
    distributed.init_process_group(
        "nccl", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS, device_id=device
    )
    network = nn.parallel.DistributedDataParallel(make_network(spconv, seed, width).to(device), broadcast_buffers=False)
    network.module = nn.SyncBatchNorm.convert_sync_batchnorm(network.module)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(steps):
        features, indices, labels = draw_batch(RANKS, step)
        own = indices[:, 0] == rank
        indices = indices[own] * torch.tensor([0, 1, 1, 1], dtype=torch.int32)
        optimizer.zero_grad()
        output = network(features[own].to(device), indices.to(device), SHAPE, 1).features
        mean = F.cross_entropy(output, labels[own].to(device))
        # DistributedDataParallel takes the mean of the gradients of both ranks.
        loss = mean * (int(own.sum()) * RANKS / len(labels))
        loss.backward()
        optimizer.step()
        whole = loss.detach() / RANKS
        distributed.all_reduce(whole)
        losses.append(whole.item())
    torch.save(losses, f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


def losses_of_ranks(folder: pathlib.Path, seed: int, steps: int, width: int) -> list[float]:
    """Returns the losses of two ranks. The network calls norms on tensors of torch, whose SyncBatchNorm needs GPUs."""
    if torch.cuda.device_count() < RANKS:
        pytest.skip("two GPUs are needed")
    folder.mkdir()
    torch.multiprocessing.spawn(train_rank, (str(folder), seed, steps, width), nprocs=RANKS)
    curves = [torch.load(folder / f"{rank}.pt") for rank in range(RANKS)]
    assert curves[0] == curves[1]
    return curves[0]


def test_first_steps():
    ours, dense = (losses_of(s, 0, 3, 1) for s in (spconv, dense_spconv))
    assert ours[-1] < ours[0]
    assert ours == pytest.approx(dense, rel=2e-3)


def test_steps_repeat_bit_by_bit():
    assert losses_of(spconv, 1, 3, 2) == losses_of(spconv, 1, 3, 2)


def test_first_steps_of_two_ranks(tmp_path: pathlib.Path):
    ranks, dense = losses_of_ranks(tmp_path / "ranks", 0, 3, 4), losses_of(dense_spconv, 0, 3, RANKS)
    assert ranks[-1] < ranks[0]
    assert ranks == pytest.approx(dense, rel=2e-3)


@pytest.mark.parametrize("ranks", [1, RANKS])
def test_loss_curve(tmp_path: pathlib.Path, ranks: int):
    if not os.environ.get("MINUET_LONG_TESTS"):
        pytest.skip("MINUET_LONG_TESTS=1 trains for 60 steps")
    steps, late = 60, 30
    if ranks == 1:
        ours = [losses_of(spconv, seed, steps, 2, 16) for seed in range(3)]
    else:
        ours = [losses_of_ranks(tmp_path / str(seed), seed, steps, 16) for seed in range(3)]
    dense = [losses_of(dense_spconv, seed, steps, 2, 16) for seed in range(3)]
    means = [[sum(curve[late:]) / (steps - late) for curve in curves] for curves in (ours, dense)]
    spread = max(means[1]) - min(means[1])
    print("losses of the last 30 of 60 steps, seeds 0 to 2:", means[0], "dense:", means[1])
    assert max(abs(a - b) for a, b in zip(*means, strict=True)) <= max(spread, 0.02)
    assert max(means[0]) < 0.5 * ours[0][0]
