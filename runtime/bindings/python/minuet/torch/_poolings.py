"""Poolings over maps of pyramids, and their gradients."""

from __future__ import annotations

from typing import Any

import torch

from .. import _abi
from .._plan import Plan
from .._types import DType
from ._convolutions import sides
from ._define import define
from ._keys import convolution_key
from ._places import Place, array_struct, context, exact_dtype_of, place_of, with_room, without_view
from ._pyramids import MadePyramid
from ._runs import Run, features_array, loaded_plan, run_of


def _make_run(
    features: torch.Tensor,
    text: str,
    made: MadePyramid,
    map: int,
    dtype: DType,
    place: Place,
    back: bool,
    has_winners: bool,
) -> Run:
    key = convolution_key(text)
    channels = features.shape[1]

    def make() -> Plan:
        return Plan.pooling(
            context(),
            channels,
            key.reduction,
            **key.geometry,
            dtype=dtype,
            winners=has_winners and not back,
            input_gradient=back,
        )

    loaded = loaded_plan((text, channels, dtype, back, has_winners), place, False, make)
    rows = sides(made, map, key.transposed)
    source, target = reversed(rows) if back else rows
    inputs, outputs = [features_array(source, channels, features.dtype)], []
    outputs.append(features_array(target, channels, features.dtype))
    if has_winners:
        winners = array_struct((source if back else target, channels), _abi.MINUET_ELEMENT_I32)
        (inputs if back else outputs).append(winners)
    return Run(loaded, made, map, inputs, outputs)


def _run(features: torch.Tensor, key: str, pyramid: str, map: int, back: bool, has_winners: bool) -> Run:
    place = place_of(features.device)
    # A TF32 computation has no meaning for a pooling, which multiplies nothing.
    dtype = exact_dtype_of(features)
    return run_of(
        pyramid,
        ("pooling", key, map, features.shape[1], dtype, place.pointer, back, has_winners),
        lambda made: _make_run(features, key, made, map, dtype, place, back, has_winners),
    )


def _has_winners(key: str, winners: bool) -> bool:
    """Whether a pooling says which row each element is from."""
    return winners and convolution_key(key).reduction == "max"


def _forward(
    features: torch.Tensor, buffer: torch.Tensor, key: str, pyramid: str, map: int, rows: int, winners: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    place_of(features.device).require(buffer)
    has_winners = _has_winners(key, winners)
    run = _run(features, key, pyramid, map, False, has_winners)
    features = with_room(features, run.input_rows)
    run.check_rows(rows)
    out = features.new_empty(run.output_shape)
    if not has_winners:
        run(buffer, (features,), (out,))
        return without_view(out, rows), features.new_empty((0, features.shape[1]), dtype=torch.int32)
    chosen = features.new_empty(run.output_shape, dtype=torch.int32)
    run(buffer, (features,), (out, chosen))
    return without_view(out, rows), without_view(chosen, rows)


def _forward_fake(
    features: torch.Tensor, buffer: Any, key: str, pyramid: str, map: int, rows: int, winners: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    chosen = rows if _has_winners(key, winners) else 0
    return (
        features.new_empty((rows, features.shape[1])),
        features.new_empty((chosen, features.shape[1]), dtype=torch.int32),
    )


def _backward(
    gradient: torch.Tensor, winners: torch.Tensor, buffer: torch.Tensor, key: str, pyramid: str, map: int, rows: int
) -> torch.Tensor:
    place_of(gradient.device).require(winners, buffer)
    has_winners = _has_winners(key, True)
    run = _run(gradient, key, pyramid, map, True, has_winners)
    run.check_rows(rows)
    out = gradient.new_empty(run.output_shape)
    inputs = [with_room(gradient, run.input_rows)]
    if has_winners:
        inputs.append(with_room(winners, run.input_rows))
    run(buffer, inputs, (out,))
    return without_view(out, rows)


def _backward_fake(
    gradient: torch.Tensor, winners: Any, buffer: Any, key: str, pyramid: str, map: int, rows: int
) -> torch.Tensor:
    return gradient.new_empty((rows, gradient.shape[1]))


pooling_backward = define(
    "pooling_backward(Tensor gradient, Tensor winners, Tensor buffer, str key, str pyramid, int map, SymInt rows) -> "
    "Tensor",
    _backward,
    _backward_fake,
)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    features, buffer, key, pyramid, map, _, winners = inputs
    if not winners and convolution_key(key).reduction == "max":
        raise RuntimeError("the gradient of a maximum needs the winners: give winners=True to the op")
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1], buffer)
    ctx.numbers = (key, pyramid, map, features.shape[0])


def _gradient(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[Any, ...]:
    return (pooling_backward(gradient, *ctx.saved_tensors, *ctx.numbers), *[None] * 6)


#: Pools features [rows, channels] over a map. `rows` is the number of rows of the output. The second result has, for a
#: maximum, the row that each element is from, int32 [rows, channels], and -1 where there is none. The gradient needs
#: it; without `winners` it has no rows.
pooling = define(
    "pooling(Tensor features, Tensor buffer, str key, str pyramid, int map, SymInt rows, bool winners) -> "
    "(Tensor, Tensor)",
    _forward,
    _forward_fake,
    setup_context=_setup,
    backward=_gradient,
)
