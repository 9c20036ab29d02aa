"""The options of networks and the names of architectures, as the library takes them."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from typing import Any

from . import _abi
from ._device import Path, path_bytes
from ._integers import integers
from ._types import Dataflow, WeightsOrder, choose, dtype_of


def _described(description: str | Mapping[str, Any] | None) -> bytes | None:
    if description is None:
        return None
    return (description if isinstance(description, str) else json.dumps(description)).encode()


def encoded_names(names: Sequence[str], what: str) -> list[bytes]:
    """Returns names for the library."""
    if isinstance(names, str | bytes):
        raise TypeError(f"{what} is the text {names!r}: give a list of names, such as [{names!r}]")
    return [name.encode() for name in names]


def network_options(
    name: str | None,
    description: str | Mapping[str, Any] | None,
    dtype: Any,
    channels: Sequence[int] | None,
    ndim: int,
    weights: Path | None,
    seed: int,
    weights_order: WeightsOrder | str,
    allow_unused: bool,
    weights_prefix: str | None,
    weights_map: str | Mapping[str, str] | None,
    dataflow: Dataflow | str,
    allow_non_finite_parameters: bool,
    without_values: bool,
    shape: Sequence[int] | None,
    in_channels: int,
    weights_key: str | None,
) -> tuple[_abi.minuet_network_options, list[Any]]:
    """Returns the options, and the memory that they point to."""
    options = _abi.minuet_network_options(struct_size=ctypes.sizeof(_abi.minuet_network_options))
    kept: list[Any] = []

    def numbers(values: Sequence[int] | None, what: str) -> tuple[int | None, int]:
        if values is None:
            return None, 0
        kept.append(integers(ctypes.c_int32, values, what))
        return ctypes.addressof(kept[-1]), len(values)

    options.name = name.encode() if name is not None else None
    options.description = _described(description)
    options.dtype = dtype_of(dtype)
    options.channels, options.channel_count = numbers(channels, "channels")
    options.ndim = ndim
    options.weights_path = path_bytes(weights)
    options.seed = seed
    options.weights_order = choose(WeightsOrder, weights_order, "weights_order")
    options.allow_unused = int(allow_unused)
    options.weights_prefix = weights_prefix.encode() if weights_prefix is not None else None
    options.weights_map = _described(weights_map)
    options.dataflow = choose(Dataflow, dataflow, "dataflow")
    options.allow_non_finite_parameters = int(allow_non_finite_parameters)
    options.without_values = int(without_values)
    options.shape, options.shape_count = numbers(shape, "shape")
    options.in_channels = in_channels
    options.weights_key = weights_key.encode() if weights_key is not None else None
    return options, kept
