"""Wrong arguments, and what goes on behind an error, in threads, and under modes of torch."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import minuet  # noqa: E402
import minuet.torch as sparse  # noqa: E402
import minuet.torch.spconv as spconv  # noqa: E402
from minuet.torch import _norms, _pyramids  # noqa: E402
from minuet.torch import functional as F  # noqa: E402, N812
from minuet.torch._places import new_cache  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_problems import GEOMETRIES, cloud, expect_close, normal  # noqa: E402


@pytest.fixture
def coordinates(generator):
    return cloud(generator, GEOMETRIES["submanifold"], 40)


def convolve(x, weight, **options):
    return F.convolution(x, weight, kernel_size=3, submanifold=True, **options)


def test_a_call_after_an_error_raises_it_again(generator, coordinates):
    twice = torch.cat([coordinates, coordinates[:1]])
    x = sparse.SparseTensor.of(normal(generator, 41, 4), twice)
    weight, strided = normal(generator, 27, 4, 4), normal(generator, 8, 4, 4)
    wanted = rf"more than once; row \d+ is {re.escape(str(coordinates[0].tolist()))}"
    for _ in range(2):
        with pytest.raises(ValueError, match=wanted):
            convolve(x, weight)
        with pytest.raises(ValueError, match="more than once"):
            F.convolution(x, strided, kernel_size=2, stride=2)
        assert not x.level._maps
        assert not x.level._children


def test_errors_of_coordinates_say_why(generator, coordinates):
    weight = normal(generator, 27, 4, 4)
    outside = sparse.Geometry(coordinates, bounds=((0, -3, -3, -3), (1, 2, 2, 1)))
    with pytest.raises(ValueError, match=r"outside of the bounds \(\(0, -3, -3, -3\), \(1, 2, 2, 1\)\); row"):
        convolve(sparse.SparseTensor(normal(generator, 40, 4), outside.level), weight)
    negative = coordinates - torch.tensor([1, 0, 0, 0], dtype=torch.int32)
    with pytest.raises(ValueError, match=r"negative; row \d+ is \[-1,"):
        convolve(sparse.SparseTensor.of(normal(generator, 40, 4), negative), weight)
    with pytest.raises(ValueError, match="1 to 16777216 cells"):
        sparse.Geometry(coordinates, shape=(2**25, 4, 4))
    with pytest.raises(TypeError, match=r"such as \[100\]"):
        sparse.Geometry(coordinates, capacities=100)
    with pytest.raises(ValueError, match="belongs to capacity mode"):
        sparse.Geometry(coordinates, count=torch.tensor([3], dtype=torch.int32))


@pytest.mark.parametrize(
    ("ndim", "at"), [(4, [0, 16382] * 2 + [0]), (4, [3] + [2**30] * 4), (3, [8192, 6, 6, 6]), (3, [2**30] * 4)]
)
def test_coordinates_out_of_the_default_range(generator, ndim, at):
    """They give what those near the origin do, whichever op comes first. Steps are even, for the stride."""
    drawn = torch.from_numpy(generator.integers(-3, 3, (200, ndim)).astype(np.int32))
    near = torch.nn.functional.pad(torch.unique(drawn, dim=0), (1, 0))
    small, large, strided = (normal(generator, size**ndim, 4, 4) for size in (1, 3, 2))
    features = normal(generator, len(near), 4)

    def run(coordinates, order):
        x = sparse.SparseTensor.of(features, coordinates)
        ops = (
            lambda: F.convolution(x, small, submanifold=True),
            lambda: convolve(x, large),
            lambda: F.convolution(x, strided, kernel_size=2, stride=2),
        )
        made = {number: ops[number]() for number in order}
        back = F.convolution(made[2], strided, kernel_size=2, stride=2, transposed=True)
        return [made[0].features, made[1].features, back.features]

    far = near + torch.tensor(at, dtype=torch.int32)
    for order in ((0, 1, 2), (1, 2, 0), (2, 1, 0)):
        for found, wanted in zip(run(far, order), run(near, order), strict=True):
            expect_close(found, wanted, torch.float32)


def test_coordinates_far_apart_on_few_axes(generator):
    """The range of one axis may be larger than the shapes that the library takes."""
    ends = torch.tensor([[0, -(2**30), 5], [0, 1 - 2**30, 5], [0, 2**31 - 9, 7]], dtype=torch.int32)
    features, weight = normal(generator, 3, 4), normal(generator, 3, 4, 4)
    made = F.convolution(
        sparse.SparseTensor.of(features, ends), weight, offsets=[(-1, 0), (0, 0), (1, 0)], submanifold=True
    )
    wanted = features @ weight[1]
    wanted[0] += features[1] @ weight[2]
    wanted[1] += features[0] @ weight[0]
    expect_close(made.features, wanted, torch.float32)


def test_coordinates_too_far_apart():
    ends = torch.tensor([[0, 0, 0, 0, 0], [9, *[2**30] * 4]], dtype=torch.int32)
    x = sparse.SparseTensor.of(torch.ones(2, 4), ends)
    for _ in range(2):
        with pytest.raises(minuet.OutOfRangeError, match=r"more than a 64-bit key can hold .*: use larger voxels"):
            F.convolution(x, torch.ones(81, 4, 4), kernel_size=3, submanifold=True)


@pytest.mark.parametrize("columns", [1, 6])
def test_coordinates_of_too_few_and_too_many_axes(columns):
    with pytest.raises(ValueError, match=f"{columns} columns: the batch index and 1 to 4 axes are needed"):
        sparse.SparseTensor.of(torch.ones(3, 4), torch.zeros(3, columns, dtype=torch.int32))


@pytest.mark.parametrize("wrong", [0, -1, (1, 0, 1)])
def test_numbers_below_1(generator, coordinates, wrong):
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates)
    weight = normal(generator, 27, 4, 4)
    for name in ("kernel_size", "stride", "dilation"):
        for op in (lambda **options: F.convolution(x, weight, **options), lambda **options: F.pooling(x, **options)):
            for more in ({}, {"padding": 1}):
                with pytest.raises(ValueError, match=rf"{name} is .*, and each number must be 1 or more"):
                    op(**{"kernel_size": 3, name: wrong, **more})
    with pytest.raises(ValueError, match="stride is"):
        x.level.coarser(wrong)
    if isinstance(wrong, int):
        with pytest.raises(ValueError, match=f"groups is {wrong}, and must be 1 or more"):
            convolve(x, weight, groups=wrong)


def test_an_eps_of_0_in_training(generator, coordinates):
    """The library takes 0 as its default. Behind the training, torch takes 0, and so do the ops."""
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates)
    y = spconv.SparseConvTensor(x.features, coordinates - coordinates.amin(0), [20] * 3, 9)
    norm = sparse.BatchNorm(4, eps=0.0)
    sequence = spconv.SparseSequential(torch.nn.BatchNorm1d(4, eps=0.0))
    unit = spconv.SparseSequential(spconv.SubMConv3d(4, 4, 1), torch.nn.BatchNorm1d(4, eps=0.0))
    for call in (lambda: F.batch_norm(x, eps=0.0), lambda: norm(x), lambda: sequence(y), lambda: unit(y)):
        with pytest.raises(ValueError, match=r"eps is 0\.0, and it must be above 0"):
            call()
    assert torch.equal(norm.eval()(x).features, x.features)


POINTS = torch.tensor([[0.1, 0.1, 0.1, 5.0], [0.9, 0.1, 0.1, 7.0]])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"voxel_size": 0.5}, TypeError, "voxel_size is 0.5: give a list with one number for each axis"),
        ({"voxel_size": [0.5] * 5}, ValueError, "voxel_size has 5 numbers: one for each of 1 to 4 axes"),
        ({"voxel_size": []}, ValueError, "voxel_size has 0 numbers"),
        ({"low": [0.0, 0.0]}, ValueError, "low has 2 numbers, and there are 3 axes"),
        ({"high": [1.0] * 4}, ValueError, "high has 4 numbers, and there are 3 axes"),
        ({"points": POINTS[0]}, ValueError, r"points have the shape \[4\], and \[points, columns\] is needed"),
        ({"feature": "max"}, ValueError, "feature is 'max', and one of minuet.PointFeature.MEAN, "),
    ],
)
def test_wrong_arguments_of_voxelize(options, error, message):
    with pytest.raises(error, match=message):
        F.voxelize(**{"points": POINTS, "voxel_size": [0.5] * 3, **options})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"voxel_size": 1.0}, TypeError, "voxel_size is 1.0: give a list with one number for each axis"),
        ({"voxel_size": [1.0, 1.0]}, ValueError, "voxel_size has 2 numbers, and there are 3 axes"),
        ({"low": [0.0] * 4}, ValueError, "low has 4 numbers, and there are 3 axes"),
        ({"points": POINTS[0]}, ValueError, r"points have the shape \[4\], and \[points, columns\] is needed"),
        ({"blend": "centres"}, ValueError, "blend is 'centres', and one of minuet.PointBlend.NEAREST, "),
    ],
)
def test_wrong_arguments_of_devoxelize(coordinates, options, error, message):
    x = sparse.SparseTensor.of(torch.ones(40, 4), coordinates)
    with pytest.raises(error, match=message):
        F.devoxelize(**{"x": x, "points": POINTS[:, :3], "voxel_size": [1.0] * 3, **options})


def test_numbers_of_axes_in_arrays(coordinates):
    x = sparse.SparseTensor.of(torch.ones(40, 4), coordinates)
    sizes, low, high = [0.5] * 3, [-1.0] * 3, [0.5] * 3
    wanted = F.voxelize(POINTS, sizes, low=low, high=high)
    values = F.devoxelize(x, POINTS[:, :3], sizes, low=low)
    for kind in (np.array, torch.tensor, tuple):
        made = F.voxelize(POINTS, kind(sizes), low=kind(low), high=kind(high))
        assert torch.equal(made.coordinates, wanted.coordinates)
        assert torch.equal(F.devoxelize(x, POINTS[:, :3], kind(sizes), low=kind(low)), values)


def test_threads_on_one_fresh_tensor(generator, coordinates):
    features = normal(generator, 40, 4)
    weights = [normal(generator, 27, 4, 4), normal(generator, 8, 4, 4)]

    def run(x):
        a, b = (weight.clone().requires_grad_() for weight in weights)
        y = F.convolution(convolve(x, a), b, kernel_size=2, stride=2)
        y.features.square().sum().backward()
        return y.features.detach(), a.grad, b.grad, y.level.coordinates

    expected = run(sparse.SparseTensor.of(features, coordinates))
    for _ in range(10):
        x = sparse.SparseTensor.of(features, coordinates)
        results = []
        threads = [threading.Thread(target=lambda x=x, results=results: results.append(run(x))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 4
        assert all(torch.equal(one, two) for got in results for one, two in zip(got, expected, strict=True))


def test_wrong_parameters(generator, coordinates):
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates)
    weight = normal(generator, 27, 4, 8)
    convolve(x, weight, bias=normal(generator, 8))
    for length in (7, 9, 0):
        with pytest.raises(ValueError, match=rf"bias has the shape \[{length}\]"):
            convolve(x, weight, bias=normal(generator, length))
    with pytest.raises(TypeError, match=r"weight is torch\.int64"):
        convolve(x, weight.long())
    with pytest.raises(TypeError, match=r"bias is torch\.int32"):
        convolve(x, weight, bias=torch.zeros(8, dtype=torch.int32))
    with pytest.raises(ValueError, match="one device"):
        convolve(x, weight.to("meta"))
    with pytest.raises(ValueError, match="one device"):
        convolve(x, weight, bias=torch.zeros(8, device="meta"))
    with pytest.raises(ValueError, match="one device"):
        F.batch_norm(x, torch.zeros(4, device="meta"))
    with pytest.raises(ValueError, match="4 channels"):
        sparse.BatchNorm(5, affine=False)(x)


def test_sizes_of_other_types(generator, coordinates):
    """What is kept of a convolution's arguments is theirs alone: not that of equal ones of another type, and not that
    of an array before it changed."""
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates)
    weight, pointwise = normal(generator, 27, 4, 4), normal(generator, 1, 4, 4)
    wanted = convolve(x, weight).features
    for size in ([3, 3, 3], (3, 3, 3), torch.full((3,), 3), np.full(3, 3), np.int64(3)):
        assert torch.equal(F.convolution(x, weight, kernel_size=size, submanifold=True).features, wanted)
    for size in (3.0, [3.0, 3, 3], (3, 3, 3.0)):
        with pytest.raises(TypeError, match="kernel_size"):
            F.convolution(x, weight, kernel_size=size, submanifold=True)
    sizes = torch.full((3,), 3)
    F.convolution(x, weight, kernel_size=sizes, submanifold=True)
    sizes.fill_(1)
    made = F.convolution(x, pointwise, kernel_size=sizes, submanifold=True)
    assert torch.equal(made.features, F.convolution(x, pointwise, submanifold=True).features)


def test_wrong_numbers_of_batches(generator, coordinates):
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates)
    mean, variance = torch.zeros(4), torch.ones(4)
    for momentum in (None, 0.1, 0.0):
        for batches in (
            torch.tensor([3.0]),
            torch.tensor([3], dtype=torch.int32),
            torch.tensor(3),
            torch.tensor([3, 4]),
        ):
            with pytest.raises(ValueError, match=r"batches is torch\..*, and int64 \[1\] is needed"):
                F.batch_norm(x, None, None, mean, variance, momentum=momentum, batches=batches)
        _, kept = F.batch_norm(x, None, None, mean, variance, momentum=momentum, batches=torch.tensor([3]))
        assert kept.batches.tolist() == [4]


def test_a_norm_forgets_tensors_of_the_call_before():
    """The next call of a block may be without one of them, whose memory may be gone."""
    kind = _norms._FORWARD
    block = _norms.Block(kind, ["input", "output", "residual"], _norms._abi.minuet_tensor(None, 0, 4, 4, 0))
    places = _norms._tensor_words(kind, "input", "output", "residual")
    features = torch.zeros(7, 4)
    block.set_tensors(places, (features, features, features), 7)
    assert [block.words[word] for place in places for word in place] == [features.data_ptr(), 7] * 3
    block.set_tensors(places, (features, features, None), 7)
    assert [block.words[word] for word in places[2]] == [0, 0]


def test_another_default_dtype(generator, coordinates):
    x = sparse.SparseTensor.of(normal(generator, 40, 3), coordinates)
    weight, bias = normal(generator, 27, 3, 11), normal(generator, 11)
    try:
        torch.set_default_dtype(torch.float64)
        got = convolve(x, weight, bias=bias).features
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(got, convolve(x, weight, bias=bias).features)
    expect_close(got - bias, convolve(x, weight).features, torch.float32)


def test_global_pooling_of_bad_coordinates(generator, coordinates):
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates)
    with pytest.raises(ValueError, match="pooling of 1 clouds"):
        F.global_pooling(x, "sum", batch_size=1)
    fixed = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates, capacities=[])
    F.global_pooling(fixed, "sum", batch_size=2)
    assert not int(fixed.geometry.status())
    F.global_pooling(fixed, "sum", batch_size=1)
    assert int(fixed.geometry.status())


def test_geometries_beside_each_other_count_together(generator, coordinates):
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates, capacities=[50, 60, 70])
    assert x.level.coarser(2).rows == 50
    beside = sparse.Geometry.beside(x.level, x.coordinates * 2, None)
    assert beside.level.coarser(2).rows == 60
    kept = x.level.coarser(4)
    assert kept.rows == 70
    with pytest.raises(ValueError, match="3 numbers"):
        beside.level.coarser(8)
    assert beside.status() is not None
    assert int(beside.status()) == int(x.geometry.status()) == 0


@pytest.mark.parametrize("count", [0, 40])
def test_results_may_be_changed_in_place(generator, coordinates, count):
    weight = normal(generator, 27, 4, 4).requires_grad_()
    x = sparse.SparseTensor.of(normal(generator, count, 4), coordinates[:count])
    for op in (lambda: convolve(x, weight), lambda: F.pooling(convolve(x, weight), "max", kernel_size=2)):
        weight.grad = None
        y = op()
        assert y.features._base is None
        assert y.level.capacity > y.level.rows
        y.features.mul_(2)
        torch.relu_(y.features)
        y.features.sum().backward()
        got = weight.grad.clone()
        weight.grad = None
        (torch.relu(op().features) * 2).sum().backward()
        assert torch.equal(got, weight.grad)


def test_checkpointing_with_batch_norms(generator, coordinates):
    norm, weight = sparse.BatchNorm(4, relu=True), normal(generator, 27, 4, 4).requires_grad_()
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates)
    results = []
    for is_checkpointed in (False, True):

        def block(features):
            y = norm(convolve(x.replace(features), weight), x)
            return y.features

        features = x.features.clone().requires_grad_()
        given = (block, features)
        output = checkpoint(*given, use_reentrant=False) if is_checkpointed else block(features)
        results.append(torch.autograd.grad(output.square().sum(), [features, weight, norm.weight, norm.bias]))
    assert all(torch.equal(one, two) for one, two in zip(*results, strict=True))


def test_levels_of_inference_serve_training(generator, coordinates):
    weight, strided = normal(generator, 27, 4, 4).requires_grad_(), normal(generator, 8, 4, 4).requires_grad_()

    def run(x):
        y = F.convolution(convolve(x, weight), strided, kernel_size=2, stride=2)
        return F.convolution(y, strided, kernel_size=2, stride=2, transposed=True)

    for capacities in (None, [50]):
        x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates, capacities=capacities)
        with torch.inference_mode():
            kept = run(x)
        y = run(x)
        assert kept.level is y.level
        assert torch.equal(kept.features, y.features)
        y.features.square().sum().backward()
        assert weight.grad.isfinite().all()


def test_shapes_that_differ_share_pyramids(generator, coordinates):
    """In exact mode, a shape that no voxel passes makes no pyramid of its own; one that does limits the voxels."""
    coordinates = coordinates + torch.tensor([0, 3, 3, 3], dtype=torch.int32)
    weight = normal(generator, 27, 4, 4)
    features = normal(generator, 40, 4)

    def run(length):
        x = sparse.SparseTensor.of(features, coordinates, shape=(length, length, length))
        return F.convolution(x, weight, kernel_size=3, stride=1, padding=1)

    wanted = run(50)
    before = set(_pyramids._pyramids)
    for length in range(51, 60):
        assert torch.equal(run(length).features, wanted.features)
    assert set(_pyramids._pyramids) == before
    narrow = run(6)
    assert narrow.level.shape == (6, 6, 6)
    assert int(narrow.level.coordinates[:, 1:].max()) < 6
    assert int(wanted.level.coordinates[:, 1:].max()) == 6


def test_a_cache_drops_what_was_not_used_for_longest():
    cache = new_cache(2)
    cache["a"], cache["b"] = 1, 2
    assert cache.get("a") == 1
    cache["c"] = 3
    assert list(cache) == ["a", "c"]
    assert cache.get("b") is None


def test_batch_norm_without_momentum(generator, coordinates):
    ours, theirs = sparse.BatchNorm(4, momentum=0.0), torch.nn.BatchNorm1d(4, momentum=0.0)
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates)
    expect_close(ours(x).features, theirs(x.features), torch.float32)
    for name, value in ours.state_dict().items():
        assert torch.equal(value, theirs.state_dict()[name]), name


def test_gather_rows_out_of_range(generator):
    features = normal(generator, 5, 3)
    got = F.gather_rows(features, torch.tensor([4, 5, -1, 0], dtype=torch.int32))
    assert torch.equal(got, torch.stack([features[4], torch.zeros(3), torch.zeros(3), features[0]]))


def test_many_pyramids(generator, monkeypatch):
    """A run keeps its pyramid, and one that was dropped is made again."""
    _pyramids._pyramids.clear()  # Those of other tests may be the ones of this test.
    monkeypatch.setattr(_pyramids._pyramids, "_limit", 3)
    weight = normal(generator, 27, 4, 4).requires_grad_()
    for _ in range(2):
        for count in (10, 70, 80, 90, 100):
            line = torch.zeros(count, 4, dtype=torch.int32)
            line[:, 1] = torch.arange(count)
            x = sparse.SparseTensor.of(normal(generator, count, 4), line)
            convolve(x, weight).features.sum().backward()
    assert len(_pyramids._pyramids) == 3


def test_a_transposed_op_without_a_way_back(generator, coordinates):
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates)
    weight, options = normal(generator, 8, 4, 4), {"kernel_size": 2, "stride": 2}
    with pytest.raises(ValueError, match="this one is the first level: run an op with a stride before"):
        F.convolution(x, weight, transposed=True, **options)
    down = F.convolution(x, weight, **options)
    other = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates)
    with pytest.raises(ValueError, match="`to` is another one: leave it out"):
        F.convolution(down, weight, transposed=True, to=other.level, **options)
    up = F.convolution(down, weight, transposed=True, to=x.level, **options)
    assert torch.equal(up.features, F.convolution(down, weight, transposed=True, **options).features)
