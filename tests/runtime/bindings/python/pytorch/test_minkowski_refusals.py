"""What minuet.torch.minkowski refuses, and how it says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import minuet.torch.minkowski as ME  # noqa: E402, N812


def small(**options: Any) -> ME.SparseTensor:
    cells = torch.cartesian_prod(torch.arange(2), *[torch.arange(3)] * 3).int()
    return ME.SparseTensor(torch.ones(len(cells), 4), cells, **options)


def fixed() -> ME.SparseTensor:
    """A tensor in capacity mode."""
    return small(capacities=lambda *_: 60)


def conv(*args: Any, **kwargs: Any) -> ME.MinkowskiConvolution:
    return ME.MinkowskiConvolution(*args, dimension=3, **kwargs)


CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "no dimension": (lambda: ME.MinkowskiConvolution(4, 4, 3), "dimension is -1, and must be the number of axes"),
    "no kernel size": (lambda: conv(4, 4), "kernel_size is .-1, -1, -1., and each number must be 1 or more"),
    "numbers": (lambda: conv(4, 4, (3, 3)), "kernel_size has 2 numbers, and there are 3 axes"),
    "custom kernel": (
        lambda: ME.KernelGenerator(3, region_type=ME.RegionType.CUSTOM, dimension=3),
        "MinkowskiEngine 0.5 refuses them itself",
    ),
    "even cross": (
        lambda: ME.KernelGenerator(2, region_type=ME.RegionType.HYPER_CROSS, dimension=3),
        "HYPER_CROSS needs odd numbers",
    ),
    "axes": (lambda: ME.MinkowskiMaxPooling(2, 2, dimension=2)(small()), "layer has 2 axes, and the tensor 3"),
    "channels": (lambda: conv(5, 4, 3)(small()), "features have 4 channels, and the layer takes 5"),
    "channels of each": (
        lambda: ME.MinkowskiChannelwiseConvolution(5, 3, dimension=3)(small()),
        "features have 4 channels, and the layer takes 5",
    ),
    "finer than 1": (
        lambda: ME.MinkowskiConvolutionTranspose(4, 4, 2, 2, dimension=3)(small()),
        "tensor stride is .1, 1, 1., and must be a multiple",
    ),
    "strides that do not fit": (
        lambda: (lambda x: conv(4, 4, 3)(conv(4, 4, 2, 2)(x), x))(small()),
        "no multiple of .2, 2, 2.",
    ),
    "maximum on given coordinates": (
        lambda: (lambda x: ME.MinkowskiMaxPooling(3, 1, dimension=3)(x, x.C + 1))(small()),
        "a max pooling needs an output whose cells have voxels",
    ),
    "global with coordinates": (
        lambda: (lambda x: ME.MinkowskiGlobalAvgPooling()(x, x))(small()),
        "leave out coordinates",
    ),
    "local mode": (lambda: ME.MinkowskiGlobalPooling(ME.PoolingMode.LOCAL_MAX_POOLING), "GLOBAL modes is needed"),
    "broadcast of voxels": (
        lambda: (lambda x: ME.MinkowskiBroadcast()(x, x))(small()),
        "give the result of a global pooling",
    ),
    "coordinates of another manager": (lambda: conv(4, 4, 3)(small(), small()), "different coordinate managers"),
    "broadcast of fewer clouds": (
        lambda: (
            lambda x, pooled: (
                ME.SparseTensor(
                    torch.ones(1, 4), torch.tensor([[5, 0, 0, 0]]).int(), coordinate_manager=x.coordinate_manager
                ),
                ME.MinkowskiBroadcast()(x, pooled),
            )
        )(*(lambda x: (x, ME.MinkowskiGlobalMaxPooling()(x)))(small())),
        "give the result of a global pooling",
    ),
    "other managers": (lambda: small() + small(), "different coordinate managers: give coordinate_manager"),
    "other sets": (lambda: (lambda x: ME.cat(x, conv(4, 4, 2, 2)(x)))(small()), "use . or MinkowskiUnion"),
    "one tensor": (lambda: ME.cat(small()), "1 tensors are given, and 2 or more are needed"),
    "one tensor in a list": (lambda: ME.cat([small()]), "1 tensors are given, and 2 or more are needed"),
    "mask": (lambda: ME.MinkowskiPruning()(small(), torch.ones(3)), "bool .54. is needed"),
    "no coordinates": (lambda: ME.SparseTensor(torch.ones(2, 4)), "either coordinates, or a coordinate_map_key"),
    "key alone": (
        lambda: ME.SparseTensor(torch.ones(2, 4), coordinate_map_key=ME.CoordinateMapKey((1, 1, 1))),
        "give coordinate_manager too",
    ),
    "rows": (lambda: ME.SparseTensor(torch.ones(3, 4), torch.zeros(2, 4).int()), ".3, 1 . axes. is needed"),
    "rows of a key": (
        lambda: (
            lambda x: ME.SparseTensor(
                torch.ones(3, 4), coordinate_map_key=x.coordinate_map_key, coordinate_manager=x.coordinate_manager
            )
        )(small()),
        "3 rows of features, and the set of the key has 54",
    ),
    "one axis of features": (lambda: ME.SparseTensor(torch.ones(3), torch.zeros(3, 4).int()), "rows, channels"),
    "tensor stride": (
        lambda: ME.SparseTensor(torch.ones(1, 4), torch.tensor([[0, 1, 2, 4]]).int(), 2),
        "no multiples of the tensor stride",
    ),
    "features that are not reduced": (
        lambda: ME.SparseTensor(
            torch.ones(2, 4),
            torch.zeros(2, 4).int(),
            quantization_mode=ME.SparseTensorQuantizationMode.SPLAT_LINEAR_INTERPOLATION,
        ),
        "makes no features of voxels",
    ),
    "negative cells": (
        lambda: ME.SparseTensor(torch.ones(1, 4), torch.tensor([[0, -1, 0, 0]]).int()).dense(),
        "give the least coordinates",
    ),
    "small shape": (lambda: small().dense(torch.Size([2, 4, 2, 3, 3])), "outside of the shape"),
    "axes of a shape": (lambda: small().dense(torch.Size([2, 3])), "shape has 2 numbers"),
    "first cell": (
        lambda: conv(4, 4, 2, 2)(small()).dense(min_coordinate=torch.tensor([1, 0, 0])),
        "must be a multiple of .2, 2, 2.",
    ),
    "dense format": (lambda: ME.to_sparse(torch.ones(1, 2, 3, 3), "BXC"), "needs B first, one C"),
    "softmax of voxels": (lambda: ME.MinkowskiSoftmax(dim=0), "would mix voxels"),
    "slice of another": (
        lambda: small().slice(ME.TensorField(torch.ones(1, 2), torch.zeros(1, 4))),
        "make the tensor with sparse.. of their field",
    ),
    "cloud shapes": (
        lambda: ME.utils.batched_coordinates([torch.ones(2, 3), torch.ones(2, 2)]),
        "cloud 1 have the shape .2, 2.",
    ),
    "cloud rows": (
        lambda: ME.utils.sparse_collate([torch.ones(2, 3)], [torch.ones(3, 1)]),
        "2 rows of coordinates, and 3 of features",
    ),
    "labels": (lambda: ME.utils.sparse_quantize(torch.ones(2, 3), labels=torch.ones(3)), "2 points, and 3 labels"),
    "capacity: union": (
        lambda: (
            lambda x: (
                x
                + ME.SparseTensor(
                    torch.ones(1, 4), torch.tensor([[0, 9, 9, 9]]).int(), coordinate_manager=x.coordinate_manager
                )
            )
        )(fixed()),
        "use exact mode",
    ),
    "capacity: pruning": (
        lambda: (lambda x: ME.MinkowskiPruning()(x, torch.ones(len(x), dtype=torch.bool)))(fixed()),
        "use exact mode",
    ),
    "capacity: generative": (
        lambda: ME.MinkowskiGenerativeConvolutionTranspose(4, 4, 2, 2, dimension=3)(conv(4, 4, 2, 2)(fixed())),
        "new coordinates cannot be made in capacity mode",
    ),
    "capacity: decomposed": (lambda: fixed().decomposed_features, "cannot be decomposed in capacity mode"),
    "capacity: clouds": (lambda: ME.MinkowskiGlobalAvgPooling()(fixed()), "give batch_size to the SparseTensor"),
    "capacity: losses": (
        lambda: ME.MinkowskiFunctional.mse_loss(fixed(), torch.ones(54, 4)),
        "rows that are not in use in capacity mode",
    ),
    "capacity: other sets": (
        lambda: (
            lambda x: ME.MinkowskiConvolutionTranspose(4, 4, 4, 4, dimension=3)(conv(4, 4, 2, 2)(conv(4, 4, 2, 2)(x)))
        )(fixed()),
        "the host cannot match them",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_refusals(name):
    call, message = CALLS[name]
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert caught.value.args


def test_refusals_of_types_and_names():
    with pytest.raises(TypeError, match="takes a SparseTensor, and Tensor is given"):
        conv(4, 4, 3)(torch.ones(2, 4))
    with pytest.raises(TypeError, match=r"kernel_size is 2.5: give an integer, or one for each of the 3 axes"):
        conv(4, 4, 2.5)
    with pytest.raises(TypeError, match=r"tensor_stride is .1.5, 1, 1.: give an integer"):
        small(tensor_stride=[1.5, 1, 1])
    with pytest.raises(KeyError, match=r"no set with the tensor stride .8, 8, 8."):
        small().coordinate_manager.get_coordinates(8)
    with pytest.raises(KeyError, match=r"no set CoordinateMapKey.*It has"):
        small().coordinate_manager.size(ME.CoordinateMapKey((4, 4, 4)))
    with pytest.raises(TypeError, match="SparseTensorOperationMode is needed"):
        ME.set_sparse_tensor_operation_mode(1)
