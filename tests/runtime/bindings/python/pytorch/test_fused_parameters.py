"""Parameters and buffers of fused modules that are changed, moved, replaced or read in parts."""

from __future__ import annotations

import copy
import ctypes

import pytest

torch = pytest.importorskip("torch")

import minuet.torch  # noqa: E402
from export_problems import expect_near  # noqa: E402
from fused_problems import UNet, Written, cloud, expect_same, pair, step, sub, two_norms  # noqa: E402
from minuet.torch import spconv  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import prune  # noqa: E402
from torch_problems import poisoned  # noqa: E402

__all__ = ["poisoned"]


def expect_same_inference(fused, module):
    with torch.no_grad():
        for seed in (1, 2):
            expect_near(fused.eval()(cloud(100, seed)).features, module.eval()(cloud(100, seed)).features, 1e-4)


# ---- inference sees each change --------------------------------------------------------------------------------------


def written_as_by_a_graph(module):
    """Changes memory without torch, as the replay of a captured step does."""
    for each in [*module.parameters(), module.stem[1].running_var]:
        numbers = (each.detach() * 0.7 + 0.1).contiguous()
        ctypes.memmove(each.data_ptr(), numbers.data_ptr(), 4 * numbers.numel())


def stepped_by_one_kernel(module):
    module.eval()  # No statistics change, which torch would count.
    optimizer = torch.optim.Adam(module.parameters(), lr=0.1, fused=True)
    module(cloud(80, 4)).features.sum().backward()
    optimizer.step()


def made_again(module):
    """Frees a weight before there is a new one, which may get its address."""
    for number in range(4):
        shape = module.head.weight.shape
        del module.head.weight
        generator = torch.Generator().manual_seed(number)
        module.head.register_parameter("weight", nn.Parameter(torch.randn(shape, generator=generator)))


def averaged(module):
    for each in module.parameters():
        each.data.mul_(0.5).add_(0.1)


@pytest.mark.parametrize("change", [written_as_by_a_graph, stepped_by_one_kernel, made_again, averaged])
def test_inference_after_a_change(change):
    module, fused = pair("unet")
    for _ in range(2):
        expect_same_inference(fused, module)
        change(module)
        change(fused)
    expect_same_inference(fused, module)


# ---- what is read in parts -------------------------------------------------------------------------------------------


def test_a_module_that_is_laid_out_can_be_fused_again():
    module, fused = pair("unet")
    fused.lay_out()
    again = minuet.torch.fuse(fused.module, cloud(60, 5))
    expect_same(step(again.train(), cloud(100, 1)), step(module.train(), cloud(100, 1)))
    assert all(each.grad.stride() == each.stride() for each in again.parameters())
    expect_same_inference(again, module)


def numbers(*shape):
    return nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(1)))


@pytest.mark.parametrize(
    ("function", "weight"),
    [
        (lambda m, x: nn.functional.linear(m.conv(x).features, m.weight[:5]), numbers(9, 8)),
        (lambda m, x: m.conv(x).features * m.weight[:8], numbers(9)),
        (lambda m, x: m.conv(x).features * m.weight.expand(8), numbers(1)),
        (lambda m, x: m.conv(x).features + m.weight, nn.Parameter(numbers(16).data[::2])),
    ],
)
def test_parameters_that_are_read_in_parts(function, weight):
    """They would be constants, which are not trained."""
    with pytest.raises(minuet.torch.ExportError, match=r"reads a part of 'weight'"):
        minuet.torch.fuse(Written(function, conv=sub(4, 8), weight=weight), cloud(60, 5))


def test_parameters_in_one_memory():
    """As vector_to_parameters() makes them. Each is known by its own name."""
    modules = [UNet() for _ in range(2)]
    vector = nn.utils.parameters_to_vector(modules[0].parameters()).detach()
    nn.utils.vector_to_parameters(vector, modules[0].parameters())
    modules[1].load_state_dict(modules[0].state_dict())
    fused = minuet.torch.fuse(modules[0], cloud(60, 5))
    expect_same(step(fused.train(), cloud(100, 1)), step(modules[1].train(), cloud(100, 1)))
    module = Written(lambda m, x: m.conv(x).features * (2 * m.weight), weight=numbers(8), conv=sub(4, 8))
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(module.parameters()).detach(), module.parameters())
    with pytest.raises(minuet.torch.ExportError, match="computes other numbers from 'weight'"):
        minuet.torch.fuse(module, cloud(60, 5))


# ---- other shapes and forms ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("part", "name", "shape"),
    [("head", "weight", (5, 1, 1, 1, 8)), ("stem.1", "bias", (3,)), ("stem.1", "running_mean", (2,))],
)
def test_other_shapes(part, name, shape, is_first):
    """Memory that is too small is neither read nor written, before and behind a first call."""
    for training in (True, False):
        _, fused = pair("unet")
        if not is_first:
            fused.train(training)(cloud(60, 5))
        owner = fused.get_submodule(part)
        value = torch.zeros(shape)
        setattr(owner, name, value if name in owner._buffers else nn.Parameter(value))
        with pytest.raises(ValueError, match=rf"{part}\.{name} has the shape .* fuse the module again"):
            fused.train(training)(cloud(60, 5))


