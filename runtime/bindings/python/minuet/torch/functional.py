"""Ops on sparse tensors, without state. Modules are made of these."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from .._types import Axes, Purpose
from ._convolutions import convolution as _convolution
from ._geometry import TRAINED, TRAINED_POOLING, Level, is_recording
from ._keys import LAYOUTS, ConvolutionKey, KernelKey, constant, kernel_of, numbers, text_of
from ._poolings import pooling as _pooling
from ._sparse_tensor import SparseTensor

Offsets = Sequence[Sequence[int]]


@functools.cache
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
    if torch.is_autocast_enabled(kind) and features.dtype.is_floating_point:
        return features.to(torch.get_autocast_dtype(kind))
    return features


def _other_level(
    x: SparseTensor, kernel: KernelKey, stride: tuple[int, ...], transposed: bool, to: Level | None, purposes: int
) -> tuple[Level, Level]:
    """Returns the finer and the coarser level of an op."""
    level = x.level
    if transposed:
        fine = to or level.parent
        if fine is None or level.parent is not fine:
            raise ValueError(
                "a transposed op goes back to the level that the input's level was made from, and this one was made "
                "from none: an op with a stride has to make it before"
            )
        return fine, level
    if to is not None:
        return level, to
    rule = level._rule(stride, kernel.size if kernel.padding else None, kernel.dilation, kernel.padding)
    return level, level._coarser(rule, kernel, purposes)


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
    if layout not in LAYOUTS:
        raise ValueError(f"layout {layout!r} is not known: use one of {', '.join(LAYOUTS)}")
    ndim = x.level.ndim
    kernel = kernel_of(ndim, kernel_size, dilation, padding, kernel_shape, offsets)
    strides = numbers(stride, ndim, "stride")
    if submanifold and (max(strides) > 1 or padding is not None or transposed):
        raise ValueError("a submanifold convolution has a stride of 1, no padding and is not transposed")
    features = cast(x.features)
    of_input, of_weight = is_recording(features), is_recording(weight)
    purposes = int(Purpose.TRANSPOSED_CONVOLUTION if transposed else Purpose.CONVOLUTION)
    if of_input or of_weight:
        purposes = TRAINED
    fine, coarse = _other_level(x, kernel, strides, transposed, x.level if submanifold else to, purposes)
    made = fine.map_to(coarse, kernel, purposes)
    out = fine if transposed else coarse
    pairs, pair_count = made.pairs() if of_weight else (None, None)
    key = _convolution_text(
        (kernel.size, kernel.dilation, kernel.padding, kernel.shape, kernel.offsets),
        strides,
        groups,
        fine is coarse,
        transposed,
        layout,
    )
    result = _convolution(
        features, weight, bias, made.buffer, pairs, pair_count, out.count, key, made.key, made.number, out.rows
    )
    return SparseTensor(result, out)


def linear(x: SparseTensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> SparseTensor:
    """Multiplies each voxel's features with a weight [out, in], as torch.nn.functional.linear does."""
    return convolution(x, weight, bias, submanifold=True, layout="spconv")


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
        stride: None: the kernel size.
        transposed: the op goes back from the input's level to the one that it was made from; with "sum" it is unpooling.

    All other arguments are those of convolution().
    """
    if reduction not in ("max", "average", "sum"):
        raise ValueError(f"reduction {reduction!r} is not known: use max, average or sum")
    ndim = x.level.ndim
    kernel = kernel_of(ndim, kernel_size, dilation, padding, kernel_shape, offsets)
    default = 1 if submanifold or offsets is not None else kernel_size
    strides = numbers(default if stride is None else stride, ndim, "stride")
    if submanifold and (max(strides) > 1 or padding is not None or transposed):
        raise ValueError("a submanifold pooling has a stride of 1, no padding and is not transposed")
    purposes = int(Purpose.TRANSPOSED_POOLING if transposed else Purpose.POOLING)
    if is_recording(x.features):
        purposes = TRAINED_POOLING
    fine, coarse = _other_level(x, kernel, strides, transposed, x.level if submanifold else to, purposes)
    made = fine.map_to(coarse, kernel, purposes)
    out = fine if transposed else coarse
    key = _convolution_text(
        (kernel.size, kernel.dilation, kernel.padding, kernel.shape, kernel.offsets),
        strides,
        1,
        fine is coarse,
        transposed,
        "minuet",
        reduction,
    )
    result, _ = _pooling(x.features, made.buffer, key, made.key, made.number, out.rows)
    return SparseTensor(result, out)
