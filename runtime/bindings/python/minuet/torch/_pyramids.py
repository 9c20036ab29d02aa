"""Ops that build pyramids: coordinate sets and kernel maps in one tensor of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import _abi
from .._library import library
from .._pyramid import Pyramid
from ._define import define, direct
from ._keys import PyramidKey, pyramid_key
from ._places import Block, Place, Pool, check, context, new_cache, place_of, remembered, without_view, word_of


class MadePyramid:
    """A pyramid of the library, for all devices.

    Attributes:
        key: what it was made from.
        pyramid: the object.
        pointer: of the object, which lives as long as this.
        capacities: the most rows of each level.
        runs: of plans on its maps.
    """

    def __init__(self, key: PyramidKey) -> None:
        self.key = key
        self.pyramid = Pyramid(
            context(),
            key.level_list,
            key.map_list,
            ndim=key.ndim,
            bounds=key.bounds,
            keep_coordinates=key.kept_levels,
        )
        self.pointer = self.pyramid._cell.pointer
        self.capacities = self.pyramid.capacities
        self.runs: dict[Any, Any] = {}
        self._bytes: dict[str, tuple[int, int]] = {}

    def bytes(self, arch: str) -> tuple[int, int]:
        """Returns the bytes of the buffer and of the workspace of a build."""
        return remembered(self._bytes, arch, lambda: self.pyramid.bytes(arch))


# Clouds of all sizes make pyramids of many capacities. Those that were not used for longest go, and are made again if
# they are needed.
_MOST_PYRAMIDS = 512
_pyramids: dict[str, MadePyramid] = new_cache(_MOST_PYRAMIDS)
_loaded: dict[tuple[int, int], bool] = new_cache()


def pyramid_of(text: str) -> MadePyramid:
    """Returns the pyramid of a key."""
    return _pyramids.get(text) or remembered(_pyramids, text, lambda: MadePyramid(pyramid_key(text)))


def load(made: MadePyramid, place: Place) -> None:
    """Loads the kernels that build pyramids of this many axes, once for a device."""

    def load_now() -> bool:
        made.pyramid.load(place.library_device)
        return True

    remembered(_loaded, (made.key.ndim, place.pointer), load_now)


def arch_of(device: torch.device) -> str:
    """Returns the architecture that sizes of buffers depend on."""
    return "cpu" if device.type == "cpu" else place_of(device).arch


def _check_coordinates(coordinates: torch.Tensor, key: PyramidKey) -> None:
    if coordinates.dtype != torch.int32 or coordinates.dim() != 2 or coordinates.shape[1] != 1 + key.ndim:
        raise TypeError(
            f"coordinates are {coordinates.dtype} of the shape {list(coordinates.shape)}, and int32 "
            f"[rows, {1 + key.ndim}] is needed: the batch index, then one number for each axis"
        )


def _check_count(count: torch.Tensor | None, what: str) -> None:
    if count is not None and (count.dtype != torch.int32 or count.numel() != 1):
        raise TypeError(f"{what} is {count.dtype} of the shape {list(count.shape)}, and int32 [1] is needed")


def count_pointer(count: torch.Tensor | None) -> int | None:
    """Returns the address of a count on the device, or None."""
    if count is None:
        return None
    _check_count(count, "a count")
    return int(count.data_ptr())


_BUILD = _abi.minuet_pyramid_arguments
_BUILD_WORDS = [word_of((_BUILD, field[0])) for field in _BUILD._fields_[2:]]  # From the buffer on.
_builds = Pool(lambda: Block(_BUILD))


def _build(
    coordinates: torch.Tensor, count: torch.Tensor | None, key: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    made = pyramid_of(key)
    place = place_of(coordinates.device)
    load(made, place)
    _check_coordinates(coordinates, made.key)
    _check_count(count, "a count")
    place.require(count)
    coordinates = coordinates.contiguous()
    sizes = made.bytes(place.arch)
    buffer, workspace = place.empty_bytes(sizes[0]), place.empty_bytes(sizes[1])
    counts = torch.empty(1 + len(made.capacities), dtype=torch.int32, device=place.device)
    status = torch.empty(1, dtype=torch.int32, device=place.device)
    block = _builds.take()
    values = (buffer, sizes[0], workspace, sizes[1], coordinates, coordinates.shape[0], count, status, counts)
    block.set_words(_BUILD_WORDS, values)
    check(library.minuet_pyramid_build(made.pointer, place.pointer, block.reference, place.stream()))
    _builds.give(block)
    return buffer, counts, status


def _build_fake(coordinates: torch.Tensor, count: Any, key: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    made = pyramid_of(key)
    _check_coordinates(coordinates, made.key)
    size = max(1, made.bytes(arch_of(coordinates.device))[0])
    return (
        coordinates.new_empty(size, dtype=torch.uint8),
        coordinates.new_empty(1 + len(made.capacities)),
        coordinates.new_empty(1),
    )


def _coordinates(buffer: torch.Tensor, key: str, level: int, rows: int) -> torch.Tensor:
    made = pyramid_of(key)
    place = place_of(buffer.device)
    load(made, place)
    strides = _stride_of(made.key, level)
    return read_coordinates(made.pointer, place, buffer, level, made.capacities[level], strides, rows)


def read_coordinates(
    pyramid: int,
    place: Place,
    buffer: torch.Tensor,
    level: int,
    capacity: int,
    strides: Sequence[int],
    rows: int,
) -> torch.Tensor:
    """Returns the coordinates of a level of a pyramid that is loaded, divided by its tensor stride."""
    out = torch.empty((capacity, 1 + len(strides)), dtype=torch.int32, device=buffer.device)
    check(
        library.minuet_pyramid_coordinates(
            pyramid,
            place.pointer,
            buffer.data_ptr(),
            buffer.numel(),
            level,
            out.data_ptr(),
            place.stream(),
        )
    )
    if len(set(strides)) == 1:
        if strides[0] != 1:
            out[:, 1:].floor_divide_(strides[0])  # One launch on a GPU, and not one for each axis.
    else:
        for axis, stride in enumerate(strides, 1):
            if stride != 1:
                out[:, axis].floor_divide_(stride)
    return without_view(out, rows)


def _stride_of(key: PyramidKey, level: int) -> list[int]:
    """Returns the tensor stride of a level: the product of the strides to its parents."""
    strides = [1] * key.ndim
    while level >= 0:
        strides = [one * two for one, two in zip(strides, key.levels[level].stride, strict=True)]
        level = key.levels[level].parent
    return strides


def _coordinates_fake(buffer: torch.Tensor, key: str, level: int, rows: int) -> torch.Tensor:
    return buffer.new_empty((rows, 1 + pyramid_of(key).key.ndim), dtype=torch.int32)


def _pairs(buffer: torch.Tensor, key: str, map: int, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
    made = pyramid_of(key)
    place = place_of(buffer.device)
    load(made, place)
    pairs = torch.empty((capacity, 3), dtype=torch.int32, device=buffer.device)
    count = torch.empty(1, dtype=torch.int32, device=buffer.device)
    check(
        library.minuet_pyramid_export_pairs(
            made.pointer,
            place.pointer,
            buffer.data_ptr(),
            buffer.numel(),
            map,
            pairs.data_ptr() or None,
            capacity,
            count.data_ptr(),
            place.stream(),
        )
    )
    return pairs, count


def _pairs_fake(buffer: torch.Tensor, key: str, map: int, capacity: int) -> tuple[torch.Tensor, torch.Tensor]:
    return buffer.new_empty((capacity, 3), dtype=torch.int32), buffer.new_empty(1, dtype=torch.int32)


#: Builds a pyramid from coordinates, int32 [rows, 1 + axes] with the batch index first. Returns its bytes; how many
#: coordinates were taken and the voxels of each level, int32 [1 + levels]; and bits of minuet.CloudStatus, int32 [1].
pyramid = direct(
    define("pyramid(Tensor coordinates, Tensor? count, str key) -> (Tensor, Tensor, Tensor)", _build, _build_fake)
)

#: Returns the coordinates of a level in its own cells (divided by its tensor stride), int32 [rows, 1 + axes]. The key
#: must say that the buffer has them (PyramidKey.kept_levels).
pyramid_coordinates = direct(
    define(
        "pyramid_coordinates(Tensor buffer, str key, int level, SymInt rows) -> Tensor", _coordinates, _coordinates_fake
    )
)

#: Returns the pairs of a map, int32 [capacity, 3], and how many it has, int32 [1]. A capacity of 0 counts them only.
pyramid_pairs = direct(
    define("pyramid_pairs(Tensor buffer, str key, int map, SymInt capacity) -> (Tensor, Tensor)", _pairs, _pairs_fake)
)
