"""The names of minuet.torch.torchsparse in plain PyTorch: dictionaries of coordinates, and matrix products over lists
of pairs, in any float type.

The rules are those of TorchSparse's kernel maps "on the fly". Tests build a network once with minuet.torch.torchsparse
and once with this module. Nothing here is fast, and nothing depends on Minuet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn as tnn

Cell = tuple[int, ...]


def _three(value: Any) -> Cell:
    return (value,) * 3 if isinstance(value, int) else tuple(value)


class SparseTensor:
    def __init__(self, feats: torch.Tensor, coords: torch.Tensor, stride: Any = 1, spatial_range: Any = None) -> None:
        self.feats, self.coords, self.stride, self.spatial_range = feats, coords, _three(stride), spatial_range
        self.kernel_maps: dict[Any, Any] = {}

    @property
    def cells(self) -> list[Cell]:
        return [tuple(row) for row in self.coords.tolist()]

    def made(self, feats: torch.Tensor, coords: Any = None, stride: Any = None, spatial_range: Any = None) -> Any:
        if coords is None:
            coords, stride, spatial_range = self.coords, self.stride, self.spatial_range
        result = SparseTensor(feats, coords, stride, spatial_range)
        result.kernel_maps = self.kernel_maps
        return result

    def __add__(self, other: SparseTensor) -> SparseTensor:
        return self.made(self.feats + other.feats)


def _digits(number: int, size: Cell) -> Cell:
    """One number for each axis. The first axis is fastest if the volume is odd, and the last one if it is even."""
    digits = [0, 0, 0]
    for axis in range(3) if math.prod(size) % 2 else range(2, -1, -1):
        digits[axis] = number % size[axis]
        number //= size[axis]
    return tuple(digits)


def _within(cells: list[Cell], size: Cell) -> list[list[tuple[int, int]]]:
    """For each offset, the rows (input, output) that meet, without a stride."""
    rows = {cell: row for row, cell in enumerate(cells)}
    is_odd = math.prod(size) % 2 == 1
    pairs: list[list[tuple[int, int]]] = []
    for k in range(math.prod(size)):
        step = [d - (n - 1) // 2 if is_odd else d for d, n in zip(_digits(k, size), size, strict=True)]
        found = []
        for row, (batch, *at) in enumerate(cells):
            source = rows.get((batch, *(a + s for a, s in zip(at, step, strict=True))))
            if source is not None:
                found.append((source, row))
        pairs.append(found)
    return pairs


def _strided(
    cells: list[Cell], size: Cell, stride: Cell, padding: Cell, last: Sequence[int]
) -> tuple[list[Cell], list[list[tuple[int, int]]]]:
    """The cells that the kernel reaches from 0 to `last`, and for each offset the rows that meet."""
    volume = math.prod(size)
    outputs: dict[Cell, int] = {}
    pairs: list[list[tuple[int, int]]] = [[] for _ in range(volume)]
    for row, (batch, *at) in enumerate(cells):
        for k in range(volume):
            moved = [a + p + d - (n - 1) for a, p, d, n in zip(at, padding, _digits(k, size), size, strict=True)]
            if any(m % s for m, s in zip(moved, stride, strict=True)):
                continue
            target = tuple(m // s for m, s in zip(moved, stride, strict=True))
            if all(0 <= t <= most for t, most in zip(target, last, strict=True)):
                out = outputs.setdefault((batch, *target), len(outputs))
                pairs[volume - 1 - k].append((row, out))
    return list(outputs), pairs


class Conv3d(tnn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = 3,
        stride: Any = 1,
        padding: Any = 0,
        bias: bool = False,
        transposed: bool = False,
    ) -> None:
        super().__init__()
        self.size, self.steps, self.transposed = _three(kernel_size), _three(stride), transposed
        self.padding = tuple(
            (n - 1) // 2 if n % 2 == 1 and s == 1 else p
            for n, s, p in zip(self.size, self.steps, _three(padding), strict=True)
        )
        volume = math.prod(self.size)
        self.is_matrix = volume == 1 and max(self.steps) == 1
        shape = (in_channels, out_channels) if self.is_matrix else (volume, in_channels, out_channels)
        self.kernel = tnn.Parameter(torch.randn(shape) * 0.2)
        self.bias = tnn.Parameter(torch.randn(out_channels) * 0.2) if bias else None

    def forward(self, x: SparseTensor) -> SparseTensor:
        if self.is_matrix:
            result = x.feats @ self.kernel
            return x.made(result if self.bias is None else result + self.bias)
        target: tuple[Any, ...] = ()
        if self.transposed:
            fine = tuple(a // b for a, b in zip(x.stride, self.steps, strict=True))
            coords, spatial_range, pairs = x.kernel_maps[(fine, self.size, self.steps)]
            pairs = [[(out, row) for row, out in meeting] for meeting in pairs]
            target = (coords, fine, spatial_range)
        elif max(self.steps) == 1:
            pairs = _within(x.cells, self.size)
            target = (x.coords, x.stride, x.spatial_range)
        else:
            lengths = x.spatial_range[1:] if x.spatial_range else (x.coords[:, 1:].amax(0) + 1).tolist()
            last = [
                (length - 1 + 2 * p - (n - 1)) // s
                for length, p, n, s in zip(lengths, self.padding, self.size, self.steps, strict=True)
            ]
            cells, pairs = _strided(x.cells, self.size, self.steps, self.padding, last)
            coords = torch.tensor(cells, dtype=torch.int32).reshape(-1, 4)
            x.kernel_maps[(x.stride, self.size, self.steps)] = (x.coords, x.spatial_range, pairs)
            spatial_range = (x.spatial_range[0], *(n + 1 for n in last)) if x.spatial_range else None
            target = (coords, tuple(a * b for a, b in zip(x.stride, self.steps, strict=True)), spatial_range)
        result = x.feats.new_zeros((len(target[0]), self.kernel.shape[-1]))
        for matrix, meeting in zip(self.kernel, pairs, strict=True):
            source, out = (torch.tensor([pair[side] for pair in meeting], dtype=torch.int64) for side in (0, 1))
            result = result.index_add(0, out, x.feats[source] @ matrix)
        return x.made(result if self.bias is None else result + self.bias, *target)


class BatchNorm(tnn.BatchNorm1d):
    def forward(self, x: SparseTensor) -> SparseTensor:
        return x.made(super().forward(x.feats))


class GroupNorm(tnn.GroupNorm):
    def forward(self, x: SparseTensor) -> SparseTensor:
        result = torch.zeros_like(x.feats)
        for cloud in x.coords[:, 0].unique():
            rows = (x.coords[:, 0] == cloud).nonzero()[:, 0]
            normalized = super().forward(x.feats[rows].T[None])[0].T
            result = result.index_copy(0, rows, normalized)
        return x.made(result)


class _Rowwise(tnn.Module):
    def __init__(self, function: tnn.Module) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: SparseTensor) -> SparseTensor:
        return x.made(self.function(x.feats))


class GlobalAvgPool(tnn.Module):
    def forward(self, x: SparseTensor) -> torch.Tensor:
        clouds = range(int(x.coords[:, 0].max()) + 1)
        return torch.stack([x.feats[x.coords[:, 0] == cloud].mean(0) for cloud in clouds])


class GlobalMaxPool(tnn.Module):
    def forward(self, x: SparseTensor) -> torch.Tensor:
        clouds = range(int(x.coords[:, 0].max()) + 1)
        return torch.stack([x.feats[x.coords[:, 0] == cloud].amax(0) for cloud in clouds])


def cat(tensors: Sequence[SparseTensor]) -> SparseTensor:
    return tensors[0].made(torch.cat([one.feats for one in tensors], 1))


nn = SimpleNamespace(
    Conv3d=Conv3d,
    BatchNorm=BatchNorm,
    GroupNorm=GroupNorm,
    ReLU=lambda inplace=False: _Rowwise(tnn.ReLU()),
    LeakyReLU=lambda slope=0.1, inplace=False: _Rowwise(tnn.LeakyReLU(slope)),
    SiLU=lambda inplace=False: _Rowwise(tnn.SiLU()),
    GlobalAvgPool=GlobalAvgPool,
    GlobalMaxPool=GlobalMaxPool,
)
