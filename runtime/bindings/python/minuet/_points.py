"""Voxels of points, and features of voxels back to points."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from . import _abi
from ._arrays import View, device_view, stream_handle
from ._device import Context, Device
from ._library import Handle, call, library, make
from ._operands import int32_output, output_array, place_count, place_workspace, row_stride
from ._types import Axes, DType, axes, dtype_of, element_of


class PointFeature(IntEnum):
    """Says how the features of a voxel follow from those of its points."""

    MEAN = _abi.MINUET_POINT_FEATURE_MEAN
    MAX = _abi.MINUET_POINT_FEATURE_MAX
    SUM = _abi.MINUET_POINT_FEATURE_SUM
    FIRST = _abi.MINUET_POINT_FEATURE_FIRST


class PointBlend(IntEnum):
    """Says from which voxels a point takes its features: its own, or the ones around it, weighted linearly, where the
    features of a voxel belong to the centre of its cell, or to the corner of lowest coordinates (TorchSparse)."""

    NEAREST = _abi.MINUET_BLEND_NEAREST
    CENTRES = _abi.MINUET_BLEND_CENTRES
    CORNERS = _abi.MINUET_BLEND_CORNERS


@dataclass(frozen=True)
class Voxels:
    """What Voxelizer.run gives, in memory of the device. Rows behind the last voxel are zeros.

    Args:
        coordinates: int32 [capacity, 1 + ndim], the batch index first; in the order of the voxels' first points.
        features: [capacity, channels].
        voxel_points: int32 [capacity], how many points count for a voxel's features.
        point_rows: int32 [points], the row of each point's voxel; -1: the point is dropped.
        counts: int32 [6]: voxels, points that count, points outside, points whose position is not finite, points past
            most_points_per_voxel, and points past most_voxels.
        status: int32 [1] with CloudStatus bits; there are no voxels unless it is 0.
    """

    coordinates: Any
    features: Any
    voxel_points: Any
    point_rows: Any
    counts: Any
    status: Any


def _lengths(value: float | Sequence[float], ndim: int, what: str) -> list[float]:
    given = [float(number) for number in ([value] * ndim if isinstance(value, int | float) else value)]
    if len(given) != ndim:
        raise ValueError(f"{what} has {len(given)} numbers, and there are {ndim} axes: give one number for each axis")
    return given


def _place_points(
    arguments: Any, points: Any, batch: Any, count: Any, device: Device, stream: int, least_columns: int
) -> View:
    """Fills in the points of arguments."""
    found = device_view(points, device, stream, "points")
    found.require("points", "float32", (None, None))
    if found.shape[1] < least_columns:
        raise ValueError(f"points has {found.shape[1]} columns; it must have at least {least_columns}")
    arguments.points = found.address or None
    arguments.most, arguments.points_ld = found.shape[0], row_stride(found, "points")
    if batch is not None:
        numbers = device_view(batch, device, stream, "batch")
        numbers.require("batch", "int32", (found.shape[0],))
        numbers.require_contiguous("batch")
        arguments.batch = numbers.address or None
    place_count(arguments, "count", count, device, stream)
    return found


def devoxelize_options(
    channels: int,
    blend: PointBlend,
    voxel_size: float | Sequence[float],
    low: float | Sequence[float],
    tensor_stride: Axes,
    ndim: int,
    dtype: Any,
) -> _abi.minuet_devoxelize_options:
    """Returns the library's form of the options of devoxelizing, which its gradient shares."""
    options = _abi.minuet_devoxelize_options(struct_size=ctypes.sizeof(_abi.minuet_devoxelize_options))
    options.ndim, options.dtype = ndim, dtype_of(dtype)
    options.channels, options.blend = channels, int(blend)
    options.voxel_size[:ndim] = _lengths(voxel_size, ndim, "voxel_size")
    options.low[:ndim] = _lengths(low, ndim, "low")
    options.tensor_stride[:ndim] = axes(tensor_stride, ndim, "tensor_stride")
    return options


