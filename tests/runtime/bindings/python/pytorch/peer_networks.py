"""Networks that people train with spconv, as functions of the module that has spconv's names.

They are written from the layers that OpenPCDet's VoxelBackBone8x and Pointcept's SpUNet are known to have. `spconv` is
minuet.torch.spconv or plain_spconv.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Any

import torch
from torch import nn


def voxel_backbone_8x(spconv: Any, in_channels: int, shape: list[int], widths: list[int]) -> nn.Module:
    """Makes OpenPCDet's backbone. `shape` are the cells along z, y and x, and `widths` are 16, 16, 32, 64, 64 and 128
    there."""
    norm = partial(nn.BatchNorm1d, eps=1e-3, momentum=0.01)

    def block(conv: nn.Module, channels: int) -> nn.Module:
        return spconv.SparseSequential(conv, norm(channels), nn.ReLU())

    class Backbone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            stem, first, *stages, last = widths
            self.conv_input = block(
                spconv.SubMConv3d(in_channels, stem, 3, padding=1, bias=False, indice_key="subm1"), stem
            )
            self.conv1 = spconv.SparseSequential(
                block(spconv.SubMConv3d(stem, first, 3, padding=1, bias=False, indice_key="subm1"), first)
            )
            before = first
            for number, width in enumerate(stages, 2):
                padding = (0, 1, 1) if number == len(stages) + 1 else 1
                down = spconv.SparseConv3d(
                    before, width, 3, stride=2, padding=padding, bias=False, indice_key=f"spconv{number}"
                )
                within = [
                    block(spconv.SubMConv3d(width, width, 3, padding=1, bias=False, indice_key=f"subm{number}"), width)
                    for _ in range(2)
                ]
                setattr(self, f"conv{number}", spconv.SparseSequential(block(down, width), *within))
                before = width
            self.conv_out = block(
                spconv.SparseConv3d(before, last, (3, 1, 1), stride=(2, 1, 1), bias=False, indice_key="spconv_down2"),
                last,
            )
            self.stages = len(stages) + 1

        def forward(self, features: torch.Tensor, indices: torch.Tensor, batch_size: int) -> list[Any]:
            x = self.conv_input(spconv.SparseConvTensor(features, indices, shape, batch_size))
            levels = []
            for number in range(1, 1 + self.stages):
                x = getattr(self, f"conv{number}")(x)
                levels.append(x)
            return [*levels, self.conv_out(x)]

    return Backbone()


def sp_unet(
    spconv: Any, in_channels: int, classes: int, base: int, channels: list[int], layers: list[int]
) -> nn.Module:
    """Makes Pointcept's U-Net: `channels` and `layers` have first the stages of the encoder, then those of the
    decoder."""
    norm = partial(nn.BatchNorm1d, eps=1e-3, momentum=0.01)
    half = len(layers) // 2

    class BasicBlock(spconv.SparseModule):
        def __init__(self, before: int, width: int, key: str) -> None:
            super().__init__()
            if before == width:
                self.proj = spconv.SparseSequential(nn.Identity())
            else:
                self.proj = spconv.SparseSequential(
                    spconv.SubMConv3d(before, width, kernel_size=1, bias=False), norm(width)
                )
            self.conv1 = spconv.SubMConv3d(before, width, kernel_size=3, padding=1, bias=False, indice_key=key)
            self.bn1 = norm(width)
            self.relu = nn.ReLU()
            self.conv2 = spconv.SubMConv3d(width, width, kernel_size=3, padding=1, bias=False, indice_key=key)
            self.bn2 = norm(width)

        def forward(self, x: Any) -> Any:
            out = self.conv1(x)
            out = out.replace_feature(self.relu(self.bn1(out.features)))
            out = self.conv2(out)
            out = out.replace_feature(self.bn2(out.features))
            return out.replace_feature(self.relu(out.features + self.proj(x).features))

    def stage(before: int, width: int, count: int, key: str) -> nn.Module:
        blocks = OrderedDict((f"block{i}", BasicBlock(before if i == 0 else width, width, key)) for i in range(count))
        made = spconv.SparseSequential()
        for name, module in blocks.items():
            made.add_module(name, module)
        return made

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv_input = spconv.SparseSequential(
                spconv.SubMConv3d(in_channels, base, kernel_size=5, padding=1, bias=False, indice_key="stem"),
                norm(base),
                nn.ReLU(),
            )
            self.down, self.enc = nn.ModuleList(), nn.ModuleList()
            self.up, self.dec = nn.ModuleList(), nn.ModuleList()
            skips, width = [base], base
            for s in range(half):
                down = spconv.SparseConv3d(
                    width, channels[s], kernel_size=2, stride=2, bias=False, indice_key=f"spconv{s + 1}"
                )
                self.down.append(spconv.SparseSequential(down, norm(channels[s]), nn.ReLU()))
                width = channels[s]
                self.enc.append(stage(width, width, layers[s], f"subm{s + 1}"))
                skips.append(width)
            for s in range(half):
                out = channels[half + s]
                up = spconv.SparseInverseConv3d(width, out, kernel_size=2, bias=False, indice_key=f"spconv{half - s}")
                self.up.append(spconv.SparseSequential(up, norm(out), nn.ReLU()))
                key = f"subm{half - 1 - s}" if s + 1 < half else "stem_blocks"
                self.dec.append(stage(out + skips[half - 1 - s], out, layers[half + s], key))
                width = out
            self.final = spconv.SubMConv3d(width, classes, kernel_size=1, padding=1, bias=True)

        def forward(self, features: torch.Tensor, indices: torch.Tensor, shape: list[int], batch_size: int) -> Any:
            x = self.conv_input(spconv.SparseConvTensor(features, indices, shape, batch_size))
            skips = [x]
            for down, enc in zip(self.down, self.enc, strict=True):
                x = enc(down(x))
                skips.append(x)
            x = skips.pop()
            for up, dec in zip(self.up, self.dec, strict=True):
                x = up(x)
                skip = skips.pop()
                x = dec(x.replace_feature(torch.cat((x.features, skip.features), dim=1)))
            return self.final(x)

    return UNet()
