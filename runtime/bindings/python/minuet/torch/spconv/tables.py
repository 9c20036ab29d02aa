"""Layers of several branches under spconv's names."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from .core import SparseConvTensor
from .functional import sparse_add
from .modules import SparseModule


def _require_same_voxels(tensors: Sequence[SparseConvTensor], layer: str) -> SparseConvTensor:
    first = tensors[0]
    for other in tensors[1:]:
        if other.level is not first.level and other.indices is not first.indices:
            raise ValueError(
                f"{layer} takes tensors with the same voxels: use AddTableMisaligned or sparse_add for others"
            )
    return first


class JoinTable(SparseModule):
    """Puts the channels of tensors with the same voxels side by side."""

    def forward(self, input: Sequence[SparseConvTensor]) -> SparseConvTensor:
        """Joins tensors."""
        first = _require_same_voxels(input, "JoinTable")
        return first.replace_feature(torch.cat([tensor.features for tensor in input], 1))


class AddTable(SparseModule):
    """Adds tensors with the same voxels."""

    def forward(self, input: Sequence[SparseConvTensor]) -> SparseConvTensor:
        """Adds tensors."""
        first = _require_same_voxels(input, "AddTable")
        total = first.features
        for tensor in input[1:]:
            total = total + tensor.features
        return first.replace_feature(total)


class AddTableMisaligned(SparseModule):
    """Adds tensors with different voxels. The result has the voxels of all."""

    def forward(self, input: Sequence[SparseConvTensor]) -> SparseConvTensor:
        """Adds tensors."""
        return sparse_add(*input)


class ConcatTable(SparseModule):
    """Gives its input to each of its layers, and returns the list of their results."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        for number, module in enumerate(modules):
            self.add_module(str(number), module)

    def add(self, module: nn.Module) -> ConcatTable:
        """Appends a layer."""
        self.add_module(str(len(self._modules)), module)
        return self

    def forward(self, input: SparseConvTensor) -> list[SparseConvTensor]:
        """Applies each layer."""
        return [module(input) for module in self._modules.values() if module is not None]
