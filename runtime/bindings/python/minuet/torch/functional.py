"""Ops on sparse tensors, without state. Modules are made of these."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import torch

from .._points import PointBlend, PointFeature
from .._types import Axes, Purpose
from ._activations import add, cat, dropout, gelu, layer_norm, leaky_relu, multiply, relu, sigmoid, silu, tanh
from ._convolutions import convolve
from ._dense import from_dense, to_dense
from ._keys import LAYOUTS, ConvolutionKey, KernelKey, constant, kernel_of, positive, text_of
from ._levels import Level
from ._normalization import batch_norm
from ._poolings import pooling as _pooling
from ._rows import devoxelize as _devoxelize
from ._rows import gather_rows
from ._rows import global_pooling as _global_pooling
from ._rows import voxelize as _voxelize
from ._rules import (
    TRAINED,
    TRAINED_POOLING,
    Rule,
    is_recording,
    kernel_name,
    raise_status,
    read_numbers,
    uncompiled_in_exact_mode,
)
from ._sparse_tensor import SparseTensor

__all__ = [
    "Voxels",
    "add",
    "batch_norm",
    "cat",
    "convolution",
    "devoxelize",
    "dropout",
    "from_dense",
    "gather_rows",
    "gelu",
    "global_pooling",
    "layer_norm",
    "leaky_relu",
    "linear",
    "multiply",
    "pooling",
    "relu",
    "sigmoid",
    "silu",
    "tanh",
    "to_dense",
    "voxelize",
]

Offsets = Sequence[Sequence[int]]


class _Kind:
    """What a convolution's arguments say, but for tensors and levels.

    Attributes:
        kernel, name: the kernel, and what tells it from others.
        strides: one number for each axis.
    """

    def __init__(self, kernel: KernelKey, strides: tuple[int, ...], groups: int, transposed: bool, layout: str) -> None:
        self.kernel, self.name, self.strides = kernel, kernel_name(kernel), strides
        self._rest = (groups, transposed, layout)
        self._texts: dict[bool, str] = {}

    def text(self, is_within: bool) -> str:
        """Returns the key of the op, within a level or between two."""
        found = self._texts.get(is_within)
        if found is None:
            groups, transposed, layout = self._rest
            found = _convolution_text(self.name, self.strides, groups, is_within, transposed, layout)
            self._texts[is_within] = found
        return found


def _new_kind(
    ndim: int,
    kernel_size: Axes,
    stride: Axes,
    dilation: Axes,
    padding: Axes | None,
    groups: int,
    transposed: bool,
    layout: str,
    kernel_shape: str,
    offsets: Offsets | None = None,
) -> _Kind:
    """Checks the arguments of a convolution."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout {layout!r} is not known: use one of {', '.join(LAYOUTS)}")
    kernel = kernel_of(ndim, kernel_size, dilation, padding, kernel_shape, offsets)
    if groups < 1:
        raise ValueError(f"groups is {groups}, and must be 1 or more")
    return _Kind(kernel, positive(stride, ndim, "stride"), groups, transposed, layout)


_known_kind = functools.lru_cache(4096, typed=True)(_new_kind)
_INTEGERS = frozenset((int,))
_CONSTANTS = frozenset((int, bool, str, type(None)))


def _kind_of(*given: Any) -> _Kind:
    """Returns what _new_kind() does, and keeps what it has made."""
    if torch.compiler.is_compiling():
        return _new_kind(*given)
    known = []
    for value in given:
        is_many = type(value) is list or type(value) is tuple
        if not (_INTEGERS.issuperset(map(type, value)) if is_many else type(value) in _CONSTANTS):
            return _new_kind(*given)  # Arrays may change, and 3.0 equals 3, but is refused.
        known.append(tuple(value) if is_many else value)
    return _known_kind(*known)


@functools.lru_cache(4096)
def _text(kernel: tuple[Any, ...], *rest: Any) -> str:
    return text_of(ConvolutionKey(KernelKey(*kernel), *rest))


@constant
def _convolution_text(
    kernel: tuple[Any, ...],
    stride: tuple[int, ...],
    groups: int,
    submanifold: bool,
    transposed: bool,
    layout: str,
    reduction: str = "",
) -> str:
    return _text(kernel, stride, groups, submanifold, transposed, layout, reduction)


def cast(features: torch.Tensor) -> torch.Tensor:
    """Returns features in the dtype of torch.autocast, where that is on. Parameters keep theirs."""
    kind = features.device.type
    if kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind) and features.dtype.is_floating_point:
        return features.to(torch.get_autocast_dtype(kind))
    return features


