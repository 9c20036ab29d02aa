"""Batch norm in training, with a residual and a ReLU in the same pass, and its gradients."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from .. import _abi
from .._batch_norm import BatchNorm
from .._library import library
from .._types import DType
from ._define import define, given
from ._places import (
    Place,
    check,
    dtype_of_features,
    new_cache,
    place_of,
    pointer_of,
    reference,
    remembered,
    rounded,
    rows_of,
    tensor_struct,
)
from ._pyramids import count_pointer


class _Norm:
    """A batch norm of the library, loaded on a device."""

    def __init__(self, place: Place, channels: int, options: dict[str, Any]) -> None:
        self._op = BatchNorm(place.context, channels, **options)
        self._op.load(place.library_device)
        self.pointer = pointer_of(self._op)
        self._place = place
        self._bytes: dict[int, int] = {}

    def workspace(self, rows: int) -> torch.Tensor:
        """Returns memory for a call with so many rows."""
        most = rounded(rows)
        size = remembered(self._bytes, most, lambda: max(1, self._op.bytes(self._place.arch, most)))
        return self._place.empty_bytes(size)


_norms: dict[Any, _Norm] = new_cache()


def _norm(
    features: torch.Tensor, momentum: float, eps: float, has_running: bool, cumulative: bool, residual: bool, relu: bool
) -> tuple[_Norm, Place, DType]:
    place = place_of(features.device)
    dtype = dtype_of_features(features)
    dtype = DType.FLOAT32 if dtype is DType.TF32 else dtype
    options = {
        "dtype": dtype,
        "eps": eps,
        "running_mean": has_running,
        "momentum": momentum if has_running and not cumulative else 0.0,
        "cumulative": cumulative,
        "residual": residual,
        "relu": relu,
    }
    channels = features.shape[1]
    key = (channels, place.pointer, *options.values())
    return remembered(_norms, key, lambda: _Norm(place, channels, options)), place, dtype


def _floats(values: torch.Tensor | None, channels: int, what: str) -> torch.Tensor | None:
    """Returns statistics or parameters as the library reads them."""
    if values is None:
        return None
    if values.shape != (channels,):
        raise ValueError(f"{what} has the shape {list(values.shape)}, and [{channels}] is needed")
    return values.to(torch.float32).contiguous()


def _address(tensor: torch.Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr() or None


def _check_like(features: torch.Tensor, other: torch.Tensor, what: str) -> torch.Tensor:
    if other.shape != features.shape or other.dtype != features.dtype:
        raise ValueError(
            f"{what} is {other.dtype} of the shape {list(other.shape)}, and features are {features.dtype} of the shape "
            f"{list(features.shape)}: both must be the same"
        )
    return rows_of(other)


def _forward(
    features: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_variance: torch.Tensor | None,
    batch_count: torch.Tensor | None,
    row_count: torch.Tensor | None,
    momentum: float,
    eps: float,
    cumulative: bool,
    relu: bool,
) -> tuple[torch.Tensor, ...]:
    features = rows_of(features)
    rows, channels = features.shape
    has_running = running_mean is not None
    norm, place, dtype = _norm(features, momentum, eps, has_running, cumulative, residual is not None, relu)
    place.require(residual, weight, bias, running_mean, running_variance, batch_count, row_count)
    read = [
        _floats(values, channels, what)
        for values, what in (
            (weight, "weight"),
            (bias, "bias"),
            (running_mean, "running_mean"),
            (running_variance, "running_variance"),
        )
    ]
    output = torch.empty_like(features)
    saved = features.new_empty(2 * channels + 1, dtype=torch.float32)
    statistics = [features.new_empty(channels if has_running else 0, dtype=torch.float32) for _ in range(2)]
    batches = features.new_empty(0 if batch_count is None else 1, dtype=torch.int64)
    arguments = _abi.minuet_batch_norm_arguments(struct_size=ctypes.sizeof(_abi.minuet_batch_norm_arguments))
    arguments.input, arguments.output = tensor_struct(features, dtype), tensor_struct(output, dtype)
    arguments.row_count = count_pointer(row_count)
    if residual is not None:
        residual = _check_like(features, residual, "the residual")
        arguments.residual = tensor_struct(residual, dtype)
    arguments.weight, arguments.bias = _address(read[0]), _address(read[1])
    if has_running:
        arguments.running_mean, arguments.running_variance = _address(read[2]), _address(read[3])
        arguments.new_running_mean, arguments.new_running_variance = (item.data_ptr() for item in statistics)
    if batch_count is not None:
        arguments.batch_count, arguments.new_batch_count = batch_count.data_ptr(), batches.data_ptr()
    arguments.saved = saved.data_ptr()
    workspace = norm.workspace(rows)
    arguments.workspace, arguments.workspace_bytes = workspace.data_ptr(), workspace.numel()
    check(library.minuet_batch_norm_forward(norm.pointer, place.pointer, reference(arguments), place.stream()))
    return output, saved, *statistics, batches


def _forward_fake(
    features: torch.Tensor, residual: Any, weight: Any, bias: Any, running_mean: Any, running_variance: Any,
    batch_count: Any, row_count: Any, momentum: float, eps: float, cumulative: bool, relu: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    channels = features.shape[1]
    kept = channels if running_mean is not None else 0
    return (
        features.new_empty(features.shape),
        features.new_empty(2 * channels + 1, dtype=torch.float32),
        features.new_empty(kept, dtype=torch.float32),
        features.new_empty(kept, dtype=torch.float32),
        features.new_empty(0 if batch_count is None else 1, dtype=torch.int64),
    )


def _backward(
    gradient: torch.Tensor,
    features: torch.Tensor,
    output: torch.Tensor | None,
    saved: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    row_count: torch.Tensor | None,
    eps: float,
    residual: bool,
    relu: bool,
    wants_residual: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    features = rows_of(features)
    rows, channels = features.shape
    norm, place, dtype = _norm(features, 0.0, eps, False, False, residual, relu)
    place.require(gradient, output, saved, weight, bias, row_count)
    gradient = _check_like(features, gradient, "the gradient")
    read = [_floats(weight, channels, "weight"), _floats(bias, channels, "bias")]
    of_input = torch.empty_like(features)
    of_weight, of_bias = (features.new_empty(channels, dtype=torch.float32) for _ in range(2))
    has_residual = residual and (wants_residual or relu)
    of_residual = features.new_empty(features.shape if has_residual else 0)
    arguments = _abi.minuet_batch_norm_gradient_arguments(
        struct_size=ctypes.sizeof(_abi.minuet_batch_norm_gradient_arguments)
    )
    arguments.input, arguments.out_gradient = tensor_struct(features, dtype), tensor_struct(gradient, dtype)
    arguments.row_count = count_pointer(row_count)
    arguments.weight, arguments.bias, arguments.saved = _address(read[0]), _address(read[1]), saved.data_ptr()
    if output is not None:
        output = rows_of(output)
        arguments.output = tensor_struct(output, dtype)
    arguments.weight_gradient, arguments.bias_gradient = of_weight.data_ptr(), of_bias.data_ptr()
    if has_residual:
        arguments.residual_gradient = tensor_struct(of_residual, dtype)
    arguments.input_gradient = tensor_struct(of_input, dtype)
    workspace = norm.workspace(rows)
    arguments.workspace, arguments.workspace_bytes = workspace.data_ptr(), workspace.numel()
    check(library.minuet_batch_norm_backward(norm.pointer, place.pointer, reference(arguments), place.stream()))
    return of_input, of_weight, of_bias, of_residual


def _backward_fake(
    gradient: torch.Tensor, features: torch.Tensor, output: Any, saved: Any, weight: Any, bias: Any, row_count: Any,
    eps: float, residual: bool, relu: bool, wants_residual: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    channels = features.shape[1]
    has_residual = residual and (wants_residual or relu)
    return (
        features.new_empty(features.shape),
        features.new_empty(channels, dtype=torch.float32),
        features.new_empty(channels, dtype=torch.float32),
        features.new_empty(features.shape if has_residual else 0),
    )


batch_norm_backward = define(
    "batch_norm_backward(Tensor gradient, Tensor features, Tensor? output, Tensor saved, Tensor? weight, Tensor? bias, "
    "Tensor? row_count, float eps, bool residual, bool relu, bool wants_residual) -> (Tensor, Tensor, Tensor, Tensor)",
    _backward,
    _backward_fake,
)


def _setup(ctx: Any, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> None:
    features, residual, weight, bias, _, _, _, row_count, _, eps, _, relu = inputs
    ctx.mark_non_differentiable(*outputs[1:])
    has_residual = residual is not None
    kept = outputs[0] if has_residual and relu else None
    ctx.save_for_backward(features, kept, outputs[1], weight, bias, row_count)
    ctx.numbers = (eps, has_residual, relu)


def _gradient(ctx: Any, gradient: torch.Tensor, *_: Any) -> tuple[Any, ...]:
    saved = ctx.saved_tensors  # Checkpointing gives them once.
    weight, bias = saved[3:5]
    wanted = ctx.needs_input_grad[1:5]
    results = batch_norm_backward(gradient, *saved, *ctx.numbers, wanted[1])
    of_input, of_weight, of_bias, of_residual = results
    if weight is not None:
        of_weight = of_weight.to(weight.dtype)
    if bias is not None:
        of_bias = of_bias.to(bias.dtype)
    return (*given((of_input, of_residual, of_weight, of_bias), wanted), *[None] * 8)


#: Normalizes features by the statistics of the rows in use, then adds the residual and applies a ReLU. Returns the
#: output; what the gradient reads; and the new running mean, running variance and number of batches, which the caller
#: copies. They have no elements where the call was given none.
batch_norm = define(
    "batch_norm(Tensor features, Tensor? residual, Tensor? weight, Tensor? bias, Tensor? running_mean, "
    "Tensor? running_variance, Tensor? batch_count, Tensor? row_count, float momentum, float eps, bool cumulative, "
    "bool relu) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _forward,
    _forward_fake,
    setup_context=_setup,
    backward=_gradient,
)
