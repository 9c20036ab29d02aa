"""Training on generated rooms gives the losses of the same network on dense grids in plain PyTorch."""

from __future__ import annotations

import os
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dense_spconv  # noqa: E402
import minuet.torch.spconv as spconv  # noqa: E402
from room_training import make_network, train  # noqa: E402


def losses_of(s: Any, seed: int, steps: int, rooms: int, width: int = 4) -> list[float]:
    """Trains the network of a seed, and returns the loss of each step."""
    return train(make_network(s, seed, width), steps, rooms)


def test_first_steps():
    ours, dense = (losses_of(s, 0, 3, 1) for s in (spconv, dense_spconv))
    assert ours[-1] < ours[0]
    assert ours == pytest.approx(dense, rel=2e-3)


def test_steps_repeat_bit_by_bit():
    assert losses_of(spconv, 1, 3, 2) == losses_of(spconv, 1, 3, 2)


def test_loss_curve():
    if not os.environ.get("MINUET_LONG_TESTS"):
        pytest.skip("MINUET_LONG_TESTS=1 trains for 60 steps")
    steps, late = 60, 30
    ours = [losses_of(spconv, seed, steps, 2, 16) for seed in range(3)]
    dense = [losses_of(dense_spconv, seed, steps, 2, 16) for seed in range(3)]
    means = [[sum(curve[late:]) / (steps - late) for curve in curves] for curves in (ours, dense)]
    spread = max(means[1]) - min(means[1])
    print("losses of the last 30 of 60 steps, seeds 0 to 2:", means[0], "dense:", means[1])
    assert max(abs(a - b) for a, b in zip(*means, strict=True)) <= max(spread, 0.02)
    assert max(means[0]) < 0.5 * ours[0][0]
