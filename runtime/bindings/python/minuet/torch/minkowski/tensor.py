"""SparseTensor, and what it shares with TensorField."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, ClassVar, TypeVar

import torch

from ..._types import axes
from .. import functional as F  # noqa: N812
from .._dense import fill_cells, number_cells
from .._geometry import CapacityOf, Level
from .._links import invert_rows, reduce_kinds, unique_rows
from .._rules import as_int32
from .._sparse_tensor import SparseTensor as Rows
from .._sparse_tensor import shallow_copy
from .manager import CoordinateManager, CoordinateMapKey, manager_for


class SparseTensorQuantizationMode(Enum):
    """How the features of rows with the same coordinates become those of one voxel."""

    RANDOM_SUBSAMPLE = 0
    UNWEIGHTED_AVERAGE = 1
    UNWEIGHTED_SUM = 2
    NO_QUANTIZATION = 3
    MAX_POOL = 4
    SPLAT_LINEAR_INTERPOLATION = 5


_REDUCTIONS = {
    SparseTensorQuantizationMode.UNWEIGHTED_AVERAGE: "average",
    SparseTensorQuantizationMode.UNWEIGHTED_SUM: "sum",
    SparseTensorQuantizationMode.MAX_POOL: "max",
}


def reduce_rows(
    features: torch.Tensor, mode: SparseTensorQuantizationMode, first: torch.Tensor, kind: torch.Tensor
) -> torch.Tensor:
    """Returns the features of each kind of rows. `first` and `kind` are those of unique_rows()."""
    if mode is SparseTensorQuantizationMode.RANDOM_SUBSAMPLE:
        return F.gather_rows(features, first.int())
    if mode not in _REDUCTIONS:
        raise ValueError(f"{mode} makes no features of voxels: use one of {', '.join(map(str, _REDUCTIONS))}")
    return reduce_kinds(features, _REDUCTIONS[mode], kind, len(first))


Own = TypeVar("Own", bound="Tensor")


class Tensor:
    """Features with coordinates: what SparseTensor and TensorField share."""

    #: What the package gives an object; some of them only where they are known.
    _ATTRIBUTES: ClassVar[tuple[str, ...]] = ()

    _F: torch.Tensor
    _manager: CoordinateManager
    quantization_mode: SparseTensorQuantizationMode

    @property
    def coordinates(self) -> torch.Tensor:
        """The coordinates, [rows, 1 + axes]: the batch index, then one for each axis."""
        raise NotImplementedError

    def _replace(self: Own, features: torch.Tensor) -> Own:
        """Returns other features with the same coordinates."""
        made = shallow_copy(self, self._ATTRIBUTES)
        made._F = features
        return made

    def _map(self: Own, function: Callable[[torch.Tensor], torch.Tensor]) -> Own:
        """Returns a function of each row. Rows past the count stay zero."""
        return self._replace(function(self._F))

    @property
    def C(self) -> torch.Tensor:  # noqa: N802
        """The coordinates."""
        return self.coordinates

    @property
    def F(self) -> torch.Tensor:  # noqa: N802
        """The features, [rows, channels]."""
        return self._F

    @property
    def features(self) -> torch.Tensor:
        """The features, [rows, channels]."""
        return self._F

    @property
    def coordinate_manager(self) -> CoordinateManager:
        """The manager, which all tensors that were made of this one share."""
        return self._manager

    @property
    def D(self) -> int:  # noqa: N802
        """The number of axes."""
        return self._manager.D

    @property
    def dimension(self) -> int:
        """The number of axes."""
        return self.D

    @property
    def requires_grad(self) -> bool:
        """Whether the features have a gradient."""
        return bool(self._F.requires_grad)

    def requires_grad_(self, requires_grad: bool = True) -> None:
        """Lets the features have a gradient."""
        self._F.requires_grad_(requires_grad)

    @property
    def shape(self) -> torch.Size:
        """The shape of the features."""
        return self._F.shape

    def size(self) -> torch.Size:
        """Returns the shape of the features."""
        return self._F.shape

    def __len__(self) -> int:
        return len(self._F)

    @property
    def device(self) -> torch.device:
        """The device of the features."""
        return self._F.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the features."""
        return self._F.dtype

    def float(self: Own) -> Own:
        """Makes the features float32, and returns this tensor."""
        self._F = self._F.float()
        return self

    def detach(self: Own) -> Own:
        """Makes the features part of no graph, and returns this tensor."""
        self._F = self._F.detach()
        return self

    @property
    def decomposition_permutations(self) -> list[torch.Tensor]:
        """The rows of each cloud, ascending."""
        level = getattr(self, "level", None)
        if level is not None and level.count is not None:
            raise ValueError(
                "a tensor cannot be decomposed in capacity mode, where the host does not know the rows of a cloud: use "
                "exact mode"
            )
        batch = self.coordinates[:, 0].int()
        return [(batch == one).nonzero()[:, 0] for one in range(self._manager.number_of_unique_batch_indices())]

    @property
    def decomposed_coordinates(self) -> list[torch.Tensor]:
        """The coordinates of each cloud, [rows, axes]."""
        return [self.coordinates[rows, 1:] for rows in self.decomposition_permutations]

    @property
    def decomposed_features(self) -> list[torch.Tensor]:
        """The features of each cloud."""
        return [self._F[rows] for rows in self.decomposition_permutations]

    @property
    def decomposed_coordinates_and_features(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The coordinates and the features of each cloud, in the same order."""
        return self.decomposed_coordinates, self.decomposed_features

    def coordinates_at(self, batch_index: int) -> torch.Tensor:
        """Returns the coordinates of one cloud, [rows, axes]."""
        return self.decomposed_coordinates[batch_index]

    def features_at(self, batch_index: int) -> torch.Tensor:
        """Returns the features of one cloud."""
        return self.decomposed_features[batch_index]

    def coordinates_and_features_at(self, batch_index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the coordinates and the features of one cloud."""
        rows = self.decomposition_permutations[batch_index]
        return self.coordinates[rows, 1:], self._F[rows]


class SparseTensor(Tensor):
    """Features on voxels, as MinkowskiEngine has them.

    In exact mode, which is the default, there is one row for each voxel. With `capacities` or `count` the tensor is in
    capacity mode: it has as many rows as the capacity of its set, rows past the count are zero, and the host reads
    nothing back.

    Args:
        features: [rows, channels]; float32, float16 or bfloat16.
        coordinates: [rows, 1 + axes]: the batch index, then multiples of the tensor stride, which may be negative.
            Rows may occur several times, except in capacity mode. There, the host does not check for multiples either.
        tensor_stride: of the coordinates; one number, or one for each axis.
        coordinate_map_key, coordinate_manager: a set that a manager has, instead of coordinates; or the manager that
            the coordinates are added to.
        quantization_mode: what becomes of rows with the same coordinates.
        allocator_type, minkowski_algorithm: taken, and without effect.
        requires_grad, device: as in torch.
        count, capacities, batch_size: capacity mode, as of minuet.torch.Geometry.

    Attributes:
        coordinate_map_key: the name of its set in the manager.
        unique_index: for each voxel, the first of the given rows with its coordinates, int64.
        inverse_mapping: for each of the given rows, its voxel, int64.
    """

    _ATTRIBUTES = ("_F", "_manager", "quantization_mode", "coordinate_map_key", "unique_index", "inverse_mapping")

    unique_index: torch.Tensor
    inverse_mapping: torch.Tensor

    def __init__(
        self,
        features: torch.Tensor,
        coordinates: torch.Tensor | None = None,
        tensor_stride: Any = 1,
        coordinate_map_key: CoordinateMapKey | None = None,
        coordinate_manager: CoordinateManager | None = None,
        quantization_mode: SparseTensorQuantizationMode = SparseTensorQuantizationMode.RANDOM_SUBSAMPLE,
        allocator_type: Any = None,
        minkowski_algorithm: Any = None,
        requires_grad: bool | None = None,
        device: Any = None,
        *,
        count: torch.Tensor | None = None,
        capacities: CapacityOf | Sequence[int] | None = None,
        batch_size: int = 0,
    ) -> None:
        if features.dim() != 2:
            raise ValueError(f"features have the shape {list(features.shape)}, and [rows, channels] is needed")
        if (coordinates is None) == (coordinate_map_key is None):
            raise ValueError("give either coordinates, or a coordinate_map_key with its coordinate_manager")
        if coordinate_map_key is not None and coordinate_manager is None:
            raise ValueError("a coordinate_map_key is a name in a manager: give coordinate_manager too")
        features = features if device is None else features.to(device)
        self.quantization_mode = quantization_mode
        if coordinates is not None:
            coordinates = coordinates if device is None else coordinates.to(device)
            if coordinates.dim() != 2 or len(coordinates) != len(features):
                raise ValueError(
                    f"coordinates have the shape {list(coordinates.shape)}, and [{len(features)}, 1 + axes] is needed, "
                    "because there are as many features"
                )
            if coordinates.device != features.device:
                raise ValueError(
                    f"coordinates are on {coordinates.device}, and features on {features.device}: give device, or move "
                    "one of them"
                )
            self._manager = coordinate_manager or manager_for(coordinates.shape[1] - 1)
            is_exact = capacities is None and count is None
            cells = cells_of(coordinates, axes(tensor_stride, self.D, "tensor_stride"), checked=is_exact)
            if is_exact:
                first, kind = unique_rows(cells)
                if len(first) < len(cells):
                    if quantization_mode is not SparseTensorQuantizationMode.NO_QUANTIZATION:
                        features = reduce_rows(features, quantization_mode, first, kind)
                    cells = cells[first]
                self.unique_index, self.inverse_mapping = first, kind
            coordinate_map_key = self._manager.insert(
                cells, tensor_stride, count=count, capacities=capacities, batch_size=batch_size
            )
            features = self._manager.level(coordinate_map_key).mask(features)
        else:
            assert coordinate_manager is not None
            self._manager = coordinate_manager
        assert coordinate_map_key is not None
        rows = self._manager.size(coordinate_map_key)
        if len(features) != rows:
            raise ValueError(f"there are {len(features)} rows of features, and the set of the key has {rows}")
        self.coordinate_map_key = coordinate_map_key
        if requires_grad is not None:
            features.requires_grad_(requires_grad)
        self._F = features

    def _on(self, key: CoordinateMapKey, features: torch.Tensor) -> SparseTensor:
        """Returns features on a set of the same manager."""
        if key == self.coordinate_map_key:
            return self._replace(features)
        return SparseTensor(features, coordinate_map_key=key, coordinate_manager=self._manager)

    def _map(self, function: Callable[[torch.Tensor], torch.Tensor]) -> SparseTensor:
        return self._replace(self.level.mask(function(self._F)))

    @property
    def level(self) -> Level:
        """The set of voxels, whose coordinates are divided by the tensor stride."""
        return self._manager.level(self.coordinate_map_key)

    @property
    def count(self) -> torch.Tensor | None:
        """In capacity mode, how many rows are in use, int32 [1] on the device; in exact mode None."""
        return self.level.count

    @property
    def coordinate_key(self) -> CoordinateMapKey:
        """The name of the set in the manager."""
        return self.coordinate_map_key

    @property
    def tensor_stride(self) -> list[int]:
        """The step of the coordinates along each axis."""
        return self.coordinate_map_key.get_tensor_stride()

    @property
    def coordinates(self) -> torch.Tensor:
        """The coordinates, int32 [rows, 1 + axes]: the batch index, then multiples of the tensor stride."""
        return self._manager.get_coordinates(self.coordinate_map_key)

    def rows(self) -> Rows:
        """Returns the same as a tensor of minuet.torch."""
        return Rows(self._F, self.level)

    def dense(
        self, shape: Sequence[int] | None = None, min_coordinate: Any = None, contract_stride: bool = True
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns a dense tensor [batch, channels, axes...] with 0 where no voxel is, the coordinates of its first cell
        and the tensor stride.

        Args:
            shape: of the dense tensor; its number of channels does not count. None: as large as the voxels need.
            min_coordinate: the coordinates of the first cell, multiples of the tensor stride; None: the origin, and
                negative coordinates are an error. The host reads those of a tensor.
            contract_stride: whether one cell is one tensor stride, rather than one step of the coordinates.
        """
        if self.count is not None and shape is None:
            raise ValueError("in capacity mode the host does not know how large the voxels are: give shape")
        if shape is not None and len(shape) != self.D + 2:
            raise ValueError(f"shape has {len(shape)} numbers, and [batch, channels, {self.D} axes] is needed")
        if isinstance(min_coordinate, torch.Tensor):
            min_coordinate = min_coordinate.reshape(-1).expand(self.D).tolist()
        first = axes(0 if min_coordinate is None else min_coordinate, self.D, "min_coordinate")
        if any(number % stride for number, stride in zip(first, self.tensor_stride, strict=True)):
            raise ValueError(f"min_coordinate is {first}, and must be a multiple of {self.tensor_stride}")
        strides = torch.tensor(self.tensor_stride, dtype=torch.int32, device=self.device)
        low = torch.tensor(first, dtype=torch.int32, device=self.device)
        cells = self.coordinates[:, 1:] - low
        if self.count is None and len(cells) and (cells < 0).any():
            raise ValueError("some coordinates are less than min_coordinate: give the least coordinates of all")
        if contract_stride:
            cells = torch.div(cells, strides, rounding_mode="floor")
        if shape is None:
            if not len(cells):
                raise ValueError("there is no voxel, so that the dense tensor has no size: give shape")
            extents = [int(extent) + 1 for extent in cells.amax(0).tolist()]
            lengths = [self._manager.number_of_unique_batch_indices(), *extents]
        else:
            lengths = [shape[0], *shape[2:]]
        number = number_cells(torch.cat([self.coordinates[:, :1], cells], 1), self.count, lengths)
        if self.count is None and (number < 0).any():
            raise ValueError(f"some voxels are outside of the shape {lengths}: give a larger one")
        return fill_cells(self._F, number, lengths), low, strides

    def slice(self, X: Any) -> Any:  # noqa: N803
        """Returns a TensorField with the features of the voxel of each point of X: a TensorField, or a SparseTensor
        that was made of rows with repetitions and is on the same set."""
        from .field import slice_field

        return slice_field(self, X)

    def cat_slice(self, X: Any) -> Any:  # noqa: N803
        """Returns slice(X) with the features of the TensorField X behind those of the voxels."""
        from .field import slice_field

        sliced = slice_field(self, X)
        if len(sliced) != len(X):
            raise ValueError("X has lost its points: give the TensorField that the sparse tensor was made of")
        return sliced._replace(torch.cat([sliced.F, X.F], 1))

    def _binary(self, other: Any, function: Callable[[Any, Any], torch.Tensor], is_sum: bool) -> SparseTensor:
        if not isinstance(other, SparseTensor):
            return self._map(lambda features: function(features, other))
        require_same_manager([self, other])
        if self.coordinate_map_key == other.coordinate_map_key:
            return self._map(lambda features: function(features, other._F))
        key, (own, others) = union([self, other])
        count = self._manager.size(key)
        left = F.gather_rows(self._F, invert_rows(own, count))
        right_rows = invert_rows(others, count)
        result = function(left, F.gather_rows(other._F, right_rows))
        # As in MinkowskiEngine, a voxel that the second tensor lacks keeps its features.
        return self._on(key, result if is_sum else torch.where((right_rows >= 0)[:, None], result, left))

    def __add__(self, other: Any) -> SparseTensor:
        return self._binary(other, lambda x, y: x + y, True)

    def __sub__(self, other: Any) -> SparseTensor:
        return self._binary(other, lambda x, y: x - y, True)

    def __mul__(self, other: Any) -> SparseTensor:
        return self._binary(other, lambda x, y: x * y, False)

    def __truediv__(self, other: Any) -> SparseTensor:
        return self._binary(other, lambda x, y: x / y, False)

    def __pow__(self, power: Any) -> SparseTensor:
        return self._map(lambda features: features**power)

    def _in_place(self, other: SparseTensor, function: Callable[[Any, Any], torch.Tensor]) -> SparseTensor:
        require_same_key([self, other])
        self._F = self.level.mask(function(self._F, other._F))
        return self

    def __iadd__(self, other: Any) -> SparseTensor:
        return self._in_place(other, lambda x, y: x + y)

    def __isub__(self, other: Any) -> SparseTensor:
        return self._in_place(other, lambda x, y: x - y)

    def __imul__(self, other: Any) -> SparseTensor:
        return self._in_place(other, lambda x, y: x * y)

    def __repr__(self) -> str:
        return (
            f"SparseTensor(features={list(self.shape)} {self.dtype}, tensor_stride={self.tensor_stride}, "
            f"device={self.device})"
        )


def cells_of(coordinates: torch.Tensor, strides: Sequence[int], *, checked: bool = True) -> torch.Tensor:
    """Returns coordinates in cells of their tensor stride, int32. Those that are no multiples of it, or outside of
    int32, are an error where they are checked, for which the host reads numbers, and otherwise rounded down."""
    cells = as_int32(coordinates, is_checked=checked).contiguous()
    if max(strides) > 1:
        steps = torch.tensor([1, *strides], dtype=torch.int32, device=cells.device)
        if checked and (cells % steps).any():
            raise ValueError(f"some coordinates are no multiples of the tensor stride {list(strides)}")
        cells = torch.div(cells, steps, rounding_mode="floor")
    return cells


def require_same_manager(tensors: Sequence[Tensor]) -> None:
    """Raises ValueError unless the tensors have one manager."""
    for other in tensors[1:]:
        if other.coordinate_manager is not tensors[0].coordinate_manager:
            raise ValueError(
                "the tensors have different coordinate managers: give coordinate_manager=x.coordinate_manager to the "
                "SparseTensor that is made of coordinates"
            )


def require_same_key(tensors: Sequence[Any]) -> None:
    """Raises ValueError unless the tensors are on one set of one manager."""
    require_same_manager(tensors)
    for other in tensors[1:]:
        if other.coordinate_key != tensors[0].coordinate_key:
            raise ValueError(
                f"the tensors are on the sets {tensors[0].coordinate_key} and {other.coordinate_key}: use + or "
                "MinkowskiUnion for tensors with different coordinates"
            )


def union(tensors: Sequence[SparseTensor]) -> tuple[CoordinateMapKey, list[torch.Tensor]]:
    """Adds the set of the voxels of all tensors to their manager. Returns its key, and the row of each voxel of each
    tensor there, int64."""
    require_same_manager(tensors)
    first = tensors[0]
    for other in tensors:
        if other.count is not None:
            raise ValueError(
                "sets cannot be joined in capacity mode, because the host counts the result: use exact mode"
            )
        if other.tensor_stride != first.tensor_stride:
            raise ValueError(
                f"the tensors have the tensor strides {first.tensor_stride} and {other.tensor_stride}, and need one"
            )
    parts = [one.level.coordinates for one in tensors]
    every = torch.cat(parts)
    kept, places = unique_rows(every)
    key = first.coordinate_manager.insert(every[kept], first.tensor_stride, "union")
    return key, list(places.split([len(part) for part in parts]))
