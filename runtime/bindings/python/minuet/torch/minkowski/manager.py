"""Coordinate keys, and the manager that all tensors of a network share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

from ..._types import axes
from .._geometry import CapacityOf, Geometry, Level
from .._keys import Numbers
from .._links import Link, link_levels
from .._rules import read_numbers


@dataclass(frozen=True)
class CoordinateMapKey:
    """The name of a set of coordinates in its manager: a tensor stride, and a text that tells sets of one stride apart.

    Attributes:
        tensor_stride: one number for each axis.
        string_id: empty for the set that the manager made or took first.
    """

    tensor_stride: Numbers
    string_id: str = ""

    def get_tensor_stride(self) -> list[int]:
        """Returns one number for each axis."""
        return list(self.tensor_stride)

    def get_coordinate_size(self) -> int:
        """Returns the number of columns of coordinates."""
        return 1 + len(self.tensor_stride)

    def get_key(self) -> tuple[list[int], str]:
        """Returns the tensor stride and the text."""
        return list(self.tensor_stride), self.string_id

    def is_key_set(self) -> bool:
        """Returns True: a key has its numbers from the beginning."""
        return True


class CoordinateMapType(Enum):
    """Where MinkowskiEngine keeps coordinates. Here they are where the tensors are."""

    CPU = 0
    CUDA = 1


class GPUMemoryAllocatorType(Enum):
    """Where MinkowskiEngine takes memory from. Here it is torch's."""

    PYTORCH = 0
    CUDA = 1


class MinkowskiAlgorithm(Enum):
    """How MinkowskiEngine lists pairs. Here the library chooses."""

    DEFAULT = 0
    MEMORY_EFFICIENT = 1
    SPEED_OPTIMIZED = 2


