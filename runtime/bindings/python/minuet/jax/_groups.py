"""The gradient of what combines the rows of groups: the points of voxels, or the voxels of clouds."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._points import PointFeature
from .._row_gradients import GroupGradient
from .._types import DType
from ._calls import call
from ._cloud import Array
from ._plans import dtype_of
from ._target import Target, context, current


@functools.lru_cache(maxsize=1024)
def _workspace(dtype: DType, channels: int, feature: PointFeature, groups: int, target: Target) -> int:
    if target.arch == "cpu":
        return 0
    op = GroupGradient(context(), channels, feature=feature, dtype=dtype)
    return max(1, op.bytes(target.arch, groups))


def group_gradient(
    gradient: Any, groups: Any, count: Any, feature: PointFeature, *, rows: Any = None, sizes: Any = None
) -> Array:
    """Returns each row's part of the gradient of its group, [rows, channels].

    Args:
        gradient: of the groups, [groups, channels].
        groups: int32 [rows, columns], whose first column is the group of a row; -1: it has none.
        count: how many rows there are, int32 [1].
        rows: for MAX, the rows.
        sizes: for MEAN, where they are known: how many rows each group has, int32 [groups].
    """
    dtype, channels = dtype_of(gradient), gradient.shape[1]
    made: Array = call(
        "minuet_group_gradient",
        [((groups.shape[0], channels), gradient.dtype)],
        [gradient, groups, jnp.asarray(count).reshape(1), *(each for each in (rows, sizes) if each is not None)],
        workspace=_workspace(dtype, channels, feature, gradient.shape[0], current()),
        dtype=np.int64(dtype),
        channels=np.int64(channels),
        feature=np.int64(feature),
    )[0]
    return made
