"""Networks whose convolutions multiply 8-bit numbers: their ranges from clouds of the caller, and their description."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _abi
from ._arrays import host_floats
from ._device import Context, Device
from ._execution import Execution
from ._library import Callback, call_with, using
from ._network_options import encoded_names
from ._plan import Plan

LAYER_OUTPUT = "layer:"
#: Bytes of the first buffer, which most descriptions fit into.
_USUAL_BYTES = 1 << 18


@dataclass(frozen=True)
class QuantizedLayer:
    """A convolution of a quantized network: its name, the largest magnitude of its result that is stored (0: unknown),
    whether it computes in 8 bits, and, where it was to and cannot, the reason as the end of a sentence."""

    name: str
    range: float
    is_int8: bool
    reason: str = ""


@dataclass(frozen=True)
class Quantized:
    """The JSON description of a quantized network, for Plan.network, and its convolutions."""

    description: str
    layers: tuple[QuantizedLayer, ...]


def _text(name: str, *arguments: Any, callbacks: Sequence[Callback] = ()) -> str:
    """Returns the text of a call whose last arguments are a buffer, its size, and the size that is needed. The first
    buffer is large enough for most networks, because a call may take long."""
    needed = ctypes.c_size_t(_USUAL_BYTES)
    while True:
        buffer = ctypes.create_string_buffer(needed.value)
        call_with(callbacks, name, *arguments, buffer, len(buffer), ctypes.byref(needed))
        if needed.value <= len(buffer):
            return buffer.value.decode()


def observe(plan: Plan) -> str:
    """Returns the JSON description of the plan's network with the results of all convolutions behind its outputs. The
    output "layer:NAME" is the result of the convolution NAME, as its kernel stores it."""
    with using(plan) as (pointer,):
        return _text("minuet_plan_observe", pointer)


def _check_names(floating: Collection[str]) -> None:
    if isinstance(floating, str):
        raise TypeError(f"floating is the string {floating!r}: give a list of names, [{floating!r}]")


def _range(values: np.ndarray, percentile: float) -> float:
    """Returns the range of magnitudes. It is 0 only if all of them are, or are below the least range: a percentile of 0
    would be no range, so that the least number above 0 counts then."""
    positive = values[values >= _abi.MINUET_LEAST_RANGE]
    if not positive.size:
        return 0.0
    return max(float(np.percentile(values, percentile)), float(positive.min()))


def with_ranges(plan: Plan, ranges: Mapping[str, float], floating: Collection[str] = ()) -> Quantized:
    """Describes the plan's network with these ranges of its convolutions, which compute in 8 bits where they can.

    Args:
        plan: of the floating network. One of float32 has the weights as they are in their file, which decide whether a
            convolution stays floating because its sums could overflow or float32 cannot hold their factor. With others,
            a plan of the result may be refused.
        ranges: for each convolution, as observe() names it without "layer:", the largest magnitude of its result, or 0.
        floating: the convolutions that keep floating numbers.
    """
    _check_names(floating)
    unknown = sorted(set(floating) - set(ranges))
    if unknown:
        raise ValueError(f"floating names {', '.join(unknown)}, which ranges has not: use {', '.join(ranges)}")
    names = list(ranges)
    encoded = (ctypes.c_char_p * len(names))(*encoded_names(names, "ranges"))
    numbers = (ctypes.c_float * len(names))(*ranges.values())
    wanted = [int(name not in floating) for name in names]
    is_int8 = (ctypes.c_int32 * len(names))(*wanted)
    reasons = [""] * len(names)

    def keep(number: int, reason: bytes, _: Any) -> None:
        reasons[number] = reason.decode("utf-8", "replace")

    visitor = Callback(_abi.minuet_floating_visitor, keep)
    with using(plan) as (pointer,):
        # An empty list is null.
        lists = (encoded, numbers, is_int8) if names else (None, None, None)
        arguments = (pointer, *lists, len(names), visitor.pointer, None)
        description = _text("minuet_plan_quantize", *arguments, callbacks=[visitor])
    layers = zip(names, ranges.values(), map(bool, is_int8), reasons, strict=True)
    return Quantized(description, tuple(QuantizedLayer(*layer) for layer in layers))


def quantize(
    context: Context,
    device: Device,
    clouds: Iterable[Sequence[Any]],
    name: str | None = None,
    *,
    percentile: float = 100.0,
    floating: Collection[str] = (),
    batch_size: int = 0,
    **network: Any,
) -> Quantized:
    """Runs a network in floating numbers over clouds, takes the range of each convolution's result, and describes the
    network that computes in 8 bits with these ranges. `Plan.network(context, description=result.description, ...)` with
    the same weights is the quantized network. Clouds should be like those that will be run: numbers beyond a range are
    limited to it.

    Args:
        context, device: where the network runs.
        clouds: for each one its coordinates, and the features of each input, on the host, as Execution.prepare and
            Execution.run take them.
        name: of a shipped network; else give a description.
        percentile: per cent of a result's numbers that the range of a cloud holds; 100: all. The largest range of all
            clouds counts.
        floating: the names of convolutions that keep floating numbers.
        batch_size: as for Execution.
        network: all else that Plan.network takes: description, weights, dtype and so on.

    Raises:
        TypeError: floating is a string.
        ValueError: no cloud has a voxel, percentile is not from 50 to 100, or a result is infinite, NaN or beyond all
            ranges.
    """
    _check_names(floating)
    if not 50 <= percentile <= 100:
        raise ValueError(f"percentile is {percentile}: give one from 50 to 100")
    given = Plan.network(context, name, **network)
    kept = ("dtype", "weights", "seed", "weights_order", "allow_unused", "weights_prefix", "weights_map", "weights_key",
            "dataflow", "allow_non_finite_parameters")  # fmt: skip
    # The description has the other options.
    options = {key: network[key] for key in kept if key in network}
    # A network that computes in 8 bits already is taken without its precisions.
    plan = Plan.network(context, description=with_ranges(given, {}).description, **{**options, "dtype": "float32"})
    observed = Plan.network(context, description=observe(plan), **options)
    observed.load(device)
    outputs = [item.name for item in observed.outputs]
    ranges = {item.removeprefix(LAYER_OUTPUT): 0.0 for item in outputs if item.startswith(LAYER_OUTPUT)}
    execution = Execution(observed, device, batch_size=batch_size)
    count = rows = 0
    for coordinates, *features in clouds:
        execution.prepare(device.to_device(coordinates))
        results = execution.run(*map(device.to_device, features))
        for item, result in zip(outputs, results, strict=True):
            if not item.startswith(LAYER_OUTPUT):
                continue
            layer = item.removeprefix(LAYER_OUTPUT)
            values = np.abs(host_floats(device.to_host(result), "a result"))
            if not np.isfinite(values).all():
                raise ValueError(f"the result of {layer} is infinite or NaN on cloud {count}: use another dtype")
            ranges[layer] = max(ranges[layer], _range(values, percentile))
            if ranges[layer] > _abi.MINUET_GREATEST_RANGE:
                raise ValueError(
                    f"the result of {layer} has the range {ranges[layer]:g} on cloud {count}, but ranges are at most "
                    f"{_abi.MINUET_GREATEST_RANGE:g}: check the weights and the clouds, or give a smaller percentile"
                )
        count += 1
        rows += len(coordinates)
    if count == 0:
        raise ValueError("clouds is empty: give at least one")
    if rows == 0:
        raise ValueError("no cloud has a voxel, so that there are no ranges: give clouds with voxels")
    return with_ranges(plan, ranges, floating)