def test_another_form_at_the_same_address():
    for change in (lambda data: data.transpose(0, -1), lambda data: data[:4], lambda data: data.view(torch.int32)):
        torch.manual_seed(0)
        fused = minuet.torch.fuse(sub(8, 8), cloud_of(8))
        weight = fused.module.weight.requires_grad_(False)
        with torch.no_grad():
            fused(cloud_of(8))
            address = weight.data_ptr()
            fused.module._parameters["weight"] = nn.Parameter(change(weight.data), requires_grad=False)
            assert fused.module.weight.data_ptr() == address
            with pytest.raises((TypeError, ValueError), match=r"weight (is torch\.int32|has the (shape|strides))"):
                fused(cloud_of(8))


def cloud_of(channels):
    x = cloud(60, 5)
    return x.replace_feature(torch.randn(len(x.features), channels))


def test_parameters_that_are_missing():
    for change, text in (
        (nn.utils.parametrizations.weight_norm, "head.weight is no parameter or buffer"),
        (lambda part: prune.random_unstructured(part, "weight", 0.5), "head.weight is no parameter or buffer"),
        (lambda part: setattr(part, "bias", None), "head.bias is None"),
    ):
        for is_first in (True, False):
            _, fused = pair("unet")
            if not is_first:
                fused(cloud(60, 5))
            change(fused.head)
            with pytest.raises(ValueError, match=text):
                fused(cloud(60, 5))


# ---- between both passes ---------------------------------------------------------------------------------------------


def offloaded(module):
    """Moves parameters to other memory, with the same numbers."""
    for each in module.parameters():
        moved = each.data.clone()
        each.data.fill_(torch.nan)
        each.data = moved


@pytest.mark.parametrize("training", [True, False])
def test_parameters_that_are_moved_between_both_passes(training):
    module, fused = pair("unet")
    for change in (offloaded, lambda module: module.lay_out()):
        made = []
        for each in (module, fused):
            loss = each.train(training)(cloud(100, 1)).features.square().sum()
            if each is fused:
                change(each)
            each.zero_grad()
            loss.backward()
            made.append({name: one.grad for name, one in each.named_parameters()})
        expect_same(made[1], made[0], 2e-5)


def test_a_parameter_of_another_shape_between_both_passes():
    _, fused = pair("unet")
    loss = fused.train()(cloud(100, 1)).features.sum()
    fused.head.bias.data = torch.zeros(2)
    with pytest.raises(ValueError, match=r"head\.bias has the shape \[2\]"):
        loss.backward()


# ---- counters of batch norms -----------------------------------------------------------------------------------------


def test_counters_that_differ():
    """Without a momentum, the share of a batch depends on the number of those before it."""
    module = two_norms(momentum=None)
    fused = minuet.torch.fuse(module, cloud(60, 5)).train()
    for capacity in ({}, {"rows": 200, "capacities": []}):
        module[1].num_batches_tracked.fill_(99)
        before = copy.deepcopy(fused.state_dict())
        with pytest.raises(ValueError, match="'1' has 99, and '4' has"):
            fused(cloud(80, 1, **dict(capacity)))
        assert all(torch.equal(one, two) for one, two in zip(before.values(), fused.state_dict().values(), strict=True))
        module[4].num_batches_tracked.fill_(99)
        fused(cloud(80, 1, **dict(capacity)))
        assert module[1].num_batches_tracked == module[4].num_batches_tracked == 100
    fused.eval()(cloud(80, 1))
    module[1].num_batches_tracked = torch.zeros((), dtype=torch.int32)
    with pytest.raises(ValueError, match=r"'1' is torch\.int32"):
        fused.train()(cloud(80, 1))


# ---- modes of torch --------------------------------------------------------------------------------------------------


def test_a_module_of_inference_mode():
    with torch.inference_mode():
        module = UNet().eval()
        fused = minuet.torch.fuse(copy.deepcopy(module), cloud(60, 5))
        for training in (False, True):
            got, want = (each.train(training)(cloud(90, 1)).features for each in (fused, module))
            expect_near(got, want, 1e-5)


def test_other_default_dtypes():
    module, fused = pair("unet")
    x = cloud(90, 1)
    torch.set_default_dtype(torch.float64)
    try:
        got = fused(x).features
    finally:
        torch.set_default_dtype(torch.float32)
    assert got.dtype == torch.float32
    expect_near(got, module(x).features, 5e-6)


def test_a_schedule_of_momenta():
    """The programs of old ones are dropped."""
    module, fused = pair("norms")
    for number in range(40):
        for part in [*module.modules(), *fused.modules()]:
            if isinstance(part, nn.BatchNorm1d):
                part.momentum = 0.5 / (1 + number)
        for each in (module, fused):
            each.train()(cloud(40, 1))
    expect_same(step(fused, cloud(50, 2)), step(module, cloud(50, 2)))
    (runtime,) = fused.__dict__["_runtimes"].values()
    assert len(runtime.programs._programs) < 20


def test_a_module_without_parameters():
    module = spconv.SparseSequential(spconv.SparseMaxPool3d(2, 2))
    fused = minuet.torch.fuse(module, cloud(60, 5))
    assert fused.lay_out() is fused
    assert torch.equal(fused(cloud(90, 1)).features, module(cloud(90, 1)).features)
