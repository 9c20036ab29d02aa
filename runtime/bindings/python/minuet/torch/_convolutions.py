"""Convolutions over maps of pyramids, and their gradients."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .. import _abi
from .._arrays import view
from .._gradients import ParameterGradients
from .._library import library
from .._plan import Plan
from .._types import DType
from ._define import define, direct, given
from ._keys import ConvolutionKey, convolution_key
from ._places import (
    Place,
    Pool,
    array_struct,
    check,
    context,
    dtype_of_features,
    known_rounded,
    new_cache,
    parameter_element,
    place_of,
    pointer_of,
    reference,
    remembered,
    rows_of,
    with_room,
    without_view,
    word_of,
    words_of,
)
from ._pyramids import MadePyramid, count_pointer
from ._runs import Run, features_array, loaded_plan, run_of


class WeightShape:
    """What a weight's shape says, in the layout of its key.

    Attributes:
        in_channels, out_channels: of the convolution.
        shape, strides: those of the weight as [offsets, in_channels / groups, out_channels].
    """

    def __init__(self, shape: Sequence[int], key: ConvolutionKey) -> None:
        volume = key.kernel.volume
        fits = len(shape) >= 2
        if key.layout == "minuet":
            *offsets, inner, outer = shape if fits else (0, 0)
            self.strides: tuple[int, ...] = (inner * outer, outer, 1)
        else:
            outer, *offsets, inner = shape if fits else (0, 0)
            self.strides = (inner, 1, inner * volume)
        if not fits or math.prod(offsets) != volume or outer % key.groups:
            wanted = {
                "minuet": f"[{volume}, in_channels / groups, out_channels]",
                "spconv": "[out_channels, *kernel_size, in_channels / groups]",
            }
            raise ValueError(
                f"the weight has the shape {list(shape)}, and a kernel of {volume} offsets with {key.groups} groups "
                f"needs {wanted[key.layout]}"
            )
        self.in_channels, self.out_channels = inner * key.groups, outer
        self.shape = (volume, inner, outer)


def _plan(key: ConvolutionKey, weight: WeightShape, dtype: DType, *, bias: bool, of_input: bool) -> Plan:
    return Plan.convolution(
        context(),
        **key.geometry,
        dtype=dtype,
        in_channels=weight.in_channels,
        out_channels=weight.out_channels,
        groups=key.groups,
        dataflow="fused",
        with_scale_and_shift=bias,
        input_gradient=of_input,
    )


def sides(made: MadePyramid, map: int, is_transposed: bool) -> tuple[int, int]:
    """Returns the capacities of a map's input and output."""
    item = made.key.maps[map]
    levels = (item.coarse, item.fine) if is_transposed else (item.fine, item.coarse)
    return made.capacities[levels[0]], made.capacities[levels[1]]


def _make_run(
    features: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    text: str,
    made: MadePyramid,
    map: int,
    dtype: DType,
    place: Place,
    of_input: bool,
) -> Run:
    key = convolution_key(text)
    shape = WeightShape(weight.shape, key)
    channels = [shape.in_channels, shape.out_channels]
    rows = list(sides(made, map, key.transposed))
    if of_input:
        channels.reverse()
        rows.reverse()
    if features.shape[1] != channels[0]:
        what = "the gradient of the output has" if of_input else "features have"
        raise ValueError(f"{what} {features.shape[1]} channels, and the weight needs {channels[0]}")
    has_bias = bias is not None
    plan_key = (text, tuple(weight.shape), dtype, has_bias, of_input)
    loaded = loaded_plan(plan_key, place, True, lambda: _plan(key, shape, dtype, bias=has_bias, of_input=of_input))
    values = [array_struct(shape.shape, parameter_element(weight, "the weight"), shape.strides)]
    if bias is not None:
        values.append(array_struct((shape.out_channels,), _abi.MINUET_ELEMENT_F32))
        values.append(array_struct((shape.out_channels,), parameter_element(bias, "the bias")))
    return Run(
        loaded,
        made,
        map,
        [features_array(rows[0], channels[0], features.dtype)],
        [features_array(rows[1], channels[1], features.dtype)],
        values,
    )


