"""A GradScaler whose scale takes gradients of weights past the range of float16."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import minuet.torch as sparse  # noqa: E402
from minuet.torch import spconv  # noqa: E402
from spconv_problems import BATCH, SHAPE, draw_cloud  # noqa: E402
from torch import nn  # noqa: E402
from torch_problems import expect_close  # noqa: E402

RATE = 0.125
GREATEST = torch.finfo(torch.float16).max


def new_network() -> nn.Module:
    """Returns a network of positive weights, with which gradients add up."""
    torch.manual_seed(3)
    network = spconv.SparseSequential(
        spconv.SubMConv3d(4, 8, 3),
        nn.ReLU(),
        spconv.SparseConv3d(8, 8, 2, 2, indice_key="down"),
        nn.ReLU(),
        spconv.SparseInverseConv3d(8, 8, 2, "down"),
    )
    for parameter in network.parameters():
        nn.init.uniform_(parameter, 0, 0.5)
    return network


def draw(kind: str, dtype: torch.dtype = torch.float32) -> spconv.SparseConvTensor:
    """Returns a cloud with features from 8 to 24."""
    indices = draw_cloud(SHAPE, 300)
    features = 8 + 16 * torch.rand(len(indices), 4, generator=torch.Generator().manual_seed(0))
    return spconv.SparseConvTensor(features.to(kind, dtype), indices.to(kind), SHAPE, BATCH)


def loss_of(network: nn.Module, x: spconv.SparseConvTensor) -> torch.Tensor:
    """Returns the mean over voxels, so that gradients of features stay within float16 when they are scaled."""
    loss: torch.Tensor = network(x).features.float().mean(0).sum()
    return loss


def gradients_of(network: nn.Module) -> dict[str, Any]:
    return {name: parameter.grad for name, parameter in network.named_parameters()}


@pytest.mark.parametrize("by_kernel", [False, True], ids=["SGD", "fused SGD"])
@pytest.mark.parametrize("is_fused", [False, True], ids=["ops", "fused"])
def test_float32_parameters_under_autocast(kind, is_fused, by_kernel):
    """Their gradients are summed in float32, so that they are finite and right, and the step is taken."""
    exact = new_network().to(kind)
    loss_of(exact, draw(kind)).backward()
    wanted = gradients_of(exact)
    network = new_network()
    network = (sparse.fuse(network, draw("cpu")) if is_fused else network).to(kind)
    before = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE, fused=by_kernel)
    scaler = torch.amp.GradScaler(kind)
    with torch.autocast(kind, dtype=torch.float16):
        loss = loss_of(network, draw(kind))
    scaler.scale(loss).backward()
    scale = scaler.get_scale()
    assert scale == 65536
    for name, got in gradients_of(network).items():
        assert got.dtype == torch.float32
        assert not name.endswith("weight") or got.abs().max() > 2 * GREATEST
        expect_close(got / scale, wanted[name], torch.float16)
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == scale
    for name, parameter in network.named_parameters():
        change = before[name].double() - parameter.double()
        expect_close(change, RATE * wanted[name].double(), torch.float16)


@pytest.mark.parametrize("by_kernel", [False, True], ids=["SGD", "fused SGD"])
def test_float16_parameters(kind, by_kernel):
    """Their gradients are float16 and thus infinite. As for torch's layers, fused optimizers skip the step, and
    GradScaler refuses to unscale such gradients for others."""
    network = new_network().to(kind).half()
    before = [parameter.detach().clone() for parameter in network.parameters()]
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE, fused=by_kernel)
    scaler = torch.amp.GradScaler(kind)
    scaler.scale(loss_of(network, draw(kind, torch.float16))).backward()
    for name, got in gradients_of(network).items():
        assert got.dtype == torch.float16
        assert not name.endswith("weight") or got.isinf().any()
    if not by_kernel:
        with pytest.raises(ValueError, match="FP16 gradients"):
            scaler.step(optimizer)
        return
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 65536 / 2
    assert all(map(torch.equal, network.parameters(), before))
