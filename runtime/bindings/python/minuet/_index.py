"""The memory of an index, and how many slots its hash tables have."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._infos import told
from ._integers import integers
from ._library import call


@dataclass(frozen=True)
class IndexSizes:
    """Says how many bytes the index of a cloud takes. It is a part of what workspace_bytes and Pyramid.bytes tell."""

    slots: int
    table: int
    rows: int
    points: int


def slots_of(level_slots: Sequence[int] | None, levels: int) -> Any:
    """Returns declared slots as a C array, or None.

    Raises:
        ValueError: there are not as many numbers as levels with capacities.
    """
    if level_slots is None:
        return None
    if len(level_slots) != levels:
        raise ValueError(f"level_slots has {len(level_slots)} numbers, and level_capacity has {levels}")
    return integers(ctypes.c_int64, level_slots, "level_slots")


def index_bytes(level_capacity: Sequence[int], level_slots: Sequence[int] | None = None) -> IndexSizes:
    """Returns the bytes of an index, without a device.

    Args:
        level_capacity: the most voxels of each level that is a coordinate set.
        level_slots: the slots of each level's hash table, or 0 for the default: two for each voxel.
    """
    capacities = integers(ctypes.c_int64, level_capacity, "level_capacity")
    slots = slots_of(level_slots, len(level_capacity))
    options = _abi.minuet_index_options(struct_size=ctypes.sizeof(_abi.minuet_index_options))
    options.level_capacity = ctypes.addressof(capacities)
    options.level_slots = None if slots is None else ctypes.addressof(slots)
    options.level_count = len(level_capacity)
    answer = _abi.minuet_index_sizes(struct_size=ctypes.sizeof(_abi.minuet_index_sizes))
    call("minuet_index_bytes", ctypes.byref(options), ctypes.byref(answer))
    return told(IndexSizes, answer)
