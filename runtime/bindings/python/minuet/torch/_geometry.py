"""Coordinate sets and kernel maps of a cloud, made where an op first needs them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .._types import Axes, CloudStatus, Purpose
from ._keys import (
    KernelKey,
    LevelKey,
    MapKey,
    Numbers,
    PyramidKey,
    constant,
    numbers,
    text_of,
)
from ._pyramids import pyramid, pyramid_coordinates, pyramid_pairs

#: What training needs of a convolution's map: the convolution, the gradient of its input and that of its weight.
TRAINED = int(Purpose.CONVOLUTION | Purpose.TRANSPOSED_CONVOLUTION | Purpose.EXPORT)
#: What training needs of a pooling's map.
TRAINED_POOLING = int(Purpose.POOLING | Purpose.TRANSPOSED_POOLING)

_LEAST_CAPACITY = 64
_MOST_CAPACITY = 2**30 - 1


def rounded_capacity(rows: int) -> int:
    """Returns a capacity for a known number of rows: one of eight steps for each power of two, so that clouds of about
    the same size share pyramids and prepared parameters."""
    rows = max(rows, _LEAST_CAPACITY)
    step = 1 << max(0, (rows - 1).bit_length() - 4)
    return min(-(-rows // step) * step, _MOST_CAPACITY)


@dataclass(frozen=True)
class Rule:
    """Says how a coarser level follows from a finer one.

    Args:
        stride: one number for each axis.
        kernel_size, dilation, padding: where given, the level is all that a dense convolution with this kernel reaches;
            otherwise the cells of the stride that have a voxel.
    """

    stride: Numbers
    kernel_size: Numbers | None = None
    dilation: Numbers | None = None
    padding: Numbers | None = None

    def shape_of(self, shape: Numbers | None) -> Numbers | None:
        """Returns the cells of the coarser level along each axis, of those of the finer one."""
        if shape is None:
            return None
        if self.kernel_size is None or self.dilation is None or self.padding is None:
            return tuple(-(-length // stride) for length, stride in zip(shape, self.stride, strict=True))
        made = []
        for axis, length in enumerate(shape):
            reach = self.dilation[axis] * (self.kernel_size[axis] - 1)
            made.append((length + 2 * self.padding[axis] - reach - 1) // self.stride[axis] + 1)
        if min(made) < 1:
            raise ValueError(f"a kernel of {self.kernel_size} is larger than the padded shape {shape}")
        return tuple(made)

    def most(self, capacity: int) -> int:
        """Returns how many rows the coarser level can have at most."""
        if self.kernel_size is None:
            return capacity
        for length, stride in zip(self.kernel_size, self.stride, strict=True):
            capacity *= -(-length // stride)
        return min(capacity, _MOST_CAPACITY)


@functools.cache
def _text(ndim: int, capacity: int, coarse: Any, kernel: Any, purposes: int, bounds: Any) -> str:
    levels = [LevelKey(capacity, -1, (1,) * ndim)]
    if coarse is not None:
        levels.append(LevelKey(coarse[0], 0, *coarse[1:]))
    maps = () if kernel is None else (MapKey(0, len(levels) - 1, KernelKey(*kernel), purposes),)
    return text_of(PyramidKey(ndim, tuple(levels), maps, bounds))


@constant
def _pyramid_text(
    ndim: int,
    capacity: int,
    coarse: tuple[Any, ...] | None,
    kernel: tuple[Any, ...] | None,
    purposes: int,
    bounds: tuple[Numbers, Numbers] | None,
) -> str:
    """Returns the key of a pyramid of one or two levels, with one map or none."""
    return _text(ndim, capacity, coarse, kernel, purposes, bounds)


def _map_name(rule: Rule | None, kernel: KernelKey) -> tuple[Any, ...]:
    """Returns what tells a map from all others of the finer level."""
    between = None if rule is None else (rule.stride, rule.kernel_size, rule.dilation, rule.padding)
    return (between, kernel.size, kernel.dilation, kernel.padding, kernel.shape, kernel.offsets)


def is_recording(*tensors: torch.Tensor | None) -> bool:
    """Whether a gradient of one of the tensors may be asked for."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


@torch.compiler.disable(
    reason="exact mode reads the number of rows from the device: give the Geometry capacities for one graph"
)
def read_numbers(tensor: torch.Tensor) -> list[int]:
    """Reads numbers of the device, and waits for them."""
    read: list[int] = tensor.tolist()
    return read


def _raise(status: int, what: str) -> None:
    if status:
        raise ValueError(
            f"{what} cannot be made: {CloudStatus(status)!r}. Coordinates must be unique, with a batch index of 0 or "
            "more, and within the bounds; voxelize points first"
        )


