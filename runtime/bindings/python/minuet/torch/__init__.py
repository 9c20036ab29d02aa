"""Sparse convolution networks in PyTorch."""
from . import _convolutions, _pyramids
