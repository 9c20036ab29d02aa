"""Export of what runs between sparse layers: functions, norms, sums with constants, heads, global poolings, inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import minuet  # noqa: E402
import minuet.torch  # noqa: E402
from export_problems import Deployed, expect_equal, expect_near, features_of, train_a_little  # noqa: E402
from minuet.torch import functional as F  # noqa: E402, N812
from minuet.torch import spconv  # noqa: E402
from spconv_problems import BATCH, SHAPE, draw_cloud, draw_features  # noqa: E402
from torch import nn  # noqa: E402

WIDTH = 6


def tensor(count: int = 200, seed: int = 0, dtype: torch.dtype = torch.float32) -> spconv.SparseConvTensor:
    cloud = draw_cloud(SHAPE, count, seed)
    return spconv.SparseConvTensor(draw_features(len(cloud)).to(dtype), cloud, SHAPE, BATCH)


class Between(nn.Module):
    """A function of features between two convolutions, so that it is no part of the first one's layer alone."""

    def __init__(self, function: Callable[..., Any], parts: Any = (), width: int = WIDTH) -> None:
        super().__init__()
        self.first = spconv.SubMConv3d(4, WIDTH, 3, bias=False)
        self.parts = nn.ModuleList(parts)
        self.function = function
        self.last = spconv.SubMConv3d(width, 5, 1, bias=False)

    def forward(self, x: spconv.SparseConvTensor) -> spconv.SparseConvTensor:
        x = self.first(x)
        return self.last(x.replace_feature(self.function(x.features, *self.parts)))


