"""How levels follow from one another, and the keys of the pyramids that have them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch

from .._types import CloudStatus, Purpose
from ._keys import KernelKey, LevelKey, MapKey, Numbers, PyramidKey, constant, text_of
from ._places import rounded

#: What training needs of a convolution's map: the convolution, the gradient of its input and that of its weight.
TRAINED = int(Purpose.CONVOLUTION | Purpose.TRANSPOSED_CONVOLUTION | Purpose.EXPORT)
#: What training needs of a pooling's map.
TRAINED_POOLING = int(Purpose.POOLING | Purpose.TRANSPOSED_POOLING)

_LEAST_CAPACITY = 64
_MOST_CAPACITY = 2**30 - 1
#: The most cells along an axis of a shape.
MOST_CELLS = 2**24

Bounds = tuple[Numbers, Numbers]

Op = TypeVar("Op", bound=Callable[..., Any])


def rounded_capacity(rows: int) -> int:
    """Returns a capacity for a known number of rows: one of eight steps for each power of two, so that clouds of about
    the same size share pyramids and prepared parameters."""
    return min(rounded(max(rows, _LEAST_CAPACITY)), _MOST_CAPACITY)


#: The same outside of graphs that torch.compile traces.
known_capacity = functools.lru_cache(1 << 14)(rounded_capacity)


#: Whether keys have the shapes and bounds of the caller. `export` sets it, because it learns them from the keys.
keeps_shapes: ContextVar[bool] = ContextVar("keeps_shapes", default=False)


#: Whether a batch norm in eval mode is one op of torch, in which `fuse` sees a batch norm, and no sum and product.
norms_are_ops: ContextVar[bool] = ContextVar("norms_are_ops", default=False)


def rounded_shape(shape: Numbers) -> Numbers:
    """Returns a shape of at least so many cells, one of eight for each power of two."""
    return tuple(min(rounded_capacity(length), MOST_CELLS) for length in shape)


@functools.lru_cache(4096)
def rounded_bounds(bounds: Bounds) -> Bounds:
    """Returns bounds that are at least as wide, so that clouds of about the same extent share pyramids. Exact mode asks
    for them, whose ops torch.compile does not trace."""
    least, greatest = bounds
    extents = rounded_shape(tuple(last - first + 1 for first, last in zip(least, greatest, strict=True)))
    ends = (first + extent - 1 for first, extent in zip(least, extents, strict=True))
    return least, tuple(min(max(end, last), 2**31 - 1) for end, last in zip(ends, greatest, strict=True))


def outside_of(coordinates: torch.Tensor, bounds: Bounds) -> torch.Tensor:
    """Says for each row whether it is outside of the bounds."""
    least, greatest = (torch.tensor(side, device=coordinates.device) for side in bounds)
    return ((coordinates < least) | (coordinates > greatest)).any(1)


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

    @property
    def name(self) -> tuple[Any, ...]:
        """What tells the rule from others."""
        return (self.stride, self.kernel_size, self.dilation, self.padding)

    def _reach(self) -> tuple[tuple[int, int, int, int], ...] | None:
        """Returns stride, padding and the last offset of each axis, and the kernel size; None for cells."""
        if self.kernel_size is None or self.dilation is None or self.padding is None:
            return None
        return tuple(
            (stride, padding, dilation * (size - 1), size)
            for stride, padding, dilation, size in zip(
                self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        )

    def shape_of(self, shape: Numbers | None) -> Numbers | None:
        """Returns the cells of the coarser level along each axis, of those of the finer one."""
        if shape is None:
            return None
        reach = self._reach()
        if reach is None:
            return tuple(-(-length // stride) for length, stride in zip(shape, self.stride, strict=True))
        made = tuple(
            (length + 2 * padding - last - 1) // stride + 1
            for length, (stride, padding, last, _) in zip(shape, reach, strict=True)
        )
        if min(made) < 1:
            raise ValueError(f"a kernel of {self.kernel_size} is larger than the padded shape {shape}")
        return made

    def bounds_of(self, bounds: Bounds | None) -> Bounds | None:
        """Returns the least and the greatest coordinates of the coarser level, of those of the finer one."""
        if bounds is None:
            return None
        # A voxel has the cell that contains it as if a kernel without gaps led from the cell to all its places.
        reach = self._reach() or tuple((stride, 0, stride - 1, stride) for stride in self.stride)
        least, greatest = [bounds[0][0]], [bounds[1][0]]
        for axis, (stride, padding, last, _) in enumerate(reach):
            greatest.append((bounds[1][1 + axis] + padding) // stride)
            # A kernel with gaps may reach no cell at all, and the least bound is never above the greatest.
            least.append(min(-((last - padding - bounds[0][1 + axis]) // stride), greatest[-1]))
        return tuple(least), tuple(greatest)

    def most(self, capacity: int) -> int:
        """Returns how many rows the coarser level can have at most."""
        for stride, _, _, size in self._reach() or ():
            capacity *= -(-size // stride)
        return min(capacity, _MOST_CAPACITY)

    def level(self, capacity: int, parent: int, shape: Numbers | None) -> tuple[Any, ...]:
        """Returns the arguments of a LevelKey."""
        if self.kernel_size is None:
            return (capacity, parent, self.stride)
        return (capacity, parent, *self.name, shape)


@functools.lru_cache(4096)
def _text(
    ndim: int,
    levels: tuple[Any, ...],
    maps: tuple[Any, ...],
    bounds: Bounds | None,
    is_ordered: bool,
    has_coordinates: bool,
) -> str:
    first = LevelKey(levels[0][0], -1, (1,) * ndim)
    made = [MapKey(fine, coarse, KernelKey(*kernel), purposes) for fine, coarse, kernel, purposes in maps]
    every = (first, *[LevelKey(*level) for level in levels[1:]])
    return text_of(PyramidKey(ndim, every, tuple(made), bounds, is_ordered, has_coordinates))


@constant
def pyramid_text(
    ndim: int,
    levels: tuple[Any, ...],
    maps: tuple[Any, ...],
    bounds: Bounds | None,
    is_ordered: bool,
    has_coordinates: bool = True,
) -> str:
    """Returns the key of a pyramid.

    Args:
        levels: (capacity,) of the first one, and Rule.level() of the others.
        maps: (fine, coarse, kernel_name, purposes) of each.
        bounds: of the first level.
        is_ordered: whether the coordinates are given in the order of the set.
        has_coordinates: whether the coordinates of the levels behind the first one are read.
    """
    return _text(ndim, levels, maps, bounds, is_ordered, has_coordinates)


def kernel_name(kernel: KernelKey) -> tuple[Any, ...]:
    """Returns the arguments of a KernelKey, which tell it from others."""
    return (kernel.size, kernel.dilation, kernel.padding, kernel.shape, kernel.offsets)


def is_recording(*tensors: torch.Tensor | None) -> bool:
    """Whether a gradient of one of the tensors may be asked for."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    return False


