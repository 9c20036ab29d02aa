"""Poolings, batch norms, rows and dense tensors in PyTorch, against torch in float64."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import minuet  # noqa: E402
import minuet.torch as sparse  # noqa: E402
from minuet.torch import functional as F  # noqa: E402, N812
from torch_problems import (  # noqa: E402
    GEOMETRIES,
    cloud,
    expect_close,
    normal,
    padded,
    poisoned,  # noqa: F401
    rows,
)

POOLED = [
    "submanifold",
    "cross",
    "plane",
    "four",
    "down",
    "mixed",
    "up",
    "reached",
    "reached within",
    "inverse",
]


def tensor_on(name, coordinates, capacity=False):
    """Returns a tensor of one channel on the level that an op of this geometry reads."""
    geometry = GEOMETRIES[name]
    options = {"shape": geometry.shape, "batch_size": 2}
    if capacity:
        options |= {
            "capacities": [1100],
            "count": torch.tensor([len(coordinates)], dtype=torch.int32),
        }
        coordinates = padded(coordinates, 13, 7)
    level = sparse.Geometry(coordinates, **options).level
    if geometry.transposed:
        size, dilation = geometry.kernel_size, geometry.dilation
        level = level.coarser(
            geometry.stride,
            kernel_size=size,
            dilation=dilation,
            padding=geometry.padding,
        )
    return geometry, sparse.SparseTensor(torch.zeros(level.rows, 1), level)


def pooled(pairs, x, out_rows, reduction):
    """The pooling of x in float64, which torch differentiates, and the input row of each maximum."""
    taken = [[pair[1] for pair in pairs if pair[2] == row] for row in range(out_rows)]
    zero = 0 * x.sum(0)
    results = []
    for sources in taken:
        if not sources:
            results.append(zero)
        elif reduction == "max":
            # The first maximum has the gradient, as the lowest offset does.
            results.append(x[sources].gather(0, x[sources].argmax(0, keepdim=True))[0])
        else:
            total = x[sources].sum(0)
            results.append(total / len(sources) if reduction == "average" else total)
    return torch.stack(results)


@pytest.mark.parametrize("reduction", ["max", "average", "sum"])
@pytest.mark.parametrize("name", POOLED)
def test_pooling(generator, name, reduction):
    coordinates = cloud(generator, GEOMETRIES[name], 40)
    results = []
    drawn = gradient = None
    for capacity in (False, True):
        geometry, x = tensor_on(name, coordinates, capacity)
        used = int(x.level.count) if capacity else x.level.rows
        drawn = normal(generator, used, 3) if drawn is None else drawn
        features = padded(drawn, x.level.rows - used, torch.nan).requires_grad_()
        y = F.pooling(
            sparse.SparseTensor(features, x.level), reduction, **geometry.arguments, submanifold=geometry.is_within,
            transposed=geometry.transposed,
        )  # fmt: skip
        out_used = int(y.level.count) if capacity else y.level.rows
        gradient = normal(generator, out_used, 3) if gradient is None else gradient
        y.features.backward(padded(gradient, y.level.rows - out_used, torch.nan))
        assert not y.features[out_used:].any()
        assert not features.grad[used:].any()
        results.append((y.features[:out_used], features.grad[:used]))
        coarse = x.level if geometry.transposed else y.level
        pairs = geometry.pairs(
            rows(coordinates),
            rows(coarse.coordinates[: used if geometry.transposed else out_used]),
        )
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
    wide = drawn.double().requires_grad_()
    expected = pooled(pairs, wide, len(gradient), reduction)
    expected.backward(gradient.double())
    expect_close(results[0][0], expected, torch.float32)
    expect_close(results[0][1], wide.grad, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("has_residual", [False, True])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm(generator, dtype, relu, has_residual, momentum):
    """As torch.nn.BatchNorm1d over the rows in use, with the same state after two batches."""
    ours, theirs = (
        sparse.BatchNorm(6, momentum=momentum, relu=relu),
        torch.nn.BatchNorm1d(6, momentum=momentum),
    )
    with torch.no_grad():
        ours.weight.copy_(normal(generator, 6))
        ours.bias.copy_(normal(generator, 6))
    theirs.load_state_dict(ours.state_dict())
    theirs.double()
    for _ in range(2):
        coordinates = cloud(generator, GEOMETRIES["submanifold"], 50)
        level = sparse.Geometry(
            padded(coordinates, 9),
            capacities=[],
            count=torch.tensor([50], dtype=torch.int32),
        ).level
        x, residual = ((normal(generator, 59, 6) * 2 + 1).to(dtype).requires_grad_() for _ in range(2))
        added = sparse.SparseTensor(residual, level) if has_residual else None
        y = ours(sparse.SparseTensor(x, level), added)
        wide, more = (given.detach()[:50].double().requires_grad_() for given in (x, residual))
        expected = theirs(wide) + (more if has_residual else 0)
        expected = expected.relu() if relu else expected
        expect_close(y.features[:50], expected, dtype)
        assert not y.features[50:].any()
        gradient = normal(generator, 59, 6).to(dtype)
        y.features.backward(gradient)
        expected.backward(gradient[:50].double())
        wanted = [(x, wide), (residual, more)] if has_residual else [(x, wide)]
        for got, want in wanted:
            expect_close(got.grad[:50], want.grad, dtype)
            assert not got.grad[50:].any()
        for got, want in zip(ours.parameters(), theirs.parameters(), strict=True):
            expect_close(got.grad, want.grad, dtype)
            got.grad = want.grad = None
        for name, value in ours.state_dict().items():
            expect_close(value, theirs.state_dict()[name], torch.float32)
    ours.eval()
    theirs.eval()
    y = ours(sparse.SparseTensor(x.detach(), level), added)
    expected = theirs(wide) + (more if has_residual else 0)
    expect_close(y.features[:50], expected.relu() if relu else expected, dtype)
    assert not y.features[50:].any()


def test_batch_norm_of_few_rows(generator):
    norm = sparse.BatchNorm(3)
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    level = sparse.Geometry(
        torch.zeros(4, 4, dtype=torch.int32),
        capacities=[],
        count=torch.tensor([0]).int(),
    ).level
    x = normal(generator, 4, 3)
    assert not norm(sparse.SparseTensor(x, level)).features.any()
    empty = sparse.Geometry(torch.zeros(0, 4, dtype=torch.int32)).level
    assert norm(sparse.SparseTensor(normal(generator, 0, 3), empty)).features.shape == (0, 3)
    for name, value in norm.state_dict().items():
        assert torch.equal(value, before[name]), name
    level = sparse.Geometry(torch.zeros(1, 4, dtype=torch.int32)).level
    with torch.no_grad():
        norm.bias.copy_(normal(generator, 3))
    assert torch.equal(norm(sparse.SparseTensor(x[:1], level)).features[0], norm.bias)


@pytest.mark.parametrize("capacity", [False, True])
def test_dense_and_back(generator, capacity):
    geometry, x = tensor_on("reached within", cloud(generator, GEOMETRIES["reached within"]), capacity)
    used = int(x.level.count) if capacity else x.level.rows
    features = padded(normal(generator, used, 3), x.level.rows - used).requires_grad_()
    x = sparse.SparseTensor(features, x.level)
    dense = F.to_dense(x)
    assert dense.shape == (2, 3, *geometry.shape)
    b, *at = x.level.coordinates[:used].long().T
    assert torch.equal(dense[b, :, at[0], at[1], at[2]], features[:used])
    assert int((dense != 0).sum()) == int((features != 0).sum())
    assert torch.equal(F.to_dense(x, channels_last=True), dense.movedim(1, -1))
    gradient = normal(generator, *dense.shape)
    dense.backward(gradient)
    assert torch.equal(features.grad[:used], gradient[b, :, at[0], at[1], at[2]])
    assert not features.grad[used:].any()

    given = gradient.clone().requires_grad_()
    back = F.from_dense(given, x.level)
    assert torch.equal(back.features[:used], gradient[b, :, at[0], at[1], at[2]])
    assert not back.features[used:].any()
    weights = normal(generator, *back.features.shape)
    back.features.backward(weights)
    assert torch.equal(given.grad, F.to_dense(sparse.SparseTensor(x.level.mask(weights), x.level)))
    # Voxels outside the shape are left out.
    small = F.to_dense(x, shape=(3, 3, 3))
    assert torch.equal(small, dense.detach()[:, :, :3, :3, :3])


@pytest.mark.parametrize("reduction", ["max", "average", "sum"])
@pytest.mark.parametrize("capacity", [False, True])
def test_global_pooling(generator, capacity, reduction):
    coordinates = cloud(generator, GEOMETRIES["submanifold"], 60)
    _, x = tensor_on("submanifold", coordinates, capacity)
    features = padded(normal(generator, 60, 5), x.level.rows - 60, torch.nan).requires_grad_()
    y = F.global_pooling(sparse.SparseTensor(features, x.level), reduction, batch_size=3)
    wide = features.detach()[:60].double().requires_grad_()
    functions = {
        "max": lambda t: t.max(0)[0],
        "average": lambda t: t.mean(0),
        "sum": lambda t: t.sum(0),
    }
    expected = torch.stack([functions[reduction](wide[coordinates[:, 0] == item]) for item in range(2)])
    expect_close(y[:2], expected, torch.float32)
    assert not y[2].any()  # a cloud without voxels
    gradient = normal(generator, 3, 5)
    y.backward(gradient)
    expected.backward(gradient[:2].double())
    expect_close(features.grad[:60], wide.grad, torch.float32)
    assert not features.grad[60:].any()


@pytest.mark.parametrize("capacities", [None, []])
def test_global_pooling_within_declared_bounds(capacities):
    """A cloud may have any coordinates within the bounds of its geometry, and any number of clouds."""
    coordinates = torch.tensor([[0, 2**20, 0, 0], [8500, 0, 1, 1], [0, 2**20, 0, 3]], dtype=torch.int32)
    bounds = ([0, 0, 0, 0], [8999, 2**20, 3, 3])
    geometry = sparse.Geometry(coordinates, bounds=bounds, batch_size=9000, capacities=capacities)
    features = torch.tensor([[1.0], [2.0], [4.0]])
    y = F.global_pooling(sparse.SparseTensor(features, geometry.level), "sum")
    assert geometry.is_exact or not int(geometry.status())
    assert y.nonzero()[:, 0].tolist() == [0, 8500]
    assert y[[0, 8500]].tolist() == [[5.0], [2.0]]


def test_gather_rows(generator):
    features = normal(generator, 9, 4).requires_grad_()
    at = torch.from_numpy(generator.integers(-1, 9, 40).astype(np.int32))
    got = F.gather_rows(features, at)
    wide = features.detach().double().requires_grad_()
    expected = torch.where((at >= 0)[:, None], wide[at.clamp(min=0).long()], 0)
    expect_close(got, expected, torch.float32)
    gradient = normal(generator, 40, 4)
    got.backward(gradient)
    expected.backward(gradient.double())
    expect_close(features.grad, wide.grad, torch.float32)


@pytest.mark.parametrize(
    "feature",
    [minuet.PointFeature.MEAN, minuet.PointFeature.SUM, minuet.PointFeature.MAX],
)
@pytest.mark.parametrize("capacity", [None, 90])
def test_voxels(generator, feature, capacity):
    points = torch.from_numpy(generator.uniform(-1, 2, (80, 5)).astype(np.float32)).requires_grad_()
    batch = torch.from_numpy(generator.integers(0, 2, 80).astype(np.int32))
    size, low, high = [0.5, 0.25, 1.0], [-0.5, -1.0, -1.0], [1.5, 1.0, 2.0]
    voxels = F.voxelize(
        points,
        size,
        low=low,
        high=high,
        batch=batch,
        first_column=2,
        feature=feature,
        batch_size=2,
        capacity=capacity,
    )
    assert not int(voxels.status)
    count = int(voxels.counts[0])
    assert voxels.features.shape == (capacity or count, 3)
    wide = points.detach().double().requires_grad_()
    position = points.detach()[:, :3]
    inside = ((position >= torch.tensor(low)) & (position < torch.tensor(high))).all(1)
    cells = torch.floor((position - torch.tensor(low)) / torch.tensor(size)).int()
    names = rows(torch.cat([batch[:, None], cells], 1))
    order = list(dict.fromkeys(name for name, is_inside in zip(names, inside, strict=True) if is_inside))
    assert rows(voxels.coordinates[:count]) == order
    assert voxels.point_rows.tolist() == [
        order.index(name) if is_inside else -1 for name, is_inside in zip(names, inside, strict=True)
    ]
    expected = []
    for row in range(count):
        members = wide[voxels.point_rows == row, 2:]
        reduced = {
            "MEAN": members.mean(0),
            "SUM": members.sum(0),
            "MAX": members.max(0)[0],
        }
        expected.append(reduced[feature.name])
    expected = torch.stack(expected)
    expect_close(voxels.features[:count], expected, torch.float32)
    assert not voxels.features[count:].any()
    gradient = normal(generator, *voxels.features.shape)
    voxels.features.backward(gradient)
    expected.backward(gradient[:count].double())
    expect_close(points.grad, wide.grad, torch.float32)


@pytest.mark.parametrize("capacity", [False, True])
def test_devoxelize(generator, capacity):
    """Of a linear function of the position, interpolation between voxels on all sides gives the function."""
    coordinates = torch.cartesian_prod(torch.tensor([0]), *[torch.arange(4)] * 3).int()
    options = {}
    if capacity:
        options = {"capacities": [], "count": torch.tensor([len(coordinates)]).int()}
    x = sparse.SparseTensor.of(
        torch.zeros(64 + 5 * capacity, 1),
        padded(coordinates, 5 * capacity, 9),
        **options,
    )
    slope, size = torch.tensor([[1.0], [2.0], [-3.0]]), [0.5, 1.0, 2.0]
    centres = (coordinates[:, 1:] + 0.5) * torch.tensor(size)
    features = padded(centres @ slope, 5 * capacity, torch.nan).requires_grad_()
    points = torch.from_numpy(generator.uniform(0.5, 3.5, (20, 3)).astype(np.float32)) * torch.tensor(size)
    got = F.devoxelize(sparse.SparseTensor(features, x.level), points, size)
    expect_close(got, points @ slope, torch.float32, scale=20)
    got.sum().backward()
    assert features.grad[:64].sum().item() == pytest.approx(20)
    assert not features.grad[64:].any()


def test_single_rows(generator):
    """Functions of single rows keep the rows past the count at zero."""
    coordinates = padded(cloud(generator, GEOMETRIES["submanifold"], 20), 6)
    level = sparse.Geometry(coordinates, capacities=[], count=torch.tensor([20]).int()).level
    x, y = (sparse.SparseTensor(level.mask(normal(generator, 26, 4)), level) for _ in range(2))
    functions = [
        F.relu,
        F.leaky_relu,
        F.gelu,
        F.silu,
        F.tanh,
        F.sigmoid,
        F.layer_norm,
        F.dropout,
    ]
    for function in functions:
        assert not function(x).features[20:].any(), function
    expect_close(
        F.sigmoid(x).features[:20],
        torch.sigmoid(x.features[:20].double()),
        torch.float32,
    )
    assert torch.equal(F.add(x, y).features, x.features + y.features)
    assert torch.equal(F.multiply(x, y).features, x.features * y.features)
    assert F.cat([x, y]).features.shape == (26, 8)
    z = F.linear(x, normal(generator, 3, 4), normal(generator, 3))
    assert not z.features[20:].any()
    assert z.features[:20].any()
    other = sparse.SparseTensor.of(normal(generator, 26, 4), coordinates, capacities=[])
    with pytest.raises(ValueError, match="different levels"):
        F.add(x, other)