NUMBERS = torch.linspace(-1.5, 2, WIDTH)
#: A function of features, its modules, and the ops that the description has between the convolutions.
ROWS: dict[str, tuple[Callable[..., Any], Any, list[str]]] = {
    "relu": (lambda x: torch.relu(x), (), []),
    "relu in place": (lambda x, f: f(x), (nn.ReLU(inplace=True),), []),
    "leaky": (lambda x: nn.functional.leaky_relu(x, 0.2), (), []),
    "prelu": (lambda x, f: f(x), (nn.PReLU(init=0.3),), []),
    "sigmoid": (lambda x: torch.sigmoid(x), (), []),
    "tanh in place": (lambda x: x.tanh_(), (), []),
    "silu": (lambda x: nn.functional.silu(x), (), []),
    "gelu": (lambda x: nn.functional.gelu(x), (), []),
    "gelu tanh": (lambda x: nn.functional.gelu(x, approximate="tanh"), (), []),
    "clamp": (lambda x: x.clamp_min(0), (), []),
    "dropout": (lambda x, f: f(x), (nn.Dropout(),), []),
    "softmax": (lambda x: x.softmax(-1), (), ["softmax"]),
    "layer norm": (lambda x, f: f(x), (nn.LayerNorm(WIDTH, eps=1e-3),), ["layer_norm"]),
    "plain layer norm": (lambda x, f: f(x), (nn.LayerNorm(WIDTH, elementwise_affine=False),), ["layer_norm"]),
    "batch norm": (lambda x, f: f(x), (nn.BatchNorm1d(WIDTH),), []),
    "plain batch norm": (lambda x, f: f(x), (nn.BatchNorm1d(WIDTH, affine=False),), []),
    "batch norm behind relu": (lambda x, f: f(x.relu()), (nn.BatchNorm1d(WIDTH),), ["batch_norm"]),
    "linear": (lambda x, f: f(x).relu(), (nn.Linear(WIDTH, WIDTH),), ["linear"]),
    "linear without bias": (lambda x, f: f(x), (nn.Linear(WIDTH, WIDTH, bias=False),), ["linear"]),
    "matrix": (lambda x: x @ torch.ones(WIDTH, WIDTH), (), ["linear"]),
    "number": (lambda x: 2 - x * 3 + 1, (), ["scale_shift"] * 3),
    "channels": (lambda x: x * NUMBERS + NUMBERS, (), ["scale_shift"]),
    "normalized by hand": (lambda x: (x - NUMBERS) / (NUMBERS + 4), (), ["scale_shift", "scale_shift"]),
    "negative": (lambda x: -x, (), ["scale_shift"]),
    "sum": (lambda x: x + x.relu(), (), ["relu", "add"]),
    "difference": (lambda x: x - 0.5 * x.relu(), (), ["relu", "scale_shift", "scale_shift", "add"]),
    "alpha": (lambda x: torch.add(x, x.relu(), alpha=0.25), (), ["relu", "scale_shift", "add"]),
    "product": (lambda x: x * x.sigmoid(), (), ["sigmoid", "multiply"]),
    "gate": (lambda x, f: x.mul_(f(x).sigmoid()), (nn.Linear(WIDTH, WIDTH),), ["linear", "multiply"]),
    "gate of one channel": (lambda x, f: x * f(x).sigmoid(), (nn.Linear(WIDTH, 1),), ["linear", "linear", "multiply"]),
    "sum with one channel": (lambda x, f: f(x) + x, (nn.Linear(WIDTH, 1),), ["linear", "linear", "add"]),
    "views": (lambda x: x.unsqueeze(1).flatten(1)[:, :].reshape(-1, WIDTH).clone(), (), []),
    "casts": (lambda x: x.double().float().detach(), (), []),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_rows(name, dtype, tmp_path):
    function, parts, ops = ROWS[name]
    torch.manual_seed(2)
    module = train_a_little(Between(function, parts))
    if dtype != torch.float32 and name in ("casts", "matrix", "channels", "normalized by hand"):
        module.function = lambda x: function(x.float()).to(dtype)  # Their constants are float32.
    module = module.eval().to(dtype)
    x = tensor(dtype=dtype)
    exported = minuet.torch.export(module, x)
    assert [layer["op"] for layer in exported.description["layers"]] == ["block", *ops, "block"]
    with torch.no_grad():
        wanted = module(x).features
    (found,) = Deployed(exported, tmp_path, BATCH)(x.indices, x.features)
    expect_near(found, wanted)


@pytest.mark.parametrize("residual", [False, True])
def test_batch_norm_of_minuet_has_the_same_bits(residual, tmp_path):
    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Parameter(torch.randn(27, 4, 8) / 10)
            self.side = nn.Parameter(torch.randn(8, 4) / 2)
            self.norm = minuet.torch.BatchNorm(8, eps=1e-3, relu=True)

        def forward(self, x: minuet.torch.SparseTensor) -> minuet.torch.SparseTensor:
            side = F.linear(x, self.side) if residual else None
            return self.norm(F.convolution(x, self.conv, kernel_size=3, submanifold=True), side)

    torch.manual_seed(2)
    module = train_a_little(Norm()).eval()
    cloud = draw_cloud(SHAPE, 200)
    x = minuet.torch.SparseTensor.of(draw_features(len(cloud)).float(), cloud)
    exported = minuet.torch.export(module, x)
    assert exported.weights["norm.weight"].shape == (8,)
    (found,) = Deployed(exported, tmp_path, 0)(cloud, x.features)
    with torch.no_grad():
        expect_equal(found, module(x).features)


class Heads(nn.Module):
    """Several results in a dict: scores and labels of voxels, and classes of clouds."""

    def __init__(self) -> None:
        super().__init__()
        self.net = spconv.SparseSequential(
            spconv.SubMConv3d(4, 8, 3, bias=False), nn.BatchNorm1d(8), nn.ReLU(), spconv.SparseConv3d(8, 8, 3, 2, 1)
        )
        self.voxels = nn.Linear(8, 5)
        self.clouds = nn.Sequential(nn.Linear(24, 7), nn.ReLU(), nn.BatchNorm1d(7), nn.Linear(7, 3))
        self.unused = spconv.SubMConv3d(8, 4, 3)

    def forward(self, x: spconv.SparseConvTensor, more: bool = True) -> dict[str, Any]:
        y = self.net(x)
        self.unused(y)
        pools = [F.global_pooling(y.sparse(), reduction) for reduction in ("max", "average", "sum")]
        scores = self.voxels(y.features)
        return {
            "scores": scores,
            "labels": scores.argmax(1),
            "classes": self.clouds(torch.cat(pools, 1)),
            "coordinates": y.indices,
            "count": len(scores),
        }


def test_heads(tmp_path):
    torch.manual_seed(2)
    module = train_a_little(Heads()).eval()
    x = tensor()
    exported = minuet.torch.export(module, (x, False))
    assert exported.outputs == ["scores", "labels", "classes"]
    ops = [layer["op"] for layer in exported.description["layers"]]
    assert ops.count("block") == 2 and ops.count("global_pool") == 3 and ops.count("linear") == 3
    scores, labels, classes = Deployed(exported, tmp_path, BATCH)(x.indices, x.features)
    with torch.no_grad():
        wanted = module(x)
    expect_near(scores, wanted["scores"])
    expect_near(classes, wanted["classes"])
    assert labels.dtype == torch.int32 and torch.equal(labels[:, 0].long(), wanted["labels"])
    only = minuet.torch.export(module, x, outputs=["classes"])
    assert only.outputs == ["classes"] and "voxels.weight" not in only.weights


class Shared(nn.Module):
    """One convolution twice, whose results are results of the network too, and a ReLU late."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = spconv.SubMConv3d(4, 4, 3)

    def forward(self, x: spconv.SparseConvTensor) -> tuple[Any, list[Any]]:
        y = self.conv(x)
        z = self.conv(y)
        late = torch.relu(y.features)
        return z, [y.features, late, {"sum": z.features + late}]


def test_shared_layers_and_nested_results(tmp_path):
    torch.manual_seed(2)
    module, x = Shared(), tensor()
    exported = minuet.torch.export(module, x)
    assert exported.outputs == ["output.0", "output.1.0", "output.1.1", "output.1.2.sum"]
    assert (exported.weights["conv.conv.weight"] == exported.weights["conv.2.conv.weight"]).all()
    with torch.no_grad():
        wanted = features_of(module(x))
    for found, want in zip(Deployed(exported, tmp_path, BATCH)(x.indices, x.features), wanted, strict=True):
        expect_equal(found, want)


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = spconv.SubMConv3d(4, 6, 3)
        self.embed = nn.Parameter(torch.randn(6, 3))

    def forward(self, batch: dict[str, Any]) -> Any:
        coordinates = torch.cat([batch["clouds"][:, None], batch["cells"]], 1).int()
        image = torch.relu(batch["image"] - 1)
        x = self.conv(spconv.SparseConvTensor(batch["voxels"], coordinates, SHAPE, BATCH))
        x = x.replace_feature(torch.cat([x.features, image], 1))
        return spconv.SparseMaxPool3d(2)(x)


def test_two_inputs_and_coordinates_that_the_module_puts_together(tmp_path):
    torch.manual_seed(2)
    x = tensor()
    image = torch.randn(len(x.features), 3)
    batch = {
        "image": image, "clouds": x.indices[:, 0].long(), "cells": x.indices[:, 1:].long(), "voxels": x.features,
    }  # fmt: skip
    module = TwoInputs()
    exported = minuet.torch.export(module, batch)
    channels = {item["name"]: item["channels"] for item in exported.description["inputs"]}
    assert channels == {"image": 3, "voxels": 4}
    given = {"image": image, "voxels": x.features}
    (found,) = Deployed(exported, tmp_path, BATCH)(x.indices, *[given[name] for name in exported.inputs])
    with torch.no_grad():
        expect_equal(found, module(batch).features)


def test_an_example_that_was_used_before(tmp_path):
    """Levels and maps of the example are not taken over."""
    torch.manual_seed(2)
    module = spconv.SparseSequential(spconv.SubMConv3d(4, 6, 3), spconv.SparseConv3d(6, 6, 3, 2, 1))
    x = tensor()
    with torch.no_grad():
        wanted = module(x)
    for _ in range(2):
        exported = minuet.torch.export(module, x)
        (found,) = Deployed(exported, tmp_path, BATCH)(x.indices, x.features)
        expect_equal(found, wanted.features)


def test_modes_and_hooks_are_as_before():
    module = spconv.SparseSequential(spconv.SubMConv3d(4, 6, 3), nn.BatchNorm1d(6))
    module.train()
    module[1].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    minuet.torch.export(module, tensor())
    assert module.training and module[0].training and not module[1].training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    from torch.nn.modules import module as hooks

    assert not hooks._global_forward_hooks and not hooks._global_forward_pre_hooks


def test_autocast(tmp_path):
    """Casts are left out: the network has one dtype, which its plan is given."""
    torch.manual_seed(2)
    module, x = train_a_little(Between(torch.sigmoid)).eval(), tensor()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        wanted = module(x).features
        exported = minuet.torch.export(module, x)
    assert exported.dtype == "float32" and wanted.dtype == torch.bfloat16
    (found,) = Deployed(exported, tmp_path, BATCH, dtype="bfloat16")(x.indices, x.features.bfloat16())
    expect_near(found, wanted)


@pytest.mark.filterwarnings("ignore:Using `torch.compile")
def test_compiled_parts(tmp_path):
    torch.manual_seed(2)
    function = torch.compile(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()), backend="aot_eager")
    module = Between(lambda x, f: f(x), (function,)).eval()
    whole = torch.compile(module, backend="aot_eager")
    x = tensor()
    with torch.no_grad():
        wanted = whole(x).features
    exported = minuet.torch.export(whole, x)
    assert [layer["name"] for layer in exported.description["layers"]] == ["first", "parts.0.0", "last"]
    (found,) = Deployed(exported, tmp_path, BATCH)(x.indices, x.features)
    expect_near(found, wanted)


def test_bundles(tmp_path):
    if not minuet.system_info().nvrtc:
        from conftest import skip_or_fail

        skip_or_fail("nvrtc", "NVRTC is not installed")
    module = spconv.SparseSequential(spconv.SubMConv3d(4, 8, 3))
    with pytest.raises(ValueError, match="give path"):
        minuet.torch.export(module, tensor(), archs=["sm_90a"])
    minuet.torch.export(module, tensor(), tmp_path, name="small", archs=["sm_90a"], dtype="float16")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "minuet-sm_90a.bundle",
        "small.json",
        "small.safetensors",
    ]
