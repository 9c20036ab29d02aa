"""Layers and functions under the names of torchsparse.nn."""

from . import functional, utils
from .modules import (
    BatchNorm,
    Conv3d,
    GlobalAvgPool,
    GlobalMaxPool,
    GroupNorm,
    LeakyReLU,
    ReLU,
    SiLU,
)

__all__ = [
    "BatchNorm",
    "Conv3d",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "GroupNorm",
    "LeakyReLU",
    "ReLU",
    "SiLU",
    "functional",
    "utils",
]
