"""Random networks of spconv's layers and functions of rows: what they export gives what they give."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

torch = pytest.importorskip("torch")

import minuet.torch  # noqa: E402
from export_problems import Deployed, expect_near, train_a_little  # noqa: E402
from minuet.torch import spconv  # noqa: E402
from spconv_problems import BATCH, draw_cloud, draw_features  # noqa: E402
from torch import nn  # noqa: E402

SHAPE = [13, 12, 14]
Tensor = spconv.SparseConvTensor
FUNCTIONS = [torch.relu, torch.sigmoid, torch.tanh, nn.functional.gelu, nn.functional.silu, nn.functional.leaky_relu]
STRIDED = [(3, 2, 1), (2, 2, 0), (3, 1, 1), ((3, 1, 1), (2, 1, 1), 0)]
KINDS = [
    "submanifold", "submanifold", "strided", "inverse", "transposed", "pool", "norm", "function", "add", "multiply",
    "concat", "linear", "layer norm", "constants", "in place", "new tensor",
]  # fmt: skip


class Network(nn.Module):
    """A graph that a seed draws. The first pass makes the layers, and all others have the same graph."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.parts = nn.ModuleList()
        self._made: Iterator[nn.Module] | None = None

    def _part(self, make: Callable[[], nn.Module]) -> nn.Module:
        if self._made is not None:
            return next(self._made)
        self.parts.append(make())
        return self.parts[-1]

    def forward(self, x: Tensor) -> list[Tensor]:
        self._made = iter(self.parts) if len(self.parts) else None
        draw = random.Random(self.seed)
        tensors, strided = [x], []
        for step in range(draw.randint(5, 16)):
            made = self._step(draw, draw.choice(tensors[-4:]), tensors, strided, f"key{step}")
            if made is not None:
                tensors.append(made)
        results = [tensors[-1]] + ([tensors[-3]] if len(tensors) > 4 else [])
        return [result for result in results if result.features is not x.features]

    def _step(
        self, draw: random.Random, x: Tensor, tensors: list[Tensor], strided: list[tuple[str, object, Tensor]], key: str
    ) -> Tensor | None:
        channels, width = x.features.shape[1], draw.choice([1, 4, 6, 8])
        kind = draw.choice(KINDS)
        others = [y for y in tensors if y.level is x.level]
        other = draw.choice(others)
        is_small = min(x.spatial_shape) < 4
        if kind == "submanifold":
            size, bias = draw.choice([1, 3, (3, 1, 3), 2]), draw.random() < 0.5
            return self._part(lambda: spconv.SubMConv3d(channels, width, size, bias=bias))(x)
        if kind == "strided" and not is_small:
            size, stride, padding = draw.choice(STRIDED)
            made = self._part(lambda: spconv.SparseConv3d(channels, width, size, stride, padding, indice_key=key))(x)
            strided.append((key, size, made))
            return made
        if kind == "inverse" and strided:
            name, size, coarse = draw.choice(strided)
            source = draw.choice([y for y in tensors if y.level is coarse.level])
            if source.find_indice_pair(name) is None:
                return None
            return self._part(lambda: spconv.SparseInverseConv3d(source.features.shape[1], width, size, name))(source)
        if kind == "transposed" and all(stride % 2 == 0 for stride in x.level.stride):
            return self._part(lambda: spconv.SparseConvTranspose3d(channels, width, 3, 2, 1))(x)
        if kind == "pool" and not is_small:
            return draw.choice([spconv.SparseMaxPool3d(2), spconv.SparseAvgPool3d(3, 2, 1)])(x)
        if kind == "new tensor":
            return Tensor(x.features, x.indices, x.spatial_shape, x.batch_size, indice_dict=x.indice_dict)
        return self._rows(draw, kind, x, other, width)

    def _rows(self, draw: random.Random, kind: str, x: Tensor, other: Tensor, width: int) -> Tensor | None:
        features, more = x.features, other.features
        channels = features.shape[1]
        is_alike = channels == more.shape[1] or 1 in (channels, more.shape[1])
        if kind == "norm":
            made = self._part(lambda: nn.BatchNorm1d(channels))(features)
        elif kind == "function":
            made = draw.choice(FUNCTIONS)(features)
        elif kind == "add" and is_alike:
            made = features + more
        elif kind == "multiply" and is_alike:
            made = features * more.sigmoid()
        elif kind == "concat" and channels + more.shape[1] < 40:
            made = torch.cat([features, more], 1)
        elif kind == "linear":
            made = self._part(lambda: nn.Linear(channels, width))(features)
        elif kind == "layer norm" and channels > 1:
            made = self._part(lambda: nn.LayerNorm(channels))(features)
        elif kind == "constants":
            made = 2 - features * 0.5
        elif kind == "in place":
            made = (features + 0.5).relu_()
        else:
            return None
        return x.replace_feature(made)


@pytest.mark.parametrize("seed", range(25))
def test_random_networks(seed, tmp_path):
    torch.manual_seed(seed)
    module = Network(seed)
    cloud, another = draw_cloud(SHAPE, 260), draw_cloud(SHAPE, 150, seed + 1)
    tensors = [Tensor(draw_features(len(cloud)).float(), cloud, SHAPE, BATCH) for cloud in (cloud, another)]
    with torch.no_grad():
        results = module(tensors[0])
    if len({id(result.features) for result in results}) < max(1, len(results)):
        with pytest.raises(minuet.torch.ExportError, match=r"same as another|returns no features"):
            minuet.torch.export(module, tensors[0])
        return
    train_a_little(module).eval()
    deployed = Deployed(minuet.torch.export(module, tensors[0]), tmp_path, BATCH)
    for x in tensors:
        with torch.no_grad():
            wanted = module(x)
        for found, result in zip(deployed(x.indices, x.features), wanted, strict=True):
            # A layer norm of numbers that are nearly equal enlarges roundings.
            expect_near(found, result.features, 1e-4)
