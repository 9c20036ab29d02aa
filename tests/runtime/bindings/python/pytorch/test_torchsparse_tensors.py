"""Tensors of minuet.torch.torchsparse: what the host reads, and what capacity mode refuses."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import minuet.torch.torchsparse as torchsparse  # noqa: E402
import numpy as np  # noqa: E402
from minuet.torch import _rules  # noqa: E402
from torch_problems import poisoned  # noqa: E402, F401


def small(**options: Any) -> torchsparse.SparseTensor:
    cells = torch.cartesian_prod(torch.arange(2), *[torch.arange(4)] * 3).int()
    feats = torch.randn(len(cells), 4, generator=torch.Generator().manual_seed(1))
    return torchsparse.SparseTensor(feats, cells, **options)


def test_a_tensor_of_capacity_mode_is_not_moved():
    """The count and the maps would stay behind, and rows that are not in use would become voxels."""
    x = small(spatial_range=(2, 4, 4, 4), capacities=[])
    assert x.cpu() is x
    assert torchsparse.nn.Conv3d(4, 4, 3)(x).count.tolist() == [128]
    with pytest.raises(ValueError, match="moved in capacity mode"):
        x.to("meta")
    assert x.coords.device.type == "cpu"
    x.C = x.coords.clone()
    with pytest.raises(ValueError, match="with their count"):
        torchsparse.nn.Conv3d(4, 4, 3)(x)
    moved = small().to("meta")
    assert moved.coords.device.type == moved.feats.device.type == "meta"


def test_the_host_reads_the_number_of_clouds_once(monkeypatch):
    read = torchsparse.tensor.read_numbers
    reads: list[int] = []

    def counted(tensor: torch.Tensor) -> list[int]:
        reads.append(tensor.numel())
        return read(tensor)

    monkeypatch.setattr(torchsparse.tensor, "read_numbers", counted)
    x = small()
    pools = torchsparse.nn.GlobalAvgPool(), torchsparse.nn.GlobalMaxPool()
    y = torchsparse.nn.Conv3d(4, 4, 3)(x)
    assert [len(pool(one)) for pool in pools for one in (x, y)] == [2] * 4
    assert reads == [1]
    x.C, x.F = x.coords[:64].clone(), x.feats[:64]
    assert x.clouds() == 1
    assert y.clouds() == 2


def test_coordinates_outside_of_int32(monkeypatch):
    far = torch.tensor([[0, 7, 0, 0], [0, 2**32 + 1, 0, 0]])
    with pytest.raises(ValueError, match=r"outside of int32; row 1 is \[0, 4294967297, 0, 0\]"):
        torchsparse.nn.Conv3d(4, 4, 3)(torchsparse.SparseTensor(torch.ones(2, 4), far))
    # The host reads nothing in capacity mode.
    monkeypatch.setattr(_rules, "read_numbers", None)
    x = torchsparse.SparseTensor(torch.ones(2, 4), far, spatial_range=[1, 8, 8, 8], capacities=[2])
    assert x.level.coordinates[1].tolist() == [0, 1, 0, 0]


def test_points_that_have_no_voxel():
    quantize = torchsparse.utils.quantize.sparse_quantize
    for wrong in (np.nan, np.inf, 1e12):
        with pytest.raises(ValueError, match="outside of int32"):
            quantize(np.array([[wrong, 0, 0], [1, 1, 1]]), 0.1)
    for size in (0, -1.0, np.nan, (1, 0, 1)):
        with pytest.raises(ValueError, match=r"voxel_size is .*, and must be positive"):
            quantize(np.ones((2, 3)), size)


def test_sums_of_tensors_without_voxels():
    empty = torchsparse.SparseTensor(torch.ones(0, 4), torch.zeros(0, 4, dtype=torch.int32))
    assert torchsparse.generative_add(empty, empty).feats.shape == (0, 4)
    x = small()
    total = torchsparse.generative_add(empty, x)
    assert torch.equal(total.coords, x.coords)
    assert torch.equal(total.feats, x.feats)


def test_numbers_that_are_no_integers():
    for name in ("kernel_size", "stride", "padding"):
        for wrong in (1.5, [1, 1.5, 1], torch.tensor([1, 1.5, 1])):
            with pytest.raises(TypeError, match=rf"{name} is .*1\.5.*: give an integer, or one for each of the 3 axes"):
                torchsparse.nn.Conv3d(4, 4, **{"kernel_size": 3, name: wrong})
    with pytest.raises(TypeError, match=r"spatial_range is \[2, 4, 4, 4\.5\]"):
        small(spatial_range=[2, 4, 4, 4.5])
    with pytest.raises(ValueError, match="stride has 2 numbers, and there are 3 axes"):
        torchsparse.nn.Conv3d(4, 4, 3, stride=[1, 2])
    for numbers in (torch.tensor([1, 2, 3]), torch.tensor([1.0, 2.0, 3.0]), (1.0, 2, 3.0), [1, 2.0, 3]):
        assert torchsparse.utils.make_ntuple(numbers, 3) == (1, 2, 3)
    assert torchsparse.utils.make_ntuple(2.0, 3) == (2, 2, 2)
