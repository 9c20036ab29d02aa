"""Sparse convolution networks in JAX, as custom calls of XLA."""

import importlib
from typing import Any

from .._points import PointFeature
from .._pyramid import Level, Map
from .._types import CloudStatus, Purpose
from ._cloud import Cloud, check, padded, pyramid
from ._convolutions import conv
from ._dense import to_dense
from ._geometry import Geometry, conv_map, pool_map
from ._network import Network
from ._norms import Statistics, batch_norm
from ._points import Voxels, voxelize
from ._poolings import global_pool, pool
from ._registration import export_checks
from ._target import target

__all__ = [
    "Cloud",
    "CloudStatus",
    "Geometry",
    "Level",
    "Map",
    "Network",
    "PointFeature",
    "Purpose",
    "Statistics",
    "Voxels",
    "batch_norm",
    "check",
    "conv",
    "conv_map",
    "export_checks",
    "global_pool",
    "padded",
    "pool",
    "pool_map",
    "pyramid",
    "target",
    "to_dense",
    "voxelize",
]


def __getattr__(name: str) -> Any:
    # The modules of flax, which is optional.
    if name == "nn":
        return importlib.import_module(".nn", __name__)
    raise AttributeError(f"minuet.jax has no attribute {name!r}")
