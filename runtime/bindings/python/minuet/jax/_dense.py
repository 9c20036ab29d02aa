"""Dense arrays of the features of a level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from ._cloud import Array, Cloud
from ._plans import require_features, require_geometry


def to_dense(cloud: Cloud, level: int, x: Any, shape: Sequence[int], batch_size: int) -> Array:
    """Returns a dense array [batch_size, cells along each axis, channels], with 0 in cells without a voxel.

    Args:
        x: features of the level.
        shape: cells of the level along each axis, from 0 on. Voxels outside, and batch indices of batch_size or more,
            are left out.
    """
    geometry = require_geometry(cloud)
    x = require_features(cloud, "to_dense", x, level)
    if len(shape) != geometry.ndim:
        raise ValueError(f"shape has {len(shape)} numbers, and there are {geometry.ndim} axes")
    lengths = jnp.array([batch_size, *shape], jnp.int32)
    step = jnp.array([1, *geometry.tensor_stride(level)], jnp.int32)
    cells = cloud.coordinates(level) // step
    is_inside = ((cells >= 0) & (cells < lengths)).all(1) & cloud.is_used(level)
    # What is left out gets an index past the end, which the scatter drops.
    cells = jnp.where(is_inside[:, None], cells, lengths)
    zeros = jnp.zeros((batch_size, *shape, x.shape[1]), x.dtype)
    return zeros.at[tuple(cells.T)].add(x, mode="drop")
