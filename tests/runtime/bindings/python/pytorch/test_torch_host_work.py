"""What the host does for an op, beside the op itself: pyramids that are built, numbers that are read, and copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import minuet.torch as sparse  # noqa: E402
from minuet.torch import _convolutions, _geometry, _poolings  # noqa: E402
from minuet.torch import functional as F  # noqa: E402, N812
from minuet.torch._clouds import normalize_clouds  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch_problems import GEOMETRIES, cloud, expect_close, normal, poisoned  # noqa: E402, F401


@pytest.fixture
def coordinates(generator):
    return cloud(generator, GEOMETRIES["submanifold"], 40)


@pytest.fixture
def count_calls(monkeypatch) -> Callable[[Any, str], list[Any]]:
    """Returns a function that lists the results of the calls of a function of a module from then on."""

    def count(module: Any, name: str) -> list[Any]:
        function, results = getattr(module, name), []

        def counted(*arguments: Any, **options: Any) -> Any:
            results.append(function(*arguments, **options))
            return results[-1]

        monkeypatch.setattr(module, name, counted)
        return results

    return count


@pytest.mark.parametrize(
    ("shape", "stride", "builds", "reads"),
    [
        (None, 2, 1, 1),  # No shape limits the outputs.
        ((64, 64, 64), 2, 1, 1),  # The shape of the outputs is rounded up: the greatest coordinates are read too.
        ((128, 128, 128), 2, 1, 1),  # That of the outputs needs no rounding.
        ((6, 6, 6), 2, 2, 2),  # Outputs pass the shape: the second pyramid has the shape itself.
        (None, 1, 2, 1),  # More outputs than are tried first.
    ],
)
def test_pyramids_for_a_level(coordinates, count_calls, shape, stride, builds, reads):
    apart = coordinates * torch.tensor([1, 4, 4, 4], dtype=torch.int32) if stride == 1 else coordinates + 3
    level = sparse.Geometry(apart, shape=shape).level
    built, read = count_calls(_geometry, "pyramid"), count_calls(_geometry, "pyramid_coordinates")
    made = level.coarser(stride, kernel_size=3, padding=1)
    assert (made.rows == 27 * 40) == (stride == 1)
    assert (len(built), len(read)) == (builds, reads)


def test_convolutions_take_what_norms_give(generator, coordinates, monkeypatch):
    """In exact mode, an input and a gradient are copied only where they are made by other ops than minuet's."""
    copies = []
    with_room = _convolutions.with_room

    def counted(features, rows):
        made = with_room(features, rows)
        copies.append(made.data_ptr() != features.data_ptr())
        return made

    monkeypatch.setattr(_convolutions, "with_room", counted)
    features = normal(generator, 40, 4).requires_grad_()
    x = sparse.SparseTensor.of(features, coordinates)
    within, down = normal(generator, 27, 4, 4).requires_grad_(), normal(generator, 8, 4, 4).requires_grad_()
    norms = [sparse.BatchNorm(4, relu=True) for _ in range(3)]
    y = norms[0](F.convolution(x, within, kernel_size=3, submanifold=True))
    z = norms[1](F.convolution(y, within, kernel_size=3, submanifold=True), residual=y)
    w = norms[2](F.convolution(z, down, kernel_size=2, stride=2))
    assert copies == [True, False, False]  # The features are the caller's.
    copies.clear()
    w.features.square().sum().backward()
    # The gradient of y is the sum of two, which autograd makes, and it goes through a norm as well.
    assert copies == [False, False, False]


def test_norms_in_capacity_mode_take_no_more_memory(generator, coordinates):
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates, capacities=[])
    y = sparse.BatchNorm(4)(x).features
    assert y.untyped_storage().nbytes() == y.numel() * 4
    exact = sparse.BatchNorm(4)(sparse.SparseTensor.of(x.features, coordinates)).features
    assert exact.untyped_storage().nbytes() > exact.numel() * 4