def place_sources(
    arguments: _abi.minuet_devoxelize_arguments,
    blend: PointBlend,
    ndim: int,
    *,
    rows: int | None,
    point_rows: Any,
    points: Any,
    batch: Any,
    coordinates: Any,
    count: Any,
    device: Device,
    stream: int,
) -> None:
    """Fills in what says which rows of the level a point reads, and how many rows the level has: `rows`, or where that
    is None, as many as `coordinates` has."""
    if blend == PointBlend.NEAREST:
        if point_rows is None or points is not None or batch is not None or coordinates is not None:
            raise ValueError("the nearest voxel is that of point_rows: give it, and no points, batch or coordinates")
        if rows is None:
            raise ValueError("point_rows does not tell how many rows the features have: give rows or out")
        found = device_view(point_rows, device, stream, "point_rows")
        found.require("point_rows", "int32", (None,))
        found.require_contiguous("point_rows")
        arguments.point_rows, arguments.most = found.address or None, found.shape[0]
        place_count(arguments, "count", count, device, stream)
        arguments.most_rows = rows
        return
    if points is None or coordinates is None or point_rows is not None:
        raise ValueError("this blend looks voxels up: give points and coordinates, and no point_rows")
    _place_points(arguments, points, batch, count, device, stream, ndim)
    cells = device_view(coordinates, device, stream, "coordinates")
    cells.require("coordinates", "int32", (rows, 1 + ndim))
    cells.require_contiguous("coordinates")
    arguments.coordinates, arguments.most_rows = cells.address or None, cells.shape[0]