def _other_level(
    x: SparseTensor, kernel: KernelKey, stride: tuple[int, ...], transposed: bool, to: Level | None, purposes: int
) -> tuple[Level, Level]:
    """Returns the finer and the coarser level of an op."""
    level = x.level
    if transposed:
        if level.parent is None:
            raise ValueError(
                "a transposed op goes back to the level that the input's level was made from, and this one is the "
                "first level: run an op with a stride before"
            )
        if to is not None and to is not level.parent:
            raise ValueError(
                "a transposed op goes back to the level that the input's level was made from, and `to` is another one: "
                "leave it out"
            )
        return level.parent, level
    if to is not None:
        return level, to
    dense = () if kernel.padding is None else (kernel.size, kernel.dilation, kernel.padding)
    return level, level._coarser(Rule(stride, *dense), kernel, purposes)


@uncompiled_in_exact_mode
def convolution(
    x: SparseTensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    kernel_size: Axes = 1,
    stride: Axes = 1,
    dilation: Axes = 1,
    padding: Axes | None = None,
    groups: int = 1,
    submanifold: bool = False,
    transposed: bool = False,
    to: Level | None = None,
    layout: str = "minuet",
    kernel_shape: str = "box",
    offsets: Offsets | None = None,
) -> SparseTensor:
    """Convolves a sparse tensor.

    Args:
        weight: in the layout that `layout` names: "minuet" is [offsets, in / groups, out], and also [sizes..., in /
            groups, out]; "spconv" is [out, sizes..., in / groups]. float32 under autocast; its gradient has its dtype,
            and is summed in float32.
        bias: [out], optional.
        kernel_size, stride, dilation: one number for all axes, or one each.
        padding: where given, the op has the outputs and the offsets of a dense convolution, within the geometry's
            shape if it has one. Where not, the outputs are the cells of the stride that have a voxel, and the kernel is
            centred.
        groups: of channels.
        submanifold: the outputs are the voxels of the input.
        transposed: the op goes back from the input's level to the one that it was made from. Kernel, stride and padding
            are those of an op that goes the other way ("inverse convolution" in spconv).
        to: the level of the output; None: the one that the other arguments name.
        kernel_shape, offsets: as of minuet.KernelMap.
    """
    return _convolution(
        x, weight, bias, convolve, kernel_size, stride, dilation, padding, groups, submanifold, transposed, to, layout,
        kernel_shape, offsets,
    )  # fmt: skip


def _convolution(
    x: SparseTensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    run: Callable[..., torch.Tensor],
    kernel_size: Axes = 1,
    stride: Axes = 1,
    dilation: Axes = 1,
    padding: Axes | None = None,
    groups: int = 1,
    submanifold: bool = False,
    transposed: bool = False,
    to: Level | None = None,
    layout: str = "minuet",
    kernel_shape: str = "box",
    offsets: Offsets | None = None,
) -> SparseTensor:
    """Does what convolution() does. `run` is convolve(), or a function that takes the same and does more."""
    given = (x.level.ndim, kernel_size, stride, dilation, padding, groups, transposed, layout, kernel_shape)
    kind = _kind_of(*given) if offsets is None else _new_kind(*given, offsets)
    if submanifold and (max(kind.strides) > 1 or padding is not None or transposed):
        raise ValueError("a submanifold convolution has a stride of 1, no padding and is not transposed")
    x.require_device(weight, bias)
    features, level = cast(x.features), x.level
    of_weight = is_recording(weight)
    if of_weight or is_recording(features):
        purposes = TRAINED
    else:
        purposes = int(Purpose.TRANSPOSED_CONVOLUTION if transposed else Purpose.CONVOLUTION)
    if submanifold:
        fine = coarse = out = level
        made = level.map_within(kind.kernel, kind.name, purposes)
    else:
        fine, coarse = _other_level(x, kind.kernel, kind.strides, transposed, to, purposes)
        made = fine.map_to(coarse, kind.kernel, purposes)
        out = fine if transposed else coarse
    built = made.require(purposes)
    pairs, pair_count = made.pairs() if of_weight else (None, None)
    result = run(
        features, weight, bias, built.buffer, pairs, pair_count, out.count, kind.text(fine is coarse), built.key,
        built.number, out.rows,
    )  # fmt: skip
    return SparseTensor(result, out)


#: convolution() with a function that runs it, by which spconv's layers take a batch norm into the same step.
convolution_with = uncompiled_in_exact_mode(_convolution)


