"""SparseTensor and the cache that tensors of one network share, under TorchSparse's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..._types import axes
from .._dense import to_dense
from .._geometry import CapacityOf, Geometry, Level
from .._links import Link, reduce_kinds, unique_rows
from .._rules import as_int32, read_numbers
from .._sparse_tensor import SparseTensor as Rows
from .._sparse_tensor import shallow_copy

Three = tuple[int, int, int]


def make_ntuple(x: Any, ndim: int, what: str = "the argument") -> tuple[int, ...]:
    """Returns one integer for each axis, of a number, a sequence or a tensor, whose floats have to be whole. `what` is
    the name of the argument, for errors."""
    if isinstance(x, torch.Tensor):
        x = x.reshape(-1).tolist()
    if isinstance(x, (list, tuple)):
        return tuple(axes([_whole(number) for number in x], ndim, what))
    return tuple(axes(_whole(x), ndim, what))


def _whole(number: Any) -> Any:
    """Returns a float without a fraction as an int, and all else as it is."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


@dataclass(frozen=True)
class Strided:
    """What a strided convolution made: a link from the finer level, and the level of the outputs."""

    link: Link
    level: Level


class TensorCache:
    """Sets of coordinates and kernel maps, which all tensors that were made of one tensor share.

    Attributes:
        levels: coordinates, by their identity, and their levels.
        clouds: the number of clouds of levels without a spatial range, which the host reads once.
        strided: by the finer tensor stride, kernel size, stride and padding, what a strided convolution made.
    """

    def __init__(self) -> None:
        self.levels: list[tuple[torch.Tensor, Level]] = []
        self.clouds: dict[Level, int] = {}
        self.strided: dict[tuple[Three, Three, Three, Three], Strided] = {}

    def require_exact(self) -> None:
        """Raises ValueError in capacity mode, before a tensor gets other coordinates."""
        if any(level.count is not None for _, level in self.levels):
            raise ValueError(
                "coords cannot be replaced or moved in capacity mode, where the count belongs to those that were "
                "given: make a SparseTensor of the new ones, with their count"
            )


