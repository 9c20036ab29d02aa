"""Blocks of networks under MinkowskiEngine's names."""

from . import resnet_block

__all__ = ["resnet_block"]
