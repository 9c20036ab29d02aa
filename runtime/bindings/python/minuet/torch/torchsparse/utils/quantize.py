"""Voxels of points under the names of torchsparse.utils.quantize."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["sparse_quantize"]


def sparse_quantize(
    coords: Any, voxel_size: Any = 1, *, return_index: bool = False, return_inverse: bool = False
) -> Any:
    """Returns the voxels of the points of one cloud, in ascending order, int32 [voxels, axes].

    Args:
        coords: [points, axes], an array.
        voxel_size: one number, or one for each axis.
        return_index: whether the first point of each voxel is returned too.
        return_inverse: whether the voxel of each point is returned too.

    Returns:
        The voxels, or a list with them and what else is asked for.
    """
    if not (np.asarray(voxel_size) > 0).all():
        raise ValueError(f"voxel_size is {voxel_size}, and must be positive")
    cells = np.floor(np.asarray(coords) / np.asarray(voxel_size))
    if not ((cells >= -(2**31)) & (cells < 2**31)).all():
        raise ValueError(
            "some voxels are outside of int32: use a larger voxel_size, or leave out points that are not finite"
        )
    voxels, index, inverse = np.unique(cells.astype(np.int32), axis=0, return_index=True, return_inverse=True)
    found = [voxels]
    if return_index:
        found.append(index)
    if return_inverse:
        found.append(inverse.reshape(-1))
    return found[0] if len(found) == 1 else found