class SparseTensor:
    """Features on voxels, as TorchSparse 2.1 has them.

    In exact mode, which is the default, there is one row for each voxel. With `capacities` or `count` the tensor is in
    capacity mode, and `spatial_range` is required: it has as many rows as the capacity of its set, rows past the count
    are zero, and the host reads nothing back.

    Args:
        feats: [rows, channels]; float32, float16 or bfloat16.
        coords: int32 [rows, 4]: the batch index, then x, y and z in cells of the stride. Each voxel occurs once.
        stride: the size of a cell.
        spatial_range: the number of clouds, and of cells along each axis.
        count, capacities: capacity mode, as of minuet.torch.Geometry.
    """

    #: What the package gives an object.
    _ATTRIBUTES = ("feats", "coords", "stride", "spatial_range", "_caches")

    def __init__(
        self,
        feats: Any,
        coords: Any,
        stride: Any = 1,
        spatial_range: Any = None,
        *,
        count: torch.Tensor | None = None,
        capacities: CapacityOf | Sequence[int] | None = None,
    ) -> None:
        self.feats, self.coords = feats, coords
        self.stride: Any = make_ntuple(stride, 3, "stride")
        self.spatial_range = None if spatial_range is None else make_ntuple(spatial_range, 4, "spatial_range")
        self._caches = TensorCache()
        if count is not None or capacities is not None:
            if self.spatial_range is None:
                raise ValueError("capacity mode needs spatial_range, because the host does not know where voxels are")
            self._caches.levels.append((coords, self._make_level(count=count, capacities=capacities)))
            self.feats = self.level.mask(feats)

    def _make_level(self, **mode: Any) -> Level:
        coords = self.coords
        if coords.dim() != 2 or coords.shape[1] != 4 or coords.is_floating_point():
            raise ValueError(
                f"coords are {coords.dtype} of the shape {list(coords.shape)}, and whole numbers [rows, 4] with the "
                "batch index first are needed: use sparse_collate() for one cloud"
            )
        where: dict[str, Any] = {}
        if self.spatial_range is not None:
            where = {"batch_size": self.spatial_range[0], "shape": self.spatial_range[1:]}
        cells = as_int32(coords, is_checked=not mode).contiguous()
        level = Geometry(cells, **where, **mode).level
        level.watch(coords)
        return level

    @property
    def level(self) -> Level:
        """The set of voxels. Tensors with the same `coords` and cache share it, and with it the kernel maps."""
        levels = self._caches.levels
        for coords, level in levels:
            if coords is self.coords:
                level.require_unchanged()
                return level
        self._caches.require_exact()
        levels.append((self.coords, self._make_level()))
        return levels[-1][1]

    @property
    def count(self) -> torch.Tensor | None:
        """In capacity mode, how many rows are in use, int32 [1] on the device; in exact mode None."""
        return self.level.count

    def rows(self) -> Rows:
        """Returns the same as a tensor of minuet.torch."""
        return Rows(self.feats, self.level)

    def _replace(self, feats: torch.Tensor) -> SparseTensor:
        """Returns other features on the same voxels."""
        made = shallow_copy(self, self._ATTRIBUTES)
        made.feats = feats
        return made

    def _on(
        self, level: Level, feats: torch.Tensor, stride: Three, spatial_range: tuple[int, ...] | None
    ) -> SparseTensor:
        """Returns features on another set of the same cache."""
        coords = next((coords for coords, known in self._caches.levels if known is level), None)
        if coords is None:
            coords = level.coordinates
            self._caches.levels.append((coords, level))
        made = SparseTensor(feats, coords, stride, spatial_range)
        made._caches = self._caches
        return made

    def clouds(self) -> int:
        """Returns the number of clouds: that of spatial_range, or the largest batch index and one."""
        if self.spatial_range is not None:
            return self.spatial_range[0]
        level, known = self.level, self._caches.clouds
        batch = level.coordinates[:, 0]
        level.require_unchanged()
        if level not in known:
            known[level] = 1 + read_numbers(batch.max().view(1))[0] if len(batch) else 0
        return known[level]

    @property
    def F(self) -> Any:  # noqa: N802
        """The features."""
        return self.feats

    @F.setter
    def F(self, feats: Any) -> None:  # noqa: N802
        self.feats = feats

    @property
    def C(self) -> Any:  # noqa: N802
        """The coordinates."""
        return self.coords

    @C.setter
    def C(self, coords: Any) -> None:  # noqa: N802
        self.coords = coords

    @property
    def s(self) -> Three:
        """The size of a cell along each axis."""
        made: Three = self.stride
        return made

    @s.setter
    def s(self, stride: Any) -> None:
        self.stride = make_ntuple(stride, 3, "stride")

    def to(self, device: Any, non_blocking: bool = True) -> SparseTensor:
        """Moves this tensor, and returns it.

        Raises:
            ValueError: in capacity mode, unless it is there already.
        """
        coords = self.coords.to(device, non_blocking=non_blocking)
        if coords is not self.coords:
            self._caches.require_exact()
        self.coords = coords
        self.feats = self.feats.to(device, non_blocking=non_blocking)
        return self

    def cpu(self) -> SparseTensor:
        """Moves this tensor to the CPU, and returns it."""
        return self.to("cpu", non_blocking=False)

    def cuda(self) -> SparseTensor:
        """Moves this tensor to the GPU, and returns it."""
        return self.to("cuda")

    def half(self) -> SparseTensor:
        """Makes the features float16, and returns this tensor."""
        self.feats = self.feats.half()
        return self

    def detach(self) -> SparseTensor:
        """Makes the features part of no graph, and returns this tensor."""
        self.feats = self.feats.detach()
        return self

    def dense(self) -> torch.Tensor:
        """Returns [batch, x, y, z, channels] with the sizes of spatial_range, and 0 where no voxel is."""
        if self.spatial_range is None:
            raise ValueError("a dense tensor has the sizes of spatial_range: give it to the SparseTensor")
        return to_dense(self.rows(), self.spatial_range[1:], self.spatial_range[0], channels_last=True)

    def __add__(self, other: SparseTensor) -> SparseTensor:
        require_same_voxels([self, other])
        return self._replace(self.feats + other.feats)

    def __repr__(self) -> str:
        return f"SparseTensor(feats={list(self.feats.shape)} {self.feats.dtype}, stride={self.stride})"


def require_same_voxels(tensors: Sequence[SparseTensor]) -> None:
    """Raises ValueError unless the tensors are on one set."""
    for other in tensors[1:]:
        if other.coords is not tensors[0].coords and other.level is not tensors[0].level:
            raise ValueError("the tensors have other coords: use generative_add() for them, or make both of one tensor")


def fapply(input: SparseTensor, fn: Callable[..., torch.Tensor], *args: Any, **kwargs: Any) -> SparseTensor:
    """Returns a tensor with a function of the features, row by row. Rows past the count stay zero."""
    return input._replace(input.level.mask(fn(input.feats, *args, **kwargs)))


def cat(inputs: Sequence[SparseTensor]) -> SparseTensor:
    """Puts the channels of tensors with the same voxels side by side."""
    require_same_voxels(inputs)
    return inputs[0]._replace(torch.cat([one.feats for one in inputs], 1))


def generative_add(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Adds tensors with other voxels. The result has the voxels of both, and kernel maps of its own."""
    if a.stride != b.stride or a.count is not None or b.count is not None:
        raise ValueError("generative_add() takes tensors of one stride in exact mode, where the host counts the sum")
    every = torch.cat([a.coords, b.coords])
    first, kind = unique_rows(every)
    total = reduce_kinds(torch.cat([a.feats, b.feats]), "sum", kind, len(first))
    return SparseTensor(total, every[first], a.stride, a.spatial_range)
