"""Descriptions of pyramids: coordinate sets, kernel maps and their capacities."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _abi
from .._kernel import Offsets, is_centre, kernel_lengths
from .._pyramid import Level, Map, Pyramid
from .._types import Axes, KernelShape, Purpose, axes, choose
from ._target import context, current

Numbers = tuple[int, ...]
#: The version of the layout of attributes (runtime/bindings/xla/README.md).
FORMAT = 1
MOST_AXES = _abi.MINUET_MAX_DIM
_TRAINED = Purpose.CONVOLUTION | Purpose.TRANSPOSED_CONVOLUTION | Purpose.EXPORT
_POOLED = Purpose.POOLING | Purpose.TRANSPOSED_POOLING


def conv_map(
    fine: int,
    coarse: int,
    kernel_size: Axes = 1,
    *,
    dilation: Axes = 1,
    padding: Axes | None = None,
    kernel_shape: KernelShape | str = KernelShape.BOX,
    offsets: Offsets | None = None,
    is_trained: bool = True,
) -> Map:
    """Describes the kernel map of convolutions between two levels, or within one.

    Args:
        is_trained: whether the map serves gradients and transposed convolutions, too.
        others: as of minuet.Map.
    """
    purposes = _TRAINED if is_trained else Purpose.CONVOLUTION
    return Map(fine, coarse, kernel_size, dilation, purposes, padding, kernel_shape, offsets)


def pool_map(
    fine: int,
    coarse: int,
    kernel_size: Axes = 1,
    *,
    dilation: Axes = 1,
    padding: Axes | None = None,
    kernel_shape: KernelShape | str = KernelShape.BOX,
    offsets: Offsets | None = None,
) -> Map:
    """Describes the kernel map of poolings and their gradients, with the arguments of conv_map."""
    return Map(fine, coarse, kernel_size, dilation, _POOLED, padding, kernel_shape, offsets)


def four(numbers: Axes, ndim: int, what: str) -> list[int]:
    """Returns one number for each axis, and 0 for the axes that are not there."""
    given = axes(numbers, ndim, what)
    return given + [0] * (MOST_AXES - ndim)


def _flat_offsets(item: Map, ndim: int) -> list[int]:
    return [number for offset in item.offsets or () for number in axes(offset, ndim, "an offset")]


def kernel_numbers(item: Map, ndim: int) -> tuple[list[int], list[int]]:
    """Returns the numbers of a kernel for attributes: what comes before its axes, and the list of its offsets."""
    shape = choose(KernelShape, item.kernel_shape, "kernel_shape")
    flat = _flat_offsets(item, ndim)
    shape = shape if item.offsets is None else KernelShape.CUSTOM
    return [int(item.padding is not None), int(shape)], [len(item.offsets or ()), *flat]


def _fixed(value: Any) -> Any:
    """Returns a value that can be a key: sequences and arrays become tuples."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return (
        tuple(_fixed(item) for item in value) if isinstance(value, Sequence) and not isinstance(value, str) else value
    )


def _with_tuples(item: Any) -> Any:
    return replace(item, **{name: _fixed(getattr(item, name)) for name in item.__dataclass_fields__})


def _require_positive(item: Level | Map, ndim: int, what: str) -> None:
    for name in ("stride", "kernel_size", "dilation"):
        given = getattr(item, name, None)
        if given is not None and min(axes(given, ndim, name)) < 1:
            raise ValueError(f"the {name} of {what} is {given}, and each of its numbers must be 1 or more")


def require_level(level: int, levels: int) -> int:
    """Returns the number of a level.

    Raises:
        ValueError: there is no such level.
    """
    number = operator.index(level)
    if not 0 <= number < levels:
        raise ValueError(f"level is {number}, and it must be 0 to {levels - 1}")
    return number