class _Ones:
    """Ones in memory of the library, float32, which stay from call to call. They are not in memory of torch's
    allocator, because torch.compile(mode="reduce-overhead") refuses a call that keeps memory of its graphs' pool after
    it returns."""

    def __init__(self, count: int, place: Place) -> None:
        self._array = place.library_device.to_device(np.ones(count, dtype=np.float32))
        self._address = view(self._array, place.library_device, 0, "the ones").address

    def data_ptr(self) -> int:
        """Returns the address, as torch.Tensor.data_ptr does."""
        return self._address


_ones: dict[tuple[int, int], _Ones] = new_cache()


def _scale(channels: int, place: Place) -> torch.Tensor | _Ones:
    """Returns ones, which the library multiplies sums with before it adds a bias."""
    found = _ones.get((channels, place.pointer))
    if found is not None:
        return found
    if place.is_capturing():
        # A graph cannot record an allocation of the library's. Its own memory serves it alone.
        return torch.ones(channels, dtype=torch.float32, device=place.device)
    return remembered(_ones, (channels, place.pointer), lambda: _Ones(channels, place))


def _apply(
    features: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    buffer: torch.Tensor,
    key: str,
    pyramid: str,
    map: int,
    rows: int,
    of_input: bool,
) -> torch.Tensor:
    """Runs the plan of a convolution, or of the gradient of its input."""
    place = place_of(features.device)
    place.require(weight, bias, buffer)
    dtype = dtype_of_features(features)
    bias_dtype = None if bias is None else bias.dtype
    run = run_of(
        pyramid,
        (key, map, weight.shape, weight.dtype, bias_dtype, features.shape[1], dtype, place.pointer, of_input),
        lambda made: _make_run(features, weight, bias, key, made, map, dtype, place, of_input),
    )
    features = with_room(features, run.input_rows)
    run.check_rows(rows)
    shape = run.output_shape
    if bias is not None and bias.shape != (shape[1],):
        raise ValueError(f"the bias has the shape {list(bias.shape)}, and [{shape[1]}] is needed")
    out = features.new_empty(shape)
    values: list[torch.Tensor | _Ones] = [weight.contiguous()]
    if bias is not None:
        values += [_scale(shape[1], place), bias.contiguous()]
    run(buffer, (features,), (out,), values)
    return without_view(out, rows)


def forward(
    features: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    buffer: torch.Tensor,
    pairs: torch.Tensor | None,
    pair_count: torch.Tensor | None,
    row_count: torch.Tensor | None,
    key: str,
    pyramid: str,
    map: int,
    rows: int,
) -> torch.Tensor:
    return _apply(features, weight, bias, buffer, key, pyramid, map, rows, False)


def _forward_fake(
    features: torch.Tensor, weight: torch.Tensor, bias: Any, buffer: Any, pairs: Any, pair_count: Any, row_count: Any,
    key: str, pyramid: str, map: int, rows: int,
) -> torch.Tensor:  # fmt: skip
    shape = WeightShape(weight.shape, convolution_key(key))
    return features.new_empty((rows, shape.out_channels))


class _GradientBlock(ctypes.Structure):
    """The arguments of a call for gradients of parameters, with the array of the weight's."""

    arguments: Any
    weight: Any
    words: Any
    _fields_ = [("arguments", _abi.minuet_gradient_arguments), ("weight", _abi.minuet_array)]


def _word(name: str, field: str = "data") -> int:
    path = [(_GradientBlock, "arguments"), (_abi.minuet_gradient_arguments, name)]
    return word_of(*path, *([(_abi.minuet_tensor, field)] if name in ("input", "out_gradient") else []))


_WEIGHT = word_of((_GradientBlock, "weight"), (_abi.minuet_array, "data"))
_PAIRS, _MOST_PAIRS, _PAIR_COUNT, _ROW_COUNT = map(_word, ("pairs", "most_pairs", "pair_count", "row_count"))
_BIAS, _WORKSPACE, _WORKSPACE_BYTES = map(_word, ("bias_gradient", "workspace", "workspace_bytes"))
_TENSORS = {name: (_word(name), _word(name, "rows")) for name in ("input", "out_gradient")}


