"""Sparse convolution networks in PyTorch. README.md beside this file is the page."""

import torch as _torch

from ._torch_version import require as _require

_require(str(_torch.__version__))  # Before modules that use what older versions do not have.

from . import functional
from ._capacities import Capacities, check
from ._export import Exported, ExportError, export
from ._export._quantized import QuantizedExported, quantize
from ._fused import FusedModule, fuse
from ._geometry import Geometry
from ._levels import KernelMap, Level
from ._normalization import BatchNorm
from ._skipped_steps import skip_unless_fits
from ._sparse_tensor import SparseTensor

__all__ = [
    "BatchNorm",
    "Capacities",
    "ExportError",
    "Exported",
    "FusedModule",
    "Geometry",
    "KernelMap",
    "Level",
    "QuantizedExported",
    "SparseTensor",
    "check",
    "export",
    "functional",
    "fuse",
    "quantize",
    "skip_unless_fits",
]
