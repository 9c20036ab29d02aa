"""Batches of clouds, and voxels of points, under MinkowskiEngine's names."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .._links import unique_rows
from .._rules import as_int32

_DTYPES = (torch.int32, torch.float32)


def _tensor(values: Any) -> torch.Tensor:
    return torch.from_numpy(values) if isinstance(values, np.ndarray) else torch.as_tensor(values)


def batched_coordinates(coords: Sequence[Any], dtype: torch.dtype = torch.int32, device: Any = None) -> torch.Tensor:
    """Returns the coordinates of several clouds, [rows, 1 + axes], the batch index first.

    Args:
        coords: for each cloud an array or a tensor [rows, axes]. Coordinates that are not whole are rounded down for
            int32.
        dtype: int32, or float32 for a TensorField.
        device: of the result; None: the CPU.
    """
    if dtype not in _DTYPES:
        raise ValueError(f"dtype is {dtype}, and int32 or float32 is needed")
    parts: list[torch.Tensor] = []
    for number, given in enumerate(coords):
        part = _tensor(given)
        if part.dim() != 2 or (parts and part.shape[1] + 1 != parts[0].shape[1]):
            raise ValueError(
                f"the coordinates of cloud {number} have the shape {list(part.shape)}: all need [rows, axes] with the "
                "same axes"
            )
        part = as_int32(part) if dtype == torch.int32 else part
        part = part.to(device=device or "cpu", dtype=dtype)
        parts.append(torch.nn.functional.pad(part, (1, 0), value=number))
    if not parts:
        raise ValueError("there is no cloud: give the coordinates of one or more")
    return torch.cat(parts)


def sparse_collate(
    coords: Sequence[Any],
    feats: Sequence[Any],
    labels: Sequence[Any] | None = None,
    dtype: torch.dtype = torch.int32,
    device: Any = None,
) -> tuple[Any, ...]:
    """Returns the coordinates, the features and, where given, the labels of several clouds, each in one tensor.

    Labels that are neither arrays nor tensors are returned as a list. Arguments are as of batched_coordinates().
    """
    for number, (part, features) in enumerate(zip(coords, feats, strict=True)):
        if len(part) != len(features):
            raise ValueError(
                f"cloud {number} has {len(part)} rows of coordinates, and {len(features)} of features: both need one "
                "row for each voxel"
            )
    if device is None and isinstance(coords[0], torch.Tensor):
        device = coords[0].device
    made = (batched_coordinates(coords, dtype, device), torch.cat([_tensor(one) for one in feats]))
    if labels is None:
        return made
    if not isinstance(labels[0], (np.ndarray, torch.Tensor)):
        return (*made, list(labels))
    return (*made, torch.cat([_tensor(one) for one in labels]))


def batch_sparse_collate(
    data: Sequence[Sequence[Any]], dtype: torch.dtype = torch.int32, device: Any = None
) -> tuple[Any, ...]:
    """Collates a list of (coordinates, features, labels) for a DataLoader."""
    coords, feats, *labels = zip(*data, strict=True)
    return sparse_collate(coords, feats, labels[0] if labels else None, dtype, device)


class SparseCollation:
    """Collates a list of (coordinates, features, labels) for a DataLoader.

    Args:
        limit_numpoints: where positive, clouds are left out from the first with which the points would be more.
        dtype, device: as of batched_coordinates().
    """

    def __init__(self, limit_numpoints: int = -1, dtype: torch.dtype = torch.int32, device: Any = None) -> None:
        self.limit_numpoints, self.dtype, self.device = limit_numpoints, dtype, device

    def __call__(self, list_data: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        """Collates a batch."""
        kept: list[Sequence[Any]] = []
        points = 0
        for item in list_data:
            points += len(item[0])
            if 0 < self.limit_numpoints < points:
                warnings.warn(
                    f"a batch of {len(list_data)} clouds has more than {self.limit_numpoints} points: the first "
                    f"{len(kept)} clouds are used",
                    stacklevel=2,
                )
                break
            kept.append(item)
        return batch_sparse_collate(kept, self.dtype, self.device)


def unique_coordinate_map(coordinates: torch.Tensor, tensor_stride: Any = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Finds the rows that have the same coordinates. Returns the number of the first row of each voxel, ascending, and
    for each row the number of its voxel in this order; both int64. `tensor_stride` is taken, and without effect."""
    return unique_rows(coordinates)


