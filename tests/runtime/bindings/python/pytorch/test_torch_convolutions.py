"""Convolutions in PyTorch and their gradients, against loops in float64 and torch's dense convolutions."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import minuet  # noqa: E402
import minuet.torch as sparse  # noqa: E402
from minuet.torch import functional as F  # noqa: E402, N812
from torch_problems import (  # noqa: E402
    GEOMETRIES,
    cloud,
    double_of,
    expect_close,
    normal,
    padded,
    poisoned,  # noqa: F401
    rows,
    spread,
)

CAPACITY = 1100


def prepare(name, coordinates, channels, capacity=False):
    """Returns a tensor on the level that a convolution of this geometry reads, without features of its own."""
    geometry = GEOMETRIES[name]
    options = {"shape": geometry.shape, "batch_size": 2}
    if capacity:
        count = torch.tensor([len(coordinates)], dtype=torch.int32)
        options |= {"capacities": [CAPACITY], "count": count}
        coordinates = padded(coordinates, 13, 7)
    x = sparse.SparseTensor.of(torch.zeros(len(coordinates), channels), coordinates, **options)
    if geometry.transposed:
        stride, padding = geometry.stride, geometry.padding
        coarse = x.level.coarser(
            stride,
            kernel_size=geometry.kernel_size,
            dilation=geometry.dilation,
            padding=padding,
        )
        x = sparse.SparseTensor(torch.zeros(coarse.rows, channels), coarse)
    return geometry, x


def run(name, x, features, weight, bias, groups=1, layout="minuet"):
    geometry = GEOMETRIES[name]
    is_within = geometry.is_within
    return F.convolution(
        sparse.SparseTensor(features, x.level), weight, bias, **geometry.arguments, groups=groups, layout=layout,
        submanifold=is_within, transposed=geometry.transposed,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_convolution(generator, name, groups, dtype):
    inputs, outputs = 8, 16
    coordinates = cloud(generator, GEOMETRIES[name])
    geometry, x = prepare(name, coordinates, inputs)
    features = normal(generator, x.level.rows, inputs).to(dtype).requires_grad_()
    volume = len(geometry.offsets())
    weight = (normal(generator, volume, inputs // groups, outputs) / 4).to(dtype).float().requires_grad_()
    bias = normal(generator, outputs).requires_grad_()
    y = run(name, x, features, weight, bias, groups)
    gradient = normal(generator, *y.features.shape).to(dtype)
    y.features.backward(gradient)

    fine = rows(coordinates)
    coarse_level = x.level if geometry.transposed else y.level
    coarse = rows(coarse_level.coordinates)
    assert set(coarse) == geometry.coarse(fine)
    assert len(set(coarse)) == len(coarse)
    pairs = geometry.pairs(fine, coarse)
    wide = [given.detach().double().requires_grad_() for given in (features, weight, bias)]
    expected = double_of(pairs, wide[0], spread(wide[1], groups), y.level.rows) + wide[2]
    expected.backward(gradient.double())
    expect_close(y.features, expected, dtype)
    assert y.features.dtype == dtype
    for got, want in zip((features, weight, bias), wide, strict=True):
        expect_close(got.grad, want.grad, dtype)
        assert got.grad.dtype == got.dtype


@pytest.mark.parametrize("name", GEOMETRIES)
def test_capacity_mode_has_the_same_bits(generator, name):
    """Rows past the count are NaN in inputs and gradients, and zero in results."""
    coordinates = cloud(generator, GEOMETRIES[name])
    results = []
    drawn = None
    for capacity in (False, True):
        geometry, x = prepare(name, coordinates, 8, capacity)
        used = int(x.level.count) if capacity else x.level.rows
        if drawn is None:
            volume = len(geometry.offsets())
            drawn = (
                normal(generator, used, 8),
                normal(generator, volume, 8, 16),
                normal(generator, 16),
            )
        features = padded(drawn[0], x.level.rows - used, torch.nan).requires_grad_()
        weight, bias = (given.clone().requires_grad_() for given in drawn[1:])
        y = run(name, x, features, weight, bias)
        out_used = int(y.level.count) if capacity else y.level.rows
        gradient = torch.from_numpy(np.random.default_rng(3).normal(size=(out_used, 16)).astype(np.float32))
        y.features.backward(padded(gradient, y.level.rows - out_used, torch.nan))
        if capacity:
            assert not int(y.geometry.status())
            assert y.level.rows > out_used
        assert not y.features[out_used:].any()
        assert not features.grad[used:].any()
        cells = y.level.coordinates[:out_used]
        results.append((y.features[:out_used], cells, features.grad[:used], weight.grad, bias.grad))
    for exact, fixed in zip(*results, strict=True):
        assert torch.equal(exact, fixed)


@pytest.mark.parametrize("name", ["submanifold", "reached within", "reached plane", "inverse"])
def test_spconv_layout(generator, name):
    """The gradient has the parameter's layout and dtype."""
    geometry, x = prepare(name, cloud(generator, GEOMETRIES[name]), 4)
    features = normal(generator, x.level.rows, 4)
    weight = normal(generator, 8, *geometry.kernel_size, 4)
    ours = weight.permute(*range(1, weight.dim()), 0).reshape(-1, 4, 8)
    results = []
    for given, layout in (
        (weight, "spconv"),
        (ours, "minuet"),
        (weight.half(), "spconv"),
    ):
        given = given.clone().requires_grad_()
        y = run(name, x, features, given, None, layout=layout)
        y.features.square().sum().backward()
        assert given.grad.dtype == given.dtype
        results.append((y.features, given.grad))
    assert torch.equal(results[0][0], results[1][0])
    turned = results[0][1].permute(*range(1, weight.dim()), 0).reshape(-1, 4, 8)
    assert torch.equal(turned, results[1][1])
    expect_close(results[2][1], results[0][1], torch.float16)


