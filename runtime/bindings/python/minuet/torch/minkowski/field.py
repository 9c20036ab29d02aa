"""TensorField: features at points, under MinkowskiEngine's names."""

from __future__ import annotations

from typing import Any

import torch

from ..._types import axes
from .. import functional as F  # noqa: N812
from .._links import find_rows, unique_rows
from .._rules import as_int32
from .manager import CoordinateManager, CoordinateMapKey, manager_for
from .tensor import SparseTensor, SparseTensorQuantizationMode, Tensor, reduce_rows


class TensorField(Tensor):
    """Features at points with coordinates that need not be whole.

    Args:
        features: [points, channels].
        coordinates: [points, 1 + axes]: the batch index, then the position in voxels.
        coordinate_manager: the manager that sparse() adds its voxels to; None: a new one.
        quantization_mode: how sparse() makes the features of a voxel.
        tensor_stride, allocator_type, minkowski_algorithm: taken, and without effect.
        requires_grad, device: as in torch.
    """

    _ATTRIBUTES = ("_F", "_manager", "quantization_mode", "_coordinates", "_rows")

    def __init__(
        self,
        features: torch.Tensor,
        coordinates: torch.Tensor,
        tensor_stride: Any = 1,
        coordinate_field_map_key: None = None,
        coordinate_manager: CoordinateManager | None = None,
        quantization_mode: SparseTensorQuantizationMode = SparseTensorQuantizationMode.UNWEIGHTED_AVERAGE,
        allocator_type: Any = None,
        minkowski_algorithm: Any = None,
        requires_grad: bool | None = None,
        device: Any = None,
    ) -> None:
        if coordinate_field_map_key is not None:
            raise ValueError("a TensorField is made of coordinates: give these instead of coordinate_field_map_key")
        if features.dim() != 2 or coordinates.dim() != 2 or len(features) != len(coordinates):
            raise ValueError(
                f"features have the shape {list(features.shape)}, and coordinates {list(coordinates.shape)}: both need "
                "one row for each point"
            )
        if device is not None:
            features, coordinates = features.to(device), coordinates.to(device)
        if requires_grad is not None:
            features.requires_grad_(requires_grad)
        self._manager = coordinate_manager or manager_for(coordinates.shape[1] - 1)
        self._F, self._coordinates = features, coordinates
        self.quantization_mode = quantization_mode
        # Shared by all fields of the same points.
        self._rows: dict[CoordinateMapKey, torch.Tensor] = {}

    @property
    def coordinates(self) -> torch.Tensor:
        """The coordinates, [points, 1 + axes]: the batch index, then the position."""
        return self._coordinates

    @property
    def coordinate_key(self) -> int:
        """What tells fields of other points apart."""
        return id(self._coordinates)

    def _cells(self, strides: list[int]) -> torch.Tensor:
        """Returns the cell of each point, int32."""
        steps = torch.tensor([1, *strides], dtype=torch.int32, device=self.device)
        return torch.div(as_int32(self._coordinates), steps, rounding_mode="floor").contiguous()

    def sparse(
        self,
        tensor_stride: Any = 1,
        coordinate_map_key: CoordinateMapKey | None = None,
        quantization_mode: SparseTensorQuantizationMode | None = None,
    ) -> SparseTensor:
        """Returns a sparse tensor of the voxels that have a point.

        Args:
            tensor_stride: the size of a voxel.
            coordinate_map_key: must be None: voxels are made of the points.
            quantization_mode: how features of points become those of a voxel; None: that of the field.
        """
        if coordinate_map_key is not None:
            raise ValueError("sparse() makes the set of the points' voxels: leave out coordinate_map_key")
        strides = axes(tensor_stride, self.D, "tensor_stride")
        cells = self._cells(strides)
        first, kind = unique_rows(cells)
        key = self._manager.insert(cells[first].contiguous(), strides)
        features = reduce_rows(self._F, quantization_mode or self.quantization_mode, first, kind)
        self._rows[key] = kind.int()
        return SparseTensor(features, coordinate_map_key=key, coordinate_manager=self._manager)

    def inverse_mapping(self, sparse_tensor_map_key: CoordinateMapKey) -> torch.Tensor:
        """Returns the row of each point's voxel in a set of the same manager, or -1 where there is none; int32."""
        found = self._rows.get(sparse_tensor_map_key)
        if found is None:
            level = self._manager.level(sparse_tensor_map_key)
            found = find_rows(level.coordinates, self._cells(list(sparse_tensor_map_key.tensor_stride)))
            self._rows[sparse_tensor_map_key] = found
        return found

    def __repr__(self) -> str:
        return f"TensorField(features={list(self.shape)} {self.dtype}, device={self.device})"


def slice_field(x: SparseTensor, points: TensorField | SparseTensor) -> TensorField:
    """Returns the features of each point's voxel, and zeros for points without one."""
    if points.coordinate_manager is not x.coordinate_manager:
        raise ValueError(
            "the points have another coordinate manager than the tensor: make the tensor with sparse() of their field"
        )
    if isinstance(points, TensorField):
        return points._replace(F.gather_rows(x.F, points.inverse_mapping(x.coordinate_map_key)))
    if points.coordinate_map_key != x.coordinate_map_key:
        raise ValueError(
            f"the tensors are on the sets {x.coordinate_map_key} and {points.coordinate_map_key}: a slice needs one set"
        )
    rows = points.inverse_mapping
    return TensorField(F.gather_rows(x.F, rows.int()), x.C[rows], coordinate_manager=x.coordinate_manager)
