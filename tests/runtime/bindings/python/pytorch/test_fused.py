"""Fused modules give the results and gradients of the modules that they were made of, and train alike."""

from __future__ import annotations

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")

import minuet.torch  # noqa: E402
import plain_spconv  # noqa: E402
from export_problems import expect_near, features_of, train_a_little  # noqa: E402
from fused_problems import MODULES, UNet, Written, cloud, expect_same, pair, step, sub  # noqa: E402
from minuet.torch import spconv  # noqa: E402
from minuet.torch._fused._clouds import Levels  # noqa: E402
from spconv_problems import BATCH, CHANNELS, SHAPE, draw_cloud, draw_features  # noqa: E402
from torch import nn  # noqa: E402
from torch_problems import poisoned  # noqa: E402

__all__ = ["poisoned"]


@pytest.mark.parametrize("name", MODULES)
def test_steps(name):
    """Clouds that are larger and smaller than the example, so that capacities grow and stay."""
    module, fused = pair(name)
    for voxels, seed in ((60, 5), (300, 1), (40, 2)):
        want, got = (step(each.train(), cloud(voxels, seed)) for each in (module, fused))
        expect_same(got, want)


@pytest.mark.parametrize("name", MODULES)
def test_results_are_those_of_the_module(name):
    """Their kinds, their coordinates and their order are the same, so that more layers can follow."""
    module, fused = pair(name)
    x = cloud(80, 4)

    def sparse(value):
        if isinstance(value, dict):
            return [each for item in value.values() for each in sparse(item)]
        if isinstance(value, list | tuple):
            return [each for item in value for each in sparse(item)]
        return [value]

    found, wanted = (sparse(each.eval()(x)) for each in (fused, module))
    assert [type(each) for each in found] == [type(each) for each in wanted]
    for got, want in zip(found, wanted, strict=True):
        if isinstance(want, spconv.SparseConvTensor):
            assert torch.equal(got.indices, want.indices)
            assert got.spatial_shape == want.spatial_shape and got.batch_size == want.batch_size
            more = spconv.SubMConv3d(want.features.shape[1], 4, 3)
            expect_near(more(got).features, more(want).features, 5e-6)
        elif not isinstance(want, torch.Tensor):
            assert torch.equal(got.coordinates, want.coordinates)
    torch.cat([each.flatten().float() for each in features_of(fused(x)) if each.is_floating_point()]).sum().backward()