class _ParameterGradients:
    """Gradients of the weight and the bias of one convolution on a device."""

    def __init__(
        self, key: ConvolutionKey, shape: WeightShape, dtype: DType, place: Place, weight: bool, bias: bool
    ) -> None:
        self._op = ParameterGradients(
            place.context,
            shape.in_channels,
            shape.out_channels,
            **key.geometry,
            dtype=dtype,
            groups=key.groups,
            weight=weight,
            bias=bias,
        )
        self._op.load(place.library_device)
        self._pointer = pointer_of(self._op)
        self._place, self._dtype = place, dtype
        self._is_swapped = key.transposed
        self._shape, self._has_weight, self._has_bias = shape, weight, bias
        self._bytes: dict[tuple[int, int], int] = {}
        self._blocks = Pool(self._block)

    def _block(self) -> _GradientBlock:
        block = _GradientBlock()
        arguments, shape = block.arguments, self._shape
        arguments.struct_size = ctypes.sizeof(_abi.minuet_gradient_arguments)
        outer, inner = shape.out_channels, shape.in_channels
        arguments.out_gradient = _abi.minuet_tensor(None, 0, outer, outer, self._dtype)
        if self._has_weight:
            arguments.input = _abi.minuet_tensor(None, 0, inner, inner, self._dtype)
            block.weight = array_struct(shape.shape, _abi.MINUET_ELEMENT_F32, shape.strides)
            arguments.weight_gradient = ctypes.pointer(block.weight)
            arguments.swapped = int(self._is_swapped)
        block.words = words_of(block)
        return block

    def __call__(
        self,
        gradient: torch.Tensor,
        features: torch.Tensor,
        pairs: torch.Tensor | None,
        pair_count: torch.Tensor | None,
        row_count: torch.Tensor | None,
        weight_gradient: torch.Tensor | None,
        bias_gradient: torch.Tensor | None,
    ) -> None:
        """Enqueues the computation on torch's current stream."""
        most, rows = 0, gradient.shape[0]
        block = self._blocks.take()
        words = block.words
        if weight_gradient is not None:
            if pairs is None:
                raise RuntimeError("the gradient of a weight needs the pairs of the map: give pairs to the op")
            most = pairs.shape[0]
            words[_PAIRS], words[_MOST_PAIRS] = pairs.data_ptr(), most
            words[_PAIR_COUNT] = count_pointer(pair_count) or 0
            data, number = _TENSORS["input"]
            words[data], words[number] = features.data_ptr(), features.shape[0]
            words[_WEIGHT] = weight_gradient.data_ptr()
        data, number = _TENSORS["out_gradient"]
        words[data], words[number] = gradient.data_ptr(), rows
        if bias_gradient is not None:
            words[_ROW_COUNT], words[_BIAS] = count_pointer(row_count) or 0, bias_gradient.data_ptr()
        sizes = (known_rounded(most), known_rounded(rows))
        size = remembered(self._bytes, sizes, lambda: max(1, self._op.bytes(self._place.arch, *sizes)))
        workspace = torch.empty(size, dtype=torch.uint8, device=gradient.device)
        words[_WORKSPACE], words[_WORKSPACE_BYTES] = workspace.data_ptr(), size
        place = self._place
        check(library.minuet_gradient_compute(self._pointer, place.pointer, reference(block.arguments), place.stream()))
        self._blocks.give(block)


_gradients: dict[Any, _ParameterGradients] = new_cache()


