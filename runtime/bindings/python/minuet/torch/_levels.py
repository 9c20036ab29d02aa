"""Levels of a geometry, and the kernel maps between them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch

from .._kernel import is_centre
from .._types import Axes, CloudStatus, Purpose
from ._keys import KernelKey, Numbers, numbers, positive
from ._pyramids import pyramid_coordinates, pyramid_pairs
from ._rules import Bounds, Rule, kernel_name, read_numbers, uncompiled_in_exact_mode

if TYPE_CHECKING:
    from ._geometry import Geometry


# So many pairs are listed in memory for all that there can be (12 MB), because a wait for the device costs more.
_FEW_PAIRS = 1 << 20


Owner = TypeVar("Owner")


class _Strong:
    """Stands for a weak reference where torch.compile traces: it makes none, and the objects live in the trace only."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __call__(self) -> Any:
        return self._target


def back_reference(owner: Owner) -> Callable[[], Owner | None]:
    """Returns a reference that does not keep an object alive. Levels keep what they were made from, and their maps.
    Were the way back kept too, the buffers would stay until Python looks for cycles, which may be many steps later."""
    return _Strong(owner) if torch.compiler.is_compiling() else weakref.ref(owner)


class Built(NamedTuple):
    """Where a map is: the buffer and the key of a pyramid, the map's number there, and the ops that it serves (bits of
    minuet.Purpose)."""

    buffer: torch.Tensor
    key: str
    number: int
    purposes: int


def _map_name(coarse: Level, kernel: KernelKey, is_within: bool) -> tuple[Any, ...]:
    """Returns what tells a map from all others of the coarser level."""
    between = None if is_within or coarse.rule is None else coarse.rule.name
    return (between, *kernel_name(kernel))


