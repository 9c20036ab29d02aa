"""A convolution with the batch norm and the ReLU behind it, as one step of autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from . import _convolutions, _norms
from ._define import given, is_below_autograd, is_plain


class _Unit(torch.autograd.Function):
    """Makes the same calls of the library as the two ops. Torch spends about 10 us on each step of autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        features: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        scale: torch.Tensor | None,
        shift: torch.Tensor | None,
        maps: tuple[Any, ...],
        statistics: tuple[torch.Tensor | None, ...],
        momentum: float,
        eps: float,
        relu: bool,
    ) -> torch.Tensor:
        buffer, pairs, pair_count, row_count, *numbers, _ = maps  # The last one is the number of rows made.
        convolved = _convolutions.forward(features, weight, bias, *maps)
        output, saved = _norms.compute_tracked(
            convolved, None, scale, shift, *statistics, row_count, momentum, eps, False, relu
        )
        ctx.save_for_backward(features, weight, buffer, pairs, pair_count, row_count, convolved, saved, scale, shift)
        ctx.numbers = (*numbers, features.shape[0])
        ctx.norm = (eps, False, relu, False)
        ctx.bias_dtype = None if bias is None else bias.dtype
        return output

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        *of_convolution, convolved, saved, scale, shift = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        row_count = of_convolution[-1]
        of_convolved, of_scale, of_shift, _ = _norms.call_backward(
            gradient, convolved, None, saved, scale, shift, row_count, *ctx.norm
        )
        of_input = of_weight = of_bias = None
        if any(wanted[:3]):
            results = _convolutions.call_backward(of_convolved, *of_convolution, *ctx.numbers, list(wanted[:3]))
            of_input, of_weight, of_bias = given(results, wanted[:3])
        if of_bias is not None and ctx.bias_dtype != torch.float32:
            of_bias = of_bias.to(ctx.bias_dtype)
        of_scale, of_shift = _norms.in_dtypes_of(of_scale, of_shift, scale, shift)
        return (of_input, of_weight, of_bias, *given((of_scale, of_shift), wanted[3:5]), *[None] * 5)


_apply = super(torch.autograd.Function, _Unit).apply
_AFFINE = {"weight", "bias"}


def unit(
    convolution: nn.Module, norm: _BatchNorm, features: torch.Tensor, relu: bool
) -> Callable[..., torch.Tensor] | None:
    """Returns a function that does what convolve() does for a layer, and then normalizes in training and applies the
    ReLU. Returns None where that cannot be one step of autograd."""
    if not norm.training or not torch.is_grad_enabled():
        return None
    own, parameters = convolution._parameters, norm._parameters
    if convolution._modules or norm._modules or "weight" not in own or not parameters.keys() >= _AFFINE:
        return None  # Parametrizations compute a parameter each time that it is read, which would be once too often.
    scale, shift = parameters["weight"], parameters["bias"]
    statistics = _norms.tracked_by(norm)
    tensors = (features, own["weight"], own.get("bias"), scale, shift, *statistics)
    if not statistics or not is_plain(tensors) or is_below_autograd():
        return None
    device = features.device
    for tensor in tensors:
        if tensor is not None and tensor.device != device:
            return None  # The ops raise an error.

    def run(features: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *maps: Any) -> torch.Tensor:
        made: torch.Tensor = _apply(
            features, weight, bias, scale, shift, maps, statistics, norm.momentum, norm.eps, relu
        )
        return made

    return run
