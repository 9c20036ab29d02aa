"""Poolings, and their gradients."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from ._calls import alike
from ._cloud import Array, Cloud
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
