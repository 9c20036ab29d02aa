"""Networks of 8 bits that are made of modules are near the modules, and their files run as `export` writes them."""

from __future__ import annotations

import json
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import minuet  # noqa: E402
import minuet.torch  # noqa: E402
import peer_networks  # noqa: E402
import scenes  # noqa: E402
from export_problems import Deployed, train_a_little  # noqa: E402
from minuet.torch import spconv  # noqa: E402
from minuet.torch._export import _quantized  # noqa: E402
from spconv_problems import BATCH, CHANNELS, SHAPE, draw_cloud  # noqa: E402
from torch import nn  # noqa: E402


def draw_features(indices: torch.Tensor, channels: int = CHANNELS) -> torch.Tensor:
    return torch.randn(len(indices), channels, generator=torch.Generator().manual_seed(len(indices)))


def draw_clouds(count: int) -> list[spconv.SparseConvTensor]:
    clouds = [draw_cloud(SHAPE, 300 - 40 * seed, seed) for seed in range(count)]
    return [spconv.SparseConvTensor(draw_features(cloud), cloud, SHAPE, BATCH) for cloud in clouds]


def relative_error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())


def make_network() -> nn.Module:
    torch.manual_seed(3)
    return train_a_little(
        spconv.SparseSequential(
            *(spconv.SubMConv3d(CHANNELS, 16, 3, bias=False), nn.BatchNorm1d(16), nn.ReLU()),
            *(spconv.SparseConv3d(16, 24, 3, 2, 1, bias=False), nn.BatchNorm1d(24), nn.ReLU()),
            *(spconv.SubMConv3d(24, 24, 3, bias=False), nn.BatchNorm1d(24), nn.ReLU()),
            spconv.SubMConv3d(24, 8, 1),
        )
    )


def test_a_module_in_eight_bits(tmp_path):
    module, clouds = make_network(), draw_clouds(3)
    module.train()
    quantized = minuet.torch.quantize(module, clouds, tmp_path, name="net")
    assert module.training
    assert [layer.is_int8 for layer in quantized.layers] == [False, True, True, True]
    assert "reads the network's input" in quantized.layers[0].reason
    assert json.loads((tmp_path / "net.json").read_text()) == quantized.description
    assert quantized.plan().info.int8_convolutions == 3
    deployed = Deployed(quantized, tmp_path, BATCH)
    module.eval()
    for cloud in clouds:
        wanted = module(cloud).features.detach()
        (found,) = deployed(cloud.indices, cloud.features)
        assert 0 < relative_error(found, wanted) < 0.05
    # The ranges are those of all clouds, and the weights those of the floating network.
    few = minuet.torch.quantize(module, clouds[:1])
    assert all(one.range <= whole.range for one, whole in zip(few.layers, quantized.layers, strict=True))
    assert any(one.range < whole.range for one, whole in zip(few.layers, quantized.layers, strict=True))
    exported = minuet.torch.export(module, clouds[0], name="net")
    assert all((quantized.weights[name] == weight).all() for name, weight in exported.weights.items())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_features_of_other_dtypes(dtype, tmp_path):
    module = make_network()
    clouds = [cloud.replace_feature(cloud.features.to(dtype)) for cloud in draw_clouds(2)]
    quantized = minuet.torch.quantize(module.eval().to(dtype), clouds)
    assert quantized.dtype == str(dtype).removeprefix("torch.")
    (found,) = Deployed(quantized, tmp_path, BATCH)(clouds[0].indices, clouds[0].features)
    assert relative_error(found, module(clouds[0]).features.detach()) < 0.06


def test_the_tensors_of_a_run_are_released_before_the_next(monkeypatch):
    original, made = _quantized.record, []

    def record(*arguments: Any) -> Any:
        assert not any(recorder() for recorder in made)
        result = original(*arguments)
        made.append(weakref.ref(result[0]))
        return result

    monkeypatch.setattr(_quantized, "record", record)
    minuet.torch.quantize(make_network(), draw_clouds(3))
    assert len(made) == 3


def test_layers_stay_floating():
    module, clouds = make_network(), draw_clouds(2)
    whole = minuet.torch.quantize(module, clouds)
    names = [layer.name for layer in whole.layers]
    quantized = minuet.torch.quantize(module, clouds, floating=names[2:3], percentile=95)
    assert [layer.is_int8 for layer in quantized.layers] == [False, True, False, True]
    assert all(one.range < all_.range for one, all_ in zip(quantized.layers, whole.layers, strict=True))


