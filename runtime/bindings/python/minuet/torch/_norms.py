"""Batch norm in training, with a residual and a ReLU in the same pass, and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.graph import increment_version

from .. import _abi
from .._batch_norm import BatchNorm
from .._library import library
from ._define import define, direct, given
from ._places import (
    Block,
    Place,
    Pool,
    check,
    exact_dtype_of,
    known_rounded,
    new_cache,
    place_of,
    pointer_of,
    remembered,
    rows_of,
    without_view,
    word_of,
)
from ._pyramids import count_pointer
from ._rules import known_capacity

_FORWARD, _BACKWARD = _abi.minuet_batch_norm_arguments, _abi.minuet_batch_norm_gradient_arguments


def _words(kind: Any, *names: str) -> list[int]:
    return [word_of((kind, name)) for name in names]


def _tensor_words(kind: Any, *names: str) -> list[tuple[int, int]]:
    data, rows = _words(_abi.minuet_tensor, "data", "rows")
    return [(word + data, word + rows) for word in _words(kind, *names)]


_FORWARD_TENSORS = _tensor_words(_FORWARD, "input", "output", "residual")
_FORWARD_WORDS = _words(
    _FORWARD, "row_count", "weight", "bias", "running_mean", "running_variance", "batch_count", "saved",
    "new_running_mean", "new_running_variance", "new_batch_count", "workspace", "workspace_bytes",
)  # fmt: skip
_BACKWARD_TENSORS = _tensor_words(_BACKWARD, "input", "out_gradient", "input_gradient", "output", "residual_gradient")
_BACKWARD_WORDS = _words(
    _BACKWARD, "row_count", "weight", "bias", "saved", "weight_gradient", "bias_gradient", "workspace",
    "workspace_bytes",
)  # fmt: skip


class _Norm:
    """A batch norm of the library, loaded on a device.

    Attributes:
        pointer: of the library's object.
        forward: blocks for forward().
        backward: blocks for the gradients, without and with that of the residual.
    """

    def __init__(self, place: Place, channels: int, options: dict[str, Any]) -> None:
        self._op = BatchNorm(place.context, channels, **options)
        self._op.load(place.library_device)
        self.pointer = pointer_of(self._op)
        self._place = place
        self._bytes: dict[int, int] = {}
        like = _abi.minuet_tensor(None, 0, channels, channels, options["dtype"])
        read = ["input", "output", *["residual"] * options["residual"]]
        self.forward = Pool(lambda: Block(_FORWARD, read, like))
        kept = ["input", "out_gradient", "input_gradient", *["output"] * (options["residual"] and options["relu"])]
        self.backward = (
            Pool(lambda: Block(_BACKWARD, kept, like)),
            Pool(lambda: Block(_BACKWARD, [*kept, "residual_gradient"], like)),
        )

    def workspace(self, rows: int) -> torch.Tensor:
        """Returns memory for a call with so many rows."""
        most = known_rounded(rows)
        size = remembered(self._bytes, most, lambda: max(1, self._op.bytes(self._place.arch, most)))
        return torch.empty(size, dtype=torch.uint8, device=self._place.device)


_norms: dict[Any, _Norm] = new_cache()


def _norm(
    features: torch.Tensor,
    place: Place,
    eps: float,
    residual: bool,
    relu: bool,
    has_running: bool = False,
    momentum: float = 0.0,
    cumulative: bool = False,
) -> _Norm:
    dtype, channels = exact_dtype_of(features), features.shape[1]
    momentum = momentum if has_running and not cumulative else 0.0
    key = (channels, place.pointer, dtype, eps, has_running, momentum, cumulative, residual, relu)

    def make() -> _Norm:
        options = {
            "dtype": dtype,
            "eps": eps,
            "running_mean": has_running,
            "momentum": momentum,
            "cumulative": cumulative,
            "residual": residual,
            "relu": relu,
        }
        return _Norm(place, channels, options)

    return remembered(_norms, key, make)


def _floats(values: torch.Tensor | None, channels: int, what: str) -> torch.Tensor | None:
    """Returns statistics or parameters as the library reads them."""
    if values is None:
        return None
    if values.shape != (channels,):
        raise ValueError(f"{what} has the shape {list(values.shape)}, and [{channels}] is needed")
    return values.contiguous() if values.dtype == torch.float32 else values.to(torch.float32).contiguous()


def _check_like(features: torch.Tensor, other: torch.Tensor, what: str) -> torch.Tensor:
    if other.shape != features.shape or other.dtype != features.dtype:
        raise ValueError(
            f"{what} is {other.dtype} of the shape {list(other.shape)}, and features are {features.dtype} of the shape "
            f"{list(features.shape)}: both must be the same"
        )
    return rows_of(other)


def new_like(features: torch.Tensor, row_count: torch.Tensor | None) -> torch.Tensor:
    """Returns new features of the same shape. In exact mode, which has no row count, there is room for the capacity of
    their level behind them, so that a convolution behind the norm takes them as they are."""
    rows, channels = features.shape
    if row_count is not None:
        return features.new_empty((rows, channels))
    return without_view(features.new_empty((known_capacity(rows), channels)), rows)


def _compute(
    made: Sequence[torch.Tensor | None],
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
) -> torch.Tensor:
    """Writes new statistics to `made`, those of new_statistics(), and returns the output."""
    features = rows_of(features)
    rows, channels = features.shape
    has_running = running_mean is not None
    place = place_of(features.device)
    norm = _norm(features, place, eps, residual is not None, relu, has_running, momentum, cumulative)
    place.require(residual, weight, bias, running_mean, running_variance, batch_count, row_count)
    if residual is not None:
        residual = _check_like(features, residual, "the residual")
    weight, bias = _floats(weight, channels, "weight"), _floats(bias, channels, "bias")
    running_mean = _floats(running_mean, channels, "running_mean")
    running_variance = _floats(running_variance, channels, "running_variance")
    output = new_like(features, row_count)
    workspace = norm.workspace(rows)
    block = norm.forward.take()
    block.set_tensors(_FORWARD_TENSORS, (features, output, residual), rows)
    block.set_words(
        _FORWARD_WORDS,
        (
            count_pointer(row_count), weight, bias, running_mean, running_variance, batch_count, *made, workspace,
            workspace.numel(),
        ),
    )  # fmt: skip
    check(library.minuet_batch_norm_forward(norm.pointer, place.pointer, block.reference, place.stream()))
    norm.forward.give(block)
    return output


def _forward(features: torch.Tensor, *others: Any) -> tuple[torch.Tensor, ...]:
    made = new_statistics(features, others[3] is not None, others[5] is not None)
    return _compute(made, features, *others), *made


def new_statistics(features: torch.Tensor, has_running: bool, has_count: bool) -> tuple[torch.Tensor, ...]:
    """Returns what the gradient reads, and the new running mean, running variance and number of batches. Those that no
    call writes have no elements."""
    channels = features.shape[1]
    kept = channels if has_running else 0
    return (
        features.new_empty(2 * channels + 1, dtype=torch.float32),
        features.new_empty(kept, dtype=torch.float32),
        features.new_empty(kept, dtype=torch.float32),
        features.new_empty(1 if has_count else 0, dtype=torch.int64),
    )


def _forward_fake(
    features: torch.Tensor, residual: Any, weight: Any, bias: Any, running_mean: Any, running_variance: Any,
    batch_count: Any, row_count: Any, momentum: float, eps: float, cumulative: bool, relu: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    made = new_statistics(features, running_mean is not None, batch_count is not None)
    return features.new_empty(features.shape), *made


def _gradients(
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
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    features = rows_of(features)
    rows, channels = features.shape
    place = place_of(features.device)
    norm = _norm(features, place, eps, residual, relu)
    place.require(gradient, output, saved, weight, bias, row_count)
    gradient = _check_like(features, gradient, "the gradient")
    output = None if output is None else rows_of(output)
    weight, bias = _floats(weight, channels, "weight"), _floats(bias, channels, "bias")
    of_input = new_like(features, row_count)
    of_weight = features.new_empty(channels, dtype=torch.float32)
    of_bias = features.new_empty(channels, dtype=torch.float32)
    has_residual = residual and (wants_residual or relu)
    of_residual = new_like(features, row_count) if has_residual else None
    workspace = norm.workspace(rows)
    blocks = norm.backward[has_residual]
    block = blocks.take()
    block.set_tensors(_BACKWARD_TENSORS, (features, gradient, of_input, output, of_residual), rows)
    block.set_words(
        _BACKWARD_WORDS,
        (count_pointer(row_count), weight, bias, saved, of_weight, of_bias, workspace, workspace.numel()),
    )
    check(library.minuet_batch_norm_backward(norm.pointer, place.pointer, block.reference, place.stream()))
    blocks.give(block)
    return of_input, of_weight, of_bias, of_residual


def _backward(gradient: torch.Tensor, *others: Any) -> tuple[torch.Tensor, ...]:
    *made, of_residual = _gradients(gradient, *others)
    return *made, gradient.new_empty(0) if of_residual is None else of_residual


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
call_backward = direct(batch_norm_backward, _gradients)


def _setup(ctx: Any, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> None:
    features, residual, weight, bias, _, _, _, row_count, _, eps, _, relu = inputs
    ctx.mark_non_differentiable(*outputs[1:])
    ctx.set_materialize_grads(False)  # They would be zeros for each of these.
    _keep(ctx, features, residual, outputs[0], outputs[1], weight, bias, row_count, eps, relu)


def _keep(
    ctx: Any,
    features: torch.Tensor,
    residual: torch.Tensor | None,
    output: torch.Tensor,
    saved: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    row_count: torch.Tensor | None,
    eps: float,
    relu: bool,
) -> None:
    has_residual = residual is not None
    ctx.save_for_backward(features, output if has_residual and relu else None, saved, weight, bias, row_count)
    ctx.numbers = (eps, has_residual, relu)


def in_dtypes_of(
    of_weight: torch.Tensor, of_bias: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns gradients, which are float32, in the dtypes of the parameters."""
    if weight is not None and weight.dtype != torch.float32:
        of_weight = of_weight.to(weight.dtype)
    if bias is not None and bias.dtype != torch.float32:
        of_bias = of_bias.to(bias.dtype)
    return of_weight, of_bias


