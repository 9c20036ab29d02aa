"""Convolutions under MinkowskiEngine's names."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import nn

from .. import functional as F  # noqa: N812
from .._links import unique_rows
from .kernels import ConvolutionMode, KernelGenerator, reached_cells
from .manager import CoordinateMapKey
from .tensor import SparseTensor, cells_of, require_same_manager


def require_input(input: Any, dimension: int, layer: nn.Module) -> SparseTensor:
    """Returns the input, and raises an error unless it is a sparse tensor with so many axes."""
    if not isinstance(input, SparseTensor):
        raise TypeError(f"{type(layer).__name__} takes a SparseTensor, and {type(input).__name__} is given")
    if dimension != input.D:
        raise ValueError(f"the layer has {dimension} axes, and the tensor {input.D}")
    return input


def output_key(
    input: SparseTensor, generator: KernelGenerator, coordinates: Any, *, transposed: bool, expands: bool
) -> CoordinateMapKey:
    """Returns the key of a layer's output.

    Where coordinates are given, it is theirs. Otherwise a layer leads to the set of its stride, and makes one if there
    is none: a strided layer that of the cells with a voxel, and a transposed layer that of all that the kernel reaches.
    A layer that expands makes a set in any case.
    """
    manager, key = input.coordinate_manager, input.coordinate_map_key
    steps = generator.kernel_stride
    if isinstance(coordinates, SparseTensor):
        require_same_manager([input, coordinates])
        return coordinates.coordinate_map_key
    if isinstance(coordinates, CoordinateMapKey):
        return coordinates
    if coordinates is None and not transposed and not expands:
        return manager.stride(key, steps)
    if transposed:
        strides = [stride // step for stride, step in zip(input.tensor_stride, steps, strict=True)]
        if any(stride % step for stride, step in zip(input.tensor_stride, steps, strict=True)):
            raise ValueError(
                f"the tensor stride is {input.tensor_stride}, and must be a multiple of the layer's stride {steps}"
            )
    else:
        strides = [stride * step for stride, step in zip(input.tensor_stride, steps, strict=True)]
    if coordinates is not None:
        cells = cells_of(coordinates, strides)
        first, _ = unique_rows(cells)
        return manager.insert(cells[first], strides)
    known = CoordinateMapKey(tuple(strides))
    if manager.exists(known) and not expands:
        return known
    if input.count is not None:
        raise ValueError(
            "new coordinates cannot be made in capacity mode, because the host counts them: use exact mode, or a "
            "transposed layer back to a set that the manager has"
        )
    reached = reached_cells(input.level.coordinates, steps, generator.offsets(), up=transposed)
    first, _ = unique_rows(reached)
    return manager.insert(reached[first], strides)


class MinkowskiConvolutionBase(nn.Module):
    """What all convolutions share. Use MinkowskiConvolution and the others.

    `kernel` is [offsets, in_channels, out_channels], or [in_channels, out_channels] for one offset without a stride,
    and `bias` [1, out_channels]. `convolution_mode` is taken, and without effect.

    Args:
        in_channels, out_channels: of the layer.
        kernel_size, stride, dilation: one number, or one for each axis.
        bias: whether there is one.
        kernel_generator: the kernel, instead of the three.
        is_transpose: whether the layer leads to a finer stride.
        expand_coordinates: whether the outputs are all that the kernel reaches.
        dimension: the number of axes.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = -1,
        stride: Any = 1,
        dilation: Any = 1,
        bias: bool = False,
        kernel_generator: KernelGenerator | None = None,
        is_transpose: bool = False,
        expand_coordinates: bool = False,
        convolution_mode: ConvolutionMode = ConvolutionMode.DEFAULT,
        dimension: int = -1,
    ) -> None:
        super().__init__()
        if kernel_generator is None:
            kernel_generator = KernelGenerator(
                kernel_size, stride, dilation, expand_coordinates=expand_coordinates, dimension=dimension
            )
        else:
            # The argument of the layer counts, as in MinkowskiEngine. The layer has a copy, unlike there, because other
            # layers may have the same generator.
            kernel_generator = copy.copy(kernel_generator)
            kernel_generator.expand_coordinates = expand_coordinates
        self.in_channels, self.out_channels, self.is_transpose = in_channels, out_channels, is_transpose
        self.kernel_generator, self.dimension = kernel_generator, kernel_generator.dimension
        self.convolution_mode = convolution_mode
        volume = kernel_generator.kernel_volume
        self.use_mm = volume == 1 and kernel_generator.requires_strided_coordinates
        shape = (in_channels, out_channels) if self.use_mm else (volume, in_channels, out_channels)
        self.kernel = nn.Parameter(torch.empty(shape))
        self.bias = nn.Parameter(torch.empty(1, out_channels)) if bias else None
        self.reset_parameters(is_transpose)

    def reset_parameters(self, is_transpose: bool = False) -> None:
        """Draws kernel and bias uniformly, within one by the root of the channels and offsets that come together."""
        channels = self.out_channels if is_transpose else self.in_channels
        bound = 1 / math.sqrt(channels * self.kernel_generator.kernel_volume)
        nn.init.uniform_(self.kernel, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input: SparseTensor, coordinates: Any = None) -> SparseTensor:
        """Convolves a tensor.

        Args:
            coordinates: the coordinates of the output: a SparseTensor, a CoordinateMapKey, or int32 [rows, 1 + axes] of
                the output's tensor stride; None: those of the layer's stride.
        """
        input = require_input(input, self.dimension, self)
        if input.shape[1] != self.in_channels:
            raise ValueError(f"features have {input.shape[1]} channels, and the layer takes {self.in_channels}")
        bias = None if self.bias is None else self.bias.view(-1)
        if self.use_mm:
            weight = self.kernel.view(1, self.in_channels, self.out_channels)
            return input._replace(F.convolution(input.rows(), weight, bias, submanifold=True).features)
        return _convolve(input, self.kernel_generator, self.kernel, bias, self.is_transpose, coordinates)

    def extra_repr(self) -> str:
        """Returns the arguments, for repr()."""
        generator = self.kernel_generator
        return (
            f"in={self.in_channels}, out={self.out_channels}, kernel_size={generator.kernel_size}, "
            f"stride={generator.kernel_stride}, dilation={generator.kernel_dilation}"
        )


