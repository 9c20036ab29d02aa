"""Ops on rows of points and voxels: gathers, voxels of points, features of voxels at points, and pools of whole clouds.

These ops run a few times in a network at most, so that they use the classes of the package `minuet` as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .._global_pooling import GLOBAL_POOLINGS, global_pooling_bounds, global_pooling_network
from .._plan import Plan
from .._points import Devoxelizer, PointBlend, PointFeature, Voxelizer, Voxels
from .._pyramid import Pyramid
from .._row_gradients import DevoxelizeGradient, GroupGradient
from .._types import DType
from ._define import define
from ._places import (
    Place,
    context,
    exact_dtype_of,
    loaded,
    new_cache,
    place_of,
    plain,
    rows_of,
    with_room,
)

_ops: dict[Any, Any] = new_cache(256)


def _loaded(place: Place, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    return loaded(_ops, key, place, make)


# ---- points of voxels -------------------------------------------------------------------------------------------


def _devoxelize_key(
    features: torch.Tensor, blend: int, voxel_size: Sequence[float], low: Sequence[float], stride: Sequence[int]
) -> dict[str, Any]:
    return {
        "blend": PointBlend(blend),
        "voxel_size": tuple(voxel_size) or 0.0,
        "low": tuple(low) or 0.0,
        "tensor_stride": tuple(stride) or 1,
        "ndim": len(stride) or 3,
        "dtype": exact_dtype_of(features),
    }


def _sources(blend: int, points: torch.Tensor, batch: Any, coordinates: Any, count: Any) -> dict[str, Any]:
    if blend == PointBlend.NEAREST:
        return {"point_rows": plain(points), "count": plain(count)}
    return {
        "points": plain(points),
        "batch": plain(batch),
        "coordinates": plain(coordinates),
        "count": plain(count),
    }


def _devoxelize(
    features: torch.Tensor, points: torch.Tensor, batch: Any, coordinates: Any, count: Any, row_count: Any, blend: int,
    voxel_size: Sequence[float], low: Sequence[float], stride: Sequence[int],
) -> torch.Tensor:  # fmt: skip
    place = place_of(features.device)
    options = _devoxelize_key(features, blend, voxel_size, low, stride)
    channels = features.shape[1]
    op = _loaded(
        place, ("devoxelize", channels, *options.values()), lambda: Devoxelizer(context(), channels, **options)
    )
    out = features.new_empty((points.shape[0], channels))
    workspace = place.empty_bytes(op.bytes(place.arch, points.shape[0], features.shape[0]))
    op.run(
        place.library_device,
        rows_of(features.detach()),
        **_sources(blend, points, batch, coordinates, count),
        row_count=plain(row_count),
        out=out,
        workspace=workspace,
        stream=place.stream(),
    )
    return out


def _devoxelize_fake(
    features: torch.Tensor, points: torch.Tensor, batch: Any, coordinates: Any, count: Any, row_count: Any, blend: int,
    voxel_size: Sequence[float], low: Sequence[float], stride: Sequence[int],
) -> torch.Tensor:  # fmt: skip
    return features.new_empty((points.shape[0], features.shape[1]))


def _devoxelize_backward(
    gradient: torch.Tensor, points: torch.Tensor, batch: Any, coordinates: Any, count: Any, row_count: Any, blend: int,
    voxel_size: Sequence[float], low: Sequence[float], stride: Sequence[int], rows: int,
) -> torch.Tensor:  # fmt: skip
    place = place_of(gradient.device)
    options = _devoxelize_key(gradient, blend, voxel_size, low, stride)
    channels = gradient.shape[1]
    op = _loaded(
        place,
        ("devoxelize gradient", channels, *options.values()),
        lambda: DevoxelizeGradient(context(), channels, **options),
    )
    out = gradient.new_empty((rows, channels))
    op.compute(
        place.library_device,
        rows_of(gradient.detach()),
        **_sources(blend, points, batch, coordinates, count),
        row_count=plain(row_count),
        out=out,
        workspace=place.empty_bytes(op.bytes(place.arch, points.shape[0], rows)),
        stream=place.stream(),
    )
    return out


def _devoxelize_backward_fake(gradient: torch.Tensor, *others: Any) -> torch.Tensor:
    return gradient.new_empty((others[-1], gradient.shape[1]))


_SOURCES = "Tensor points, Tensor? batch, Tensor? coordinates, Tensor? count, Tensor? row_count, int blend, "
_SCALES = "float[] voxel_size, float[] low, int[] stride"

devoxelize_backward = define(
    f"devoxelize_backward(Tensor gradient, {_SOURCES}{_SCALES}, SymInt rows) -> Tensor",
    _devoxelize_backward,
    _devoxelize_backward_fake,
)


def _devoxelize_setup(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
    ctx.save_for_backward(*inputs[1:6])
    ctx.numbers = (*inputs[6:], inputs[0].shape[0])


def _devoxelize_gradient(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    return (devoxelize_backward(gradient, *ctx.saved_tensors, *ctx.numbers), *[None] * 9)


#: Gives points the features of voxels: those of the rows that `points`, int32 [points], names (-1: zeros), or with
#: another blend those around float32 positions. With rows it is any gather whose gradient repeats bit by bit.
devoxelize = define(
    f"devoxelize(Tensor features, {_SOURCES}{_SCALES}) -> Tensor",
    _devoxelize,
    _devoxelize_fake,
    setup_context=_devoxelize_setup,
    backward=_devoxelize_gradient,
)


def gather_rows(features: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Returns the rows of features that `rows`, int32 [count], names. A number that is not that of a row, such as -1,
    gives zeros. Unlike that of torch.index_select, the gradient has the same bits each time."""
    return devoxelize(features, rows, None, None, None, None, int(PointBlend.NEAREST), [], [], [])


