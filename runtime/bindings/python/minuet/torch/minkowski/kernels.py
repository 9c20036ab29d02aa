"""Kernels in MinkowskiEngine's order: the first axis is fastest, and even sizes begin at 0."""

from __future__ import annotations

import itertools
from enum import Enum
from typing import Any

import torch

from ..._types import axes

Offset = tuple[int, ...]


class RegionType(Enum):
    """The shape of a kernel."""

    HYPER_CUBE = 0
    HYPER_CROSS = 1
    CUSTOM = 2


class ConvolutionMode(Enum):
    """Names of MinkowskiEngine's algorithms. Layers take them, and use Minuet's kernels all the same."""

    DEFAULT = 0
    DIRECT_GEMM = 1
    COPY_GEMM = 2


def _steps(size: int) -> range:
    return range(size) if size % 2 == 0 else range(-(size // 2), size // 2 + 1)


class KernelGenerator:
    """The kernel and the stride of a layer.

    Args:
        kernel_size, stride, dilation: one number, or one for each axis.
        is_transpose: taken, and without effect.
        region_type: HYPER_CUBE, or HYPER_CROSS for the offsets along the axes only, with odd sizes.
        region_offsets, axis_types: must be None.
        expand_coordinates: whether outputs are all that the kernel reaches.
        dimension: the number of axes.
    """

    def __init__(
        self,
        kernel_size: Any = -1,
        stride: Any = 1,
        dilation: Any = 1,
        is_transpose: bool = False,
        region_type: RegionType = RegionType.HYPER_CUBE,
        region_offsets: torch.Tensor | None = None,
        expand_coordinates: bool = False,
        axis_types: Any = None,
        dimension: int = -1,
    ) -> None:
        if dimension is None or dimension < 1:
            raise ValueError(
                f"dimension is {dimension}, and must be the number of axes: give dimension=3 for x, y and z"
            )
        if region_type is RegionType.CUSTOM or region_offsets is not None or axis_types is not None:
            raise ValueError(
                "kernels of a list of offsets are not covered, and MinkowskiEngine 0.5 refuses them itself: use "
                "HYPER_CUBE or HYPER_CROSS, or minuet.torch.functional.convolution(offsets=...)"
            )
        self.dimension, self.region_type = dimension, region_type
        self.kernel_size = axes(kernel_size, dimension, "kernel_size")
        self.kernel_stride = axes(stride, dimension, "stride")
        self.kernel_dilation = axes(dilation, dimension, "dilation")
        for name in ("kernel_size", "kernel_stride", "kernel_dilation"):
            if min(getattr(self, name)) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, and each number must be 1 or more")
        if region_type is RegionType.HYPER_CROSS and any(size % 2 == 0 for size in self.kernel_size):
            raise ValueError(f"kernel_size is {self.kernel_size}, and a HYPER_CROSS needs odd numbers")
        self.expand_coordinates = expand_coordinates
        self.kernel_volume = len(self.offsets())
        # MinkowskiEngine's name for a stride of 1, where the output has the coordinates of the input.
        self.requires_strided_coordinates = max(self.kernel_stride) == 1

    def offsets(self) -> list[Offset]:
        """Returns the offsets in cells of the finer set, in the order of the weights."""
        if self.region_type is RegionType.HYPER_CROSS:
            found = [(0,) * self.dimension]
            for axis, size in enumerate(self.kernel_size):
                reach = size // 2
                for step in [*range(1, reach + 1), *range(-reach, 0)]:
                    found.append(tuple(step if other == axis else 0 for other in range(self.dimension)))
        else:
            slowest_first = itertools.product(*[_steps(size) for size in reversed(self.kernel_size)])
            found = [tuple(reversed(steps)) for steps in slowest_first]
        return [tuple(s * d for s, d in zip(steps, self.kernel_dilation, strict=True)) for steps in found]

    @property
    def is_cell(self) -> bool:
        """Whether the kernel is as large as a cell of the stride, so that a pooling takes all that is in the cell."""
        return self.kernel_size == self.kernel_stride

    def arguments(self, *, mirrored: bool = False) -> dict[str, Any]:
        """Returns the arguments of minuet.torch.functional.convolution for this kernel, with a weight as weight()
        gives it; mirrored: for the offsets with the other sign."""
        centred = all(size % 2 == 1 or size == 2 for size in self.kernel_size)
        if self.region_type is RegionType.HYPER_CUBE and centred and not mirrored:
            return {"kernel_size": self.kernel_size, "dilation": self.kernel_dilation}
        offsets = self.offsets()
        if self.region_type is RegionType.HYPER_CUBE:
            offsets.sort()  # The last axis is fastest then.
        sign = -1 if mirrored else 1
        return {"offsets": [tuple(sign * step for step in offset) for offset in offsets]}

    def weight(self, kernel: torch.Tensor) -> torch.Tensor:
        """Returns a weight [volume, ...] with the last axis fastest."""
        if self.region_type is RegionType.HYPER_CROSS or sum(size > 1 for size in self.kernel_size) < 2:
            return kernel
        apart = kernel.view(*reversed(self.kernel_size), *kernel.shape[1:])
        sizes = range(self.dimension)
        return apart.permute(*reversed(sizes), *range(self.dimension, apart.dim())).reshape(kernel.shape)

    def pool_arguments(self) -> dict[str, Any]:
        """Returns the arguments of minuet.torch.functional.pooling for this kernel."""
        if not self.is_cell:
            return self.arguments()
        # A pooling over cells takes what is in them: dilation has no effect, and odd sizes begin at 0 too.
        if max(self.kernel_size) <= 2:
            return {"kernel_size": self.kernel_size}
        return {"offsets": list(itertools.product(*[range(size) for size in self.kernel_size]))}

    def __repr__(self) -> str:
        return (
            f"KernelGenerator(kernel_size={self.kernel_size}, kernel_stride={self.kernel_stride}, "
            f"kernel_dilation={self.kernel_dilation}, region_type={self.region_type}, "
            f"expand_coordinates={self.expand_coordinates}, dimension={self.dimension})"
        )


def reached_cells(cells: torch.Tensor, steps: list[int], offsets: list[Offset], *, up: bool) -> torch.Tensor:
    """Returns all cells that a kernel reaches, with repetitions, int32.

    Args:
        cells: of the input, [rows, 1 + axes].
        steps: the stride.
        up: whether the outputs have the finer stride, as those of a generative layer.
    """
    ndim = len(steps)
    moves = torch.tensor([(0, *offset) for offset in offsets], dtype=torch.int32, device=cells.device)
    scale = torch.tensor([1, *steps], dtype=torch.int32, device=cells.device)
    if up:
        return ((cells * scale)[:, None] + moves).view(-1, 1 + ndim)
    # As MinkowskiEngine expands coordinates: the cell moves along the offset, not against it.
    moved = (cells[:, None] + moves).view(-1, 1 + ndim)
    aligned = moved[(moved % scale == 0).all(1)]
    return torch.div(aligned, scale, rounding_mode="floor")
