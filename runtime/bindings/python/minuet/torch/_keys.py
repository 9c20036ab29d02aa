"""Keys: short texts that say which op runs.

An op of torch.library takes tensors, numbers and texts, and keeps no state. What it computes is described by a key, the
JSON text of one of the classes below. Plans, pyramids and other objects of the library are made from a key and kept for
the next call; pyramids that were not used for long are dropped. Under torch.compile, a key is a constant of the graph.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec

import torch

from .._pyramid import Level, Map
from .._types import Axes, Purpose, axes

Numbers = tuple[int, ...]
Given = ParamSpec("Given")

#: Layouts of a weight: that of Minuet, [offsets, in / groups, out], and that of spconv, [out, sizes..., in / groups].
LAYOUTS = ("minuet", "spconv")


@dataclass(frozen=True)
class KernelKey:
    """The offsets of a kernel, as of minuet.Map.

    Args:
        size, dilation: one number for each axis.
        padding: where given, the offsets are those of a dense convolution.
        shape: "box" or "cross".
        offsets: where given, the offsets themselves, one after the other in one tuple.
    """

    size: Numbers
    dilation: Numbers
    padding: Numbers | None = None
    shape: str = "box"
    offsets: Numbers | None = None

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.size)

    @property
    def offset_list(self) -> list[list[int]] | None:
        """The offsets as rows, or None."""
        if self.offsets is None:
            return None
        return [list(self.offsets[i : i + self.ndim]) for i in range(0, len(self.offsets), self.ndim)]

    @property
    def volume(self) -> int:
        """The number of offsets."""
        if self.offsets is not None:
            return len(self.offsets) // self.ndim
        if self.shape == "cross":
            return 1 + sum(length - 1 for length in self.size)
        return math.prod(self.size)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of Map, Plan.convolution and others that describe the kernel."""
        if self.offsets is not None:
            return {"offsets": self.offset_list}
        return {
            "kernel_size": self.size,
            "dilation": self.dilation,
            "padding": self.padding,
            "kernel_shape": self.shape,
        }


@dataclass(frozen=True)
class LevelKey:
    """One coordinate set of a pyramid, as minuet.Level."""

    capacity: int
    parent: int
    stride: Numbers
    kernel_size: Numbers | None = None
    dilation: Numbers | None = None
    padding: Numbers | None = None
    shape: Numbers | None = None


@dataclass(frozen=True)
class MapKey:
    """One kernel map of a pyramid, as minuet.Map; `purposes` are the bits of minuet.Purpose."""

    fine: int
    coarse: int
    kernel: KernelKey
    purposes: int


@dataclass(frozen=True)
class PyramidKey:
    """A pyramid.

    `is_ordered` says that the coordinates are given in the order of the set, as those of a level that another pyramid
    made are. Rows then need no reordering. `has_coordinates` says that the buffer has the coordinates of the levels
    behind the first one.
    """

    ndim: int
    levels: tuple[LevelKey, ...]
    maps: tuple[MapKey, ...] = ()
    bounds: tuple[Numbers, Numbers] | None = None
    is_ordered: bool = False
    has_coordinates: bool = True

    @property
    def kept_levels(self) -> range:
        """The levels whose coordinates the buffer has. The caller has those of the first one."""
        return range(1, len(self.levels)) if self.has_coordinates else range(0)

    @property
    def level_list(self) -> list[Level]:
        """The levels in the terms of minuet.Pyramid."""
        made = []
        for level in self.levels:
            reached: dict[str, Any] = {}
            if level.kernel_size is not None:
                reached = {
                    "kernel_size": level.kernel_size,
                    "dilation": level.dilation or 1,
                    "padding": level.padding or 0,
                    "shape": level.shape or 0,
                }
            made.append(Level(level.capacity, level.parent, level.stride, **reached))
        return made

    @property
    def map_list(self) -> list[Map]:
        """The maps in the terms of minuet.Pyramid."""
        return [
            Map(item.fine, item.coarse, purposes=Purpose(item.purposes), **item.kernel.options) for item in self.maps
        ]