_WITHIN_INT32 = (torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)

#: Why torch.compile breaks a graph.
_EXACT_MODE = "exact mode reads the number of rows from the device: give the Geometry capacities for one graph"


@torch.compiler.disable(reason=_EXACT_MODE)
def read_numbers(tensor: torch.Tensor) -> list[int]:
    """Reads numbers of the device, and waits for them."""
    read: list[int] = tensor.tolist()
    return read


def as_int32(coordinates: torch.Tensor, *, is_checked: bool = True) -> torch.Tensor:
    """Returns coordinates as int32, rounded down. Those that it cannot hold are an error where they are checked, for
    which the host reads a number unless the dtype fits."""
    if coordinates.is_floating_point():
        coordinates = torch.floor(coordinates)
    if is_checked and coordinates.dtype not in _WITHIN_INT32:
        wide = coordinates.double() if coordinates.is_floating_point() else coordinates
        is_wrong = ~((wide >= -(2**31)) & (wide < 2**31)).all(-1)
        if read_numbers(is_wrong.any().view(1))[0]:
            raise ValueError(
                f"coordinates are outside of int32{_first(is_wrong, coordinates)}: use larger voxels, or leave out "
                "points that are not finite"
            )
    return coordinates.int()


def uncompiled_in_exact_mode(op: Op) -> Op:
    """Marks an op of a sparse tensor or a level, its first argument, that builds what it needs. In exact mode,
    torch.compile breaks the graph around the whole op. Otherwise it would break it within, where the host reads a
    number, and make other graphs for other numbers."""
    uncompiled = torch.compiler.disable(op, reason=_EXACT_MODE)
    first = next(iter(inspect.signature(op).parameters))

    def call(*arguments: Any, **named: Any) -> Any:
        if torch.compiler.is_compiling():
            owner = arguments[0] if arguments else named[first]
            if owner.geometry.is_exact:
                return uncompiled(*arguments, **named)
        return op(*arguments, **named)

    return cast(Op, functools.wraps(op)(call))


def _first(is_wrong: torch.Tensor, coordinates: torch.Tensor) -> str:
    """Returns a row that is wrong, in words."""
    if not is_wrong.any():
        return ""
    row = int(is_wrong.nonzero()[0, 0])
    return f"; row {row} is {coordinates[row].tolist()}"


def raise_status(status: int, what: str, coordinates: torch.Tensor, bounds: Bounds | None) -> None:
    """Raises ValueError for bits of minuet.CloudStatus, with a row that shows the reason."""
    bits = CloudStatus(status)
    reasons = []
    if bits & CloudStatus.DUPLICATE:
        _, inverse, counts = torch.unique(coordinates, dim=0, return_inverse=True, return_counts=True)
        reasons.append("voxels occur more than once" + _first(counts[inverse] > 1, coordinates))
    if bits & CloudStatus.NEGATIVE_BATCH:
        reasons.append("batch indices are negative" + _first(coordinates[:, 0] < 0, coordinates))
    if bits & CloudStatus.OUT_OF_BOUNDS and bounds is not None:
        outside = outside_of(coordinates, bounds)
        reasons.append(f"coordinates are outside of the bounds {bounds}" + _first(outside, coordinates))
    if bits & (CloudStatus.OUTSIDE_KEYS | CloudStatus.KEY_TOO_NARROW | CloudStatus.TOO_FAR):
        reach = f"{coordinates.amin(0).tolist()} to {coordinates.amax(0).tolist()}"
        reasons.append(f"coordinates are too far apart, from {reach} with the batch index first: use larger voxels")
    text = ", and ".join(reasons) or "it does not fit"
    raise ValueError(f"{what} cannot be made: {text} ({bits!r})")