@dataclass(frozen=True)
class Form:
    """What all descriptions of pyramids have.

    Attributes:
        numbers: the attribute `pyramid` of custom calls, as a tuple.
        capacities: the most rows of each level.
        plan: the bytes of the network's plan, or nothing.
        training, momentum: of the network's training plan.
    """

    numbers: Numbers
    capacities: Numbers
    ndim: int
    plan: bytes = b""
    training: Numbers = ()
    momentum: float = 0.0

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of custom calls on this pyramid."""
        made: dict[str, Any] = {"pyramid": int_array(self.numbers)}
        if self.plan:
            made["plan"] = np.frombuffer(self.plan, np.uint8)
        if self.training:
            made |= {"training": int_array(self.training), "momentum": np.float64(self.momentum)}
        return made


def int_array(numbers: Sequence[int]) -> npt.NDArray[np.int64]:
    """Returns numbers as an attribute."""
    return np.array(numbers, np.int64)


def head_numbers(
    ndim: int, batch_size: int, bounds: tuple[Numbers, Numbers] | None, keep: int, *, kind: int
) -> list[int]:
    """Returns the numbers with which the attribute `pyramid` begins. `kind`: 0 for levels, 1 for those of a network,
    and 2 for those of its training plan."""
    least, greatest = bounds or ((0,) * (1 + ndim), (0,) * (1 + ndim))
    rest = (0,) * (MOST_AXES - ndim)
    return [FORMAT, kind, ndim, batch_size, int(bounds is not None), *least, *rest, *greatest, *rest, keep]


@dataclass(frozen=True, init=False)
class Geometry:
    """Levels and kernel maps of clouds, with the most rows that they may have. Hashable, and static under jit.

    Args:
        levels: minuet.Level each; the first one has the coordinates of the cloud.
        maps: conv_map, pool_map or minuet.Map, by the names with which ops ask for them.
        ndim: the number of axes.
        bounds: the least and the greatest coordinates that clouds may have, the batch index first.
        batch_size: how many clouds there are, which global_pool needs: all batch indices are less; 0: not limited.
        pairs_per_row: how many inputs an output has at most on average, for memory of gradients of weights; None: as
            many as there are offsets, which always suffices.
    """

    levels: tuple[Level, ...]
    maps: tuple[tuple[str, Map], ...]
    ndim: int = 3
    bounds: tuple[Numbers, Numbers] | None = None
    batch_size: int = 0
    pairs_per_row: float | None = None
    unique_maps: tuple[Map, ...] = field(default=(), compare=False, repr=False)
    _numbers: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    def __init__(
        self,
        levels: Sequence[Level],
        maps: Mapping[str, Map],
        *,
        ndim: int = 3,
        bounds: tuple[Sequence[int], Sequence[int]] | None = None,
        batch_size: int = 0,
        pairs_per_row: float | None = None,
    ) -> None:
        def keep(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        if not 1 <= ndim <= MOST_AXES:
            raise ValueError(f"ndim is {ndim}, and it must be 1 to {MOST_AXES}")
        if pairs_per_row is not None and not pairs_per_row > 0:  # NaN is not, either.
            raise ValueError(f"pairs_per_row is {pairs_per_row}, and it must be above 0")
        keep("levels", tuple(_with_tuples(level) for level in levels))
        keep("ndim", ndim)
        named = {name: _with_tuples(item) for name, item in maps.items()}
        for number, level in enumerate(self.levels):
            _require_positive(level, ndim, f"level {number}")
        for name, item in named.items():
            _require_positive(item, ndim, f"the map {name!r}")
        named = {name: self._kept(item) for name, item in named.items()}
        # Names of equal maps share one, which serves the purposes of all.
        purposes: dict[Map, Purpose] = {}
        for item in named.values():
            bare = replace(item, purposes=Purpose(0))
            purposes[bare] = purposes.get(bare, Purpose(0)) | item.purposes
        places = {bare: number for number, bare in enumerate(purposes)}
        keep("unique_maps", tuple(replace(bare, purposes=both) for bare, both in purposes.items()))
        keep("maps", tuple(named.items()))
        keep("bounds", None if bounds is None else (tuple(bounds[0]), tuple(bounds[1])))
        keep("batch_size", batch_size)
        keep("pairs_per_row", pairs_per_row)
        keep("_numbers", {name: places[replace(item, purposes=Purpose(0))] for name, item in named.items()})
        pyramid_of(self)  # Raises what is wrong.

    def _kept(self, item: Map) -> Map:
        # Its list of pairs follows from the count, and the library does not make it.
        return replace(item, purposes=item.purposes & ~Purpose.EXPORT) if self.is_identity(item) else item

    def is_identity(self, item: Map) -> bool:
        """Whether a map pairs each row with itself alone."""
        padding = None if item.padding is None else axes(item.padding, self.ndim, "padding")
        is_within = item.fine == item.coarse
        return is_within and is_centre(self._volume(item), padding, _flat_offsets(item, self.ndim))

    def _volume(self, item: Map) -> int:
        return math.prod(kernel_lengths(self.ndim, item.kernel_size, item.kernel_shape, item.offsets))

    def map(self, name: str) -> tuple[int, Map]:
        """Returns the number of a map, and the map."""
        if name not in self._numbers:
            raise ValueError(f"the geometry has no map {name!r}: use one of {', '.join(self._numbers) or 'none'}")
        number = self._numbers[name]
        return number, self.unique_maps[number]

    def volume(self, name: str) -> int:
        """Returns the number of offsets of a map."""
        return self._volume(self.map(name)[1])

    def most_pairs(self, name: str) -> int:
        """Returns the most pairs of a map that its list has room for."""
        item = self.map(name)[1]
        volume = self._volume(item)
        per_row = volume if self.pairs_per_row is None else min(volume, self.pairs_per_row)
        return max(1, math.ceil(per_row * self.levels[item.coarse].capacity))

    def tensor_stride(self, level: int) -> Numbers:
        """Returns the step between neighbouring cells of a level, in cells of the first one."""
        strides, level = [1] * self.ndim, require_level(level, len(self.levels))
        while level >= 0:
            own = axes(self.levels[level].stride, self.ndim, "stride")
            strides = [one * two for one, two in zip(strides, own, strict=True)]
            level = self.levels[level].parent
        return tuple(strides)

    @functools.cached_property
    def form(self) -> Form:
        """What custom calls need to know."""
        ndim = self.ndim
        keep = (1 << len(self.levels)) - 1
        numbers = head_numbers(ndim, self.batch_size, self.bounds, keep, kind=0)
        numbers.append(len(self.levels))
        for level in self.levels:
            numbers += [level.capacity, level.parent, int(level.kernel_size is not None)]
            numbers += four(level.stride, ndim, "stride")
            for name in ("kernel_size", "dilation", "padding", "shape"):
                given = getattr(level, name) if level.kernel_size is not None else 0
                numbers += four(given, ndim, name)
        numbers.append(len(self.unique_maps))
        for item in self.unique_maps:
            flags, offsets = kernel_numbers(item, ndim)
            numbers += [item.fine, item.coarse, int(item.purposes), *flags]
            numbers += four(item.kernel_size, ndim, "kernel_size")
            numbers += four(item.dilation, ndim, "dilation")
            numbers += four(0 if item.padding is None else item.padding, ndim, "padding")
            numbers += offsets
        return Form(tuple(numbers), tuple(level.capacity for level in self.levels), ndim)

    def bytes(self) -> tuple[int, int]:
        """Returns the bytes of the buffer, and of the workspace of a build on a GPU (0 on the CPU)."""
        return bytes_for(pyramid_of(self))


def bytes_for(pyramid: Pyramid) -> tuple[int, int]:
    """Returns the bytes of a buffer that serves the CPU and the target, and of the workspace on the target."""
    arch = current().arch
    buffer, _ = pyramid.bytes("cpu")
    if arch == "cpu":
        return buffer, 0
    other, workspace = pyramid.bytes(arch)
    return max(buffer, other), max(1, workspace)


@functools.lru_cache(maxsize=512)
def pyramid_of(geometry: Geometry) -> Pyramid:
    """Returns the library's description of the pyramid."""
    return Pyramid(
        context(),
        geometry.levels,
        geometry.unique_maps,
        ndim=geometry.ndim,
        bounds=geometry.bounds,
        batch_size=geometry.batch_size,
        keep_coordinates=range(len(geometry.levels)),
    )
