"""Functions under the names of torchsparse.nn.functional."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as dense

from ... import functional as F  # noqa: N812
from ..._geometry import Geometry, Level
from ..._links import Link, Side
from ..._rules import read_numbers
from ..tensor import SparseTensor, Strided, fapply, make_ntuple


def relu(input: SparseTensor, inplace: bool = True) -> SparseTensor:
    """Returns max(x, 0). `inplace` is taken, and without effect."""
    return fapply(input, dense.relu)


def silu(input: SparseTensor, inplace: bool = True) -> SparseTensor:
    """Returns x sigmoid(x). `inplace` is taken, and without effect."""
    return fapply(input, dense.silu)


def leaky_relu(input: SparseTensor, negative_slope: float = 0.1, inplace: bool = True) -> SparseTensor:
    """Returns x, or x * negative_slope where x is negative. `inplace` is taken, and without effect."""
    return fapply(input, dense.leaky_relu, negative_slope)


def global_avg_pool(inputs: SparseTensor) -> torch.Tensor:
    """Returns the average of each cloud, [clouds, channels]; 0 for a cloud without voxels."""
    return F.global_pooling(inputs.rows(), "average", inputs.clouds())


def global_max_pool(inputs: SparseTensor) -> torch.Tensor:
    """Returns the maximum of each cloud, [clouds, channels]; 0 for a cloud without voxels."""
    return F.global_pooling(inputs.rows(), "max", inputs.clouds())


def conv3d(
    input: SparseTensor,
    weight: torch.Tensor,
    kernel_size: Any,
    bias: torch.Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    config: Any = None,
    transposed: bool = False,
    generative: bool = False,
    training: bool = False,
) -> SparseTensor:
    """Convolves a tensor, as Conv3d does.

    Args:
        weight: [offsets, in, out], or [in, out] for one offset without a stride.
        bias: [out].
        kernel_size, stride, padding, dilation, transposed, generative: as of Conv3d. `padding` counts for layers with a
            stride.
        config, training: taken, and without effect.
    """
    size, steps = make_ntuple(kernel_size, 3, "kernel_size"), make_ntuple(stride, 3, "stride")
    pads = make_ntuple(padding, 3, "padding")
    if max(make_ntuple(dilation, 3, "dilation")) > 1:
        raise ValueError(
            f"dilation is {dilation}, which TorchSparse takes and ignores: give 1, which is what it computes"
        )
    if generative:
        raise ValueError(
            "generative convolutions are not covered: in TorchSparse they clamp the coordinates, and need a kmap_mode "
            "that is not the default. minuet.torch.minkowski has a layer that makes all that its kernel reaches"
        )
    if size == steps == (1, 1, 1):
        made = F.convolution(input.rows(), weight.view(1, *weight.shape[-2:]), bias, submanifold=True)
        return input._replace(made.features)
    weight = _last_axis_fastest(weight, size)
    if transposed:
        return _transposed(input, weight, bias, size, steps)
    if max(steps) == 1:
        return input._replace(F.convolution(input.rows(), weight, bias, submanifold=True, **_within(size)).features)
    return _strided(input, weight, bias, size, steps, pads)


def _last_axis_fastest(weight: torch.Tensor, size: tuple[int, ...]) -> torch.Tensor:
    """Returns a weight whose first axis is fastest if the number of offsets is odd, with the last one fastest."""
    if weight.shape[0] % 2 == 0:
        return weight
    return weight.view(*reversed(size), *weight.shape[1:]).permute(2, 1, 0, 3, 4).reshape(weight.shape)


def _within(size: tuple[int, ...]) -> dict[str, Any]:
    """Returns the arguments of a kernel without a stride: centred if the number of offsets is odd, otherwise from 0."""
    if all(length % 2 for length in size) or all(length < 3 for length in size):
        return {"kernel_size": size}
    x, y, z = (range(length) for length in size)
    return {"offsets": [(i, j, k) for i in x for j in y for k in z]}


def _strided(
    input: SparseTensor, weight: torch.Tensor, bias: torch.Tensor | None, size: Any, steps: Any, pads: Any
) -> SparseTensor:
    key = (input.stride, size, steps, pads)
    found = input._caches.strided.get(key)
    if found is None or found.link.fine.level is not input.level:
        found = _make_outputs(input.level, size, steps, pads)
        input._caches.strided[key] = found
    feats = found.link.convolve(input.feats, weight, bias, kernel_size=size)
    stride: Any = tuple(a * b for a, b in zip(input.stride, steps, strict=True))
    return input._on(found.level, feats, stride, _range(input, found.level))


def _range(input: SparseTensor, level: Level) -> tuple[int, ...] | None:
    """Returns the spatial range of a level of the input's cache."""
    if input.spatial_range is None or level.shape is None:
        return None
    return (input.spatial_range[0], *level.shape)


def _make_outputs(fine: Level, size: Any, steps: Any, pads: Any) -> Strided:
    """Finds all outputs that the kernel reaches, inside the spatial range or, without one, that of the voxels."""
    made = fine.coarser(steps, kernel_size=size, padding=pads)
    rows, level = None, made
    if fine.shape is None and made.rows:
        most = read_numbers(fine.coordinates[:, 1:].amax(0))
        last = [
            (high + 2 * pad - (length - 1)) // step
            for high, pad, length, step in zip(most, pads, size, steps, strict=True)
        ]
        cells = made.coordinates[:, 1:]
        inside = ((cells >= 0) & (cells <= torch.tensor(last, device=cells.device))).all(1)
        kept = inside.nonzero()[:, 0]
        if len(kept) < made.rows:
            rows, level = kept.int(), Geometry(made.coordinates[kept]).level
    return Strided(Link(Side(fine), Side(made, rows), tuple(steps), padding=tuple(pads)), level)


def _transposed(
    input: SparseTensor, weight: torch.Tensor, bias: torch.Tensor | None, size: Any, steps: Any
) -> SparseTensor:
    stride: Any = tuple(a // b for a, b in zip(input.stride, steps, strict=True))
    strided = input._caches.strided
    # The padding of the layer that led here may be any.
    led_here = (one for key, one in strided.items() if key[:3] == (stride, size, steps) and one.level is input.level)
    found = next(led_here, None)
    if found is None:
        known = ", ".join(f"{key[1]} with stride {key[2]} from {key[0]}" for key in strided) or "none"
        raise ValueError(
            f"a transposed convolution of kernel {size} and stride {steps} leads back over one that made the voxels of "
            f"its input from the tensor stride {stride}, and there is none. The kernels so far are: {known}"
        )
    feats = found.link.convolve(input.feats, weight, bias, transposed=True, kernel_size=size)
    fine = found.link.fine.level
    return input._on(fine, feats, stride, _range(input, fine))
