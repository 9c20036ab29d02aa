"""Layers and networks under MinkowskiEngine's names, against the same ones in plain PyTorch with float64."""

from __future__ import annotations

import copy
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import minkowski_networks  # noqa: E402
import minuet  # noqa: E402
import minuet.torch.minkowski as ME  # noqa: E402, N812
import numpy as np  # noqa: E402
import plain_minkowski  # noqa: E402
from torch import nn  # noqa: E402
from torch_problems import poisoned  # noqa: E402, F401

CHANNELS = 4
Layers = Callable[[Any], list[nn.Module]]

#: The number of axes, and layers one behind the other.
LAYERS: dict[str, tuple[int, Layers]] = {
    "stride 1": (3, lambda m: [m.MinkowskiConvolution(4, 6, 3, bias=True), m.MinkowskiConvolution(6, 5, 5)]),
    "mixed sizes": (3, lambda m: [m.MinkowskiConvolution(4, 6, (3, 1, 5), dilation=(1, 1, 2))]),
    "even": (
        3,
        lambda m: [m.MinkowskiConvolution(4, 6, 2), m.MinkowskiConvolution(6, 5, (4, 3, 2), dilation=(1, 2, 1))],
    ),
    "one offset": (3, lambda m: [m.MinkowskiConvolution(4, 6, 1, bias=True), m.MinkowskiConvolution(6, 5, 1, 2)]),
    "one offset transposed": (3, lambda m: [m.MinkowskiConvolutionTranspose(4, 6, 1, bias=True)]),
    "cross": (
        3,
        lambda m: [
            m.MinkowskiConvolution(
                4,
                6,
                kernel_generator=m.KernelGenerator((3, 5, 3), region_type=m.RegionType.HYPER_CROSS, dimension=3),
                dimension=3,
            ),
            m.MinkowskiConvolution(
                6,
                5,
                kernel_generator=m.KernelGenerator(3, 2, 2, region_type=m.RegionType.HYPER_CROSS, dimension=3),
                dimension=3,
            ),
        ],
    ),
    "strides": (
        3,
        lambda m: [m.MinkowskiConvolution(4, 6, 2, 2), m.MinkowskiConvolution(6, 5, 3, (1, 2, 3), bias=True)],
    ),
    "wide and even strides": (3, lambda m: [m.MinkowskiConvolution(4, 6, 4, 2), m.MinkowskiConvolution(6, 5, 5, 2)]),
    "there and back": (
        3,
        lambda m: [
            m.MinkowskiConvolution(4, 6, 3, 2),
            m.MinkowskiConvolution(6, 6, 2, 2),
            m.MinkowskiConvolution(6, 6, 3),
            m.MinkowskiConvolutionTranspose(6, 6, 3, 2, bias=True),
            m.MinkowskiConvolutionTranspose(6, 5, 4, 2),
        ],
    ),
    "back at once": (
        3,
        lambda m: [
            m.MinkowskiConvolution(4, 6, 2, 2),
            m.MinkowskiConvolution(6, 6, 2, 2),
            m.MinkowskiConvolutionTranspose(6, 5, 4, 4),
        ],
    ),
    "transposed within": (3, lambda m: [m.MinkowskiConvolutionTranspose(4, 6, (3, 2, 1))]),
    "generative of stride 1": (
        3,
        lambda m: [
            m.MinkowskiGenerativeConvolutionTranspose(4, 6, 3, dilation=2),
            m.MinkowskiGenerativeConvolutionTranspose(6, 5, (2, 1, 3), bias=True),
        ],
    ),
    "expanded with stride 1": (
        3,
        lambda m: [
            m.MinkowskiConvolutionTranspose(4, 6, (2, 3, 1), expand_coordinates=True),
            m.MinkowskiPoolingTranspose(3, 1, expand_coordinates=True),
        ],
    ),
    "generative": (
        3,
        lambda m: [
            m.MinkowskiConvolution(4, 6, 2, 4),
            m.MinkowskiGenerativeConvolutionTranspose(6, 6, 2, 2, bias=True),
            m.MinkowskiConvolution(6, 6, 3),
            m.MinkowskiGenerativeConvolutionTranspose(6, 6, 3, 2),
            m.MinkowskiConvolution(6, 5, 2, 2),
        ],
    ),
    "onto an unknown stride": (
        3,
        lambda m: [m.MinkowskiConvolution(4, 6, 2, 4), m.MinkowskiConvolutionTranspose(6, 5, 2, 2)],
    ),
    "expanded": (
        3,
        lambda m: [
            m.MinkowskiConvolution(4, 6, 3, expand_coordinates=True),
            m.MinkowskiConvolution(6, 5, 3, 2, expand_coordinates=True),
            m.MinkowskiConvolutionTranspose(5, 5, 3, 2, expand_coordinates=True),
        ],
    ),
    "channelwise": (
        3,
        lambda m: [m.MinkowskiChannelwiseConvolution(4, 3, bias=True), m.MinkowskiChannelwiseConvolution(4, 2, 2)],
    ),
    "sums": (
        3,
        lambda m: [
            m.MinkowskiSumPooling(2, 2),
            m.MinkowskiSumPooling(3, 1),
            m.MinkowskiSumPooling(3, 2),
            m.MinkowskiPoolingTranspose(3, 2),
            m.MinkowskiPoolingTranspose(2, 2),
        ],
    ),
    "averages": (3, lambda m: [m.MinkowskiAvgPooling(3, 3), m.MinkowskiAvgPooling((3, 2, 1), 1)]),
    "maxima": (3, lambda m: [m.MinkowskiMaxPooling(3, 1, 2), m.MinkowskiMaxPooling(2, 2), m.MinkowskiMaxPooling(3, 2)]),
    "unpooled": (
        3,
        lambda m: [
            m.MinkowskiMaxPooling(3, 3),
            m.MinkowskiPoolingTranspose(3, 3),
            m.MinkowskiPoolingTranspose(3, 1),
            m.MinkowskiAvgPooling(2, 4),
            m.MinkowskiPoolingTranspose(2, 2, expand_coordinates=True),
        ],
    ),
    "global sum": (3, lambda m: [m.MinkowskiConvolution(4, 6, 2, 2), m.MinkowskiGlobalSumPooling()]),
    "global average": (3, lambda m: [m.MinkowskiGlobalAvgPooling(), m.MinkowskiLinear(4, 6)]),
    "global maximum": (3, lambda m: [m.MinkowskiGlobalMaxPooling(), m.MinkowskiLinear(4, 6, bias=False)]),
    "norms": (
        3,
        lambda m: [
            m.MinkowskiConvolution(4, 8, 3),
            m.MinkowskiBatchNorm(8, eps=1e-3, momentum=0.02),
            m.MinkowskiReLU(inplace=True),
            m.MinkowskiConvolution(8, 8, 2, 2),
            m.MinkowskiBatchNorm(8, affine=False, track_running_stats=False),
            m.MinkowskiReLU(),
            m.MinkowskiConvolution(8, 8, 3),
            m.MinkowskiBatchNorm(8, momentum=None),
            m.MinkowskiReLU(),
            m.MinkowskiInstanceNorm(8),
        ],
    ),
    "one axis": (1, lambda m: [m.MinkowskiConvolution(4, 6, 3, dimension=1), m.MinkowskiMaxPooling(2, 2, dimension=1)]),
    "two axes": (
        2,
        lambda m: [
            m.MinkowskiConvolution(4, 6, (3, 5), dimension=2),
            m.MinkowskiConvolution(6, 6, (2, 4), 2, dimension=2),
            m.MinkowskiConvolutionTranspose(6, 5, 3, 2, dimension=2),
        ],
    ),
    "four axes": (
        4,
        lambda m: [
            m.MinkowskiConvolution(4, 6, (3, 1, 2, 3), dimension=4),
            m.MinkowskiConvolution(6, 5, 2, (2, 2, 1, 2), dimension=4),
        ],
    ),
}


