"""Layers under the names of torchsparse.nn."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from ..._clouds import apply_batch_norm, normalize_clouds
from ..tensor import SparseTensor, fapply, make_ntuple
from . import functional


class Conv3d(nn.Module):
    """A convolution. `kernel` is [offsets, in_channels, out_channels], or [in_channels, out_channels] for one offset
    without a stride, and `bias` [out_channels].

    Args:
        in_channels, out_channels: of the layer.
        kernel_size, stride, padding: one number, or one for each axis. Without a stride the outputs are the voxels of
            the input; the kernel is centred if the number of its offsets is odd, and otherwise begins at 0 on all axes.
            With a stride the outputs are all that a dense convolution with this padding reaches; on an axis with an odd
            size and no stride the padding is half the size.
        dilation: must be 1.
        bias: whether there is one.
        transposed: whether the layer leads back over the strided layer of the same kernel size and stride.
        generative: must be False.
        config: taken, and without effect.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = 3,
        stride: Any = 1,
        padding: Any = 0,
        dilation: int = 1,
        bias: bool = False,
        transposed: bool = False,
        generative: bool = False,
        config: Any = None,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = make_ntuple(kernel_size, 3, "kernel_size")
        self.stride = make_ntuple(stride, 3, "stride")
        self.padding = tuple(
            (size - 1) // 2 if size % 2 == 1 and step == 1 else pad
            for size, step, pad in zip(self.kernel_size, self.stride, make_ntuple(padding, 3, "padding"), strict=True)
        )
        self.dilation, self.transposed, self.generative = dilation, transposed, generative
        self.kernel_volume = math.prod(self.kernel_size)
        is_matrix = self.kernel_volume == 1 and max(self.stride) == 1
        shape = (in_channels, out_channels) if is_matrix else (self.kernel_volume, in_channels, out_channels)
        self.kernel = nn.Parameter(torch.empty(shape))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws kernel and bias uniformly, within one by the root of the channels and offsets that come together."""
        bound = 1 / math.sqrt((self.out_channels if self.transposed else self.in_channels) * self.kernel_volume)
        nn.init.uniform_(self.kernel, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Returns the arguments, for repr()."""
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"]
        if max(self.stride) > 1:
            parts.append(f"stride={self.stride}")
        if self.bias is None:
            parts.append("bias=False")
        if self.transposed:
            parts.append("transposed=True")
        return ", ".join(parts)

    def forward(self, input: SparseTensor) -> SparseTensor:
        """Convolves a tensor."""
        if input.feats.shape[1] != self.in_channels:
            raise ValueError(f"feats have {input.feats.shape[1]} channels, and the layer takes {self.in_channels}")
        return functional.conv3d(
            input,
            self.kernel,
            self.kernel_size,
            self.bias,
            self.stride,
            self.padding,
            self.dilation,
            transposed=self.transposed,
            generative=self.generative,
        )


class BatchNorm(nn.BatchNorm1d):
    """A batch norm over the voxels in use of all clouds. The arguments are those of torch.nn.BatchNorm1d."""

    def forward(self, input: Any) -> Any:
        """Normalizes a tensor, or features."""
        if not isinstance(input, SparseTensor):
            return super().forward(input)
        return input._replace(apply_batch_norm(self, input.feats, input.level))


class GroupNorm(nn.GroupNorm):
    """Normalizes groups of channels of each cloud. The arguments are those of torch.nn.GroupNorm."""

    def forward(self, input: SparseTensor) -> SparseTensor:
        """Normalizes a tensor."""
        clouds = input.clouds()
        if not clouds:
            return input

        def apply(features: torch.Tensor) -> torch.Tensor:
            made = normalize_clouds(features, input.level, clouds, self.num_groups, self.eps)
            if self.weight is None or self.bias is None:
                return made
            return made * self.weight.to(made.dtype) + self.bias.to(made.dtype)

        return fapply(input, apply)


class ReLU(nn.ReLU):
    """max(x, 0). `inplace` is taken, and without effect."""

    def forward(self, input: SparseTensor) -> SparseTensor:
        """Applies the layer."""
        return functional.relu(input)


class LeakyReLU(nn.LeakyReLU):
    """x, or x * negative_slope where x is negative. `inplace` is taken, and without effect."""

    def forward(self, input: SparseTensor) -> SparseTensor:
        """Applies the layer."""
        return functional.leaky_relu(input, self.negative_slope)


class SiLU(nn.SiLU):
    """x sigmoid(x). `inplace` is taken, and without effect."""

    def forward(self, input: SparseTensor) -> SparseTensor:
        """Applies the layer."""
        return functional.silu(input)


class GlobalAvgPool(nn.Module):
    """The average of each cloud, [clouds, channels]."""

    def forward(self, input: SparseTensor) -> torch.Tensor:
        """Pools a tensor."""
        return functional.global_avg_pool(input)


class GlobalMaxPool(nn.Module):
    """The maximum of each cloud, [clouds, channels]."""

    def forward(self, input: SparseTensor) -> torch.Tensor:
        """Pools a tensor."""
        return functional.global_max_pool(input)
