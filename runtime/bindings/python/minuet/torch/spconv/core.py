"""SparseConvTensor, and what an indice_key stands for."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

from ..._types import axes
from .._dense import to_dense
from .._geometry import CapacityOf, Geometry, Level
from .._sparse_tensor import SparseTensor, shallow_copy


class ConvAlgo(Enum):
    """Names of spconv's algorithms. Layers take them, and use Minuet's kernels all the same."""

    Native = 0
    MaskImplicitGemm = 1
    MaskSplitImplicitGemm = 2


def expand_nd(ndim: int, value: Any, what: str, least: int = 0) -> list[int]:
    """Returns one integer for each axis, each at least `least`."""
    made = axes(value, ndim, what)
    if min(made) < least:
        raise ValueError(f"{what} is {made}, and must be {least} or more")
    return made


class Kind(Enum):
    """Which layers made what an indice_key stands for."""

    SUBMANIFOLD = "a submanifold convolution"
    STRIDED = "a convolution or a pooling"
    TRANSPOSED = "a transposed convolution"


@dataclass(frozen=True)
class IndiceData:
    """What an indice_key stands for: the layer's kernel and its two sets of voxels.

    Attributes:
        kind: of the layer.
        ksize, stride, padding, dilation: one number for each axis.
        input_level, output_level: the sets that the layer led from and to.
        spatial_shape, out_spatial_shape: the cells of both along each axis.
    """

    kind: Kind
    ksize: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    input_level: Level
    output_level: Level
    spatial_shape: list[int]
    out_spatial_shape: list[int]

    @property
    def is_subm(self) -> bool:
        """Whether the layer is submanifold."""
        return self.kind is Kind.SUBMANIFOLD

    @property
    def indices(self) -> torch.Tensor:
        """The coordinates of the layer's input, int32 [rows, 1 + axes]."""
        return self.input_level.coordinates

    @property
    def out_indices(self) -> torch.Tensor:
        """The coordinates of the layer's output, int32 [rows, 1 + axes]."""
        return self.output_level.coordinates

    def require(self, key: str, kind: Kind, level: Level, given: dict[str, list[int]]) -> None:
        """Raises ValueError unless a layer may share the key: the layer has this kind and these numbers, and its input
        is on this level."""
        for name, value in given.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"indice_key {key!r} stands for {self.kind.value} with {name} {getattr(self, name)}, and this "
                    f"layer has {value}: give the layers different keys"
                )
        if self.kind is not kind:
            raise ValueError(
                f"indice_key {key!r} stands for {self.kind.value}, and this layer is {kind.value}: give the layers "
                "different keys"
            )
        if kind is not Kind.SUBMANIFOLD:
            raise ValueError(
                f"indice_key {key!r} exists already, and only submanifold layers can share one: give this layer "
                "another key"
            )
        if self.output_level is not level:
            raise ValueError(
                f"indice_key {key!r} stands for other voxels than those of this input: give the layers different keys"
            )


@dataclass(eq=False)
class _Voxels:
    """The voxels of a tensor, and of all that were made of it with other features.

    Attributes:
        indices: what the caller gave; None for the voxels that a layer made.
        level: made when a layer first needs it.
        count, capacities: of capacity mode.
    """

    indices: torch.Tensor | None
    level: Level | None = None
    count: torch.Tensor | None = None
    capacities: CapacityOf | Sequence[int] | None = None

    @property
    def has_unused_rows(self) -> bool:
        """Whether the tensor is in capacity mode."""
        return self.capacities is not None if self.level is None else self.level.count is not None


