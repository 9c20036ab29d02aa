"""Clouds: the pyramid of some coordinates, as arrays that ops take."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from .._types import CloudStatus, Purpose
from ._calls import call, repeated, staged
from ._geometry import Form, Geometry, require_level

if TYPE_CHECKING:
    from ._network import Network

Array: TypeAlias = jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Cloud:
    """The coordinate sets and kernel maps of a cloud. A pytree of arrays.

    Attributes:
        points: the coordinates that were given, int32 [capacity, 1 + axes], and zeros in rows past the count.
        buffer: the pyramid, uint8.
        counts: how many coordinates were taken, and the voxels of each level, int32 [1 + levels]. For a Network only
            the first two numbers are defined: the library merges equal levels of a network and numbers them anew.
        status: bits of minuet.CloudStatus, uint32 [1]; 0 where the cloud fitted. Otherwise all levels have no voxels,
            and ops give zeros. check() turns it into an error.
        pairs: for each map with Purpose.EXPORT, its pairs, int32 [most, 3], and their number, int32 [1].
        geometry: what it was made from.
    """

    points: Array
    buffer: Array
    counts: Array
    status: Array
    pairs: dict[str, tuple[Array, Array]]
    geometry: Geometry | Network = field(metadata={"static": True})

    @property
    def form(self) -> Form:
        """What custom calls need to know of the geometry."""
        return self.geometry.form

    def count(self, level: int) -> Array:
        """Returns the number of voxels of a level, int32 [1]. For a Network only that of level 0 is defined."""
        level = require_level(level, len(self.form.capacities))
        return self.counts[1 + level : 2 + level]

    def capacity(self, level: int) -> int:
        """Returns the number of rows of arrays of a level."""
        return self.form.capacities[require_level(level, len(self.form.capacities))]

    def coordinates(self, level: int) -> Array:
        """Returns the coordinates of a level in cells of the first one, int32 [capacity, 1 + axes]. Rows of the first
        level are in the order that was given, and rows past the count are zeros.

        Raises:
            ValueError: there is no such level, or the cloud was made for a Network, and the level is not the first one.
        """
        shape = (self.capacity(level), 1 + self.form.ndim)
        if level == 0:  # The library has them in an order of its own.
            return self.points
        if not isinstance(self.geometry, Geometry):
            raise ValueError(
                "the cloud belongs to a Network, which has coordinates of level 0 only: for those of other levels "
                "describe the levels by minuet.jax.Geometry"
            )
        made = call(
            "minuet_coordinates", [(shape, jnp.int32)], [self.buffer], level=np.int64(level), **self.form.attributes
        )
        return made[0]

    def is_used(self, level: int) -> Array:
        """Returns which rows of a level have a voxel, bool [capacity]. For a Network only those of level 0 are
        defined."""
        return jnp.arange(self.capacity(level), dtype=jnp.int32) < self.count(level)


def padded(array: Any, capacity: int) -> Array:
    """Returns the rows of an array, and zeros behind them, up to so many rows."""
    array = jnp.asarray(array)
    if array.shape[0] > capacity:
        raise ValueError(f"there are {array.shape[0]} rows, and the capacity is {capacity}: give a larger capacity")
    return jnp.pad(array, [(0, capacity - array.shape[0]), *[(0, 0)] * (array.ndim - 1)])


def row_count(count: Any, rows: int) -> Array:
    """Returns how many of the rows there are, int32 [1]; None: all."""
    if count is None:
        return jnp.full((1,), rows, jnp.int32)
    count = jnp.asarray(count)
    if count.dtype != jnp.int32 or count.size != 1:
        raise ValueError(f"count is {count.dtype} of the shape {list(count.shape)}, and int32 [1] is needed")
    return count.reshape(1)


def build(geometry: Geometry | Network, sizes: tuple[int, int], coordinates: Any, count: Any) -> tuple[Array, ...]:
    """Builds the pyramid of some coordinates: the points, the buffer, the counts and the status of a cloud."""
    form = geometry.form
    coordinates = jnp.asarray(coordinates)
    if coordinates.dtype != jnp.int32 or coordinates.ndim != 2 or coordinates.shape[1] != 1 + form.ndim:
        raise ValueError(
            f"coordinates are {coordinates.dtype} of the shape {list(coordinates.shape)}, and int32 "
            f"[rows, {1 + form.ndim}] is needed: the batch index, then one number for each axis"
        )
    if coordinates.shape[0] > form.capacities[0]:
        raise ValueError(
            f"there are {coordinates.shape[0]} coordinates, and the first level has a capacity of {form.capacities[0]}"
        )
    count = row_count(count, coordinates.shape[0])
    levels = len(form.capacities)
    results = [((sizes[0],), jnp.uint8), ((1 + levels,), jnp.int32), ((1,), jnp.uint32)]
    buffer, counts, status = call(
        "minuet_pyramid",
        results,
        [staged(coordinates, count), repeated(staged(count, count))],
        workspace=sizes[1],
        **form.attributes,
    )
    status = staged(status, counts)
    is_used = jnp.arange(coordinates.shape[0], dtype=jnp.int32) < counts[1]
    points = padded(jnp.where(is_used[:, None], coordinates, 0), form.capacities[0])
    return points, buffer, counts, status


def pyramid(geometry: Geometry, coordinates: Any, count: Any = None) -> Cloud:
    """Builds all levels and maps of a cloud.

    Args:
        coordinates: int32 [rows, 1 + axes], at most the capacity of the first level: the batch index, then one number
            for each axis. Each at most once.
        count: how many of the rows there are, int32 [1]; None: all.
    """
    points, buffer, counts, status = build(geometry, geometry.bytes(), coordinates, count)
    pairs: dict[str, tuple[Array, Array]] = {}
    for name, _ in geometry.maps:
        number, item = geometry.map(name)
        if geometry.is_identity(item):
            rows = jnp.arange(geometry.levels[item.fine].capacity, dtype=jnp.int32)
            count_of = counts[1 + item.fine : 2 + item.fine]
            pairs[name] = (jnp.stack([jnp.zeros_like(rows), rows, rows], 1), count_of)
        elif item.purposes & Purpose.EXPORT:
            most = geometry.most_pairs(name)
            listed, number_of = call(
                "minuet_pairs",
                [((most, 3), jnp.int32), ((1,), jnp.int32)],
                [buffer],
                map=np.int64(number),
                **geometry.form.attributes,
            )
            pairs[name] = (listed, number_of)
            if most < geometry.volume(name) * geometry.levels[item.coarse].capacity:
                past = (number_of > most).astype(jnp.uint32) * np.uint32(CloudStatus.PAST_CAPACITY)
                status = status | past
    return Cloud(points, buffer, counts, status, pairs, geometry)


def check(*clouds: Cloud | Array) -> None:
    """Raises an error if a cloud, or a status, says that something did not fit. Call it outside of jit: it waits.

    Raises:
        ValueError: with the reasons.
    """
    for cloud in clouds:
        status = cloud.status if isinstance(cloud, Cloud) else cloud
        if isinstance(status, jax.core.Tracer):
            raise TypeError(
                "minuet.jax.check reads values: return the cloud, or its status, and call it outside of jit"
            )
        bits = functools.reduce(int.__or__, (int(word) for word in np.asarray(status).reshape(-1)), 0)
        if bits:
            raise ValueError(
                f"a cloud does not fit: {CloudStatus(bits)!r}. Coordinates must be unique, with a batch index of 0 or "
                "more, and within the bounds; PAST_CAPACITY asks for larger capacities, or more pairs_per_row"
            )