class CoordinateManager:
    """Sets of coordinates and their kernel maps. Tensors with one manager share both.

    Sets are found by their tensor stride. A strided layer takes the set of its stride that is there, and otherwise
    makes it; a transposed layer leads to the set of the finer stride.

    Args:
        D: the number of axes.
        num_threads, coordinate_map_type, allocator_type, minkowski_algorithm: taken, and without effect.
    """

    def __init__(
        self,
        D: int = 0,  # noqa: N803
        num_threads: int = -1,
        coordinate_map_type: Any = None,
        allocator_type: Any = None,
        minkowski_algorithm: Any = None,
    ) -> None:
        if D < 1:
            raise ValueError(f"D is {D}, and must be 1 or more")
        self.D = D
        self._levels: dict[CoordinateMapKey, Level] = {}
        self._coordinates: dict[CoordinateMapKey, torch.Tensor] = {}
        self._links: dict[tuple[CoordinateMapKey, CoordinateMapKey], Link] = {}
        self._clouds: dict[CoordinateMapKey, int] = {}
        self._inserted = 0

    def insert(
        self,
        cells: torch.Tensor,
        tensor_stride: Any = 1,
        string_id: str = "",
        *,
        count: torch.Tensor | None = None,
        capacities: CapacityOf | Sequence[int] | None = None,
        batch_size: int = 0,
    ) -> CoordinateMapKey:
        """Adds a set, and returns its key. A key that exists already gets another text.

        Args:
            cells: unique coordinates in cells of the set, int32 [rows, 1 + axes]: divided by the tensor stride.
            count, capacities, batch_size: as of minuet.torch.Geometry.
        """
        level = Geometry(cells, batch_size=batch_size, count=count, capacities=capacities).level
        return self._add(level, axes(tensor_stride, self.D, "tensor_stride"), string_id)

    def _add(self, level: Level, tensor_stride: Sequence[int], string_id: str) -> CoordinateMapKey:
        key = CoordinateMapKey(tuple(tensor_stride), string_id)
        while key in self._levels:
            self._inserted += 1
            key = CoordinateMapKey(tuple(tensor_stride), f"{string_id}-{self._inserted}")
        self._levels[key] = level
        return key

    def level(self, key: CoordinateMapKey) -> Level:
        """Returns the level whose rows are those of the set."""
        found = self._levels.get(key)
        if found is None:
            known = ", ".join(f"{list(one.tensor_stride)}:{one.string_id!r}" for one in self._levels) or "none"
            raise KeyError(f"the coordinate manager has no set {key}. It has: {known}")
        return found

    def stride(self, coordinate_map_key: CoordinateMapKey, stride: Any, string_id: str = "") -> CoordinateMapKey:
        """Returns the key of the set of a coarser stride, and makes the set if it is not there."""
        steps = tuple(axes(stride, self.D, "stride"))
        fine = self.level(coordinate_map_key)
        strides = tuple(a * b for a, b in zip(coordinate_map_key.tensor_stride, steps, strict=True))
        key = CoordinateMapKey(strides, string_id or coordinate_map_key.string_id)
        if key not in self._levels:
            self._levels[key] = fine.coarser(steps)
        return key

    def link(self, fine: CoordinateMapKey, coarse: CoordinateMapKey) -> Link:
        """Returns the link between two sets of which the second has the coarser stride, or the same one."""
        found = self._links.get((fine, coarse))
        if found is None:
            ratios = []
            for small, large in zip(fine.tensor_stride, coarse.tensor_stride, strict=True):
                if small < 1 or large % small:
                    raise ValueError(
                        f"the tensor stride {list(coarse.tensor_stride)} is no multiple of "
                        f"{list(fine.tensor_stride)}: a layer leads between sets whose strides are"
                    )
                ratios.append(large // small)
            found = link_levels(self.level(fine), self.level(coarse), ratios)
            self._links[(fine, coarse)] = found
        return found

    def key_of(self, key_or_tensor_stride: Any) -> CoordinateMapKey:
        """Returns a key itself, or that of the first set with a tensor stride."""
        if isinstance(key_or_tensor_stride, CoordinateMapKey):
            return key_or_tensor_stride
        strides = tuple(axes(key_or_tensor_stride, self.D, "tensor_stride"))
        for key in self._levels:
            if key.tensor_stride == strides:
                return key
        raise KeyError(f"the coordinate manager has no set with the tensor stride {list(strides)}")

    def exists(self, key: CoordinateMapKey) -> bool:
        """Whether there is a set with this key."""
        return key in self._levels

    def get_coordinates(self, coords_key_or_tensor_strides: Any) -> torch.Tensor:
        """Returns the coordinates of a set, int32 [rows, 1 + axes], as multiples of its tensor stride."""
        key = self.key_of(coords_key_or_tensor_strides)
        found = self._coordinates.get(key)
        if found is None:
            found = self.level(key).coordinates
            if max(key.tensor_stride) > 1:
                found = found * torch.tensor([1, *key.tensor_stride], dtype=torch.int32, device=found.device)
            self._coordinates[key] = found
        return found

    def size(self, coordinate_map_key: CoordinateMapKey) -> int:
        """Returns the number of rows of tensors with this key."""
        return self.level(coordinate_map_key).rows

    def number_of_unique_batch_indices(self) -> int:
        """Returns the number of clouds: the largest batch index of all sets, and one."""
        return max([0, *(self._clouds_of(key) for key in list(self._levels) if max(key.tensor_stride))])

    def _clouds_of(self, key: CoordinateMapKey) -> int:
        level = self._levels[key]
        if level.parent is not None:
            return 0  # The finer set has the same clouds.
        if key not in self._clouds:
            count = level.geometry.batch_size
            if not count and level.count is not None:
                raise ValueError(
                    "the number of clouds is not known in capacity mode: give batch_size to the SparseTensor"
                )
            if not count and level.rows:
                count = 1 + read_numbers(level.coordinates[:, 0].max().view(1))[0]
            self._clouds[key] = count
        return self._clouds[key]

    def origin(self) -> CoordinateMapKey:
        """Returns the key of the set with one row for each cloud, where global poolings lead."""
        clouds = self.number_of_unique_batch_indices()
        for key, level in self._levels.items():
            if not max(key.tensor_stride) and level.rows == clouds:
                return key
        first = next(iter(self._levels.values()))
        rows = torch.arange(clouds, dtype=torch.int32, device=first.coordinates.device)
        cells = torch.nn.functional.pad(rows[:, None], (0, self.D)).contiguous()
        capacities = None if first.count is None else [clouds]
        level = Geometry(cells, batch_size=clouds, capacities=capacities).level
        return self._add(level, [0] * self.D, "")

    def __repr__(self) -> str:
        sets = "".join(f"\n  {list(key.tensor_stride)}:{key.string_id!r}" for key in self._levels)
        return f"CoordinateManager(D={self.D}){sets}"


class SparseTensorOperationMode(Enum):
    """Whether each tensor that is made of coordinates has a manager of its own."""

    SEPARATE_COORDINATE_MANAGER = 0
    SHARE_COORDINATE_MANAGER = 1


_mode = SparseTensorOperationMode.SEPARATE_COORDINATE_MANAGER
_shared: CoordinateManager | None = None


def sparse_tensor_operation_mode() -> SparseTensorOperationMode:
    """Returns the mode of this process."""
    return _mode


def set_sparse_tensor_operation_mode(operation_mode: SparseTensorOperationMode) -> None:
    """Sets the mode of this process. With a shared manager, call clear_global_coordinate_manager() after each step."""
    global _mode
    if not isinstance(operation_mode, SparseTensorOperationMode):
        raise TypeError(f"operation_mode is {operation_mode!r}, and a SparseTensorOperationMode is needed")
    _mode = operation_mode


def global_coordinate_manager() -> CoordinateManager | None:
    """Returns the manager that tensors share, or None."""
    return _shared


def set_global_coordinate_manager(coordinate_manager: CoordinateManager | None) -> None:
    """Sets the manager that tensors share."""
    global _shared
    _shared = coordinate_manager


def clear_global_coordinate_manager() -> None:
    """Lets the manager that tensors share go, with all its sets and maps."""
    set_global_coordinate_manager(None)


def manager_for(dimension: int) -> CoordinateManager:
    """Returns the manager of a tensor that is made of coordinates: a new one, or the shared one."""
    if _mode is SparseTensorOperationMode.SEPARATE_COORDINATE_MANAGER:
        return CoordinateManager(dimension)
    if _shared is None:
        set_global_coordinate_manager(CoordinateManager(dimension))
    assert _shared is not None
    return _shared
