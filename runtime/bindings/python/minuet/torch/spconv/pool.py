"""Poolings under spconv's names."""

from __future__ import annotations

from typing import Any

import torch

from .. import functional as F  # noqa: N812
from .core import ConvAlgo, Kind, SparseConvTensor, expand_nd
from .modules import KernelModule, SparseModule


class SparsePool(KernelModule):
    """What all poolings share. The outputs are all voxels that the kernel reaches, and each pools the inputs that are
    there. `algo` is taken, and without effect."""

    _ndim: int
    _reduction: str

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        indice_key: str | None = None,
        algo: ConvAlgo | None = None,
        record_voxel_count: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        ndim = self.ndim = self._ndim
        self.kernel_size = expand_nd(ndim, kernel_size, "kernel_size", 1)
        self.stride = list(self.kernel_size) if stride is None else expand_nd(ndim, stride, "stride", 1)
        self.padding = expand_nd(ndim, padding, "padding")
        self.dilation = expand_nd(ndim, dilation, "dilation", 1)
        self.indice_key, self.algo, self.record_voxel_count = indice_key, algo, record_voxel_count
        if record_voxel_count:
            self.record_voxels()

    def extra_repr(self) -> str:
        """Returns the arguments, for repr()."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}"

    def forward(self, input: SparseConvTensor) -> SparseConvTensor:
        """Pools a tensor."""
        self.require_tensor(input)
        if self.indice_key is not None and self.indice_key in input.indice_dict:
            raise ValueError(
                f"indice_key {self.indice_key!r} exists already, and a pooling has outputs of its own: give it another "
                "key"
            )
        made = F.pooling(
            input.sparse(),
            self._reduction,
            kernel_size=self.kernel_size,
            stride=self.stride,
            dilation=self.dilation,
            padding=self.padding,
        )
        self.note_voxels(made.level)
        shape = list(made.level.shape or ())
        return input._with_level(made, shape, self._data(Kind.STRIDED, input, made.level, shape))


class _MaxPool(SparsePool):
    _reduction = "max"


class _AvgPool(SparsePool):
    _reduction = "average"


class SparseMaxPool1d(_MaxPool):
    """The maximum along one axis."""

    _ndim = 1


class SparseMaxPool2d(_MaxPool):
    """The maximum along two axes."""

    _ndim = 2


class SparseMaxPool3d(_MaxPool):
    """The maximum along three axes."""

    _ndim = 3


class SparseMaxPool4d(_MaxPool):
    """The maximum along four axes."""

    _ndim = 4


class SparseAvgPool1d(_AvgPool):
    """The average along one axis of the inputs that are there."""

    _ndim = 1


class SparseAvgPool2d(_AvgPool):
    """The average along two axes of the inputs that are there."""

    _ndim = 2


class SparseAvgPool3d(_AvgPool):
    """The average along three axes of the inputs that are there."""

    _ndim = 3


class SparseAvgPool4d(_AvgPool):
    """The average along four axes of the inputs that are there."""

    _ndim = 4


class SparseGlobalMaxPool(SparseModule):
    """The maximum of each cloud, [batch, channels]; 0 for a cloud without voxels."""

    def forward(self, input: SparseConvTensor) -> torch.Tensor:
        """Pools a tensor."""
        return F.global_pooling(input.sparse(), "max")


class SparseGlobalAvgPool(SparseModule):
    """The average of each cloud, [batch, channels]; 0 for a cloud without voxels."""

    def forward(self, input: SparseConvTensor) -> torch.Tensor:
        """Pools a tensor."""
        return F.global_pooling(input.sparse(), "average")
