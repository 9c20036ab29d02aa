"""Coordinates that change in place after a tensor was made of them. Those of spconv are in test_spconv_misuse.py."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import minuet.torch as sparse  # noqa: E402
import minuet.torch.minkowski as ME  # noqa: E402, N812
import minuet.torch.torchsparse as torchsparse  # noqa: E402
from minuet.torch import functional as F  # noqa: E402, N812
from torch_problems import GEOMETRIES, cloud, normal  # noqa: E402


@pytest.fixture
def coordinates(generator):
    return cloud(generator, GEOMETRIES["submanifold"], 40)


@pytest.mark.parametrize("op", ["submanifold", "strided", "transposed", "pooling", "coarser"])
def test_coordinates_that_change_in_place(generator, coordinates, op):
    """The maps and levels so far would be those of the old coordinates."""
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates.clone())
    weight = normal(generator, 8, 4, 4)
    coarse = F.convolution(x, weight, kernel_size=2, stride=2)
    call = {
        "submanifold": lambda: F.convolution(x, weight, kernel_size=2, submanifold=True),
        "strided": lambda: F.convolution(x, weight, kernel_size=2, stride=2),
        "transposed": lambda: F.convolution(coarse, weight, kernel_size=2, stride=2, transposed=True),
        "pooling": lambda: F.pooling(x, kernel_size=2),
        "coarser": lambda: x.level.coarser(2),
    }[op]
    call(), call()
    x.coordinates[0, 1] += 1
    for _ in range(2):
        with pytest.raises(ValueError, match="changed in place"):
            call()


def test_coordinates_that_change_before_the_first_op(generator, coordinates):
    x = sparse.SparseTensor.of(normal(generator, 40, 4), coordinates)
    coordinates[0, 1] += 1
    with pytest.raises(ValueError, match="changed in place"):
        F.convolution(x, normal(generator, 27, 4, 4), kernel_size=3, submanifold=True)


def test_whole_clouds_of_coordinates_that_change_in_place(generator, coordinates):
    """What a level keeps of its coordinates would be that of the old ones."""
    pooled, listed = (sparse.SparseTensor.of(normal(generator, 40, 4), coordinates.clone()) for _ in range(2))
    calls = (lambda: F.global_pooling(pooled, "sum", 2), lambda: listed.level.clouds)
    for x, call in zip((pooled, listed), calls, strict=True):
        call(), call()
        x.coordinates[0, 0] = 5
        with pytest.raises(ValueError, match="changed in place"):
            call()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_coordinates_of_torchsparse(generator, coordinates, dtype):
    """Also those of int64, of which the tensor has a copy."""
    x = torchsparse.SparseTensor(normal(generator, 40, 4), coordinates.to(dtype))
    x.coords[0, 1] += 0  # A change before the first op is none.
    layer = torchsparse.nn.Conv3d(4, 4, 3)
    layer(x), layer(x)
    x.coords[0, 1] = 9
    with pytest.raises(ValueError, match="changed in place"):
        layer(x)


def test_the_number_of_clouds_of_torchsparse(generator, coordinates):
    x = torchsparse.SparseTensor(normal(generator, 40, 4), coordinates)
    assert x.clouds() == 2
    x.coords[:, 0] = 0
    for pool in (torchsparse.nn.GlobalAvgPool(), torchsparse.nn.GlobalMaxPool()):
        with pytest.raises(ValueError, match="changed in place"):
            pool(x)


def test_coordinates_of_minkowski(generator, coordinates):
    x = ME.SparseTensor(normal(generator, 40, 4), coordinates)
    layer = ME.MinkowskiConvolution(4, 4, 3, dimension=3)
    layer(x), layer(x)
    x.C[0, 1] = 9
    with pytest.raises(ValueError, match="changed in place"):
        layer(x)
