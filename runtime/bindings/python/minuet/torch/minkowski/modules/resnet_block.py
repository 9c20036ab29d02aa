"""Residual blocks, whose layers have the names that checkpoints of MinkowskiEngine's networks have."""

from __future__ import annotations

from torch import nn

from ..convolution import MinkowskiConvolution
from ..rowwise import MinkowskiBatchNorm, MinkowskiReLU
from ..tensor import SparseTensor


class _Block(nn.Module):
    """Convolutions conv1, conv2, ... with norms norm1, norm2, ..., and the input, or `downsample` of it, added before
    the last ReLU."""

    expansion = 1

    def __init__(
        self,
        widths: list[int],
        sizes: list[int],
        strides: list[int],
        dilation: int,
        downsample: nn.Module | None,
        bn_momentum: float,
        dimension: int,
    ) -> None:
        super().__init__()
        self._layers = len(sizes)
        for number, (size, stride) in enumerate(zip(sizes, strides, strict=True), 1):
            convolution = MinkowskiConvolution(
                widths[number - 1],
                widths[number],
                kernel_size=size,
                stride=stride,
                dilation=dilation if size > 1 else 1,
                dimension=dimension,
            )
            self.add_module(f"conv{number}", convolution)
            self.add_module(f"norm{number}", MinkowskiBatchNorm(widths[number], momentum=bn_momentum))
        self.relu = MinkowskiReLU()
        self.downsample = downsample

    def forward(self, x: SparseTensor) -> SparseTensor:
        """Applies the block."""
        out = x
        for number in range(1, self._layers + 1):
            out = getattr(self, f"norm{number}")(getattr(self, f"conv{number}")(out))
            if number < self._layers:
                out = self.relu(out)
        shortcut = x if self.downsample is None else self.downsample(x)
        made: SparseTensor = self.relu(out + shortcut)
        return made


class BasicBlock(_Block):
    """Two convolutions of kernel size 3, of which the first has the stride."""

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        dilation: int = 1,
        downsample: nn.Module | None = None,
        bn_momentum: float = 0.1,
        dimension: int = -1,
    ) -> None:
        widths = [inplanes, planes, planes]
        super().__init__(widths, [3, 3], [stride, 1], dilation, downsample, bn_momentum, dimension)


class Bottleneck(_Block):
    """Convolutions of kernel sizes 1, 3 and 1. The second has the stride, and the last is four times as wide."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        dilation: int = 1,
        downsample: nn.Module | None = None,
        bn_momentum: float = 0.1,
        dimension: int = -1,
    ) -> None:
        widths = [inplanes, planes, planes, planes * self.expansion]
        super().__init__(widths, [1, 3, 1], [1, stride, 1], dilation, downsample, bn_momentum, dimension)
