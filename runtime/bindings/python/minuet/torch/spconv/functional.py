"""Functions of sparse tensors under spconv's names."""

from __future__ import annotations

import functools
import operator

import torch

from .. import functional as F  # noqa: N812
from .._links import invert_rows, number_rows
from .core import SparseConvTensor


def sparse_add(*tens: SparseConvTensor) -> SparseConvTensor:
    """Adds tensors with different voxels. The result has the voxels of all, in ascending order; where a tensor has no
    voxel it adds 0. Its indice keys are those of the tensor that has all the voxels, if there is one.

    Raises:
        ValueError: the tensors differ in spatial shape, batch size or channels, or are in capacity mode.
    """
    if not tens:
        raise ValueError("sparse_add() takes one tensor or more")
    first = tens[0]
    for other in tens:
        for name in ("spatial_shape", "batch_size"):
            if getattr(other, name) != getattr(first, name):
                raise ValueError(
                    f"the tensors have a {name} of {getattr(first, name)} and of {getattr(other, name)}, which differ"
                )
        if other.channels != first.channels:
            raise ValueError(f"the tensors have {first.channels} and {other.channels} channels: they must be equal")
        if other.count is not None:
            raise ValueError(
                "sparse_add() is not possible in capacity mode, because it counts the voxels of the sum: use exact "
                "mode, or describe the network with a union"
            )
    numbers = number_rows(*[tensor.indices for tensor in tens])
    every, places = torch.unique(torch.cat(numbers), return_inverse=True)
    rows = places.split([len(part) for part in numbers])
    # Gathers and sums of whole tensors have the same bits each time, and so have their gradients.
    parts = [F.gather_rows(one.features, invert_rows(own, len(every))) for one, own in zip(tens, rows, strict=True)]
    total = functools.reduce(operator.add, parts)
    for tensor, own in zip(tens, rows, strict=True):
        if len(own) == len(every):
            # The sum has the rows of this tensor, so that the maps that are known for it still hold.
            return tensor.replace_feature(F.gather_rows(total, own.int()))
    indices = first.indices.new_empty((len(every), first.indices.shape[1]))
    for tensor, own in zip(tens, rows, strict=True):
        indices[own] = tensor.indices
    return SparseConvTensor(total, indices, first.spatial_shape, first.batch_size)


sparse_add_hash_based = sparse_add