def _wanted_gradients(
    gradient: torch.Tensor,
    features: torch.Tensor,
    weight: torch.Tensor,
    buffer: torch.Tensor,
    pairs: torch.Tensor | None,
    pair_count: torch.Tensor | None,
    row_count: torch.Tensor | None,
    key: str,
    pyramid: str,
    map: int,
    rows: int,
    wanted: Sequence[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """Returns the gradients that are wanted."""
    of_input = of_weight = of_bias = None
    gradient = rows_of(gradient)  # Once for both.
    if wanted[0]:
        of_input = _apply(gradient, weight, None, buffer, key, pyramid, map, rows, True)
    if wanted[1] or wanted[2]:
        place = place_of(features.device)
        place.require(gradient, weight, pairs, pair_count, row_count)
        dtype = dtype_of_features(features)
        flags = (wanted[1], wanted[2])
        op = remembered(
            _gradients,
            (key, weight.shape, dtype, place.pointer, flags),
            lambda: _ParameterGradients(
                convolution_key(key), WeightShape(weight.shape, convolution_key(key)), dtype, place, *flags
            ),
        )
        if wanted[1]:
            of_weight = torch.empty(weight.shape, dtype=torch.float32, device=weight.device)
        if wanted[2]:
            of_bias = torch.empty(gradient.shape[1], dtype=torch.float32, device=weight.device)
        op(gradient, rows_of(features), pairs, pair_count, row_count, of_weight, of_bias)
        if of_weight is not None and weight.dtype != torch.float32:
            of_weight = of_weight.to(weight.dtype)
    return of_input, of_weight, of_bias


def _backward(
    gradient: torch.Tensor, features: torch.Tensor, weight: torch.Tensor, *others: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    of_input, of_weight, of_bias = _wanted_gradients(gradient, features, weight, *others)
    return (
        gradient.new_empty(0) if of_input is None else of_input,
        weight.new_empty(0) if of_weight is None else of_weight,
        gradient.new_empty(0, dtype=torch.float32) if of_bias is None else of_bias,
    )


def _backward_fake(
    gradient: torch.Tensor, features: torch.Tensor, weight: torch.Tensor, buffer: Any, pairs: Any, pair_count: Any,
    row_count: Any, key: str, pyramid: str, map: int, rows: int, wanted: Sequence[bool],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    return (
        gradient.new_empty((rows, features.shape[1]) if wanted[0] else 0),
        weight.new_empty(weight.shape if wanted[1] else 0),
        gradient.new_empty(gradient.shape[1] if wanted[2] else 0, dtype=torch.float32),
    )


convolution_backward = define(
    "convolution_backward(Tensor gradient, Tensor features, Tensor weight, Tensor buffer, Tensor? pairs, "
    "Tensor? pair_count, Tensor? row_count, str key, str pyramid, int map, SymInt rows, bool[3] wanted) -> "
    "(Tensor, Tensor, Tensor)",
    _backward,
    _backward_fake,
)
call_backward = direct(convolution_backward, _wanted_gradients)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    features, weight, bias, buffer, pairs, pair_count, row_count, key, pyramid, map, _ = inputs
    ctx.save_for_backward(features, weight, buffer, pairs, pair_count, row_count)
    ctx.numbers = (key, pyramid, map, features.shape[0])
    ctx.bias_dtype = None if bias is None else bias.dtype


def _gradient(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    features, weight, buffer, pairs, pair_count, row_count = ctx.saved_tensors
    wanted = list(ctx.needs_input_grad[1:4])
    results = call_backward(gradient, features, weight, buffer, pairs, pair_count, row_count, *ctx.numbers, wanted)
    of_input, of_weight, of_bias = given(results, wanted)
    if of_bias is not None and ctx.bias_dtype != torch.float32:
        of_bias = of_bias.to(ctx.bias_dtype)
    return (of_input, of_weight, of_bias, *[None] * 8)


#: Convolves features [rows, channels] over a map. `rows` is the number of rows of the output: that of its level, or the
#: pyramid's capacity. Pairs, their count, and the count of the output's rows are for the gradients only.
convolution = define(
    "convolution(Tensor features, Tensor weight, Tensor? bias, Tensor buffer, Tensor? pairs, Tensor? pair_count, "
    "Tensor? row_count, str key, str pyramid, int map, SymInt rows) -> Tensor",
    forward,
    _forward_fake,
    setup_context=_setup,
    backward=_gradient,
)

#: The same, called directly in plain eager mode.
convolve = direct(convolution)
