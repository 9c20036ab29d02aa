"""The names of minuet.torch.minkowski in plain PyTorch: dictionaries of coordinates, and matrix products over lists of
pairs, in any float type.

Tests build a network once with minuet.torch.minkowski and once with this module. Nothing here is fast, and nothing
depends on Minuet.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

Cell = tuple[int, ...]
Key = tuple[Cell, str]


def _axes(value: Any, ndim: int) -> list[int]:
    return [value] * ndim if isinstance(value, int) else [int(v) for v in value]


class RegionType:
    HYPER_CUBE, HYPER_CROSS = "cube", "cross"


class KernelGenerator:
    def __init__(
        self,
        kernel_size: Any = -1,
        stride: Any = 1,
        dilation: Any = 1,
        region_type: str = RegionType.HYPER_CUBE,
        expand_coordinates: bool = False,
        dimension: int = 3,
    ) -> None:
        self.size, self.stride = _axes(kernel_size, dimension), _axes(stride, dimension)
        self.dilation, self.region, self.expands = _axes(dilation, dimension), region_type, expand_coordinates

    @property
    def volume(self) -> int:
        return math.prod(self.size) if self.region == "cube" else 1 + sum(size - 1 for size in self.size)

    def offset(self, number: int) -> Cell:
        """The offset that belongs to a weight, in cells of the finer set."""
        steps = [0] * len(self.size)
        if self.region == "cube":
            for axis, size in enumerate(self.size):
                steps[axis] = number % size - (size // 2 if size % 2 else 0)
                number //= size
        elif number > 0:
            number -= 1
            for axis, size in enumerate(self.size):
                if number < size - 1:
                    reach = size // 2
                    steps[axis] = number + 1 if number < reach else number - 2 * reach
                    break
                number -= size - 1
        return tuple(step * dilation for step, dilation in zip(steps, self.dilation, strict=True))


class Manager:
    def __init__(self) -> None:
        self.sets: dict[Key, list[Cell]] = {}

    def insert(self, cells: list[Cell], stride: list[int], name: str = "") -> Key:
        key = (tuple(stride), name)
        while key in self.sets:
            key = (key[0], key[1] + "+")
        self.sets[key] = list(dict.fromkeys(cells))
        return key


class SparseTensor:
    def __init__(
        self,
        features: torch.Tensor,
        coordinates: torch.Tensor | None = None,
        tensor_stride: Any = 1,
        key: Key | None = None,
        coordinate_manager: Any = None,
    ) -> None:
        self.coordinate_manager = coordinate_manager or Manager()
        if coordinates is not None:
            rows = [tuple(row) for row in coordinates.tolist()]
            stride = _axes(tensor_stride, coordinates.shape[1] - 1)
            key = self.coordinate_manager.insert(rows, stride)
            first = {row: number for number, row in reversed(list(enumerate(rows)))}
            features = features[[first[row] for row in self.coordinate_manager.sets[key]]]
        assert key is not None
        self.F, self.key = features, key

    @property
    def cells(self) -> list[Cell]:
        return self.coordinate_manager.sets[self.key]

    @property
    def C(self) -> torch.Tensor:  # noqa: N802
        return torch.tensor(self.cells, dtype=torch.int32).reshape(len(self.cells), 1 + len(self.key[0]))

    def on(self, key: Key, features: torch.Tensor) -> SparseTensor:
        return SparseTensor(features, key=key, coordinate_manager=self.coordinate_manager)

    def replace(self, features: torch.Tensor) -> SparseTensor:
        return self.on(self.key, features)

    def _combine(self, other: SparseTensor, sign: int) -> SparseTensor:
        if self.key == other.key:
            return self.replace(self.F + sign * other.F)
        key = self.coordinate_manager.insert(self.cells + other.cells, list(self.key[0]), "union")
        cells = self.coordinate_manager.sets[key]
        total = self.F.new_zeros((len(cells), self.F.shape[1]))
        for one, factor in ((self, 1), (other, sign)):
            rows = torch.tensor([cells.index(cell) for cell in one.cells])
            total = total.index_add(0, rows, factor * one.F)
        return self.on(key, total)

    def __add__(self, other: SparseTensor) -> SparseTensor:
        return self._combine(other, 1)

    def __sub__(self, other: SparseTensor) -> SparseTensor:
        return self._combine(other, -1)


def _floor(cell: Cell, stride: Any) -> Cell:
    return (cell[0], *(c // s * s for c, s in zip(cell[1:], stride, strict=True)))


def _out_key(x: SparseTensor, kernel: KernelGenerator, transposed: bool, coordinates: Any) -> Key:
    manager, (stride, name) = x.coordinate_manager, x.key
    if coordinates is not None:
        return coordinates.key
    if transposed:
        fine = tuple(s // k for s, k in zip(stride, kernel.stride, strict=True))
        if (fine, "") in manager.sets and not kernel.expands:
            return (fine, "")
        return manager.insert(_reached(x.cells, kernel, fine), list(fine))
    coarse = tuple(s * k for s, k in zip(stride, kernel.stride, strict=True))
    if kernel.expands:
        cells = [cell for cell in _reached(x.cells, kernel, stride) if _floor(cell, coarse) == cell]
        return manager.insert(cells, list(coarse))
    if (coarse, name) not in manager.sets:
        manager.insert([_floor(cell, coarse) for cell in x.cells], list(coarse), name)
    return (coarse, name)


def _shifted(cell: Cell, offset: Cell, stride: Any) -> Cell:
    return (cell[0], *(c + o * s for c, o, s in zip(cell[1:], offset, stride, strict=True)))


def _reached(cells: list[Cell], kernel: KernelGenerator, stride: Any) -> list[Cell]:
    return [_shifted(cell, kernel.offset(k), stride) for cell in cells for k in range(kernel.volume)]


def _pairs(
    kernel: KernelGenerator, fine: list[Cell], coarse: list[Cell], stride: Any
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """For each offset, the rows of the finer and of the coarser set that meet."""
    rows = {cell: row for row, cell in enumerate(fine)}
    found = []
    for k in range(kernel.volume):
        met = [(rows.get(_shifted(cell, kernel.offset(k), stride), -1), row) for row, cell in enumerate(coarse)]
        met = [pair for pair in met if pair[0] >= 0]
        found.append(
            tuple(torch.tensor(side, dtype=torch.int64) for side in (zip(*met, strict=True) if met else ((), ())))
        )
    return found


class _Layer(nn.Module):
    transposed = False
    generator: KernelGenerator

    def meet(self, x: SparseTensor, coordinates: Any, *, pool: bool) -> tuple[Key, list[Any]]:
        """The key of the output, and for each offset the rows of input and output that meet."""
        key = _out_key(x, self.generator, self.transposed, coordinates)
        cells = x.coordinate_manager.sets[key]
        fine, coarse = (cells, x.cells) if self.transposed else (x.cells, cells)
        fine_stride, coarse_stride = (key[0], x.key[0]) if self.transposed else (x.key[0], key[0])
        if pool and self.generator.size == self.generator.stride:
            rows = {cell: row for row, cell in enumerate(coarse)}
            met = [torch.arange(len(fine)), torch.tensor([rows[_floor(cell, coarse_stride)] for cell in fine])]
            pairs = [tuple(met)]
        else:
            pairs = _pairs(self.generator, fine, coarse, fine_stride)
        return key, [(b, a) if self.transposed else (a, b) for a, b in pairs]


class MinkowskiConvolution(_Layer):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = -1,
        stride: Any = 1,
        dilation: Any = 1,
        bias: bool = False,
        kernel_generator: Any = None,
        expand_coordinates: bool = False,
        dimension: int = 3,
    ) -> None:
        super().__init__()
        self.generator = kernel_generator or KernelGenerator(kernel_size, stride, dilation, dimension=dimension)
        self.generator.expands = expand_coordinates
        volume = self.generator.volume
        self.is_matrix = volume == 1 and max(self.generator.stride) == 1
        shape = (in_channels, out_channels) if self.is_matrix else (volume, in_channels, out_channels)
        self.kernel = nn.Parameter(torch.randn(shape) * 0.2)
        self.bias = nn.Parameter(torch.randn(1, out_channels) * 0.2) if bias else None

    def forward(self, x: SparseTensor, coordinates: Any = None) -> SparseTensor:
        if self.is_matrix:
            key, result = x.key, x.F @ self.kernel
        else:
            key, pairs = self.meet(x, coordinates, pool=False)
            result = x.F.new_zeros((len(x.coordinate_manager.sets[key]), self.kernel.shape[-1]))
            for matrix, (source, target) in zip(self.kernel, pairs, strict=True):
                result = result.index_add(0, target, x.F[source] @ matrix)
        return x.on(key, result if self.bias is None else result + self.bias)


class MinkowskiConvolutionTranspose(MinkowskiConvolution):
    transposed = True


class MinkowskiGenerativeConvolutionTranspose(MinkowskiConvolutionTranspose):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, expand_coordinates=True, **kwargs)


class MinkowskiChannelwiseConvolution(_Layer):
    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        stride: Any = 1,
        dilation: Any = 1,
        bias: bool = False,
        dimension: int = 3,
    ) -> None:
        super().__init__()
        self.generator = KernelGenerator(kernel_size, stride, dilation, dimension=dimension)
        self.kernel = nn.Parameter(torch.randn(self.generator.volume, channels))
        self.bias = nn.Parameter(torch.randn(1, channels)) if bias else None

    def forward(self, x: SparseTensor) -> SparseTensor:
        key, pairs = self.meet(x, None, pool=False)
        result = x.F.new_zeros((len(x.coordinate_manager.sets[key]), x.F.shape[1]))
        for row, (source, target) in zip(self.kernel, pairs, strict=True):
            result = result.index_add(0, target, x.F[source] * row)
        return x.on(key, result if self.bias is None else result + self.bias)


class MinkowskiSumPooling(_Layer):
    reduction = "sum"

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = 1,
        dilation: Any = 1,
        kernel_generator: Any = None,
        expand_coordinates: bool = False,
        dimension: int = 3,
    ) -> None:
        super().__init__()
        self.generator = kernel_generator or KernelGenerator(kernel_size, stride, dilation, dimension=dimension)
        self.generator.expands = expand_coordinates

    def forward(self, x: SparseTensor, coordinates: Any = None) -> SparseTensor:
        key, pairs = self.meet(x, coordinates, pool=True)
        source, target = (torch.cat(side) for side in zip(*pairs, strict=True))
        return x.on(key, reduce(x.F, source, target, len(x.coordinate_manager.sets[key]), self.reduction))


class MinkowskiAvgPooling(MinkowskiSumPooling):
    reduction = "average"


class MinkowskiMaxPooling(MinkowskiSumPooling):
    reduction = "max"


class MinkowskiPoolingTranspose(MinkowskiSumPooling):
    transposed = True


def reduce(
    features: torch.Tensor, source: torch.Tensor, target: torch.Tensor, rows: int, reduction: str
) -> torch.Tensor:
    zeros = features.new_zeros((rows, features.shape[1]))
    if reduction == "max":
        wide = target[:, None].expand(-1, features.shape[1])
        found = (zeros - math.inf).scatter_reduce(0, wide, features[source], "amax")
        return torch.where(found == -math.inf, 0, found)
    total = zeros.index_add(0, target, features[source])
    counts = torch.bincount(target, minlength=rows).clamp(min=1)[:, None]
    return total / counts if reduction == "average" else total


class MinkowskiGlobalSumPooling(nn.Module):
    reduction = "sum"

    def forward(self, x: SparseTensor) -> SparseTensor:
        manager = x.coordinate_manager
        ndim = len(x.key[0])
        clouds = 1 + max(cell[0] for cell in next(iter(manager.sets.values())))
        key = ((0,) * ndim, "")
        manager.sets[key] = [(cloud, *[0] * ndim) for cloud in range(clouds)]
        target = torch.tensor([cell[0] for cell in x.cells])
        return x.on(key, reduce(x.F, torch.arange(len(target)), target, clouds, self.reduction))


class MinkowskiGlobalAvgPooling(MinkowskiGlobalSumPooling):
    reduction = "average"


class MinkowskiGlobalMaxPooling(MinkowskiGlobalSumPooling):
    reduction = "max"


class MinkowskiBatchNorm(nn.Module):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.bn = nn.BatchNorm1d(*args, **kwargs)

    def forward(self, x: SparseTensor) -> SparseTensor:
        return x.replace(self.bn(x.F))


class MinkowskiInstanceNorm(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, channels))
        self.bias = nn.Parameter(torch.randn(1, channels))

    def forward(self, x: SparseTensor) -> SparseTensor:
        batch = torch.tensor([cell[0] for cell in x.cells])
        result = torch.zeros_like(x.F)
        for cloud in batch.unique():
            rows = (batch == cloud).nonzero()[:, 0]
            part = x.F[rows]
            centred = part - part.mean(0)
            result = result.index_copy(0, rows, centred / (centred.square().mean(0) + 1e-8).sqrt())
        return x.replace(result * self.weight + self.bias)


class MinkowskiLinear(nn.Module):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(*args, **kwargs)

    def forward(self, x: SparseTensor) -> SparseTensor:
        return x.replace(self.linear(x.F))


class MinkowskiReLU(nn.Module):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()

    def forward(self, x: SparseTensor) -> SparseTensor:
        return x.replace(torch.relu(x.F))


class MinkowskiPruning(nn.Module):
    def forward(self, x: SparseTensor, mask: torch.Tensor) -> SparseTensor:
        rows = mask.nonzero()[:, 0]
        key = x.coordinate_manager.insert([x.cells[row] for row in rows], list(x.key[0]), "pruned")
        return x.on(key, x.F[rows])


def cat(*tensors: SparseTensor) -> SparseTensor:
    assert all(one.key == tensors[0].key for one in tensors)
    return tensors[0].replace(torch.cat([one.F for one in tensors], 1))
