"""Tensors, fields, functions and utilities under MinkowskiEngine's names, and what they refuse."""

from __future__ import annotations

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")

import minuet.torch.minkowski as ME  # noqa: E402, N812
import numpy as np  # noqa: E402
from minuet.torch import _rules  # noqa: E402
from torch import nn  # noqa: E402
from torch_problems import poisoned  # noqa: E402, F401

MF = ME.MinkowskiFunctional
Mode = ME.SparseTensorQuantizationMode
NAN, INF = float("nan"), float("inf")


def small(rows: int = 40, manager: ME.CoordinateManager | None = None, seed: int = 0) -> ME.SparseTensor:
    """A tensor of unique voxels with coordinates from 0."""
    generator = torch.Generator().manual_seed(seed)
    cells = torch.randint(0, 5, (rows, 3), generator=generator)
    cloud = torch.unique(torch.cat([torch.randint(0, 2, (rows, 1), generator=generator), cells], 1), dim=0).int()
    features = torch.randn(len(cloud), 4, generator=generator)
    return ME.SparseTensor(features, cloud, coordinate_manager=manager)


@pytest.mark.parametrize("mode", [Mode.RANDOM_SUBSAMPLE, Mode.UNWEIGHTED_AVERAGE, Mode.UNWEIGHTED_SUM, Mode.MAX_POOL])
def test_rows_with_the_same_coordinates(mode, generator):
    cells = torch.from_numpy(generator.integers(-2, 2, (60, 4)).astype(np.int32)).abs()
    cells[:, 1:] -= 1
    given = torch.from_numpy(generator.normal(size=(60, 3))).float().requires_grad_()
    x = ME.SparseTensor(given, cells, quantization_mode=mode)
    known: dict[tuple[int, ...], list[int]] = {}
    for row, cell in enumerate(cells.tolist()):
        known.setdefault(tuple(cell), []).append(row)
    # Voxels are in the order of their first rows.
    assert [tuple(row) for row in x.C.tolist()] == list(known)
    reduce = {
        Mode.RANDOM_SUBSAMPLE: lambda rows: rows[0],
        Mode.UNWEIGHTED_AVERAGE: lambda rows: rows.mean(0),
        Mode.UNWEIGHTED_SUM: lambda rows: rows.sum(0),
        Mode.MAX_POOL: lambda rows: rows.amax(0),
    }[mode]
    own = given.detach().double().requires_grad_()
    wanted = torch.stack([reduce(own[rows]) for rows in known.values()])
    torch.testing.assert_close(x.F.double(), wanted, rtol=1e-5, atol=1e-6)
    scale = torch.from_numpy(generator.normal(size=tuple(wanted.shape)))
    (x.F * scale).sum().backward()
    (wanted * scale).sum().backward()
    torch.testing.assert_close(given.grad.double(), own.grad, rtol=1e-5, atol=1e-6)
    assert x.unique_index.tolist() == [rows[0] for rows in known.values()]
    assert torch.equal(x.C[x.inverse_mapping], cells)


def test_views_of_a_tensor():
    x = small()
    assert (x.D, x.dimension, x.tensor_stride) == (3, 3, [1, 1, 1])
    assert x.features is x.F
    assert x.C is x.coordinates
    assert (len(x), x.size(), x.dtype) == (len(x.F), x.F.shape, torch.float32)
    assert x.coordinate_key == x.coordinate_map_key == ME.CoordinateMapKey((1, 1, 1))
    for number in range(2):
        rows = x.C[:, 0] == number
        assert torch.equal(x.features_at(number), x.F[rows])
        assert torch.equal(x.coordinates_at(number), x.C[rows, 1:])
        assert torch.equal(x.coordinates_and_features_at(number)[1], x.F[rows])
    coordinates, features = x.decomposed_coordinates_and_features
    assert torch.equal(torch.cat(features), x.F[torch.cat(x.decomposition_permutations)])
    assert torch.equal(ME.utils.batched_coordinates(coordinates), x.C[torch.cat(x.decomposition_permutations)])
    y = ME.SparseTensor(x.F * 2, coordinate_map_key=x.coordinate_map_key, coordinate_manager=x.coordinate_manager)
    assert y.level is x.level
    assert "tensor_stride=[1, 1, 1]" in repr(x)
    assert "[1, 1, 1]:''" in repr(x.coordinate_manager)
    x.requires_grad_()
    assert x.requires_grad
    assert not x.detach().float().requires_grad
    moved = ME.SparseTensor(x.F, x.C.double() + 0.25, requires_grad=True, device="cpu")
    assert torch.equal(moved.C, x.C)
    assert moved.requires_grad


