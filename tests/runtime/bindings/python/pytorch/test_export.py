"""Exported networks give what the modules that they were made of give, run by the Python package on the CPU device."""

from __future__ import annotations

import json
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import minuet.torch  # noqa: E402
import peer_networks  # noqa: E402
from export_problems import (  # noqa: E402
    Deployed,
    expect_equal,
    expect_near,
    features_of,
    train_a_little,
)
from minuet.torch import functional as F  # noqa: E402, N812
from minuet.torch import spconv  # noqa: E402
from spconv_problems import BATCH, CHANNELS, SHAPE, draw_cloud, draw_features  # noqa: E402
from torch import nn  # noqa: E402

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def sequence(*layers: Any) -> nn.Module:
    return spconv.SparseSequential(*layers)


def branches(*layers: Any) -> nn.Module:
    return sequence(spconv.SubMConv3d(4, 6, 3), spconv.ConcatTable(*layers))


#: Networks that run the same kernels as the module. Where float32 rounds at other places, NEAR names them.
LAYERS: dict[str, tuple[list[int], Any]] = {
    "submanifold": (SHAPE, lambda: sequence(spconv.SubMConv3d(4, 6, 3), spconv.SubMConv3d(6, 5, 3, bias=False))),
    "dilated": (SHAPE, lambda: sequence(spconv.SubMConv3d(4, 6, (3, 1, 5), dilation=(1, 1, 2)))),
    "even": (SHAPE, lambda: sequence(spconv.SubMConv3d(4, 6, (2, 3, 4)))),
    "one offset": (SHAPE, lambda: sequence(spconv.SubMConv3d(4, 6, 1), spconv.SparseConv3d(6, 3, 1, bias=False))),
    "one offset strided": (SHAPE, lambda: sequence(spconv.SparseConv3d(4, 6, 1, 2))),
    "stride 1": (SHAPE, lambda: sequence(spconv.SparseConv3d(4, 6, 3, 1, 1), spconv.SparseConv3d(6, 6, 2, padding=1))),
    "mixed": (SHAPE, lambda: sequence(spconv.SparseConv3d(4, 6, (3, 1, 2), (2, 1, 2), (1, 0, 0), (2, 1, 1)))),
    "groups": (SHAPE, lambda: sequence(spconv.SubMConv3d(4, 8, 3, groups=4), spconv.SparseConv3d(8, 8, 2, groups=2))),
    "inverse": (
        SHAPE,
        lambda: sequence(
            spconv.SparseConv3d(4, 6, 3, 2, 1, indice_key="down"),
            nn.ReLU(),
            spconv.SparseConv3d(6, 6, 2, 2, indice_key="deeper"),
            spconv.SparseInverseConv3d(6, 6, 2, "deeper"),
            nn.ReLU(inplace=True),
            spconv.SparseInverseConv3d(6, 5, 3, "down", bias=False),
        ),
    ),
    "inverse of a pooling": (
        SHAPE,
        lambda: sequence(spconv.SparseMaxPool3d(3, 2, 1, indice_key="p"), spconv.SparseInverseConv3d(4, 5, 3, "p")),
    ),
    "transposed": (
        SHAPE,
        lambda: sequence(
            spconv.SparseConv3d(4, 6, 3, 2, 1),
            spconv.SparseConvTranspose3d(6, 5, 3, 2, 1, output_padding=(1, 0, 0)),
            spconv.SubMConv3d(5, 4, 3),
        ),
    ),
    "transposed further": (
        SHAPE,
        lambda: sequence(
            spconv.SparseMaxPool3d((2, 1, 4)),
            spconv.SparseConvTranspose3d(4, 5, (3, 1, 2), (2, 1, 2), groups=1, bias=False),
            spconv.SparseAvgPool3d(3, 2, 1),
        ),
    ),
    "max pool": (SHAPE, lambda: sequence(spconv.SparseMaxPool3d(2))),
    "average pool": (SHAPE, lambda: sequence(spconv.SparseAvgPool3d(3, 2, 1))),
    "leaky": (SHAPE, lambda: sequence(spconv.SubMConv3d(4, 6, 3), nn.LeakyReLU(0.25), spconv.SubMConv3d(6, 6, 1))),
    "joined": (SHAPE, lambda: sequence(branches(spconv.SubMConv3d(6, 4, 3), spconv.SparseReLU()), spconv.JoinTable())),
    "added": (
        SHAPE,
        lambda: sequence(
            branches(spconv.SubMConv3d(6, 5, 3), spconv.SubMConv3d(6, 5, 1), spconv.SubMConv3d(6, 5, (1, 3, 1))),
            spconv.AddTable(),
            nn.ReLU(),
        ),
    ),
    "one axis": ([600], lambda: sequence(spconv.SubMConv1d(4, 6, 3), spconv.SparseConv1d(6, 5, 3, 2, 1))),
    "two axes": ([20, 17], lambda: sequence(spconv.SparseConv2d(4, 6, 3, 2), spconv.SparseConvTranspose2d(6, 5, 3, 2))),
    "four axes": (
        [5, 4, 5, 3],
        lambda: sequence(
            spconv.SubMConv4d(4, 6, 3), spconv.SparseConv4d(6, 5, 2, 2), spconv.SparseMaxPool4d((2, 2, 2, 1), 1)
        ),
    ),
}

