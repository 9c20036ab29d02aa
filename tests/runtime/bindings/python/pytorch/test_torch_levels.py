"""The bounds of coarser levels."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from minuet.torch._rules import Rule  # noqa: E402
from spconv_problems import BATCH, SHAPE  # noqa: E402


def cells_of(rule: Rule, coordinate: int) -> set[int]:
    """Returns the cells of a coordinate on one axis, by the definition."""
    if rule.kernel_size is None:
        return {coordinate // rule.stride[0]}
    found = set()
    for k in range(rule.kernel_size[0]):
        place = coordinate - k * rule.dilation[0] + rule.padding[0]
        if place % rule.stride[0] == 0:
            found.add(place // rule.stride[0])
    return found


def test_bounds_of_coarser_levels():
    """They are as close as can be, so that shapes within them are seen to have all cells."""
    rules = [Rule((stride,)) for stride in (1, 2, 3)]
    for stride, size, dilation, padding in itertools.product((1, 2, 3), (1, 2, 3), (1, 2), (0, 1)):
        rules.append(Rule((stride,), (size,), (dilation,), (padding,)))
    for rule, least, extent in itertools.product(rules, range(-4, 5), range(1, 12)):
        greatest = least + extent - 1
        low, high = rule.bounds_of(((0, least), (2, greatest)))
        assert (low[0], high[0]) == (0, 2)
        cells = set().union(*[cells_of(rule, coordinate) for coordinate in range(least, greatest + 1)])
        assert low[1] <= high[1]
        assert not cells or (low[1] <= min(cells) and max(cells) <= high[1])
        if rule.kernel_size is None or (rule.dilation[0] == 1 and rule.kernel_size[0] >= rule.stride[0]):
            assert (low[1], high[1]) == (min(cells), max(cells))
    shape, bounds = tuple(SHAPE), ((0,) * 4, (BATCH - 1, *(cells - 1 for cells in SHAPE)))
    half = Rule((2,) * 3, (2,) * 3, (1,) * 3, (0,) * 3)
    assert half.bounds_of(bounds)[0] == (0,) * 4
    assert half.shape_of(shape) == tuple(cells // 2 for cells in shape)
