"""Functions and layers of several tensors, dense tensors, and layers that change the set, under MinkowskiEngine's
names."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from .. import functional as F  # noqa: N812
from .._links import invert_rows
from .tensor import SparseTensor, require_same_key, union


def _combine(tensors: tuple[Any, ...], function: Callable[[Sequence[torch.Tensor]], torch.Tensor]) -> Any:
    given = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    if len(given) < 2:
        raise ValueError(f"{len(given)} tensors are given, and 2 or more are needed")
    require_same_key(given)
    return given[0]._replace(function([one.F for one in given]))


def _total(features: Sequence[torch.Tensor]) -> torch.Tensor:
    return functools.reduce(operator.add, features)


def _variance(features: Sequence[torch.Tensor]) -> torch.Tensor:
    average = _total(features) / len(features)
    return _total([(one - average) ** 2 for one in features]) / len(features)


def cat(*sparse_tensors: Any) -> Any:
    """Puts the channels of tensors on the same set side by side; takes tensors, or a list of them."""
    return _combine(sparse_tensors, lambda features: torch.cat(list(features), 1))


def sum(*sparse_tensors: Any) -> Any:
    """Adds tensors on the same set."""
    return _combine(sparse_tensors, _total)


def mean(*sparse_tensors: Any) -> Any:
    """Returns the mean of tensors on the same set."""
    return _combine(sparse_tensors, lambda features: _total(features) / len(features))


def var(*sparse_tensors: Any) -> Any:
    """Returns the variance of tensors on the same set, divided by their number."""
    return _combine(sparse_tensors, _variance)


class MinkowskiStackCat(nn.Sequential):
    """Gives its input to each of its layers, and puts the channels of their results side by side."""

    def forward(self, x: SparseTensor) -> Any:
        """Applies each layer."""
        return cat([module(x) for module in self])


class MinkowskiStackSum(nn.Sequential):
    """Gives its input to each of its layers, and adds their results."""

    def forward(self, x: SparseTensor) -> Any:
        """Applies each layer."""
        return sum([module(x) for module in self])


class MinkowskiStackMean(nn.Sequential):
    """Gives its input to each of its layers, and returns the mean of their results."""

    def forward(self, x: SparseTensor) -> Any:
        """Applies each layer."""
        return mean([module(x) for module in self])


class MinkowskiStackVar(nn.Sequential):
    """Gives its input to each of its layers, and returns the variance of their results."""

    def forward(self, x: SparseTensor) -> Any:
        """Applies each layer."""
        return var([module(x) for module in self])


class MinkowskiUnion(nn.Module):
    """Adds tensors with different voxels and one manager. The result has the voxels of all."""

    def forward(self, *inputs: SparseTensor) -> SparseTensor:
        """Adds two tensors or more."""
        if len(inputs) < 2:
            raise ValueError(f"{len(inputs)} tensors are given, and 2 or more are needed")
        key, rows = union(inputs)
        count = inputs[0].coordinate_manager.size(key)
        return inputs[0]._on(
            key,
            _total([F.gather_rows(one.F, invert_rows(own, count)) for one, own in zip(inputs, rows, strict=True)]),
        )


class MinkowskiPruning(nn.Module):
    """Keeps the voxels that a mask names, as a set of its own."""

    def forward(self, input: SparseTensor, mask: torch.Tensor) -> SparseTensor:
        """Takes a tensor, and bool [rows] with True for the voxels that stay."""
        if mask.dtype != torch.bool or mask.shape != (len(input),):
            raise ValueError(f"mask is {mask.dtype} of the shape {list(mask.shape)}, and bool [{len(input)}] is needed")
        if input.count is not None:
            raise ValueError(
                "voxels cannot be taken away in capacity mode, because the host counts those that stay: use exact mode"
            )
        kept = mask.to(input.device).nonzero()[:, 0]
        key = input.coordinate_manager.insert(input.level.coordinates[kept], input.tensor_stride, "pruned")
        return input._on(key, F.gather_rows(input.F, kept.int()))


def dense_coordinates(shape: Sequence[int]) -> torch.Tensor:
    """Returns the coordinates of all cells of a dense tensor [batch, channels, axes...], int32 [cells, 1 + axes]."""
    if len(shape) < 3:
        raise ValueError(f"shape is {list(shape)}, and [batch, channels, axes...] is needed")
    return torch.cartesian_prod(*[torch.arange(length) for length in (shape[0], *shape[2:])]).int()


def to_sparse(x: torch.Tensor, format: str | None = None, coordinates: None = None, device: Any = None) -> SparseTensor:
    """Makes a tensor of the cells of a dense one that are not all 0.

    Args:
        format: "B" for the batch, which comes first, "C" for the channels and "X" for each other axis; None: "BCX...".
        coordinates: must be None.
        device: of the result; None: that of x.
    """
    format = format or "BC" + "X" * (x.dim() - 2)
    if len(format) != x.dim() or format[0] != "B" or format.count("C") != 1 or format.count("X") != x.dim() - 2:
        raise ValueError(f"format is {format!r}, and needs B first, one C, and X for each of the other axes of x")
    if coordinates is not None:
        raise ValueError("to_sparse() finds the coordinates itself: use to_sparse_all() for all cells")
    rows = x.movedim(format.index("C"), -1)
    cells = (rows != 0).any(-1).nonzero()
    return SparseTensor(rows[tuple(cells.T)], cells.int(), device=device or x.device)


def to_sparse_all(dense_tensor: torch.Tensor, coordinates: torch.Tensor | None = None) -> SparseTensor:
    """Makes a tensor of all cells of [batch, channels, axes...]; `coordinates`: those of dense_coordinates()."""
    if coordinates is None:
        coordinates = dense_coordinates(dense_tensor.shape)
    features = dense_tensor.movedim(1, -1).reshape(-1, dense_tensor.shape[1])
    return SparseTensor(features, coordinates, device=dense_tensor.device)


class MinkowskiToSparseTensor(nn.Module):
    """Makes a sparse tensor of a TensorField or of a dense tensor [batch, channels, axes...].

    Args:
        remove_zeros: whether cells of a dense tensor that are all 0 are left out.
        coordinates: those of dense_coordinates(), to make them once.
    """

    def __init__(self, remove_zeros: bool = True, coordinates: torch.Tensor | None = None) -> None:
        super().__init__()
        if remove_zeros and coordinates is not None:
            raise ValueError("coordinates are those of all cells: give remove_zeros=False with them")
        self.remove_zeros, self.coordinates = remove_zeros, coordinates

    def forward(self, input: Any) -> SparseTensor:
        """Makes a sparse tensor."""
        if not isinstance(input, torch.Tensor):
            made: SparseTensor = input.sparse()
            return made
        return to_sparse(input) if self.remove_zeros else to_sparse_all(input, self.coordinates)


class MinkowskiToDenseTensor(nn.Module):
    """Makes a dense tensor [batch, channels, axes...]; `shape` is that of dense()."""

    def __init__(self, shape: Sequence[int] | None = None) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, input: SparseTensor) -> torch.Tensor:
        """Makes a dense tensor."""
        return input.dense(self.shape)[0]


class MinkowskiNetwork(nn.Module):
    """A network of layers with D axes, which other classes derive from."""

    def __init__(self, D: int) -> None:  # noqa: N803
        super().__init__()
        self.D = D


class MinkowskiToFeature(nn.Module):
    """Gives the features alone."""

    def forward(self, x: Any) -> torch.Tensor:
        """Returns x.F."""
        features: torch.Tensor = x.F
        return features
