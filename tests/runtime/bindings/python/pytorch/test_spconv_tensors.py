"""Tensors of minuet.torch.spconv, layers of several branches, and voxels of points."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import minuet.torch.spconv as spconv  # noqa: E402
import plain_spconv  # noqa: E402
from spconv_problems import BATCH, CHANNELS, SHAPE, draw_cloud, draw_features, small  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402


def test_features_of_a_tensor():
    x = small()
    with pytest.raises(ValueError, match="replace_feature"):
        x.features = x.features
    doubled = x + x
    assert torch.equal(doubled.features, 2 * x.features)
    assert torch.equal((x + x.features).features, doubled.features)
    assert torch.equal(x.minus().features, -x.features)
    assert doubled.level is x.level
    selected = x.select_by_index(x.indices[:, 0] == 1)
    assert (selected.indices[:, 0] == 1).all()
    assert selected.find_indice_pair("k") is None
    dense = x.dense()
    assert torch.equal(dense, plain_spconv.SparseConvTensor(x.features, x.indices, SHAPE, BATCH).dense())
    assert torch.equal(x.dense(channels_first=False), dense.movedim(1, -1))
    again = spconv.SparseConvTensor.from_dense(x.dense(channels_first=False))
    assert torch.equal(again.dense(), dense)
    assert x.spatial_size == 9 * 8 * 11
    assert repr(x).startswith("SparseConvTensor[shape=")


def test_global_pools():
    x = small()
    for layer, reduce in ((spconv.SparseGlobalMaxPool(), torch.amax), (spconv.SparseGlobalAvgPool(), torch.mean)):
        wanted = torch.stack([reduce(x.features[x.indices[:, 0] == item], 0) for item in range(BATCH)])
        torch.testing.assert_close(layer(x), wanted)


def test_sums_of_tensors_with_other_voxels():
    x, y = small(), spconv.SparseConv3d(4, 4, 1)(small(60))
    total = spconv.functional.sparse_add(x, y)
    torch.testing.assert_close(total.dense(), x.dense() + y.dense())
    part = x.select_by_index(torch.arange(10))
    keyed = spconv.SubMConv3d(4, 4, 3, indice_key="k")(x)
    same = spconv.functional.sparse_add(part, keyed)
    assert same.level is keyed.level
    assert same.find_indice_pair("k") is not None
    torch.testing.assert_close(same.dense(), part.dense() + keyed.dense())
    torch.testing.assert_close(spconv.AddTableMisaligned()([x, y]).dense(), total.dense())
    with pytest.raises(ValueError, match="channels"):
        spconv.functional.sparse_add(x, spconv.SubMConv3d(4, 5, 3)(x))


class AddsInAnyOrder(TorchDispatchMode):
    """Notes the ops that add several rows to one by atomics on a GPU, so that sums have other bits each time."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        accumulates = name.startswith(("index_put", "_index_put")) and len(args) > 3 and args[3]
        if accumulates or name.startswith(("index_add", "scatter_add", "scatter_reduce")):
            self.names.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("has_all", [False, True])
def test_sums_of_three_tensors_and_their_gradients(has_all):
    clouds = [draw_cloud(SHAPE, 150, seed) for seed in range(3)]
    if has_all:
        clouds[1] = torch.unique(torch.cat(clouds), dim=0).flip(0).contiguous()
    exact = [draw_features(len(cloud), seed).requires_grad_() for seed, cloud in enumerate(clouds)]
    wanted = torch.zeros(BATCH, *SHAPE, CHANNELS, dtype=torch.float64)
    for cloud, rows in zip(clouds, exact, strict=True):
        wanted = wanted.index_put(tuple(cloud.long().T), rows, accumulate=True)
    given = [rows.detach().float().requires_grad_() for rows in exact]
    tensors = [spconv.SparseConvTensor(rows, cloud, SHAPE, BATCH) for cloud, rows in zip(clouds, given, strict=True)]
    with AddsInAnyOrder() as seen:
        total = spconv.functional.sparse_add(*tensors)
        scale = draw_features(len(total.indices), 7)
        (total.features * scale).sum().backward()
    assert not seen.names
    every = torch.unique(torch.cat(clouds), dim=0)
    assert torch.equal(total.indices, clouds[1] if has_all else every)
    found = wanted[tuple(total.indices.long().T)]
    torch.testing.assert_close(total.features.double(), found, rtol=1e-5, atol=1e-6)
    (found * scale).sum().backward()
    for ours, rows in zip(given, exact, strict=True):
        torch.testing.assert_close(ours.grad.double(), rows.grad, rtol=1e-5, atol=1e-6)