def test_arithmetic():
    x = small()
    y = x + x
    assert torch.equal(y.F, 2 * x.F)
    assert torch.equal((y * x).F, 2 * x.F * x.F)
    assert torch.equal((x / y).F, x.F / y.F)
    assert torch.equal((x**2).F, x.F**2)
    assert torch.equal((x + 1).F, x.F + 1)
    kept, z = x.F.clone(), x
    z += x
    assert z is x
    assert torch.equal(x.F, 2 * kept)
    z -= y
    assert not x.F.any()
    z *= y
    other = small(60, x.coordinate_manager, 1)
    own = {tuple(cell): row for cell, row in zip(y.C.tolist(), y.F, strict=True)}
    others = {tuple(cell): row for cell, row in zip(other.C.tolist(), other.F, strict=True)}
    for made, function in ((y * other, torch.mul), (y / other, torch.div)):
        assert {tuple(cell) for cell in made.C.tolist()} == own.keys() | others.keys()
        for cell, row in zip(made.C.tolist(), made.F, strict=True):
            left = own.get(tuple(cell), torch.zeros(4))
            # As in MinkowskiEngine, a voxel that the second tensor lacks keeps its features.
            wanted = function(left, others[tuple(cell)]) if tuple(cell) in others else left
            torch.testing.assert_close(row, wanted)
    union = ME.MinkowskiUnion()(y, other, y)
    torch.testing.assert_close(union.dense()[0], (y + other + y).dense()[0])


def test_dense_tensors():
    x = small()
    dense, low, strides = x.dense()
    assert (low.tolist(), strides.tolist()) == ([0, 0, 0], [1, 1, 1])
    wanted = torch.zeros(2, 5, 5, 5, 4)
    wanted[tuple(x.C.long().T)] = x.F
    extents = (x.C[:, 1:].amax(0) + 1).tolist()
    assert torch.equal(dense, wanted.movedim(-1, 1)[:, :, : extents[0], : extents[1], : extents[2]])
    shaped, low, _ = x.dense(torch.Size([3, 1, 7, 8, 9]), torch.tensor([-1, -2, 0], dtype=torch.int32))
    assert shaped.shape == (3, 4, 7, 8, 9)
    assert torch.equal(shaped[:2, :, 1:6, 2:7, :5], wanted.movedim(-1, 1))
    assert low.tolist() == [-1, -2, 0]
    down = ME.MinkowskiSumPooling(2, 2, dimension=3)(x)
    assert torch.equal(down.dense(contract_stride=False)[0][:, :, ::2, ::2, ::2], down.dense()[0])
    assert torch.equal(ME.MinkowskiToDenseTensor(dense.shape)(x), dense)
    again = ME.to_sparse(dense)
    assert torch.equal(again.dense()[0], dense)
    assert torch.equal(ME.to_sparse(dense.movedim(1, -1), "BXXXC").dense()[0], dense)
    every = ME.to_sparse_all(dense, ME.dense_coordinates(dense.shape))
    assert len(every) == dense[:, 0].numel()
    assert torch.equal(every.dense()[0], dense)
    assert torch.equal(ME.MinkowskiToSparseTensor(remove_zeros=False)(dense).F, every.F)
    assert torch.equal(ME.MinkowskiToFeature()(ME.MinkowskiToSparseTensor()(dense)), again.F)


