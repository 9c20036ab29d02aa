"""Poolings over maps and of whole clouds, and their gradients."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from .._global_pooling import GLOBAL_POOLINGS, global_pooling_bounds, global_pooling_network
from ._calls import alike
from ._cloud import Array, Cloud, padded
from ._groups import group_gradient
from ._network import Network
from ._plans import Op, dtype_of, require_features, require_geometry, run


def pool(cloud: Cloud, map: str, x: Any, reduction: str = "max", *, transposed: bool = False) -> Array:
    """Pools features over a map of the cloud's geometry (pool_map), channel by channel. Differentiable by x.

    Args:
        x: [capacity of the input's level, channels].
        reduction: "max", "average" (of the inputs that are there) or "sum".
        transposed: whether it leads from the coarser level to the finer one: a sum is then unpooling or upsampling.
    """
    geometry = require_geometry(cloud)
    if reduction not in ("max", "average", "sum"):
        raise ValueError(f"reduction {reduction!r} is not known: use max, average or sum")
    _, item = geometry.map(map)
    x = require_features(cloud, f"the pooling over {map!r}", x, item.coarse if transposed else item.fine)
    op = Op(geometry, map, dtype_of(x), x.shape[1], x.shape[1], transposed=transposed, reduction=reduction)
    result: Array = _pool(op, *alike(x, cloud.buffer))
    return result


def _run(op: Op, x: Any, buffer: Any) -> tuple[Array, Any]:
    shape = (op.rows[1], op.out_channels)
    if op.reduction != "max":
        return run(op, buffer, [x], [(shape, x.dtype)], [], of_input=False)[0], None
    made: tuple[Array, Any] = run(op, buffer, [x], [(shape, x.dtype), (shape, jnp.int32)], [], of_input=False)
    return made


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _pool(op: Op, x: Any, buffer: Any) -> Array:
    return _run(op, x, buffer)[0]


def _pool_forward(op: Op, x: Any, buffer: Any) -> tuple[Array, tuple[Any, ...]]:
    result, winners = _run(op, x, buffer)
    return result, (winners, buffer)


def _pool_backward(op: Op, kept: tuple[Any, ...], gradient: Any) -> tuple[Any, ...]:
    winners, buffer = kept
    inputs = [gradient] if winners is None else [gradient, winners]
    result = [((op.rows[0], op.in_channels), gradient.dtype)]
    return run(op, buffer, inputs, result, [], of_input=True)[0], None


_pool.defvjp(_pool_forward, _pool_backward)


def global_pool(cloud: Cloud, level: int, x: Any, reduction: str = "max") -> Array:
    """Pools all voxels of each cloud, channel by channel. Differentiable by x.

    Args:
        x: features of the level, [capacity, channels].
        reduction: "max", "average" or "sum".

    Returns:
        [batch size of the geometry, channels] of the dtype of x, with 0 where a cloud has no voxels.
    """
    geometry = require_geometry(cloud)
    if reduction not in GLOBAL_POOLINGS:
        raise ValueError(f"reduction {reduction!r} is not known: use {', '.join(GLOBAL_POOLINGS)}")
    if not geometry.batch_size:
        raise ValueError("a global pooling needs the number of clouds: give batch_size to the Geometry")
    x = require_features(cloud, "the global pooling", x, level)
    result: Array = _global_pool(
        geometry.batch_size, reduction, *alike(x, cloud.coordinates(level), cloud.count(level))
    )
    return result


@functools.lru_cache(maxsize=256)
def _global_network(channels: int, reduction: str, dtype: str, capacity: int, batch_size: int) -> Network:
    return Network(
        global_pooling_network(channels, reduction),
        [capacity, batch_size],
        dtype=dtype,
        bounds=global_pooling_bounds(capacity, batch_size),
        batch_size=batch_size,
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _global_pool(batch_size: int, reduction: str, x: Any, coordinates: Any, count: Any) -> Array:
    capacity = max(x.shape[0], batch_size)  # The level of the clouds is not larger than that of the voxels.
    dtype_of(x)
    network = _global_network(x.shape[1], reduction, str(x.dtype), capacity, batch_size)
    # The cloud's own build has checked the batch indices, so that these coordinates always fit.
    rows = jnp.stack([coordinates[:, 0], jnp.arange(coordinates.shape[0], dtype=jnp.int32)], 1)
    made = network({}, network.pyramid(rows, count), padded(x, capacity))
    assert isinstance(made, jax.Array)
    return made


def _global_forward(batch_size: int, reduction: str, x: Any, coordinates: Any, count: Any) -> tuple[Array, Any]:
    rows = x if reduction == "max" else None
    return _global_pool(batch_size, reduction, x, coordinates, count), (rows, coordinates, count)


def _global_backward(batch_size: int, reduction: str, kept: tuple[Any, ...], gradient: Any) -> tuple[Any, ...]:
    rows, coordinates, count = kept
    return group_gradient(gradient, coordinates, count, GLOBAL_POOLINGS[reduction], rows=rows), None, None


_global_pool.defvjp(_global_forward, _global_backward)
