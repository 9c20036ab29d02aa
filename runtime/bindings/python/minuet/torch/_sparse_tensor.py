"""Features on the voxels of a level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from ._capacities import Capacities
from ._geometry import CapacityOf, Geometry
from ._levels import Level

Copied = TypeVar("Copied")


class SparseTensor:
    """Features of the voxels of one level.

    Attributes:
        features: [rows, channels]. Rows past the count are zero in capacity mode.
        level: the level, whose geometry has the coordinates and the maps.
    """

    def __init__(self, features: torch.Tensor, level: Level) -> None:
        if features.dim() != 2 or features.shape[0] != level.rows:
            raise ValueError(
                f"features have the shape {list(features.shape)}, and the level has {level.rows} rows: give "
                "[rows, channels]"
            )
        self.features = features
        self.level = level

    @classmethod
    def of(
        cls,
        features: torch.Tensor,
        coordinates: torch.Tensor,
        *,
        shape: Sequence[int] | None = None,
        batch_size: int = 0,
        count: torch.Tensor | None = None,
        capacities: Capacities | CapacityOf | Sequence[int] | None = None,
    ) -> SparseTensor:
        """Makes a tensor and the geometry of its coordinates; the arguments are those of Geometry."""
        geometry = Geometry(coordinates, shape=shape, batch_size=batch_size, count=count, capacities=capacities)
        return cls(geometry.level.mask(features), geometry.level)

    @property
    def geometry(self) -> Geometry:
        """What has the levels and the maps."""
        return self.level.geometry

    @property
    def coordinates(self) -> torch.Tensor:
        """The coordinates in cells of the level, int32 [rows, 1 + axes]."""
        return self.level.coordinates

    @property
    def count(self) -> torch.Tensor | None:
        """In capacity mode the number of voxels, int32 [1] on the device; in exact mode None."""
        return self.level.count

    @property
    def channels(self) -> int:
        """The number of features of a voxel."""
        return int(self.features.shape[1])

    def require_device(self, *tensors: torch.Tensor | None) -> None:
        """Raises ValueError where a tensor is on another device than the features."""
        device = self.features.device
        for tensor in tensors:
            if tensor is not None and tensor.device != device:
                raise ValueError(
                    f"a tensor is on {tensor.device}, and the features are on {device}: move all tensors of an op to "
                    "one device"
                )

    def replace(self, features: torch.Tensor) -> SparseTensor:
        """Returns a tensor with other features on the same voxels."""
        return SparseTensor(features, self.level)

    def apply(self, function: Callable[[torch.Tensor], torch.Tensor]) -> SparseTensor:
        """Returns a tensor with a function of the features, row by row. Rows past the count stay zero."""
        return SparseTensor(self.level.mask(function(self.features)), self.level)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.features.shape))
        return f"SparseTensor({shape} {self.features.dtype}, stride {list(self.level.stride)}, {self.features.device})"


def shallow_copy(tensor: Copied, names: Sequence[str]) -> Copied:
    """Returns a new object of the same class with the same attributes.

    Args:
        names: all attributes that the package gives the object. Those that the caller has given it are copied too, but
            under torch.compile, which does not see them in all versions, they are not.
    """
    kind: Any = type(tensor)
    made: Copied = kind.__new__(kind)
    if torch.compiler.is_compiling():
        for name in names:
            if hasattr(tensor, name):
                setattr(made, name, getattr(tensor, name))
    else:
        made.__dict__.update(tensor.__dict__)
    return made
