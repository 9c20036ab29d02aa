"""Batch norm in training, and its gradients."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._batch_norm import BatchNorm, require_eps
from .._types import DType
from ._calls import Result, alike, call
from ._cloud import Array, Cloud
from ._plans import dtype_of, require_features
from ._target import Target, context, current

_WHOLE, _SUM, _APPLY = 0, 1, 2


class Statistics(NamedTuple):
    """Running statistics of a batch norm, float32 [channels] each; the variance is unbiased."""

    mean: Any
    variance: Any


@dataclass(frozen=True)
class _Norm:
    dtype: DType
    channels: int
    rows: int
    eps: float
    momentum: float | None
    residual: bool
    relu: bool
    axis_name: Hashable

    def call(self, name: str, part: int, results: list[Result], operands: list[Any]) -> tuple[Any, ...]:
        """Calls one part of the batch norm."""
        attributes: dict[str, Any] = {
            "dtype": np.int64(self.dtype),
            "channels": np.int64(self.channels),
            "eps": np.float64(self.eps),
            "residual": np.int64(self.residual),
            "relu": np.int64(self.relu),
            "part": np.int64(part),
        }
        if self.momentum is not None and name == "minuet_batch_norm":
            attributes["momentum"] = np.float64(self.momentum)
        workspace = _workspace(self, current())
        return call(name, results, operands, workspace=workspace, **attributes)


@functools.lru_cache(maxsize=1024)
def _workspace(norm: _Norm, target: Target) -> int:
    if target.arch == "cpu":
        return 0
    return max(1, BatchNorm(context(), norm.channels, dtype=norm.dtype, eps=norm.eps).bytes(target.arch, norm.rows))


def norm_operands(
    cloud: Cloud, level: int, x: Any, weight: Any, bias: Any, statistics: Statistics | None, residual: Any
) -> tuple[Array, Array, Array, Statistics | None, Array | None]:
    """Returns the arrays that a batch norm takes: x, weight, bias, the running statistics and the residual.

    Raises:
        ValueError: one has another shape or dtype than it must have.
    """
    x = require_features(cloud, "the batch norm", x, level)
    channels = x.shape[1]
    if residual is not None:
        residual = jnp.asarray(residual)
        if residual.shape != x.shape or residual.dtype != x.dtype:
            raise ValueError(
                f"the residual is {residual.dtype} of the shape {list(residual.shape)}, and {x.dtype} "
                f"{list(x.shape)} is needed, as x"
            )

    def floats(values: Any, default: float, what: str) -> Array:
        if values is None:
            return jnp.full((channels,), default, jnp.float32)
        values = jnp.asarray(values, jnp.float32)
        if values.shape != (channels,):
            raise ValueError(f"{what} has the shape {list(values.shape)}, and [{channels}] is needed")
        return values

    weight, bias, running = floats(weight, 1, "weight"), floats(bias, 0, "bias"), None
    if statistics is not None:
        running = Statistics(
            floats(statistics[0], 0, "the running mean"), floats(statistics[1], 1, "the running variance")
        )
    return x, weight, bias, running, residual


def batch_norm(
    cloud: Cloud,
    level: int,
    x: Any,
    weight: Any = None,
    bias: Any = None,
    statistics: Statistics | None = None,
    *,
    momentum: float = 0.1,
    eps: float = 1e-5,
    residual: Any = None,
    relu: bool = False,
    axis_name: Hashable = None,
) -> tuple[Array, Statistics | None]:
    """Normalizes the channels of a level by the statistics of its voxels, adds the residual, and applies a ReLU, in one
    pass. Differentiable by x, weight, bias and residual. At inference a batch norm is a scale and a shift: give them to
    jax, or to the network.

    Args:
        weight, bias: [channels]; None: 1 and 0.
        statistics: the running statistics before this batch.
        momentum: the share of this batch in the running statistics, at most 1; with 0 they stay as they are.
        eps: is added to variances; above 0.
        residual: as x.
        axis_name: the axis of a mesh (jax.shard_map) over which the shards share statistics.

    Returns:
        The result, and the running statistics behind this batch where some were given.
    """
    require_eps(eps)
    x, weight, bias, old, residual = norm_operands(cloud, level, x, weight, bias, statistics, residual)
    if old is not None and not 0 <= momentum <= 1:
        raise ValueError(f"momentum is {momentum}, and it must be between 0 and 1")
    running = None if old is None or momentum == 0 else tuple(old)
    norm = _Norm(
        dtype_of(x),
        x.shape[1],
        x.shape[0],
        eps,
        momentum if running else None,
        residual is not None,
        relu,
        axis_name,
    )
    result, new = _norm(norm, *alike(x, weight, bias, residual, running, cloud.count(level)))
    if new is None:
        return result, None if old is None else Statistics(*jax.lax.stop_gradient(tuple(old)))
    mean, variance = jax.lax.stop_gradient(new)
    if axis_name is not None:  # They are the same on all shards, and jax is to know it.
        mean, variance = jax.lax.pmax(mean, axis_name), jax.lax.pmax(variance, axis_name)
    return result, Statistics(mean, variance)


def _run(norm: _Norm, x: Any, weight: Any, bias: Any, residual: Any, running: Any, count: Any) -> tuple[Any, ...]:
    """Returns the output, what gradients need of the statistics, and the new running statistics."""
    vector, kept = ((norm.channels,), jnp.float32), ((2 * norm.channels + 1,), jnp.float32)
    operands = [x, count, weight, bias]
    operands += [residual] if norm.residual else []
    operands += [*running] if running else []
    results = [(x.shape, x.dtype), kept, *([vector] * 2 if running else [])]
    part = _WHOLE
    if norm.axis_name is not None:
        (moments,) = norm.call("minuet_batch_norm", _SUM, [kept], [x, count])
        operands.append(jax.lax.all_gather(moments, norm.axis_name))
        part = _APPLY
    output, saved, *new = norm.call("minuet_batch_norm", part, results, operands)
    return output, saved, tuple(new) if running else None


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _norm(norm: _Norm, x: Any, weight: Any, bias: Any, residual: Any, running: Any, count: Any) -> tuple[Any, Any]:
    output, _, new = _run(norm, x, weight, bias, residual, running, count)
    return output, new


def _norm_forward(norm: _Norm, x: Any, weight: Any, bias: Any, residual: Any, running: Any, count: Any) -> Any:
    output, saved, new = _run(norm, x, weight, bias, residual, running, count)
    has_output = norm.residual and norm.relu
    return (output, new), (x, weight, bias, saved, count, output if has_output else None, running)


def _norm_backward(norm: _Norm, kept: tuple[Any, ...], gradients: tuple[Any, Any]) -> tuple[Any, ...]:
    x, weight, bias, saved, count, output, running = kept
    vector, matrix = ((norm.channels,), jnp.float32), (x.shape, x.dtype)
    common = [x, gradients[0], count, weight, bias, saved]
    operands = [*common, *([] if output is None else [output])]
    last = [matrix] if norm.residual else []
    name = "minuet_batch_norm_gradient"
    if norm.axis_name is None:
        of_x, of_weight, of_bias, *rest = norm.call(name, _WHOLE, [matrix, vector, vector, *last], operands)
    else:
        both = ((2 * norm.channels,), jnp.float32)
        sums, of_weight, of_bias, *rest = norm.call(name, _SUM, [both, vector, vector, *last], operands)
        (of_x,) = norm.call(name, _APPLY, [matrix], [*common, *rest, jax.lax.psum(sums, norm.axis_name)])
    of_running = None if running is None else tuple(jnp.zeros_like(values) for values in running)
    return of_x, of_weight, of_bias, rest[0] if rest else None, of_running, None


_norm.defvjp(_norm_forward, _norm_backward)
