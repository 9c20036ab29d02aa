"""A convolution with the batch norm and the ReLU behind it, as one step of autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
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
        place: tuple[Any, ...],
        statistics: tuple[torch.Tensor | None, ...],
        momentum: float,
        eps: float,
        relu: bool,
    ) -> torch.Tensor:
        buffer, pairs, pair_count, row_count, *numbers, _ = place
        convolved = _convolutions.forward(features, weight, bias, *place)
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


def unit(norm: _BatchNorm, relu: bool) -> Callable[..., torch.Tensor]:
    """Returns a function that does what convolve() does, and then normalizes in training and applies the ReLU."""

    def run(features: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *place: Any) -> torch.Tensor:
        statistics = (norm.running_mean, norm.running_var, norm.num_batches_tracked)
        made: torch.Tensor = _apply(
            features, weight, bias, norm.weight, norm.bias, place, statistics, norm.momentum, norm.eps, relu
        )
        return made

    return run


def is_unit(features: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, norm: _BatchNorm) -> bool:
    """Whether a convolution with these parameters and a norm of its batch can be one step of autograd."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled() or not norm.training:
        return False
    others = (weight, bias, norm.weight, norm.bias, *_norms.tracked_by(norm))
    return (
        len(others) == 7
        and is_plain((features, *others))
        and not is_below_autograd()
        and all(tensor is None or tensor.device == features.device for tensor in others)
    )
