"""Dense tensors of sparse ones, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ._levels import Level
from ._rows import gather_rows
from ._sparse_tensor import SparseTensor


def cells(level: Level, shape: Sequence[int], batch_size: int) -> torch.Tensor:
    """Returns the number of each row's cell in a dense tensor [batch, axes...], int64 [rows], and -1 for rows that are
    outside or past the count."""
    coordinates = level.coordinates.long()
    lengths = (batch_size, *shape)
    number = torch.zeros(level.rows, dtype=torch.int64, device=coordinates.device)
    is_inside = torch.ones(level.rows, dtype=torch.bool, device=coordinates.device)
    if level.count is not None:
        is_inside = torch.arange(level.rows, device=coordinates.device) < level.count
    for axis, length in enumerate(lengths):
        column = coordinates[:, axis]
        number = number * length + column
        is_inside = is_inside & (column >= 0) & (column < length)
    return torch.where(is_inside, number, -1)


def _sizes(x: Level, shape: Sequence[int] | None, batch_size: int) -> tuple[tuple[int, ...], int, int]:
    found = shape or x.shape
    batch = batch_size or x.geometry.batch_size
    if found is None or not batch:
        raise ValueError(
            "a dense tensor needs a shape and a batch size: give them here, or to the Geometry of the coordinates"
        )
    if len(found) != x.ndim:
        raise ValueError(f"shape has {len(found)} numbers, and the level has {x.ndim} axes")
    return tuple(found), batch, batch * math.prod(found)


def to_dense(
    x: SparseTensor, shape: Sequence[int] | None = None, batch_size: int = 0, *, channels_last: bool = False
) -> torch.Tensor:
    """Returns a dense tensor [batch, channels, axes...], with 0 in cells without a voxel.

    Args:
        shape: cells along each axis of the level; None: those of the geometry. Voxels outside are left out.
        batch_size: how many clouds; 0: that of the geometry.
        channels_last: [batch, axes..., channels], which saves a copy.
    """
    lengths, batch, total = _sizes(x.level, shape, batch_size)
    number = cells(x.level, lengths, batch)
    # Rows that are left out go to one row more, which is cut off again.
    number = torch.where(number < 0, total, number)
    flat = x.features.new_zeros((total + 1, x.channels)).index_put((number,), x.features)
    dense = flat[:total].reshape(batch, *lengths, x.channels)
    return dense if channels_last else dense.movedim(-1, 1).contiguous()


def from_dense(dense: torch.Tensor, level: Level, *, channels_last: bool = False) -> SparseTensor:
    """Returns the features that the voxels of a level have in a dense tensor [batch, channels, axes...]; 0 for voxels
    outside. `channels_last`: as of to_dense()."""
    if dense.dim() != level.ndim + 2:
        raise ValueError(f"dense has {dense.dim()} axes, and a level of {level.ndim} axes needs {level.ndim + 2}")
    rows = dense if channels_last else dense.movedim(1, -1)
    batch, *lengths, channels = rows.shape
    number = cells(level, lengths, batch).to(torch.int32)
    flat = rows.reshape(-1, channels)
    return SparseTensor(gather_rows(flat, number), level)