class KernelMap:
    """A kernel map between two levels, or within one. The coarser level keeps it.

    Attributes:
        kernel: its offsets.
        is_within: whether both levels are the same one.
        name: what tells it from all other maps of the coarser level.
        built: the pyramid that has it; None until it is needed.
        most_pairs: in capacity mode, the most pairs that are listed; 0: one for each offset and coarser row.
    """

    def __init__(self, fine: Level, coarse: Level, kernel: KernelKey) -> None:
        self._fine, self._coarse, self.kernel = back_reference(fine), back_reference(coarse), kernel
        self.is_within = fine is coarse
        self.name = _map_name(coarse, kernel, self.is_within)
        self.built: Built | None = None
        self.most_pairs = 0
        self._pairs: tuple[torch.Tensor, torch.Tensor] | None = None

    @property
    def fine(self) -> Level:
        """The finer level."""
        level = self._fine()
        assert level is not None  # The coarser level keeps it.
        return level

    @property
    def coarse(self) -> Level:
        """The coarser level; the same one for a map within a level."""
        level = self._coarse()
        if level is None:
            raise RuntimeError("the level of the map is gone: keep the level as long as its map is used")
        return level

    @property
    def is_identity(self) -> bool:
        """Whether each row feeds itself alone."""
        return self.is_within and is_centre(self.kernel.volume, self.kernel.padding, self.kernel.offsets)

    def require(self, purposes: int) -> Built:
        """Makes sure that the map serves these ops (bits of minuet.Purpose), and says where it is."""
        built = self.built
        if built is None or purposes & ~built.purposes:
            geometry = self.fine.geometry
            with geometry.session.building():
                built = self.built
                if built is None or purposes & ~built.purposes:
                    # It is kept only when it was built and checked, so that a call after an error begins anew.
                    built, _ = geometry._build(self, purposes | (built.purposes if built is not None else 0))
                    self.built = built
        return built

    def pairs(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the pairs (offset, fine row, coarse row), int32 [pairs, 3], and their number, int32 [1]. They are
        listed once, and shared by all layers that use the map."""
        if self._pairs is None:
            with self.fine.geometry.session.building():
                if self._pairs is None:
                    self._pairs = self._identity_pairs() if self.is_identity else self._list_pairs()
        return self._pairs

    def _identity_pairs(self) -> tuple[torch.Tensor, torch.Tensor]:
        level = self.fine
        rows = torch.arange(level.rows, dtype=torch.int32, device=level.coordinates.device)
        count = level.count
        if count is None:
            count = torch.full((1,), level.rows, dtype=torch.int32, device=rows.device)
        return torch.stack([torch.zeros_like(rows), rows, rows], 1), count

    def _list_pairs(self) -> tuple[torch.Tensor, torch.Tensor]:
        buffer, key, number, _ = self.require(int(Purpose.EXPORT))
        geometry = self.fine.geometry
        if geometry.is_exact:
            most = self.kernel.volume * self.coarse.rows
            if most > _FEW_PAIRS or geometry.is_learning:
                _, count = pyramid_pairs(buffer, key, number, 0)
                most = read_numbers(count)[0]
                geometry._note_pairs(self, most)
            pairs, count = pyramid_pairs(buffer, key, number, most)
            return pairs, count
        most = geometry._most_pairs(self)
        pairs, count = pyramid_pairs(buffer, key, number, most)
        # Gradients are zero where the list is too short.
        geometry.session.statuses.append((count > most).to(torch.int32) * int(CloudStatus.PAST_CAPACITY))
        return pairs, count


class Level:
    """One coordinate set of a geometry.

    Attributes:
        geometry: what it belongs to.
        rows: of tensors of this level. In exact mode the voxels of the level, otherwise its capacity.
        capacity: of the level in pyramids.
        count: in capacity mode, the number of voxels on the device, int32 [1]; rows past it are zero. In exact mode
            None.
        shape: cells along each axis, or None without limits.
        limit: the shape that the library limits the level to: `shape`, or a larger one that no voxel passes.
        bounds: the least and the greatest coordinates, or None for the default range of the library.
        stride: the tensor stride, one number for each axis.
        parent: the level that it was made from, or None.
        rule: how it was made from the parent.
        known_batch: in exact mode, a batch size that the host has found to have all batch indices; 0 before.
    """

    def __init__(
        self,
        geometry: Geometry,
        rows: int,
        capacity: int,
        count: torch.Tensor | None,
        shape: Numbers | None,
        bounds: Bounds | None,
        parent: Level | None = None,
        rule: Rule | None = None,
    ) -> None:
        self.geometry = geometry
        self.rows, self.capacity, self.count = rows, capacity, count
        self.shape, self.limit, self.bounds = shape, shape, bounds
        self.parent, self.rule = parent, rule
        self.stride: Numbers = (1,) * geometry.ndim
        #: The rules that lead here from the first level.
        self.path: tuple[Any, ...] = ()
        if parent is not None and rule is not None:
            self.path = (*parent.path, rule.name)
            self.stride = tuple(one * two for one, two in zip(parent.stride, rule.stride, strict=True))
        self.known_batch = 0
        self._coordinates: torch.Tensor | None = None
        self._clouds: torch.Tensor | None = None
        # Whose changes in place are noticed, None for the coordinates, and how often it was changed before.
        self._watched: torch.Tensor | None = None
        self._version = -1
        # The pyramid that has the coordinates, and the level's number there; or what reads so many rows of them. None
        # where no pyramid keeps them: they are made again of the parent's when they are needed.
        self._source: tuple[torch.Tensor, str, int] | Callable[[int], torch.Tensor] | None = None
        # Maps within this level, and from its parent to it.
        self._maps: dict[tuple[Any, ...], KernelMap] = {}
        self._children: dict[tuple[Any, ...], Callable[[], Level | None]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Says how copy.deepcopy() and pickle make the level again: from its geometry or its parent, without maps."""
        self.require_unchanged()
        if self.parent is not None:
            return _make_again, (self.parent, self.rule)
        return _first_level, (self.geometry,)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.stride)

    @property
    def coordinates(self) -> torch.Tensor:
        """The coordinates in cells of this level, int32 [rows, 1 + axes]: the batch index, then one for each axis."""
        if self._coordinates is None:
            with self.geometry.session.building():
                if self._coordinates is None:
                    if self._source is None:
                        self._coordinates = self.geometry._coordinates_of(self)
                    elif callable(self._source):
                        self._coordinates = self._source(self.rows)
                    else:
                        buffer, key, number = self._source
                        self._coordinates = pyramid_coordinates(buffer, key, number, self.rows)
                    self._source = None  # It keeps the memory of a whole pyramid.
        return self._coordinates

    @property
    def clouds(self) -> torch.Tensor:
        """The batch index of each row, int32 [rows]; 0 for rows past the count."""
        self.require_unchanged()
        if self._clouds is None:
            coordinates = self.coordinates
            with self.geometry.session.building():
                if self._clouds is None:
                    self._clouds = self.mask(coordinates[:, 0].contiguous())
        return self._clouds

    def watch(self, coordinates: torch.Tensor) -> None:
        """From now on, require_unchanged() is about this tensor, which the level's coordinates are or were made of."""
        self._watched, self._version = coordinates, -1
        self.require_unchanged()

    def require_unchanged(self) -> None:
        """Raises ValueError if the coordinates were changed in place since the level was made."""
        coordinates = self._coordinates if self._watched is None else self._watched
        if coordinates is None or torch.compiler.is_compiling() or coordinates.is_inference():
            return
        if self._version < 0:
            self._version = coordinates._version
        elif self._version != coordinates._version:
            raise ValueError(
                "the coordinates were changed in place after a tensor was made of them, and its sets and maps are of "
                "the old ones: change a copy, and make a new tensor of it"
            )

    @uncompiled_in_exact_mode
    def require_valid(self) -> None:
        """In exact mode, raises ValueError where coordinates occur twice or are out of their range."""
        self.geometry.require_valid(self)

    def mask(self, features: torch.Tensor) -> torch.Tensor:
        """Returns features with zeros in the rows past the count, which is what every op gives."""
        if self.count is None:
            return features
        rows = torch.arange(self.rows, device=features.device, dtype=torch.int32)
        is_used = (rows < self.count).reshape(-1, *[1] * (features.dim() - 1))
        return torch.where(is_used, features, torch.zeros((), dtype=features.dtype, device=features.device))

    @uncompiled_in_exact_mode
    def coarser(
        self,
        stride: Axes,
        *,
        kernel_size: Axes | None = None,
        dilation: Axes = 1,
        padding: Axes | None = None,
    ) -> Level:
        """Returns the coarser level of a stride: the cells that have a voxel or, with kernel_size and padding, all
        that a dense convolution reaches. The same arguments give the same level, as long as it is kept."""
        return self._coarser(self._rule(stride, kernel_size, dilation, padding), None, 0)

    def _rule(self, stride: Axes, kernel_size: Axes | None, dilation: Axes, padding: Axes | None) -> Rule:
        ndim = self.ndim
        strides = positive(stride, ndim, "stride")
        if padding is None:
            return Rule(strides)
        if kernel_size is None:
            raise ValueError("a level that a dense convolution reaches needs kernel_size and padding")
        return Rule(
            strides,
            positive(kernel_size, ndim, "kernel_size"),
            positive(dilation, ndim, "dilation"),
            numbers(padding, ndim, "padding"),
        )

    def _coarser(self, rule: Rule, kernel: KernelKey | None, purposes: int) -> Level:
        """Returns the level of a rule. A new one is made together with its first map, where a kernel is given."""
        self.require_unchanged()
        if rule.kernel_size is None and max(rule.stride) == 1:
            return self
        known = self._children.get(rule.name)
        found = None if known is None else known()
        if found is None:
            with self.geometry.session.building():
                known = self._children.get(rule.name)
                found = None if known is None else known()
                if found is None:
                    found = self.geometry._make_level(self, rule, kernel, purposes)
                    self._children[rule.name] = back_reference(found)
        return found

    def map_within(self, kernel: KernelKey, name: tuple[Any, ...], purposes: int) -> KernelMap:
        """Returns the map of a kernel within the level, as map_to() does. `name` is the kernel_name()."""
        self.require_unchanged()
        return self._maps.get((None, *name)) or self.map_to(self, kernel, purposes)

    def map_to(self, coarse: Level, kernel: KernelKey, purposes: int) -> KernelMap:
        """Returns the map of a kernel between this level and a coarser one that was made from it, or itself. A new map
        is built for these purposes; KernelMap.require() adds to those of a known one."""
        if coarse is not self and coarse.parent is not self:
            raise ValueError(
                "the coarser level was not made from the finer one, and a map needs both in one pyramid: make the "
                "coarser level from this one"
            )
        self.require_unchanged()
        coarse.require_unchanged()
        name = _map_name(coarse, kernel, coarse is self)
        found = coarse._maps.get(name)
        if found is None:
            with self.geometry.session.building():
                found = coarse._maps.get(name)
                if found is None:
                    found = KernelMap(self, coarse, kernel)
                    self.geometry._take_known(found)
                    found.require(purposes)
                    coarse._maps[name] = found
        return found


def _first_level(geometry: Geometry) -> Level:
    return geometry.level


def _make_again(parent: Level, rule: Rule) -> Level:
    return parent._coarser(rule, None, 0)
