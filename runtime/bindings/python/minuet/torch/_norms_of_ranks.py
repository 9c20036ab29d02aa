"""Batch norm whose statistics are those of all ranks: four ops, between which torch.distributed exchanges numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._batch_norm import BatchNorm, Normalized, NormGradients
from ._define import define, given
from ._norms import new_like, new_statistics
from ._places import Place, context, exact_dtype_of, loaded, new_cache, place_of, plain, rows_of

_norms: dict[Any, BatchNorm] = new_cache()


def _norm(features: torch.Tensor, **options: Any) -> tuple[BatchNorm, Place]:
    """Returns a batch norm of the library, loaded on the device of features."""
    place = place_of(features.device)
    options["dtype"] = exact_dtype_of(features)
    channels = features.shape[1]
    key = (channels, *sorted(options.items()))
    return loaded(_norms, key, place, lambda: BatchNorm(context(), channels, **options)), place


def _floats(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return plain(None if tensor is None else tensor.to(torch.float32))


def _moments(features: torch.Tensor, row_count: torch.Tensor | None) -> torch.Tensor:
    norm, place = _norm(features)
    rows, channels = features.shape
    out = features.new_empty(2 * channels + 1, dtype=torch.float32)
    norm.sum(
        place.library_device,
        rows_of(features.detach()),
        row_count=plain(row_count),
        out=out,
        workspace=place.empty_bytes(norm.bytes(place.arch, rows)),
        stream=place.stream(),
    )
    return out


def _moments_fake(features: torch.Tensor, row_count: Any) -> torch.Tensor:
    return features.new_empty(2 * features.shape[1] + 1, dtype=torch.float32)


def _apply(
    features: torch.Tensor, all_moments: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None,
    bias: torch.Tensor | None, running_mean: torch.Tensor | None, running_variance: torch.Tensor | None,
    batch_count: torch.Tensor | None, row_count: torch.Tensor | None, momentum: float, eps: float, cumulative: bool,
    relu: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    has_running = running_mean is not None
    norm, place = _norm(
        features,
        eps=eps,
        running_mean=has_running,
        momentum=momentum if has_running and not cumulative else 0.0,
        cumulative=cumulative,
        residual=residual is not None,
        relu=relu,
    )
    output = new_like(features, row_count)
    made = new_statistics(features, has_running, batch_count is not None)
    saved, mean, variance, batches = made
    norm.apply(
        place.library_device,
        rows_of(features.detach()),
        plain(all_moments),
        residual=None if residual is None else rows_of(residual.detach()),
        weight=_floats(weight),
        bias=_floats(bias),
        running_mean=_floats(running_mean),
        running_variance=_floats(running_variance),
        batch_count=plain(batch_count),
        row_count=plain(row_count),
        out=Normalized(
            output,
            saved,
            mean if has_running else None,
            variance if has_running else None,
            None if batch_count is None else batches,
        ),
        stream=place.stream(),
    )
    return output, *made


def _apply_fake(
    features: torch.Tensor, all_moments: Any, residual: Any, weight: Any, bias: Any, running_mean: Any,
    running_variance: Any, batch_count: Any, row_count: Any, momentum: float, eps: float, cumulative: bool, relu: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    made = new_statistics(features, running_mean is not None, batch_count is not None)
    return features.new_empty(features.shape), *made


def _sums(
    gradient: torch.Tensor, features: torch.Tensor, output: torch.Tensor | None, saved: torch.Tensor,
    weight: torch.Tensor | None, bias: torch.Tensor | None, row_count: torch.Tensor | None, eps: float, residual: bool,
    relu: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    norm, place = _norm(features, eps=eps, residual=residual, relu=relu)
    of_weight, of_bias = (features.new_empty(features.shape[1], dtype=torch.float32) for _ in range(2))
    of_residual = new_like(features, row_count) if residual else features.new_empty(0)
    sums = features.new_empty(2 * features.shape[1], dtype=torch.float32)
    norm.sum_gradients(
        place.library_device,
        rows_of(features.detach()),
        rows_of(gradient.detach()),
        plain(saved),
        output=None if output is None else rows_of(output.detach()),
        weight=_floats(weight),
        bias=_floats(bias),
        row_count=plain(row_count),
        out=NormGradients(None, of_weight, of_bias, of_residual if residual else None, sums),
        workspace=place.empty_bytes(norm.bytes(place.arch, features.shape[0])),
        stream=place.stream(),
    )
    return of_weight, of_bias, of_residual, sums


def _sums_fake(
    gradient: torch.Tensor, features: torch.Tensor, output: Any, saved: Any, weight: Any, bias: Any, row_count: Any,
    eps: float, residual: bool, relu: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    channels = features.shape[1]
    return (
        features.new_empty(channels, dtype=torch.float32),
        features.new_empty(channels, dtype=torch.float32),
        features.new_empty(features.shape if residual else 0),
        features.new_empty(2 * channels, dtype=torch.float32),
    )


def _apply_gradients(
    gradient: torch.Tensor, features: torch.Tensor, saved: torch.Tensor, sums: torch.Tensor,
    residual_gradient: torch.Tensor | None, weight: torch.Tensor | None, bias: torch.Tensor | None,
    row_count: torch.Tensor | None, eps: float, residual: bool, relu: bool,
) -> torch.Tensor:  # fmt: skip
    norm, place = _norm(features, eps=eps, residual=residual, relu=relu)
    out = new_like(features, row_count)
    norm.apply_gradients(
        place.library_device,
        rows_of(features.detach()),
        rows_of(gradient.detach()),
        plain(saved),
        plain(sums),
        residual_gradient=residual_gradient if residual and relu else None,
        weight=_floats(weight),
        bias=_floats(bias),
        row_count=plain(row_count),
        out=out,
        stream=place.stream(),
    )
    return out


def _apply_gradients_fake(gradient: torch.Tensor, features: torch.Tensor, *others: Any) -> torch.Tensor:
    return features.new_empty(features.shape)


_READ = "Tensor? weight, Tensor? bias, "
_OPTIONS = "Tensor? row_count, float eps, bool residual, bool relu"

#: Returns the moments of a rank's rows, float32 [2 * channels + 1].
batch_norm_moments = define("batch_norm_moments(Tensor features, Tensor? row_count) -> Tensor", _moments, _moments_fake)

#: Normalizes by the moments of all ranks, [ranks, 2 * channels + 1]. The results are those of batch_norm.
batch_norm_apply = define(
    f"batch_norm_apply(Tensor features, Tensor all_moments, Tensor? residual, {_READ}Tensor? running_mean, "
    "Tensor? running_variance, Tensor? batch_count, Tensor? row_count, float momentum, float eps, bool cumulative, "
    "bool relu) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _apply,
    _apply_fake,
)

#: Returns a rank's gradients of weight, bias and residual, and the sums that the ranks add up, [2 * channels].
batch_norm_sums = define(
    f"batch_norm_sums(Tensor gradient, Tensor features, Tensor? output, Tensor saved, {_READ}{_OPTIONS}) -> "
    "(Tensor, Tensor, Tensor, Tensor)",
    _sums,
    _sums_fake,
)

#: Returns the gradient of the input by the sums of all ranks.
batch_norm_apply_gradients = define(
    "batch_norm_apply_gradients(Tensor gradient, Tensor features, Tensor saved, Tensor sums, "
    f"Tensor? residual_gradient, {_READ}{_OPTIONS}) -> Tensor",
    _apply_gradients,
    _apply_gradients_fake,
)


class NormOfRanks(torch.autograd.Function):
    """A batch norm over all ranks of a process group."""

    @staticmethod
    def forward(ctx: Any, group: Any, features: torch.Tensor, *others: Any) -> tuple[torch.Tensor, ...]:
        """Takes the arguments of the op batch_norm behind the group, and gives its results."""
        residual, weight, bias, _, _, _, row_count, _, eps, _, relu = others
        moments = batch_norm_moments(features, row_count)
        ranks = torch.distributed.get_world_size(group)
        gathered = moments.new_empty(ranks * len(moments))
        torch.distributed.all_gather_into_tensor(gathered, moments, group=group)
        outputs: Sequence[torch.Tensor] = batch_norm_apply(features, gathered.view(ranks, -1), *others)
        ctx.mark_non_differentiable(*outputs[1:])
        kept = outputs[0] if residual is not None and relu else None
        ctx.save_for_backward(features, kept, outputs[1], weight, bias, row_count)
        ctx.numbers, ctx.group = (eps, residual is not None, relu), group
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, *_: Any) -> tuple[Any, ...]:
        """Gives gradients of this rank's rows, those of weight and bias too, as other layers do."""
        features, kept, saved, weight, bias, row_count = ctx.saved_tensors
        gradient = gradient.contiguous()
        read = (weight, bias, row_count, *ctx.numbers)
        of_weight, of_bias, of_residual, sums = batch_norm_sums(gradient, features, kept, saved, *read)
        torch.distributed.all_reduce(sums, group=ctx.group)
        of_input = batch_norm_apply_gradients(gradient, features, saved, sums, of_residual, *read)
        results = [
            of_input,
            of_residual if ctx.numbers[1] else None,
            None if weight is None else of_weight.to(weight.dtype),
            None if bias is None else of_bias.to(bias.dtype),
        ]
        return (None, *given(results, ctx.needs_input_grad[1:5]), *[None] * 8)
