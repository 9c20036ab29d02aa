"""Rules for coordinates, numbers of cells and dense tensors, and for ops that features and these share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ._recorder import ADVICE, Call, DescriptionError, Found, rule
from ._row_rules import add_rows, is_of_coordinates, multiply_rows, subtract_rows
from ._values import BATCH, CHANNELS, CellNumber, Coordinates, Dense, Node, Truth

_OF_COORDINATES = (
    "it computes with coordinates, and a network does so only to make dense tensors and levels: compute it before, and "
    "give the module the result"
)

# ---- numbers of cells ---------------------------------------------------------------------------------------------


def _integer(call: Call, name: str) -> int | None:
    """Returns an operand that is one integer for all rows, or None."""
    given = call.arguments[name]
    if isinstance(given, torch.Tensor):
        if call.value(name) is not None or given.numel() == 0 or given.is_floating_point():
            return None
        numbers = torch.unique(given)
        return int(numbers[0]) if numbers.numel() == 1 else None
    return given if isinstance(given, int) else None


def _combine(call: Call, sign: int) -> Found:
    """Adds or subtracts numbers of cells."""
    sign *= call.arguments.get("alpha", 1)
    one, two = call.value("self"), call.value("other")
    if isinstance(one, CellNumber) and isinstance(two, CellNumber) and one.level is two.level:
        factors = tuple(a + sign * b for a, b in zip(one.factors, two.factors, strict=True))
        return CellNumber(one.level, factors, one.number + sign * two.number)
    first, second = _integer(call, "self"), _integer(call, "other")
    if isinstance(one, CellNumber) and second is not None:
        return CellNumber(one.level, one.factors, one.number + sign * second)
    if isinstance(two, CellNumber) and first is not None:
        return CellNumber(two.level, tuple(sign * factor for factor in two.factors), first + sign * two.number)
    raise DescriptionError(_OF_COORDINATES)


@rule("add")
def _add(call: Call) -> Found:
    return _combine(call, 1) if is_of_coordinates(call) else add_rows(call)


@rule("sub")
def _subtract(call: Call) -> Found:
    return _combine(call, -1) if is_of_coordinates(call) else subtract_rows(call)


@rule("mul")
def _multiply(call: Call) -> Found:
    if not is_of_coordinates(call):
        return multiply_rows(call)
    one, two = call.value("self"), call.value("other")
    value, name = (one, "other") if one is not None else (two, "self")
    if isinstance(value, Coordinates):
        return _moved_apart(call, value, call.arguments[name])
    factor = _integer(call, name)
    if not isinstance(value, CellNumber) or factor is None:
        raise DescriptionError(_OF_COORDINATES)
    return CellNumber(value.level, tuple(factor * each for each in value.factors), factor * value.number)


def _moved_apart(call: Call, value: Coordinates, steps: Any) -> Found:
    """Multiplies coordinates by steps, as transposed convolutions of spconv do."""
    ndim = value.level.ndim
    if not isinstance(steps, torch.Tensor) or call.recorder.find(steps) is not None or steps.numel() != 1 + ndim:
        raise DescriptionError(_OF_COORDINATES)
    batch, *numbers = steps.flatten().tolist()
    if batch != 1 or min(numbers) < 1:
        raise DescriptionError(_OF_COORDINATES)
    return Coordinates(value.level.moved_apart(tuple(numbers)))


def _compare(call: Call, more: int, is_above: bool) -> Found:
    """Decides whether a number of a cell is at least the other operand and `more` (`is_above`), or less."""
    value, other = call.value("self"), _integer(call, "other")
    if not isinstance(value, CellNumber) or other is None:
        raise DescriptionError(_OF_COORDINATES if is_of_coordinates(call) else f"it compares features: {ADVICE}")
    low, high = value.range(call.recorder.batch)
    if low >= other + more:
        return Truth(is_above)
    if high < other + more:
        return Truth(not is_above)
    raise DescriptionError(
        "it selects voxels by their coordinates, which no layer does. For a dense tensor, give the sparse tensor a "
        "shape and a batch size, and make the dense one of the same shape"
    )


@rule("ge")
def _at_least(call: Call) -> Found:
    return _compare(call, 0, True)


@rule("gt")
def _above(call: Call) -> Found:
    return _compare(call, 1, True)


@rule("lt")
def _below(call: Call) -> Found:
    return _compare(call, 0, False)


@rule("le")
def _at_most(call: Call) -> Found:
    return _compare(call, 1, False)


@rule("bitwise_and", "logical_and")
def _and(call: Call) -> Found:
    answers = []
    for name in ("self", "other"):
        value, given = call.value(name), call.arguments[name]
        if isinstance(value, Truth):
            answers.append(value.answer)
        elif value is None and isinstance(given, torch.Tensor) and given.dtype == torch.bool and given.all():
            answers.append(True)
        else:
            raise DescriptionError(_OF_COORDINATES)
    return Truth(all(answers))


@rule("where")
def _where(call: Call) -> Found:
    condition = call.value("condition")
    if not isinstance(condition, Truth):
        raise DescriptionError(f"it selects elements by a condition: {ADVICE}")
    chosen = call.value("self" if condition.answer else "other")
    if chosen is None:
        raise DescriptionError(_OF_COORDINATES)
    return chosen


@rule("select")
def _select(call: Call) -> Found:
    value = call.value("self")
    if not isinstance(value, Coordinates) or call.arguments["dim"] not in (1, -1):
        raise DescriptionError(f"it takes a part of a tensor: {ADVICE}")
    column = call.arguments["index"] % (1 + value.level.ndim)
    return CellNumber(value.level, tuple(int(axis == column) for axis in range(1 + value.level.ndim)))


# ---- dense tensors ------------------------------------------------------------------------------------------------


def _scatter(call: Call, numbers: torch.Tensor, rows: torch.Tensor) -> Found:
    """Records that features are put to the rows of a constant of zeros that the numbers of their cells name."""
    value, node = call.recorder.find(numbers), call.recorder.find(rows)
    target = call.arguments["self"]
    if not isinstance(value, CellNumber) or not isinstance(node, Node):
        raise DescriptionError(f"it puts rows to other places: {ADVICE}")
    if call.recorder.find(target) is not None or bool(target.any()) or target.dim() != 2:
        raise DescriptionError(f"only a tensor of zeros becomes a dense tensor: {ADVICE}")
    level, shape = value.level, value.level.shape
    if node.level.resolve() is not level:
        raise DescriptionError("it puts features to cells of another level than theirs")
    if shape is None:
        raise DescriptionError(
            "a dense tensor needs the cells of its level: give the module's sparse tensor a shape, or export() the "
            "shape of its input"
        )
    factors = [1]
    for length in reversed(shape):
        factors.append(factors[-1] * length)
    factors.reverse()
    cells = factors[0]
    if list(value.factors) != factors or value.number != 0:
        raise DescriptionError(
            f"the dense tensor of a network has the cells of its level, {list(shape)}, in the order of the "
            "coordinates: make it of this shape"
        )
    return Dense(node, (), target.shape[0] % cells if target.shape[0] >= cells else 0)


@rule("index_add")
def _index_add(call: Call) -> Found:
    if call.arguments["dim"] != 0 or call.arguments["alpha"] != 1:
        raise DescriptionError(f"it puts features to other places than rows: {ADVICE}")
    return _scatter(call, call.arguments["index"], call.arguments["source"])


@rule("index_put")
def _index_put(call: Call) -> Found:
    indices = call.arguments["indices"]
    if len(indices) != 1 or indices[0] is None:
        raise DescriptionError(f"it puts features to other places than rows: {ADVICE}")
    return _scatter(call, indices[0], call.arguments["values"])


@rule("slice")
def _slice(call: Call) -> Found:
    value, before, after = call.value("self"), call.given[0], call.result
    if after.shape == before.shape and call.arguments["step"] == 1:
        return value
    is_first = call.arguments["dim"] == 0 and not call.arguments["start"]
    if isinstance(value, Dense) and not value.axes and is_first and after.shape[0] + value.spare == before.shape[0]:
        return Dense(value.node, ())
    what = "channels" if isinstance(value, Node) and call.arguments["dim"] in (1, -1) else "rows or cells"
    raise DescriptionError(f"it takes some of the {what}, and a layer reads all: {ADVICE}")


@rule("view", "reshape", "_reshape_alias", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "expand")
def _view(call: Call) -> Found:
    value = call.recorder.find(call.given[0])
    if isinstance(value, Dense):
        return _dense_view(call, value)
    if call.result.numel() != call.given[0].numel() or call.result.dtype != call.given[0].dtype:
        raise DescriptionError(f"it makes other elements of a tensor: {ADVICE}")
    if isinstance(value, Coordinates | CellNumber) and call.result.shape != call.given[0].shape:
        raise DescriptionError(_OF_COORDINATES)
    return value


def _dense_view(call: Call, value: Dense) -> Found:
    before, after = list(call.given[0].shape), list(call.result.shape)
    if after == before:
        return value
    if not value.axes:
        level = value.node.level.resolve()
        assert level.shape is not None
        wanted = [before[0] // math.prod(level.shape), *level.shape, before[1]]
        if value.spare or after != wanted:
            raise DescriptionError(f"the dense tensor of this level has the shape {wanted}, and {after} is asked for")
        return Dense(value.node, ((BATCH,), *((axis,) for axis in range(level.ndim)), (CHANNELS,)))
    axes, place = [], 0
    for length in after:
        merged: tuple[int, ...] = ()
        size = 1
        while place < len(before) and (size < length or not merged):
            merged += value.axes[place]
            size *= before[place]
            place += 1
        if size != length:
            raise DescriptionError(f"it divides an axis of a dense tensor: {ADVICE}")
        axes.append(merged)
    if place < len(before):
        if math.prod(before[place:]) != 1:
            raise DescriptionError(f"it divides an axis of a dense tensor: {ADVICE}")
        axes[-1] += tuple(axis for each in value.axes[place:] for axis in each)
    return Dense(value.node, tuple(axes))


def _permuted(call: Call, order: Sequence[int]) -> Found:
    value = call.value("self")
    count = call.given[0].dim()
    order = [axis % count for axis in order]
    if isinstance(value, Dense) and value.axes:
        return Dense(value.node, tuple(value.axes[axis] for axis in order))
    if order == list(range(count)):
        return value
    raise DescriptionError(f"it exchanges rows and channels: {ADVICE}")


@rule("permute")
def _permute(call: Call) -> Found:
    return _permuted(call, call.arguments["dims"])


@rule("transpose")
def _transpose(call: Call) -> Found:
    order = list(range(call.given[0].dim()))
    one, two = call.arguments["dim0"], call.arguments["dim1"]
    order[one], order[two] = order[two], order[one]
    return _permuted(call, order)


rule("t")(lambda call: _permuted(call, [1, 0]))