def test_functions_of_several_tensors():
    x = small()
    y = x + x
    assert torch.equal(ME.cat(x, y).F, torch.cat([x.F, y.F], 1))
    assert torch.equal(ME.cat([x, y, x]).F, torch.cat([x.F, y.F, x.F], 1))
    torch.testing.assert_close(ME.sum(x, y, y).F, 5 * x.F)
    torch.testing.assert_close(ME.mean(x, y).F, 1.5 * x.F)
    torch.testing.assert_close(ME.var(x, y).F, 0.25 * x.F**2)
    layers = [ME.MinkowskiReLU(), ME.MinkowskiTanh()]
    wanted = [layer(x).F for layer in layers]
    assert torch.equal(ME.MinkowskiStackCat(*layers)(x).F, torch.cat(wanted, 1))
    assert torch.equal(ME.MinkowskiStackSum(*layers)(x).F, wanted[0] + wanted[1])
    assert torch.equal(ME.MinkowskiStackMean(*layers)(x).F, (wanted[0] + wanted[1]) / 2)
    torch.testing.assert_close(ME.MinkowskiStackVar(*layers)(x).F, torch.stack(wanted).var(0, unbiased=False))


def test_broadcasts():
    x = small()
    pooled = ME.MinkowskiGlobalMaxPooling()(x)
    assert pooled.C.tolist() == [[0, 0, 0, 0], [1, 0, 0, 0]]
    own = torch.stack([rows.amax(0) for rows in x.decomposed_features])[x.C[:, 0].long()]
    assert torch.equal(ME.MinkowskiBroadcast()(x, pooled).F, own)
    more = torch.tensor([[3, 0, 0, 0]], dtype=torch.int32)
    y = ME.SparseTensor(torch.ones(1, 4), more, coordinate_manager=x.coordinate_manager)
    wide = ME.MinkowskiGlobalMaxPooling()(y)
    assert wide.F.tolist() == [[0] * 4] * 3 + [[1] * 4]
    assert torch.equal(ME.MinkowskiBroadcast()(y, wide).F, y.F)
    x, pooled = small(), ME.MinkowskiGlobalMaxPooling()
    pooled = pooled(x)
    assert torch.equal(ME.MinkowskiBroadcastAddition()(x, pooled).F, x.F + own)
    assert torch.equal(ME.MinkowskiBroadcastMultiplication()(x, pooled).F, x.F * own)
    assert torch.equal(ME.MinkowskiBroadcastConcatenation()(x, pooled).F, torch.cat([x.F, own], 1))


def test_layers_of_torch_and_their_functions():
    x = small()
    for name in ("ReLU", "LeakyReLU", "Sigmoid", "Softplus", "GELU", "ELU", "Hardswish", "Softsign", "PReLU"):
        layer = getattr(ME, f"Minkowski{name}")()
        torch.testing.assert_close(layer(x).F, getattr(nn, name)()(x.F))
    assert list(ME.MinkowskiPReLU().state_dict()) == ["module.weight"]
    torch.testing.assert_close(ME.MinkowskiSoftmax(dim=1)(x).F, x.F.softmax(1))
    assert torch.equal(ME.MinkowskiDropout(0.5).eval()(x).F, x.F)
    before = x.F.clone()
    torch.testing.assert_close(MF.relu(x, inplace=True).F, torch.relu(before))
    assert torch.equal(x.F, before)
    torch.testing.assert_close(MF.leaky_relu(x, 0.3).F, nn.functional.leaky_relu(before, 0.3))
    target = torch.randint(0, 4, (len(x),))
    torch.testing.assert_close(MF.cross_entropy(x, target), nn.functional.cross_entropy(x.F, target))
    wave = ME.MinkowskiSinusoidal(4, 3)
    torch.testing.assert_close(wave(x).F, torch.sin(x.F @ wave.kernel + wave.bias) * wave.coef)
    block = ME.modules.resnet_block.BasicBlock(4, 4, dimension=3).eval()
    out = block.norm2(block.conv2(block.relu(block.norm1(block.conv1(x)))))
    torch.testing.assert_close(block(x).F, torch.relu(out.F + x.F))


