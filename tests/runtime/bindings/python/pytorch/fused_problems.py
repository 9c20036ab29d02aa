"""Modules to fuse, clouds for them, and steps of both forms."""

from __future__ import annotations

import copy
from typing import Any

import minuet.torch
import torch
from export_problems import features_of, train_a_little
from minuet.torch import functional as F  # noqa: N812
from minuet.torch import spconv
from spconv_problems import BATCH, SHAPE, draw_cloud, draw_features
from torch import nn


class Written(nn.Module):
    """A module whose forward() is a function of itself and its input."""

    def __init__(self, function: Any, **parts: Any) -> None:
        super().__init__()
        self._function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Any) -> Any:
        return self._function(self, x)


class UNet(nn.Module):
    """Two levels, with a batch norm behind each convolution."""

    def __init__(self, s: Any = spconv) -> None:
        super().__init__()

        def unit(convolution: nn.Module, width: int) -> nn.Module:
            return s.SparseSequential(convolution, nn.BatchNorm1d(width), nn.ReLU())

        self.stem = unit(s.SubMConv3d(4, 8, 3, bias=False, indice_key="fine"), 8)
        self.down = unit(s.SparseConv3d(8, 12, 2, 2, bias=False, indice_key="down"), 12)
        self.deep = unit(s.SubMConv3d(12, 12, 3, bias=False, indice_key="coarse"), 12)
        self.up = unit(s.SparseInverseConv3d(12, 8, 2, "down", bias=False), 8)
        self.head = s.SubMConv3d(16, 5, 1)

    def forward(self, x: Any) -> Any:
        a = self.stem(x)
        b = self.up(self.deep(self.down(a)))
        return self.head(b.replace_feature(torch.cat([b.features, a.features], 1)))


def sub(before: int, width: int) -> nn.Module:
    return spconv.SubMConv3d(before, width, 3)


def strided() -> nn.Module:
    return spconv.SparseConv3d(8, 8, 3, 2, 1)


def two_norms(**options: Any) -> nn.Module:
    first, second = (spconv.SubMConv3d(before, 8, 3, bias=False) for before in (4, 8))
    return spconv.SparseSequential(first, nn.BatchNorm1d(8, **options), nn.ReLU(), second, nn.BatchNorm1d(8, **options))


def several(m: Any, x: Any) -> Any:
    a = m.a(x)
    b = m.b(a)
    return [a, {"coarse": b, "features": b.features}, (x.indices, a.features)]


#: Modules with all kinds of layers, parameters and results.
MODULES: dict[str, Any] = {
    "unet": UNet,
    "several results": lambda: Written(several, a=sub(4, 8), b=strided()),
    "dense": lambda: Written(lambda m, x: m.b(m.a(x)).dense(), a=sub(4, 8), b=strided()),
    "linear": lambda: Written(
        lambda m, x: x.replace_feature(m.norm(m.linear(m.a(x).features))),
        a=sub(4, 8),
        linear=nn.Linear(8, 12),
        norm=nn.LayerNorm(12),
    ),
    "scale and shift": lambda: Written(
        lambda m, x: m.a(x).features * m.scale + m.shift,
        a=sub(4, 8),
        scale=nn.Parameter(torch.ones(8)),
        shift=nn.Parameter(torch.zeros(8)),
    ),
    "constants": lambda: Written(lambda m, x: m.a(x).features * 0.5 + 1, a=sub(4, 8)),
    "argmax": lambda: Written(lambda m, x: (lambda y: (y, y.argmax(1)))(m.a(x).features), a=sub(4, 8)),
    "whole clouds": lambda: Written(lambda m, x: F.global_pooling(m.a(x).sparse(), "average", BATCH), a=sub(4, 8)),
    "shared layer": lambda: Written(lambda m, x: m.a(m.a(x)), a=sub(4, 4)),
    "poolings": lambda: spconv.SparseSequential(spconv.SparseMaxPool3d(2), spconv.SparseAvgPool3d(2)),
    "groups": lambda: spconv.SparseSequential(spconv.SubMConv3d(4, 8, 3, groups=2), spconv.SparseConv3d(8, 8, 2)),
    "norm of minuet": lambda: Written(
        lambda m, x: m.norm(F.convolution(x.sparse(), m.weight, kernel_size=3, submanifold=True)),
        weight=nn.Parameter(torch.randn(27, 4, 8)),
        norm=minuet.torch.BatchNorm(8, relu=True),
    ),
    "norms": two_norms,
    "norms without a momentum": lambda: two_norms(momentum=None),
    "norms of momentum 0": lambda: two_norms(momentum=0.0),
    "norms without parameters": lambda: two_norms(affine=False),
}


def cloud(voxels: int, seed: int, **capacity: Any) -> spconv.SparseConvTensor:
    """Returns random features, which want a gradient, on random voxels; in capacity mode with so many `rows`."""
    indices = draw_cloud(SHAPE, voxels, seed)
    features = draw_features(len(indices), seed + 1).float()
    if capacity:
        rows = capacity.pop("rows")
        count = torch.tensor([len(indices)], dtype=torch.int32)
        indices, features = (nn.functional.pad(each, (0, 0, 0, rows - len(each))) for each in (indices, features))
        capacity["count"] = count
    return spconv.SparseConvTensor(features.requires_grad_(), indices, SHAPE, BATCH, **capacity)


def pair(name: str) -> tuple[nn.Module, nn.Module]:
    """Returns a module as it is, and the same fused."""
    torch.manual_seed(3)
    module = train_a_little(MODULES[name]())
    return module, minuet.torch.fuse(copy.deepcopy(module), cloud(60, 5))


def step(module: nn.Module, x: spconv.SparseConvTensor) -> dict[str, torch.Tensor]:
    """Returns the results and all gradients of a step, and the buffers behind it. Gradients of results are random."""
    module.zero_grad()
    if x.features.requires_grad:
        x.features.retain_grad()
    results = features_of(module(x))
    made = {f"result {number}": each.detach() for number, each in enumerate(results)}
    floats = [each for each in results if each.requires_grad]
    generator = torch.Generator().manual_seed(8)
    # The first rows are the same for any number of rows.
    gradients = [torch.randn((2000, *each.shape[1:]), generator=generator)[: len(each)] for each in floats]
    torch.autograd.backward(floats, [given.to(each.dtype) for given, each in zip(gradients, floats, strict=True)])
    given = {**dict(module.named_parameters()), "features": x.features}
    made.update({f"gradient of {name}": each.grad for name, each in given.items() if each.grad is not None})
    made.update({name: each.clone() for name, each in module.named_buffers()})
    return made


def expect_same(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor], bound: float = 5e-6) -> None:
    """Compares two steps, in terms of the largest number of each tensor, or of 10, which sums of many have."""
    assert list(found) == list(wanted)
    for name, want in wanted.items():
        got = found[name]
        assert got.shape == want.shape and got.dtype == want.dtype, name
        if want.numel():
            worst = float((got.double() - want.double()).abs().max())
            assert worst <= bound * max(float(want.double().abs().max()), 10.0), f"{name} is off by {worst}"
