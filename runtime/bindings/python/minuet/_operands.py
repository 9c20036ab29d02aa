"""Operands of single ops: what a call reads, writes and works in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _abi
from ._arrays import View, device_view
from ._device import Device
from ._types import DType, element_of


def memory_view(memory: Any, device: Device, stream: int, what: str, is_written: bool = True) -> View:
    """Finds memory of the device that a call works in."""
    found = device_view(memory, device, stream, what)
    found.require_contiguous(what)
    if is_written:
        found.require_writable(what, stream)
    return found


def output_array(
    device: Device, out: Any, shape: tuple[int, ...], dtype: str, stream: int, what: str
) -> tuple[Any, int]:
    """Returns `out`, or a new array, on the device, and its address."""
    result = device.empty(shape, dtype, stream) if out is None else out
    found = memory_view(result, device, stream, what)
    found.require(what, dtype, shape)
    return result, found.address


def int32_output(device: Device, out: Any, shape: tuple[int, ...], stream: int, what: str) -> tuple[Any, int]:
    """Returns `out`, or a new array, of int32 on the device, and its address."""
    return output_array(device, out, shape, "int32", stream, what)


def row_stride(found: View, what: str) -> int:
    """Returns the elements from one row to the next of a matrix, whose columns must be adjacent."""
    rows, columns = found.shape
    row, column = found.strides or (columns, 1)
    if column != 1 and columns > 1:
        raise ValueError(f"the columns of {what} must be adjacent in memory: give a contiguous array")
    # The stride of a single row has no meaning.
    return row if rows > 1 else columns


def matrix(
    device: Device,
    given: Any,
    rows: int | None,
    channels: int,
    dtype: DType,
    stream: int,
    what: str,
    is_written: bool = False,
) -> _abi.minuet_tensor:
    """Returns the library's form of features [rows, channels]; `rows`: None for any number."""
    found = device_view(given, device, stream, what)
    found.require(what, element_of(dtype), (rows, channels))
    if is_written:
        found.require_writable(what, stream)
    return _abi.minuet_tensor(found.address or None, found.shape[0], row_stride(found, what), channels, dtype)


def place_count(arguments: Any, name: str, given: Any, device: Device, stream: int) -> None:
    """Fills in a number on the device, int32 [1], that the caller may leave out."""
    if given is None:
        return
    number = device_view(given, device, stream, name)
    number.require(name, "int32", (1,))
    setattr(arguments, name, number.address)


def place_workspace(
    arguments: Any, workspace: Any, bytes_needed: Callable[[], int], device: Device, stream: int
) -> Any:
    """Fills in the workspace of arguments, and returns it: it must live until the call is done."""
    if workspace is None:
        # Some calls refuse a null workspace even where they need no bytes of it.
        workspace = device.empty(max(1, bytes_needed()), "uint8", stream)
    arguments.workspace, arguments.workspace_bytes = memory_view(workspace, device, stream, "workspace").memory
    return workspace
