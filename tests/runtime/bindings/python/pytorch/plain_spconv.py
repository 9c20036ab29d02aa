"""The names of minuet.torch.spconv in plain PyTorch: gathers and matrix products over lists of pairs, in any float
type.

Tests build a network once with minuet.torch.spconv and once with this module, and compare outputs and gradients.
Nothing here is fast, and nothing depends on Minuet.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import nn


def _axes(ndim: int, value: Any) -> list[int]:
    return [value] * ndim if isinstance(value, int) else [int(v) for v in value]


def _keys(coordinates: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """Returns one int64 number for each row [batch index, cells...] inside the shape."""
    keys = coordinates[:, 0].long()
    for axis, extent in enumerate(shape):
        keys = keys * extent + coordinates[:, 1 + axis].long()
    return keys


def _inside(cells: torch.Tensor, shape: list[int]) -> torch.Tensor:
    return ((cells >= 0) & (cells < torch.tensor(shape))).all(1)


class IndexPairs:
    """The pairs of one layer: for each offset, which input rows meet which output rows."""

    def __init__(self, indices: torch.Tensor, shape: list[int], kernel: dict[str, Any]) -> None:
        self.kernel, self.indices, self.spatial_shape = kernel, indices, shape
        size, stride, padding, dilation = (kernel[name] for name in ("size", "stride", "padding", "dilation"))
        ndim, is_transposed, is_submanifold = len(shape), kernel["transposed"], kernel["subm"]
        if is_submanifold:
            stride, padding = [1] * ndim, [(k // 2) * d for k, d in zip(size, dilation, strict=True)]
            self.out_shape = list(shape)
        elif is_transposed:
            self.out_shape = [
                (n - 1) * s - 2 * p + d * (k - 1) + 1 + o
                for n, s, p, d, k, o in zip(
                    shape, stride, padding, dilation, size, kernel["output_padding"], strict=True
                )
            ]
        else:
            self.out_shape = [
                (n + 2 * p - d * (k - 1) - 1) // s + 1
                for n, s, p, d, k in zip(shape, stride, padding, dilation, size, strict=True)
            ]
        steps, origin = torch.tensor(stride), torch.tensor(padding)
        meetings = []
        for number in itertools.product(*(range(k) for k in size)):
            shift = torch.tensor(number) * torch.tensor(dilation)
            if is_transposed:
                cells = indices[:, 1:] * steps + shift - origin
                fits = _inside(cells, self.out_shape)
            else:
                moved = indices[:, 1:] + origin - shift
                cells = torch.div(moved, steps, rounding_mode="floor")
                fits = (moved % steps == 0).all(1) & _inside(cells, self.out_shape)
            rows = fits.nonzero()[:, 0]
            meetings.append((rows, torch.cat([indices[rows, :1], cells[rows]], 1)))
        if is_submanifold:
            self.out_indices = indices
        else:
            self.out_indices = torch.unique(torch.cat([cells for _, cells in meetings]), dim=0).int()
        keys, order = _keys(self.out_indices, self.out_shape).sort()
        self.pairs = []
        for rows, cells in meetings:
            wanted = _keys(cells, self.out_shape)
            place = torch.searchsorted(keys, wanted).clamp(max=max(0, len(keys) - 1))
            found = keys[place] == wanted if len(keys) else torch.zeros(len(wanted), dtype=torch.bool)
            self.pairs.append((rows[found], order[place[found]]))


class SparseConvTensor:
    def __init__(
        self,
        features: torch.Tensor,
        indices: torch.Tensor,
        spatial_shape: Any,
        batch_size: int,
        indice_dict: Any = None,
    ) -> None:
        self.features, self.indices = features, indices
        self.spatial_shape, self.batch_size = [int(v) for v in spatial_shape], batch_size
        self.indice_dict = {} if indice_dict is None else indice_dict

    def replace_feature(self, features: torch.Tensor) -> SparseConvTensor:
        return SparseConvTensor(features, self.indices, self.spatial_shape, self.batch_size, self.indice_dict)

    def dense(self, channels_first: bool = True) -> torch.Tensor:
        shape = [self.batch_size, *self.spatial_shape]
        result = self.features.new_zeros((math.prod(shape), self.features.shape[1]))
        result = result.index_add(0, _keys(self.indices, self.spatial_shape), self.features).view(*shape, -1)
        return result.movedim(-1, 1).contiguous() if channels_first else result

    def __add__(self, other: Any) -> SparseConvTensor:
        return self.replace_feature(self.features + getattr(other, "features", other))


class SparseModule(nn.Module):
    pass


class SparseSequential(SparseModule):
    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        for number, module in enumerate(modules):
            self.add_module(str(number), module)

    def forward(self, value: Any) -> Any:
        for module in self.children():
            if isinstance(module, SparseModule) or not hasattr(value, "replace_feature"):
                value = module(value)
            else:
                value = value.replace_feature(module(value.features))
        return value


class _Windowed(SparseModule):
    """What convolutions and poolings share: the pairs under an indice_key."""

    ndim: int
    kernel: dict[str, Any]
    indice_key: str | None
    inverse = False

    def _pairs(self, given: SparseConvTensor) -> IndexPairs:
        if self.indice_key is not None and self.indice_key in given.indice_dict:
            return given.indice_dict[self.indice_key]
        pairs = IndexPairs(given.indices, given.spatial_shape, self.kernel)
        if self.indice_key is not None:
            given.indice_dict[self.indice_key] = pairs
        return pairs

    def _output(self, given: SparseConvTensor, pairs: IndexPairs, features: torch.Tensor) -> SparseConvTensor:
        indices, shape = (pairs.indices, pairs.spatial_shape) if self.inverse else (pairs.out_indices, pairs.out_shape)
        return SparseConvTensor(features, indices, shape, given.batch_size, given.indice_dict)


class _Convolution(_Windowed):
    def __init__(
        self,
        ndim: int,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        indice_key: str | None = None,
        output_padding: Any = 0,
        **kind: bool,
    ) -> None:
        super().__init__()
        self.ndim, self.groups, self.indice_key = ndim, groups, indice_key
        self.inverse = kind.get("inverse", False)
        self.kernel = {
            "size": _axes(ndim, kernel_size),
            "stride": _axes(ndim, stride),
            "padding": _axes(ndim, padding),
            "dilation": _axes(ndim, dilation),
            "output_padding": _axes(ndim, output_padding),
            "transposed": kind.get("transposed", False),
            "subm": kind.get("subm", False),
        }
        self.in_channels, self.out_channels = in_channels, out_channels
        self.weight = nn.Parameter(torch.randn(out_channels, *self.kernel["size"], in_channels // groups) * 0.1)
        self.bias = nn.Parameter(torch.randn(out_channels) * 0.1) if bias else None

    def matrices(self) -> torch.Tensor:
        """Returns the weight as [offsets, groups, inputs of a group, outputs of a group]."""
        volume, group = math.prod(self.kernel["size"]), self.in_channels // self.groups
        is_point = volume == 1 and (self.kernel["subm"] or math.prod(self.kernel["stride"]) == 1)
        if is_point and self.groups == 1 and not self.inverse:
            # spconv reads the memory of such a weight as [inputs, outputs].
            return self.weight.reshape(1, 1, self.in_channels, self.out_channels)
        return self.weight.reshape(self.groups, -1, volume, group).permute(2, 0, 3, 1)

    def forward(self, given: SparseConvTensor) -> SparseConvTensor:
        pairs = self._pairs(given)
        rows = len(pairs.indices if self.inverse else pairs.out_indices)
        result = given.features.new_zeros((rows, self.groups, self.out_channels // self.groups))
        features = given.features.view(len(given.features), self.groups, -1)
        for matrix, (sources, targets) in zip(self.matrices(), pairs.pairs, strict=True):
            if self.inverse:
                sources, targets = targets, sources
            result = result.index_add(0, targets, torch.einsum("rgi,gio->rgo", features[sources], matrix))
        result = result.flatten(1)
        return self._output(given, pairs, result if self.bias is None else result + self.bias)


class _Pool(_Windowed):
    def __init__(
        self,
        ndim: int,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        indice_key: str | None = None,
        is_average: bool = False,
    ) -> None:
        super().__init__()
        self.ndim, self.indice_key, self.is_average = ndim, indice_key, is_average
        self.kernel = {
            "size": _axes(ndim, kernel_size),
            "stride": _axes(ndim, kernel_size if stride is None else stride),
            "padding": _axes(ndim, padding),
            "dilation": _axes(ndim, dilation),
            "output_padding": [0] * ndim,
            "transposed": False,
            "subm": False,
        }

    def forward(self, given: SparseConvTensor) -> SparseConvTensor:
        pairs = self._pairs(given)
        rows, channels = len(pairs.out_indices), given.features.shape[1]
        sources = torch.cat([source for source, _ in pairs.pairs])
        targets = torch.cat([target for _, target in pairs.pairs])
        if self.is_average:
            counts = torch.bincount(targets, minlength=rows).to(given.features.dtype)[:, None]
            result = given.features.new_zeros((rows, channels)).index_add(0, targets, given.features[sources]) / counts
        else:
            start = given.features.new_full((rows, channels), -math.inf)
            wide = targets[:, None].expand(-1, channels)
            result = start.scatter_reduce(0, wide, given.features[sources], "amax", include_self=True)
        return self._output(given, pairs, result)


def _named(base: type, ndim: int, **fixed: Any) -> type:
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in ("algo", "fp32_accum", "name"):
            kwargs.pop(name, None)
        base.__init__(self, ndim, *args, **fixed, **kwargs)

    return type(base.__name__, (base,), {"__init__": begin})


def _inverse(ndim: int) -> type:
    def begin(
        self: Any, in_channels: int, out_channels: int, kernel_size: Any, indice_key: str, bias: bool = True
    ) -> None:
        _Convolution.__init__(
            self, ndim, in_channels, out_channels, kernel_size, bias=bias, indice_key=indice_key, inverse=True
        )

    return type("SparseInverseConv", (_Convolution,), {"__init__": begin})


for _ndim in (1, 2, 3, 4):
    globals()[f"SubMConv{_ndim}d"] = _named(_Convolution, _ndim, subm=True)
    globals()[f"SparseConv{_ndim}d"] = _named(_Convolution, _ndim)
    globals()[f"SparseConvTranspose{_ndim}d"] = _named(_Convolution, _ndim, transposed=True)
    globals()[f"SparseInverseConv{_ndim}d"] = _inverse(_ndim)
    globals()[f"SparseMaxPool{_ndim}d"] = _named(_Pool, _ndim)
    globals()[f"SparseAvgPool{_ndim}d"] = _named(_Pool, _ndim, is_average=True)