def test_errors_and_a_budget(tmp_path):
    module, clouds = make_network().eval(), draw_clouds(2)
    whole = minuet.torch.quantize(module, clouds, compare=True, name="net")
    assert whole.report["network"] == "net"
    assert whole.report["clouds"] == [f"{len(cloud.indices)} voxels" for cloud in clouds]
    assert all(layer.relative_error > 0 and layer.cosine > 0.9 for layer in whole.layers[1:])
    error = norm = 0.0
    deployed = Deployed(whole, tmp_path, BATCH)
    for cloud in clouds:
        wanted = module(cloud).features.detach().double()
        (found,) = deployed(cloud.indices, cloud.features)
        error, norm = error + float((found - wanted).square().sum()), norm + float(wanted.square().sum())
    assert whole.relative_error == pytest.approx((error / norm) ** 0.5, rel=1e-3)
    some = minuet.torch.quantize(module, clouds, calibration="mse", error_budget=0.7 * whole.relative_error)
    assert some.relative_error <= 0.7 * whole.relative_error and some.report is None
    left = [layer for layer in some.layers[1:] if not layer.is_int8]
    assert left and all("error_budget leaves" in layer.reason and layer.own_error > 0 for layer in left)


class TwoInputs(nn.Module):
    """Takes a dict with coordinates, and with features of two kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.first = spconv.SubMConv3d(4, 16, 3)
        self.second = spconv.SubMConv3d(3, 16, 3)
        self.third = spconv.SubMConv3d(16, 8, 3)

    def forward(self, batch: dict[str, Any]) -> Any:
        if "factor" in batch:
            batch["second"].mul_(batch["factor"])
        first = self.first(spconv.SparseConvTensor(batch["first"], batch["indices"], SHAPE, BATCH))
        second = self.second(first.replace_feature(batch["second"]))
        first = self.third(first.replace_feature(first.features.relu()))
        return first, second


def test_modules_with_several_inputs(tmp_path):
    torch.manual_seed(4)
    module, clouds = TwoInputs(), []
    for seed in range(2):
        indices = draw_cloud(SHAPE, 200, seed)
        clouds.append({"first": draw_features(indices, 4), "second": draw_features(indices, 3), "indices": indices})
    quantized = minuet.torch.quantize(module, clouds, tmp_path)
    assert quantized.inputs == ["first", "second"]
    found = Deployed(quantized, tmp_path, BATCH)(*(clouds[1][name] for name in ("indices", "first", "second")))
    for one, wanted in zip(found, module(clouds[1]), strict=True):
        assert relative_error(one, wanted.features.detach()) < 0.05
    with pytest.raises(minuet.torch.ExportError, match="cloud 1 has no features 'second'"):
        minuet.torch.quantize(module, [clouds[0], {**clouds[1], "factor": 2}])


def test_a_unet():
    torch.manual_seed(5)
    network = peer_networks.sp_unet(spconv, CHANNELS, 6, 16, [16 * n for n in (1, 2, 3, 4, 4, 3, 2, 2)], [1] * 8)
    train_a_little(network).eval()
    features, indices, _ = scenes.draw_batch(1, 0)
    arguments = (features, indices, scenes.SHAPE, 1)
    quantized = minuet.torch.quantize(network, [arguments])
    assert sum(layer.is_int8 for layer in quantized.layers) == len(quantized.layers) - 1
    context = minuet.Context()
    plan, device = quantized.plan(context), minuet.Device(context, "cpu")
    plan.load(device)
    execution = minuet.Execution(plan, device, batch_size=1)
    execution.prepare(indices.numpy())
    found = torch.from_numpy(execution.run(features.numpy()))
    assert relative_error(found, network(*arguments).features.detach()) < 0.2


class Decides(nn.Module):
    """Decides by numbers of its input."""

    def forward(self, x: Any) -> Any:
        return x.replace_feature(x.features.relu()) if float(x.features.sum()) > 0 else x


def test_mistakes():
    module, clouds = make_network(), draw_clouds(1)
    with pytest.raises(ValueError, match="clouds is empty"):
        minuet.torch.quantize(module, [])
    with pytest.raises(TypeError, match="give a list of names"):
        minuet.torch.quantize(module, clouds, floating="conv")
    with pytest.raises(ValueError, match="give one from 50 to 100"):
        minuet.torch.quantize(module, clouds, percentile=10)
    with pytest.raises(ValueError, match="bundles need a folder"):
        minuet.torch.quantize(module, clouds, archs=["sm_90a"])
    with pytest.raises(ValueError, match="is infinite or NaN on cloud 0"):
        minuet.torch.quantize(module, [clouds[0].replace_feature(clouds[0].features / 0)])
    with pytest.raises(minuet.torch.ExportError, match="the host reads numbers of its input"):
        minuet.torch.quantize(Decides(), clouds)
