"""Ops between two sets of voxels, also where neither was made from the other.

The library makes a kernel map between a level and a coarser one that was made from it. Other engines find the coarser
set by its stride, whoever made it. A link leads from one to the other: it knows the levels that have a map, and which
of their rows are those of the two sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import functional as F  # noqa: N812
from ._geometry import Geometry, Level
from ._keys import Numbers
from ._rules import Rule, read_numbers
from ._sparse_tensor import SparseTensor

_MOST_CELLS = 2**62


def number_rows(*parts: torch.Tensor) -> list[torch.Tensor]:
    """Returns one int64 number for each row of several matrices of integers. Equal rows have equal numbers."""
    every = torch.cat(parts).long()
    if not len(every):
        return [torch.zeros(0, dtype=torch.int64, device=every.device) for _ in parts]
    bounds = read_numbers(torch.stack([every.amin(0), every.amax(0)]).flatten())
    columns = every.shape[1]
    numbers = torch.zeros(len(every), dtype=torch.int64, device=every.device)
    cells = 1
    for column in range(columns):
        low, extent = bounds[column], bounds[columns + column] - bounds[column] + 1
        cells *= extent
        numbers = numbers * extent + (every[:, column] - low)
    if cells > _MOST_CELLS:
        raise ValueError(
            f"the coordinates lie between {bounds[:columns]} and {bounds[columns:]}, which are more than 2^62 cells: "
            "subtract the least coordinates of each cloud"
        )
    return list(numbers.split([len(part) for part in parts]))


def find_rows(rows: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Returns where each row of `wanted` is in `rows`, whose rows are unique, or -1; int32."""
    if not len(rows):
        return torch.full((len(wanted),), -1, dtype=torch.int32, device=wanted.device)
    known, sought = number_rows(rows, wanted)
    known, order = known.sort()
    place = torch.searchsorted(known, sought).clamp(max=len(known) - 1)
    return torch.where(known[place] == sought, order[place], -1).int()


