"""Capacities that are learned from clouds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .._kernel import is_centre
from .._types import CloudStatus, Purpose
from ._keys import KernelKey
from ._rules import read_numbers, rounded_capacity

if TYPE_CHECKING:
    from ._geometry import Geometry
    from ._levels import KernelMap


class LearnedMap(NamedTuple):
    """A map that was learned: the numbers of its levels, its name, the purposes that it serves and those that a pyramid
    is built for, and the most pairs."""

    fine: int
    coarse: int
    name: tuple[Any, ...]
    purposes: int
    built_purposes: int
    most_pairs: int

    @property
    def kernel(self) -> tuple[Any, ...]:
        """The arguments of a KernelKey."""
        return self.name[1:]


class Capacities:
    """Learns from clouds in exact mode how many rows and pairs a network needs, and gives capacities from then on.

    Give one object as `capacities` to each Geometry of a network. The first geometries are in exact mode. From then on,
    geometries are in capacity mode, and one op builds all levels and maps that were seen. pad() brings each cloud to
    the first level's capacity. A cloud that does not fit has no rows anywhere, and geometry.status() says so;
    fits() reads that, and learns from the next cloud.

    Args:
        factor: of the most rows and pairs that were seen.
        learn: how many clouds are seen first.
    """

    def __init__(self, factor: float = 1.25, learn: int = 1) -> None:
        if factor < 1 or learn < 1:
            raise ValueError(f"factor is {factor} and learn is {learn}, and both must be at least 1")
        self.factor = factor
        self._learn = learn
        # Rows by the path of the level, and (purposes, pairs) by the paths and the kernel of the map.
        self._rows: dict[tuple[Any, ...], int] = {}
        self._maps: dict[tuple[Any, ...], tuple[int, int]] = {}

    @property
    def is_learning(self) -> bool:
        """Whether the next geometry is in exact mode."""
        return self._learn > 0

    def learn_more(self, clouds: int = 1) -> None:
        """Learns from more clouds, beside those that were seen."""
        self._learn = clouds

    def pad(
        self, features: torch.Tensor, coordinates: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Returns features and coordinates with as many rows as the first level's capacity, and the number of rows in
        use, int32 [1] on the device; while learning, features and coordinates as they are, and None.

        Raises:
            ValueError: there are more rows than that; learn_more() makes room.
        """
        rows = coordinates.shape[0]
        if self.is_learning:
            return features, coordinates, None
        more = self._capacity(()) - rows
        if more < 0:
            raise ValueError(
                f"the cloud has {rows} rows, and the capacity is {self._capacity(())}: call learn_more(), so that "
                "this cloud is in exact mode"
            )
        count = torch.full((1,), rows, dtype=torch.int32, device=coordinates.device)
        pad = torch.nn.functional.pad
        return pad(features, (0, 0, 0, more)), pad(coordinates, (0, 0, 0, more)), count

    def fits(self, geometry: Geometry) -> bool:
        """Waits for a geometry, and says whether the cloud fitted. If not, the next cloud is learned from."""
        if not read_numbers(geometry.status())[0]:
            return True
        self.learn_more()
        return False

    def _begin(self) -> bool:
        """Says whether a geometry that begins now is in exact mode."""
        if self._learn == 0:
            return False
        self._learn -= 1
        return True

    @property
    def _has_maps(self) -> bool:
        """Whether ops have made maps, which one op builds from then on. Fused modules build their own."""
        return bool(self._maps)

    def _knows(self, path: tuple[Any, ...]) -> bool:
        return path in self._rows

    def _capacity(self, path: tuple[Any, ...]) -> int:
        return rounded_capacity(math.ceil(self.factor * self._rows[path]))

    def _note_rows(self, path: tuple[Any, ...], rows: int) -> None:
        self._rows[path] = max(rows, self._rows.get(path, 0))

    def _note_map(self, made: KernelMap, purposes: int, pairs: int = 0) -> None:
        name = (made.coarse.path, made.name)
        known, most = self._maps.get(name, (0, 0))
        self._maps[name] = (known | purposes, max(most, pairs))

    def _paths(self) -> list[tuple[Any, ...]]:
        """Returns the paths of all levels, parents first. The first level's is empty."""
        return sorted(self._rows, key=len)

    def _levels(self) -> list[tuple[tuple[Any, ...], int, int]]:
        """Returns the path, the number of the parent, and the capacity of each level behind the first."""
        paths = self._paths()
        return [(path, paths.index(path[:-1]), self._capacity(path)) for path in paths[1:]]

    def _kernels(self) -> list[LearnedMap]:
        """Returns the maps."""
        numbers = {path: number for number, path in enumerate(self._paths())}
        made = []
        for (path, name), (purposes, pairs) in self._maps.items():
            coarse = numbers[path]
            fine = coarse if name[0] is None else numbers[path[:-1]]
            kernel = KernelKey(*name[1:])
            is_identity = fine == coarse and is_centre(kernel.volume, kernel.padding, kernel.offsets)
            built = purposes & ~int(Purpose.EXPORT) if is_identity else purposes
            made.append(LearnedMap(fine, coarse, name, purposes, built, math.ceil(self.factor * pairs)))
        return made


def geometry_of(given: Any) -> Geometry | None:
    """Returns the geometry of a level or of a sparse tensor, also one of minuet.torch.spconv and of the other modules,
    and a geometry itself. None: it is a tensor of torch, which is a status."""
    if isinstance(given, torch.Tensor):
        return None
    geometry: Geometry = given if hasattr(given, "status") else getattr(given, "level", given).geometry
    return geometry


def status_of(given: Any) -> torch.Tensor:
    """Returns the status of what geometry_of() takes. A tensor of torch is a status already."""
    geometry = geometry_of(given)
    status: torch.Tensor = given if geometry is None else geometry.status()
    return status


def check(given: Any) -> None:
    """Waits for the status of a cloud, and raises an error if the cloud did not fit.

    Args:
        given: a sparse tensor, also one of minuet.torch.spconv and of the other modules, a level, a geometry, or the
            tensor that geometry.status() returned.

    Raises:
        RuntimeError: it did not fit; the message says why.
    """
    bits = read_numbers(status_of(given))[0]
    if bits:
        raise RuntimeError(
            f"the cloud did not fit: {CloudStatus(bits)!r}. Its outputs and gradients are not to be used; give larger "
            "capacities, or use exact mode for it"
        )
