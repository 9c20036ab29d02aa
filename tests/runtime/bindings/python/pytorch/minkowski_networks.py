"""Networks that people train with MinkowskiEngine, as functions of the module that has its names.

They are written from the layers that MinkUNet and the ResNet of the engine's examples are known to have. `ME` is
minuet.torch.minkowski or plain_minkowski.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def _block(ME: Any, before: int, width: int, stride: int, ndim: int) -> nn.Module:  # noqa: N803
    class BasicBlock(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = ME.MinkowskiConvolution(before, width, kernel_size=3, stride=stride, dimension=ndim)
            self.norm1 = ME.MinkowskiBatchNorm(width, momentum=0.1)
            self.conv2 = ME.MinkowskiConvolution(width, width, kernel_size=3, dimension=ndim)
            self.norm2 = ME.MinkowskiBatchNorm(width, momentum=0.1)
            self.relu = ME.MinkowskiReLU(inplace=True)
            self.downsample = None
            if stride > 1 or before != width:
                self.downsample = nn.Sequential(
                    ME.MinkowskiConvolution(before, width, kernel_size=1, stride=stride, dimension=ndim),
                    ME.MinkowskiBatchNorm(width),
                )

        def forward(self, x: Any) -> Any:
            out = self.relu(self.norm1(self.conv1(x)))
            out = self.norm2(self.conv2(out))
            out += x if self.downsample is None else self.downsample(x)
            return self.relu(out)

    return BasicBlock()


def mink_unet14(ME: Any, in_channels: int, classes: int, base: int, planes: list[int], ndim: int) -> nn.Module:  # noqa: N803
    """Makes MinkUNet14: `planes` are the widths of the four stages of the encoder, then those of the decoder."""
    ups = [("convtr4p16s2", "bntr4"), ("convtr5p8s2", "bntr5"), ("convtr6p4s2", "bntr6"), ("convtr7p2s2", "bntr7")]

    class MinkUNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv0p1s1 = ME.MinkowskiConvolution(in_channels, base, kernel_size=5, dimension=ndim)
            self.bn0 = ME.MinkowskiBatchNorm(base)
            width, skips = base, [base, *planes[:3]]
            for stage, plane in enumerate(planes[:4]):
                down = ME.MinkowskiConvolution(width, width, kernel_size=2, stride=2, dimension=ndim)
                setattr(self, f"conv{stage + 1}p{2**stage}s2", down)
                setattr(self, f"bn{stage + 1}", ME.MinkowskiBatchNorm(width))
                setattr(self, f"block{stage + 1}", nn.Sequential(_block(ME, width, plane, 1, ndim)))
                width = plane
            for stage, plane in enumerate(planes[4:]):
                up = ME.MinkowskiConvolutionTranspose(width, plane, kernel_size=2, stride=2, dimension=ndim)
                setattr(self, ups[stage][0], up)
                setattr(self, ups[stage][1], ME.MinkowskiBatchNorm(plane))
                block = _block(ME, plane + skips[3 - stage], plane, 1, ndim)
                setattr(self, f"block{stage + 5}", nn.Sequential(block))
                width = plane
            self.final = ME.MinkowskiConvolution(width, classes, kernel_size=1, bias=True, dimension=ndim)
            self.relu = ME.MinkowskiReLU(inplace=True)

        def forward(self, x: Any) -> Any:
            out = self.relu(self.bn0(self.conv0p1s1(x)))
            skips = []
            for stage in range(4):
                skips.append(out)
                down = getattr(self, f"conv{stage + 1}p{2**stage}s2")
                out = self.relu(getattr(self, f"bn{stage + 1}")(down(out)))
                out = getattr(self, f"block{stage + 1}")(out)
            for stage, (convolution, norm) in enumerate(ups):
                out = self.relu(getattr(self, norm)(getattr(self, convolution)(out)))
                out = getattr(self, f"block{stage + 5}")(ME.cat(out, skips.pop()))
            return self.final(out)

    return MinkUNet()


def resnet14(ME: Any, in_channels: int, classes: int, widths: list[int], ndim: int) -> nn.Module:  # noqa: N803
    """Makes the ResNet for whole clouds: `widths` are those of the stem and of each stage."""
    stem, *stages = widths
    layers = [
        nn.Sequential(
            ME.MinkowskiConvolution(in_channels, stem, kernel_size=3, stride=2, dimension=ndim),
            ME.MinkowskiInstanceNorm(stem),
            ME.MinkowskiReLU(inplace=True),
            ME.MinkowskiMaxPooling(kernel_size=2, stride=2, dimension=ndim),
        )
    ]
    for before, width in zip(widths, stages, strict=False):
        layers.append(_block(ME, before, width, 2, ndim))
    last = widths[-1]
    layers.append(ME.MinkowskiConvolution(last, last, kernel_size=3, stride=3, dimension=ndim))
    layers += [ME.MinkowskiGlobalMaxPooling(), ME.MinkowskiLinear(last, classes, bias=True)]
    return nn.Sequential(*layers)


def completion(ME: Any, in_channels: int, widths: list[int]) -> nn.Module:  # noqa: N803
    """Makes an encoder, and a generative decoder that prunes what it made, as in the engine's completion example.
    Voxels stay where the sum of the coordinates divided by the stride is no multiple of 3."""

    class Completion(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.ModuleList()
            self.up = nn.ModuleList()
            before = in_channels
            for width in widths:
                down = ME.MinkowskiConvolution(before, width, kernel_size=3, stride=2, dimension=3)
                self.down.append(nn.Sequential(down, ME.MinkowskiBatchNorm(width), ME.MinkowskiReLU()))
                before = width
            for width in widths[::-1]:
                up = ME.MinkowskiGenerativeConvolutionTranspose(before, width, kernel_size=2, stride=2, dimension=3)
                within = ME.MinkowskiConvolution(width, width, kernel_size=3, dimension=3)
                self.up.append(nn.Sequential(up, ME.MinkowskiReLU(), within))
                before = width
            self.pruning = ME.MinkowskiPruning()

        def forward(self, x: Any) -> Any:
            for down in self.down:
                x = down(x)
            stride = 2 ** len(self.down)
            for up in self.up:
                x, stride = up(x), stride // 2
                cells = torch.div(x.C, stride, rounding_mode="floor")
                x = self.pruning(x, cells.sum(1) % 3 != 0)
            return x

    return Completion()