def _gradient(ctx: Any, gradient: torch.Tensor | None, *_: Any) -> tuple[Any, ...]:
    if gradient is None:
        return (None,) * 12
    saved = ctx.saved_tensors  # Checkpointing gives them once.
    weight, bias = saved[3:5]
    wanted = ctx.needs_input_grad[1:5]
    results = call_backward(gradient, *saved, *ctx.numbers, wanted[1])
    of_input, of_weight, of_bias, of_residual = results
    of_weight, of_bias = in_dtypes_of(of_weight, of_bias, weight, bias)
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

#: The same, called directly in plain eager mode.
normalize = direct(batch_norm)


class _Tracked(torch.autograd.Function):
    """batch_norm() in plain eager mode, with new statistics in the memory of the old ones."""

    @staticmethod
    def forward(ctx: Any, _: Any, *arguments: Any) -> torch.Tensor:
        # The first argument gives the others the numbers that they have in the op's function, which _gradient() reads.
        output, saved = compute_tracked(*arguments)
        features, residual, weight, bias, *_, row_count, _, eps, _, relu = arguments
        _keep(ctx, features, residual, output, saved, weight, bias, row_count, eps, relu)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        return (None, *_gradient(ctx, gradient))


def compute_tracked(features: torch.Tensor, *others: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Does what batch_norm() does, and writes new statistics to the memory of the old ones. Returns the output, and
    what the gradient reads."""
    saved = features.new_empty(2 * features.shape[1] + 1, dtype=torch.float32)
    statistics = others[3:6]
    output = _compute((saved, *statistics), features, *others)
    increment_version([tensor for tensor in statistics if tensor is not None])
    return output, saved


_apply_tracked = super(torch.autograd.Function, _Tracked).apply


def normalize_tracked(*arguments: Any) -> torch.Tensor:
    """Does what batch_norm() does in plain eager mode (is_plain), with new statistics in the memory of the old ones,
    which tracked_by() has found."""
    output: torch.Tensor = _apply_tracked(None, *arguments)
    return output


def tracked_by(norm: Any) -> tuple[torch.Tensor | None, ...]:
    """Returns the running statistics of a module of torch, and its number of batches, where a call may write new ones
    to the memory of the old ones; otherwise nothing."""
    buffers = norm._buffers
    mean, variance = buffers.get("running_mean"), buffers.get("running_var")
    batches = buffers.get("num_batches_tracked")
    if not norm.track_running_stats or not norm.momentum or mean is None or variance is None:
        return ()
    if batches is not None and (batches.dtype != torch.int64 or batches.numel() != 1):
        return ()
    for values in (mean, variance):
        if values.dtype != torch.float32 or not values.is_contiguous() or values.requires_grad:
            return ()
    return mean, variance, batches
