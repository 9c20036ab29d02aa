"""Clouds and tensors for the tests of minuet.torch.spconv."""

from __future__ import annotations

import minuet.torch.spconv as spconv
import torch

SHAPE = [9, 8, 11]
BATCH = 3
CHANNELS = 4


def draw_cloud(shape: list[int], voxels: int, seed: int = 0) -> torch.Tensor:
    """Returns the coordinates of random voxels, in no order."""
    generator = torch.Generator().manual_seed(seed)
    axes = [torch.randint(0, extent, (voxels,), generator=generator) for extent in [BATCH, *shape]]
    drawn = torch.unique(torch.stack(axes, 1), dim=0).int()
    return drawn[torch.randperm(len(drawn), generator=generator)].contiguous()


def draw_features(rows: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(rows, CHANNELS, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def small(rows: int = 30) -> spconv.SparseConvTensor:
    indices = draw_cloud(SHAPE, rows)
    return spconv.SparseConvTensor(draw_features(len(indices)).float(), indices, SHAPE, BATCH)
