"""The descriptions of networks whose convolutions multiply 8-bit numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._library import Callback, call_with, using
from ._network_options import encoded_names
from ._plan import Plan

LAYER_OUTPUT = "layer:"
#: Why a convolution of the argument `floating` keeps floating numbers.
NAMED = "floating names it"
#: Bytes of the first buffer, which most descriptions fit into.
_USUAL_BYTES = 1 << 18


@dataclass(frozen=True)
class QuantizedLayer:
    """A convolution of a quantized network.

    Attributes:
        name: as observe() names it without "layer:".
        range: the largest magnitude of its result that is stored; 0: unknown.
        is_int8: whether it computes in 8 bits.
        reason: why it keeps floating numbers, as the end of a sentence; empty where it computes in 8 bits.
        own_error: the relative error of the network's outputs if it alone computes in 8 bits. Infinite if an output has
            another number of rows then. None: not measured.
        relative_error, cosine: of its result in the quantized network, beside that in the floating one. Infinite and
            NaN where the result has another number of rows. None: not compared.
    """

    name: str
    range: float
    is_int8: bool
    reason: str = ""
    own_error: float | None = None
    relative_error: float | None = None
    cosine: float | None = None


@dataclass(frozen=True)
class Quantized:
    """A quantized network.

    Attributes:
        description: its JSON description, for Plan.network.
        layers: its convolutions.
        relative_error: of all outputs over the clouds: the L2 norm of the difference from the floating network, divided
            by that of the floating numbers. None: not measured.
        report: with compare, the table of errors as `minuet quantize --json` writes it (share/doc: JSON.md), without
            `run`, and with the voxels of each cloud in place of its name. `minuet report` makes a page of a folder with
            it as a JSON file.
    """

    description: str
    layers: tuple[QuantizedLayer, ...]
    relative_error: float | None = None
    report: dict[str, Any] | None = None


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


def check_names(floating: Collection[str]) -> None:
    if isinstance(floating, str):
        raise TypeError(f"floating is the string {floating!r}: give a list of names, [{floating!r}]")


def with_ranges(plan: Plan, ranges: Mapping[str, float], floating: Collection[str] = ()) -> Quantized:
    """Describes the plan's network with these ranges of its convolutions, which compute in 8 bits where they can.

    Args:
        plan: of the floating network. One of float32 has the weights as they are in their file, which decide whether a
            convolution stays floating because its sums could overflow or float32 cannot hold their factor. With others,
            a plan of the result may be refused.
        ranges: for each convolution, as observe() names it without "layer:", the largest magnitude of its result, or 0.
        floating: the convolutions that keep floating numbers.
    """
    check_names(floating)
    unknown = sorted(set(floating) - set(ranges))
    if unknown:
        raise ValueError(f"floating names {', '.join(unknown)}, which ranges has not: use {', '.join(ranges)}")
    names = list(ranges)
    encoded = (ctypes.c_char_p * len(names))(*encoded_names(names, "ranges"))
    numbers = (ctypes.c_float * len(names))(*ranges.values())
    wanted = [int(name not in floating) for name in names]
    is_int8 = (ctypes.c_int32 * len(names))(*wanted)
    reasons = [NAMED if name in floating else "" for name in names]

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
