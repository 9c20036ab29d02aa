"""The coordinates of a batch of clouds, and the levels and maps that ops make of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from .._types import CloudStatus, Purpose
from ._capacities import Capacities
from ._keys import KernelKey
from ._levels import Built, KernelMap, Level, back_reference
from ._pyramids import pyramid, pyramid_coordinates
from ._rules import (
    MOST_CELLS,
    Bounds,
    Rule,
    keeps_shapes,
    kernel_name,
    outside_of,
    pyramid_text,
    raise_status,
    read_numbers,
    rounded_bounds,
    rounded_capacity,
    rounded_shape,
)
from ._session import Session

__all__ = ["CapacityOf", "Geometry", "Level"]

_OUT_OF_RANGE = int(CloudStatus.OUTSIDE_KEYS | CloudStatus.KEY_TOO_NARROW | CloudStatus.TOO_FAR)

#: Gives the capacity of a new level, from the finer level and the rule.
CapacityOf = Callable[[Level, Rule], int]


class _KnownLevel(NamedTuple):
    """A level of the pyramid that holds all levels of a network.

    Attributes:
        capacity, count: as of Level.
        source: the buffer and the key of the pyramid, and the level's number there.
    """

    capacity: Any
    count: torch.Tensor
    source: tuple[torch.Tensor, str, int]


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
            capacity for each new level, in the order in which they are made. Or minuet.torch.Capacities, which learns
            them first.
        pairs_per_row: capacity mode: the most pairs of a map for each row of its coarser level; None: one for each
            offset, which always suffices.
        bounds: the least and the greatest coordinates, batch index first; None: the default range of the library. In
            exact mode, the host reads the range of coordinates that are out of this one.

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
        capacities: Capacities | CapacityOf | Sequence[int] | None = None,
        pairs_per_row: float | None = None,
        bounds: tuple[Sequence[int], Sequence[int]] | None = None,
    ) -> None:
        if coordinates.dim() != 2 or coordinates.dtype != torch.int32:
            raise TypeError(
                f"coordinates are {coordinates.dtype} of the shape {list(coordinates.shape)}, and int32 "
                "[rows, 1 + axes] is needed"
            )
        if isinstance(capacities, int):
            raise TypeError(
                f"capacities is {capacities}: give a list with one capacity for each level that is made, such as "
                f"[{capacities}], or a function, or minuet.torch.Capacities"
            )
        ndim = coordinates.shape[1] - 1
        if not 1 <= ndim <= 4:
            raise ValueError(f"coordinates have {ndim + 1} columns: the batch index and 1 to 4 axes are needed")
        self._learned = None
        if isinstance(capacities, Capacities):
            self.is_exact = capacities._begin()
            self._learned = capacities if self.is_exact else None
        else:
            self.is_exact = capacities is None
        if self.is_exact and count is not None:
            raise ValueError("a count on the device belongs to capacity mode: give capacities, or cut the coordinates")
        self.ndim = ndim
        self.batch_size = batch_size
        self._capacities = capacities
        self._pairs_per_row = pairs_per_row
        self._join(Session())
        self._is_checked = False
        # Keys have the number, so that torch.compile makes a graph for each, which `index` tells it.
        rows = operator.index(coordinates.shape[0])
        limits = None if shape is None else tuple(shape)
        if limits is not None:
            if len(limits) != ndim:
                raise ValueError(f"shape has {len(limits)} numbers, and the coordinates have {ndim} axes")
            if min(limits) < 1 or max(limits) > MOST_CELLS:
                raise ValueError(f"shape is {limits}, and each axis has 1 to {MOST_CELLS} cells")
        capacity = rounded_capacity(rows) if self.is_exact else max(1, rows)
        if not self.is_exact and count is None:
            count = torch.full((1,), rows, dtype=torch.int32, device=coordinates.device)
        range_of = None if bounds is None else (tuple(bounds[0]), tuple(bounds[1]))
        self._first = (coordinates, rows, capacity, count, limits, range_of)
        self._root: Callable[[], Level | None] | None = None
        # What one op has built of the levels and the maps that were learned, by their paths and names.
        self._known_levels: dict[tuple[Any, ...], _KnownLevel] = {}
        self._known_maps: dict[tuple[Any, ...], tuple[Built, int]] = {}
        if self._learned is not None:
            self._learned._note_rows((), rows)
        elif isinstance(capacities, Capacities) and capacities._has_maps:
            self._build_all(capacities)

    @classmethod
    def beside(cls, level: Level, coordinates: torch.Tensor, shape: Sequence[int] | None) -> Geometry:
        """Makes a geometry of other coordinates for the rows of a level, in the same mode. Both have one status."""
        own = level.geometry
        if isinstance(own._capacities, Capacities):
            raise ValueError(
                "this op makes a set of its own coordinates, for which no capacities are learned: give the capacities "
                "as a function or a list"
            )
        bounds = None
        if shape is not None and own.batch_size:
            bounds = ([0] * (1 + own.ndim), [own.batch_size - 1, *(cells - 1 for cells in shape)])
        made = cls(
            coordinates,
            shape=shape,
            batch_size=own.batch_size,
            bounds=bounds,
            count=level.count,
            capacities=own._capacities,
            pairs_per_row=own._pairs_per_row,
        )
        made._join(own.session)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Says how copy.deepcopy() and pickle make the geometry again: of its coordinates, without levels and maps."""
        if self._capacities is not None:
            raise TypeError(
                "a tensor whose geometry has capacities cannot be copied or pickled, because its levels have their "
                "capacities in the order in which they were made: copy features and coordinates, and make a tensor of "
                "these"
            )
        coordinates, _, _, _, shape, bounds = self._first
        return _make_again, (coordinates, shape, self.batch_size, bounds)

    def _join(self, session: Session) -> None:
        """Takes part in a session."""
        self.session = session
        self._number = session.geometries
        session.geometries += 1

    @property
    def level(self) -> Level:
        """The level of the coordinates that were given. It is kept by tensors and coarser levels."""
        root = None if self._root is None else self._root()
        if root is None:
            coordinates, rows, capacity, count, limits, bounds = self._first
            root = Level(self, rows, capacity, count, limits, bounds)
            root._coordinates = coordinates
            root.watch(coordinates)
            self._root = back_reference(root)
        return root

    @property
    def is_learning(self) -> bool:
        """Whether capacities are learned from this geometry."""
        return self._learned is not None

    def status(self) -> torch.Tensor:
        """Returns the bits of minuet.CloudStatus of all that was made so far, int32 [1] on the device: 0 where the
        cloud fitted everywhere. skip_unless_fits() makes an optimizer skip the step otherwise."""
        statuses = self.session.statuses
        if not statuses:
            return torch.zeros(1, dtype=torch.int32, device=self._first[0].device)
        result = statuses[0]
        for more in statuses[1:]:
            result = result | more
        return result

    def _most_pairs(self, made: KernelMap) -> int:
        if made.most_pairs:
            return made.most_pairs
        volume = made.kernel.volume
        per_row = volume if self._pairs_per_row is None else min(volume, self._pairs_per_row)
        return max(1, int(per_row * made.coarse.capacity))

    def _capacity_of(self, fine: Level, rule: Rule) -> int:
        if isinstance(self._capacities, Capacities):
            if self._capacities._knows((*fine.path, rule.name)):
                return self._capacities._capacity((*fine.path, rule.name))
            raise ValueError(
                f"the network makes a level by {rule} that was not there when the capacities were learned: call "
                "learn_more() before it"
            )
        name, known = (self._number, *fine.path, rule.name), self.session.capacities
        if name not in known:
            if callable(self._capacities):
                known[name] = int(self._capacities(fine, rule))
            else:
                assert self._capacities is not None
                if len(known) >= len(self._capacities):
                    raise ValueError(
                        f"capacities has {len(self._capacities)} numbers, and a level number {len(known) + 1} is made: "
                        "give one capacity for each level, in the order in which the ops make them"
                    )
                known[name] = int(self._capacities[len(known)])
        return known[name]

    def _note_pairs(self, made: KernelMap, pairs: int) -> None:
        if self._learned is not None:
            self._learned._note_map(made, 0, pairs)

    def _make_level(self, fine: Level, rule: Rule, kernel: KernelKey | None, purposes: int) -> Level:
        if self.is_exact:
            level = self._count_level(fine, rule)
            if self._learned is not None:
                self._learned._note_rows(level.path, level.rows)
            return level
        known = self._known_levels.get((*fine.path, rule.name))
        if known is not None:
            level = self._new_level(fine, rule, known.capacity)
            level.count, level._source = known.count, known.source
            return level
        level = self._new_level(fine, rule, self._capacity_of(fine, rule))
        # The level's first map is made by the same call.
        made = KernelMap(fine, level, kernel or KernelKey((1,) * self.ndim, (1,) * self.ndim))
        built, counts = self._build(made, purposes, has_map=kernel is not None, has_coordinates=True)
        level.count, level._source = counts[2:3], (built.buffer, built.key, 1)
        if kernel is not None:
            made.built = built
            level._maps[made.name] = made
        return level

    def _take_known(self, made: KernelMap) -> None:
        """Fills in a new map that was built with all others."""
        known = self._known_maps.get((made.coarse.path, made.name))
        if known is not None:
            made.built, made.most_pairs = known

    def _new_level(self, fine: Level, rule: Rule, capacity: int, rows: int | None = None) -> Level:
        shape, bounds = rule.shape_of(fine.shape), rule.bounds_of(fine.bounds)
        return Level(self, capacity if rows is None else rows, capacity, None, shape, bounds, fine, rule)

    def _count_level(self, fine: Level, rule: Rule) -> Level:
        """Makes a level of exact mode: builds the sets with room enough, and reads how many voxels there are."""
        most, shape = rule.most(fine.capacity), rule.shape_of(fine.shape)
        # Shapes that differ from cloud to cloud would make a pyramid each. A rounded one gives the same voxels, unless
        # there are some past the shape.
        is_plain = shape is None or rule.kernel_size is None or keeps_shapes.get()
        limits = [shape] if shape is None or is_plain else [rounded_shape(shape), shape]
        for limit in limits:
            for capacity in sorted({min(most, 4 * fine.capacity), most}):
                levels = ((fine.capacity,), rule.level(capacity, 0, limit))
                key = pyramid_text(self.ndim, levels, (), self._bounds_of(fine), fine.parent is not None)
                buffer, counts, status = pyramid(fine.coordinates, None, key)
                wanted = [self._with_bounds(status, fine), counts]
                coordinates: torch.Tensor | None = None
                if limit != shape:
                    # The greatest coordinate along each axis. Rows past the count are zeros.
                    coordinates = pyramid_coordinates(buffer, key, 1, capacity)
                    wanted.append(coordinates[:, 1:].amax(0))
                bits, _, _, rows, *greatest = read_numbers(torch.cat(wanted))
                if not bits:
                    break
            if bits or all(one < two for one, two in zip(greatest, shape or (), strict=False)):
                break
        if self._measures_bounds(bits, fine):
            return self._count_level(fine, rule)
        self._raise(bits, "the coarser level", fine)
        self._is_checked = True
        level = self._new_level(fine, rule, rounded_capacity(rows), rows)
        level.limit = limit
        if coordinates is None:
            coordinates = pyramid_coordinates(buffer, key, 1, rows)
        level._coordinates = coordinates[:rows].clone()  # The buffers are larger than they need be, and go.
        return level

    def _coordinates_of(self, level: Level) -> torch.Tensor:
        """Makes a level that was built without its coordinates once more, of its parent alone, and returns them. Rows
        have the same order, which depends on the coordinates alone."""
        fine, rule = level.parent, level.rule
        assert fine is not None and rule is not None
        above: Level | None = fine
        while above is not None:
            above.require_unchanged()
            above = above.parent
        levels = ((fine.capacity,), rule.level(level.capacity, 0, level.limit))
        key = pyramid_text(self.ndim, levels, (), self._bounds_of(fine), fine.parent is not None)
        buffer, _, _ = pyramid(fine.coordinates, fine.count, key)
        # A cloud that did not fit has no rows, and its levels alone may fit.
        return level.mask(pyramid_coordinates(buffer, key, 1, level.rows))

    def _bounds_of(self, level: Level) -> Bounds | None:
        """Returns the bounds of a level for a key. In exact mode they are rounded, as shapes are."""
        if level.bounds is None or not self.is_exact or keeps_shapes.get():
            return level.bounds
        return rounded_bounds(level.bounds)

    def _with_bounds(self, status: torch.Tensor, level: Level) -> torch.Tensor:
        """Returns a status that also tells of coordinates between the bounds and the rounded ones, which only those of
        the caller can be."""
        if self._is_checked or level.parent is not None or level.bounds is None or not level.rows:
            return status
        outside = outside_of(level.coordinates, level.bounds).any().to(status.dtype)
        return status | outside * int(CloudStatus.OUT_OF_BOUNDS)

    def _measures_bounds(self, bits: int, level: Level) -> bool:
        """Where the coordinates of a first level of exact mode are out of the default range, and out of nothing else,
        declares their own range as its bounds, and returns True."""
        if not bits or bits & ~_OUT_OF_RANGE or level.parent is not None or level.bounds is not None:
            return False
        found = read_numbers(torch.cat([level.coordinates.amin(0), level.coordinates.amax(0)]))
        level.bounds = (tuple(found[: 1 + self.ndim]), tuple(found[1 + self.ndim :]))
        return True

    def _raise(self, bits: int, what: str, level: Level) -> None:
        """Raises an error for bits of a status, with a row that shows the reason."""
        if bits:
            raise_status(bits, what, level.coordinates, level.bounds)

    def require_valid(self, level: Level) -> None:
        """In exact mode, raises ValueError where coordinates that were given occur twice or are out of their range. The
        first set or map that is made of them is checked too, and nothing is checked again."""
        if self._is_checked or not self.is_exact or level.parent is not None:
            return
        key = pyramid_text(self.ndim, ((level.capacity,),), (), self._bounds_of(level), False)
        _, _, status = pyramid(level.coordinates, None, key)
        bits = read_numbers(self._with_bounds(status, level))[0]
        if self._measures_bounds(bits, level):
            return self.require_valid(level)
        self._raise(bits, "the dense tensor", level)
        self._is_checked = True

    def _build(
        self, made: KernelMap, purposes: int, *, has_map: bool = True, has_coordinates: bool = False
    ) -> tuple[Built, torch.Tensor]:
        """Builds the pyramid of a map for these purposes, and where asked with the coordinates of the coarser level.
        Returns where the map is, and the counts."""
        fine, coarse = made.fine, made.coarse
        levels: tuple[tuple[object, ...], ...] = ((fine.capacity,),)
        if coarse is not fine:
            assert coarse.rule is not None
            levels = (*levels, coarse.rule.level(coarse.capacity, 0, coarse.limit))
        served = purposes & ~int(Purpose.EXPORT) if made.is_identity else purposes
        maps = ((0, len(levels) - 1, kernel_name(made.kernel), served),) if has_map else ()
        is_ordered = fine.parent is not None
        key = pyramid_text(self.ndim, levels, maps, self._bounds_of(fine), is_ordered, has_coordinates)
        buffer, counts, status = pyramid(fine.coordinates, fine.count, key)
        if not self.is_exact:
            self.session.statuses.append(status)
        elif not self._is_checked:
            bits = read_numbers(self._with_bounds(status, fine))[0]
            if self._measures_bounds(bits, fine):
                return self._build(made, purposes, has_map=has_map, has_coordinates=has_coordinates)
            self._raise(bits, "the map", fine)
            self._is_checked = True
        built = Built(buffer, key, 0, purposes)
        if self._learned is not None:
            self._learned._note_map(made, purposes)
        return built, counts

    def _build_all(self, learned: Capacities) -> None:
        """Builds all levels and maps that were learned, by one op."""
        coordinates, rows, capacity, count, limits, bounds = self._first
        paths: list[tuple[Any, ...]] = [()]
        shapes = [limits]
        levels: list[tuple[Any, ...]] = [(capacity,)]
        for path, parent, most in learned._levels():
            rule = Rule(*path[-1])
            paths.append(path)
            shapes.append(rule.shape_of(shapes[parent]))
            levels.append(rule.level(most, parent, shapes[-1]))
        items = learned._kernels()
        maps = tuple((item.fine, item.coarse, item.kernel, item.built_purposes) for item in items)
        key = pyramid_text(self.ndim, tuple(levels), maps, bounds, False)
        buffer, counts, status = pyramid(coordinates, count, key)
        self.session.statuses.append(status)
        # A cloud that does not fit has no rows on any level, not even on the first.
        self._first = (coordinates, rows, capacity, counts[1:2], limits, bounds)
        for number, path in enumerate(paths[1:], 1):
            most = levels[number][0]
            self._known_levels[path] = _KnownLevel(most, counts[1 + number : 2 + number], (buffer, key, number))
        for number, item in enumerate(items):
            built = Built(buffer, key, number, item.purposes)
            self._known_maps[(paths[item.coarse], item.name)] = (built, item.most_pairs)


def _make_again(coordinates: torch.Tensor, shape: Any, batch_size: int, bounds: Any) -> Geometry:
    return Geometry(coordinates, shape=shape, batch_size=batch_size, bounds=bounds)
