"""Fused modules in capacity mode, under autocast, with frozen parts, and where autograd asks for more or too much."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

import minuet  # noqa: E402
import minuet.torch  # noqa: E402
from export_problems import expect_near  # noqa: E402
from fused_problems import MODULES, UNet, Written, cloud, expect_same, pair, step, strided, sub  # noqa: E402
from minuet.torch import functional as F  # noqa: E402, N812
from minuet.torch import spconv  # noqa: E402
from spconv_problems import BATCH, SHAPE, draw_cloud, draw_features  # noqa: E402
from torch import nn  # noqa: E402
from torch_problems import poisoned  # noqa: E402

__all__ = ["poisoned"]

# ---- capacity mode ---------------------------------------------------------------------------------------------------


def without_unused(made, rows):
    """Cuts the tensors that have a row for each voxel, behind which there are zeros."""
    for name, value in made.items():
        if name.startswith(("result", "gradient of features")) and value.dim() == 2 and len(value) > rows:
            assert not value[rows:].any(), name
            made[name] = value[:rows]
    return made


@pytest.mark.parametrize("name", ["unet", "norms", "norms without a momentum", "norms of momentum 0", "linear"])
def test_capacity_mode(name):
    """Gives what exact mode does, for clouds of several sizes."""
    module, fused = pair(name)
    for voxels, seed in ((150, 1), (90, 2)):
        x = cloud(voxels, seed, rows=200, capacities=[180])
        got = without_unused(step(fused.train(), x), int(x.count))
        minuet.torch.check(x.level)
        expect_same(got, step(module.train(), cloud(voxels, seed)))


def test_levels_in_capacity_mode():
    """Results on other levels have their counts, and layers can follow."""
    module, fused = pair("several results")
    x, y = (cloud(150, 1, rows=200, capacities=lambda fine, rule: 300) for _ in range(2))
    got, want = (each(given)[1]["coarse"] for each, given in ((fused, x), (module, y)))
    assert got.features.shape[0] == 300 and torch.equal(got.count, want.count)
    assert torch.equal(got.indices[: int(got.count)], want.indices[: int(want.count)])
    expect_near(got.features, want.features, 5e-6)
    more = spconv.SparseConv3d(8, 4, 3, 2, 1)
    expect_near(more(got).features, more(want).features, 5e-6)


def test_a_cloud_that_does_not_fit():
    """Gives zeros and a status, and changes nothing."""
    _, fused = pair("unet")
    before = copy.deepcopy(fused.state_dict())
    x = cloud(150, 1, rows=200, capacities=[20])
    made = step(fused.train(), x)
    assert not any(made[name].any() for name in made if name.startswith(("gradient", "result")))
    assert all(torch.equal(one, two) for one, two in zip(before.values(), fused.state_dict().values(), strict=True))
    with pytest.raises(RuntimeError, match="did not fit"):
        minuet.torch.check(x.level.geometry)


def test_learned_capacities():
    """Capacities learn from fused modules, alone and beside single ops."""
    for behind in (None, spconv.SubMConv3d(5, 4, 3)):
        module, fused = pair("unet")
        capacities = minuet.torch.Capacities(learn=1, factor=1.5)
        modes = []
        for voxels, seed in ((100, 1), (130, 2), (400, 3), (400, 4)):
            indices = draw_cloud(SHAPE, voxels, seed)
            features = draw_features(len(indices)).float()
            try:
                given = capacities.pad(features, indices)
            except ValueError:
                capacities.learn_more()
                given = capacities.pad(features, indices)
            x = spconv.SparseConvTensor(given[0], given[1], SHAPE, BATCH, count=given[2], capacities=capacities)
            modes.append(x.level.geometry.is_exact)
            want = module.train()(spconv.SparseConvTensor(features, indices, SHAPE, BATCH))
            got = fused.train()(x)
            if behind is not None:
                got, want = behind(got), behind(want)
            expect_near(got.features[: len(indices)], want.features, 1e-5)
            got.features.sum().backward()
            assert capacities.fits(x.level.geometry)
        assert modes == [True, False, True, False]


def test_capacities_of_the_wrong_number():
    _, fused = pair("unet")
    with pytest.raises(ValueError, match="one capacity for each level"):
        fused(cloud(50, 1, rows=60, capacities=[]))


# ---- dtypes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["unet", "linear", "several results"])
def test_autocast(name, dtype):
    module, fused = pair(name)
    got, want = {}, {}
    for made, each in ((got, fused), (want, module)):
        with torch.autocast("cpu", dtype=dtype):
            made.update(step(each.train(), cloud(200, 1)))
    assert list(got) == list(want)
    bound = {torch.float16: 1e-2, torch.bfloat16: 8e-2}[dtype]
    for each in want:
        assert got[each].dtype == want[each].dtype or name == "linear"  # torch's layer norm gives float32.
        one, two = got[each].double(), want[each].double()
        assert torch.linalg.norm(one - two) <= bound * max(float(torch.linalg.norm(two)), 1.0), each


def test_features_of_float16():
    module, fused = pair("several results")
    indices = draw_cloud(SHAPE, 100, 1)
    features = draw_features(len(indices)).half()
    got, want = (each.eval()(spconv.SparseConvTensor(features, indices, SHAPE, BATCH))[0] for each in (fused, module))
    assert got.features.dtype == torch.float16
    expect_near(got.features, want.features)


def test_other_dtypes_are_refused():
    _, fused = pair("unet")
    indices = draw_cloud(SHAPE, 100, 1)
    with pytest.raises(TypeError, match="convert them first"):
        fused(spconv.SparseConvTensor(draw_features(len(indices)), indices, SHAPE, BATCH))
    with pytest.raises(TypeError, match="parameters in float32"):
        copy.deepcopy(fused).half()(cloud(50, 1))
    with pytest.raises(ValueError, match="have 5 channels"):
        fused(spconv.SparseConvTensor(torch.randn(len(indices), 5), indices, SHAPE, BATCH))
    with pytest.raises(ValueError, match="same shape"):
        fused(spconv.SparseConvTensor(torch.randn(len(indices), 4), indices, [16, 16, 16], BATCH))


# ---- modes -----------------------------------------------------------------------------------------------------------


def test_training_without_gradients():
    """The statistics change all the same."""
    module, fused = pair("unet")
    made = []
    for each in (module, fused):
        with torch.no_grad():
            result = each.train()(cloud(100, 1)).features
        assert not result.requires_grad
        made.append({"result": result, **{name: value.clone() for name, value in each.named_buffers()}})
    expect_same(made[1], made[0])


def test_inference_mode():
    module, fused = pair("unet")
    for training in (True, False):
        with torch.inference_mode():
            got, want = (each.train(training)(cloud(100, 1)).features for each in (fused, module))
        expect_near(got, want, 1e-5)
    expect_same(step(fused.train(), cloud(90, 2)), step(module.train(), cloud(90, 2)))


def test_frozen_parts():
    """Frozen batch norms, frozen parameters, and features that want no gradient."""
    for training, frozen in (
        (False, ()),
        (False, ("stem.0.weight", "up.1.bias")),
        (True, ("stem.0.weight", "head.weight")),
    ):
        module, fused = pair("unet")
        made = []
        for each in (module, fused):
            each.train(training)
            for name in frozen:
                each.get_parameter(name).requires_grad_(False)
            x = cloud(100, 1)
            made.append(step(each, x.replace_feature(x.features.detach().requires_grad_(training))))
        assert not any(f"gradient of {name}" in made[0] for name in frozen)
        expect_same(made[1], made[0])
    for part in (module, fused):
        part.requires_grad_(False)
    expect_near(fused(cloud(80, 1)).features, module(cloud(80, 1)).features, 1e-5)


def test_norms_that_differ():
    _, fused = pair("unet")
    fused.train().stem[1].eval()
    with pytest.raises(ValueError, match=r"differ in `training`: .*'stem\.1'"):
        fused(cloud(50, 1))
    fused.train().deep[1].momentum = 0.3
    with pytest.raises(ValueError, match=r"differ in `momentum`: .*0\.3 in 'deep\.1'"):
        fused(cloud(50, 1))
    for part in fused.modules():
        if isinstance(part, nn.BatchNorm1d):
            part.momentum = 0.3
    module = copy.deepcopy(fused.module)
    expect_same(step(fused, cloud(50, 1)), step(module, cloud(50, 1)))


def test_what_cannot_be_trained():
    def fused(function, **parts):
        return minuet.torch.fuse(Written(function, conv=sub(4, 8), **parts), cloud(50, 1))

    twice = fused(lambda m, x: m.norm(m.norm(m.conv(x).features)), norm=nn.BatchNorm1d(8))
    with pytest.raises(ValueError, match="'norm' more than once"):
        twice(cloud(50, 1))
    random = fused(lambda m, x: m.drop(m.conv(x).features), drop=nn.Dropout(0.1))
    with pytest.raises(ValueError, match="'drop' has a dropout"):
        random(cloud(50, 1))
    random.eval()(cloud(50, 1))
    random = fused(lambda m, x: nn.functional.dropout(m.conv(x).features, training=m.training))
    with pytest.raises(ValueError, match="the fused module has a dropout"):
        random(cloud(50, 1))
    random = fused(lambda m, x: m.drop(m.conv(x).features), drop=torch.compile(nn.Dropout(0.1)))
    with pytest.raises(ValueError, match="has a dropout"):
        random(cloud(50, 1))
    fused(lambda m, x: m.drop(m.conv(x).features), drop=nn.Dropout(0))(cloud(50, 1))
    with pytest.raises(minuet.torch.ExportError, match=r"'slope\.weight'"):
        fused(lambda m, x: m.slope(m.conv(x).features), slope=nn.PReLU())
    with pytest.raises(minuet.torch.ExportError, match="'weight'"):
        fused(lambda m, x: m.conv(x).features * (2 * m.weight), weight=nn.Parameter(torch.ones(8)))
    with pytest.raises(minuet.torch.ExportError, match=r"aten::cumsum .*cannot be exported"):
        fused(lambda m, x: m.conv(x).features.cumsum(0))
    with pytest.raises(minuet.torch.ExportError, match="transposed convolution"):
        up = spconv.SparseConvTranspose3d(8, 4, 2, 2)
        fused(lambda m, x: m.up(m.down(m.conv(x))), down=strided(), up=up)
    with pytest.raises(minuet.torch.ExportError, match="computes the coordinates"):
        indices = draw_cloud(SHAPE, 9)
        module = Written(lambda m, x: m.conv(spconv.SparseConvTensor(x[0], x[1] // 1, SHAPE, BATCH)), conv=sub(4, 8))
        minuet.torch.fuse(module, [torch.randn(len(indices), 4), indices])
    with pytest.raises(minuet.UnimplementedError, match="concat"):
        fused(lambda m, x: torch.cat([m.conv(x).features, m.odd(x).features], 1), odd=sub(4, 3))
    hooked = sub(4, 8)
    hooked.register_forward_hook(lambda *_: None)
    with pytest.raises(minuet.torch.ExportError, match="hooks"):
        minuet.torch.fuse(hooked, cloud(50, 1))


def test_wrong_coordinates():
    _, fused = pair("unet")
    indices = draw_cloud(SHAPE, 50, 1)
    features = draw_features(len(indices)).float()
    twice = torch.cat([indices, indices[3:4]])
    with pytest.raises(ValueError, match="more than once"):
        fused(spconv.SparseConvTensor(torch.cat([features, features[3:4]]), twice, SHAPE, BATCH))
    indices[5, 1] = SHAPE[0]
    with pytest.raises(ValueError, match="outside of the bounds"):
        fused(spconv.SparseConvTensor(features, indices, SHAPE, BATCH))


@pytest.mark.parametrize("name", ["unet", "several results", "norms"])
def test_a_cloud_without_voxels(name):
    """Changes nothing. Single ops refuse some such clouds."""
    _, fused = pair(name)
    before = copy.deepcopy(fused.state_dict())
    x = spconv.SparseConvTensor(torch.empty(0, 4), torch.empty(0, 4, dtype=torch.int32), SHAPE, BATCH)
    made = step(fused.train(), x)
    assert not any(made[each].any() for each in made if each.startswith("gradient"))
    assert all(torch.equal(one, two) for one, two in zip(before.values(), fused.state_dict().values(), strict=True))


# ---- autograd --------------------------------------------------------------------------------------------------------


def test_two_forwards_before_two_backwards():
    module, fused = pair("unet")
    made = []
    for each in (module, fused):
        each.train()
        clouds = cloud(100, 1), cloud(200, 2)
        results = [each(x).features for x in clouds]
        gradients = [torch.autograd.grad(y.square().sum(), [x.features, *each.parameters()]) for x, y in
                     zip(clouds, results, strict=True)]  # fmt: skip
        made.append({str(number): one for number, one in enumerate(gradients[0] + gradients[1])})
    expect_same(made[1], made[0], 1e-5)


def test_backward_twice():
    _, fused = pair("unet")
    parameters = list(fused.train().parameters())
    loss = fused(cloud(100, 1)).features.square().sum()
    first = torch.autograd.grad(loss, parameters, retain_graph=True)
    again = torch.autograd.grad(loss, parameters)
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(loss, parameters)


def test_gradients_accumulate():
    module, fused = pair("unet")
    for each in (module, fused):
        for seed in (1, 2):
            each.train()(cloud(100, seed)).features.square().sum().backward()
    for one, two in zip(fused.parameters(), module.parameters(), strict=True):
        expect_near(one.grad, two.grad, 2e-5)


def test_checkpoint():
    _, fused = pair("unet")
    parameters = list(fused.train().parameters())
    x = cloud(100, 1)
    want = torch.autograd.grad(fused(x).features.square().sum(), parameters)

    def run(features):
        return fused(x.replace_feature(features)).features

    y = torch.utils.checkpoint.checkpoint(run, x.features, use_reentrant=False)
    got = torch.autograd.grad(y.square().sum(), parameters)
    assert all(torch.equal(one, two) for one, two in zip(got, want, strict=True))


def test_parameters_that_change_before_the_backward_pass():
    _, fused = pair("unet")
    loss = fused.train()(cloud(100, 1)).features.sum()
    with torch.no_grad():
        fused.head.weight.mul_(2)
    with pytest.raises(RuntimeError, match="changed between its forward and its backward pass"):
        loss.backward()


def test_derivatives_that_are_refused():
    _, fused = pair("unet")
    x = cloud(100, 1)
    (gradient,) = torch.autograd.grad(fused.train()(x).features.square().sum(), x.features, create_graph=True)
    with pytest.raises(RuntimeError, match=r"differentiate twice"):
        gradient.sum().backward()
    features = x.features.detach()
    with pytest.raises(RuntimeError):
        torch.func.grad(lambda given: fused(x.replace_feature(given)).features.sum())(features)
    with pytest.raises(RuntimeError), torch.no_grad():
        torch.vmap(lambda given: fused(x.replace_feature(given)).features)(torch.stack([features, features]))
    for training in (True, False):
        with (
            pytest.raises(RuntimeError, match="no forward-mode derivative"),
            torch.autograd.forward_ad.dual_level(),
            torch.set_grad_enabled(training),
        ):
            dual = torch.autograd.forward_ad.make_dual(features, features)
            fused.train(training)(x.replace_feature(dual))


def test_torch_compile():
    module, fused = pair("unet")
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: fused(x).features * 2)
    got, want = compiled(cloud(100, 1)), 2 * module.train()(cloud(100, 1)).features
    expect_near(got, want, 5e-6)
    got.sum().backward()


def test_one_part_of_a_module():
    """A fused part between single ops, on levels that both share."""
    torch.manual_seed(0)

    class Whole(nn.Module):
        def __init__(self, first):
            super().__init__()
            self.first, self.net, self.last = first, UNet(), spconv.SparseConv3d(5, 4, 2, 2)

        def forward(self, x):
            y = self.last(self.net(self.first(x)))
            return F.global_pooling(y.sparse(), "max", BATCH)

    for first in (sub(4, 4), spconv.SparseConv3d(4, 4, 2, 2)):
        module = Whole(first)
        fused = copy.deepcopy(module)
        with torch.no_grad():
            fused.net = minuet.torch.fuse(fused.net, fused.first(cloud(60, 5)))
        assert list(fused.state_dict()) == list(module.state_dict())
        for capacity in ({}, {"rows": 150, "capacities": [140] * 3}):
            got, want = (step(each, cloud(120, 1, **dict(capacity))) for each in (fused, module))
            expect_same(got, want, 2e-5)


def test_modules_cover_all_kinds():
    assert {"unet", "dense", "whole clouds", "argmax", "norm of minuet"} <= set(MODULES)


def bytes_for_backward(module, x):
    """Returns the size of what autograd keeps of a call for the backward pass."""
    kept = []

    def keep(tensor):
        kept.append(tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        module(x)
    return sum(kept)


@pytest.mark.parametrize("form", ["exact", "capacity", "copy"])
def test_layers_that_are_computed_again(form):
    """Gradients have the same bits, and less is kept."""
    module, fused = pair("unet")
    again = minuet.torch.fuse(module, cloud(60, 5), recompute=["stem", "down"])
    if form == "copy":
        again = copy.deepcopy(again)
    capacity = {"rows": 200, "capacities": [180]} if form == "capacity" else {}
    want, got = (step(each.train(), cloud(150, 1, **capacity)) for each in (fused, again))
    assert want.keys() == got.keys()
    assert all(torch.equal(got[name], want[name]) for name in want)
    assert bytes_for_backward(again, cloud(150, 1, **capacity)) < bytes_for_backward(fused, cloud(150, 1, **capacity))


@pytest.mark.parametrize("names", [["nothing"], ["up", "ste"]])
def test_layers_to_compute_again_that_do_not_exist(names):
    with pytest.raises(minuet.InvalidArgumentError, match=names[-1]):
        minuet.torch.fuse(UNet(), cloud(60, 5), recompute=names)