def unique_rows(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the first row of each kind, ascending, and for each row the number of its kind; both int64."""
    (numbers,) = number_rows(rows)
    kinds, kind = torch.unique(numbers, return_inverse=True)
    positions = torch.arange(len(rows), device=rows.device)
    first = torch.full((len(kinds),), len(rows), dtype=torch.int64, device=rows.device)
    first = first.scatter_reduce(0, kind, positions, "amin")
    first, order = first.sort()
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=rows.device)
    return first, rank[kind]


def reduce_kinds(features: torch.Tensor, reduction: str, kind: torch.Tensor, count: int) -> torch.Tensor:
    """Returns the "sum", the "average" or the "max" of the features of each kind of rows, [count, channels]. `kind` is
    that of unique_rows(), and `count` how many kinds there are."""
    if not count:
        return features
    # The rows of one kind are those of one cloud in a global pooling.
    coordinates = torch.stack([kind.int(), torch.arange(len(kind), dtype=torch.int32, device=kind.device)], 1)
    return F.global_pooling(SparseTensor.of(features, coordinates), reduction, count)


def invert_rows(places: torch.Tensor, count: int) -> torch.Tensor:
    """Returns, for each of `count` places, the row that has it, or -1; int32. No two rows have one place."""
    rows = torch.full((count,), -1, dtype=torch.int32, device=places.device)
    rows[places.long()] = torch.arange(len(places), dtype=torch.int32, device=places.device)
    return rows


class Side:
    """A set of voxels on a level that may have more of them.

    Attributes:
        level: of the map.
        rows: for each voxel of the set, its row on the level, int32; None: the set is the level.
    """

    def __init__(self, level: Level, rows: torch.Tensor | None = None) -> None:
        self.level, self.rows = level, rows
        self._sources = None if rows is None else invert_rows(rows, level.rows)

    def spread(self, features: torch.Tensor) -> SparseTensor:
        """Returns features of the set on the level, with zeros for the level's other voxels."""
        if self._sources is None:
            return SparseTensor(features, self.level)
        return SparseTensor(F.gather_rows(features, self._sources), self.level)

    def collect(self, x: SparseTensor) -> torch.Tensor:
        """Returns the features of the set's voxels."""
        return x.features if self.rows is None else F.gather_rows(x.features, self.rows)


class Link:
    """Two sets of voxels, and levels with a map between them.

    Attributes:
        fine, coarse: the sets.
        stride: of the map.
        rule: the arguments of functional.convolution that say which coarser level it is, besides the kernel.
    """

    def __init__(self, fine: Side, coarse: Side, stride: Numbers, **rule: Any) -> None:
        self.fine, self.coarse, self.stride, self.rule = fine, coarse, stride, rule

    @property
    def is_within(self) -> bool:
        """Whether both sets are on one level. An op back then has the offsets with the other sign."""
        return self.fine.level is self.coarse.level

    def convolve(
        self,
        features: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        transposed: bool = False,
        **options: Any,
    ) -> torch.Tensor:
        """Convolves from the finer set to the coarser one, or back where `transposed`; `options` are those of
        functional.convolution. Back within a level, their offsets are the mirrored ones."""
        source, target = (self.coarse, self.fine) if transposed else (self.fine, self.coarse)
        made = F.convolution(source.spread(features), weight, bias, **self._arguments(transposed, options))
        return target.collect(made)

    def pool(self, features: torch.Tensor, reduction: str, *, transposed: bool = False, **options: Any) -> torch.Tensor:
        """Pools from the finer set to the coarser one, or back where `transposed`; `options` are those of
        functional.pooling. Back within a level, their offsets are the mirrored ones."""
        source, target = (self.coarse, self.fine) if transposed else (self.fine, self.coarse)
        if reduction != "sum" and source.rows is not None:
            raise ValueError(
                f"a {reduction} pooling needs an output whose cells have voxels of the input: leave out the "
                "coordinates, or use a sum"
            )
        made = F.pooling(source.spread(features), reduction, **self._arguments(transposed, options))
        return target.collect(made)

    def _arguments(self, transposed: bool, options: dict[str, Any]) -> dict[str, Any]:
        if self.is_within:
            return {**options, "submanifold": True}
        target = self.fine.level if transposed else self.coarse.level
        return {**options, **self.rule, "stride": self.stride, "transposed": transposed, "to": target}


def link_levels(fine: Level, coarse: Level, stride: Sequence[int]) -> Link:
    """Returns a link between the voxels of two levels. A voxel of `coarse` at p is at p * stride in cells of `fine`.

    Raises:
        ValueError: in capacity mode, `coarse` was not made from `fine` with this stride.
    """
    strides = tuple(stride)
    is_own = fine is coarse if max(strides) == 1 else coarse.parent is fine and coarse.rule == Rule(strides)
    if is_own:
        return Link(Side(fine), Side(coarse), strides)
    if fine.count is not None or coarse.count is not None:
        raise ValueError(
            "the voxels of one tensor were not made from those of the other, and in capacity mode the host cannot "
            "match them: use exact mode, or lead back to the tensor that the strided layer took"
        )
    made = fine.coarser(strides)
    rows = find_rows(made.coordinates, coarse.coordinates)
    is_missing = rows < 0
    in_place = torch.arange(len(rows), dtype=torch.int32, device=rows.device)
    missing, moved = read_numbers(torch.stack([is_missing.sum(), (rows != in_place).sum()]))
    if not missing:
        is_same = not moved and len(rows) == made.rows
        return Link(Side(fine), Side(made, None if is_same else rows), strides)
    # Cells without a fine voxel get one at their first corner, which has no features.
    steps = torch.tensor([1, *strides], dtype=torch.int32, device=rows.device)
    corners = coarse.coordinates[is_missing] * steps
    union = Geometry(torch.cat([fine.coordinates, corners]), batch_size=fine.geometry.batch_size).level
    made = union.coarser(strides)
    own = torch.arange(fine.rows, dtype=torch.int32, device=rows.device)
    return Link(Side(union, own), Side(made, find_rows(made.coordinates, coarse.coordinates)), strides)
