"""A few of spconv's names on dense grids: torch's own convolutions, with a mask of the cells that are voxels.

A network that is built with this module is what one would train without sparse convolution: it computes every cell, and
keeps those of voxels. Rows of features are the voxels in ascending order of their cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from plain_spconv import SparseModule, SparseSequential
from torch import nn
from torch.nn import functional as F  # noqa: N812

__all__ = ["SparseConv3d", "SparseConvTensor", "SparseInverseConv3d", "SparseModule", "SparseSequential", "SubMConv3d"]


class SparseConvTensor:
    """A dense tensor [batch, channels, z, y, x] with the mask of its voxels, [batch, z, y, x]."""

    def __init__(
        self, features: torch.Tensor, indices: torch.Tensor, spatial_shape: Sequence[int], batch_size: int
    ) -> None:
        self.mask = torch.zeros((batch_size, *spatial_shape), dtype=torch.bool)
        places = tuple(indices.long().T)
        self.mask[places] = True
        grid = features.new_zeros((batch_size, *spatial_shape, features.shape[1])).index_put(places, features)
        self.grid = grid.movedim(-1, 1)
        self.masks: dict[str, torch.Tensor] = {}

    def like(self, grid: torch.Tensor, mask: torch.Tensor) -> SparseConvTensor:
        made = object.__new__(SparseConvTensor)
        made.mask, made.masks = mask, self.masks
        made.grid = grid * mask[:, None]
        return made

    @property
    def features(self) -> torch.Tensor:
        return self.grid.movedim(1, -1)[self.mask]

    def replace_feature(self, features: torch.Tensor) -> SparseConvTensor:
        grid = features.new_zeros((*self.mask.shape, features.shape[1]))
        return self.like(grid.index_put((self.mask,), features).movedim(-1, 1), self.mask)


class _Convolution(SparseModule):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        bias: bool = True,
        indice_key: str | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.indice_key = kernel_size, stride, indice_key
        self.weight = nn.Parameter(torch.empty(out_channels, *[kernel_size] * 3, in_channels))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None

    def matrix(self) -> torch.Tensor:
        """Returns the weight as torch's convolutions read it, [out, in, z, y, x]."""
        if self.kernel_size == 1:
            out, inner = self.weight.shape[0], self.weight.shape[-1]
            return self.weight.reshape(inner, out).T.reshape(out, inner, 1, 1, 1)
        return self.weight.movedim(-1, 1)


class SubMConv3d(_Convolution):
    def forward(self, x: SparseConvTensor) -> SparseConvTensor:
        return x.like(F.conv3d(x.grid, self.matrix(), self.bias, padding=self.kernel_size // 2), x.mask)


class SparseConv3d(_Convolution):
    def forward(self, x: SparseConvTensor) -> SparseConvTensor:
        assert self.indice_key is not None
        x.masks[self.indice_key] = x.mask
        mask = F.max_pool3d(x.mask[:, None].float(), self.kernel_size, self.stride)[:, 0] > 0
        return x.like(F.conv3d(x.grid, self.matrix(), self.bias, self.stride), mask)


class SparseInverseConv3d(_Convolution):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, indice_key: str, bias: bool = True
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, kernel_size, bias=bias, indice_key=indice_key)

    def forward(self, x: SparseConvTensor) -> SparseConvTensor:
        assert self.indice_key is not None
        # The weight of an offset is the same both ways, so that the kernel's inputs and outputs change places.
        grid: Any = F.conv_transpose3d(x.grid, self.weight.permute(4, 0, 1, 2, 3), self.bias, self.stride)
        return x.like(grid, x.masks[self.indice_key])
