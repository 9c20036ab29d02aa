"""Gradients of ops that gather rows, or that combine the rows of groups."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from . import _abi
from ._arrays import View, device_view, stream_handle
from ._device import Context, Device
from ._library import Handle, call, library, make
from ._operands import output_array, place_count, place_workspace, row_stride
from ._points import PointBlend, PointFeature, devoxelize_options, place_sources
from ._types import Axes, DType, dtype_of, element_of


class DevoxelizeGradient(Handle):
    """Computes the gradient of the features that a Devoxelizer reads. With NEAREST it is the gradient of any gather of
    rows. May be used from many threads. Sums have a fixed order, so that results have the same bits on every device.
    Positions of points have no gradient.

    Args:
        context: where its kernels are compiled and kept.
        channels, blend, voxel_size, low, tensor_stride, ndim, dtype: those of the Devoxelizer.

    Raises:
        InvalidArgumentError: an option is wrong; the message names it.
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
        pointer = make("minuet_devoxelize_gradient_create", context, ctypes.byref(options))
        super().__init__(pointer, library.minuet_point_op_destroy, context)

    def bytes(self, arch: str, most: int, most_rows: int) -> int:
        """Returns the bytes of the workspace for `most` points and `most_rows` rows of features, without a device.
        Raises OutOfRangeError where the points have 2^30 or more corners in all, of which each has 1 with NEAREST and
        else 2^ndim."""
        size = ctypes.c_int64()
        call("minuet_devoxelize_gradient_bytes", self, arch.encode(), most, most_rows, ctypes.byref(size))
        return size.value

    def load(self, device: Device) -> None:
        """Compiles and loads the kernels; compute() needs it once for a device."""
        call("minuet_point_op_load", self, device)
        self._keep(device)

    def compute(
        self,
        device: Device,
        out_gradient: Any,
        *,
        point_rows: Any = None,
        points: Any = None,
        batch: Any = None,
        coordinates: Any = None,
        count: Any = None,
        rows: int | None = None,
        row_count: Any = None,
        out: Any = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> Any:
        """Returns the gradient of the features, [rows, channels] of the dtype. Rows that no point reads, and rows past
        the row count, are 0. Only enqueues with `out` and `workspace`, and may then be captured.

        Args:
            out_gradient: the gradient of the output of Devoxelizer.run, contiguous [most, channels] of the dtype.
                Rows of points without a voxel, and past the count, are not read.
            point_rows, points, batch, coordinates, count, row_count: those of Devoxelizer.run.
            rows: how many rows the features have; None: as many as `coordinates` or `out` has.
            out: the array to write to; None: new memory.
            workspace: memory of bytes(); None: new memory, which is given back at the end of the call, so that on a
                GPU the call waits for the work.

        Raises:
            ValueError, TypeError: an array is missing, or has another shape or other elements.
            FailedPreconditionError: load() has not been called for the device.
            ResourceExhaustedError: the workspace is too small.
        """
        handle = stream_handle(stream)
        arguments = _abi.minuet_devoxelize_arguments(struct_size=ctypes.sizeof(_abi.minuet_devoxelize_arguments))
        if rows is None and out is not None:
            written = device_view(out, device, handle, "out")
            written.require("out", element_of(self._dtype), (None, self._channels))
            rows = written.shape[0]
        place_sources(
            arguments,
            self._blend,
            self._ndim,
            rows=rows,
            point_rows=point_rows,
            points=points,
            batch=batch,
            coordinates=coordinates,
            count=count,
            device=device,
            stream=handle,
        )
        place_count(arguments, "row_count", row_count, device, handle)
        arguments.features = _contiguous(
            device, out_gradient, (arguments.most, self._channels), self._dtype, handle, "out_gradient"
        ).address
        most = (arguments.most, arguments.most_rows)
        held = place_workspace(arguments, workspace, lambda: self.bytes(device.arch, *most), device, handle)
        shape = (arguments.most_rows, self._channels)
        output, address = output_array(device, out, shape, element_of(self._dtype), handle, "out")
        arguments.output = address or None
        call("minuet_devoxelize_gradient", self, device, ctypes.byref(arguments), handle)
        del held
        return output


class GroupGradient(Handle):
    """Gives each row its part of the gradient of its group: the gradient of a Voxelizer, whose groups are the points of
    each voxel, or of a pooling over whole batch items. May be used from many threads. Results have the same bits on
    every device.

    Args:
        context: where its kernels are compiled and kept.
        channels: of the rows and of the groups, 1 to 65536.
        feature: how the result of a group follows from its rows, for each channel. Of equal maxima the lowest row has
            the gradient, where NaN counts as the largest number.
        ndim: of the coordinates that load() serves; results do not depend on it.
        dtype: of the gradients of the groups.
        rows_are_f32: the rows and their gradients are float32, as points are; else of the dtype.

    Raises:
        InvalidArgumentError: an option is wrong; the message names it.
    """

    def __init__(
        self,
        context: Context,
        channels: int,
        *,
        feature: PointFeature = PointFeature.MEAN,
        ndim: int = 3,
        dtype: Any = DType.FLOAT32,
        rows_are_f32: bool = False,
    ) -> None:
        options = _abi.minuet_group_gradient_options(struct_size=ctypes.sizeof(_abi.minuet_group_gradient_options))
        options.ndim, options.dtype = ndim, dtype_of(dtype)
        options.channels, options.feature, options.rows_are_f32 = channels, int(feature), int(rows_are_f32)
        self._channels, self._dtype = channels, dtype_of(dtype)
        self._row_dtype = DType.FLOAT32 if rows_are_f32 else self._dtype
        pointer = make("minuet_group_gradient_create", context, ctypes.byref(options))
        super().__init__(pointer, library.minuet_point_op_destroy, context)

    def bytes(self, arch: str, most_groups: int) -> int:
        """Returns the bytes of the workspace for `most_groups` groups, without a device; 0 with SUM."""
        size = ctypes.c_int64()
        call("minuet_group_gradient_bytes", self, arch.encode(), most_groups, ctypes.byref(size))
        return size.value

    def load(self, device: Device) -> None:
        """Compiles and loads the kernels; compute() needs it once for a device."""
        call("minuet_point_op_load", self, device)
        self._keep(device)

    def compute(
        self,
        device: Device,
        out_gradient: Any,
        groups: Any,
        *,
        input: Any = None,
        group_sizes: Any = None,
        row_count: Any = None,
        group_count: Any = None,
        out: Any = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> Any:
        """Returns the gradient of the rows, [rows, channels] of the dtype of the rows. Rows without a group, and rows
        past the row count, are 0. Only enqueues with `out` and a workspace, or where it needs no workspace, and may
        then be captured.

        Args:
            out_gradient: the gradient of the groups, contiguous [groups, channels] of the dtype.
            groups: the group of each row: int32 [rows], such as point_rows of Voxels where most_points_per_voxel is 0,
                or the first column of int32 [rows, columns], such as the batch index of coordinates. A row whose group
                is negative, or not less than the number of groups, has none.
            input: for MAX: the rows, [rows, channels] of the dtype of the rows, whose columns are adjacent.
            group_sizes: optional, for MEAN: how many rows each group has, int32 [groups], such as voxel_points of
                Voxels; None: the call counts them.
            row_count, group_count: optional: how many rows and groups there are, int32 [1] on the device. A count that
                is not 0 to its limit counts as 0.
            out: the array to write to; None: new memory.
            workspace: memory of bytes(), which SUM and calls with group_sizes do not need; None: new memory, which is
                given back at the end of the call, so that on a GPU the call waits for the work.

        Raises:
            ValueError, TypeError: an array has another shape or other elements.
            InvalidArgumentError: the feature needs an array that is missing, or has no use for one that is given.
            FailedPreconditionError: load() has not been called for the device.
            ResourceExhaustedError: the workspace is too small.
        """
        handle = stream_handle(stream)
        arguments = _abi.minuet_group_gradient_arguments(
            struct_size=ctypes.sizeof(_abi.minuet_group_gradient_arguments)
        )
        found = _contiguous(device, out_gradient, (None, self._channels), self._dtype, handle, "out_gradient")
        arguments.out_gradient, arguments.most_groups = found.address or None, found.shape[0]
        rows = self._place_groups(arguments, groups, device, handle)
        if input is not None:
            view = device_view(input, device, handle, "input")
            view.require("input", element_of(self._row_dtype), (rows, self._channels))
            arguments.input, arguments.input_ld = view.address or None, row_stride(view, "input")
        if group_sizes is not None:
            sizes = device_view(group_sizes, device, handle, "group_sizes")
            sizes.require("group_sizes", "int32", (found.shape[0],))
            sizes.require_contiguous("group_sizes")
            arguments.group_sizes = sizes.address or None
        for name, given in (("row_count", row_count), ("group_count", group_count)):
            place_count(arguments, name, given, device, handle)
        needed = 0 if group_sizes is not None else self.bytes(device.arch, found.shape[0])
        held = None
        if workspace is not None or needed > 0:
            held = place_workspace(arguments, workspace, lambda: needed, device, handle)
        kind = element_of(self._row_dtype)
        result, address = output_array(device, out, (rows, self._channels), kind, handle, "out")
        arguments.input_gradient = address or None
        call("minuet_group_gradient", self, device, ctypes.byref(arguments), handle)
        del held
        return result

    def _place_groups(
        self, arguments: _abi.minuet_group_gradient_arguments, groups: Any, device: Device, stream: int
    ) -> int:
        """Fills in the groups, and returns the number of rows."""
        found = device_view(groups, device, stream, "groups")
        found.require("groups", "int32", (None,) if len(found.shape) < 2 else (None, None))
        if 0 in found.shape[1:]:
            raise ValueError("groups has no column, and the group is the first one: give at least one")
        rows = found.shape[0]
        # The stride of a single row has no meaning.
        arguments.groups_ld = 1
        if rows > 1:
            arguments.groups_ld = found.strides[0] if found.strides else (*found.shape[1:], 1)[0]
        arguments.groups, arguments.most_rows = found.address or None, rows
        return rows


def _contiguous(
    device: Device, given: Any, shape: tuple[int | None, int], dtype: DType, stream: int, what: str
) -> View:
    """Finds contiguous features that a call reads."""
    found = device_view(given, device, stream, what)
    found.require(what, element_of(dtype), shape)
    found.require_contiguous(what)
    return found
