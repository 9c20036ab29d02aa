"""What a recorder knows of tensors: features that layers make, levels, and what it cannot describe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .._keys import KernelKey, Numbers
from .._rules import Rule


class ExportError(ValueError):
    """A module does something that a description of a network cannot say. The message names the op and the module."""


class Level:
    """A coordinate set of the network that is recorded.

    Attributes:
        parent: the level that it is made from, or None.
        rule: how it is made from the parent, or None.
        apart: of the set that a transposed convolution of spconv reads: the steps by which the parent's coordinates are
            multiplied.
        stride: the tensor stride.
        made: the levels that layers made from the same root, in order.
    """

    def __init__(
        self,
        ndim: int,
        parent: Level | None = None,
        rule: Rule | None = None,
        apart: Numbers | None = None,
    ) -> None:
        self.ndim, self.parent, self.rule, self.apart = ndim, parent, rule, apart
        self.stride: Numbers = (1,) * ndim
        if parent is not None and apart is not None:
            self.stride = tuple(one // two for one, two in zip(parent.stride, apart, strict=True))
        elif parent is not None and rule is not None:
            self.stride = tuple(one * two for one, two in zip(parent.stride, rule.stride, strict=True))
        self._shape: Numbers | None = None
        self._same: Level | None = None
        self._children: dict[Any, Level] = {}
        self.made: list[Level] = [] if parent is None else parent.made

    @property
    def shape(self) -> Numbers | None:
        """The cells along each axis, or None without limits."""
        if self.rule is not None and self.parent is not None:
            return self.rule.shape_of(self.parent.shape)
        return self._shape

    @shape.setter
    def shape(self, shape: Numbers | None) -> None:
        self._shape = shape

    def child(self, rule: Rule) -> Level:
        """Returns the level that a rule makes; the same rule gives the same level."""
        found = self._children.get(rule)
        if found is None:
            found = self._children[rule] = Level(self.ndim, self, rule)
            self.made.append(found)
        return found

    def moved_apart(self, steps: Numbers, shape: Numbers | None = None) -> Level:
        """Returns the set of the coordinates multiplied by steps, within a shape."""
        found = self._children.get((steps, shape))
        if found is None:
            found = self._children[steps, shape] = Level(self.ndim, self, apart=steps)
            found.shape = shape
        return found

    def resolve(self) -> Level:
        """Returns the level that this one has turned out to be."""
        level = self
        while level._same is not None:
            level = level._same
        return level

    def become(self, other: Level) -> None:
        """Says that this level, which was not known before, is another one."""
        self._same = other


class UnknownLevel(Level):
    """The level of an input whose coordinates are not known yet: the first sparse layer that reads it tells them."""

    def __init__(self) -> None:
        super().__init__(0)


@dataclass(eq=False)
class Node:
    """Features that one op makes.

    Attributes:
        op: of the description, "input", or "transposed", which becomes an `up` or an `inverse`.
        inputs: what the op reads.
        channels: of the features.
        path: the module in which the op ran.
        fields: of the layer in the description.
        parameters: by their names behind the layer's name. They look at the memory of the module's own parameters and
            buffers, unless the module or a rule computed them.
        absent: those parameters that the module does not have: ones or zeros stand for them.
        name: that the layer is to have, where it is known.
        window: the finer level, the coarser level and the kernel of a layer over a kernel map.
    """

    op: str
    inputs: list[Node]
    level: Level
    channels: int
    path: str
    fields: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)
    name: str = ""
    window: tuple[Level, Level, KernelKey] | None = None
    absent: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Coordinates:
    """The coordinates of a level, in its own cells."""

    level: Level


@dataclass(frozen=True)
class Buffer:
    """The bytes of a pyramid, with the level of its first set."""

    level: Level


@dataclass(frozen=True)
class CellNumber:
    """For each row of a level, a sum of its coordinates with factors, and a number."""

    level: Level
    factors: Numbers
    number: int = 0

    def range(self, batch: int) -> tuple[float, float]:
        """Returns the least and the greatest value that a row can have. `batch` is the number of clouds."""
        least = greatest = float(self.number)
        lengths = self.level.shape or (math.inf,) * self.level.ndim
        for factor, length in zip(self.factors, (batch, *lengths), strict=True):
            if factor:
                last = factor * (length - 1)
                least += min(0.0, last)
                greatest += max(0.0, last)
        return least, greatest


@dataclass(frozen=True)
class Truth:
    """A condition that has the same answer for every row of every cloud."""

    answer: bool


@dataclass(frozen=True)
class Dense:
    """A dense tensor of features.

    Attributes:
        node: the features.
        axes: what each axis of the tensor counts, slowest first: the clouds (BATCH), the channels (CHANNELS), cells
            along an axis (its number), or several of these together. An empty tuple means that the cells of all clouds
            are still one axis.
        spare: rows behind those of the cells, where the cells are still one axis.
    """

    node: Node
    axes: tuple[tuple[int, ...], ...]
    spare: int = 0


BATCH = -1
CHANNELS = -2


@dataclass(frozen=True)
class Unknown:
    """A tensor that depends on an input in a way that a description does not say.

    Attributes:
        op, path: the op, and the module in which it ran.
        reason: what was wrong, and what to do.
        of_features: whether it depends on features, not on coordinates alone.
        is_argument: whether it is an argument of the module as it was given.
    """

    op: str
    path: str
    reason: str
    of_features: bool
    is_argument: bool = False

    def error(self) -> ExportError:
        """Returns the error that says so."""
        where = f"in the module {self.path!r}" if self.path else "in forward() of the module that is exported"
        return ExportError(f"{self.op} {where} cannot be exported: {self.reason}")


Value = Node | Coordinates | Buffer | CellNumber | Truth | Dense | Unknown


def compact(numbers: Sequence[int]) -> int | list[int]:
    """Returns one number where all axes have the same, otherwise all."""
    return numbers[0] if len(set(numbers)) == 1 else list(numbers)
