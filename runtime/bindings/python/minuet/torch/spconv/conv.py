"""Convolutions under spconv's names."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import nn

from .. import functional as F  # noqa: N812
from .._clouds import BatchNorm, group_of
from .._convolutions import convolve
from .._geometry import Geometry
from .._sparse_tensor import SparseTensor
from .._units import unit
from .core import ConvAlgo, IndiceData, Kind, SparseConvTensor, expand_nd
from .modules import KernelModule


class SparseConvolution(KernelModule):
    """What all convolutions share. Use SubMConv3d and the others, whose arguments are those of spconv.

    `weight` is [out_channels, *kernel_size, in_channels / groups], and `bias` [out_channels]. As in spconv, the memory
    of a weight of one offset and stride 1 is read as [in_channels, out_channels]. `algo`, `fp32_accum` and
    `large_kernel_fast_algo` are taken, and without effect: sums are float32.
    """

    def __init__(
        self,
        ndim: int,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = 3,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        subm: bool = False,
        output_padding: Any = 0,
        transposed: bool = False,
        inverse: bool = False,
        indice_key: str | None = None,
        algo: ConvAlgo | None = None,
        fp32_accum: bool | None = None,
        record_voxel_count: bool = False,
        large_kernel_fast_algo: bool = False,
        name: str | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name)
        if min(in_channels, out_channels, groups) < 1:
            raise ValueError(
                f"in_channels, out_channels and groups are {in_channels}, {out_channels} and {groups}, and must be "
                "1 or more"
            )
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"groups is {groups}, and must divide in_channels ({in_channels}) and out_channels ({out_channels})"
            )
        self.ndim, self.in_channels, self.out_channels, self.groups = ndim, in_channels, out_channels, groups
        self.kernel_size = expand_nd(ndim, kernel_size, "kernel_size", 1)
        self.stride = expand_nd(ndim, stride, "stride", 1)
        self.padding = expand_nd(ndim, padding, "padding")
        self.dilation = expand_nd(ndim, dilation, "dilation", 1)
        self.output_padding = expand_nd(ndim, output_padding, "output_padding")
        self.subm, self.transposed, self.inverse, self.indice_key = subm, transposed, inverse, indice_key
        self.algo, self.fp32_accum, self.record_voxel_count = algo, fp32_accum, record_voxel_count
        if max(self.output_padding) > 0 and not transposed:
            raise ValueError(
                f"output_padding is {self.output_padding}, and only transposed convolutions have one: leave it out"
            )
        if subm and max(self.stride) > 1:
            raise ValueError(f"a submanifold convolution has a stride of 1, and {self.stride} is given")
        self.conv1x1 = math.prod(self.kernel_size) == 1 and (subm or math.prod(self.stride) == 1)
        if self.conv1x1 and not subm and max(self.padding) > 0:
            raise ValueError(f"a convolution of kernel size 1 and stride 1 has no padding, and {self.padding} is given")
        if record_voxel_count and not subm and not inverse:
            self.record_voxels(device)
        shape = (out_channels, *self.kernel_size, in_channels // groups)
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(out_channels, device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws weight and bias uniformly, as torch does for its dense convolutions."""
        bound = 1 / math.sqrt(max(1, self.in_channels // self.groups * math.prod(self.kernel_size)))
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def is_inverseable(self) -> bool:
        """Whether an inverse convolution can name this layer."""
        return self.indice_key is not None and not self.subm

    def extra_repr(self) -> str:
        """Returns the arguments, for repr()."""
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        for name, default in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            if any(number != default for number in getattr(self, name)):
                parts.append(f"{name}={getattr(self, name)}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.indice_key is not None:
            parts.append(f"indice_key={self.indice_key!r}")
        return ", ".join(parts)

    def forward(self, input: SparseConvTensor) -> SparseConvTensor:
        """Convolves a tensor."""
        return self._run(input, convolve)

    def _with_norm(self, input: SparseConvTensor, norm: BatchNorm, relu: bool) -> SparseConvTensor | None:
        if type(self).forward is not SparseConvolution.forward or norm.num_features != self.out_channels:
            return None
        run = None if group_of(norm) is not None else unit(self, norm, input.features, relu)
        return None if run is None else self._run(input, run)

    def _run(self, input: SparseConvTensor, run: Any) -> SparseConvTensor:
        self.require_tensor(input)
        if input.channels != self.in_channels:
            raise ValueError(f"features have {input.channels} channels, and the layer takes {self.in_channels}")
        if self.conv1x1 and not self.inverse:
            return self._multiply(input, run)
        if self.inverse:
            return self._inverse(input, run)
        if self.subm:
            return self._submanifold(input, run)
        return self._transposed(input, run) if self.transposed else self._strided(input, run)

    def _multiply(self, input: SparseConvTensor, run: Any) -> SparseConvTensor:
        if self.groups == 1:
            weight, layout = self.weight.reshape(1, self.in_channels, self.out_channels), "minuet"
        else:
            weight, layout = self.weight.reshape(self.out_channels, 1, -1), "spconv"
        made = F.convolution_with(
            input.sparse(), weight, self.bias, run, submanifold=True, groups=self.groups, layout=layout
        )
        return input._with_level(made)

    def _require_key(self, input: SparseConvTensor, kind: Kind) -> IndiceData | None:
        """Returns what the layer's key stands for, and raises unless the layer may share it."""
        known = input.find_indice_pair(self.indice_key)
        if known is not None:
            given = {"ksize": self.kernel_size, "dilation": self.dilation}
            known.require(str(self.indice_key), kind, input.level, given)
        return known

    def _submanifold(self, input: SparseConvTensor, run: Any) -> SparseConvTensor:
        known = self._require_key(input, Kind.SUBMANIFOLD)
        kernel: dict[str, Any] = {"kernel_size": self.kernel_size, "dilation": self.dilation}
        if any(size % 2 == 0 for size in self.kernel_size):
            # spconv's offsets begin at -(size // 2), and those of a centred kernel of Minuet at -((size - 1) // 2).
            axes = [
                [(step - size // 2) * dilation for step in range(size)]
                for size, dilation in zip(self.kernel_size, self.dilation, strict=True)
            ]
            kernel = {"offsets": list(itertools.product(*axes))}
        made = F.convolution_with(
            input.sparse(), self.weight, self.bias, run, submanifold=True, groups=self.groups, layout="spconv", **kernel
        )
        data = None if known else self._data(Kind.SUBMANIFOLD, input, made.level, input.spatial_shape)
        return input._with_level(made, None, data)

    def _strided(self, input: SparseConvTensor, run: Any) -> SparseConvTensor:
        self._require_key(input, Kind.STRIDED)
        made = F.convolution_with(
            input.sparse(),
            self.weight,
            self.bias,
            run,
            kernel_size=self.kernel_size,
            stride=self.stride,
            dilation=self.dilation,
            padding=self.padding,
            groups=self.groups,
            layout="spconv",
        )
        self.note_voxels(made.level)
        shape = list(made.level.shape or ())
        return input._with_level(made, shape, self._data(Kind.STRIDED, input, made.level, shape))

    def _inverse(self, input: SparseConvTensor, run: Any) -> SparseConvTensor:
        data = input.find_indice_pair(self.indice_key)
        if data is None:
            raise ValueError(
                f"there is no indice_key {self.indice_key!r} in the tensor: a convolution or a pooling with this key "
                f"has to come before. Known are: {', '.join(map(repr, input.indice_dict)) or 'none'}"
            )
        if data.kind is not Kind.STRIDED:
            raise ValueError(
                f"indice_key {self.indice_key!r} stands for {data.kind.value}, and an inverse convolution needs that "
                "of a convolution or a pooling with outputs of its own"
            )
        if data.ksize != self.kernel_size:
            raise ValueError(
                f"indice_key {self.indice_key!r} stands for {data.kind.value} with ksize {data.ksize}, and this layer "
                f"has {self.kernel_size}: an inverse convolution has the kernel size of the layer that it inverts"
            )
        if data.output_level is not input.level:
            raise ValueError(
                f"the input is not on the voxels that the layer with indice_key {self.indice_key!r} made: an inverse "
                "convolution leads back from these"
            )
        made = F.convolution_with(
            input.sparse(),
            self.weight,
            self.bias,
            run,
            kernel_size=data.ksize,
            stride=data.stride,
            dilation=data.dilation,
            padding=data.padding,
            groups=self.groups,
            transposed=True,
            to=data.input_level,
            layout="spconv",
        )
        return input._with_level(made, data.spatial_shape)

    def _transposed(self, input: SparseConvTensor, run: Any) -> SparseConvTensor:
        """Convolves the voxels, moved apart by the stride, with the mirrored kernel: the outputs that this reaches are
        those of the transposed convolution."""
        self._require_key(input, Kind.TRANSPOSED)
        reach = [dilation * (size - 1) for size, dilation in zip(self.kernel_size, self.dilation, strict=True)]
        padding = [whole - cut for whole, cut in zip(reach, self.padding, strict=True)]
        if min(padding) < 0:
            raise ValueError(
                f"padding is {self.padding}, and a transposed convolution of kernel size {self.kernel_size} and "
                f"dilation {self.dilation} can have {reach} at most"
            )
        steps = torch.tensor([1, *self.stride], dtype=torch.int32, device=input.indices.device)
        shape = [
            (cells - 1) * stride + 1 + more
            for cells, stride, more in zip(input.spatial_shape, self.stride, self.output_padding, strict=True)
        ]
        apart = Geometry.beside(input.level, input.indices * steps, shape).level
        made = F.convolution_with(
            SparseTensor(input.features, apart),
            self.weight.flip(tuple(range(1, 1 + self.ndim))),
            self.bias,
            run,
            kernel_size=self.kernel_size,
            dilation=self.dilation,
            padding=padding,
            groups=self.groups,
            layout="spconv",
        )
        self.note_voxels(made.level)
        shape = list(made.level.shape or ())
        return input._with_level(made, shape, self._data(Kind.TRANSPOSED, input, made.level, shape))


class _Strided(SparseConvolution):
    """A convolution that makes its outputs; `output_padding` is one of transposed ones."""

    _ndim: int
    _is_transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        indice_key: str | None = None,
        algo: ConvAlgo | None = None,
        fp32_accum: bool | None = None,
        record_voxel_count: bool = False,
        large_kernel_fast_algo: bool = False,
        name: str | None = None,
        *,
        device: Any = None,
        dtype: Any = None,
        output_padding: Any = 0,
    ) -> None:
        super().__init__(
            self._ndim,
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            output_padding=output_padding,
            transposed=self._is_transposed,
            indice_key=indice_key,
            algo=algo,
            fp32_accum=fp32_accum,
            record_voxel_count=record_voxel_count,
            large_kernel_fast_algo=large_kernel_fast_algo,
            name=name,
            device=device,
            dtype=dtype,
        )


class _Submanifold(SparseConvolution):
    _ndim: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        indice_key: str | None = None,
        algo: ConvAlgo | None = None,
        fp32_accum: bool | None = None,
        large_kernel_fast_algo: bool = False,
        name: str | None = None,
        *,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            self._ndim,
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            subm=True,
            indice_key=indice_key,
            algo=algo,
            fp32_accum=fp32_accum,
            large_kernel_fast_algo=large_kernel_fast_algo,
            name=name,
            device=device,
            dtype=dtype,
        )


class _Transposed(_Strided):
    _is_transposed = True


class _Inverse(SparseConvolution):
    _ndim: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        indice_key: str,
        bias: bool = True,
        algo: ConvAlgo | None = None,
        fp32_accum: bool | None = None,
        large_kernel_fast_algo: bool = False,
        name: str | None = None,
        *,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            self._ndim,
            in_channels,
            out_channels,
            kernel_size,
            bias=bias,
            inverse=True,
            indice_key=indice_key,
            algo=algo,
            fp32_accum=fp32_accum,
            large_kernel_fast_algo=large_kernel_fast_algo,
            name=name,
            device=device,
            dtype=dtype,
        )


class SparseConv1d(_Strided):
    """A convolution along one axis whose outputs are all that it reaches."""

    _ndim = 1


class SparseConv2d(_Strided):
    """A convolution along two axes whose outputs are all that it reaches."""

    _ndim = 2


class SparseConv3d(_Strided):
    """A convolution along three axes whose outputs are all that it reaches."""

    _ndim = 3


class SparseConv4d(_Strided):
    """A convolution along four axes whose outputs are all that it reaches."""

    _ndim = 4


class SubMConv1d(_Submanifold):
    """A convolution along one axis whose outputs are the voxels of its input. Padding has no effect."""

    _ndim = 1


class SubMConv2d(_Submanifold):
    """A convolution along two axes whose outputs are the voxels of its input. Padding has no effect."""

    _ndim = 2


class SubMConv3d(_Submanifold):
    """A convolution along three axes whose outputs are the voxels of its input. Padding has no effect."""

    _ndim = 3


class SubMConv4d(_Submanifold):
    """A convolution along four axes whose outputs are the voxels of its input. Padding has no effect."""

    _ndim = 4


class SparseConvTranspose1d(_Transposed):
    """A transposed convolution along one axis, which makes its outputs."""

    _ndim = 1


class SparseConvTranspose2d(_Transposed):
    """A transposed convolution along two axes, which makes its outputs."""

    _ndim = 2


class SparseConvTranspose3d(_Transposed):
    """A transposed convolution along three axes, which makes its outputs."""

    _ndim = 3


class SparseConvTranspose4d(_Transposed):
    """A transposed convolution along four axes, which makes its outputs."""

    _ndim = 4


class SparseInverseConv1d(_Inverse):
    """Leads back, along one axis, to the voxels from which the layer with the same indice_key came."""

    _ndim = 1


class SparseInverseConv2d(_Inverse):
    """Leads back, along two axes, to the voxels from which the layer with the same indice_key came."""

    _ndim = 2


class SparseInverseConv3d(_Inverse):
    """Leads back, along three axes, to the voxels from which the layer with the same indice_key came."""

    _ndim = 3


class SparseInverseConv4d(_Inverse):
    """Leads back, along four axes, to the voxels from which the layer with the same indice_key came."""

    _ndim = 4