@pytest.mark.parametrize(("name", "stride", "padding"), [("reached", 2, 1), ("all", 1, 1), ("none", 2, 0)])
def test_against_a_dense_convolution(generator, name, stride, padding):
    shape, batch = (7, 6, 5), 2
    geometry = GEOMETRIES["reached within"]
    coordinates = cloud(generator, geometry, 70)
    coordinates = coordinates[(coordinates[:, 1:] < torch.tensor(shape)).all(1)].contiguous()
    features = normal(generator, len(coordinates), 3).requires_grad_()
    weight = normal(generator, 5, 3, 3, 3, 3).requires_grad_()
    x = sparse.SparseTensor.of(features, coordinates, shape=shape, batch_size=batch)
    y = F.convolution(
        x,
        weight.permute(0, 2, 3, 4, 1).contiguous(),
        kernel_size=3,
        stride=stride,
        padding=padding,
        layout="spconv",
    )
    wide, kernel = (
        features.detach().double().requires_grad_(),
        weight.detach().double().requires_grad_(),
    )
    at = tuple(coordinates.long().T)
    dense = torch.zeros(batch, *shape, 3, dtype=torch.float64).index_put(at, wide).movedim(-1, 1)
    expected = torch.nn.functional.conv3d(dense, kernel, stride=stride, padding=padding)
    assert y.level.shape == tuple(expected.shape[2:])
    got = F.to_dense(y)
    expect_close(got, expected, torch.float32)
    gradient = normal(generator, *got.shape)
    got.backward(gradient)
    # Cells that no input reaches have no voxel, and their outputs are 0 in both.
    expected.backward(gradient.double())
    expect_close(features.grad, wide.grad, torch.float32)
    expect_close(weight.grad, kernel.grad, torch.float32)
    assert name


@pytest.mark.parametrize("name", ["submanifold", "down", "up", "reached"])
def test_finite_differences(generator, name):
    """The gradients are those of the function itself: a step along them changes it by their product."""
    geometry, x = prepare(name, cloud(generator, GEOMETRIES[name], 20), 2)
    features = normal(generator, x.level.rows, 2).requires_grad_()
    weight = normal(generator, len(geometry.offsets()), 2, 3).requires_grad_()

    def loss(a, b):
        return run(name, x, a, b, None).features.double().pow(2).sum()

    gradients = torch.autograd.grad(loss(features, weight), (features, weight))
    for place, gradient in enumerate(gradients):
        step = 1e-3 * gradient / gradient.norm()
        moved = [[features, weight], [features, weight]]
        moved[0][place], moved[1][place] = (
            moved[0][place] + step,
            moved[1][place] - step,
        )
        with torch.no_grad():
            slope = (loss(*moved[0]) - loss(*moved[1])) / 2
        expected = (gradient.double() * step).sum()
        assert abs(slope - expected) <= 2e-3 * abs(expected)


def test_without_rows_and_with_one(generator):
    weight = normal(generator, 27, 4, 8).requires_grad_()
    for count in (0, 1):
        coordinates = torch.zeros(count, 4, dtype=torch.int32)
        features = normal(generator, count, 4).requires_grad_()
        x = sparse.SparseTensor.of(features, coordinates)
        y = F.convolution(x, weight, kernel_size=3, submanifold=True)
        z = F.convolution(y, normal(generator, 8, 8, 4), kernel_size=2, stride=2)
        z.features.sum().backward()
        assert z.features.shape == (count, 4)
        assert features.grad.shape == (count, 4)
        assert weight.grad.isfinite().all()
        assert bool(weight.grad.any()) == (count == 1)


