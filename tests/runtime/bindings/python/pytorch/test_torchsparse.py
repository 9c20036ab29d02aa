"""Layers and networks under TorchSparse's names, against the same ones in plain PyTorch with float64."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import minuet  # noqa: E402
import minuet.torch.torchsparse as torchsparse  # noqa: E402
import numpy as np  # noqa: E402
import plain_torchsparse  # noqa: E402
from torch import nn  # noqa: E402
from torch_problems import poisoned  # noqa: E402, F401

CHANNELS = 4
CLOUDS = 3
SHAPE = (9, 8, 11)

LAYERS: dict[str, Callable[[Any], list[nn.Module]]] = {
    "stride 1": lambda n: [n.Conv3d(4, 6, 3, bias=True), n.Conv3d(6, 5, 5)],
    "mixed sizes": lambda n: [n.Conv3d(4, 6, (3, 1, 5)), n.Conv3d(6, 5, (1, 3, 1))],
    "even": lambda n: [n.Conv3d(4, 6, 2), n.Conv3d(6, 5, (2, 1, 2)), n.Conv3d(5, 5, (4, 3, 2), bias=True)],
    "one offset": lambda n: [n.Conv3d(4, 6, 1, bias=True), n.Conv3d(6, 5, 1, stride=2)],
    "cells": lambda n: [n.Conv3d(4, 6, 2, stride=2), n.Conv3d(6, 5, 2, stride=2, bias=True)],
    "reached": lambda n: [n.Conv3d(4, 6, 3, stride=2), n.Conv3d(6, 5, 3, stride=2, bias=True)],
    "padded": lambda n: [
        n.Conv3d(4, 6, 3, stride=2, padding=1),
        n.Conv3d(6, 5, (1, 3, 2), stride=(1, 2, 1), padding=1),
    ],
    "one axis": lambda n: [n.Conv3d(4, 6, (1, 3, 1), stride=(1, 2, 1)), n.Conv3d(6, 6, 3)],
    "even and wide": lambda n: [n.Conv3d(4, 6, 4, stride=2, padding=1), n.Conv3d(6, 5, (2, 3, 4), stride=(2, 1, 3))],
    "there and back": lambda n: [
        n.Conv3d(4, 6, 3, stride=2),
        n.Conv3d(6, 6, 3),
        n.Conv3d(6, 6, 2, stride=2),
        n.BatchNorm(6),
        n.Conv3d(6, 6, 2, stride=2, transposed=True, bias=True),
        n.ReLU(True),
        n.Conv3d(6, 5, 3, stride=2, transposed=True),
    ],
    "norms": lambda n: [
        n.Conv3d(4, 8, 3),
        n.BatchNorm(8, eps=1e-3, momentum=0.02),
        n.ReLU(True),
        n.Conv3d(8, 8, 2, stride=2),
        n.GroupNorm(2, 8),
        n.LeakyReLU(0.1, True),
        n.BatchNorm(8, momentum=None),
        n.SiLU(),
        n.BatchNorm(8, affine=False, track_running_stats=False),
    ],
    "average": lambda n: [n.Conv3d(4, 6, 3), n.GlobalAvgPool()],
    "maximum": lambda n: [n.Conv3d(4, 6, 3, stride=2, padding=1), n.GlobalMaxPool()],
}


def draw_cloud(generator: np.random.Generator, rows: int = 200) -> torch.Tensor:
    """Unique coordinates int32 [rows, 4] in random order, with voxels of all clouds."""
    cells = generator.integers(0, [CLOUDS, *SHAPE], (rows, 4))
    cells[:CLOUDS] = [[cloud, 4, 4, 4] for cloud in range(CLOUDS)]
    return torch.from_numpy(generator.permutation(np.unique(cells, axis=0)).astype(np.int32))


def res_unet(t: Any, in_channels: int, classes: int, widths: list[int]) -> nn.Module:
    """Makes a small network like SparseResUNet42, with its names."""
    spnn = t.nn

    def block(before: int, width: int, size: int, stride: int = 1, transposed: bool = False) -> nn.Module:
        convolution = spnn.Conv3d(before, width, size, stride=stride, transposed=transposed)
        return nn.Sequential(convolution, spnn.BatchNorm(width), spnn.ReLU(True))

    class SparseResBlock(nn.Module):
        def __init__(self, before: int, width: int) -> None:
            super().__init__()
            self.main = nn.Sequential(*block(before, width, 3), spnn.Conv3d(width, width, 3), spnn.BatchNorm(width))
            self.shortcut = nn.Identity()
            if before != width:
                self.shortcut = nn.Sequential(spnn.Conv3d(before, width, 1), spnn.BatchNorm(width))
            self.relu = spnn.ReLU(True)

        def forward(self, x: Any) -> Any:
            return self.relu(self.main(x) + self.shortcut(x))

    class SparseResUNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(*block(in_channels, widths[0], 3), *block(widths[0], widths[0], 3))
            self.encoders, self.decoders = nn.ModuleList(), nn.ModuleList()
            before = widths[0]
            for width in widths[1:]:
                self.encoders.append(nn.Sequential(block(before, before, 2, 2), SparseResBlock(before, width)))
                before = width
            for width in widths[-2::-1]:
                up = nn.ModuleDict({"upsample": block(before, width, 2, 2, True)})
                up["fuse"] = SparseResBlock(2 * width, width)
                self.decoders.append(up)
                before = width
            self.classifier = spnn.Conv3d(before, classes, 1, bias=True)

        def forward(self, x: Any) -> Any:
            x = self.stem(x)
            skips = []
            for encoder in self.encoders:
                skips.append(x)
                x = encoder(x)
            for decoder in self.decoders:
                x = decoder["fuse"](t.cat([decoder["upsample"](x), skips.pop()]))
            return self.classifier(x)

    return SparseResUNet()


def pair_of(make: Callable[[Any], nn.Module]) -> tuple[nn.Module, nn.Module]:
    """Returns a network in plain PyTorch and in Minuet with the same parameters, by their names."""
    torch.manual_seed(2)
    plain = make(plain_torchsparse).double()
    ours = make(torchsparse)
    ours.load_state_dict(plain.state_dict())
    return plain, ours.float()


def in_order(x: Any) -> torch.Tensor:
    """The features in ascending order of the coordinates."""
    if isinstance(x, torch.Tensor):
        return x
    return x.feats[torch.from_numpy(np.lexsort(x.coords.numpy().T[::-1]).copy())]


def expect_close(found: torch.Tensor, wanted: torch.Tensor, bound: float) -> None:
    assert found.shape == wanted.shape
    assert (found.double() - wanted).norm() <= bound * wanted.norm() + 1e-9


def expect_same(
    plain: nn.Module, ours: nn.Module, cloud: torch.Tensor, features: torch.Tensor, shape: Any, bound: float = 2e-5
) -> None:
    """Compares coordinates, outputs, the gradients of everything and the running statistics."""
    results = []
    for network, t in ((plain, plain_torchsparse), (ours, torchsparse)):
        given = features.to(torch.float64 if network is plain else torch.float32, copy=True).requires_grad_()
        output = network(t.SparseTensor(given, cloud, spatial_range=shape))
        rows = in_order(output)
        generator = torch.Generator().manual_seed(3)
        (rows * torch.randn(rows.shape, dtype=torch.float64, generator=generator)).sum().backward()
        results.append((output, rows, given.grad))
    if not isinstance(results[0][0], torch.Tensor):
        wanted, found = results[0][0], results[1][0]
        assert sorted(found.coords.tolist()) == sorted(wanted.coords.tolist())
        assert (found.stride, found.spatial_range) == (wanted.stride, wanted.spatial_range)
    expect_close(results[1][1], results[0][1], bound)
    expect_close(results[1][2], results[0][2], bound)
    scale = max((p.grad.norm() for p in plain.parameters()), default=0)
    for (name, wanted), found in zip(plain.named_parameters(), ours.parameters(), strict=True):
        # A bias in front of a batch norm has a gradient of 0, of which rounding is left.
        assert (found.grad.double() - wanted.grad).norm() <= 2.5 * bound * wanted.grad.norm() + 2e-7 * scale, name
    for (name, wanted), found in zip(plain.named_buffers(), ours.buffers(), strict=True):
        torch.testing.assert_close(found.to(wanted.dtype), wanted, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("shape", [None, (CLOUDS, *SHAPE), (CLOUDS, 13, 9, 12)])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, shape, generator):
    cloud = draw_cloud(generator)
    features = torch.from_numpy(generator.normal(size=(len(cloud), CHANNELS)))
    plain, ours = pair_of(lambda t: nn.Sequential(*LAYERS[name](t.nn)))
    expect_same(plain, ours, cloud, features, shape)


@pytest.mark.parametrize("shape", [None, (CLOUDS, 24, 24, 24)])
def test_res_unet(shape, generator):
    cloud = draw_cloud(generator, 500)
    cloud[:, 1:] *= 2
    features = torch.from_numpy(generator.normal(size=(len(cloud), CHANNELS)))
    plain, ours = pair_of(lambda t: res_unet(t, CHANNELS, 5, [8, 8, 16]))
    expect_same(plain, ours, cloud, features, shape, 2e-4)


@pytest.mark.parametrize("shape", [None, (CLOUDS, *SHAPE)])
def test_strided_layers_that_differ_in_their_padding(shape, generator):
    """Each has outputs of its own, and a transposed layer leads back over the one that made its input."""
    cloud = draw_cloud(generator)
    features = torch.from_numpy(generator.normal(size=(len(cloud), CHANNELS)))
    for padding in (0, 1, (0, 1, 0)):
        plain, ours = pair_of(lambda t, pads=padding: t.nn.Conv3d(4, 5, 3, stride=2, padding=pads))
        given = features.float()
        x = torchsparse.SparseTensor(given, cloud, spatial_range=shape)
        before = [torchsparse.nn.Conv3d(4, 5, 3, stride=2, padding=pads)(x) for pads in (0, 1)]
        wanted, found = plain(plain_torchsparse.SparseTensor(features, cloud, spatial_range=shape)), ours(x)
        assert sorted(found.coords.tolist()) == sorted(wanted.coords.tolist())
        assert found.spatial_range == wanted.spatial_range
        expect_close(in_order(found), in_order(wanted), 2e-5)
        up = torchsparse.nn.Conv3d(5, 4, 3, stride=2, transposed=True)
        for made in (*before, found):
            assert up(made).level is x.level


def test_checkpoints_load_both_ways():
    """A file with hand-made weights under the engine's names gives what these weights mean, and comes back the same."""
    network = nn.Sequential(torchsparse.nn.Conv3d(1, 1, 3, bias=True), torchsparse.nn.BatchNorm(1))
    state = {
        "0.kernel": torch.arange(27.0).view(27, 1, 1),
        "0.bias": torch.tensor([0.5]),
        "1.weight": torch.tensor([2.0]),
        "1.bias": torch.tensor([1.0]),
        "1.running_mean": torch.tensor([3.0]),
        "1.running_var": torch.tensor([4.0 - 1e-5]),
        "1.num_batches_tracked": torch.tensor(7),
    }
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    network.load_state_dict(torch.load(file))
    for name, value in network.state_dict().items():
        assert torch.equal(value, state.pop(name)), name
    assert not state
    # The second voxel is one step along x: weight 14 of the first output, and weight 12 of the second one.
    x = torchsparse.SparseTensor(torch.tensor([[1.0], [100.0]]), torch.tensor([[0, 4, 4, 4], [0, 5, 4, 4]]))
    sums = torch.tensor([[13.0 + 1400], [12 + 1300]]) + 0.5
    torch.testing.assert_close(network.eval()(x).feats, (sums - 3) + 1)


