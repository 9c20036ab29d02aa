"""Batches of clouds under the names of torchsparse.utils.collate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..tensor import SparseTensor

__all__ = ["sparse_collate", "sparse_collate_fn"]


def sparse_collate(inputs: Sequence[SparseTensor]) -> SparseTensor:
    """Returns one tensor of several clouds, whose coords are [rows, 3], arrays or tensors, without a batch index."""
    coords, feats = [], []
    for number, one in enumerate(inputs):
        if one.stride != inputs[0].stride:
            raise ValueError(f"the clouds have the strides {inputs[0].stride} and {one.stride}, and need one")
        rows = torch.as_tensor(one.coords)
        if rows.dim() != 2 or rows.shape[1] != 3:
            raise ValueError(f"the coords of cloud {number} have the shape {list(rows.shape)}, and [rows, 3] is needed")
        coords.append(torch.nn.functional.pad(rows.int(), (1, 0), value=number))
        feats.append(torch.as_tensor(one.feats))
    return SparseTensor(torch.cat(feats), torch.cat(coords), inputs[0].stride)


def sparse_collate_fn(inputs: Sequence[Any]) -> Any:
    """Collates a list of dicts for a DataLoader: sparse tensors become one, arrays and tensors are stacked, and other
    values become a list. A list of anything else stays as it is."""
    first = inputs[0]
    if not isinstance(first, dict):
        return inputs
    made: dict[str, Any] = {}
    for name, value in first.items():
        values = [item[name] for item in inputs]
        if isinstance(value, dict):
            made[name] = sparse_collate_fn(values)
        elif isinstance(value, SparseTensor):
            made[name] = sparse_collate(values)
        elif isinstance(value, (np.ndarray, torch.Tensor)):
            made[name] = torch.stack([torch.as_tensor(one) for one in values])
        else:
            made[name] = values
    return made
