"""What cannot be exported is refused by its name, with its place and with what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import minuet.torch  # noqa: E402
from minuet.torch import functional as F  # noqa: E402, N812
from minuet.torch import spconv  # noqa: E402
from spconv_problems import BATCH, SHAPE, draw_cloud, draw_features  # noqa: E402
from torch import nn  # noqa: E402

WIDTH = 6


def tensor(count: int = 100) -> spconv.SparseConvTensor:
    cloud = draw_cloud(SHAPE, count)
    return spconv.SparseConvTensor(draw_features(len(cloud)).float(), cloud, SHAPE, BATCH)


class Inner(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Net(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.conv = spconv.SubMConv3d(4, WIDTH, 3)
        self.inner = nn.Sequential(nn.ReLU(), Inner(function))

    def forward(self, x: spconv.SparseConvTensor) -> spconv.SparseConvTensor:
        y = self.conv(x)
        return self.conv2(y) if hasattr(self, "conv2") else y.replace_feature(self.inner(y.features))


def in_place(x: torch.Tensor) -> torch.Tensor:
    x[:, :2] = 0
    return x


def into_new_memory(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(len(x), WIDTH + 2)
    out[:, :WIDTH] = x
    return out


def by_half(x: torch.Tensor) -> torch.Tensor:
    first = x[:, :3]
    first.mul_(2)
    return x


REFUSED: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "elu": (nn.functional.elu, "aten::elu in the module 'inner.1' .* no layer of a network computes it"),
    "mean of rows": (lambda x: x - x.mean(0), "aten::mean in the module 'inner.1'"),
    "channels": (lambda x: x[:, :3], "aten::slice in the module 'inner.1' .* some of the channels"),
    "rows": (lambda x: x[:3], "aten::slice .* some of the rows"),
    "mask": (lambda x: x[x[:, 0] > 0], "aten::select .* takes a part"),
    "order": (lambda x: x[torch.randperm(len(x))], "aten::index"),
    "transposed": (lambda x: (x.t() @ x).t(), "aten::t .* exchanges rows and channels"),
    "shape": (lambda x: x.reshape(-1, 2).relu(), r"aten::relu .* brought to the shape \[\d+, 2\]"),
    "softmax of rows": (lambda x: x.softmax(0), "aten::_softmax .* dim=1"),
    "concat of rows": (lambda x: torch.cat([x, x]), "aten::cat .* dim=1"),
    "constant of rows": (lambda x: x + torch.ones(len(x), 1), "aten::add .* give a number, or one for each channel"),
    "foreign rows": (
        lambda x: torch.cat([x, torch.ones(len(x), 1)], 1),
        "aten::cat .* depends on no argument of the module",
    ),
    "unlike channels": (lambda x: x * nn.functional.linear(x, torch.ones(2, WIDTH)).repeat(1, 3), "aten::repeat"),
    "attention": (lambda x: x @ (x.mean() * torch.ones(WIDTH, WIDTH)), "aten::mean"),
    "part in place": (in_place, "aten::fill_ .* changes a part of a tensor in place"),
    "view in place": (by_half, "aten::mul_ .* changes a part of a tensor in place"),
    "copy": (into_new_memory, "aten::copy_"),
    "statistics": (
        lambda x: nn.functional.batch_norm(x, None, None, training=True),
        "native_batch_norm.* track_running_stats=True",
    ),
    "group norm": (lambda x: nn.functional.group_norm(x, 2), "group_norm"),
    "dropout": (lambda x: nn.functional.dropout(x, 0.5, training=True), "dropout|aten::mul|bernoulli"),
    "quotient": (lambda x: x / x.exp(), "aten::exp"),
    "limits": (lambda x: x.clamp(0, 6), "aten::clamp .* limit of 0 from below"),
    "slopes": (lambda x: nn.functional.prelu(x, torch.arange(WIDTH) / 9), "PReLU with a slope for each channel"),
    "integers": (lambda x: x.int().float(), "aten::_to_copy .* torch.int32"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_ops(name):
    function, message = REFUSED[name]
    with pytest.raises(minuet.torch.ExportError, match=message) as caught:
        minuet.torch.export(Net(function).eval(), tensor())
    assert any(advice in str(caught.value) for advice in ("README.md", "give", "write", "use", "dim=1", "only"))


DECISIONS: dict[str, Callable[[torch.Tensor], bool]] = {
    "maximum": lambda x: float(x.max()) > 0,
    "all": lambda x: bool((x > 0).all()),
    "equal": lambda x: torch.equal(x, x),
    "list": lambda x: x.tolist()[0][0] > 0,
    "array": lambda x: x.numpy().max() > 0,
}


@pytest.mark.parametrize("name", DECISIONS)
def test_decisions_by_numbers_of_the_input(name):
    decide = DECISIONS[name]
    with pytest.raises(minuet.torch.ExportError, match=r"in the module 'inner.1' .* the host reads numbers"):
        minuet.torch.export(Net(lambda x: x if decide(x) else -x), tensor())


def test_what_no_result_needs_may_be_anything():
    def function(x: torch.Tensor) -> torch.Tensor:
        x.detach().exp().mean()
        return x.relu()

    exported = minuet.torch.export(Net(function), tensor())
    assert [layer["op"] for layer in exported.description["layers"]] == ["block", "relu"]


class Functional(nn.Module):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.ones(27, 4, 4))

    def forward(self, x: Any) -> Any:
        return self.function(x)


def expect_refusal(function: Callable[[Any], Any], message: str, example: Any = None, **options: Any) -> None:
    with pytest.raises(minuet.torch.ExportError, match=message):
        minuet.torch.export(Functional(function), tensor() if example is None else example, **options)


def conv(stride: int = 1, **options: Any) -> nn.Module:
    return spconv.SparseConv3d(4, 4, 3, stride, 1, **options)


def test_coordinates():
    within = spconv.SubMConv3d(4, 4, 3)
    expect_refusal(lambda x: x.select_by_index(x.indices[:, 1] > 3), "aten::gt .* selects voxels by their coordinates")
    reached = conv(1)
    expect_refusal(lambda x: within(spconv.functional.sparse_add(x, reached(x))), "aten::cat .* dim=1")

    def other(x: spconv.SparseConvTensor) -> Any:
        return within(spconv.SparseConvTensor(x.features, x.indices + 1, [20, 20, 20], BATCH))

    expect_refusal(other, "a second set of coordinates")
    expect_refusal(
        lambda x: x.replace_feature(x.features * x.indices[:, :1]), "aten::slice .* some of the rows or cells"
    )
    up = spconv.SparseConvTranspose3d(4, 4, 3, 2)
    expect_refusal(up, "must divide the tensor stride of its input")


def test_levels():
    sparse = minuet.torch.SparseTensor.of(*reversed([tensor().indices, tensor().features]), shape=SHAPE)

    def mixed(x: minuet.torch.SparseTensor) -> Any:
        coarse = x.level.coarser(2)
        return F.pooling(x, "max", kernel_size=3, stride=2, padding=1, to=coarse)

    expect_refusal(mixed, "not the one by which its coarser level was made", sparse)

    def kept(x: minuet.torch.SparseTensor) -> Any:
        return F.pooling(before, "max", kernel_size=2)

    before = minuet.torch.SparseTensor.of(sparse.features, sparse.coordinates)
    known = F.pooling(before, "max", kernel_size=2)  # Its level lives as long as the result.
    expect_refusal(kept, "made before the export", sparse)
    assert known.level.parent is before.level


def test_shapes():
    cloud, features = tensor().indices, tensor().features
    without = minuet.torch.SparseTensor.of(features, cloud)
    reach = lambda x: F.pooling(x, "max", kernel_size=3, stride=2, padding=1)  # noqa: E731
    expect_refusal(reach, "the module's layers have no limits", without, shape=SHAPE)
    expect_refusal(reach, "shape has 2 numbers", without, shape=SHAPE[:2])
    expect_refusal(spconv.SubMConv3d(4, 4, 3), "leave shape out", shape=[20, 20, 20])
    expect_refusal(lambda x: F.to_dense(x, SHAPE, BATCH), "aten::lt .* give the sparse tensor a shape", without)

    def inside(given: tuple[torch.Tensor, torch.Tensor]) -> Any:
        return reach(minuet.torch.SparseTensor.of(given[0], given[1], shape=SHAPE))

    expect_refusal(inside, "give export.. the shape of the module's input", [features, cloud])
    exported = minuet.torch.export(Functional(inside), [features, cloud], shape=SHAPE)
    assert exported.description["shape"] == SHAPE


def test_dense():
    down = conv(2)
    expect_refusal(lambda x: down(x).dense().flatten(), "'output' is a dense tensor with its axes in an order")
    expect_refusal(lambda x: down(x).dense().permute(0, 1, 4, 3, 2), "an order that no layer has")
    expect_refusal(lambda x: nn.functional.relu(down(x).dense()), "aten::relu")
    expect_refusal(lambda x: F.to_dense(x.sparse(), [4, 4, 4]), "aten::lt .* selects voxels by their coordinates")
    expect_refusal(lambda x: F.to_dense(x.sparse(), [20, 20, 20]), "cells of its level")


def test_examples_and_results():
    x = tensor()
    capacity = spconv.SparseConvTensor(x.features, x.indices, SHAPE, BATCH, capacities=[])
    within = spconv.SubMConv3d(4, 4, 3)
    expect_refusal(within, "capacity mode", capacity)
    single = spconv.SparseConvTensor(x.features[:1], x.indices[:1], SHAPE, BATCH)
    expect_refusal(within, "two voxels or more", single)
    expect_refusal(lambda x: x.indices, "returns no features")
    expect_refusal(lambda x: x, "returns no features")
    wanted = ["output.0", "scores"]
    expect_refusal(lambda x: [within(x), 3], "no result 'scores' of features: it has output.0", outputs=wanted)

    def twice(x: Any) -> Any:
        y = within(x)
        return [y, y]

    expect_refusal(twice, "is the same as another one")
    expect_refusal(lambda f: f.relu(), "runs no sparse layer", x.features)

    def averaged(given: list[torch.Tensor]) -> Any:
        return within(spconv.SparseConvTensor(given[0].mean(1), given[1], SHAPE, BATCH))

    points = x.features[:, None].repeat(1, 5, 1)
    expect_refusal(averaged, r"aten::mean .* 'input.0.0' is torch.float32 of the shape", [points, x.indices])
    hidden = tensor()
    expect_refusal(lambda _: within(hidden), "minuet::convolution .* depends on no argument of the module", 7)
    sparse = minuet.torch.SparseTensor.of(x.features, x.indices)
    expect_refusal(
        lambda x: torch.cat([x.features, x.coordinates], 1), "aten::cat .* with a tensor that is none", sparse
    )
    for name in ("", "a/b"):
        with pytest.raises(ValueError, match="without slashes"):
            minuet.torch.export(within, x, name=name)


def test_transposed_convolution_of_an_unlike_kernel():
    sparse = minuet.torch.SparseTensor.of(tensor().features, tensor().indices, shape=SHAPE)
    weight = torch.ones(27, 4, 4)

    def up(x: minuet.torch.SparseTensor) -> Any:
        y = F.pooling(x, "max", kernel_size=3, stride=2, padding=1)
        y = F.pooling(y, "max", kernel_size=1, submanifold=True)
        return F.convolution(y, weight[:8], kernel_size=2, stride=2, padding=1, transposed=True)

    expect_refusal(up, "not the one by which its coarser level was made", sparse)
