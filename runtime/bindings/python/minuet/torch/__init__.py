"""Sparse convolution networks in PyTorch."""

from . import functional
from ._geometry import Geometry, KernelMap, Level
from ._sparse_tensor import SparseTensor

__all__ = ["Geometry", "KernelMap", "Level", "SparseTensor", "functional"]