def test_norms_of_ranks_have_room(generator):
    """Their results are inputs of convolutions too."""
    features, gradient = normal(generator, 40, 4), normal(generator, 40, 4)
    ops, none = torch.ops.minuet, [None] * 3
    moments = ops.batch_norm_moments(features, None)
    output, saved, *_ = ops.batch_norm_apply(
        features, moments[None], features, *none, None, None, None, 0.0, 1e-5, False, True
    )
    options = (None, None, None, 1e-5, True, True)
    *_, residual, sums = ops.batch_norm_sums(gradient, features, output, saved, *options)
    of_input = ops.batch_norm_apply_gradients(gradient, features, saved, sums, residual, *options)
    for made in (output, residual, of_input):
        assert made.shape == (40, 4)
        assert made.untyped_storage().nbytes() == 64 * 4 * 4


def test_a_batch_size_is_checked_once(generator, coordinates, count_calls):
    """A global pooling in exact mode reads from the device only what it does not know yet of the level."""
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates)
    reads = count_calls(F, "read_numbers")
    for reduction in ("max", "sum", "average"):
        F.global_pooling(x, reduction, batch_size=2)
    F.global_pooling(x, "sum", batch_size=3)
    assert len(reads) == 1
    with pytest.raises(ValueError, match="1 clouds"):
        F.global_pooling(x, "sum", batch_size=1)
    F.global_pooling(x, "sum", batch_size=2)
    assert len(reads) == 2
    masks = count_calls(x.level, "mask")
    got = normalize_clouds(x.features, x.level, 2, 4, 1e-5)
    assert len(reads) == 2
    assert len(masks) == 2  # The clouds of rows, and the centred features.
    for number in range(2):
        rows = coordinates[:, 0] == number
        mine = x.features[rows].double()
        wanted = (mine - mine.mean(0)) / (mine.var(0, unbiased=False) + 1e-5).sqrt()
        expect_close(got[rows], wanted, torch.float32)


def test_clouds_of_a_level_serve_training(generator, coordinates):
    """They are kept, also where they were first asked for in inference mode."""
    x = sparse.SparseTensor.of(normal(generator, 40, 4).requires_grad_(), coordinates)
    with torch.inference_mode():
        wanted = normalize_clouds(x.features, x.level, 2, 2, 1e-5)
    got = normalize_clouds(x.features, x.level, 2, 2, 1e-5)
    assert torch.equal(got, wanted)
    got.square().sum().backward()


def test_winners_are_stored_for_gradients_only(generator, coordinates, count_calls):
    x = sparse.SparseTensor.of(normal(generator, 40, 4).requires_grad_(), coordinates)
    results = count_calls(F, "_pooling")
    trained = F.pooling(x, "max", kernel_size=2)
    with torch.no_grad():
        plain = F.pooling(x, "max", kernel_size=2)
    detached = F.pooling(x.replace(x.features.detach()), "max", kernel_size=2)
    F.pooling(x, "sum", kernel_size=2)
    assert [len(winners) for _, winners in results] == [trained.level.rows, 0, 0, 0]
    assert torch.equal(plain.features, trained.features)
    assert torch.equal(detached.features, trained.features)
    (got,) = torch.autograd.grad(trained.features.sum(), x.features)
    assert got.sum() == trained.features.numel()


def test_a_maximum_without_winners_has_no_gradient(generator, coordinates):
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates)
    made = []

    def spy(*arguments):
        made.append(arguments)
        return _poolings.pooling(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "_pooling", spy)
        F.pooling(x, "max", kernel_size=2)
    features, *others = made[0]
    assert others[-1] is False
    with pytest.raises(RuntimeError, match="winners=True"):
        torch.ops.minuet.pooling(features.requires_grad_(), *others)


def test_plain_tensors_take_the_short_way(generator, coordinates, monkeypatch):
    """Below autograd, ops of plain tensors are not dispatched again, and those that a mode of torch looks at are."""
    overload, calls = torch._ops.OpOverload, []
    redispatch = overload.redispatch

    def counted(self, *arguments):
        calls.append(self._opname)
        return redispatch(self, *arguments)

    monkeypatch.setattr(overload, "redispatch", counted)
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates)
    weight = normal(generator, 27, 4, 4).requires_grad_()

    def run():
        return F.convolution(x, weight, kernel_size=3, submanifold=True).features

    wanted = run()
    wanted.sum().backward()
    with torch.inference_mode():
        assert torch.equal(run(), wanted)
    assert calls == []

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    seen = []
    with Watching():
        assert torch.equal(run(), wanted)
    assert torch.ops.minuet.convolution.default in seen
    assert "convolution" in calls
