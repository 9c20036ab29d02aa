"""Layers and networks under spconv's names, against the same ones in plain PyTorch with float64."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import minuet.torch.spconv as spconv  # noqa: E402
import peer_networks  # noqa: E402
import plain_spconv  # noqa: E402
from spconv_problems import BATCH, CHANNELS, SHAPE, draw_cloud, draw_features, small  # noqa: E402
from torch import nn  # noqa: E402

LAYERS: dict[str, tuple[list[int], Callable[[Any], list[nn.Module]]]] = {
    "submanifold": (SHAPE, lambda s: [s.SubMConv3d(4, 6, 3, indice_key="a"), s.SubMConv3d(6, 5, 3, indice_key="a")]),
    "submanifold dilated": (SHAPE, lambda s: [s.SubMConv3d(4, 6, (3, 1, 5), dilation=(1, 1, 2), bias=False)]),
    "submanifold even": (SHAPE, lambda s: [s.SubMConv3d(4, 6, (2, 3, 4))]),
    "one offset": (SHAPE, lambda s: [s.SubMConv3d(4, 6, 1, padding=1), s.SparseConv3d(6, 3, 1, bias=False)]),
    "one offset strided": (SHAPE, lambda s: [s.SparseConv3d(4, 6, 1, 2)]),
    "strided": (SHAPE, lambda s: [s.SparseConv3d(4, 6, 3, 2, 1)]),
    "stride 1": (SHAPE, lambda s: [s.SparseConv3d(4, 6, 3, 1, 1), s.SparseConv3d(6, 6, 2, padding=1)]),
    "mixed": (SHAPE, lambda s: [s.SparseConv3d(4, 6, (3, 1, 2), (2, 1, 2), (1, 0, 0), (2, 1, 1), bias=False)]),
    "groups": (SHAPE, lambda s: [s.SubMConv3d(4, 8, 3, groups=4), s.SparseConv3d(8, 8, 3, 2, 1, groups=2)]),
    "inverse": (
        SHAPE,
        lambda s: [
            s.SparseConv3d(4, 6, 3, 2, 1, indice_key="down"),
            s.SubMConv3d(6, 6, 3, indice_key="within"),
            s.SparseConv3d(6, 6, 2, 2, indice_key="deeper"),
            s.SparseInverseConv3d(6, 6, 2, "deeper"),
            s.SparseInverseConv3d(6, 5, 3, "down", bias=False),
        ],
    ),
    "transposed": (SHAPE, lambda s: [s.SparseConvTranspose3d(4, 6, 3, 2, 1)]),
    "transposed padded": (SHAPE, lambda s: [s.SparseConvTranspose3d(4, 6, 2, 2, output_padding=1, bias=False)]),
    "max pool": (SHAPE, lambda s: [s.SparseMaxPool3d(2)]),
    "max pool inverse": (
        SHAPE,
        lambda s: [s.SparseMaxPool3d(3, 2, 1, indice_key="p"), s.SparseInverseConv3d(4, 5, 3, "p")],
    ),
    "average pool": (SHAPE, lambda s: [s.SparseAvgPool3d(3, 2, 1)]),
    "one axis": ([600], lambda s: [s.SubMConv1d(4, 6, 3), s.SparseConv1d(6, 5, 3, 2, 1), s.SparseMaxPool1d(2)]),
    "two axes": (
        [20, 17],
        lambda s: [s.SubMConv2d(4, 6, 3), s.SparseConvTranspose2d(6, 5, 3, 2, 1), s.SparseAvgPool2d(2)],
    ),
    "four axes": (
        [5, 4, 5, 3],
        lambda s: [s.SubMConv4d(4, 6, 3), s.SparseConv4d(6, 5, 2, 2), s.SparseMaxPool4d((2, 2, 2, 1), 1)],
    ),
    "norms": (
        SHAPE,
        lambda s: [
            s.SubMConv3d(4, 8, 3, bias=False),
            nn.BatchNorm1d(8, eps=1e-3, momentum=0.01),
            nn.ReLU(),
            s.SparseConv3d(8, 8, 3, 2, 1, bias=False),
            nn.BatchNorm1d(8, momentum=None),
            nn.LeakyReLU(0.2),
            nn.BatchNorm1d(8, affine=False, track_running_stats=False),
        ],
    ),
}


def pair_of(make: Callable[[Any], nn.Module]) -> tuple[nn.Module, nn.Module]:
    """Returns a network in plain PyTorch and in Minuet with the same parameters, by their names."""
    torch.manual_seed(2)
    plain = make(plain_spconv).double()
    ours = make(spconv)
    ours.load_state_dict(plain.state_dict())
    return plain, ours.float()


def sequence(s: Any, name: str) -> nn.Module:
    return s.SparseSequential(*LAYERS[name][1](s))


def expect_close(found: torch.Tensor, wanted: torch.Tensor, bound: float = 2e-5) -> None:
    assert found.shape == wanted.shape
    assert (found.double() - wanted).norm() <= bound * wanted.norm() + 1e-9


def expect_same(
    plain: nn.Module, ours: nn.Module, run: Callable[[nn.Module, Any, torch.Tensor], list[Any]], features: torch.Tensor
) -> None:
    """Compares outputs, the gradients of everything and the running statistics."""
    results = []
    for network, s in ((plain, plain_spconv), (ours, spconv)):
        given = features.to(torch.float64 if s is plain_spconv else torch.float32, copy=True).requires_grad_()
        outputs = [tensor.dense() for tensor in run(network, s, given)]
        generator = torch.Generator().manual_seed(3)
        loss = sum((o * torch.randn(o.shape, dtype=torch.float64, generator=generator)).sum() for o in outputs)
        loss.backward()
        results.append((outputs, given.grad))
    for found, wanted in zip(results[1][0], results[0][0], strict=True):
        expect_close(found, wanted)
    expect_close(results[1][1], results[0][1])
    scale = max((p.grad.norm() for p in plain.parameters()), default=0)
    for (name, wanted), found in zip(plain.named_parameters(), ours.parameters(), strict=True):
        # A bias in front of a batch norm has a gradient of 0, of which rounding is left.
        assert (found.grad.double() - wanted.grad).norm() <= 5e-5 * wanted.grad.norm() + 1e-7 * scale, name
    for (name, wanted), found in zip(plain.named_buffers(), ours.buffers(), strict=True):
        torch.testing.assert_close(found.to(wanted.dtype), wanted, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    shape = LAYERS[name][0]
    indices = draw_cloud(shape, 300)
    plain, ours = pair_of(lambda s: sequence(s, name))
    expect_same(
        plain, ours, lambda n, s, f: [n(s.SparseConvTensor(f, indices, shape, BATCH))], draw_features(len(indices))
    )


def test_voxel_backbone_8x():
    shape = [41, 24, 32]
    indices = draw_cloud(shape, 1500)
    plain, ours = pair_of(lambda s: peer_networks.voxel_backbone_8x(s, CHANNELS, shape, [4, 4, 8, 8, 16, 16]))
    expect_same(plain, ours, lambda n, s, f: n(f, indices, BATCH), draw_features(len(indices)))


def test_sp_unet():
    shape = [16, 24, 32]
    indices = draw_cloud(shape, 1500)
    plain, ours = pair_of(lambda s: peer_networks.sp_unet(s, CHANNELS, 5, 8, [8, 16, 16, 8], [1, 2, 1, 1]))
    expect_same(plain, ours, lambda n, s, f: [n(f, indices, shape, BATCH)], draw_features(len(indices)))


@pytest.mark.parametrize("name", LAYERS)
def test_capacity_mode_has_the_rows_of_exact_mode(name):
    shape = LAYERS[name][0]
    indices, more = draw_cloud(shape, 300), 40
    rows = len(indices)
    network = sequence(spconv, name)
    given = draw_features(rows).float().requires_grad_()
    exact = copy.deepcopy(network)
    wanted = exact(spconv.SparseConvTensor(given, indices, shape, BATCH))
    wanted.features.square().sum().backward()
    padded = torch.full((rows + more, CHANNELS), torch.nan)
    padded[:rows] = given.detach()
    padded.requires_grad_()
    padded_indices = torch.cat([indices, torch.full((more, indices.shape[1]), 7, dtype=torch.int32)])
    x = spconv.SparseConvTensor(
        padded, padded_indices, shape, BATCH, count=torch.tensor([rows], dtype=torch.int32), capacities=lambda *_: 7000
    )
    found = network(x)
    found.features.square().sum().backward()
    assert not x.level.geometry.status().any()
    used = len(wanted.features)
    assert found.count.tolist() == [used]
    assert len(found.features) in (7000, rows + more)
    assert torch.equal(found.indices[:used], wanted.indices)
    torch.testing.assert_close(found.features[:used], wanted.features)
    assert not found.features[used:].any()
    torch.testing.assert_close(padded.grad[:rows], given.grad)
    assert not padded.grad[rows:].any()
    for ours, theirs in zip(network.parameters(), exact.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found.dense(), wanted.dense())


def test_layers_that_mix_rows_are_refused_in_capacity_mode():
    indices = draw_cloud(SHAPE, 50)
    x = spconv.SparseConvTensor(draw_features(len(indices)).float(), indices, SHAPE, BATCH, capacities=[])
    with pytest.raises(ValueError, match="InstanceNorm1d may mix rows"):
        spconv.SparseSequential(nn.InstanceNorm1d(CHANNELS))(x)
    with pytest.raises(ValueError, match="select_by_index"):
        x.select_by_index(torch.tensor([0]))
    with pytest.raises(ValueError, match="sparse_add"):
        spconv.functional.sparse_add(x, x)


@pytest.mark.parametrize("name", ["norms", "inverse"])
def test_compiles_to_one_graph(name, recwarn):
    shape = LAYERS[name][0]
    indices = draw_cloud(shape, 100)
    count = torch.tensor([len(indices)], dtype=torch.int32)
    network = sequence(spconv, name)

    def step(network: nn.Module, features: torch.Tensor) -> torch.Tensor:
        x = spconv.SparseConvTensor(features, indices, shape, BATCH, count=count, capacities=lambda *_: 900)
        return network(x).features.square().sum()

    results = []
    for module, run in (
        (copy.deepcopy(network), step),
        (network, torch.compile(step, fullgraph=True, backend="aot_eager")),
    ):
        given = draw_features(len(indices)).float().requires_grad_()
        loss = run(module, given)
        loss.backward()
        results.append((loss, given.grad, [p.grad for p in module.parameters()], list(module.buffers())))
    for found, wanted in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(found, wanted)
    assert not [warning for warning in recwarn if "lru_cache" in str(warning.message)]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (lambda: spconv.SubMConv3d(4, 4, 5, indice_key="k"), "ksize .3, 3, 3., and this layer has .5, 5, 5."),
        (lambda: spconv.SubMConv3d(4, 4, 3, dilation=2, indice_key="k"), "dilation .1, 1, 1., and this layer has .2"),
        (
            lambda: spconv.SparseConv3d(4, 4, 3, indice_key="k"),
            "stands for a submanifold convolution, and this layer is",
        ),
        (lambda: spconv.SparseMaxPool3d(3, indice_key="k"), "exists already"),
        (lambda: spconv.SparseInverseConv3d(4, 4, 3, "k"), "needs that of a convolution or a pooling"),
        (lambda: spconv.SparseInverseConv3d(4, 4, 3, "other"), "no indice_key 'other'.*'k'"),
        (
            lambda: spconv.SparseSequential(
                spconv.SparseConv3d(4, 4, 3, 2, 1), spconv.SubMConv3d(4, 4, 3, indice_key="k")
            ),
            "other voxels",
        ),
    ],
)
def test_keys_stand_for_one_map(second, message):
    x = spconv.SubMConv3d(4, 4, 3, indice_key="k")(small())
    with pytest.raises(ValueError, match=message):
        second()(x)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (lambda: spconv.SparseInverseConv3d(4, 4, 2, "k"), "has the kernel size of the layer that it inverts"),
        (lambda: spconv.SparseConv3d(4, 4, 3, 2, 1, indice_key="k"), "only submanifold layers can share one"),
        (
            lambda: spconv.SparseSequential(spconv.SparseConv3d(4, 4, 2, 2), spconv.SparseInverseConv3d(4, 4, 3, "k")),
            "not on the voxels that the layer with indice_key 'k' made",
        ),
    ],
)
def test_an_inverse_fits_its_layer(second, message):
    x = spconv.SparseConv3d(4, 4, 3, 2, 1, indice_key="k")(small())
    with pytest.raises(ValueError, match=message):
        second()(x)


def test_keys_of_one_branch_do_not_reach_another():
    x = small()
    spconv.SubMConv3d(4, 4, 3, indice_key="k")(x)
    assert x.find_indice_pair("k") is None
    y = spconv.SparseConv3d(4, 4, 3, 2, 1, indice_key="k")(x)
    data = y.find_indice_pair("k")
    assert data is not None
    assert not data.is_subm
    assert data.indices is x.indices
    assert data.out_indices is y.indices
    assert (data.spatial_shape, data.out_spatial_shape) == (SHAPE, [5, 4, 6])


def test_submanifold_layers_keep_what_their_key_stands_for():
    y = spconv.SubMConv3d(4, 4, 3, padding=1, indice_key="k")(small())
    data = y.find_indice_pair("k")
    z = spconv.SubMConv3d(4, 4, 3, indice_key="k")(y)
    assert z.find_indice_pair("k") is data
    assert data.padding == [1, 1, 1]


def test_a_tensor_made_of_the_same_indices_shares_the_keys():
    down = spconv.SparseConv3d(4, 4, 3, 2, 1, indice_key="k")
    x = small()
    y = down(x)
    other = spconv.SparseConvTensor(y.features, y.indices, y.spatial_shape, BATCH)
    other.indice_dict = y.indice_dict
    back = spconv.SparseInverseConv3d(4, 4, 3, "k")(other)
    assert back.level is x.level
    assert back.indices is x.indices


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: spconv.SubMConv3d(4, 4, 3, stride=2), "stride of 1"),
        (lambda: spconv.SparseConv3d(4, 4, 1, padding=1), "no padding"),
        (lambda: spconv.SparseConv3d(4, 4, (3, 3)), "kernel_size has 2 numbers, and there are 3 axes"),
        (lambda: spconv.SparseConv3d(4, 6, 3, groups=4), "groups is 4, and must divide"),
        (lambda: spconv.SparseConv3d(5, 4, 3)(small()), "4 channels, and the layer takes 5"),
        (lambda: spconv.SparseConv2d(4, 4, 3)(small()), "2 axes, and the tensor 3"),
        (
            lambda: spconv.SparseConvTranspose3d(4, 4, 3, padding=3)(small()),
            "padding is .3, 3, 3., and .*2, 2, 2. at most",
        ),
        (lambda: spconv.SparseConvTensor(torch.ones(2, 4), torch.zeros(3, 4).int(), SHAPE, 1), "3 indices"),
        (lambda: spconv.SparseConvTensor(torch.ones(3, 4), torch.zeros(3, 4).int(), [4, 4], 1), "spatial_shape has 2"),
        (lambda: spconv.SparseConvTensor(torch.ones(3, 4), torch.zeros(3, 4).int(), SHAPE, 0), "batch_size is 0"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("row", [[0, 1, 2, 3], [0, 9, 0, 0], [0, 0, -1, 0], [3, 0, 0, 0], [-1, 0, 0, 0]])
def test_voxels_that_occur_twice_or_are_outside(row):
    indices = torch.tensor([[0, 1, 2, 3], row], dtype=torch.int32)
    x = spconv.SparseConvTensor(torch.ones(2, 4), indices, SHAPE, BATCH)
    for layer in (spconv.SubMConv3d(4, 4, 3), spconv.SparseConv3d(4, 4, 3, 2, 1)):
        with pytest.raises(ValueError, match="cannot be made"):
            layer(x)
    with pytest.raises(TypeError, match="int32"):
        spconv.SparseConvTensor(torch.ones(2, 4), indices.long(), SHAPE, BATCH)


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("name", [name for name in LAYERS if LAYERS[name][0] == SHAPE])
def test_clouds_of_no_and_one_voxel(name, rows):
    indices = torch.tensor([[1, 2, 3, 4]], dtype=torch.int32)[:rows]
    network = sequence(spconv, name)
    given = torch.randn(rows, CHANNELS, requires_grad=True)
    found = network(spconv.SparseConvTensor(given, indices, SHAPE, BATCH))
    found.features.sum().backward()
    assert len(found.features) == len(found.indices)
    assert rows == 1 or not len(found.features)
    assert torch.isfinite(given.grad).all()
    for parameter in network.parameters():
        assert torch.isfinite(parameter.grad).all()


def test_modules_are_copied_pickled_and_described():
    network = spconv.SparseSequential(
        spconv.SubMConv3d(4, 6, 3, indice_key="a", algo=spconv.ConvAlgo.Native),
        spconv.SparseBatchNorm(6),
        spconv.SparseReLU(),
        spconv.SparseConv3d(6, 6, 3, 2, 1, record_voxel_count=True),
        spconv.ToDense(),
    )
    x = small()
    wanted = network.eval()(x)
    for other in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert torch.equal(other(x), wanted)
    text = repr(network)
    assert "4, 6, kernel_size=[3, 3, 3], stride=[1, 1, 1], indice_key='a'" in text
    assert list(network.state_dict()) == [
        "0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked",
        "3.weight", "3.bias", "3.max_num_voxels_during_training",
    ]  # fmt: skip
    state = network.state_dict()
    del state["3.max_num_voxels_during_training"]
    network.load_state_dict(state)
    spconv.assign_name_for_sparse_modules(network)
    assert network[0]._sparse_unique_name == "0"
    assert isinstance(network[0], spconv.conv.SparseConvolution)
    assert spconv.is_spconv_module(network[0])
    assert spconv.is_sparse_conv(network[-2])


def test_the_largest_number_of_voxels_is_recorded():
    layer = spconv.SparseConv3d(4, 4, 3, 2, 1, record_voxel_count=True)
    counts = [len(layer(small(rows)).indices) for rows in (60, 90, 30)]
    assert layer.get_max_num_voxels().tolist() == [max(counts)]


def test_half_precision_and_autocast():
    x = small(100)
    layer = spconv.SparseSequential(
        spconv.SubMConv3d(4, 8, 3), nn.BatchNorm1d(8), nn.ReLU(), spconv.SubMConv3d(8, 4, 3)
    )
    wanted = copy.deepcopy(layer)(x).features
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x)
    assert found.features.dtype == torch.bfloat16
    assert (found.features.float() - wanted).norm() < 0.05 * wanted.norm()
    found.features.float().square().sum().backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in layer.parameters())
    layer.zero_grad()
    halved = copy.deepcopy(layer).half()
    result = halved(x.replace_feature(x.features.half()))
    result.features.float().square().sum().backward()
    assert result.features.dtype == torch.float16
    assert all(parameter.grad.dtype == torch.float16 for parameter in halved.parameters())


def test_checkpoints_shared_modules_and_two_passes():
    from torch.utils.checkpoint import checkpoint

    layer = spconv.SubMConv3d(4, 4, 3, indice_key="k")
    x = small(100)

    def twice(features: torch.Tensor) -> torch.Tensor:
        return layer(layer(x.replace_feature(features))).features

    given = x.features.clone().requires_grad_()
    twice(given).square().sum().backward()
    wanted, of_weight = given.grad.clone(), layer.weight.grad.clone()
    given.grad = layer.weight.grad = None
    checkpoint(twice, given, use_reentrant=False).square().sum().backward()
    assert torch.equal(given.grad, wanted)
    assert torch.equal(layer.weight.grad, of_weight)
    given.grad = layer.weight.grad = None
    first, second = twice(given).square().sum(), twice(given).square().sum()
    first.backward(retain_graph=True)
    assert torch.equal(given.grad, wanted)
    second.backward()
    torch.testing.assert_close(given.grad, 2 * wanted)
    with torch.no_grad():
        assert not twice(given).requires_grad
    layer.weight.requires_grad_(False)
    given.grad = None
    twice(given).square().sum().backward()
    assert torch.equal(given.grad, wanted)