def draw_cloud(generator: np.random.Generator, ndim: int, rows: int = 200, clouds: int = 3) -> torch.Tensor:
    """Coordinates int32 [rows, 1 + axes], some of which are negative and some occur twice."""
    reach = {1: 40, 2: 9, 3: 5, 4: 3}[ndim]
    cells = generator.integers(-reach, reach, (rows, ndim))
    return torch.from_numpy(np.hstack([generator.integers(0, clouds, (rows, 1)), cells]).astype(np.int32))


def pair_of(make: Callable[[Any], nn.Module], seed: int = 2) -> tuple[nn.Module, nn.Module]:
    """Returns a network in plain PyTorch and in Minuet with the same parameters, by their names."""
    torch.manual_seed(seed)
    plain = make(plain_minkowski).double()
    ours = make(ME)
    ours.load_state_dict(plain.state_dict())
    return plain, ours.float()


def sequence(m: Any, name: str) -> nn.Module:
    return nn.Sequential(*_with_dimension(m, LAYERS[name][1]))


def _with_dimension(m: Any, layers: Layers) -> list[nn.Module]:
    """Makes layers, which have three axes where they do not say how many."""

    class Names:
        def __getattr__(self, name: str) -> Any:
            made = getattr(m, name)
            needs = isinstance(made, type) and hasattr(made, "forward") and "Global" not in name
            needs = needs and ("Conv" in name or "Pool" in name)
            return (lambda *args, **kwargs: made(*args, **{"dimension": 3, **kwargs})) if needs else made

    return layers(Names())


