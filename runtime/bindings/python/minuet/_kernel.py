"""The kernel of an op or of a kernel map: its size, dilation and padding, or its shape and the list of its offsets."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from . import _abi
from ._integers import integers
from ._types import Axes, KernelShape, axes, choose

Offsets = Sequence[Sequence[int]]


def require_ndim(ndim: int) -> None:
    if not 1 <= ndim <= _abi.MINUET_MAX_DIM:
        raise ValueError(f"ndim is {ndim}, and 1 to {_abi.MINUET_MAX_DIM} are supported")


def kernel_lengths(ndim: int, kernel_size: Axes, kernel_shape: KernelShape | str, offsets: Offsets | None) -> list[int]:
    """Returns the lengths of the axes of a weight that count offsets. Their product is the number of offsets."""
    if offsets is not None:
        return [len(offsets)]
    sizes = axes(kernel_size, ndim, "kernel_size")
    if choose(KernelShape, kernel_shape, "kernel_shape") == KernelShape.CROSS:
        return [1 + sum(size - 1 for size in sizes)]
    return sizes


def is_centre(volume: int, padding: Sequence[int] | None, offsets: Sequence[int] | None) -> bool:
    """Whether a kernel has one offset, which is zero, so that within one level each row is paired with itself.

    Args:
        volume: the number of offsets.
        padding: one number for each axis.
        offsets: where given, all of their numbers, one after the other.
    """
    return volume == 1 and not any(padding or ()) and not any(offsets or ())


def set_kernel(
    options: Any,
    ndim: int,
    kernel_size: Axes,
    dilation: Axes,
    padding: Axes | None,
    kernel_shape: KernelShape | str,
    offsets: Offsets | None,
) -> Any:
    """Fills in the kernel of options. Returns the array of the offsets, which must live as long as the options."""
    options.kernel_size[:ndim] = axes(kernel_size, ndim, "kernel_size")
    options.dilation[:ndim] = axes(dilation, ndim, "dilation")
    if padding is not None:
        options.dense_offsets = 1
        options.padding[:ndim] = axes(padding, ndim, "padding")
    options.kernel_shape = choose(KernelShape, kernel_shape, "kernel_shape")
    if offsets is None:
        return None
    if options.kernel_shape == KernelShape.CROSS:
        raise ValueError("offsets are given, and a cross has its own: leave kernel_shape or offsets out")
    numbers = [number for offset in offsets for number in axes(offset, ndim, "an offset")]
    array = integers(ctypes.c_int32, numbers, "offsets")
    options.kernel_shape = KernelShape.CUSTOM
    options.offset_count = len(offsets)
    options.offsets = ctypes.addressof(array) if numbers else None
    return array


def set_geometry(
    options: Any,
    ndim: int,
    kernel_size: Axes,
    stride: Axes,
    dilation: Axes,
    padding: Axes | None,
    kernel_shape: KernelShape | str,
    offsets: Offsets | None,
) -> Any:
    """Fills in the kernel and the stride of options, and returns what set_kernel() does."""
    require_ndim(ndim)
    options.stride[:ndim] = axes(stride, ndim, "stride")
    return set_kernel(options, ndim, kernel_size, dilation, padding, kernel_shape, offsets)
