"""Voxels of points, and batches, under the names of torchsparse.utils."""

from ..tensor import make_ntuple
from . import collate, quantize

__all__ = ["collate", "make_ntuple", "quantize"]