def in_order(x: Any) -> torch.Tensor:
    """The features in ascending order of the coordinates."""
    coordinates = x.C.numpy()
    return x.F[torch.from_numpy(np.lexsort(coordinates.T[::-1]).copy())]


def sorted_rows(coordinates: torch.Tensor) -> list[list[int]]:
    return sorted(coordinates.tolist())


def expect_close(found: torch.Tensor, wanted: torch.Tensor, bound: float = 2e-5) -> None:
    assert found.shape == wanted.shape
    assert (found.double() - wanted).norm() <= bound * wanted.norm() + 1e-9


def expect_same(
    plain: nn.Module,
    ours: nn.Module,
    run: Callable[[nn.Module, Any, torch.Tensor], list[Any]],
    features: torch.Tensor,
    bound: float = 2e-5,
) -> None:
    """Compares coordinates, outputs, the gradients of everything and the running statistics."""
    results = []
    for network, m in ((plain, plain_minkowski), (ours, ME)):
        given = features.to(torch.float64 if m is plain_minkowski else torch.float32, copy=True).requires_grad_()
        outputs = run(network, m, given)
        rows = [in_order(x) for x in outputs]
        generator = torch.Generator().manual_seed(3)
        loss = sum((o * torch.randn(o.shape, dtype=torch.float64, generator=generator)).sum() for o in rows)
        loss.backward()
        results.append((outputs, rows, given.grad))
    for found, wanted in zip(results[1][0], results[0][0], strict=True):
        assert sorted_rows(found.C) == sorted_rows(wanted.C)
    for found, wanted in zip(results[1][1], results[0][1], strict=True):
        expect_close(found, wanted, bound)
    expect_close(results[1][2], results[0][2], bound)
    scale = max((p.grad.norm() for p in plain.parameters()), default=0)
    for (name, wanted), found in zip(plain.named_parameters(), ours.parameters(), strict=True):
        # A bias in front of a batch norm has a gradient of 0, of which rounding is left.
        assert (found.grad.double() - wanted.grad).norm() <= 2.5 * bound * wanted.grad.norm() + 2e-7 * scale, name
    for (name, wanted), found in zip(plain.named_buffers(), ours.buffers(), strict=True):
        torch.testing.assert_close(found.to(wanted.dtype), wanted, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, generator):
    cloud = draw_cloud(generator, LAYERS[name][0])
    features = torch.from_numpy(generator.normal(size=(len(cloud), CHANNELS)))
    plain, ours = pair_of(lambda m: sequence(m, name))
    expect_same(plain, ours, lambda n, m, f: [n(m.SparseTensor(f, cloud))], features)


@pytest.mark.parametrize("ndim", [2, 3])
def test_mink_unet14(ndim, generator):
    cloud = draw_cloud(generator, ndim, 250)
    cloud[:, 1:] *= torch.from_numpy(generator.integers(1, 4, (len(cloud), 1)).astype(np.int32))
    features = torch.from_numpy(generator.normal(size=(len(cloud), CHANNELS)))
    planes = [8, 8, 16, 16, 16, 8, 8, 8]
    plain, ours = pair_of(lambda m: minkowski_networks.mink_unet14(m, CHANNELS, 5, 8, planes, ndim))
    expect_same(plain, ours, lambda n, m, f: [n(m.SparseTensor(f, cloud))], features, 2e-4)


