"""Tensors are copied and pickled: with their coordinates, and without their maps, which the copy makes anew."""

from __future__ import annotations

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")

import minuet.torch as sparse  # noqa: E402
import minuet.torch.minkowski as ME  # noqa: E402, N812
import minuet.torch.spconv as spconv  # noqa: E402
import minuet.torch.torchsparse as torchsparse  # noqa: E402
from minuet.torch import functional as F  # noqa: E402, N812
from torch_problems import GEOMETRIES, cloud, normal  # noqa: E402

COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda value: pickle.loads(pickle.dumps(value))}


@pytest.fixture(params=COPIES)
def copied(request):
    return COPIES[request.param]


@pytest.fixture
def coordinates(generator):
    drawn = cloud(generator, GEOMETRIES["submanifold"], 40)
    return drawn - drawn.amin(0)


@torch.no_grad()
def test_tensors_of_two_levels(generator, coordinates, copied):
    weight = normal(generator, 8, 4, 4)
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates, shape=[30, 31, 32], batch_size=5)
    y = F.convolution(x, weight, kernel_size=2, stride=2)
    wanted = F.convolution(y, weight, kernel_size=2, stride=2, transposed=True)
    made, coarse = copied((x, y))
    assert made.level is not x.level
    assert coarse.level.parent is made.level
    assert made.geometry.batch_size == 5
    assert made.level.shape == (30, 31, 32)
    for one in (coarse, copied(y)):
        assert torch.equal(one.coordinates, y.coordinates)
        back = F.convolution(one, weight, kernel_size=2, stride=2, transposed=True)
        assert torch.equal(back.coordinates, coordinates)
        assert torch.equal(back.features, wanted.features)


def test_bounds_are_kept(coordinates, copied):
    bounds = ((0, 0, 0, 0), (9, 40, 41, 42))
    level = sparse.Geometry(coordinates, bounds=bounds).level
    assert copied(level).bounds == bounds


@torch.no_grad()
def test_tensors_of_the_other_packages(generator, coordinates, copied):
    """The last layer leads back over the maps and sets of the first one."""
    features = normal(generator, 40, 4)
    down = spconv.SparseSequential(
        spconv.SubMConv3d(4, 8, 3, indice_key="same"), spconv.SparseConv3d(8, 8, 3, 2, 1, indice_key="down")
    )
    y = down(spconv.SparseConvTensor(features, coordinates, [64] * 3, 9))
    back = spconv.SparseInverseConv3d(8, 4, 3, indice_key="down")
    assert torch.equal(back(copied(y)).features, back(y).features)
    y = ME.MinkowskiConvolution(4, 8, 3, 2, dimension=3)(ME.SparseTensor(features, coordinates))
    back = ME.MinkowskiConvolutionTranspose(8, 4, 3, 2, dimension=3)
    assert torch.equal(back(copied(y)).F, back(y).F)
    y = torchsparse.nn.Conv3d(4, 8, 2, 2)(torchsparse.SparseTensor(features, coordinates))
    back = torchsparse.nn.Conv3d(8, 4, 2, 2, transposed=True)
    assert torch.equal(back(copied(y)).F, back(y).F)


def test_capacities_say_what_to_do(generator, coordinates, copied):
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates, capacities=[40])
    with pytest.raises(TypeError, match="copy features and coordinates, and make a tensor of these"):
        copied(x)
