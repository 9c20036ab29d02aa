"""Voxels of points, and their gradient."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _abi
from .._points import PointFeature, Voxelizer
from .._types import DType, choose
from ._calls import alike, call
from ._cloud import Array, row_count
from ._groups import group_gradient
from ._target import Target, context, current


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Voxels:
    """What voxelize() gives. A pytree of arrays. Rows behind the last voxel are zeros.

    Attributes:
        features: float32 [capacity, channels].
        coordinates: int32 [capacity, 1 + axes], the batch index first; in the order of the voxels' first points.
        voxel_points: how many points count for each voxel, int32 [capacity].
        point_rows: the voxel of each point, or -1 for a point that is dropped, int32 [points].
        counts: int32 [6]: voxels, points that count, points outside, points whose position is not finite, points past
            most_points_per_voxel, and points past most_voxels.
        status: bits of minuet.CloudStatus, uint32 [1], for check(); there are no voxels unless it is 0.
    """

    features: Array
    coordinates: Array
    voxel_points: Array
    point_rows: Array
    counts: Array
    status: Array

    @property
    def count(self) -> Array:
        """The number of voxels, int32 [1], for pyramid()."""
        return self.counts[:1]


@dataclass(frozen=True)
class _Options:
    voxel_size: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...] | None
    first_column: int
    channels: int
    feature: PointFeature
    batch_size: int
    most_points_per_voxel: int
    most_voxels: int
    capacity: int

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the custom call."""
        names = ("first_column", "channels", "feature", "batch_size", "most_points_per_voxel", "most_voxels")
        made: dict[str, Any] = {name: np.int64(getattr(self, name)) for name in names}
        scales = {"voxel_size": self.voxel_size, "low": self.low}
        scales |= {} if self.high is None else {"high": self.high}
        made |= {name: np.array(numbers, np.float32) for name, numbers in scales.items()}
        return {**made, "dtype": np.int64(DType.FLOAT32)}


@functools.lru_cache(maxsize=1024)
def _workspace(options: _Options, most: int, target: Target) -> int:
    """Returns the bytes of the workspace on a GPU. Raises what is wrong with the options."""
    op = Voxelizer(
        context(),
        options.channels,
        options.voxel_size,
        low=options.low,
        high=options.high,
        ndim=len(options.voxel_size),
        first_column=options.first_column,
        feature=options.feature,
        batch_size=options.batch_size,
        most_points_per_voxel=options.most_points_per_voxel,
        most_voxels=options.most_voxels,
    )
    return 0 if target.arch == "cpu" else max(1, op.bytes(target.arch, most))


def voxelize(
    points: Any,
    voxel_size: Sequence[float],
    *,
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
    batch: Any = None,
    count: Any = None,
    first_column: int = 0,
    channels: int | None = None,
    feature: PointFeature | str = PointFeature.MEAN,
    batch_size: int = 0,
    most_points_per_voxel: int = 0,
    most_voxels: int = 0,
    capacity: int | None = None,
) -> Voxels:
    """Makes voxels of points: a row of coordinates and features for each cell of a grid that has points. Differentiable
    by the points, unless most_points_per_voxel is given or the features are those of first points.

    Args:
        points: float32 [points, columns]. The first columns are the position, of which NaN or infinity drops a point.
        voxel_size, low: one number for each axis; `low` is 0 by default. The coordinate of a point p is
            floor((p - low) / voxel_size), in float32.
        high: one number for each axis; where given, only points with low <= position < high count.
        batch: the batch index of each point, int32 [points]; None: 0.
        count: how many of the points there are, int32 [1]; None: all.
        first_column, channels: the features are these columns; None: all from first_column on.
        feature: how the features of a voxel follow from those of its points: "mean", "max", "sum" or "first".
        batch_size: batch indices are less than this; 0: not limited.
        most_points_per_voxel: only so many points of a voxel, those of lowest index, count; 0: all.
        most_voxels: only so many voxels, those of the lowest first points, are kept; 0: all.
        capacity: the rows of the result; None: one for each point. More voxels are PAST_CAPACITY in the status.
    """
    points = jnp.asarray(points)
    if points.dtype != jnp.float32 or points.ndim != 2:
        raise ValueError(
            f"points are {points.dtype} of the shape {list(points.shape)}, and float32 [points, columns] is needed"
        )
    most, columns = points.shape
    given = columns - first_column if channels is None else channels
    least = max(len(voxel_size), first_column + given)
    if columns < least or given < 1 or first_column < 0:
        raise ValueError(
            f"points have {columns} columns, which do not hold a position of {len(voxel_size)} and the features in "
            f"the columns {first_column} to {first_column + given - 1}"
        )
    if batch is not None:
        batch = jnp.asarray(batch)
        if batch.dtype != jnp.int32 or batch.shape != (most,):
            raise ValueError(f"batch is {batch.dtype} of the shape {list(batch.shape)}, and int32 [{most}] is needed")
    options = _Options(
        tuple(float(size) for size in voxel_size),
        tuple(float(number) for number in ([0.0] * len(voxel_size) if low is None else low)),
        None if high is None else tuple(float(number) for number in high),
        first_column,
        given,
        choose(PointFeature, feature, "feature"),
        batch_size,
        most_points_per_voxel,
        most_voxels,
        most if capacity is None else capacity,
    )
    return Voxels(*_voxelize(options, *alike(points, row_count(count, most), batch)))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _voxelize(options: _Options, points: Any, count: Any, batch: Any) -> tuple[Any, ...]:
    rows, most = options.capacity, points.shape[0]
    results = [
        ((rows, options.channels), jnp.float32),
        ((rows, 1 + len(options.voxel_size)), jnp.int32),
        ((rows,), jnp.int32),
        ((most,), jnp.int32),
        ((_abi.MINUET_VOXELIZE_COUNTS,), jnp.int32),
        ((1,), jnp.uint32),
    ]
    return call(
        "minuet_voxelize",
        results,
        [points, count, *([] if batch is None else [batch])],
        workspace=_workspace(options, most, current()),
        **options.attributes,
    )


def _voxelize_forward(options: _Options, points: Any, count: Any, batch: Any) -> tuple[Any, Any]:
    if options.most_points_per_voxel or options.feature == PointFeature.FIRST:
        raise ValueError(
            "voxels with most_points_per_voxel, or with the features of their first points, have no gradient: give "
            "jax.lax.stop_gradient(points)"
        )
    made = _voxelize(options, points, count, batch)
    return made, (points, count, made[2], made[3])


def _voxelize_backward(options: _Options, kept: tuple[Any, ...], gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    points, count, voxel_points, point_rows = kept
    first, last = options.first_column, options.first_column + options.channels
    rows = group_gradient(
        gradients[0],
        point_rows[:, None],
        count,
        options.feature,
        rows=points[:, first:last] if options.feature == PointFeature.MAX else None,
        sizes=voxel_points if options.feature == PointFeature.MEAN else None,
    )
    return jnp.pad(rows, [(0, 0), (first, points.shape[1] - last)]), None, None


_voxelize.defvjp(_voxelize_forward, _voxelize_backward)