def _convolve(
    input: SparseTensor,
    generator: KernelGenerator,
    kernel: torch.Tensor,
    bias: torch.Tensor | None,
    transposed: bool,
    coordinates: Any,
    groups: int = 1,
) -> SparseTensor:
    expands = generator.expand_coordinates
    key = output_key(input, generator, coordinates, transposed=transposed, expands=expands)
    sets = (key, input.coordinate_map_key) if transposed else (input.coordinate_map_key, key)
    link = input.coordinate_manager.link(*sets)
    features = link.convolve(
        input.F,
        generator.weight(kernel),
        bias,
        transposed=transposed,
        groups=groups,
        **generator.arguments(mirrored=transposed and link.is_within),
    )
    return input._on(key, features)


class _OfStride(MinkowskiConvolutionBase):
    """A convolution to the set of its stride: the coarser one or, where `_leads_back`, the finer one."""

    _leads_back: bool

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = -1,
        stride: Any = 1,
        dilation: Any = 1,
        bias: bool = False,
        kernel_generator: KernelGenerator | None = None,
        expand_coordinates: bool = False,
        convolution_mode: ConvolutionMode = ConvolutionMode.DEFAULT,
        dimension: int = -1,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            dilation,
            bias,
            kernel_generator,
            self._leads_back,
            expand_coordinates,
            convolution_mode,
            dimension,
        )


class MinkowskiConvolution(_OfStride):
    """A convolution. The outputs are the cells of the stride that have a voxel.

    An odd kernel is centred on the cell's first corner, and an even one begins there.
    """

    _leads_back = False


class MinkowskiConvolutionTranspose(_OfStride):
    """A transposed convolution onto the set of the finer stride that the manager has. Without one, the outputs are all
    that the kernel reaches."""

    _leads_back = True


class MinkowskiGenerativeConvolutionTranspose(MinkowskiConvolutionBase):
    """A transposed convolution whose outputs are all that the kernel reaches: a set of its own each time."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = -1,
        stride: Any = 1,
        dilation: Any = 1,
        bias: bool = False,
        kernel_generator: KernelGenerator | None = None,
        convolution_mode: ConvolutionMode = ConvolutionMode.DEFAULT,
        dimension: int = -1,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            dilation,
            bias,
            kernel_generator,
            True,
            True,
            convolution_mode,
            dimension,
        )


class MinkowskiChannelwiseConvolution(nn.Module):
    """A convolution of each channel by itself. `kernel` is [offsets, in_channels], and `bias` [1, in_channels].

    The arguments are those of MinkowskiConvolution.
    """

    def __init__(
        self,
        in_channels: int,
        kernel_size: Any = -1,
        stride: Any = 1,
        dilation: Any = 1,
        bias: bool = False,
        kernel_generator: KernelGenerator | None = None,
        dimension: int = -1,
    ) -> None:
        super().__init__()
        self.kernel_generator = kernel_generator or KernelGenerator(kernel_size, stride, dilation, dimension=dimension)
        self.in_channels, self.dimension = in_channels, self.kernel_generator.dimension
        self.kernel = nn.Parameter(torch.empty(self.kernel_generator.kernel_volume, in_channels))
        self.bias = nn.Parameter(torch.empty(1, in_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws kernel and bias uniformly, within one by the root of the channels and offsets."""
        bound = 1 / math.sqrt(self.in_channels * self.kernel_generator.kernel_volume)
        nn.init.uniform_(self.kernel, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input: SparseTensor, coords: Any = None) -> SparseTensor:
        """Convolves a tensor; `coords` is as of MinkowskiConvolution."""
        input = require_input(input, self.dimension, self)
        if input.shape[1] != self.in_channels:
            raise ValueError(f"features have {input.shape[1]} channels, and the layer takes {self.in_channels}")
        bias = None if self.bias is None else self.bias.view(-1)
        kernel = self.kernel.view(-1, 1, self.in_channels)
        return _convolve(input, self.kernel_generator, kernel, bias, False, coords, self.in_channels)

    def extra_repr(self) -> str:
        """Returns the arguments, for repr()."""
        generator = self.kernel_generator
        return (
            f"in={self.in_channels}, kernel_size={generator.kernel_size}, stride={generator.kernel_stride}, "
            f"dilation={generator.kernel_dilation}"
        )