def test_fields_of_points(generator):
    points = torch.from_numpy(np.hstack([generator.integers(0, 2, (80, 1)), generator.uniform(-2, 2, (80, 3))])).float()
    features = torch.from_numpy(generator.normal(size=(80, 3))).float().requires_grad_()
    field = ME.TensorField(features, points)
    field = nn.Sequential(ME.MinkowskiLinear(3, 4), ME.MinkowskiBatchNorm(4), ME.MinkowskiReLU())(field)
    x = field.sparse()
    cells = torch.floor(points).int()
    assert torch.equal(x.C[field.inverse_mapping(x.coordinate_map_key).long()], cells)
    same = (cells[:, None] == x.C).all(2).float()
    torch.testing.assert_close(x.F, same.T @ field.F / same.sum(0)[:, None], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(x.slice(field).F, same @ x.F, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(x.cat_slice(field).F, torch.cat([same @ x.F, field.F], 1), rtol=1e-4, atol=1e-5)
    down = ME.MinkowskiConvolution(4, 5, 2, 2, dimension=3)(x)
    coarse = down.slice(field)
    at = torch.cat([cells[:, :1], torch.div(cells[:, 1:], 2, rounding_mode="floor") * 2], 1)
    assert torch.equal(down.C[field.inverse_mapping(down.coordinate_map_key).long()], at)
    (coarse.F.sum() + x.F.sum()).backward()
    assert torch.isfinite(features.grad).all()
    wide = field.sparse(2, quantization_mode=Mode.UNWEIGHTED_SUM)
    assert wide.tensor_stride == [2, 2, 2]
    assert torch.equal(wide.slice(field).C, points)
    rows = ME.SparseTensor(features.detach(), cells, quantization_mode=Mode.UNWEIGHTED_AVERAGE)
    assert torch.equal(rows.slice(rows).C, cells)
    made = ME.MinkowskiToSparseTensor()(field)
    assert torch.equal(made.F, x.F)


def test_batches_and_voxels_of_points(generator):
    clouds = [generator.uniform(-3, 3, (n, 3)) for n in (4, 7)]
    features = [generator.normal(size=(len(cloud), 2)) for cloud in clouds]
    labels = [np.arange(len(cloud)) for cloud in clouds]
    coordinates, feats, joined = ME.utils.sparse_collate(clouds, features, labels)
    assert coordinates.dtype == torch.int32
    assert coordinates[:, 0].tolist() == [0] * 4 + [1] * 7
    assert (coordinates[:, 1:].numpy() == np.floor(np.concatenate(clouds))).all()
    assert (feats.numpy() == np.concatenate(features)).all()
    assert joined.tolist() == [*range(4), *range(7)]
    assert ME.utils.batched_coordinates(clouds, torch.float32).dtype == torch.float32
    data = list(zip(clouds, features, ["a", "b"], strict=True))
    assert ME.utils.batch_sparse_collate(data)[2] == ["a", "b"]
    with pytest.warns(UserWarning, match="more than 8 points: the first 1 clouds"):
        assert len(ME.utils.SparseCollation(8)(list(zip(clouds, features, labels, strict=True)))[0]) == 4
    points = torch.from_numpy(generator.uniform(-3, 3, (200, 3)))
    kinds = torch.from_numpy(generator.integers(0, 2, 200))
    cells, own, marks, index, inverse = ME.utils.sparse_quantize(
        points, points, kinds, ignore_label=-1, return_index=True, return_inverse=True, quantization_size=1.5
    )
    every = torch.floor(points / 1.5).int()
    assert torch.equal(cells[inverse], every)
    assert torch.equal(own, points[index])
    for voxel, mark in enumerate(marks):
        found = kinds[inverse == voxel].unique()
        assert mark == (found[0] if len(found) == 1 else -1)
        assert index[voxel] == (inverse == voxel).nonzero()[0, 0]
    assert torch.equal(ME.utils.sparse_quantize(points, quantization_size=1.5), cells)
    assert torch.equal(ME.utils.sparse_quantize(points.numpy(), quantization_size=[1.5] * 3), cells)
    maps = ME.utils.sparse_quantize(every, return_maps_only=True, return_inverse=True)
    assert torch.equal(maps[0], index)
    assert torch.equal(maps[1], ME.utils.unique_coordinate_map(every)[1])
    kernel = ME.utils.kaiming_normal_(torch.empty(27, 64, 32), mode="fan_out", nonlinearity="relu")
    assert abs(float(kernel.std()) - (2 / (27 * 32)) ** 0.5) < 1e-3


def test_coordinates_outside_of_int32(monkeypatch):
    features = torch.ones(2, 4)
    for wrong in (torch.tensor([[0, 7], [0, 2**32 + 1]]), *(torch.tensor([[0, 7], [0, x]]) for x in (3e9, NAN, -INF))):
        with pytest.raises(ValueError, match=r"outside of int32; row 1 is \[0"):
            ME.SparseTensor(features, wrong)
        field = ME.TensorField(features, wrong)
        with pytest.raises(ValueError, match="outside of int32"):
            field.sparse()
        with pytest.raises(ValueError, match="outside of int32"):
            ME.utils.batched_coordinates([wrong])
    least = torch.tensor([[0, -(2**31)], [0, 2**31 - 1]])
    assert torch.equal(ME.SparseTensor(features, least).C.long(), least)
    # The host reads nothing in capacity mode.
    monkeypatch.setattr(_rules, "read_numbers", None)
    x = ME.SparseTensor(features, torch.tensor([[0, 7], [0, 2**32 + 1]]), capacities=[2])
    assert x.C[1].tolist() == [0, 1]


def test_points_that_have_no_voxel():
    for wrong in (NAN, INF, 1e12):
        with pytest.raises(ValueError, match="outside of int32"):
            ME.utils.sparse_quantize(np.array([[wrong, 0, 0], [1, 1, 1]]), quantization_size=0.1)
    for size in (0, -1.0, NAN, (1, 0, 1)):
        with pytest.raises(ValueError, match=r"quantization_size is .*, and must be positive"):
            ME.utils.sparse_quantize(np.ones((2, 3)), quantization_size=size)


def test_one_manager_for_all_tensors():
    mode = ME.SparseTensorOperationMode
    ME.set_sparse_tensor_operation_mode(mode.SHARE_COORDINATE_MANAGER)
    try:
        x, y = small(), small(60, seed=1)
        assert x.coordinate_manager is y.coordinate_manager is ME.global_coordinate_manager()
        assert len(x + y) >= len(y)
        ME.clear_global_coordinate_manager()
        assert small().coordinate_manager is not x.coordinate_manager
    finally:
        ME.set_sparse_tensor_operation_mode(mode.SEPARATE_COORDINATE_MANAGER)
        ME.clear_global_coordinate_manager()
    assert small().coordinate_manager is not small().coordinate_manager


def test_layers_share_sets_and_maps():
    x = small()
    manager = x.coordinate_manager
    down = ME.MinkowskiConvolution(4, 4, 2, 2, dimension=3)
    y, z = down(x), ME.MinkowskiMaxPooling(2, 2, dimension=3)(x)
    assert y.level is z.level
    assert y.coordinate_map_key == z.coordinate_map_key
    within = ME.MinkowskiConvolution(4, 4, 3, dimension=3)
    assert within(within(x)).level is x.level
    assert len(x.level._maps) == len(y.level._maps) == 1  # of the kernels 3 and 2
    back = ME.MinkowskiConvolutionTranspose(4, 4, 2, 2, dimension=3)(y)
    assert back.level is x.level
    assert manager.stride(x.coordinate_map_key, 2) == y.coordinate_map_key
    assert torch.equal(manager.get_coordinates(2), y.C)
    assert manager.size(y.coordinate_map_key) == len(y)


def test_networks_are_copied_pickled_and_converted():
    network = nn.Sequential(ME.MinkowskiConvolution(4, 6, 3, dimension=3), ME.MinkowskiBatchNorm(6), ME.MinkowskiReLU())
    x = small()
    network(x)
    wanted = network.eval()(x).F
    for other in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert torch.equal(other(x).F, wanted)
    converted = ME.MinkowskiSyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(network))
    assert isinstance(converted[1].bn, nn.SyncBatchNorm)
    assert not converted[1].training
    torch.testing.assert_close(converted(x).F, wanted)
    assert list(converted.state_dict()) == list(network.state_dict())
    assert "in=4, out=6, kernel_size=[3, 3, 3]" in repr(network)

    class Network(ME.MinkowskiNetwork):
        def forward(self, x: ME.SparseTensor) -> ME.SparseTensor:
            return network(x)

    other = ME.SparseTensor(x.F, x.C, minkowski_algorithm=ME.MinkowskiAlgorithm.SPEED_OPTIMIZED)
    assert torch.equal(Network(3)(other).F, wanted)


def test_half_precision_and_autocast():
    x = small()
    network = nn.Sequential(
        ME.MinkowskiConvolution(4, 8, 3, dimension=3), ME.MinkowskiConvolution(8, 4, 2, 2, dimension=3)
    )
    wanted = network(x).F
    with torch.autocast("cpu", torch.bfloat16):
        found = network(x).F
    assert found.dtype == torch.bfloat16
    assert (found.float() - wanted).norm() < 0.05 * wanted.norm()
    halved = copy.deepcopy(network).half()
    result = halved(x._replace(x.F.half())).F
    result.float().sum().backward()
    assert result.dtype == torch.float16
    assert all(parameter.grad.dtype == torch.float16 for parameter in halved.parameters())


@pytest.mark.parametrize("rows", [0, 1])
def test_clouds_of_no_and_one_voxel(rows):
    given = torch.randn(rows, 4, requires_grad=True)
    x = ME.SparseTensor(given, torch.tensor([[0, -3, 5, 2]], dtype=torch.int32)[:rows])
    network = nn.Sequential(
        ME.MinkowskiConvolution(4, 4, 3, dimension=3),
        ME.MinkowskiBatchNorm(4),
        ME.MinkowskiInstanceNorm(4),
        ME.MinkowskiConvolution(4, 4, 2, 2, dimension=3),
        ME.MinkowskiConvolutionTranspose(4, 4, 2, 2, dimension=3),
        ME.MinkowskiGlobalAvgPooling(),
    )
    found = network(x)
    assert len(found) == rows
    found.F.sum().backward()
    assert torch.isfinite(given.grad).all()


def test_the_host_reads_nothing_in_capacity_mode():
    """Rows that are not in use may lie between the multiples of the tensor stride, and a dense tensor of a given shape
    needs no numbers of the device."""
    own = small(80)
    cloud = torch.cat([own.C * torch.tensor([1, 2, 2, 2], dtype=torch.int32), torch.full((9, 4), 3, dtype=torch.int32)])
    features = torch.cat([own.F, torch.full((9, 4), torch.nan)])
    count = torch.tensor([len(own)], dtype=torch.int32)
    network = nn.Sequential(ME.MinkowskiConvolution(4, 4, 3, dimension=3), ME.MinkowskiReLU())
    shape = torch.Size([2, 4, 7, 7, 7])

    def step(features: torch.Tensor) -> torch.Tensor:
        x = ME.SparseTensor(features, cloud, 2, count=count, capacities=[], batch_size=2)
        return network(x).dense(shape)[0] + network(x).dense(shape, [-2, 0, -4])[0].roll((-1, -2), (2, 4))

    wanted = network(ME.SparseTensor(own.F, cloud[: len(own)], 2)).dense(shape)[0] * 2
    torch.testing.assert_close(step(features), wanted)
    torch.testing.assert_close(torch.compile(step, fullgraph=True, backend="aot_eager")(features), wanted)


def test_compiles_to_one_graph():
    network = nn.Sequential(
        ME.MinkowskiConvolution(4, 8, 3, dimension=3),
        ME.MinkowskiBatchNorm(8),
        ME.MinkowskiReLU(inplace=True),
        ME.MinkowskiConvolution(8, 8, (4, 2, 1), 2, dimension=3),
        ME.MinkowskiInstanceNorm(8),
        ME.MinkowskiConvolutionTranspose(8, 4, 2, 2, dimension=3),
        ME.MinkowskiGlobalMaxPooling(),
        ME.MinkowskiLinear(4, 3),
    )
    cloud = small(80).C
    count = torch.tensor([len(cloud)], dtype=torch.int32)

    def step(network: nn.Module, features: torch.Tensor) -> torch.Tensor:
        x = ME.SparseTensor(features, cloud, count=count, capacities=lambda *_: 200, batch_size=2)
        return network(x).F.square().sum()

    results = []
    for module, run in (
        (copy.deepcopy(network), step),
        (network, torch.compile(step, fullgraph=True, backend="aot_eager")),
    ):
        given = torch.ones(len(cloud), 4, requires_grad=True)
        loss = run(module, given)
        loss.backward()
        results.append((loss, given.grad, [p.grad for p in module.parameters()], list(module.buffers())))
    for found, wanted in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(found, wanted)
