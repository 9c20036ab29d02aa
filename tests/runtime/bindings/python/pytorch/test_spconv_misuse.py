"""What people do to layers and tensors of minuet.torch.spconv that they were not made for."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

import minuet.torch  # noqa: E402
import minuet.torch.spconv as spconv  # noqa: E402
import numpy as np  # noqa: E402
from spconv_problems import BATCH, SHAPE, draw_cloud, draw_features, small  # noqa: E402
from torch import nn  # noqa: E402


def fixed(rows: int = 30, room: int = 20, capacities: object = ()) -> spconv.SparseConvTensor:
    """Returns a tensor in capacity mode with rows that are not in use."""
    x = small(rows)
    used = len(x.indices)
    indices = torch.cat([x.indices, torch.full((room, 4), 5, dtype=torch.int32)])
    features = torch.cat([x.features, torch.full((room, 4), torch.nan)])
    count = torch.tensor([used], dtype=torch.int32)
    return spconv.SparseConvTensor(features, indices, SHAPE, BATCH, count=count, capacities=capacities)


def test_unused_rows_stay_zero():
    x = fixed()
    used = int(x.count)
    for y in (x.replace_feature(torch.sigmoid(x.features)), x + 1.0, 1.0 + x, spconv.SparseSequential(nn.Sigmoid())(x)):
        assert not y.features[used:].any()
        cells = tuple(x.indices[:used].long().T)
        assert torch.equal(y.dense(channels_first=False)[cells], y.features[:used])
        torch.testing.assert_close(y.dense().sum(), y.features.sum())


def test_a_count_alone_is_capacity_mode():
    x = small()
    y = spconv.SparseConvTensor(x.features, x.indices, SHAPE, BATCH, count=torch.tensor([10], dtype=torch.int32))
    assert not y.features[10:].any()
    layer = spconv.SubMConv3d(4, 4, 3)
    part = x.select_by_index(torch.arange(10))
    torch.testing.assert_close(layer(y).features[:10], layer(part).features)
    with pytest.raises(ValueError, match="one capacity for each level"):
        spconv.SparseConv3d(4, 4, 3)(y)
    with pytest.raises(ValueError, match="capacity mode"):
        y.indices = x.indices


def test_capacities_are_taken_in_the_order_of_the_levels():
    down, up = spconv.SparseConv3d(4, 4, 3, 2, 1), spconv.SparseConvTranspose3d(4, 4, 2, 2)
    after = spconv.SparseConv3d(4, 4, 2, 2)
    x = fixed(capacities=[300, 2000, 900])
    made = [down(x)]
    made.append(up(made[-1]))
    made.append(after(made[-1]))
    assert [len(y.features) for y in made] == [300, 2000, 900]
    assert not x.level.geometry.status().any()


def test_indices_that_change_in_place():
    x = small()
    layer = spconv.SubMConv3d(4, 4, 3)
    layer(x)
    x.indices[0, 1] = 0
    with pytest.raises(ValueError, match="changed in place"):
        layer(x)
    x.indices = x.indices.clone()
    layer(x)
    y = spconv.SparseConv3d(4, 4, 3, 2, 1)(small())
    layer(y)
    y.indices[:, 1:] *= 2
    with pytest.raises(ValueError, match="changed in place"):
        layer(y)


def of_rows(*rows: list[int], dtype: torch.dtype = torch.float32) -> spconv.SparseConvTensor:
    """Returns a tensor of one cloud, whose row i has the features i + 1."""
    features = torch.arange(1, len(rows) + 1, dtype=dtype)[:, None].expand(-1, 2).clone()
    return spconv.SparseConvTensor(features, torch.tensor(rows, dtype=torch.int32), [4, 4, 4], 1)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0, 1, 1, 1], r"more than once; row \d is \[0, 1, 1, 1\]"),
        ([0, 1, 4, 1], r"outside of the bounds .*; row 1 is \[0, 1, 4, 1\]"),
        ([0, 1, -1, 1], r"outside of the bounds .*; row 1 is \[0, 1, -1, 1\]"),
        ([1, 1, 1, 1], r"outside of the bounds .*; row 1 is \[1, 1, 1, 1\]"),
    ],
)
def test_dense_tensors_of_wrong_voxels(row, message):
    x = of_rows([0, 1, 1, 1], row)
    for dense in (x.dense, x.dense, lambda: spconv.ToDense()(x), torch.compile(lambda: x.dense(), backend="eager")):
        with pytest.raises(ValueError, match=f"the dense tensor cannot be made: .*{message}"):
            dense()


def test_a_dense_tensor_is_checked_once(monkeypatch):
    geometry = minuet.torch._geometry
    built: list[str] = []
    pyramid = geometry.pyramid
    monkeypatch.setattr(geometry, "pyramid", lambda *given: built.append(given[2]) or pyramid(*given))
    x, convolved = small(), spconv.SubMConv3d(4, 4, 3)(small())
    assert len(built) == 1
    x.dense(), x.dense(), convolved.dense()
    assert len(built) == 2


def test_sums_with_a_voxel_that_occurs_twice():
    twice, other = of_rows([0, 0, 0, 0], [0, 0, 0, 0]), of_rows([0, 1, 0, 0])
    for tensors, place in (((twice, other), 0), ((other, twice), 1)):
        with pytest.raises(ValueError, match=f"tensor {place} has 2 rows, but only 1 different voxels"):
            spconv.functional.sparse_add(*tensors)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int64])
def test_sums_in_each_dtype(dtype):
    x, y = of_rows([0, 1, 0, 0], [0, 0, 0, 0], dtype=dtype), of_rows([0, 0, 0, 0], [0, 2, 0, 0], dtype=dtype)
    total = spconv.functional.sparse_add(x, y)
    assert total.features.dtype == dtype
    assert total.indices.tolist() == [[0, 0, 0, 0], [0, 1, 0, 0], [0, 2, 0, 0]]
    assert total.features.tolist() == [[3, 3], [1, 1], [2, 2]]
    same = spconv.functional.sparse_add(x, x)
    assert same.features.tolist() == [[2, 2], [4, 4]]


def test_gradients_of_a_sum_in_float64():
    x, y = of_rows([0, 1, 0, 0], [0, 0, 0, 0]), of_rows([0, 0, 0, 0], [0, 2, 0, 0])
    given = [torch.randn(2, 2, dtype=torch.float64, requires_grad=True) for _ in range(2)]

    def add(*features: torch.Tensor) -> torch.Tensor:
        return spconv.functional.sparse_add(*map(spconv.SparseConvTensor.replace_feature, (x, y), features)).features

    assert torch.autograd.gradcheck(add, given)


def test_known_voxels_in_another_shape():
    y = spconv.SparseConv3d(4, 4, 3, 2, 1, indice_key="k")(small())
    other = spconv.SparseConvTensor(y.features, y.indices, [4, 4, 4], 1, indice_dict=y.indice_dict)
    with pytest.raises(ValueError, match="cannot be made"):
        spconv.SubMConv3d(4, 4, 3)(other)


@pytest.mark.parametrize("watched", [0, 1])
def test_hooks_are_called(watched):
    net = spconv.SparseSequential(nn.BatchNorm1d(4), nn.ReLU())
    plain = copy.deepcopy(net)
    seen = []
    net[watched].register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    x = small()
    torch.testing.assert_close(net(x).features, plain(x).features)
    assert seen == [x.features.shape]
    if watched == 0:
        with pytest.raises(ValueError, match="hooks"):
            net(fixed())


@pytest.mark.parametrize("make", [nn.BatchNorm1d, nn.SyncBatchNorm, spconv.SparseBatchNorm, spconv.SparseSyncBatchNorm])
def test_batch_norms_count_the_rows_in_use(make):
    x, padded = small(), fixed()
    wanted, norm = nn.BatchNorm1d(4), make(4)
    expected = wanted(x.features)
    found = spconv.SparseSequential(norm)(padded)
    torch.testing.assert_close(found.features[: len(expected)], expected)
    assert not found.features[len(expected) :].any()
    torch.testing.assert_close(norm.running_var, wanted.running_var)
    assert norm.num_batches_tracked == 1
    norm.eval(), wanted.eval()
    torch.testing.assert_close(spconv.SparseSequential(norm)(x).features, wanted(x.features))
    with pytest.raises(ValueError, match="4 channels, and the batch norm has 5"):
        spconv.SparseSequential(make(5))(x)


def test_a_momentum_of_zero_keeps_the_statistics():
    norm = nn.BatchNorm1d(4, momentum=0.0)
    spconv.SparseSequential(norm)(small())
    assert torch.equal(norm.running_mean, torch.zeros(4))


@pytest.mark.parametrize("make", [nn.BatchNorm1d, minuet.torch.BatchNorm])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("tracks", [(True, True), (True, False), (False, False), (False, True)])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_statistics_that_are_turned_on_and_off(make, training, tracks, momentum):
    """As in torch: a module that tracked them before normalizes by them in evaluation, and keeps them in training."""
    made_with, then = tracks
    wanted = nn.BatchNorm1d(4, momentum=momentum, track_running_stats=made_with)
    norm = make(4, momentum=momentum, track_running_stats=made_with)
    x = small()
    run = norm if isinstance(norm, minuet.torch.BatchNorm) else spconv.SparseSequential(norm)
    given = x.sparse() if run is norm else x
    wanted(x.features), run(given)
    wanted.train(training), run.train(training)
    wanted.track_running_stats = norm.track_running_stats = then
    torch.testing.assert_close(run(given).features, wanted(x.features))
    assert list(norm.state_dict()) == list(wanted.state_dict())
    for name, expected in wanted.state_dict().items():
        torch.testing.assert_close(norm.state_dict()[name], expected)


def test_sums_under_autocast():
    x = small()
    with torch.autocast("cpu", torch.bfloat16):
        y = spconv.SubMConv3d(4, 4, 3)(x)
        assert spconv.functional.sparse_add(y, x).features.dtype == torch.float32


def test_weights_that_are_not_contiguous():
    layer = spconv.SubMConv3d(4, 6, 1)
    x = small()
    wanted = layer(x).features
    layer.weight = nn.Parameter(layer.weight.detach().reshape(6, 4).T.contiguous().T.reshape(6, 1, 1, 1, 4))
    torch.testing.assert_close(layer(x).features, wanted)


def test_parts_of_a_sequence():
    net = spconv.SparseSequential(spconv.SubMConv3d(4, 4, 3), nn.ReLU(), spconv.ToDense())
    assert list(net[:2].state_dict()) == ["0.weight", "0.bias"]
    assert torch.equal(net[:2](small()).dense(), net(small()))
    with pytest.raises(IndexError, match="3 layers"):
        net[3]


def test_a_state_without_the_number_of_voxels():
    layer = spconv.SparseMaxPool3d(2, record_voxel_count=True)
    layer.load_state_dict({})
    assert layer.get_max_num_voxels().tolist() == [0]


def test_points_in_the_last_cell():
    make = spconv.utils.PointToVoxel([0.3] * 3, [-1.0] * 3 + [1.0] * 3, 3, 10, 2)
    assert make.grid_size == [7, 7, 7]
    _, indices, _, rows = make.generate_voxel_with_id(torch.tensor([[1.05, 0, 0], [1.11, 0, 0]]))
    assert indices.tolist() == [[3, 3, 6]]
    assert rows.tolist() == [0, -1]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: spconv.SubMConv3d(4, 4, 0), ValueError, "kernel_size is .0, 0, 0., and must be 1 or more"),
        (lambda: spconv.SparseConv3d(4, 4, 3, 0), ValueError, "stride is"),
        (lambda: spconv.SparseConv3d(4, 4, 3, dilation=0), ValueError, "dilation is"),
        (lambda: spconv.SparseConv3d(4, 4, 3, padding=-1), ValueError, "padding is"),
        (lambda: spconv.SparseConv3d(4, 4, 3, groups=0), ValueError, "groups are 4, 4 and 0"),
        (lambda: spconv.SparseConv3d(4, 4, 3, output_padding=1), ValueError, "only transposed convolutions have one"),
        (lambda: spconv.SubMConv3d(4, 4, 3, output_padding=1), TypeError, "unexpected keyword argument"),
        (lambda: spconv.SparseConv3d(4, 4, 3, subm=True), TypeError, "unexpected keyword argument"),
        (lambda: spconv.SparseConv3d(4, 4, 1.5), TypeError, "kernel_size is 1.5"),
        (lambda: spconv.SparseConv3d(4, 4, "333"), TypeError, "kernel_size is '333'"),
        (lambda: spconv.SubMConv3d(4, 4, 3)(torch.ones(3, 4)), TypeError, "takes a SparseConvTensor, and Tensor"),
        (lambda: spconv.SparseMaxPool3d(2)(torch.ones(3, 4)), TypeError, "takes a SparseConvTensor, and Tensor"),
        (lambda: spconv.SparseMaxPool2d(2)(small()), ValueError, "2 axes, and the tensor 3"),
        (lambda: small().replace_feature(torch.ones(2, 4)).dense(), ValueError, "need as many rows"),
        (lambda: spconv.SubMConv3d(4, 4, 3)(small().replace_feature(torch.ones(4))), ValueError, "need as many rows"),
        (lambda: setattr(small(), "indices", torch.zeros(3, 4)), TypeError, "int32"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_integers_of_numpy_are_integers():
    assert spconv.SubMConv3d(4, 4, np.int64(3)).kernel_size == [3, 3, 3]
    indices = draw_cloud(SHAPE, 10)
    x = spconv.SparseConvTensor(draw_features(len(indices)).float(), indices, np.array(SHAPE), BATCH)
    assert x.spatial_shape == SHAPE
