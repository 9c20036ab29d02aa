"""Sparse convolution networks in PyTorch."""

from . import functional
from ._export import Exported, ExportError, export
from ._geometry import Geometry, KernelMap, Level
from ._normalization import BatchNorm
from ._sparse_tensor import SparseTensor

__all__ = [
    "BatchNorm",
    "ExportError",
    "Exported",
    "Geometry",
    "KernelMap",
    "Level",
    "SparseTensor",
    "export",
    "functional",
]