@dataclass(frozen=True)
class ConvolutionKey:
    """A convolution or a pooling without its channels, which follow from the tensors.

    Args:
        kernel, stride: of the op.
        groups: of a convolution.
        submanifold, transposed: as of Plan.convolution.
        layout: of the weight, one of LAYOUTS.
        reduction: of a pooling: "max", "average" or "sum".
    """

    kernel: KernelKey
    stride: Numbers
    groups: int = 1
    submanifold: bool = False
    transposed: bool = False
    layout: str = "minuet"
    reduction: str = ""

    @property
    def geometry(self) -> dict[str, Any]:
        """The arguments of Plan.convolution, Plan.pooling and ParameterGradients that say where the op reads."""
        return {
            **self.kernel.options,
            "ndim": self.kernel.ndim,
            "stride": self.stride,
            "submanifold": self.submanifold,
            "transposed": self.transposed,
        }


def text_of(key: PyramidKey | ConvolutionKey) -> str:
    """Returns the text of a key. Equal keys have equal texts."""
    named = dataclasses.asdict(
        key, dict_factory=lambda items: {name: value for name, value in items if value is not None}
    )
    return json.dumps(named, separators=(",", ":"))


def _kernel(found: dict[str, Any]) -> KernelKey:
    return KernelKey(**_tuples(found))


def _tuples(found: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


@functools.lru_cache(4096)
def pyramid_key(text: str) -> PyramidKey:
    """Returns the key of a text."""
    found = json.loads(text)
    bounds = found.get("bounds")
    return PyramidKey(
        found["ndim"],
        tuple(LevelKey(**_tuples(level)) for level in found["levels"]),
        tuple(
            MapKey(item["fine"], item["coarse"], _kernel(item["kernel"]), item["purposes"]) for item in found["maps"]
        ),
        None if bounds is None else (tuple(bounds[0]), tuple(bounds[1])),
        found["is_ordered"],
        found["has_coordinates"],
    )


@functools.lru_cache(4096)
def convolution_key(text: str) -> ConvolutionKey:
    """Returns the key of a text."""
    found = json.loads(text)
    kernel = _kernel(found.pop("kernel"))
    return ConvolutionKey(kernel=kernel, **_tuples(found))


def numbers(value: Axes, ndim: int, what: str) -> Numbers:
    """Returns one number for each axis."""
    return tuple(axes(value, ndim, what))


def positive(value: Axes, ndim: int, what: str) -> Numbers:
    """Returns one number for each axis, each of them 1 or more."""
    made = numbers(value, ndim, what)
    if made and min(made) < 1:
        raise ValueError(f"{what} is {list(made)}, and each number must be 1 or more")
    return made


def kernel_of(
    ndim: int,
    size: Axes = 1,
    dilation: Axes = 1,
    padding: Axes | None = None,
    shape: str = "box",
    offsets: Sequence[Sequence[int]] | None = None,
) -> KernelKey:
    """Returns the kernel that a caller describes."""
    if offsets is not None:
        flat = tuple(int(number) for offset in offsets for number in offset)
        if len(flat) != ndim * len(offsets):
            raise ValueError(f"offsets must have {ndim} numbers each, one for each axis")
        return KernelKey((1,) * ndim, (1,) * ndim, None, "box", flat)
    made = None if padding is None else numbers(padding, ndim, "padding")
    return KernelKey(positive(size, ndim, "kernel_size"), positive(dilation, ndim, "dilation"), made, shape)


def constant(function: Callable[Given, str]) -> Callable[Given, str]:
    """Marks a function of plain numbers and texts: torch.compile calls it once for the same arguments, and takes its
    result as a constant."""
    traced = torch.compiler.assume_constant_result(function)

    @functools.wraps(function, updated=())  # The mark is an attribute of `function`, and belongs to it alone.
    def call(*arguments: Given.args, **named: Given.kwargs) -> str:
        if not torch.compiler.is_compiling():
            return function(*arguments, **named)
        made: str = traced(*map(_fixed, arguments), **{name: _fixed(value) for name, value in named.items()})
        return made

    return call


def _fixed(value: Any) -> Any:
    """Returns the same as a constant of the graph. torch.compile treats some integers as symbolic, for example a row
    count that has changed since the previous call."""
    if isinstance(value, tuple):
        return tuple(_fixed(item) for item in value)
    return operator.index(value) if isinstance(value, int) and not isinstance(value, bool) else value