#: Transposed convolutions of spconv's names add in the order of the mirrored kernel, and networks in the kernel's.
NEAR = ("transposed", "transposed further", "two axes")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, dtype, tmp_path):
    """A network gives the module's bits in float32, for the example and for another cloud."""
    shape, make = LAYERS[name]
    torch.manual_seed(3)
    module = train_a_little(make()).eval().to(dtype)
    clouds = [draw_cloud(shape, count, seed) for count, seed in ((300, 0), (170, 7))]
    tensors = [spconv.SparseConvTensor(draw_features(len(cloud)).to(dtype), cloud, shape, BATCH) for cloud in clouds]
    exported = minuet.torch.export(module, tensors[0])
    assert exported.dtype == str(dtype).removeprefix("torch.")
    deployed = Deployed(exported, tmp_path, BATCH)
    for x in tensors:
        with torch.no_grad():
            wanted = module(x)
        (found,) = deployed(x.indices, x.features)
        # Where a sum or an activation runs in the kernel of a convolution, a smaller dtype is rounded once less.
        if name in NEAR or (dtype != torch.float32 and name in ("added", "leaky")):
            expect_near(found, wanted.features)
        else:
            expect_equal(found, wanted.features)
        expect_same_coordinates(deployed, wanted)


def expect_same_coordinates(deployed: Deployed, wanted: spconv.SparseConvTensor) -> None:
    """Rows are in the same order. A network's coordinates are in cells of the caller's."""
    stride = torch.tensor([1, *deployed.plan.outputs[0].tensor_stride[: len(wanted.spatial_shape)]], dtype=torch.int32)
    found = torch.from_numpy(deployed.execution.output_coordinates(0))
    assert torch.equal(found, wanted.indices * stride)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_voxel_backbone_8x(dtype, tmp_path):
    shape = [41, 24, 32]
    torch.manual_seed(3)
    module = train_a_little(peer_networks.voxel_backbone_8x(spconv, CHANNELS, shape, [4, 4, 8, 8, 16, 16])).to(dtype)
    cloud = draw_cloud(shape, 1500)
    features = draw_features(len(cloud)).to(dtype)
    exported = minuet.torch.export(module, (features, cloud, BATCH), name="backbone")
    assert module.training and all(part.training for part in module.modules())
    assert exported.description["shape"] == shape
    assert len(exported.description["layers"]) == 12
    assert exported.outputs == [f"output.{number}" for number in range(5)]
    deployed = Deployed(exported, tmp_path, BATCH)
    wanted = module.eval()(features, cloud, BATCH)
    for found, tensor in zip(deployed(cloud, features), wanted, strict=True):
        expect_near(found, tensor.features)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sp_unet(dtype, tmp_path):
    shape = [16, 24, 32]
    torch.manual_seed(3)
    module = train_a_little(peer_networks.sp_unet(spconv, CHANNELS, 5, 8, [8, 16, 16, 8], [1, 2, 1, 1])).eval()
    cloud = draw_cloud(shape, 1500)
    features = draw_features(len(cloud)).to(dtype)
    example = (features, cloud, shape, BATCH)
    exported = minuet.torch.export(module.to(dtype), example)
    deployed = Deployed(exported, tmp_path, BATCH)
    with torch.no_grad():
        (wanted,) = features_of(module(*example))
    (found,) = deployed(cloud, features)
    expect_near(found, wanted)
    names = {layer.get("name") for layer in exported.description["layers"]}
    assert {"down.0.0", "up.1.0", "enc.1.block1.conv2", "dec.0.block0.proj.0", "final"} <= names


