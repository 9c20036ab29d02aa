"""The compiled kernels of a plan, copied from what the library's visitors are given."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable
from typing import Any

from . import _abi
from ._infos import KernelCode, KernelField, KernelInfo, told

KernelVisitor = Callable[[KernelInfo], object]

_FIELD_KINDS = {
    _abi.MINUET_FIELD_POINTER: "pointer",
    _abi.MINUET_FIELD_I32: "int32",
    _abi.MINUET_FIELD_U32: "uint32",
    _abi.MINUET_FIELD_I64: "int64",
    _abi.MINUET_FIELD_F32: "float32",
}


def _kernel_field(raw: Any) -> KernelField:
    data = ctypes.string_at(raw.data, raw.data_bytes) if raw.data else None
    kind = _FIELD_KINDS[raw.kind]
    return KernelField(raw.name.decode(), raw.offset, raw.bytes, kind, raw.count, data, raw.data_bytes)


def kernel_code(raw: Any) -> KernelCode:
    """Copies what the visitor is given, which lives during the call only."""
    values = {item.name: getattr(raw, item.name) for item in dataclasses.fields(KernelCode)}
    for name in ("layer_name", "family", "name", "arch", "symbol"):
        values[name] = values[name].decode()
    values["image"] = ctypes.string_at(raw.image, raw.image_bytes)
    values["programmatic"] = bool(raw.programmatic)
    values["fields"] = tuple(_kernel_field(raw.fields[number]) for number in range(raw.field_count))
    return KernelCode(**values)


def visitor_of(visit: KernelVisitor | None) -> Callable[..., object] | None:
    if visit is None:
        return None
    return lambda kernel, _: visit(told(KernelInfo, kernel.contents))