def test_a_checkpoint_runs_in_minuet_without_torch(context, cpu, tmp_path, generator):
    """The network of the library reads the checkpoint in MinkowskiEngine's order, and computes the same."""
    widths = [8, 8, 16, 16, 24, 16, 16, 8, 8]
    network = minkowski_networks.mink_unet14(ME, CHANNELS, 20, widths[0], widths[1:], 3)
    cloud = torch.unique(draw_cloud(generator, 3, 300), dim=0)
    features = torch.from_numpy(generator.normal(size=(len(cloud), CHANNELS))).float()
    for _ in range(3):
        network(ME.SparseTensor(features, cloud))
    wanted = network.eval()(ME.SparseTensor(features, cloud)).F.detach()
    torch.save(network.state_dict(), tmp_path / "minkunet14a.pth")
    plan = minuet.Plan.network(context, "minkunet14a", channels=widths, weights=tmp_path / "minkunet14a.pth")
    plan.load(cpu)
    execution = minuet.Execution(plan, cpu)
    execution.prepare(cpu.to_device(cloud.numpy()))
    found = torch.from_numpy(cpu.to_host(execution.run(cpu.to_device(features.numpy()))).copy())
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)


def test_resnet14(generator):
    cloud = draw_cloud(generator, 3, 600)
    cloud[:, 1:] *= 4
    cloud[:, 1:] += torch.from_numpy(generator.integers(0, 4, (len(cloud), 3)).astype(np.int32))
    features = torch.from_numpy(generator.normal(size=(len(cloud), CHANNELS)))
    plain, ours = pair_of(lambda m: minkowski_networks.resnet14(m, CHANNELS, 5, [8, 8, 16], 3))
    expect_same(plain, ours, lambda n, m, f: [n(m.SparseTensor(f, cloud))], features, 2e-4)


def test_completion(generator):
    cloud = draw_cloud(generator, 3, 120, 2)
    features = torch.from_numpy(generator.normal(size=(len(cloud), CHANNELS)))
    plain, ours = pair_of(lambda m: minkowski_networks.completion(m, CHANNELS, [8, 8]))
    expect_same(plain, ours, lambda n, m, f: [n(m.SparseTensor(f, cloud))], features, 2e-4)


def test_outputs_on_given_coordinates(generator):
    cloud, other = draw_cloud(generator, 3), draw_cloud(generator, 3)
    features = torch.from_numpy(generator.normal(size=(len(cloud), CHANNELS)))

    def make(m: Any) -> nn.Module:
        made = nn.ModuleDict({"same": m.MinkowskiConvolution(4, 6, 3, dimension=3)})
        made["down"] = m.MinkowskiConvolution(4, 6, 2, 2, dimension=3)
        made["up"] = m.MinkowskiConvolutionTranspose(6, 6, 3, 2, bias=True, dimension=3)
        made["sum"] = m.MinkowskiSumPooling(3, 1, dimension=3)
        return made

    def run(network: nn.Module, m: Any, given: torch.Tensor) -> list[Any]:
        x = m.SparseTensor(given, cloud)
        ones = given.new_ones(len(other), 1).detach()
        near = m.SparseTensor(ones, other, coordinate_manager=x.coordinate_manager)
        far = m.SparseTensor(ones, other * torch.tensor([1, 2, 2, 2]).int(), 2, coordinate_manager=x.coordinate_manager)
        return [network["same"](x, near), network["sum"](x, near), network["up"](network["down"](x, far), near)]

    plain, ours = pair_of(make)
    expect_same(plain, ours, run, features)


