"""Which coordinates pyramids keep and what is made of the others, and the bounds of coarser levels."""

from __future__ import annotations

import copy
import itertools

import pytest

torch = pytest.importorskip("torch")

import minuet.torch  # noqa: E402
from fused_problems import UNet, Written, cloud, step, sub  # noqa: E402
from minuet._pyramid import Pyramid  # noqa: E402
from minuet.torch import functional as F  # noqa: E402, N812
from minuet.torch import spconv  # noqa: E402
from minuet.torch._pyramids import _pyramids  # noqa: E402
from minuet.torch._rules import Rule  # noqa: E402
from spconv_problems import BATCH, SHAPE  # noqa: E402
from torch import nn  # noqa: E402
from torch_problems import poisoned  # noqa: E402

__all__ = ["poisoned"]


@pytest.fixture
def kept(monkeypatch) -> list[tuple[int, list[int]]]:
    """Lists how many levels each pyramid that is made from now on has, and those whose coordinates it keeps."""
    made: list[tuple[int, list[int]]] = []
    limit = Pyramid._set_limits

    def limited(self, options, bounds, keep, batch_size):
        made.append((len(self._capacities), list(keep)))
        limit(self, options, bounds, keep, batch_size)

    monkeypatch.setattr(Pyramid, "_set_limits", limited)
    _pyramids.clear()
    return made


# ---- coordinates that pyramids keep ----------------------------------------------------------------------------------


def two_levels() -> nn.Module:
    """Gives the second coarser level alone."""
    return spconv.SparseSequential(spconv.SparseConv3d(4, 8, 2, 2), spconv.SparseConv3d(8, 8, 3, 2, 1))


@pytest.mark.parametrize(
    ("make", "levels", "wanted"),
    [
        (UNet, 2, []),  # Its result is on the caller's voxels.
        (two_levels, 3, [2]),
        (lambda: Written(lambda m, x: m.a(x).features, a=spconv.SparseConv3d(4, 8, 2, 2)), 2, []),
        (lambda: Written(lambda m, x: m.a(x).dense(), a=spconv.SparseConv3d(4, 8, 2, 2)), 2, []),
        (
            lambda: Written(
                lambda m, x: (lambda y: {"y": [y, m.b(y)], "x": m.c(x)})(m.a(x)),
                a=spconv.SparseConv3d(4, 8, 2, 2),
                b=spconv.SparseConv3d(8, 8, 2, 2),
                c=sub(4, 8),
            ),
            3,
            [1, 2],
        ),
    ],
)
@pytest.mark.parametrize("is_trained", [False, True])
@pytest.mark.parametrize("capacity", [{}, {"rows": 90, "capacities": [80, 70]}])
def test_fused_modules_keep_the_coordinates_of_results(kept, make, levels, wanted, is_trained, capacity):
    fused = minuet.torch.fuse(make().train(is_trained), cloud(60, 5))
    x = cloud(60, 7, **copy.copy(capacity))
    kept.clear()
    if is_trained:
        fused(x)
    else:
        with torch.no_grad():
            fused(x)
    # In exact mode, levels are counted first, one after the other.
    assert kept[-1] == (levels, wanted)
    assert len(kept) == 1 or not capacity


@pytest.mark.parametrize("capacity", [{}, {"rows": 90, "capacities": [80, 70]}])
def test_coordinates_that_no_pyramid_keeps(capacity):
    """They are those of the module, in the same order, and ops behind a fused module lead back to their level."""
    torch.manual_seed(3)
    module = two_levels()
    fused = minuet.torch.fuse(copy.deepcopy(module), cloud(60, 5))
    weight = torch.randn(27, 8, 5)
    found = []
    for each in (module, fused):
        x = cloud(60, 7, **copy.copy(capacity))
        with torch.no_grad():
            y = each(x).sparse()
            back = F.convolution(y, weight, kernel_size=3, stride=2, padding=1, transposed=True)
        middle = y.level.parent
        assert middle is back.level
        found.append((y.level.coordinates, middle.coordinates, middle.clouds, back.features))
    for got, want in zip(found[1][:3], found[0][:3], strict=True):
        assert torch.equal(got, want)
    torch.testing.assert_close(found[1][3], found[0][3], rtol=1e-5, atol=1e-5)


def test_coordinates_that_would_follow_from_others():
    """A level that no pyramid keeps is not made of coordinates that its module has not seen."""
    fused = minuet.torch.fuse(two_levels(), cloud(60, 5))
    x = cloud(60, 7, rows=90, capacities=[80, 70])
    with torch.no_grad():
        y = fused(x)
    root = y.level.parent.parent
    root.coordinates[:, 1:].neg_()
    with pytest.raises(ValueError, match="were changed in place"):
        y.level.parent.coordinates  # noqa: B018


def test_coordinates_of_a_cloud_that_does_not_fit():
    """The second level has too few rows, so that no level has any."""
    fused = minuet.torch.fuse(two_levels(), cloud(60, 5))
    with torch.no_grad():
        y = fused(cloud(60, 7, rows=90, capacities=[80, 2]))
    assert int(y.level.geometry.status()) != 0
    for level in (y.level, y.level.parent):
        assert int(level.count) == 0
        assert not level.coordinates.any()


def test_fused_modules_of_one_cloud():
    """One makes a level of whose coordinates another makes a result."""
    torch.manual_seed(3)
    deep, shallow = two_levels(), spconv.SparseSequential(spconv.SparseConv3d(4, 8, 2, 2))
    x = cloud(60, 7)
    wanted = shallow(x)
    fused = [minuet.torch.fuse(copy.deepcopy(each), cloud(60, 5)) for each in (deep, shallow)]
    again = cloud(60, 7)
    below = fused[0](again)
    got = fused[1](again)
    assert got.level is below.level.parent
    assert torch.equal(got.indices, wanted.indices)


def test_single_ops_keep_the_coordinates_that_they_read(kept):
    module = UNet()
    step(module, cloud(60, 7))
    # The coarser set is counted with its coordinates, first with a shape that is rounded up. No map needs any.
    assert kept == [(1, []), (2, [1]), (2, [1]), (2, []), (1, []), (1, [])]
    kept.clear()
    _pyramids.clear()
    step(module, cloud(60, 7, rows=90, capacities=[80]))
    # The set is made with its first map. The inverse convolution has another direction of that one.
    assert [each for each in kept if each[1]] == [(2, [1])]
    assert len(kept) > 3


# ---- bounds of coarser levels ----------------------------------------------------------------------------------------


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