class SparseConvTensor:
    """Features on voxels, as spconv has them.

    In exact mode, which is the default, `features` and `indices` have one row for each voxel. With `capacities` the
    tensor is in capacity mode: they have as many rows as the capacity of their level, rows past the count are zero, and
    the host reads nothing back.

    Args:
        features: [rows, channels]; float32, float16 or bfloat16.
        indices: int32 [rows, 1 + axes]: the batch index, then one cell for each axis, as in spconv (z, y, x for most).
            Each voxel occurs once. Layers remember what they made of the indices: do not change them in place.
        spatial_shape: how many cells there are along each axis.
        batch_size: how many clouds there are.
        indice_dict: what indice keys stand for, from another tensor.
        count, capacities: capacity mode, as of minuet.torch.Geometry. A count alone is for networks without new levels.
        grid, voxel_num, benchmark, permanent_thrust_allocator, enable_timer, force_algo: taken, and without effect.

    Raises:
        ValueError, TypeError: an argument has another shape or dtype. The first layer raises ValueError where a voxel
            occurs twice or is outside of spatial_shape.
    """

    #: What the package gives an object.
    _ATTRIBUTES = (
        "spatial_shape", "batch_size", "indice_dict", "grid", "voxel_num", "benchmark", "force_algo", "_voxels",
        "_features",
    )  # fmt: skip

    def __init__(
        self,
        features: torch.Tensor,
        indices: torch.Tensor,
        spatial_shape: Sequence[int] | Any,
        batch_size: int,
        grid: torch.Tensor | None = None,
        voxel_num: torch.Tensor | None = None,
        indice_dict: dict[str, IndiceData] | None = None,
        benchmark: bool = False,
        permanent_thrust_allocator: bool = False,
        enable_timer: bool = False,
        force_algo: ConvAlgo | None = None,
        *,
        count: torch.Tensor | None = None,
        capacities: CapacityOf | Sequence[int] | None = None,
    ) -> None:
        if indices.dim() != 2 or indices.dtype != torch.int32:
            raise TypeError(
                f"indices are {indices.dtype} of the shape {list(indices.shape)}, and int32 [rows, 1 + axes] is needed"
            )
        if features.dim() != 2 or features.shape[0] != indices.shape[0]:
            raise ValueError(
                f"features have the shape {list(features.shape)}, and [{indices.shape[0]}, channels] is needed, "
                f"because there are {indices.shape[0]} indices"
            )
        self.spatial_shape = expand_nd(indices.shape[1] - 1, spatial_shape, "spatial_shape", 1)
        self.batch_size = operator.index(batch_size)
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, and must be 1 or more")
        self.indice_dict: dict[str, IndiceData] = {} if indice_dict is None else indice_dict
        self.grid, self.voxel_num, self.benchmark, self.force_algo = grid, voxel_num, benchmark, force_algo
        if count is not None and capacities is None:
            capacities = []
        self._voxels = _Voxels(indices, None, count, capacities)
        if capacities is not None:
            features = self.level.mask(features)
        self._features = features

    @classmethod
    def _on(
        cls, level: Level, features: torch.Tensor, shape: list[int], batch_size: int, indice_dict: dict[str, IndiceData]
    ) -> SparseConvTensor:
        """Makes a tensor on a level that is known."""
        made = cls.__new__(cls)
        made.spatial_shape, made.batch_size, made.indice_dict = list(shape), batch_size, indice_dict
        made.grid = made.voxel_num = made.force_algo = None
        made.benchmark = False
        made._voxels, made._features = _Voxels(None, level), features
        return made

    @property
    def level(self) -> Level:
        """The set of voxels. Tensors with the same `indices` share it, and with it the kernel maps."""
        voxels = self._voxels
        if voxels.level is None:
            voxels.level = self._known_level()
        if voxels.level is None:
            assert voxels.indices is not None
            least = [0] * (1 + len(self.spatial_shape))
            greatest = [self.batch_size - 1, *(cells - 1 for cells in self.spatial_shape)]
            voxels.level = Geometry(
                voxels.indices,
                shape=self.spatial_shape,
                batch_size=self.batch_size,
                bounds=(least, greatest),
                count=voxels.count,
                capacities=voxels.capacities,
            ).level
        voxels.level.require_unchanged()
        return voxels.level

    def _known_level(self) -> Level | None:
        """Returns the level of an indice key that has the indices, the shape and the mode of this tensor."""
        if self._voxels.capacities is not None:
            return None
        for data in self.indice_dict.values():
            for level, shape in ((data.input_level, data.spatial_shape), (data.output_level, data.out_spatial_shape)):
                is_same = shape == self.spatial_shape and level.geometry.batch_size == self.batch_size
                if is_same and level._coordinates is self._voxels.indices:
                    return level
        return None

    @property
    def indices(self) -> torch.Tensor:
        """The coordinates, int32 [rows, 1 + axes]: the batch index, then the cell along each axis."""
        return self.level.coordinates if self._voxels.indices is None else self._voxels.indices

    @indices.setter
    def indices(self, indices: torch.Tensor) -> None:
        if indices.dim() != 2 or indices.dtype != torch.int32 or indices.shape[1] != 1 + len(self.spatial_shape):
            raise TypeError(
                f"indices are {indices.dtype} of the shape {list(indices.shape)}, and int32 "
                f"[rows, {1 + len(self.spatial_shape)}] is needed"
            )
        if self._voxels.has_unused_rows:
            raise ValueError(
                "indices cannot be replaced in capacity mode, where each tensor has a count: make a SparseConvTensor"
            )
        self._voxels = _Voxels(indices)

    @property
    def features(self) -> torch.Tensor:
        """The features, [rows, channels]. replace_feature() makes a tensor with others."""
        return self._features

    @features.setter
    def features(self, features: torch.Tensor) -> None:
        raise ValueError("features cannot be set: write x = x.replace_feature(features)")

    @property
    def channels(self) -> int:
        """The number of features of a voxel."""
        self._require_rows()
        return int(self.features.shape[1])

    @property
    def count(self) -> torch.Tensor | None:
        """In capacity mode, how many rows are in use, int32 [1] on the device; in exact mode None."""
        return self.level.count

    def replace_feature(self, feature: torch.Tensor) -> SparseConvTensor:
        """Returns a tensor with other features on the same voxels. In capacity mode, rows past the count become 0."""
        return self._replaced(self.level.mask(feature) if self._voxels.has_unused_rows else feature)

    def _replaced(self, features: torch.Tensor) -> SparseConvTensor:
        """The same for features whose rows past the count are zero."""
        made = self.shadow_copy()
        made._features = features
        return made

    def shadow_copy(self) -> SparseConvTensor:
        """Returns a tensor that shares everything with this one."""
        made = shallow_copy(self, self._ATTRIBUTES)
        made.spatial_shape = list(self.spatial_shape)
        return made

    def select_by_index(self, valid_indices: torch.Tensor) -> SparseConvTensor:
        """Returns the rows that an index or a mask selects, as a set of its own without indice keys."""
        if self.count is not None:
            raise ValueError(
                "select_by_index() is not possible in capacity mode, where the host does not know the number of rows: "
                "use it in exact mode"
            )
        return SparseConvTensor(
            self.features[valid_indices], self.indices[valid_indices], self.spatial_shape, self.batch_size
        )

    def minus(self) -> SparseConvTensor:
        """Returns the tensor with negative features."""
        return self.replace_feature(-self.features)

    @classmethod
    def from_dense(cls, x: torch.Tensor) -> SparseConvTensor:
        """Makes a tensor of the cells of [batch, axes..., channels] that are not all 0."""
        cells = (x != 0).any(-1).nonzero()
        return cls(x[tuple(cells.T)], cells.int(), list(x.shape[1:-1]), x.shape[0])

    @property
    def spatial_size(self) -> int:
        """The number of cells of one cloud."""
        return math.prod(self.spatial_shape)

    def find_indice_pair(self, key: str | None) -> IndiceData | None:
        """Returns what an indice key stands for, or None."""
        return None if key is None else self.indice_dict.get(key)

    def dense(self, channels_first: bool = True) -> torch.Tensor:
        """Returns [batch, channels, axes...], or with channels_first=False [batch, axes..., channels], with 0 where no
        voxel is.

        Raises:
            ValueError: in exact mode, voxels occur twice, or are outside of the spatial shape or the batch.
        """
        return to_dense(self.sparse(), self.spatial_shape, self.batch_size, channels_last=not channels_first)

    def sparse(self) -> SparseTensor:
        """Returns the same as a tensor of minuet.torch."""
        self._require_rows()
        return SparseTensor(self.features, self.level)

    def _require_rows(self) -> None:
        rows = len(self.indices) if self._voxels.level is None else self._voxels.level.rows
        if self.features.dim() != 2 or self.features.shape[0] != rows:
            raise ValueError(
                f"features have the shape {list(self.features.shape)}, and the tensor has {rows} voxels: features that "
                "replace_feature() was given need as many rows"
            )

    def _with_level(
        self, made: SparseTensor, shape: list[int] | None = None, data: dict[str, IndiceData] | None = None
    ) -> SparseConvTensor:
        """Returns the result of a layer, with the indice keys of this tensor and those in `data`."""
        known = {**self.indice_dict, **data} if data else self.indice_dict
        shape = self.spatial_shape if shape is None else shape
        if made.level is self._voxels.level:
            result = self._replaced(made.features)
            result.indice_dict = known
            return result
        return SparseConvTensor._on(made.level, made.features, shape, self.batch_size, known)

    @staticmethod
    def _features_of(other: SparseConvTensor | torch.Tensor) -> torch.Tensor:
        return other.features if isinstance(other, SparseConvTensor) else other

    def __add__(self, other: SparseConvTensor | torch.Tensor) -> SparseConvTensor:
        return self.replace_feature(self.features + self._features_of(other))

    __radd__ = __add__
    __iadd__ = __add__

    def __repr__(self) -> str:
        return f"SparseConvTensor[shape={list(self.features.shape)}, spatial_shape={self.spatial_shape}]"