@pytest.mark.parametrize("kind", ["less", "more", "permuted", "apart", "empty"])
def test_transposed_layers_of_stride_1_on_other_sets(kind, generator):
    """The input is on the coarser side of such a layer, although both sides have one stride."""
    cloud = torch.unique(draw_cloud(generator, 3), dim=0)
    cloud = cloud[torch.from_numpy(generator.permutation(len(cloud)))]
    step = torch.tensor([0, 1, 0, 0], dtype=torch.int32)
    if kind == "apart":
        cloud[:, 1] *= 2  # The other set has the odd numbers along this axis.
    other = {
        "less": cloud[: len(cloud) // 2],
        "more": torch.unique(torch.cat([cloud + step, cloud]), dim=0),
        "permuted": cloud.flip(0),
        "apart": cloud + step,
        "empty": cloud[:0],
    }[kind]
    features = torch.from_numpy(generator.normal(size=(len(cloud), CHANNELS)))

    def make(m: Any) -> nn.Module:
        made = nn.ModuleDict({"convolution": m.MinkowskiConvolutionTranspose(4, 6, (3, 2, 1), bias=True, dimension=3)})
        made["dilated"] = m.MinkowskiConvolutionTranspose(4, 5, 3, dilation=2, dimension=3)
        made["pooling"] = m.MinkowskiPoolingTranspose(3, 1, dimension=3)
        return made

    def run(network: Any, m: Any, given: torch.Tensor) -> list[Any]:
        x = m.SparseTensor(given, cloud)
        target = m.SparseTensor(
            torch.zeros(len(other), 1, dtype=given.dtype), other, coordinate_manager=x.coordinate_manager
        )
        return [layer(x, target) for layer in network.values()]

    expect_same(*pair_of(make), run, features)


def test_sums_of_tensors_with_other_voxels(generator):
    cloud, other = draw_cloud(generator, 3), draw_cloud(generator, 3, 150)
    features = torch.from_numpy(generator.normal(size=(len(cloud), CHANNELS)))

    def run(network: nn.Module, m: Any, given: torch.Tensor) -> list[Any]:
        x = m.SparseTensor(given, cloud)
        y = network(m.SparseTensor(given[: len(other)], other, coordinate_manager=x.coordinate_manager))
        return [x + y, x - y, y + x, (x + y) + (x - y)]

    plain, ours = pair_of(lambda m: m.MinkowskiConvolution(4, 4, 3, dimension=3))
    expect_same(plain, ours, run, features)


def test_the_examples_of_the_page_run():
    page = pathlib.Path(ME.__file__).parents[1] / "PEERS.md"
    examples = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(examples) == 3
    for example in examples:
        exec(compile(example, page.name, "exec"), {})


def test_given_coordinates_are_rounded_down_before_they_are_compared():
    """-0.5 and 0.5 are in two cells, and both are 0 when their fractions are cut off."""
    x = ME.SparseTensor(torch.ones(1, CHANNELS), torch.tensor([[0, -1, 0, 0]], dtype=torch.int32))
    given = torch.tensor([[0, -0.5, 0, 0], [0, 0.5, 0, 0], [0, 0.25, 0, 0]])
    made = ME.MinkowskiSumPooling(1, 1, dimension=3)(x, given)
    assert made.C.tolist() == [[0, -1, 0, 0], [0, 0, 0, 0]]
    assert made.F.tolist() == [[1] * CHANNELS, [0] * CHANNELS]


def test_layers_with_one_kernel_generator():
    """Whether a layer expands its coordinates is its own."""
    generator = ME.KernelGenerator(3, dimension=3)
    layers = [
        ME.MinkowskiConvolution(CHANNELS, 4, kernel_generator=generator, expand_coordinates=expands, dimension=3)
        for expands in (False, True, False)
    ]
    x = ME.SparseTensor(torch.ones(1, CHANNELS), torch.zeros(1, 4, dtype=torch.int32))
    assert [len(layer(x)) for layer in layers] == [1, 27, 1]
    assert not generator.expand_coordinates


#: Layers that lead to sets that the host has to count.
COUNTED = (
    "back at once", "expanded", "expanded with stride 1", "generative", "generative of stride 1",
    "onto an unknown stride", "unpooled",
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name in LAYERS if name not in COUNTED])
def test_capacity_mode_has_the_rows_of_exact_mode(name, generator):
    ndim = LAYERS[name][0]
    cloud = torch.unique(draw_cloud(generator, ndim), dim=0)
    rows, more = len(cloud), 30
    network = sequence(ME, name)
    given = torch.from_numpy(generator.normal(size=(rows, CHANNELS))).float().requires_grad_()
    exact = copy.deepcopy(network)
    wanted = exact(ME.SparseTensor(given, cloud))
    wanted.F.square().sum().backward()
    padded = torch.full((rows + more, CHANNELS), torch.nan)
    padded[:rows] = given.detach()
    padded.requires_grad_()
    coordinates = torch.cat([cloud, torch.full((more, 1 + ndim), 1, dtype=torch.int32)])
    x = ME.SparseTensor(
        padded,
        coordinates,
        count=torch.tensor([rows], dtype=torch.int32),
        capacities=lambda *_: 500,
        batch_size=int(cloud[:, 0].max()) + 1,
    )
    found = network(x)
    found.F.square().sum().backward()
    assert not x.level.geometry.status().any()
    used = len(wanted)
    if found.count is not None:
        assert found.count.tolist() == [used]
        assert not found.F[used:].any()
    assert torch.equal(found.C[:used], wanted.C)
    torch.testing.assert_close(found.F[:used], wanted.F, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(padded.grad[:rows], given.grad, rtol=1e-3, atol=1e-4)
    assert not padded.grad[rows:].any()
    for ours, theirs in zip(network.parameters(), exact.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-3)
