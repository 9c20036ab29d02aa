"""A convolution, a batch norm and a ReLU of a SparseSequential, which are one step of autograd in plain eager mode."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

import minuet.torch.spconv as spconv  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch_problems import GEOMETRIES, cloud, normal, poisoned  # noqa: E402, F401

LAYERS = {
    "submanifold": lambda: spconv.SubMConv3d(4, 8, 3, bias=False, indice_key="a"),
    "bias": lambda: spconv.SubMConv3d(4, 8, 3, indice_key="a"),
    "one offset": lambda: spconv.SubMConv3d(4, 8, 1, bias=False),
    "strided": lambda: spconv.SparseConv3d(4, 8, 2, 2, bias=False, indice_key="b"),
    "transposed": lambda: spconv.SparseConvTranspose3d(4, 8, 2, 2),
}


@pytest.fixture
def input(generator):
    coordinates = cloud(generator, GEOMETRIES["submanifold"], 40)
    coordinates = torch.cat([torch.zeros_like(coordinates[:, :1]), coordinates[:, 1:] - coordinates[:, 1:].amin(0)], 1)
    coordinates = torch.unique(coordinates, dim=0)
    return normal(generator, len(coordinates), 4), coordinates


def run(network, given, *, dtype=torch.float32, capacities=None, call=None):
    """Returns the output, its gradients and the statistics of a step."""
    features, coordinates = given
    features = features.clone().requires_grad_()
    shape = (coordinates[:, 1:].amax(0) + 1).tolist()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype != torch.float32):
        x = spconv.SparseConvTensor(features, coordinates, shape, 1, capacities=capacities)
        y = (call or network)(x).features
    y.float().square().sum().backward()
    gradients = [parameter.grad for parameter in network.parameters() if parameter.requires_grad]
    return y, [y.detach(), features.grad, *gradients, *(buffer.clone() for buffer in network.buffers())]


def expect_equal(got, wanted):
    assert len(got) == len(wanted)
    for one, two in zip(got, wanted, strict=True):
        assert one.dtype == two.dtype
        assert torch.equal(one, two)


def watch(network):
    """Adds a hook to the convolution, so that the layers run one by one. Returns the list of its calls."""
    seen = []
    network[0].register_forward_hook(lambda *given: seen.append(given))
    return seen


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layer", LAYERS)
def test_bits_are_those_of_the_layers(input, layer, dtype, relu):
    network = spconv.SparseSequential(LAYERS[layer](), nn.BatchNorm1d(8), *[nn.ReLU()] * relu)
    apart = copy.deepcopy(network)
    seen = watch(apart)
    y, got = run(network, input, dtype=dtype)
    assert y.grad_fn.name() == "_UnitBackward"
    z, wanted = run(apart, input, dtype=dtype)
    assert z.grad_fn.name() != "_UnitBackward"
    assert len(seen) == 1
    expect_equal(got, wanted)
    assert network[1].num_batches_tracked == 1


def test_capacity_mode(input):
    network = spconv.SparseSequential(LAYERS["strided"](), nn.BatchNorm1d(8), nn.ReLU())
    apart = copy.deepcopy(network)
    watch(apart)
    y, got = run(network, input, capacities=[200])
    assert y.grad_fn.name() == "_UnitBackward"
    expect_equal(got, run(apart, input, capacities=[200])[1])


@pytest.mark.parametrize("frozen", ["0.weight", "1.weight", "1.bias"])
def test_frozen_parameters(input, frozen):
    network = spconv.SparseSequential(LAYERS["submanifold"](), nn.BatchNorm1d(8), nn.ReLU())
    network.get_parameter(frozen).requires_grad_(False)
    apart = copy.deepcopy(network)
    watch(apart)
    y, got = run(network, input)
    assert y.grad_fn.name() == "_UnitBackward"
    expect_equal(got, run(apart, input)[1])
    assert network.get_parameter(frozen).grad is None


def test_layers_that_cannot_be_joined(input):
    """Hooks, the eval mode, other momenta and subclasses keep their meaning."""

    class Layer(spconv.SubMConv3d):
        def forward(self, x):
            return super().forward(x)

    def norm(**options):
        return spconv.SparseSequential(LAYERS["submanifold"](), nn.BatchNorm1d(8, **options))

    cumulative, still, untracked = norm(momentum=None), norm(momentum=0.0), norm(track_running_stats=False)
    evaluated, derived = norm(), spconv.SparseSequential(Layer(4, 8, 3), nn.BatchNorm1d(8))
    evaluated.eval()
    for network in (cumulative, still, untracked, evaluated, derived):
        assert run(network, input)[0].grad_fn.name() != "_UnitBackward"
    assert still[1].num_batches_tracked == 1
    assert torch.equal(still[1].running_mean, torch.zeros(8))
    assert evaluated[1].num_batches_tracked == 0
    hooked = norm()
    seen = []
    hooked[1].register_full_backward_hook(lambda *given: seen.append(given))
    run(hooked, input)
    assert len(seen) == 1


def test_numbers_of_batches_of_any_shape(input):
    """A module of torch adds 1 to what it has."""
    network = spconv.SparseSequential(LAYERS["submanifold"](), nn.BatchNorm1d(8))
    network[1].num_batches_tracked = torch.tensor([3, 4])
    y, _ = run(network, input)
    assert network[1].num_batches_tracked.tolist() == [4, 5]
    assert y.grad_fn.name() != "_UnitBackward"


@pytest.mark.parametrize("layer", [0, 1])
def test_parametrized_layers(input, layer):
    """A weight that is computed when it is read is computed once in a step."""

    class Doubled(nn.Module):
        def forward(self, weight):
            seen.append(weight)
            return 2 * weight

    network = spconv.SparseSequential(LAYERS["submanifold"](), nn.BatchNorm1d(8), nn.ReLU())
    apart = copy.deepcopy(network)
    seen = []
    nn.utils.parametrize.register_parametrization(network[layer], "weight", Doubled())
    seen.clear()
    y, _ = run(network, input)
    assert len(seen) == 1
    with torch.no_grad():
        apart[layer].weight.mul_(2)
    expect_equal([y], [run(apart, input)[0]])
    name = f"{layer}.parametrizations.weight.original"
    assert torch.equal(network.get_parameter(name).grad, 2 * apart[layer].weight.grad)


@pytest.mark.parametrize("name", ["0.weight", "0.bias", "1.weight", "1.bias"])
def test_parameters_that_are_attributes(input, name):
    """Some wrappers of modules replace parameters by tensors."""
    network = spconv.SparseSequential(LAYERS["bias"](), nn.BatchNorm1d(8), nn.ReLU())
    apart = copy.deepcopy(network)
    layer, attribute = network[int(name[0])], name[2:]
    values = getattr(layer, attribute).detach().clone().requires_grad_()
    delattr(layer, attribute)
    setattr(layer, attribute, values)
    y, _ = run(network, input)
    z, _ = run(apart, input)
    expect_equal([y, values.grad], [z, apart.get_parameter(name).grad])


def test_modes_see_the_ops(input):
    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    network = spconv.SparseSequential(LAYERS["submanifold"](), nn.BatchNorm1d(8), nn.ReLU())
    twin = copy.deepcopy(network)
    _, got = run(network, input)
    seen = []
    with Watching():
        _, wanted = run(twin, input)
    ops = torch.ops.minuet
    for op in (ops.convolution, ops.batch_norm, ops.convolution_backward, ops.batch_norm_backward):
        assert op.default in seen
    expect_equal(got, wanted)


def test_profiles_name_the_ops(input):
    network = spconv.SparseSequential(LAYERS["submanifold"](), nn.BatchNorm1d(8), nn.ReLU())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run(network, input)
    seen = {event.name for event in profile.events()}
    for name in ("pyramid", "convolution", "batch_norm", "convolution_backward", "batch_norm_backward"):
        assert f"minuet::{name}" in seen
    y, _ = run(network, input)
    assert y.grad_fn.name() == "_UnitBackward"


def test_checkpoints_and_errors(input):
    network = spconv.SparseSequential(LAYERS["submanifold"](), nn.BatchNorm1d(8), nn.ReLU(inplace=True))
    twin = copy.deepcopy(network)
    _, got = run(network, input)
    _, wanted = run(twin, input, call=lambda x: checkpoint(twin, x, use_reentrant=False))
    expect_equal(got[:5], wanted[:5])

    features, coordinates = input
    shape = (coordinates[:, 1:].amax(0) + 1).tolist()
    features = features.requires_grad_()
    y = network(spconv.SparseConvTensor(features, coordinates, shape, 1)).features
    (first,) = torch.autograd.grad(y.sum(), features, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(first.sum(), features)
    y = network(spconv.SparseConvTensor(features, coordinates, shape, 1)).features
    torch.autograd.grad(y.sum(), features, retain_graph=True)
    with torch.no_grad():
        network[0].weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = network(spconv.SparseConvTensor(features, coordinates, shape, 1)).features
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