@pytest.mark.parametrize("momentum", [0.1, None, 0.0])
def test_a_cloud_that_needs_more_room_on_one_level(momentum, monkeypatch):
    """It is computed again, and counts as one batch. The example's voxels lie close together, and so do the first's."""
    counted = []
    count = Levels.count
    monkeypatch.setattr(Levels, "count", lambda levels, level: (counted.append(level.rows), count(levels, level)))
    torch.manual_seed(3)
    module = train_a_little(UNet())
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d):
            part.momentum = momentum
    block = torch.cartesian_prod(torch.tensor([0]), *[torch.arange(10)] * 3).int()
    cells = torch.randperm(40**3, generator=torch.Generator().manual_seed(1))[:990]
    spread = torch.stack([torch.zeros_like(cells), cells // 1600, cells // 40 % 40, cells % 40], 1).int()
    features = torch.randn(1000, 4, generator=torch.Generator().manual_seed(2))

    def given(indices):
        return spconv.SparseConvTensor(features[: len(indices)].clone().requires_grad_(), indices, [40] * 3, 1)

    fused = minuet.torch.fuse(copy.deepcopy(module), given(block))
    for indices in (block, spread, block):
        got, want = (step(each.train(), given(indices)) for each in (fused, module))
        expect_same(got, want, 1e-5)
    assert counted == [1000, 990]


def test_gradients_of_float64():
    """The gradients are those of the network on dense arrays in float64."""
    torch.manual_seed(1)
    plain = train_a_little(UNet(plain_spconv)).double()
    module = UNet()
    module.load_state_dict(plain.state_dict())
    fused = minuet.torch.fuse(module, cloud(60, 5))
    x = cloud(200, 6)
    want_input = x.features.detach().double().requires_grad_()
    want = plain.train()(plain_spconv.SparseConvTensor(want_input, x.indices, SHAPE, BATCH)).features
    got = fused.train()(x).features
    gradient = torch.randn(want.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    want.backward(gradient)
    got.backward(gradient.float())
    expect_near(got.detach().double(), want, 1e-5)
    expect_near(x.features.grad.double(), want_input.grad, 1e-5)
    for (name, one), two in zip(fused.named_parameters(), plain.parameters(), strict=True):
        assert torch.linalg.norm(one.grad.double() - two.grad) <= 1e-5 * torch.linalg.norm(two.grad), name
    for (name, one), two in zip(fused.named_buffers(), plain.buffers(), strict=True):
        assert torch.allclose(one.double(), two.double(), rtol=1e-5, atol=1e-6), name


def losses(module, steps=5):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    made = []
    for seed in range(steps):
        x = cloud(100 + 40 * seed, seed)
        labels = (x.features.detach().sum(1) > 0).long()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(x).features, labels)
        loss.backward()
        optimizer.step()
        made.append(loss.item())
    return made


def test_training_and_inference():
    module, fused = pair("unet")
    want, got = (losses(each.train()) for each in (module, fused))
    assert got == pytest.approx(want, rel=1e-4) and want[0] > want[-1]
    x = cloud(150, 9)
    for _ in range(2):
        with torch.no_grad():
            expect_near(fused.eval()(x).features, module.eval()(x).features, 1e-3)
        # Inference sees what training changed, and what is changed by hand.
        for each in (module, fused):
            losses(each.train(), 1)
            with torch.no_grad():
                each.head.bias.add_(1)
                each.stem[1].running_mean.mul_(0.5)
            each.head.weight.data.mul_(2)  # torch does not count this change.


def test_bits_repeat():
    _, fused = pair("unet")
    state = copy.deepcopy(fused.state_dict())
    made = []
    for _ in range(2):
        fused.load_state_dict(state)
        made.append(step(fused.train(), cloud(200, 1)))
    assert all(torch.equal(one, two) for one, two in zip(made[0].values(), made[1].values(), strict=True))


def test_state_is_that_of_the_module():
    module, fused = pair("unet")
    for method in ("named_parameters", "named_buffers"):
        names = [name for name, _ in getattr(module, method)()]
        assert [name for name, _ in getattr(fused, method)()] == names
    assert list(fused.state_dict()) == list(module.state_dict())
    assert fused.module.head is fused.head
    other = UNet()
    fused.load_state_dict(other.state_dict())
    assert all(torch.equal(one, two) for one, two in zip(fused.parameters(), other.parameters(), strict=True))
    other.load_state_dict(fused.state_dict())
    whole = nn.Sequential(fused)
    assert list(whole.state_dict()) == [f"0.{name}" for name in module.state_dict()]
    whole.load_state_dict({f"0.{name}": value for name, value in module.state_dict().items()})
    expect_same(step(fused.train(), cloud(80, 3)), step(module.train(), cloud(80, 3)))
    whole.eval()
    assert not fused.training and not fused.module.training and not fused.stem.training


def test_parameters_that_are_replaced():
    """As load_state_dict(assign=True) and to() do."""
    module, fused = pair("unet")
    step(fused.train(), cloud(80, 3))
    state = {name: value.clone() for name, value in module.state_dict().items()}
    fused.load_state_dict(state, assign=True)
    expect_same(step(fused.train(), cloud(80, 3)), step(module.train(), cloud(80, 3)))
    fused.double().float()
    expect_same(step(fused.train(), cloud(80, 4)), step(module.train(), cloud(80, 4)))


@pytest.mark.parametrize("name", ["unet", "linear", "groups"])
def test_weights_in_the_order_of_the_network(name):
    """Their memory has another order, and everything else stays. Gradients have the order of the weights."""
    module, fused = pair(name)
    assert fused.lay_out() is fused
    weights = [each for each in fused.parameters() if each.dim() > 1 and not each.is_contiguous()]
    assert weights
    optimizers = [torch.optim.SGD(each.parameters(), lr=1e-3, momentum=0.9) for each in (module, fused)]
    for seed in (1, 2, 3):
        expect_same(step(fused.train(), cloud(100, seed)), step(module.train(), cloud(100, seed)), 2e-5)
        assert all(each.grad.stride() == each.stride() for each in fused.parameters())
        for optimizer in optimizers:
            optimizer.step()
    x = cloud(90, 4)
    with torch.no_grad():
        expect_near(fused.eval()(x).features, module.eval()(x).features, 1e-4)
    copies = [copy.deepcopy(fused)]
    if name == "unet":
        copies.append(pickle.loads(pickle.dumps(fused)))
    state = copy.deepcopy(fused.state_dict())
    for each in copies:
        fused.load_state_dict(state)
        expect_same(step(each.train(), x), step(fused.train(), x), 0)
    module.load_state_dict(fused.state_dict())
    assert all(each.is_contiguous() for each in module.parameters())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda fused: pickle.loads(pickle.dumps(fused))])
