"""What layers are made of, under the names of torchsparse.nn.utils."""

from __future__ import annotations

import itertools
from typing import Any

import torch

from ..tensor import fapply, make_ntuple

__all__ = ["fapply", "get_kernel_offsets"]


def get_kernel_offsets(size: Any, stride: Any = 1, dilation: Any = 1, device: Any = "cpu") -> torch.Tensor:
    """Returns the offsets of a kernel in the order of TorchSparse's weights, int32 [offsets, 3]: the first axis is
    fastest if their number is odd, and the last one if it is even. Even sizes begin at -(size // 2) + 1."""
    sizes, steps = make_ntuple(size, 3, "size"), make_ntuple(stride, 3, "stride")
    scales = [step * more for step, more in zip(steps, make_ntuple(dilation, 3, "dilation"), strict=True)]
    axes = [
        [(step - (length - 1) // 2) * scale for step in range(length)]
        for length, scale in zip(sizes, scales, strict=True)
    ]
    if all(length % 2 for length in sizes):
        rows = [offset[::-1] for offset in itertools.product(*axes[::-1])]
    else:
        rows = list(itertools.product(*axes))
    return torch.tensor(rows, dtype=torch.int32, device=device)
