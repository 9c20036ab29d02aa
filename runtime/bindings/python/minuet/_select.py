"""Levels of the rows, children or cells that a rule keeps."""

from __future__ import annotations

import ctypes
import math
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


class SelectRule(IntEnum):
    """Says which candidates are kept: all, those whose byte of a mask is not 0, those whose score is above a threshold,
    those with the best scores of each batch item, or the cells in which a dense tensor is not 0."""

    ALL = _abi.MINUET_SELECT_ALL
    MASK = _abi.MINUET_SELECT_MASK
    ABOVE = _abi.MINUET_SELECT_ABOVE
    BEST = _abi.MINUET_SELECT_BEST
    NONZERO = _abi.MINUET_SELECT_NONZERO


@dataclass(frozen=True)
class Selected:
    """What Selector.run gives, in memory of the device. Rows behind the last kept candidate are zeros, and -1 in
    sources and parents.

    Args:
        coordinates: int32 [capacity, 1 + ndim], the batch index first; in the order of the candidates.
        sources: int32 [capacity], the number of each kept candidate: row * children + child, or the number of the cell.
        parents: int32 [capacity], the row of each kept candidate; None for cells.
        places: int32 [candidates], the new row of each candidate; -1: it is not kept.
        count: int32 [1], how many candidates are kept.
        status: int32 [1] with CloudStatus bits; nothing is kept unless it is 0.
        features: with NONZERO [capacity, channels], what the dense tensor has in the kept cells; else None.
    """

    coordinates: Any
    sources: Any
    parents: Any
    places: Any
    count: Any
    status: Any
    features: Any = None