# ---- voxels of points -------------------------------------------------------------------------------------------


def _voxelize(
    points: torch.Tensor, batch: Any, count: Any, voxel_size: Sequence[float], low: Sequence[float],
    high: Sequence[float], first_column: int, channels: int, feature: int, batch_size: int, most_points: int,
    most_voxels: int, capacity: int,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    place = place_of(points.device)
    options: dict[str, Any] = {
        "voxel_size": tuple(voxel_size),
        "low": tuple(low),
        "high": tuple(high) or None,
        "ndim": len(voxel_size),
        "first_column": first_column,
        "feature": PointFeature(feature),
        "batch_size": batch_size,
        "most_points_per_voxel": most_points,
        "most_voxels": most_voxels,
    }
    op = _loaded(place, ("voxelize", channels, *options.values()), lambda: Voxelizer(context(), channels, **options))
    made = _voxels(points, len(voxel_size), channels, capacity)
    features, coordinates, voxel_points, point_rows, counts, status = made
    op.run(
        place.library_device,
        plain(points),
        plain(batch),
        plain(count),
        out=Voxels(coordinates, features, voxel_points, point_rows, counts, status),
        workspace=place.empty_bytes(op.bytes(place.arch, points.shape[0])),
        stream=place.stream(),
    )
    return made


def _voxels(points: torch.Tensor, ndim: int, channels: int, capacity: int) -> tuple[torch.Tensor, ...]:
    shapes = [(capacity, 1 + ndim), (capacity,), (points.shape[0],), (6,), (1,)]
    return (
        points.new_empty((capacity, channels), dtype=torch.float32),
        *[points.new_empty(shape, dtype=torch.int32) for shape in shapes],
    )


def _voxelize_fake(points: torch.Tensor, batch: Any, count: Any, *others: Any) -> tuple[torch.Tensor, ...]:
    return _voxels(points, len(others[0]), others[4], others[-1])


def _group_gradient(
    gradient: torch.Tensor, groups: torch.Tensor, features: torch.Tensor | None, sizes: torch.Tensor | None,
    row_count: torch.Tensor | None, feature: int,
) -> torch.Tensor:  # fmt: skip
    place = place_of(gradient.device)
    channels = gradient.shape[1]
    dtype = exact_dtype_of(gradient)
    op = _loaded(
        place,
        ("group gradient", channels, feature, dtype),
        lambda: GroupGradient(context(), channels, feature=PointFeature(feature), dtype=dtype),
    )
    out = gradient.new_empty((groups.shape[0], channels))
    op.compute(
        place.library_device,
        rows_of(gradient.detach()),
        plain(groups),
        input=None if features is None else features.detach(),
        group_sizes=plain(sizes),
        row_count=plain(row_count),
        out=out,
        workspace=place.empty_bytes(op.bytes(place.arch, gradient.shape[0])),
        stream=place.stream(),
    )
    return out


def _group_gradient_fake(gradient: torch.Tensor, groups: torch.Tensor, *others: Any) -> torch.Tensor:
    return gradient.new_empty((groups.shape[0], gradient.shape[1]))


#: Gives each row its part of the gradient of its group.
group_backward = define(
    "group_backward(Tensor gradient, Tensor groups, Tensor? features, Tensor? sizes, Tensor? row_count, int feature) "
    "-> Tensor",
    _group_gradient,
    _group_gradient_fake,
)


def _voxelize_setup(ctx: Any, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> None:
    points, _, count, *numbers = inputs
    _, _, _, first_column, channels, feature, _, most_points, _, _ = numbers
    _, coordinates, voxel_points, point_rows, counts, status = outputs
    ctx.mark_non_differentiable(coordinates, voxel_points, point_rows, counts, status)
    is_mean, is_max = feature == PointFeature.MEAN, feature == PointFeature.MAX
    rows = points[:, first_column : first_column + channels] if is_max else None
    ctx.save_for_backward(point_rows, rows, voxel_points if is_mean else None, count)
    ctx.columns = (first_column, points.shape[1])
    ctx.feature, ctx.most_points = feature, most_points


def _voxelize_gradient(ctx: Any, gradient: torch.Tensor, *_: Any) -> tuple[Any, ...]:
    if ctx.most_points or ctx.feature == PointFeature.FIRST:
        raise RuntimeError(
            "voxels with most_points_per_voxel, or with the features of their first points, have no gradient: detach "
            "the points"
        )
    first, columns = ctx.columns
    rows = group_backward(gradient, *ctx.saved_tensors, ctx.feature)
    last = columns - first - rows.shape[1]
    return (torch.nn.functional.pad(rows, (first, last)), *[None] * 12)


#: Makes voxels of points, float32 [points, columns], as minuet.Voxelizer does: features, coordinates, points of each
#: voxel, the voxel of each point, six counts and the status. `capacity` is the number of rows.
voxelize = define(
    "voxelize(Tensor points, Tensor? batch, Tensor? count, float[] voxel_size, float[] low, float[] high, "
    "int first_column, int channels, int feature, int batch_size, int most_points, int most_voxels, SymInt capacity) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _voxelize,
    _voxelize_fake,
    setup_context=_voxelize_setup,
    backward=_voxelize_gradient,
)

# ---- whole clouds -----------------------------------------------------------------------------------------------


class _GlobalPooling:
    """A network of one op, with the pyramid that it runs on."""

    def __init__(self, channels: int, reduction: str, dtype: DType, capacity: int, batch_size: int) -> None:
        description = global_pooling_network(channels, reduction)
        self.plan = Plan.network(context(), description=description, dtype=dtype, dataflow="fused")
        capacities = [capacity] + [batch_size] * (self.plan.info.levels - 1)
        self.pyramid = Pyramid(
            context(),
            network=self.plan,
            level_capacity=capacities,
            bounds=global_pooling_bounds(capacity, batch_size),
            batch_size=batch_size,
        )

    def load(self, device: Any) -> None:
        """Loads the plan and the kernels that build pyramids."""
        self.plan.load(device)
        self.pyramid.load(device)


def _global_pooling(
    features: torch.Tensor, coordinates: torch.Tensor, count: torch.Tensor | None, reduction: str, batch_size: int,
    capacity: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    place = place_of(features.device)
    key = (features.shape[1], reduction, exact_dtype_of(features), capacity, batch_size)
    op = _loaded(place, ("global pooling", *key), lambda: _GlobalPooling(*key))
    device, stream = place.library_device, place.stream()
    sizes = op.pyramid.bytes(place.arch)
    buffer, workspace = place.empty_bytes(sizes[0]), place.empty_bytes(sizes[1])
    status = torch.empty(1, dtype=torch.int32, device=place.device)
    numbers = torch.arange(coordinates.shape[0], dtype=torch.int32, device=place.device)
    made_up = torch.stack([coordinates[:, 0], numbers], 1)
    op.pyramid.build(
        device, plain(made_up), plain(count), buffer=buffer, workspace=workspace, status=status, stream=stream
    )
    rows = with_room(features.detach(), capacity)
    if rows.shape[0] < capacity:
        rows = rows.as_strided((capacity, rows.shape[1]), (rows.shape[1], 1))
    out = features.new_empty((batch_size, features.shape[1]))
    workspace = place.empty_bytes(op.pyramid.run_bytes(op.plan, place.arch))
    op.pyramid.run(op.plan, device, buffer, rows, workspace=workspace, out=out, stream=stream)
    return out, status


def _global_pooling_fake(
    features: torch.Tensor, coordinates: Any, count: Any, reduction: str, batch_size: int, capacity: int
) -> tuple[torch.Tensor, torch.Tensor]:
    return features.new_empty((batch_size, features.shape[1])), features.new_empty(1, dtype=torch.int32)


def _global_pooling_setup(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
    features, coordinates, count, reduction, _, _ = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(coordinates, features if reduction == "max" else None, None, count)
    ctx.feature = int(GLOBAL_POOLINGS[reduction])


def _global_pooling_gradient(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[Any, ...]:
    return (group_backward(gradient, *ctx.saved_tensors, ctx.feature), *[None] * 5)


#: Pools the rows of each cloud, [batch_size, channels], by the batch index in the first column of the coordinates. The
#: second result has bits of minuet.CloudStatus, int32 [1].
global_pooling = define(
    "global_pooling(Tensor features, Tensor coordinates, Tensor? count, str reduction, int batch_size, int capacity) "
    "-> (Tensor, Tensor)",
    _global_pooling,
    _global_pooling_fake,
    setup_context=_global_pooling_setup,
    backward=_global_pooling_gradient,
)