class Grown(nn.Module):
    """Two transposed convolutions of one tensor, whose results end at different cells."""

    def __init__(self) -> None:
        super().__init__()
        self.down = spconv.SparseConv3d(4, 6, 3, 2, 1)
        self.ups = nn.ModuleList(
            spconv.SparseConvTranspose3d(6, 5, 3, 2, 1, output_padding=more) for more in (0, (1, 1, 0))
        )

    def forward(self, x: spconv.SparseConvTensor) -> list[spconv.SparseConvTensor]:
        y = self.down(x)
        return [up(y) for up in self.ups]


def test_output_padding(tmp_path):
    torch.manual_seed(3)
    module, cloud = Grown().eval(), draw_cloud(SHAPE, 300)
    x = spconv.SparseConvTensor(draw_features(len(cloud)).float(), cloud, SHAPE, BATCH)
    exported = minuet.torch.export(module, x)
    assert [layer.get("output_padding") for layer in exported.description["layers"]] == [None, None, [1, 1, 0]]
    with torch.no_grad():
        wanted = module(x)
    assert len(wanted[0].features) < len(wanted[1].features)
    for found, result in zip(Deployed(exported, tmp_path, BATCH)(cloud, x.features), wanted, strict=True):
        expect_near(found, result.features)


class Cells(nn.Module):
    """A U-Net of the functions of minuet.torch, with coarser levels that have the cells of voxels."""

    def __init__(self, shape: str = "box") -> None:
        super().__init__()
        volume = 27 if shape == "box" else 7
        self.shape = shape
        self.stem = nn.Parameter(torch.randn(volume, 4, 8) / 8)
        self.down = nn.Parameter(torch.randn(8, 8, 16) / 8)
        self.up = nn.Parameter(torch.randn(8, 16, 8) / 8)
        self.bias = nn.Parameter(torch.randn(8))
        self.last = nn.Parameter(torch.randn(3, 16) / 4)

    def forward(self, x: minuet.torch.SparseTensor) -> minuet.torch.SparseTensor:
        y = F.relu(F.convolution(x, self.stem, kernel_size=3, submanifold=True, kernel_shape=self.shape))
        z = F.relu(F.convolution(y, self.down, kernel_size=2, stride=2))
        z = F.pooling(z, "max", kernel_size=3, submanifold=True)
        up = F.convolution(z, self.up, self.bias, kernel_size=2, stride=2, transposed=True)
        return F.linear(F.cat([up, y]), self.last)


@pytest.mark.parametrize("shape", ["box", "cross"])
def test_functions(shape, tmp_path):
    """Coordinates may be negative where the module's tensor has no shape."""
    torch.manual_seed(4)
    module = Cells(shape)
    cloud = draw_cloud(SHAPE, 300) - torch.tensor([0, 4, 3, 2], dtype=torch.int32)
    x = minuet.torch.SparseTensor.of(draw_features(len(cloud)).float(), cloud)
    exported = minuet.torch.export(module, x)
    assert "shape" not in exported.description
    ops = [layer["op"] for layer in exported.description["layers"]]
    assert ops == ["block", "block", "max_pool", "up", "concat", "block"]
    (found,) = Deployed(exported, tmp_path, 0)(cloud, x.features)
    with torch.no_grad():
        expect_equal(found, module(x).features)


class Unpooled(nn.Module):
    def forward(self, x: minuet.torch.SparseTensor) -> list[minuet.torch.SparseTensor]:
        down = F.pooling(x, "sum", kernel_size=3, stride=2, padding=1)
        up = F.pooling(down, "sum", kernel_size=3, stride=2, padding=1, transposed=True)
        mean = F.pooling(x, "average", kernel_size=2)
        return [up, down, mean, F.pooling(mean, "max", kernel_size=2, stride=2, transposed=True)]


