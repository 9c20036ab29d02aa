"""Functions of sparse tensors under spconv's names."""

from __future__ import annotations

import functools
import operator

import torch

from .. import functional as F  # noqa: N812
from .._links import invert_rows, number_rows
from .._rules import read_numbers
from .core import SparseConvTensor


def sparse_add(*tens: SparseConvTensor) -> SparseConvTensor:
    """Adds tensors with different voxels. The result has the voxels of all, in ascending order; where a tensor has no
    voxel it adds 0. Its indice keys are those of the tensor that has all the voxels, if there is one.

    Raises:
        ValueError: the tensors differ in spatial shape, batch size or channels, are in capacity mode, or have a voxel
            more than once.
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
    sources = [invert_rows(own, len(every)) for own in rows]
    used = read_numbers(torch.stack([(source >= 0).sum() for source in sources]))
    for place, (voxels, own) in enumerate(zip(used, rows, strict=True)):
        if voxels < len(own):
            raise ValueError(
                f"tensor {place} has {len(own)} rows, but only {voxels} different voxels: merge the rows with the same "
                "coordinates first"
            )
    # Gathers and sums of whole tensors have the same bits each time, and so have their gradients.
    parts = [_gather(tensor.features, source) for tensor, source in zip(tens, sources, strict=True)]
    total = functools.reduce(operator.add, parts)
    for tensor, own in zip(tens, rows, strict=True):
        if len(own) == len(every):
            # The sum has the rows of this tensor, so that the maps that are known for it still hold.
            return tensor.replace_feature(_gather(total, own))
    indices = first.indices.new_empty((len(every), first.indices.shape[1]))
    for tensor, own in zip(tens, rows, strict=True):
        indices[own] = tensor.indices
    return SparseConvTensor(total, indices, first.spatial_shape, first.batch_size)


def _gather(features: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Returns the rows of features that `rows` names, each at most once; zeros where it is -1."""
    if features.dtype in (torch.float32, torch.float16, torch.bfloat16):
        return F.gather_rows(features, rows.int())
    padded = torch.cat([features, features.new_zeros((1, features.shape[1]))])
    return padded[torch.where(rows < 0, len(features), rows)]


sparse_add_hash_based = sparse_add