def test_a_checkpoint_runs_in_minuet_without_torch(context, cpu, tmp_path, generator):
    """A network of the library reads the checkpoint in TorchSparse's order, and computes the same."""
    description = {
        "name": "small_unet",
        "ndim": 3,
        "in_channels": CHANNELS,
        "channels": [8, 16],
        "weights_order": "torchsparse",
        "layers": [
            {"op": "block", "name": "first", "width": 0, "kernel_size": 3, "output": "skip"},
            {"op": "block", "name": "down", "width": 1, "kernel_size": 2, "stride": 2},
            {"op": "block", "name": "within", "width": 1, "kernel_size": 3},
            {"op": "up", "name": "up", "width": 0, "kernel_size": 2, "stride": 2, "onto": "skip"},
            {"op": "concat", "with": "skip"},
            {"op": "head", "name": "final"},
        ],
    }
    spnn = torchsparse.nn

    def block(before: int, width: int, *args: int, transposed: bool = False) -> nn.Module:
        convolution = spnn.Conv3d(before, width, *args, transposed=transposed)
        return nn.Sequential(convolution, spnn.BatchNorm(width), spnn.ReLU(True))

    parts = {"first": block(CHANNELS, 8, 3), "down": block(8, 16, 2, 2), "within": block(16, 16, 3)}
    parts["up"] = block(16, 8, 2, 2, transposed=True)
    network = nn.ModuleDict({**parts, "final": spnn.Conv3d(16, 20, 1, bias=True)})

    def run(features: torch.Tensor) -> torch.Tensor:
        # With even lengths, no voxel is at a border that a stride of 2 drops.
        skip = network["first"](torchsparse.SparseTensor(features, cloud, spatial_range=(CLOUDS, 10, 8, 12)))
        x = network["up"](network["within"](network["down"](skip)))
        return network["final"](torchsparse.cat([x, skip])).feats

    cloud = draw_cloud(generator)
    features = torch.from_numpy(generator.normal(size=(len(cloud), CHANNELS))).float()
    for _ in range(3):
        run(features)
    network.eval()
    wanted = run(features).detach()
    torch.save(network.state_dict(), tmp_path / "unet.pth")
    names = {f"{part}.0.kernel": f"{part}.conv.weight" for part in parts}
    names.update({f"{part}.1.": f"{part}.bn." for part in parts}, **{"final.kernel": "final.weight"})
    plan = minuet.Plan.network(context, description=description, weights=tmp_path / "unet.pth", weights_map=names)
    plan.load(cpu)
    execution = minuet.Execution(plan, cpu)
    execution.prepare(cpu.to_device(cloud.numpy()))
    found = torch.from_numpy(cpu.to_host(execution.run(cpu.to_device(features.numpy()))).copy())
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)