class Selector(Handle):
    """Lists the rows of a level, their children, or the cells of a dense tensor that a rule keeps, on the device. May
    be used from many threads.

    Args:
        context: where its kernels are compiled and kept.
        threshold: for ABOVE: scores greater than this are kept.
        best: for BEST: so many of each batch item. Of equal scores the lower candidates are kept, NaN never.
        children: of a row on each axis. Child coordinates are those of the row plus the child's number on the axis
            times tensor_stride.
        tensor_stride: of the new level.
        shape: where given, the candidates are the cells of a dense tensor with so many cells on each axis. Coordinates
            are the cell's number on the axis times tensor_stride.
        batch_size: for cells: the batch items of the dense tensor. For BEST of rows: batch indices are less than this;
            0: they are not limited.
        channels, channels_last: for NONZERO: of the dense tensor, which is [batch_size, channels, cells], or with
            channels_last [batch_size, cells, channels].
        axis_order: for NONZERO: the axes in the order in which the dense tensor stores them; None: in their own.
        dtype: of the scores or the dense tensor.
    """

    def __init__(
        self,
        context: Context,
        rule: SelectRule = SelectRule.MASK,
        *,
        threshold: float = 0.0,
        best: int = 0,
        children: Axes = 1,
        tensor_stride: Axes = 1,
        shape: Sequence[int] | None = None,
        batch_size: int = 0,
        channels: int = 0,
        channels_last: bool = False,
        axis_order: Sequence[int] | None = None,
        ndim: int = 3,
        dtype: Any = DType.FLOAT32,
    ) -> None:
        options = _abi.minuet_select_options(struct_size=ctypes.sizeof(_abi.minuet_select_options))
        options.ndim, options.dtype, options.rule = ndim, dtype_of(dtype), int(rule)
        options.threshold, options.best, options.batch_size = threshold, best, batch_size
        options.tensor_stride[:ndim] = axes(tensor_stride, ndim, "tensor_stride")
        counts = axes(children, ndim, "children")
        if shape is not None:
            options.source = _abi.MINUET_SELECT_CELLS
            options.shape[:ndim] = axes(shape, ndim, "shape")
            if counts != [1] * ndim:
                raise ValueError("children is given, but the candidates are cells, which have none")
        else:
            options.children[:ndim] = counts
        options.channels, options.channels_last = channels, int(channels_last)
        if axis_order is not None:
            options.axis_order[:ndim] = axes(axis_order, ndim, "axis_order")
        self._ndim, self._dtype, self._channels, self._rule = ndim, dtype_of(dtype), channels, SelectRule(rule)
        self._children = math.prod(counts)
        self._cells = None if shape is None else batch_size * math.prod(shape)
        super().__init__(
            make("minuet_select_create", context, ctypes.byref(options)), library.minuet_select_op_destroy, context
        )

    def bytes(self, arch: str, most_rows: int = 0) -> int:
        """Returns the bytes of the workspace for `most_rows` rows (0 for cells), without a device."""
        size = ctypes.c_int64()
        call("minuet_select_bytes", self, arch.encode(), most_rows, ctypes.byref(size))
        return size.value

    def load(self, device: Device) -> None:
        """Compiles and loads the kernels; run() needs it once for a device."""
        call("minuet_select_op_load", self, device)
        self._keep(device)

    def _place_rows(self, arguments: Any, coordinates: Any, row_count: Any, device: Device, stream: int) -> int:
        """Fills in the rows of arguments, and returns the number of candidates."""
        if self._cells is not None:
            if coordinates is not None or row_count is not None:
                raise ValueError("the candidates are cells: give no coordinates and no row_count")
            return self._cells
        if coordinates is None:
            raise ValueError("the candidates are rows: give their coordinates")
        rows = device_view(coordinates, device, stream, "coordinates")
        rows.require("coordinates", "int32", (None, 1 + self._ndim))
        rows.require_contiguous("coordinates")
        arguments.coordinates, arguments.most_rows = rows.address or None, rows.shape[0]
        place_count(arguments, "row_count", row_count, device, stream)
        return rows.shape[0] * self._children

    def _place_scores(self, arguments: Any, scores: Any, candidates: int, device: Device, stream: int) -> None:
        found = device_view(scores, device, stream, "scores")
        if self._cells is not None:
            found.require("scores", element_of(self._dtype), None)
            _require_size(found, candidates, "scores")
            arguments.scores, arguments.scores_ld = found.address or None, 1
            return
        found.require("scores", element_of(self._dtype), (arguments.most_rows, self._children))
        arguments.scores, arguments.scores_ld = found.address or None, row_stride(found, "scores")

    def run(
        self,
        device: Device,
        coordinates: Any = None,
        *,
        mask: Any = None,
        scores: Any = None,
        dense: Any = None,
        row_count: Any = None,
        capacity: int | None = None,
        out: Selected | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> Selected:
        """Selects. Only enqueues, once memory is there: with `out` and `workspace`, it may be captured in a graph.

        Args:
            coordinates: for rows: int32 [most_rows, 1 + ndim] on the device.
            mask: for MASK: uint8 on the device, one for each candidate: [most_rows, children], or the cells.
            scores: for ABOVE and BEST: of the dtype, [most_rows, children] with any stride between rows, or the cells.
            dense: for NONZERO: the dense tensor, contiguous, of the dtype.
            row_count: optional, for rows: how many there are, int32 [1] on the device.
            capacity: the rows of the result; None: those of `out`, else one for each candidate, which always suffices.
            out: the arrays of a result of the same shapes, which are written again; None: new memory.
            workspace: as for Voxelizer.run.
        """
        handle = stream_handle(stream)
        arguments = _abi.minuet_select_arguments(struct_size=ctypes.sizeof(_abi.minuet_select_arguments))
        candidates = self._place_rows(arguments, coordinates, row_count, device, handle)
        for name, given, kind, size in (
            ("mask", mask, "uint8", candidates),
            ("dense", dense, element_of(self._dtype), candidates * self._channels),
        ):
            if given is None:
                continue
            found = device_view(given, device, handle, name)
            found.require(name, kind, None)
            _require_size(found, size, name)
            setattr(arguments, name, found.address or None)
        if scores is not None:
            self._place_scores(arguments, scores, candidates, device, handle)
        if capacity is None:
            capacity = candidates if out is None else int(out.coordinates.shape[0])
        arguments.capacity = capacity
        most_rows = arguments.most_rows
        held = place_workspace(arguments, workspace, lambda: self.bytes(device.arch, most_rows), device, handle)
        made = {"coordinates": (capacity, 1 + self._ndim), "sources": (capacity,)}
        if self._cells is None:
            made["parents"] = (capacity,)
        made.update({"places": (candidates,), "count": (1,), "status": (1,)})
        arrays: dict[str, Any] = {"parents": None}
        for name, shape in made.items():
            arrays[name], address = int32_output(device, getattr(out, name, None), shape, handle, name)
            setattr(arguments, "selected" if name == "coordinates" else name, address or None)
        if self._rule == SelectRule.NONZERO:
            arrays["features"], address = output_array(
                device,
                getattr(out, "features", None),
                (capacity, self._channels),
                element_of(self._dtype),
                handle,
                "features",
            )
            arguments.features = address or None
        call("minuet_select", self, device, ctypes.byref(arguments), handle)
        del held
        return Selected(**arrays)


def _require_size(found: View, size: int, what: str) -> None:
    """Raises where an array does not have so many elements, one behind the other."""
    found.require_contiguous(what)
    if math.prod(found.shape) != size:
        raise ValueError(f"{what} has the shape {list(found.shape)}; it must have {size} elements in all")
