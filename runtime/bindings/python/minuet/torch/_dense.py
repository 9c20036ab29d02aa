"""Dense tensors of sparse ones, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ._levels import Level
from ._rows import gather_rows
from ._sparse_tensor import SparseTensor


def number_cells(coordinates: torch.Tensor, count: torch.Tensor | None, lengths: Sequence[int]) -> torch.Tensor:
    """Returns the number of each row's cell in a dense tensor of these lengths, [batch, axes...]; int64 [rows], and -1
    for rows that are outside or, where there is a count, past it."""
    columns = coordinates.long()
    number = torch.zeros(columns.shape[0], dtype=torch.int64, device=columns.device)
    is_inside = torch.ones(columns.shape[0], dtype=torch.bool, device=columns.device)
    if count is not None:
        is_inside = torch.arange(columns.shape[0], device=columns.device) < count
    for axis, length in enumerate(lengths):
        column = columns[:, axis]
        number = number * length + column
        is_inside = is_inside & (column >= 0) & (column < length)
    return torch.where(is_inside, number, -1)


def fill_cells(
    features: torch.Tensor, number: torch.Tensor, lengths: Sequence[int], *, channels_last: bool = False
) -> torch.Tensor:
    """Returns a dense tensor of these lengths, with the channels behind the batch or last, which has each row of the
    features in the cell of its number, and 0 in all others. Rows with the number -1 are left out."""
    total = math.prod(lengths)
    # Rows that are left out go to one row more, which is cut off again.
    number = torch.where(number < 0, total, number)
    flat = features.new_zeros((total + 1, features.shape[1])).index_put((number,), features)
    dense = flat[:total].reshape(*lengths, features.shape[1])
    return dense if channels_last else dense.movedim(-1, 1).contiguous()


def _lengths(x: Level, shape: Sequence[int] | None, batch_size: int) -> tuple[int, ...]:
    """Returns the lengths of a level's dense tensor, [batch, axes...]."""
    found = shape or x.shape
    batch = batch_size or x.geometry.batch_size
    if found is None or not batch:
        raise ValueError(
            "a dense tensor needs a shape and a batch size: give them here, or to the Geometry of the coordinates"
        )
    if len(found) != x.ndim:
        raise ValueError(f"shape has {len(found)} numbers, and the level has {x.ndim} axes")
    return (batch, *found)


def to_dense(
    x: SparseTensor, shape: Sequence[int] | None = None, batch_size: int = 0, *, channels_last: bool = False
) -> torch.Tensor:
    """Returns a dense tensor [batch, channels, axes...], with 0 in cells without a voxel.

    Args:
        shape: cells along each axis of the level; None: those of the geometry. Voxels outside are left out.
        batch_size: how many clouds; 0: that of the geometry.
        channels_last: [batch, axes..., channels], which saves a copy.

    Raises:
        ValueError: in exact mode, voxels occur twice or are out of the bounds of the geometry.
    """
    x.level.require_valid()
    lengths = _lengths(x.level, shape, batch_size)
    number = number_cells(x.level.coordinates, x.level.count, lengths)
    return fill_cells(x.features, number, lengths, channels_last=channels_last)


def from_dense(dense: torch.Tensor, level: Level, *, channels_last: bool = False) -> SparseTensor:
    """Returns the features that the voxels of a level have in a dense tensor [batch, channels, axes...]; 0 for voxels
    outside. `channels_last`: as of to_dense()."""
    if dense.dim() != level.ndim + 2:
        raise ValueError(f"dense has {dense.dim()} axes, and a level of {level.ndim} axes needs {level.ndim + 2}")
    rows = dense if channels_last else dense.movedim(1, -1)
    batch, *lengths, channels = rows.shape
    number = number_cells(level.coordinates, level.count, (batch, *lengths)).to(torch.int32)
    flat = rows.reshape(-1, channels)
    return SparseTensor(gather_rows(flat, number), level)
