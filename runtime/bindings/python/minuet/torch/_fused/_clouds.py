"""The levels of a cloud on which a fused module runs, and the capacities of exact mode."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import torch

from ..._types import CloudStatus
from .._geometry import Geometry, Level
from .._levels import back_reference
from .._places import Place, Pool
from .._pyramids import read_coordinates
from .._rules import Bounds, raise_status, rounded_bounds, rounded_capacity
from ._programs import Made, Setting
from ._recorded import Recorded

#: How much room a level has in exact mode, in terms of the most rows that were seen.
_ROOM = 1.1


class Reading:
    """Numbers of the device on their way to the host, while more work is enqueued."""

    def __init__(self, numbers: torch.Tensor, pinned: _Pinned | None, pool: Pool | None) -> None:
        self._numbers, self._pinned, self._pool = numbers, pinned, pool
        if pinned is not None:
            pinned.held.copy_(numbers, non_blocking=True)
            pinned.event.record(torch.cuda.current_stream(numbers.device))

    def numbers(self) -> list[int]:
        """Waits for them."""
        if self._pinned is None or self._pool is None:
            here: list[int] = self._numbers.tolist()
            return here
        self._pinned.event.synchronize()
        read: list[int] = self._pinned.held.tolist()
        self._pool.give(self._pinned)
        return read


class _Pinned:
    """Memory of the host that the device copies to."""

    def __init__(self, count: int) -> None:
        self.held = torch.empty(count, dtype=torch.int32, pin_memory=True)
        self.event = torch.cuda.Event()


class Levels:
    """The capacities of a network's levels in exact mode.

    Args:
        recorded: of the module.
        has_clouds: whether the last level has a row for each cloud.
        needs_batch: whether the number of clouds must be known otherwise.
    """

    def __init__(self, recorded: Recorded, has_clouds: bool, needs_batch: bool) -> None:
        self._recorded, self._has_clouds, self._needs_batch = recorded, has_clouds, has_clouds or needs_batch
        # By the capacity of the first level: the most rows of each other level for each row of the first. Small clouds
        # have other shares than large ones.
        self._shares: dict[int, list[float]] = {}
        self._pinned: dict[int, Pool] = {}

    def setting(self, level: Level) -> Setting:
        """Returns what the pyramid of a cloud must be made for."""
        geometry, bounds = level.geometry, _bounds_within(level)
        batch = geometry.batch_size if self._needs_batch else 0
        if self._needs_batch and not batch:
            raise ValueError(
                "a dense tensor or a pooling of whole clouds needs the number of clouds: give the sparse tensor a "
                "batch_size"
            )
        if geometry.is_exact:
            if bounds is not None and level.shape != self._recorded.shape:
                bounds = rounded_bounds(bounds)  # Shapes that differ from cloud to cloud would make a pyramid each.
            capacities = self._capacities(level)
        else:
            capacities = _given_capacities(self._recorded, level)
        sets = len(capacities)
        return Setting(sets, (*capacities, batch) if self._has_clouds else capacities, bounds, batch)

    def _capacities(self, level: Level) -> tuple[int, ...]:
        """Returns capacities of exact mode with room for a cloud like those that were seen."""
        capacity = level.capacity
        if capacity not in self._shares:
            self.count(level)
        shares = self._shares[capacity]
        return (capacity, *(rounded_capacity(math.ceil(_ROOM * share * capacity)) for share in shares))

    def count(self, level: Level) -> None:
        """Counts the rows of the levels of a cloud, as ops do in exact mode: one level after the other."""
        recorded = self._recorded
        sets: list[Level | None] = [level, *[None] * len(recorded.made)]

        def counted(number: int) -> Level:
            found = sets[number]
            if found is None:
                parent, rule = recorded.made[number - 1]
                found = sets[number] = counted(parent)._coarser(rule, None, 0)
            return found

        rows = [counted(number).rows / max(1, level.rows) for number in recorded.levels[1:]]
        known = self._shares.get(level.capacity, rows)
        self._shares[level.capacity] = [max(pair) for pair in zip(rows, known, strict=True)]

    def read(self, numbers: torch.Tensor, place: Place) -> Reading:
        """Begins to read numbers of the device."""
        if place.is_cpu:
            return Reading(numbers, None, None)
        count = len(numbers)
        pool = self._pinned.get(count) or self._pinned.setdefault(count, Pool(lambda: _Pinned(count)))
        return Reading(numbers, pool.take(), pool)


class Cloud:
    """A cloud whose levels and maps are built.

    Attributes:
        level: the first level.
        made: the pyramid.
        buffer: what was built.
        numbers: on the device: the status, the number of coordinates, and the rows of each level.
        rows: in exact mode, the rows of each level; in capacity mode the capacities.
    """

    def __init__(
        self, recorded: Recorded, level: Level, place: Place, made: Made, buffer: torch.Tensor, numbers: torch.Tensor
    ) -> None:
        self._recorded, self._place = recorded, place
        self.level, self.made, self.buffer, self.numbers = level, made, buffer, numbers
        self.rows: Sequence[int] = made.setting.capacities
        self._levels: dict[int, Level] = {0: level}

    def level_of(self, number: int) -> Level:
        """Returns a level of the network."""
        found = self._levels.get(number)
        if found is None:
            with self.level.geometry.session.building():
                found = self._levels[number] = self._new_level(number)
        return found

    def _new_level(self, number: int) -> Level:
        recorded = self._recorded
        parent, rule = recorded.made[recorded.levels[number] - 1]
        fine = self.level_of(recorded.levels.index(parent))
        known = fine._children.get(rule.name)
        level = None if known is None else known()
        if level is not None:
            return level
        geometry = self.level.geometry
        capacity = self.made.setting.capacities[number]
        rows = self.rows[number] if geometry.is_exact else None
        level = geometry._new_level(fine, rule, capacity if rows is None else rounded_capacity(rows), rows)
        if rows is None:
            level.count = self.numbers[2 + number : 3 + number]
        if number in recorded.shown:
            made, place, buffer, stride = self.made, self._place, self.buffer, level.stride

            def coordinates(rows: int) -> torch.Tensor:
                return read_coordinates(made.pointer, place, buffer, number, capacity, stride, rows)

            level._source = coordinates
        fine._children[rule.name] = back_reference(level)
        return level


def _bounds_within(level: Level) -> Bounds | None:
    """Returns the bounds of a level. Those of a coarser one may go past its shape, where it has no voxels."""
    if level.bounds is None or level.shape is None or level.parent is None:
        return level.bounds
    least, greatest = level.bounds
    return (
        (least[0], *(max(0, number) for number in least[1:])),
        (greatest[0], *map(min, greatest[1:], (cells - 1 for cells in level.shape))),
    )


def _given_capacities(recorded: Recorded, level: Level) -> tuple[int, ...]:
    """Returns the capacities that the caller gives, who is asked for all that the module makes, in order."""
    sets = [level]
    geometry = level.geometry
    for parent, rule in recorded.made:
        fine = sets[parent]
        sets.append(geometry._new_level(fine, rule, geometry._capacity_of(fine, rule)))
    return tuple(sets[number].capacity for number in recorded.levels)


def to_read(level: Level, made: Made, numbers: torch.Tensor) -> torch.Tensor:
    """Returns what the host reads of a cloud of exact mode: its numbers and, where the bounds were rounded, the
    greatest coordinates."""
    if made.setting.bounds == _bounds_within(level) or not level.rows:
        return numbers
    return torch.cat([numbers, level.coordinates.amax(0)])


def must_grow(read: Sequence[int], level: Level, made: Made) -> bool:
    """Says whether a cloud of exact mode needs more room.

    Args:
        read: of to_read().

    Raises:
        ValueError: its coordinates are wrong.
    """
    bits, greatest = read[0], read[2 + len(made.setting.capacities) :]
    if greatest and level.bounds is not None and any(map(operator.gt, greatest, level.bounds[1])):
        bits |= int(CloudStatus.OUT_OF_BOUNDS)
    if bits & ~int(CloudStatus.PAST_CAPACITY | CloudStatus.INDEX_FULL):
        raise_status(bits, "the network", level.coordinates, level.bounds)
    return bits != 0


def note_rows(geometry: Geometry, cloud: Cloud) -> None:
    """Tells Capacities that learn how many rows there are."""
    learned = geometry._learned
    if learned is not None:
        for number in range(1, cloud.made.setting.sets):
            path = cloud.level_of(number).path
            learned._note_rows(path, cloud.rows[number])