class Voxelizer(Handle):
    """Makes voxels of points on the device. May be used from many threads.

    The coordinate of a point p on an axis is floor((p - low) / voxel_size), in float32. Points that are not finite or
    outside are dropped. Means and sums are added in the order of the points in float64.

    Args:
        context: where its kernels are compiled and kept.
        voxel_size, low: one number, or one for each axis.
        high: where given, only points with low <= p < high are inside.
        first_column, channels: the features are these columns of a point, whose first columns are its position.
        dtype: of the voxels' features.
        most_points_per_voxel: only so many points of a voxel, those of lowest index, count; 0: all.
        most_voxels: only so many voxels, those of the lowest first points, are kept; 0: all.
    """

    def __init__(
        self,
        context: Context,
        channels: int,
        voxel_size: float | Sequence[float],
        *,
        low: float | Sequence[float] = 0.0,
        high: float | Sequence[float] | None = None,
        ndim: int = 3,
        dtype: Any = DType.FLOAT32,
        first_column: int = 0,
        feature: PointFeature = PointFeature.MEAN,
        batch_size: int = 0,
        most_points_per_voxel: int = 0,
        most_voxels: int = 0,
    ) -> None:
        options = _abi.minuet_voxelize_options(struct_size=ctypes.sizeof(_abi.minuet_voxelize_options))
        options.ndim, options.dtype = ndim, dtype_of(dtype)
        options.first_column, options.channels, options.feature = first_column, channels, int(feature)
        options.voxel_size[:ndim] = _lengths(voxel_size, ndim, "voxel_size")
        options.low[:ndim] = _lengths(low, ndim, "low")
        if high is not None:
            options.has_range = 1
            options.high[:ndim] = _lengths(high, ndim, "high")
        options.batch_size = batch_size
        options.most_points_per_voxel, options.most_voxels = most_points_per_voxel, most_voxels
        self._ndim, self._channels, self._dtype = ndim, channels, dtype_of(dtype)
        self._columns = max(ndim, first_column + channels)
        super().__init__(
            make("minuet_voxelize_create", context, ctypes.byref(options)), library.minuet_point_op_destroy, context
        )

    def bytes(self, arch: str, most: int) -> int:
        """Returns the bytes of the workspace for `most` points, without a device."""
        size = ctypes.c_int64()
        call("minuet_voxelize_bytes", self, arch.encode(), most, ctypes.byref(size))
        return size.value

    def load(self, device: Device) -> None:
        """Compiles and loads the kernels; run() needs it once for a device."""
        call("minuet_point_op_load", self, device)
        self._keep(device)

    def run(
        self,
        device: Device,
        points: Any,
        batch: Any = None,
        count: Any = None,
        *,
        capacity: int | None = None,
        out: Voxels | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> Voxels:
        """Voxelizes. Only enqueues, once memory is there: with `out` and `workspace`, it may be captured in a graph.

        Args:
            points: float32 [most, columns] on the device.
            batch: optional: the batch index of each point, int32 [most] on the device.
            count: optional: how many points there are, int32 [1] on the device.
            capacity: the rows of the result; None: those of `out`, else one for each point, which always suffices.
            out: the arrays of a result of the same shapes, which are written again; None: new memory.
            workspace: memory of bytes(); None: new memory, which is given back at the end of the call, so that on a
                GPU the call waits for the work. Give one where the call must only enqueue.
        """
        handle = stream_handle(stream)
        arguments = _abi.minuet_voxelize_arguments(struct_size=ctypes.sizeof(_abi.minuet_voxelize_arguments))
        found = _place_points(arguments, points, batch, count, device, handle, self._columns)
        most = found.shape[0]
        if capacity is None:
            capacity = most if out is None else int(out.coordinates.shape[0])
        arguments.capacity = capacity
        held = place_workspace(arguments, workspace, lambda: self.bytes(device.arch, most), device, handle)
        made = {
            "coordinates": (arguments.capacity, 1 + self._ndim),
            "voxel_points": (arguments.capacity,),
            "point_rows": (most,),
            "counts": (_abi.MINUET_VOXELIZE_COUNTS,),
            "status": (1,),
        }
        arrays = {}
        for name, shape in made.items():
            arrays[name], address = int32_output(device, getattr(out, name, None), shape, handle, name)
            setattr(arguments, name, address or None)
        features, address = output_array(
            device,
            getattr(out, "features", None),
            (capacity, self._channels),
            element_of(self._dtype),
            handle,
            "features",
        )
        arguments.features = address or None
        call("minuet_voxelize", self, device, ctypes.byref(arguments), handle)
        del held
        return Voxels(features=features, **arrays)


class Devoxelizer(Handle):
    """Gives points the features of voxels on the device. May be used from many threads.

    Args:
        context: where its kernels are compiled and kept.
        blend: from which voxels a point takes its features.
        voxel_size, low: those of the Voxelizer, for a blend other than NEAREST.
        tensor_stride: of the level whose features are given.
    """

    def __init__(
        self,
        context: Context,
        channels: int,
        *,
        blend: PointBlend = PointBlend.NEAREST,
        voxel_size: float | Sequence[float] = 0.0,
        low: float | Sequence[float] = 0.0,
        tensor_stride: Axes = 1,
        ndim: int = 3,
        dtype: Any = DType.FLOAT32,
    ) -> None:
        options = devoxelize_options(channels, blend, voxel_size, low, tensor_stride, ndim, dtype)
        self._ndim, self._channels, self._dtype, self._blend = ndim, channels, dtype_of(dtype), PointBlend(blend)
        super().__init__(
            make("minuet_devoxelize_create", context, ctypes.byref(options)), library.minuet_point_op_destroy, context
        )

    def bytes(self, arch: str, most: int, most_rows: int) -> int:
        """Returns the bytes of the workspace for `most` points and `most_rows` rows of features, without a device."""
        size = ctypes.c_int64()
        call("minuet_devoxelize_bytes", self, arch.encode(), most, most_rows, ctypes.byref(size))
        return size.value

    def load(self, device: Device) -> None:
        """Compiles and loads the kernels; run() needs it once for a device."""
        call("minuet_point_op_load", self, device)
        self._keep(device)

    def run(
        self,
        device: Device,
        features: Any,
        *,
        point_rows: Any = None,
        points: Any = None,
        batch: Any = None,
        coordinates: Any = None,
        count: Any = None,
        row_count: Any = None,
        out: Any = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> Any:
        """Returns the features of the points, [most, channels]. Only enqueues, once memory is there.

        Args:
            features: [rows, channels] on the device.
            point_rows: with NEAREST: the row of each point or -1, int32 [most].
            points, batch, coordinates: with the other blends: those of Voxelizer.run, and the level's coordinates,
                int32 [rows, 1 + ndim].
            count, row_count: optional: how many points and rows there are, int32 [1] on the device.
            out: the array to write to; None: new memory.
            workspace: as for Voxelizer.run.
        """
        handle = stream_handle(stream)
        arguments = _abi.minuet_devoxelize_arguments(struct_size=ctypes.sizeof(_abi.minuet_devoxelize_arguments))
        found = device_view(features, device, handle, "features")
        found.require("features", element_of(self._dtype), (None, self._channels))
        found.require_contiguous("features")
        arguments.features = found.address or None
        place_sources(
            arguments,
            self._blend,
            self._ndim,
            rows=found.shape[0],
            point_rows=point_rows,
            points=points,
            batch=batch,
            coordinates=coordinates,
            count=count,
            device=device,
            stream=handle,
        )
        place_count(arguments, "row_count", row_count, device, handle)
        held = place_workspace(
            arguments,
            workspace,
            lambda: self.bytes(device.arch, arguments.most, arguments.most_rows),
            device,
            handle,
        )
        shape = (arguments.most, self._channels)
        output, address = output_array(device, out, shape, element_of(self._dtype), handle, "output")
        arguments.output = address or None
        call("minuet_devoxelize", self, device, ctypes.byref(arguments), handle)
        del held
        return output
