"""Capacities that are learned from clouds."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import minuet.torch as sparse  # noqa: E402
from minuet.torch import functional as F  # noqa: E402, N812
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch_problems import GEOMETRIES, cloud, expect_close, normal  # noqa: E402

SHAPES = [(27, 4, 8), (8, 8, 8), (27, 8, 8), (27, 8, 8), (8, 8, 8), (1, 8, 8)]


class Counter(TorchDispatchMode):
    """Counts calls of ops."""

    def __init__(self):
        super().__init__()
        self.calls = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls[func._opname] = self.calls.get(func._opname, 0) + 1
        return func(*args, **(kwargs or {}))


def network(x, w):
    a = F.convolution(x, w[0], kernel_size=3, submanifold=True)
    b = F.convolution(a, w[1], kernel_size=2, stride=2)
    c = F.convolution(b, w[2], kernel_size=3, stride=2, padding=1)
    d = F.convolution(c, w[3], kernel_size=3, stride=2, padding=1, transposed=True)
    e = F.convolution(F.add(b, d), w[4], kernel_size=2, stride=2, transposed=True)
    return F.convolution(F.add(a, e), w[5], submanifold=True)


def weights(generator):
    return [(normal(generator, *shape) / 4).requires_grad_() for shape in SHAPES]


def run(capacities, features, coordinates, w, function=network):
    """Returns the output, the geometry, and the gradients of the weights."""
    given = features, coordinates, None
    if isinstance(capacities, sparse.Capacities):
        given = capacities.pad(features, coordinates)
    x = sparse.SparseTensor.of(*given[:2], count=given[2], capacities=capacities)
    y = function(x, w)
    gradients = torch.autograd.grad(y.features.square().sum(), w)
    return y, x.geometry, gradients


def test_learns_from_clouds(generator):
    w = weights(generator)
    capacities = sparse.Capacities(factor=1.5, learn=2)
    for count in (40, 90):
        coordinates = cloud(generator, GEOMETRIES["submanifold"], count)
        assert capacities.is_learning
        y, geometry, _ = run(capacities, normal(generator, count, 4), coordinates, w)
        assert geometry.is_exact
        assert capacities.fits(geometry)
    for count in (90, 50, 1, 0):
        coordinates, features = cloud(generator, GEOMETRIES["submanifold"], count), normal(generator, count, 4)
        with Counter() as counter:
            y, geometry, gradients = run(capacities, features, coordinates, w)
        assert counter.calls["pyramid"] == 1
        assert not geometry.is_exact
        assert capacities.fits(geometry)
        sparse.check(geometry)
        sparse.check(y)
        expected, _, wanted = run(None, features, coordinates, w)
        assert torch.equal(y.features[:count], expected.features)
        assert not y.features[count:].any()
        for got, want in zip(gradients, wanted, strict=True):
            assert torch.equal(got, want)


def test_a_cloud_that_does_not_fit_has_no_rows(generator):
    w = weights(generator)
    capacities = sparse.Capacities(factor=1.0)
    # A line has few neighbours and many coarser cells, a block the other way round.
    line = torch.zeros(64, 4, dtype=torch.int32)
    line[:, 3] = torch.arange(64)
    run(capacities, normal(generator, 64, 4), line, w)
    apart = torch.zeros(64, 4, dtype=torch.int32)
    apart[:, 1] = 9 * torch.arange(64)
    features = normal(generator, 64, 4)
    y, geometry, gradients = run(capacities, features, apart, w)
    assert not y.features.any()
    assert not any(gradient.any() for gradient in gradients)
    with pytest.raises(RuntimeError, match="PAST_CAPACITY"):
        sparse.check(y)
    assert not capacities.fits(geometry)
    assert capacities.is_learning
    expected, _, wanted = run(capacities, features, apart, w)
    y, geometry, gradients = run(capacities, features, apart, w)
    assert capacities.fits(geometry)
    assert torch.equal(y.features[:64], expected.features)
    for got, want in zip(gradients, wanted, strict=True):
        assert torch.equal(got, want)
    with pytest.raises(ValueError, match="learn_more"):
        capacities.pad(normal(generator, 5000, 4), torch.zeros(5000, 4, dtype=torch.int32))


def test_a_network_that_makes_other_maps(generator):
    """Maps that were not there while learning are made on demand, and levels are refused."""
    w = weights(generator)
    capacities = sparse.Capacities()
    coordinates, features = cloud(generator, GEOMETRIES["submanifold"], 60), normal(generator, 60, 4)
    x = sparse.SparseTensor.of(features, coordinates, capacities=capacities)
    with torch.no_grad():
        network(x, w)  # which learns no maps for gradients
    y, geometry, gradients = run(capacities, features, coordinates, w)
    assert capacities.fits(geometry)
    expected, _, wanted = run(None, features, coordinates, w)
    assert torch.equal(y.features[:60], expected.features)
    for got, want in zip(gradients, wanted, strict=True):
        assert torch.equal(got, want)
    with pytest.raises(ValueError, match="learn_more"):
        F.pooling(y, "max", kernel_size=3)
    with pytest.raises(ValueError, match="at least 1"):
        sparse.Capacities(factor=0.5)


def test_compile(generator):
    torch._dynamo.reset()
    w = weights(generator)
    capacities = sparse.Capacities()
    run(capacities, normal(generator, 90, 4), cloud(generator, GEOMETRIES["submanifold"], 90), w)

    def step(features, coordinates, count, values):
        x = sparse.SparseTensor.of(features, coordinates, count=count, capacities=capacities)
        y = network(x, values)
        return y.features, x.geometry.status()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for number, count in enumerate((90, 60)):
        given = capacities.pad(normal(generator, count, 4), cloud(generator, GEOMETRIES["submanifold"], count))
        with torch._dynamo.config.patch(error_on_recompile=number > 0):
            got = compiled(*given, w)
        want = step(*given, w)
        assert not int(got[1])
        expect_close(got[0], want[0], torch.float32)
        for one, two in zip(torch.autograd.grad(got[0].sum(), w), torch.autograd.grad(want[0].sum(), w), strict=True):
            expect_close(one, two, torch.float32)


def test_bounds(generator):
    """Bounds of the first level follow to the coarser ones, and coordinates outside are an error."""
    w = weights(generator)
    coordinates, features = cloud(generator, GEOMETRIES["submanifold"], 60), normal(generator, 60, 4)
    results = []
    for bounds in (None, ((0, -3, -3, -3), (1, 2, 2, 2))):
        for capacities in (None, [200, 400]):
            geometry = sparse.Geometry(coordinates, bounds=bounds, capacities=capacities)
            y = network(sparse.SparseTensor(features, geometry.level), w)
            assert not int(geometry.status())
            results.append(y.features)
    assert all(torch.equal(result, results[0]) for result in results)
    narrow = sparse.Geometry(coordinates, bounds=((0, -3, -3, -3), (1, 1, 2, 2)))
    with pytest.raises(ValueError, match="OUT_OF_BOUNDS"):
        network(sparse.SparseTensor(features, narrow.level), w)