def test_state_dicts_have_the_names_and_shapes_of_the_engine():
    network = res_unet(torchsparse, 4, 19, [32, 64])
    state = {name: list(value.shape) for name, value in network.state_dict().items()}
    assert state["stem.0.kernel"] == [27, 4, 32]
    assert state["stem.1.running_mean"] == [32]
    assert state["encoders.0.0.0.kernel"] == [8, 32, 32]
    assert state["encoders.0.1.shortcut.0.kernel"] == [32, 64]
    assert state["classifier.kernel"] == [32, 19]
    assert state["classifier.bias"] == [19]
    assert list(torchsparse.nn.Conv3d(3, 4, 1, stride=2).kernel.shape) == [1, 3, 4]


@pytest.mark.parametrize(
    ("size", "number", "offset"),
    [
        (3, 1, (0, -1, -1)),
        (3, 9, (-1, -1, 0)),
        (2, 1, (0, 0, 1)),
        (2, 4, (1, 0, 0)),
        ((3, 1, 5), 1, (0, 0, -2)),
        ((2, 3, 1), 1, (0, 1, 0)),
    ],
)
def test_the_weight_of_an_offset(size, number, offset):
    """A kernel with one weight that is not 0 moves features by its offset: the first axis is fastest if the number of
    offsets is odd, and the last one if it is even."""
    cells = torch.cartesian_prod(torch.arange(1), *[torch.arange(8)] * 3).int()
    feats = (cells == torch.tensor([0, 4, 4, 4])).all(1).float()[:, None]
    layer = torchsparse.nn.Conv3d(1, 1, size)
    with torch.no_grad():
        layer.kernel.zero_()
        layer.kernel[number] = 1
    made = layer(torchsparse.SparseTensor(feats, cells))
    (row,) = made.feats[:, 0].nonzero().tolist()
    # The output at p reads the input at p + offset.
    assert (made.coords[row[0], 1:] + torch.tensor(offset)).tolist() == [4, 4, 4]