def test_sums_of_tensors_with_many_cells():
    """The voxels are apart, although the numbers of all cells of the shape are more than 64 bits can tell apart."""
    indices = torch.tensor([[0, 1, 2, 3], [2, 1, 2, 3]], dtype=torch.int32)
    x, y = (
        spconv.SparseConvTensor(torch.full((1, 4), 1.0 + one), indices[one : one + 1], [1 << 21] * 3, 3)
        for one in (0, 1)
    )
    total = spconv.functional.sparse_add(x, y)
    assert torch.equal(total.indices, indices)
    assert total.features.tolist() == [[1] * 4, [2] * 4]


def test_tables():
    x = small()
    branches = spconv.ConcatTable(spconv.SubMConv3d(4, 4, 3)).add(spconv.SparseIdentity())
    made = branches(x)
    assert torch.equal(spconv.AddTable()(made).features, made[0].features + x.features)
    assert torch.equal(spconv.JoinTable()(made).features, torch.cat([made[0].features, x.features], 1))
    for table in (spconv.AddTable(), spconv.JoinTable()):
        with pytest.raises(ValueError, match="AddTableMisaligned"):
            table([x, small(60)])


@pytest.mark.parametrize("empty_mean", [False, True])
def test_voxels_of_points(empty_mean):
    generator = torch.Generator().manual_seed(5)
    points = torch.rand(400, 5, generator=generator) * 6 - 1
    make = spconv.utils.PointToVoxel([0.5, 1, 2], [0, 0, 0, 4, 4, 4], 5, 60, 3)
    assert make.grid_size == [2, 4, 8]
    voxels, indices, counts, rows = make.generate_voxel_with_id(points, empty_mean=empty_mean)
    known: dict[tuple[int, ...], list[int]] = {}
    for number, point in enumerate(points.tolist()):
        cell = tuple(int((value + 0.0) // size) for value, size in zip(point, [0.5, 1, 2], strict=False))
        inside = all(0 <= value < 4 for value in point[:3])
        known.setdefault(cell[::-1] if inside else (), []).append(number)
    outside = known.pop((), [])
    kept = [tuple(cell) for cell in indices.tolist()]
    assert len(kept) == min(60, len(known))
    assert set(kept) <= set(known)
    for row, cell in enumerate(kept):
        numbers = known[cell]
        assert counts[row] == min(3, len(numbers))
        assert (rows[numbers] == row).all()
        few = points[numbers[:3]]
        assert torch.equal(voxels[row, : len(few)], few)
        rest = voxels[row, len(few) :]
        torch.testing.assert_close(rest, few.mean(0).expand_as(rest) if empty_mean else torch.zeros_like(rest))
    assert (rows[outside] == -1).all()
    assert torch.equal(make(points, empty_mean=empty_mean)[1], indices)
    gathered = spconv.utils.gather_features_by_pc_voxel_id(counts[:, None].float(), rows, -7)
    assert torch.equal(gathered[:, 0], torch.where(rows < 0, -7, counts[rows.clamp(min=0)]).float())
    with pytest.raises(ValueError, match="points, 5"):
        make(points[:, :4])