def linear(x: SparseTensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> SparseTensor:
    """Multiplies each voxel's features with a weight [out, in], as torch.nn.functional.linear does."""
    return convolution(x, weight, bias, submanifold=True, layout="spconv")


@uncompiled_in_exact_mode
def pooling(
    x: SparseTensor,
    reduction: str = "max",
    *,
    kernel_size: Axes = 2,
    stride: Axes | None = None,
    dilation: Axes = 1,
    padding: Axes | None = None,
    submanifold: bool = False,
    transposed: bool = False,
    to: Level | None = None,
    kernel_shape: str = "box",
    offsets: Offsets | None = None,
) -> SparseTensor:
    """Pools a sparse tensor.

    Args:
        reduction: "max", "average" (over the inputs that are there) or "sum".
        stride: None: the kernel size, or 1 where `submanifold` is set or offsets are given.
        transposed: the op goes back from the input's level to the one that it was made from. With "sum" it is an
            unpooling.

    All other arguments are those of convolution().
    """
    if reduction not in ("max", "average", "sum"):
        raise ValueError(f"reduction {reduction!r} is not known: use max, average or sum")
    ndim = x.level.ndim
    kernel = kernel_of(ndim, kernel_size, dilation, padding, kernel_shape, offsets)
    default = 1 if submanifold or offsets is not None else kernel_size
    strides = positive(default if stride is None else stride, ndim, "stride")
    if submanifold and (max(strides) > 1 or padding is not None or transposed):
        raise ValueError("a submanifold pooling has a stride of 1, no padding and is not transposed")
    is_trained = is_recording(x.features)
    purposes = int(Purpose.TRANSPOSED_POOLING if transposed else Purpose.POOLING)
    if is_trained:
        purposes = TRAINED_POOLING
    fine, coarse = _other_level(x, kernel, strides, transposed, x.level if submanifold else to, purposes)
    made = fine.map_to(coarse, kernel, purposes)
    built = made.require(purposes)
    out = fine if transposed else coarse
    key = _convolution_text(
        kernel_name(kernel),
        strides,
        1,
        fine is coarse,
        transposed,
        "minuet",
        reduction,
    )
    # Only the gradient of a maximum reads where its elements are from.
    result, _ = _pooling(x.features, built.buffer, key, built.key, built.number, out.rows, is_trained)
    return SparseTensor(result, out)


@uncompiled_in_exact_mode
def global_pooling(x: SparseTensor, reduction: str = "max", batch_size: int = 0) -> torch.Tensor:
    """Returns the maximum, the average or the sum of the voxels of each cloud, [batch_size, channels]; 0 for a cloud
    without voxels. `batch_size`: 0 for that of the geometry."""
    if reduction not in ("max", "average", "sum"):
        raise ValueError(f"reduction {reduction!r} is not known: use max, average or sum")
    batch = batch_size or x.geometry.batch_size
    if not batch:
        raise ValueError("a global pooling needs a batch size: give it here, or to the Geometry of the coordinates")
    level, geometry = x.level, x.geometry
    coordinates = level.coordinates
    level.require_unchanged()  # The level keeps which batch size its coordinates fit.
    result, status = _global_pooling(x.features, coordinates, level.count, reduction, batch, max(level.capacity, batch))
    if not geometry.is_exact:
        geometry.session.statuses.append(status)
    elif not 0 < level.known_batch <= batch:
        bits = read_numbers(status)[0]
        if bits:
            raise_status(bits, f"the global pooling of {batch} clouds", level.coordinates, _batches(batch, level.ndim))
        level.known_batch = batch
    return result


def _batches(batch_size: int, ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the bounds of coordinates whose batch index is below a batch size."""
    most = 2**31 - 1
    return (0, *[-most] * ndim), (batch_size - 1, *[most] * ndim)


class Voxels(NamedTuple):
    """What voxelize() gives.

    Attributes:
        features: [voxels, channels].
        coordinates: int32 [voxels, 1 + axes], the batch index first.
        voxel_points: how many points count for each voxel, int32 [voxels].
        point_rows: the voxel of each point, or -1 for a point that is dropped, int32 [points].
        counts: int32 [6]: voxels, points that count, points outside, points whose position is not finite, points past
            most_points_per_voxel, and points past most_voxels.
        status: bits of minuet.CloudStatus, int32 [1]; there are no voxels unless it is 0.
    """

    features: torch.Tensor
    coordinates: torch.Tensor
    voxel_points: torch.Tensor
    point_rows: torch.Tensor
    counts: torch.Tensor
    status: torch.Tensor


def _require_points(points: torch.Tensor) -> None:
    if points.dim() != 2:
        raise ValueError(f"points have the shape {list(points.shape)}, and [points, columns] is needed")


def _of_axes(value: Any, what: str, ndim: int = 0) -> list[float]:
    """Returns one number for each axis, of a list or an array. `ndim`: 0 where its length is the number of axes."""
    try:
        made = [float(number) for number in value]
    except TypeError:
        raise TypeError(f"{what} is {value!r}: give a list with one number for each axis") from None
    if ndim and len(made) != ndim:
        raise ValueError(f"{what} has {len(made)} numbers, and there are {ndim} axes: give one number for each axis")
    if not 1 <= len(made) <= 4:
        raise ValueError(f"{what} has {len(made)} numbers: one for each of 1 to 4 axes is needed")
    return made


def _member(kind: type[IntEnum], value: Any, what: str) -> int:
    """Returns the number of a member of an enumeration."""
    if not isinstance(value, kind):
        try:
            value = kind(value)
        except ValueError:
            known = ", ".join(f"minuet.{kind.__name__}.{one.name}" for one in kind)
            raise ValueError(f"{what} is {value!r}, and one of {known} is needed") from None
    return int(value)


def voxelize(
    points: torch.Tensor,
    voxel_size: Sequence[float],
    *,
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
    batch: torch.Tensor | None = None,
    count: torch.Tensor | None = None,
    first_column: int = 0,
    channels: int | None = None,
    feature: PointFeature = PointFeature.MEAN,
    batch_size: int = 0,
    most_points_per_voxel: int = 0,
    most_voxels: int = 0,
    capacity: int | None = None,
) -> Voxels:
    """Makes voxels of points, float32 [points, columns], whose first columns are the position.

    Args:
        voxel_size, low: of each axis; `low` is 0 by default.
        high: where given, only points with low <= position < high count.
        batch: the batch index of each point, int32 [points].
        count: how many points there are, int32 [1] on the device.
        first_column, channels: the features are these columns; None: all from first_column on.
        feature: how the features of a voxel follow from those of its points.
        most_points_per_voxel, most_voxels: 0: all.
        capacity: the number of rows of the result, for capacity mode. None: the host reads the number of voxels.
    """
    _require_points(points)
    sizes = _of_axes(voxel_size, "voxel_size")
    ndim = len(sizes)
    given = points.shape[1] - first_column if channels is None else channels
    made = _voxelize(
        points,
        batch,
        count,
        sizes,
        [0.0] * ndim if low is None else _of_axes(low, "low", ndim),
        [] if high is None else _of_axes(high, "high", ndim),
        first_column,
        given,
        _member(PointFeature, feature, "feature"),
        batch_size,
        most_points_per_voxel,
        most_voxels,
        points.shape[0] if capacity is None else capacity,
    )
    features, coordinates, voxel_points, point_rows, counts, status = made
    if capacity is not None:
        return Voxels(features, coordinates, voxel_points, point_rows, counts, status)
    rows, bits = read_numbers(torch.cat([counts[:1], status]))
    if bits:
        raise ValueError(f"the points cannot be voxelized: the status is {bits}; check the batch indices and the range")
    return Voxels(features[:rows], coordinates[:rows], voxel_points[:rows], point_rows, counts, status)


def devoxelize(
    x: SparseTensor,
    points: torch.Tensor,
    voxel_size: Sequence[float],
    *,
    low: Sequence[float] | None = None,
    batch: torch.Tensor | None = None,
    count: torch.Tensor | None = None,
    blend: PointBlend = PointBlend.CENTRES,
) -> torch.Tensor:
    """Returns features at points, [points, channels], of the voxels around them. Positions have no gradient.

    Args:
        points: float32 [points, columns], whose first columns are the position.
        voxel_size, low: those of voxelize(), for the level of its voxels.
        batch, count: those of voxelize().
        blend: minuet.PointBlend.CENTRES or CORNERS. For the features of a point's own voxel, use gather_rows() with
            the point_rows of voxelize().
    """
    if blend == PointBlend.NEAREST:
        raise ValueError("the nearest voxel is that of point_rows: use gather_rows")
    _require_points(points)
    level = x.level
    ndim = level.ndim
    given = _of_axes(voxel_size, "voxel_size", ndim)
    sizes = [size * stride for size, stride in zip(given, level.stride, strict=True)]
    return _devoxelize(
        x.features,
        points,
        batch,
        level.coordinates,
        count,
        level.count,
        _member(PointBlend, blend, "blend"),
        sizes,
        [0.0] * ndim if low is None else _of_axes(low, "low", ndim),
        [1] * ndim,
    )