def test_maps_and_levels_are_shared(generator):
    x = sparse.SparseTensor.of(normal(generator, 60, 4), cloud(generator, GEOMETRIES["submanifold"]))
    weight = normal(generator, 27, 4, 4).requires_grad_()
    with torch.no_grad():
        y = F.convolution(x, weight, kernel_size=3, submanifold=True)
    made = next(iter(x.level._maps.values()))
    assert made.built.purposes == int(minuet.Purpose.CONVOLUTION)
    F.convolution(y, weight, kernel_size=3, submanifold=True)
    assert len(x.level._maps) == 1
    assert made.built.purposes & int(minuet.Purpose.EXPORT)
    pairs = made.pairs()[0]
    F.convolution(y, weight, kernel_size=3, submanifold=True)
    assert made.pairs()[0] is pairs
    down = F.convolution(y, normal(generator, 8, 4, 4), kernel_size=2, stride=2)
    assert F.pooling(y, "max", kernel_size=2).level is down.level
    assert F.convolution(down, normal(generator, 8, 4, 4), kernel_size=2, stride=2, transposed=True).level is x.level


def test_memory_goes_with_the_last_tensor(generator):
    """Buffers do not wait for Python to look for cycles."""
    gc.collect()
    gc.disable()
    try:
        coordinates = cloud(generator, GEOMETRIES["submanifold"])
        features, weight = normal(generator, 60, 4), normal(generator, 8, 4, 4).requires_grad_()
        x = sparse.SparseTensor.of(features, coordinates)
        y = F.convolution(x, weight, kernel_size=2, submanifold=True)
        y = F.convolution(F.convolution(y, weight, kernel_size=2, stride=2), weight, kernel_size=2, submanifold=True)
        z = F.convolution(y, weight, kernel_size=2, stride=2, transposed=True)
        z.features.sum().backward()
        maps = [item for tensor in (x, y) for item in tensor.level._maps.values()]
        held = [
            weakref.ref(item) for item in (x.level, y.level, x.geometry, *maps, *[item.built.buffer for item in maps])
        ]
        assert len(maps) == 3
        maps.clear()
        assert z.level is x.level
        assert all(reference() is not None for reference in held)
        del x, y, z
        assert all(reference() is None for reference in held)
    finally:
        gc.enable()


def test_a_level_that_went_is_made_again(generator):
    coordinates, features = cloud(generator, GEOMETRIES["submanifold"]), normal(generator, 60, 4)
    weight = normal(generator, 27, 4, 4)
    for capacities in (None, [100]):
        x = sparse.SparseTensor.of(features, coordinates, capacities=capacities)
        first = F.convolution(x, weight, kernel_size=3, stride=2).features
        second = F.convolution(x, weight, kernel_size=3, stride=2).features
        assert torch.equal(first, second)


def test_memory_past_the_rows_is_not_read(generator):
    """In exact mode the features have fewer rows than the pyramid, and may be the end of their memory."""
    coordinates = cloud(generator, GEOMETRIES["submanifold"], 50)
    weight, drawn = normal(generator, 27, 16, 16), normal(generator, 50, 16)
    # The whole pyramid's rows are there, and garbage; or they are not there at all.
    expected = None
    for value in (0.0, torch.nan):
        features = padded(drawn, 30, value)[:50]
        x = sparse.SparseTensor.of(features, coordinates)
        assert x.level.capacity > 50
        y = F.convolution(x, weight, kernel_size=3, submanifold=True).features
        expected = y if expected is None else expected
        assert torch.equal(y, expected)
        assert y.isfinite().all()


@pytest.mark.parametrize("capacities", [None, [90]])
@pytest.mark.parametrize("offset", [(0, 0, 0), (1, 0, -1)])
def test_one_offset_within_a_level(generator, offset, capacities):
    """Rows are paired with themselves only where it is zero, also in the gradients."""
    cells = torch.cartesian_prod(torch.arange(1), *[torch.arange(4)] * 3).to(torch.int32)
    coordinates = cells[torch.as_tensor(generator.permutation(64)[:50])]
    features, weight = normal(generator, 50, 4).requires_grad_(), normal(generator, 1, 4, 6).requires_grad_()
    x = sparse.SparseTensor.of(features, coordinates, capacities=capacities)
    y = F.convolution(x, weight, offsets=[offset], submanifold=True)
    assert y.level is x.level
    out = normal(generator, 50, 6)
    (y.features[:50] * out).sum().backward()
    row_of = {tuple(point): row for row, point in enumerate(coordinates.tolist())}
    moved = [(batch, *np.add(point, offset).tolist()) for batch, *point in coordinates.tolist()]
    sources = [row_of.get(point) for point in moved]
    pairs = torch.tensor([(source, row) for row, source in enumerate(sources) if source is not None])
    assert 0 < len(pairs) <= 50
    wide, wide_weight = (tensor.detach().double().requires_grad_() for tensor in (features, weight))
    expected = torch.zeros(50, 6, dtype=torch.double).index_add(0, pairs[:, 1], wide[pairs[:, 0]] @ wide_weight[0])
    (expected * out).sum().backward()
    torch.testing.assert_close(y.features[:50].double(), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(features.grad.double(), wide.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(weight.grad.double(), wide_weight.grad, rtol=1e-4, atol=1e-4)
