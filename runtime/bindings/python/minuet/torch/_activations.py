"""Ops that compute each voxel's features from its features alone. Rows past the count stay zero."""

from __future__ import annotations

import torch
from torch.nn import functional as dense

from ._sparse_tensor import SparseTensor

# A function that gives 0 for 0 leaves the rows past the count as they are, so that they need no mask.


def relu(x: SparseTensor) -> SparseTensor:
    """Returns max(x, 0)."""
    return x.replace(dense.relu(x.features))


def leaky_relu(x: SparseTensor, negative_slope: float = 0.01) -> SparseTensor:
    """Returns x, or x * negative_slope where x is negative."""
    return x.replace(dense.leaky_relu(x.features, negative_slope))


def gelu(x: SparseTensor, approximate: str = "none") -> SparseTensor:
    """Returns torch.nn.functional.gelu of the features."""
    return x.replace(dense.gelu(x.features, approximate=approximate))


def silu(x: SparseTensor) -> SparseTensor:
    """Returns x * sigmoid(x)."""
    return x.replace(dense.silu(x.features))


def tanh(x: SparseTensor) -> SparseTensor:
    """Returns tanh(x)."""
    return x.replace(torch.tanh(x.features))


def sigmoid(x: SparseTensor) -> SparseTensor:
    """Returns 1 / (1 + exp(-x))."""
    return x.apply(torch.sigmoid)


def dropout(x: SparseTensor, p: float = 0.5, training: bool = True) -> SparseTensor:
    """Returns torch.nn.functional.dropout of the features."""
    return x.replace(dense.dropout(x.features, p, training))


def layer_norm(
    x: SparseTensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, eps: float = 1e-5
) -> SparseTensor:
    """Normalizes the features of each voxel."""
    return x.apply(lambda features: dense.layer_norm(features, (features.shape[1],), weight, bias, eps))


def _check_level(x: SparseTensor, y: SparseTensor) -> None:
    if x.level is not y.level:
        raise ValueError("the tensors are on different levels: bring them to one level first")


def add(x: SparseTensor, y: SparseTensor) -> SparseTensor:
    """Returns the sum of two tensors on the same level."""
    _check_level(x, y)
    return x.replace(x.features + y.features)


def multiply(x: SparseTensor, y: SparseTensor) -> SparseTensor:
    """Returns the product of two tensors on the same level, element by element."""
    _check_level(x, y)
    return x.replace(x.features * y.features)


def cat(tensors: list[SparseTensor]) -> SparseTensor:
    """Returns the features of tensors on the same level side by side."""
    for y in tensors[1:]:
        _check_level(tensors[0], y)
    return tensors[0].replace(torch.cat([y.features for y in tensors], 1))