class KernelMap:
    """A kernel map between two levels, or within one.

    Attributes:
        fine, coarse: the levels; the same one for a map within a level.
        kernel: its offsets.
        buffer, key, number: the pyramid that has the map, and the map's number there.
    """

    def __init__(self, fine: Level, coarse: Level, kernel: KernelKey) -> None:
        self.fine, self.coarse, self.kernel = fine, coarse, kernel
        self.buffer: torch.Tensor
        self.key = ""
        self.number = 0
        self.purposes = 0
        self._pairs: tuple[torch.Tensor, torch.Tensor] | None = None

    @property
    def is_identity(self) -> bool:
        """Whether each row feeds itself alone."""
        return self.fine is self.coarse and self.kernel.volume == 1 and not any(self.kernel.offsets or ())

    def require(self, purposes: int) -> None:
        """Makes sure that the map serves these ops (bits of minuet.Purpose)."""
        if purposes & ~self.purposes:
            self.purposes |= purposes
            self.fine.geometry._build(self)

    def pairs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the pairs (offset, fine row, coarse row), int32 [pairs, 3], and their number, int32 [1]. They are
        listed once, and shared by all layers that use the map."""
        if self._pairs is None and self.is_identity:
            level = self.fine
            rows = torch.arange(level.rows, dtype=torch.int32, device=level.coordinates.device)
            count = level.count
            if count is None:
                count = torch.full((1,), level.rows, dtype=torch.int32, device=rows.device)
            self._pairs = (torch.stack([torch.zeros_like(rows), rows, rows], 1), count)
        if self._pairs is None:
            self.require(int(Purpose.EXPORT))
            geometry = self.fine.geometry
            if geometry.is_exact:
                _, count = pyramid_pairs(self.buffer, self.key, self.number, 0)
                most = read_numbers(count)[0]
            else:
                most = geometry._most_pairs(self)
            self._pairs = pyramid_pairs(self.buffer, self.key, self.number, most)
            if not geometry.is_exact:
                overflow = (self._pairs[1] > most).to(torch.int32) * int(CloudStatus.PAST_CAPACITY)
                geometry._statuses.append(overflow)
        return self._pairs


class Level:
    """One coordinate set of a geometry.

    Attributes:
        geometry: what it belongs to.
        rows: of tensors of this level. In exact mode the voxels of the level, otherwise its capacity.
        capacity: of the level in pyramids.
        count: in capacity mode, the number of voxels on the device, int32 [1]; rows past it are zero. In exact mode
            None.
        shape: cells along each axis, or None without limits.
        stride: the tensor stride, one number for each axis.
        parent: the level that it was made from, or None.
        rule: how it was made from the parent.
    """

    def __init__(
        self,
        geometry: Geometry,
        rows: int,
        capacity: int,
        count: torch.Tensor | None,
        stride: Numbers,
        shape: Numbers | None,
        parent: Level | None = None,
        rule: Rule | None = None,
    ) -> None:
        self.geometry = geometry
        self.rows, self.capacity, self.count = rows, capacity, count
        self.stride, self.shape = stride, shape
        self.parent, self.rule = parent, rule
        self._coordinates: torch.Tensor | None = None
        self._source: tuple[torch.Tensor, str] | None = None
        self._maps: dict[tuple[Any, ...], KernelMap] = {}
        self._children: dict[tuple[Any, ...], Level] = {}

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.stride)

    @property
    def coordinates(self) -> torch.Tensor:
        """The coordinates in cells of this level, int32 [rows, 1 + axes]: the batch index, then one for each axis."""
        if self._coordinates is None:
            assert self._source is not None
            buffer, key = self._source
            self._coordinates = pyramid_coordinates(buffer, key, 1, self.rows)
        return self._coordinates

    def mask(self, features: torch.Tensor) -> torch.Tensor:
        """Returns features with zeros in the rows past the count, which is what every op gives."""
        if self.count is None:
            return features
        rows = torch.arange(self.rows, device=features.device, dtype=torch.int32)
        is_used = (rows < self.count).reshape(-1, *[1] * (features.dim() - 1))
        return torch.where(is_used, features, torch.zeros((), dtype=features.dtype, device=features.device))

    def coarser(
        self,
        stride: Axes,
        *,
        kernel_size: Axes | None = None,
        dilation: Axes = 1,
        padding: Axes | None = None,
    ) -> Level:
        """Returns the coarser level of a stride: the cells that have a voxel or, with kernel_size and padding, all
        that a dense convolution reaches. The same arguments give the same level."""
        return self._coarser(self._rule(stride, kernel_size, dilation, padding), None, 0)

    def _rule(self, stride: Axes, kernel_size: Axes | None, dilation: Axes, padding: Axes | None) -> Rule:
        ndim = self.ndim
        strides = numbers(stride, ndim, "stride")
        if padding is None:
            return Rule(strides)
        if kernel_size is None:
            raise ValueError("a level that a dense convolution reaches needs kernel_size and padding")
        return Rule(
            strides,
            numbers(kernel_size, ndim, "kernel_size"),
            numbers(dilation, ndim, "dilation"),
            numbers(padding, ndim, "padding"),
        )

    def _coarser(self, rule: Rule, kernel: KernelKey | None, purposes: int) -> Level:
        """Returns the level of a rule. A new one is made together with its first map, where a kernel is given."""
        if rule.kernel_size is None and max(rule.stride) == 1:
            return self
        name = (rule.stride, rule.kernel_size, rule.dilation, rule.padding)
        found = self._children.get(name)
        if found is None:
            found = self.geometry._make_level(self, rule, kernel, purposes)
            self._children[name] = found
        return found

    def map_to(self, coarse: Level, kernel: KernelKey, purposes: int) -> KernelMap:
        """Returns the map of a kernel between this level and a coarser one that was made from it, or itself."""
        if coarse is not self and coarse.parent is not self:
            raise ValueError(
                "the coarser level was not made from the finer one, and a map needs both in one pyramid: make the "
                "coarser level from this one"
            )
        rule = coarse.rule if coarse is not self else None
        name = _map_name(rule, kernel)
        found = self._maps.get(name)
        if found is None:
            found = KernelMap(self, coarse, kernel)
            self._maps[name] = found
        found.require(purposes)
        return found


#: Gives the capacity of a new level, from the finer level and the rule.
CapacityOf = Callable[[Level, Rule], int]


class Geometry:
    """The coordinates of a batch of clouds, and all levels and maps that ops make of them.

    In exact mode, which is the default, the host reads the number of voxels of each level once, and tensors have as
    many rows as there are voxels. In capacity mode nothing is read back: tensors have as many rows as the capacity of
    their level, counts and status stay on the device, and a step compiles to one graph and may be captured.

    Args:
        coordinates: int32 [rows, 1 + axes], the batch index first. Each voxel occurs once.
        shape: cells along each axis, which limit the outputs of dense convolutions; None: no limits.
        batch_size: how many clouds there are; 0: not known. Dense tensors and global poolings need it.
        count: capacity mode: how many rows of the coordinates are in use, int32 [1] on the device; None: all.
        capacities: makes capacity mode: a function that gives the capacity of each new level, or a list with one
            capacity for each new level, in the order in which they are made.
        pairs_per_row: capacity mode: the most pairs of a map for each row of its coarser level; None: one for each
            offset, which always suffices.
        bounds: the least and the greatest coordinates, batch index first; None: the default range of the library.

    Raises:
        ValueError: in exact mode, coordinates occur twice or are out of their range.
    """

    def __init__(
        self,
        coordinates: torch.Tensor,
        *,
        shape: Sequence[int] | None = None,
        batch_size: int = 0,
        count: torch.Tensor | None = None,
        capacities: CapacityOf | Sequence[int] | None = None,
        pairs_per_row: float | None = None,
        bounds: tuple[Sequence[int], Sequence[int]] | None = None,
    ) -> None:
        if coordinates.dim() != 2 or coordinates.dtype != torch.int32:
            raise TypeError(
                f"coordinates are {coordinates.dtype} of the shape {list(coordinates.shape)}, and int32 "
                "[rows, 1 + axes] is needed"
            )
        ndim = coordinates.shape[1] - 1
        self.is_exact = capacities is None
        if self.is_exact and count is not None:
            raise ValueError("a count on the device belongs to capacity mode: give capacities, or cut the coordinates")
        self.ndim = ndim
        self.batch_size = batch_size
        self._capacities = capacities
        self._pairs_per_row = pairs_per_row
        self._bounds = None if bounds is None else (tuple(bounds[0]), tuple(bounds[1]))
        self._statuses: list[torch.Tensor] = []
        self._is_checked = False
        self._made = 0
        rows = coordinates.shape[0]
        limits = None if shape is None else tuple(shape)
        if limits is not None and len(limits) != ndim:
            raise ValueError(f"shape has {len(limits)} numbers, and the coordinates have {ndim} axes")
        capacity = rounded_capacity(rows) if self.is_exact else max(1, rows)
        if not self.is_exact and count is None:
            count = torch.full((1,), rows, dtype=torch.int32, device=coordinates.device)
        #: The level of the coordinates that were given.
        self.level = Level(self, rows, capacity, count, (1,) * ndim, limits)
        self.level._coordinates = coordinates

    @classmethod
    def beside(cls, level: Level, coordinates: torch.Tensor, shape: Sequence[int] | None) -> Geometry:
        """Makes a geometry of other coordinates for the rows of a level, in the same mode. Both have one status."""
        own = level.geometry
        made = cls(
            coordinates,
            shape=shape,
            batch_size=own.batch_size,
            count=level.count,
            capacities=own._capacities,
            pairs_per_row=own._pairs_per_row,
        )
        made._statuses = own._statuses
        return made

    def status(self) -> torch.Tensor:
        """Returns the bits of minuet.CloudStatus of all that was made so far, int32 [1] on the device: 0 where the
        cloud fitted everywhere. A training loop skips the step otherwise, as after an overflow of a loss scale."""
        if not self._statuses:
            return torch.zeros(1, dtype=torch.int32, device=self.level.coordinates.device)
        result = self._statuses[0]
        for more in self._statuses[1:]:
            result = result | more
        return result

    def _limits(self, level: Level) -> tuple[Numbers, Numbers] | None:
        """Returns the least and the greatest coordinates of a level, where they are known."""
        if level.parent is None and self._bounds is not None:
            return self._bounds
        if level.shape is None or not self.batch_size:
            return None
        return (0,) * (1 + self.ndim), (self.batch_size - 1, *(cells - 1 for cells in level.shape))

    def _most_pairs(self, made: KernelMap) -> int:
        volume = made.kernel.volume
        per_row = volume if self._pairs_per_row is None else min(volume, self._pairs_per_row)
        return max(1, int(per_row * made.coarse.capacity))

    def _capacity_of(self, fine: Level, rule: Rule) -> int:
        if callable(self._capacities):
            return int(self._capacities(fine, rule))
        assert self._capacities is not None
        if self._made >= len(self._capacities):
            raise ValueError(
                f"capacities has {len(self._capacities)} numbers, and a level number {self._made + 1} is made: give "
                "one capacity for each level, in the order in which the ops make them"
            )
        return int(self._capacities[self._made])

    def _coarse(self, capacity: int, rule: Rule, shape: Numbers | None) -> tuple[Any, ...]:
        reached = (rule.kernel_size, rule.dilation, rule.padding, shape) if rule.kernel_size is not None else ()
        return (capacity, rule.stride, *reached)

    def _make_level(self, fine: Level, rule: Rule, kernel: KernelKey | None, purposes: int) -> Level:
        shape = rule.shape_of(fine.shape)
        stride = tuple(one * two for one, two in zip(fine.stride, rule.stride, strict=True))
        if self.is_exact:
            level = self._count_level(fine, rule, stride, shape)
        else:
            capacity = self._capacity_of(fine, rule)
            level = Level(self, capacity, capacity, None, stride, shape, fine, rule)
            # The level's first map is made by the same call.
            made = KernelMap(fine, level, kernel or KernelKey((1,) * self.ndim, (1,) * self.ndim))
            made.purposes = purposes
            counts = self._build(made, has_map=kernel is not None)
            level.count = counts[2:3]
            level._source = (made.buffer, made.key)
            if kernel is not None:
                fine._maps[_map_name(rule, kernel)] = made
        self._made += 1
        return level

    def _count_level(self, fine: Level, rule: Rule, stride: Numbers, shape: Numbers | None) -> Level:
        """Makes a level of exact mode: builds the sets with room enough, and reads how many voxels there are."""
        most = rule.most(fine.capacity)
        for capacity in sorted({min(most, 4 * fine.capacity), most}):
            key = _pyramid_text(self.ndim, fine.capacity, self._coarse(capacity, rule, shape), None, 0, self._limits(fine))
            buffer, counts, status = pyramid(fine.coordinates, None, key)
            bits, _, _, rows = read_numbers(torch.cat([status, counts]))
            if bits == 0 or capacity == most:
                break
        _raise(bits, "the coarser level")
        self._is_checked = True
        level = Level(self, rows, rounded_capacity(rows), None, stride, shape, fine, rule)
        level._source = (buffer, key)
        return level

    def _build(self, made: KernelMap, *, has_map: bool = True) -> torch.Tensor:
        """Builds the pyramid of a map for all purposes that it has now, and returns the counts."""
        fine, coarse, kernel = made.fine, made.coarse, made.kernel
        level = None
        if coarse is not fine:
            assert coarse.rule is not None
            level = self._coarse(coarse.capacity, coarse.rule, coarse.shape)
        offsets = (kernel.size, kernel.dilation, kernel.padding, kernel.shape, kernel.offsets) if has_map else None
        purposes = made.purposes & ~int(Purpose.EXPORT) if made.is_identity else made.purposes
        made.key = _pyramid_text(self.ndim, fine.capacity, level, offsets, purposes, self._limits(fine))
        made.buffer, counts, status = pyramid(fine.coordinates, fine.count, made.key)
        if not self.is_exact:
            self._statuses.append(status)
        elif not self._is_checked:
            _raise(read_numbers(status)[0], "the map")
            self._is_checked = True
        return counts