def test_unpooling(tmp_path):
    cloud = draw_cloud(SHAPE, 200)
    x = minuet.torch.SparseTensor.of(draw_features(len(cloud)).float(), cloud, shape=SHAPE)
    exported = minuet.torch.export(Unpooled(), x)
    found = Deployed(exported, tmp_path, 0)(cloud, x.features)
    for one, two in zip(found, features_of(Unpooled()(x)), strict=True):
        expect_equal(one, two)


class Bev(nn.Module):
    """A backbone that ends as OpenPCDet's does: the axis z becomes channels of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.net = sequence(spconv.SubMConv3d(4, 8, 3), nn.ReLU(), spconv.SparseConv3d(8, 6, 3, 2, 1))

    def forward(self, batch: dict[str, Any]) -> dict[str, Any]:
        x = self.net(spconv.SparseConvTensor(batch["features"], batch["voxels"], SHAPE, batch["batch_size"]))
        dense = x.dense()
        clouds, channels, z, y, width = dense.shape
        batch["bev"] = dense.view(clouds, channels * z, y, width)
        batch["encoded"] = x
        return batch


def test_birds_eye(tmp_path):
    torch.manual_seed(4)
    cloud = draw_cloud(SHAPE, 200)
    batch = {"features": draw_features(len(cloud)).float(), "voxels": cloud, "batch_size": BATCH}
    module = Bev()
    exported = minuet.torch.export(module, dict(batch))
    assert exported.outputs == ["bev", "encoded"]
    assert exported.description["layers"][-1] == {
        "op": "birds_eye", "input": "encoded", "image_axes": [1, 2], "output": "bev",
    }  # fmt: skip
    with torch.no_grad():
        wanted = module(dict(batch))
    bev, encoded = Deployed(exported, tmp_path, BATCH)(cloud, batch["features"])
    expect_equal(bev, wanted["bev"])
    expect_equal(encoded, wanted["encoded"].features)
    one = minuet.torch.export(module, dict(batch), outputs=["bev"])
    assert one.outputs == ["bev"]


@pytest.mark.parametrize("kind", ["spconv", "spconv last", "first", "last", "x first"])
def test_dense(kind, tmp_path):
    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = spconv.SparseConv3d(4, 5, 3, 2, 1)

        def forward(self, x: spconv.SparseConvTensor) -> torch.Tensor:
            y = self.down(x)
            if kind.startswith("spconv"):
                return y.dense(channels_first=kind == "spconv")
            dense = F.to_dense(y.sparse(), channels_last=kind == "last")
            if kind != "x first":
                return dense
            dense = dense.permute(0, 1, 4, 2, 3).contiguous()
            return dense.view(dense.shape[0], dense.shape[1] * dense.shape[2], *dense.shape[3:])

    torch.manual_seed(4)
    cloud = draw_cloud(SHAPE, 200)
    x = spconv.SparseConvTensor(draw_features(len(cloud)).float(), cloud, SHAPE, BATCH)
    module = Dense()
    (found,) = Deployed(minuet.torch.export(module, x), tmp_path, BATCH)(cloud, x.features)
    with torch.no_grad():
        expect_equal(found, module(x))


def test_files(tmp_path):
    cloud = draw_cloud(SHAPE, 50)
    x = spconv.SparseConvTensor(draw_features(len(cloud)).float(), cloud, SHAPE, BATCH)
    module = sequence(spconv.SubMConv3d(4, 6, 3, bias=False), nn.BatchNorm1d(6, eps=1e-3), nn.ReLU())
    exported = minuet.torch.export(module, x, tmp_path / "new", name="small")
    assert json.loads((tmp_path / "new/small.json").read_text()) == exported.description
    assert set(exported.weights) == {
        "0.conv.weight", "0.bn.weight", "0.bn.bias", "0.bn.running_mean", "0.bn.running_var",
    }  # fmt: skip
    assert exported.weights["0.conv.weight"].shape == (27, 4, 6)
    plan = exported.plan()
    assert {item.name for item in plan.parameters} == set(exported.weights)
    again = minuet.torch.export(module, x)
    assert again.description["name"] == "SparseSequential"
    assert again.description["layers"] == exported.description["layers"]