def sparse_quantize(
    coordinates: Any,
    features: Any = None,
    labels: Any = None,
    ignore_label: int = -100,
    return_index: bool = False,
    return_inverse: bool = False,
    return_maps_only: bool = False,
    quantization_size: Any = None,
    device: Any = "cpu",
) -> Any:
    """Returns the voxels of points: unique coordinates, int32, in the order of their first points.

    Args:
        coordinates: [points, axes], an array or a tensor.
        features: [points, channels]; a voxel has those of its first point.
        labels: [points]; a voxel whose points have different labels has `ignore_label`.
        return_index: whether the first point of each voxel is returned too.
        return_inverse: whether the voxel of each point is returned too.
        return_maps_only: whether these alone are returned.
        quantization_size: the size of a voxel, one number or one for each axis; None: 1.
        device: of the coordinates that are returned.

    Returns:
        The coordinates, then what is asked for of the features, the labels, the index and the inverse.
    """
    points = _tensor(coordinates)
    if points.dim() != 2:
        raise ValueError(f"coordinates have the shape {list(points.shape)}, and [points, axes] is needed")
    for name, values in (("features", features), ("labels", labels)):
        if values is not None and len(values) != len(points):
            raise ValueError(f"there are {len(points)} points, and {len(values)} {name}: each point needs its own")
    if quantization_size is not None:
        exact = torch.float64 if isinstance(coordinates, np.ndarray) else torch.float32
        points = points if points.is_floating_point() else points.to(exact)
        sizes = torch.as_tensor(quantization_size, dtype=points.dtype)
        if not (sizes > 0).all():
            raise ValueError(f"quantization_size is {quantization_size}, and must be positive")
        points = points / sizes.to(points.device)
    cells = as_int32(points)
    first, kind = unique_rows(cells)
    if return_maps_only:
        return (first, kind) if return_inverse else first
    found: list[Any] = [cells[first].to(device)]
    if features is not None:
        found.append(features[first.cpu().numpy()] if isinstance(features, np.ndarray) else features[first])
    if labels is not None:
        found.append(_voxel_labels(labels, first, kind, ignore_label))
    if return_index:
        found.append(first)
    if return_inverse:
        found.append(kind)
    return found[0] if len(found) == 1 else tuple(found)


def _voxel_labels(labels: Any, first: torch.Tensor, kind: torch.Tensor, ignore_label: int) -> Any:
    given = _tensor(labels).to(first.device)
    own = given[first]
    differs = torch.zeros(len(first), dtype=torch.bool, device=first.device)
    differs[kind[given != own[kind]]] = True
    made = torch.where(differs, ignore_label, own)
    return made.cpu().numpy() if isinstance(labels, np.ndarray) else made


def kaiming_normal_(
    tensor: torch.Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> torch.Tensor:
    """Draws a kernel [offsets, in, out] or a weight [out, in] as torch.nn.init.kaiming_normal_ does, which counts the
    offsets with the channels."""
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode is {mode!r}, and fan_in or fan_out is needed")
    if tensor.dim() not in (2, 3):
        raise ValueError(
            f"the tensor has the shape {list(tensor.shape)}, and [offsets, in, out] or [out, in] is needed"
        )
    if tensor.dim() == 2:
        fan = tensor.shape[1 if mode == "fan_in" else 0]
    else:
        fan = tensor.shape[0] * tensor.shape[1 if mode == "fan_in" else 2]
    with torch.no_grad():
        return tensor.normal_(0, torch.nn.init.calculate_gain(nonlinearity, a) / math.sqrt(fan))
