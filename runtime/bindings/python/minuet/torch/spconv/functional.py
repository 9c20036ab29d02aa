"""Functions of sparse tensors under spconv's names."""

from __future__ import annotations

import torch

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
        if other.features.shape[1] != first.features.shape[1]:
            raise ValueError(
                f"the tensors have {first.features.shape[1]} and {other.features.shape[1]} channels: they must be equal"
            )
        if other.count is not None:
            raise ValueError(
                "sparse_add() is not possible in capacity mode, because it counts the voxels of the sum: use exact "
                "mode, or describe the network with a union"
            )
    keys = []
    for tensor in tens:
        key = tensor.indices[:, 0].long()
        for axis, extent in enumerate(tensor.spatial_shape):
            key = key * extent + tensor.indices[:, 1 + axis]
        keys.append(key)
    every, rows = torch.unique(torch.cat(keys), return_inverse=True)
    features = torch.cat([tensor.features for tensor in tens])
    for tensor in tens:
        if len(tensor.indices) == len(every):
            # The sum has the rows of this tensor, so that the maps that are known for it still hold.
            place = torch.empty_like(every)
            own = rows[_part(tens, tensor)]
            place[own] = torch.arange(len(own), device=own.device)
            total = features.new_zeros(tensor.features.shape).index_add(0, place[rows], features)
            return tensor.replace_feature(total)
    cells = [every]
    for extent in reversed(first.spatial_shape):
        last = cells.pop()
        cells += [last % extent, torch.div(last, extent, rounding_mode="floor")]
    indices = torch.stack(cells[::-1], 1).int()
    total = features.new_zeros((len(every), features.shape[1])).index_add(0, rows, features)
    return SparseConvTensor(total, indices, first.spatial_shape, first.batch_size)


def _part(tens: tuple[SparseConvTensor, ...], tensor: SparseConvTensor) -> slice:
    begin = 0
    for other in tens:
        if other is tensor:
            break
        begin += len(other.indices)
    return slice(begin, begin + len(tensor.indices))


sparse_add_hash_based = sparse_add