def test_offsets_are_in_the_order_of_weights():
    offsets = torchsparse.nn.utils.get_kernel_offsets
    assert offsets(3).tolist()[:4] == [[-1, -1, -1], [0, -1, -1], [1, -1, -1], [-1, 0, -1]]
    assert offsets(2, stride=2).tolist()[:3] == [[0, 0, 0], [0, 0, 2], [0, 2, 0]]
    assert offsets((1, 3, 1), dilation=2).tolist() == [[0, -2, 0], [0, 0, 0], [0, 2, 0]]


@pytest.mark.parametrize("name", LAYERS)
def test_capacity_mode_has_the_rows_of_exact_mode(name, generator):
    cloud = draw_cloud(generator)
    rows, more, shape = len(cloud), 30, (CLOUDS, *SHAPE)
    network = nn.Sequential(*LAYERS[name](torchsparse.nn))
    given = torch.from_numpy(generator.normal(size=(rows, CHANNELS))).float().requires_grad_()
    exact = copy.deepcopy(network)
    wanted = exact(torchsparse.SparseTensor(given, cloud, spatial_range=shape))
    padded = torch.full((rows + more, CHANNELS), torch.nan)
    padded[:rows] = given.detach()
    padded.requires_grad_()
    coords = torch.cat([cloud, torch.full((more, 4), 1, dtype=torch.int32)])
    count = torch.tensor([rows], dtype=torch.int32)
    x = torchsparse.SparseTensor(padded, coords, spatial_range=shape, count=count, capacities=lambda *_: 3000)
    found = network(x)
    assert not x.level.geometry.status().any()
    if isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(found, wanted)
        return
    wanted.feats.square().sum().backward()
    found.feats.square().sum().backward()
    used = len(wanted.feats)
    assert found.count.tolist() == [used]
    assert not found.feats[used:].any()
    assert torch.equal(found.coords[:used], wanted.coords)
    torch.testing.assert_close(found.feats[:used], wanted.feats, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(padded.grad[:rows], given.grad, rtol=1e-3, atol=1e-4)
    assert not padded.grad[rows:].any()
    for ours, theirs in zip(network.parameters(), exact.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-3)


def test_compiles_to_one_graph(generator):
    cloud, shape = draw_cloud(generator), (CLOUDS, *SHAPE)
    count = torch.tensor([len(cloud)], dtype=torch.int32)
    network = nn.Sequential(*LAYERS["there and back"](torchsparse.nn), torchsparse.nn.GlobalAvgPool())

    def step(network: nn.Module, features: torch.Tensor) -> torch.Tensor:
        x = torchsparse.SparseTensor(features, cloud, spatial_range=shape, count=count, capacities=lambda *_: 900)
        return network(x).square().sum()

    results = []
    for module, run in (
        (copy.deepcopy(network), step),
        (network, torch.compile(step, fullgraph=True, backend="aot_eager")),
    ):
        given = torch.ones(len(cloud), CHANNELS, requires_grad=True)
        loss = run(module, given)
        loss.backward()
        results.append((loss, given.grad, [p.grad for p in module.parameters()], list(module.buffers())))
    for found, wanted in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(found, wanted)


def test_tensors(generator):
    cloud = draw_cloud(generator)
    shape = (CLOUDS, *SHAPE)
    feats = torch.from_numpy(generator.normal(size=(len(cloud), CHANNELS))).float()
    x = torchsparse.SparseTensor(feats, cloud, 1, shape)
    assert (x.F is feats, x.C is cloud, x.s) == (True, True, (1, 1, 1))
    dense = torch.zeros(*shape, CHANNELS)
    dense[tuple(cloud.long().T)] = feats
    assert torch.equal(x.dense(), dense)
    doubled = x + x
    assert torch.equal(doubled.feats, 2 * feats)
    assert doubled.level is x.level
    assert torchsparse.cat([x, doubled]).feats.shape[1] == 2 * CHANNELS
    other = torchsparse.SparseTensor(feats[:50], draw_cloud(generator)[:50], 1, shape)
    total = torchsparse.generative_add(x, other)
    torch.testing.assert_close(total.dense(), x.dense() + other.dense())
    copied = torchsparse.SparseTensor(feats, x.coords)
    copied._caches = x._caches
    assert copied.level is x.level
    x.C = cloud.clone()
    assert copied.level is not x.level
    x.F = feats.double()
    assert x.half().feats.dtype == torch.float16
    assert not x.to("cpu").detach().feats.requires_grad
    assert "stride=(1, 1, 1)" in repr(x.cpu())


def test_utils(generator):
    from minuet.torch.torchsparse.utils.collate import sparse_collate, sparse_collate_fn
    from minuet.torch.torchsparse.utils.quantize import sparse_quantize

    points = generator.uniform(-3, 3, (300, 3))
    voxels, index, inverse = sparse_quantize(points, (0.5, 1.0, 2.0), return_index=True, return_inverse=True)
    cells = np.floor(points / [0.5, 1, 2]).astype(np.int32)
    assert (voxels[inverse] == cells).all()
    assert (cells[index] == voxels).all()
    assert sorted(set(map(tuple, cells.tolist()))) == [tuple(row) for row in voxels.tolist()]
    assert (sparse_quantize(points, 2) == np.unique(np.floor(points / 2), axis=0)).all()
    parts = [torchsparse.SparseTensor(torch.full((n, 2), float(n)), torch.arange(3 * n).view(n, 3)) for n in (2, 5)]
    joined = sparse_collate(parts)
    assert joined.coords[:, 0].tolist() == [0] * 2 + [1] * 5
    assert torch.equal(joined.coords[2:, 1:], parts[1].coords.int())
    items = [{"input": part, "more": {"label": np.array([n])}, "name": str(n)} for n, part in enumerate(parts)]
    batch = sparse_collate_fn(items)
    assert torch.equal(batch["input"].feats, joined.feats)
    assert batch["more"]["label"].tolist() == [[0], [1]]
    assert batch["name"] == ["0", "1"]
    with pytest.raises(ValueError, match=r"strides .1, 1, 1. and .2, 2, 2."):
        sparse_collate([parts[0], torchsparse.SparseTensor(torch.ones(1, 2), torch.zeros(1, 3), 2)])


def small() -> torchsparse.SparseTensor:
    cells = torch.cartesian_prod(torch.arange(1), *[torch.arange(4)] * 3).int()
    return torchsparse.SparseTensor(torch.ones(len(cells), 4), cells)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n: n.Conv3d(4, 4, 3, dilation=2)(small()), "which TorchSparse takes and ignores"),
        (lambda n: n.Conv3d(4, 4, 2, stride=2, transposed=True, generative=True)(small()), "generative .* not covered"),
        (lambda n: n.Conv3d(4, 4, 2, stride=2, transposed=True)(small()), "leads back over one .* none"),
        (lambda n: n.Conv3d(5, 4)(small()), "feats have 4 channels, and the layer takes 5"),
        (lambda n: n.Conv3d(4, 4, (3, 3)), "has 2 numbers, and there are 3 axes"),
        (
            lambda n: nn.Sequential(n.Conv3d(4, 4, 3, stride=2, padding=1), n.Conv3d(4, 4, 2, 2, transposed=True))(
                small()
            ),
            r"kernels so far are: \(3, 3, 3\) with stride \(2, 2, 2\)",
        ),
        (lambda n: small() + torchsparse.SparseTensor(torch.ones(1, 4), torch.zeros(1, 4).int()), "generative_add"),
        (lambda n: torchsparse.SparseTensor(torch.ones(2, 4), torch.zeros(2, 4).int()).level and n.Conv3d(4, 4)(
            torchsparse.SparseTensor(torch.ones(2, 4), torch.zeros(2, 4).int())), "cannot be made"),
        (lambda n: n.Conv3d(4, 4)(torchsparse.SparseTensor(torch.ones(2, 4), torch.zeros(2, 3).int())), "rows, 4"),
        (lambda n: small().dense(), "spatial_range"),
        (lambda n: torchsparse.SparseTensor(torch.ones(2, 4), torch.zeros(2, 4).int(), capacities=[]), "spatial_range"),
    ],
)  # fmt: skip
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call(torchsparse.nn)


def test_evaluation_half_precision_and_empty_clouds():
    network = nn.Sequential(*LAYERS["norms"](torchsparse.nn)).eval()
    x = small()
    wanted = network(x).feats
    with torch.autocast("cpu", torch.bfloat16):
        found = network(x).feats
    assert (found.float() - wanted).norm() < 0.1 * wanted.norm() + 0.1
    empty = torchsparse.SparseTensor(torch.ones(0, 4), torch.zeros(0, 4, dtype=torch.int32))
    assert network(empty).feats.shape == (0, 8)
    assert torchsparse.nn.GlobalAvgPool()(
        torchsparse.SparseTensor(torch.ones(0, 4), empty.coords, 1, (2, 4, 4, 4))
    ).shape == (2, 4)
    assert math.prod(network[0].kernel_size) == network[0].kernel_volume