def test_copies(copied):
    module, fused = pair("unet")
    step(fused.train(), cloud(80, 3))
    fused.load_state_dict(module.state_dict())
    made = copied(fused)
    with torch.no_grad():
        fused.head.bias.add_(1)
    assert made.module.head is made.head and made.head is not fused.head
    assert list(made.state_dict()) == list(module.state_dict())
    expect_same(step(made.train(), cloud(90, 4)), step(module.train(), cloud(90, 4)))


def test_features_and_coordinates_as_arguments():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = UNet()

        def forward(self, batch, scale):
            x = spconv.SparseConvTensor(batch["features"], batch["indices"], SHAPE, BATCH)
            return {"out": self.net(x).features, "scale": scale}

    def given(voxels, seed):
        indices = draw_cloud(SHAPE, voxels, seed)
        return {"features": draw_features(len(indices), seed).float(), "indices": indices, "name": "a"}

    torch.manual_seed(0)
    module = Network()
    other = copy.deepcopy(module)
    fused = minuet.torch.fuse(module, (given(60, 0), 2.0))
    for voxels in (100, 30):
        want, got = (each(given(voxels, 1), 2.0) for each in (other, fused))
        assert got["scale"] == 2.0
        expect_near(got["out"], want["out"], 5e-6)
        want, got = (torch.autograd.grad(y["out"].square().sum(), list(m.parameters())) for y, m in
                     ((want, other), (got, fused)))  # fmt: skip
        for one, two in zip(got, want, strict=True):
            expect_near(one, two, 2e-5)
    with pytest.raises(ValueError, match=r"fused for 2\.0"):
        fused(given(50, 1), 3.0)
    with pytest.raises(TypeError, match="missing"):
        fused({}, 2.0)


def test_two_tensors_on_the_same_voxels():
    module = Written(lambda m, x: m.a(x[0]).features + m.b(x[1]).features, a=sub(4, 8), b=sub(4, 8))
    indices = draw_cloud(SHAPE, 90, 1)
    tensors = [spconv.SparseConvTensor(torch.randn(len(indices), 4), indices, SHAPE, BATCH) for _ in range(2)]
    other = copy.deepcopy(module)
    with pytest.raises(minuet.torch.ExportError, match="cannot be told apart"):
        minuet.torch.fuse(module, [tensors[0]] * 2)
    example = cloud(60, 5)
    fused = minuet.torch.fuse(module, [example, example.replace_feature(example.features + 1)])
    expect_near(fused(tensors), other(tensors).detach(), 5e-6)
    with pytest.raises(ValueError, match="on other voxels"):
        fused([tensors[0], spconv.SparseConvTensor(tensors[1].features, indices.flip(0), SHAPE, BATCH)])


def test_other_shapes():
    """Where no level depends on the shape, each cloud may have its own."""
    torch.manual_seed(0)
    module = spconv.SparseSequential(spconv.SubMConv3d(CHANNELS, 8, 3), nn.BatchNorm1d(8), nn.ReLU())
    fused = minuet.torch.fuse(copy.deepcopy(module), cloud(60, 5))
    for shape in ([9, 8, 11], [20, 9, 30], [64, 64, 64]):
        indices = draw_cloud(shape, 90, 1)
        features = draw_features(len(indices)).float()
        want, got = (each(spconv.SparseConvTensor(features, indices, shape, BATCH)) for each in (module, fused))
        assert got.spatial_shape == shape
        expect_near(got.features, want.features, 5e-6)
    outside = indices.clone()
    outside[7, 2] = 64
    with pytest.raises(ValueError, match="row 7 is"):
        fused(spconv.SparseConvTensor(features, outside, [60, 60, 60], BATCH))
