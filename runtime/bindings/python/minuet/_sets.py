"""Coordinate sets and kernel maps, for callers who build networks of single ops."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _abi
from ._arrays import device_view, stream_handle
from ._device import Device, Queue
from ._kernel import Offsets, set_kernel
from ._library import Handle, ask, ask_count, call, library, make, using
from ._operands import int32_output
from ._types import Axes, KernelShape, axes

Bounds = tuple[Sequence[int], Sequence[int]]


def set_bounds(options: Any, bounds: Bounds | None, ndim: int) -> None:
    """Fills in the bounds (least, greatest) of options: batch first, both inclusive."""
    if bounds is None:
        return
    options.has_bounds = 1
    for name, given in zip(("least", "greatest"), bounds, strict=True):
        numbers = axes(given, 1 + ndim, f"the {name} of the bounds (batch first)")
        getattr(options, name)[: 1 + ndim] = numbers


class Coordinates(Handle):
    """A coordinate set: the voxels on which features live.

    Args:
        device: where the set lives.
        coordinates: int32 [count, 1 + ndim] in memory of the device: the batch index first (0 or more), then x, y, z...
            Negative coordinates are legal. Read during the call only.
        tensor_stride: of the set, for all axes or one each.
        keep_first_duplicate: of equal coordinates the first row wins; else they are an error.
        bounds: (least, greatest), inclusive and batch first, in which all coordinates lie.
        queue: optional; shared by what is made on one stream.
        stream: CUDA stream of the work; the call waits for it.

    Raises:
        InvalidArgumentError: duplicates, or a wrong shape.
        OutOfRangeError: a coordinate is outside the bounds or the range of the keys.
    """

    def __init__(
        self,
        device: Device,
        coordinates: Any,
        *,
        tensor_stride: Axes = 1,
        keep_first_duplicate: bool = False,
        bounds: Bounds | None = None,
        queue: Queue | None = None,
        stream: Any = None,
    ) -> None:
        handle = stream_handle(stream)
        found = device_view(coordinates, device, handle, "coordinates")
        found.require("coordinates", "int32", (None, None))
        found.require_contiguous("coordinates")
        ndim = found.shape[1] - 1
        if not 1 <= ndim <= _abi.MINUET_MAX_DIM:
            raise ValueError(f"coordinates have {found.shape[1]} columns: the batch index and 1 to 4 axes are needed")
        options = _abi.minuet_coordinates_options(struct_size=ctypes.sizeof(_abi.minuet_coordinates_options))
        options.ndim = ndim
        options.tensor_stride[:ndim] = axes(tensor_stride, ndim, "tensor_stride")
        options.keep_first_duplicate = int(keep_first_duplicate)
        set_bounds(options, bounds, ndim)
        with using(queue) as (options.queue,):
            pointer = make(
                "minuet_coordinates_create", device, ctypes.byref(options), found.address, found.shape[0], handle
            )
        self._set_up(pointer, device, queue, ndim)

    def _set_up(self, pointer: int | None, device: Device, queue: Queue | None, ndim: int) -> None:
        self._device, self._queue, self._ndim = device, queue, ndim
        super().__init__(pointer, library.minuet_coordinates_destroy, device, queue)

    def _derived(self, pointer: int | None) -> Coordinates:
        result = Coordinates.__new__(Coordinates)
        result._set_up(pointer, self._device, self._queue, self._ndim)
        return result

    @property
    def device(self) -> Device:
        """The device of the set."""
        return self._device

    @property
    def ndim(self) -> int:
        """The number of axes, without the batch index."""
        return self._ndim

    @property
    def count(self) -> int:
        """Coordinates in the set, without duplicates. May wait, for a derived set with a queue."""
        return ask_count("minuet_coordinates_count", self)

    @property
    def rows(self) -> int:
        """Rows of features on this set: as many as the caller gave; the count of a derived set."""
        return ask_count("minuet_coordinates_rows", self)

    def __len__(self) -> int:
        return self.rows

    def downsample(self, stride: Axes, stream: Any = None) -> Coordinates:
        """Makes the coarser set: unique floor(p / (s t)) * (s t), for strides s and this set's tensor stride t. The
        order of its rows depends on its coordinates and tensor stride alone."""
        numbers = (ctypes.c_int32 * _abi.MINUET_MAX_DIM)(*axes(stride, self._ndim, "stride"))
        return self._derived(make("minuet_coordinates_downsample", self, numbers, stream_handle(stream)))

    def reach(
        self,
        kernel_size: Axes,
        *,
        stride: Axes = 1,
        dilation: Axes = 1,
        padding: Axes = 0,
        shape: Axes = 0,
        stream: Any = None,
    ) -> Coordinates:
        """Makes the set of all outputs that a dense convolution reaches from this set, the rule of spconv's
        SparseConv3d. `shape`: cells of the new set along each axis; 0: no limit."""
        options = _abi.minuet_reach_options(struct_size=ctypes.sizeof(_abi.minuet_reach_options))
        ndim = self._ndim
        for name, value in (
            ("kernel_size", kernel_size),
            ("stride", stride),
            ("dilation", dilation),
            ("padding", padding),
            ("shape", shape),
        ):
            getattr(options, name)[:ndim] = axes(value, ndim, name)
        return self._derived(make("minuet_coordinates_reach", self, ctypes.byref(options), stream_handle(stream)))

    def generate(
        self,
        kernel_size: Axes,
        *,
        stride: Axes = 1,
        dilation: Axes = 1,
        padding: Axes | None = None,
        shape: Axes = 0,
        stream: Any = None,
    ) -> Coordinates:
        """Makes the set of all outputs of a generative op, whose tensor stride is this set's divided by `stride`.
        Without `padding` the kernel is centred, as in MinkowskiEngine; with it, the offsets are those of spconv's
        SparseConvTranspose3d. `shape`: cells of the new set along each axis; 0: no limit."""
        options = _abi.minuet_generate_options(struct_size=ctypes.sizeof(_abi.minuet_generate_options))
        options.dense_offsets = padding is not None
        ndim = self._ndim
        for name, value in (
            ("kernel_size", kernel_size),
            ("stride", stride),
            ("dilation", dilation),
            ("padding", 0 if padding is None else padding),
            ("shape", shape),
        ):
            getattr(options, name)[:ndim] = axes(value, ndim, name)
        return self._derived(make("minuet_coordinates_generate", self, ctypes.byref(options), stream_handle(stream)))

    def export(self, out: Any = None, stream: Any = None) -> Any:
        """Returns the coordinates, int32 [rows, 1 + ndim] in memory of the device, in the order of the rows. Enqueued
        on the stream. `out`: the array to write to; None: a new one."""
        handle = stream_handle(stream)
        shape = (self.rows, 1 + self._ndim)
        result, address = int32_output(self._device, out, shape, handle, "out")
        call("minuet_coordinates_export", self, address, handle)
        return result


class KernelMap(Handle):
    """Says which input feeds which output at which offset: out[q] takes in[q + offset] for every offset.

    Args:
        input, output: the coordinate sets; the same one makes a submanifold map.
        kernel_size, dilation: for all axes or one each. Offsets are -(K - 1) / 2 to K / 2, in steps of dilation times
            the tensor stride of the input (of the output where transposed), x slowest.
        transposed: the matching forward map with input and output swapped.
        padding: where given, offsets are k - padding / dilation for k from 0, as of a dense convolution
            (Coordinates.reach).
        kernel_shape: "cross" for the offsets along the axes only.
        offsets: where given, the offsets themselves, each with a number for each axis, in steps of the tensor stride.
        stream: CUDA stream of the work.

    Raises:
        InvalidArgumentError: the sets are of different devices or queues, or do not have the same number of axes.
        ResourceExhaustedError: there is no memory for the map.
    """

    def __init__(
        self,
        input: Coordinates,
        output: Coordinates,
        kernel_size: Axes = 1,
        *,
        dilation: Axes = 1,
        transposed: bool = False,
        padding: Axes | None = None,
        kernel_shape: KernelShape | str = KernelShape.BOX,
        offsets: Offsets | None = None,
        stream: Any = None,
    ) -> None:
        ndim = input.ndim
        options = _abi.minuet_kernel_map_options(struct_size=ctypes.sizeof(_abi.minuet_kernel_map_options))
        kept = set_kernel(options, ndim, kernel_size, dilation, padding, kernel_shape, offsets)
        options.transposed = int(transposed)
        pointer = make("minuet_kernel_map_create", input, output, ctypes.byref(options), stream_handle(stream))
        del kept
        super().__init__(pointer, library.minuet_kernel_map_destroy, input, output)
        self._device = input.device

    def transpose(self) -> KernelMap:
        """Returns the same pairs in the other direction, for the transposed ("inverse") convolution. Shares the
        memory."""
        result = KernelMap.__new__(KernelMap)
        pointer = make("minuet_kernel_map_transpose", self)
        Handle.__init__(result, pointer, library.minuet_kernel_map_destroy, self)
        result._device = self._device
        return result

    @property
    def volume(self) -> int:
        """The number of offsets."""
        number: int = ask("minuet_kernel_map_volume", self)
        return number

    @property
    def pairs(self) -> int:
        """The number of pairs over all offsets."""
        number = ctypes.c_int64()
        call("minuet_kernel_map_query_pairs", self, ctypes.byref(number))
        return number.value

    def list_pairs(self, out: Any = None, count: Any = None, stream: Any = None) -> tuple[Any, Any]:
        """Returns int32 [pairs, 3] on the device: offset number, input row, output row, in ascending order of the
        offsets; and the number of pairs, int32 [1].

        Args:
            out: the array to write to, of any number of rows; None: new memory, for which the call may wait.
            count: the number to write to; None: new memory.
        """
        handle = stream_handle(stream)
        capacity = self.pairs if out is None else int(out.shape[0])
        listed, address = int32_output(self._device, out, (capacity, 3), handle, "out")
        number, at = int32_output(self._device, count, (1,), handle, "count")
        call("minuet_kernel_map_list_pairs", self, address or None, capacity, at, handle)
        return listed, number

    def export(self, stream: Any = None) -> np.ndarray[Any, np.dtype[np.int32]]:
        """Returns int32 [pairs, 3] on the host: offset number, input row, output row. Waits."""
        result = np.empty((self.pairs, 3), np.int32)
        call("minuet_kernel_map_export", self, result.ctypes.data, stream_handle(stream))
        return result
