"""Convolutions, and their gradients."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _abi
from .._gradients import ParameterGradients
from ._calls import alike, call
from ._cloud import Array, Cloud
from ._plans import Op, dtype_of, require_features, require_floats, require_geometry, run
from ._target import Target, context, current


def conv(
    cloud: Cloud,
    map: str,
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    groups: int = 1,
    transposed: bool = False,
) -> Array:
    """Convolves features over a map of the cloud's geometry. Differentiable by x, weight and bias.

    Args:
        x: [capacity of the input's level, channels], float32, float16 or bfloat16.
        weight: [offsets, channels / groups, output channels], or with one axis for each of the kernel's sizes in
            place of the offsets. float32, float16, bfloat16 or float64; it is rounded to the dtype of x.
        bias: [output channels], of the same dtypes.
        transposed: whether the convolution leads from the coarser level to the finer one.

    Returns:
        [capacity of the output's level, output channels] of the dtype of x. Rows past the count are 0, and so are their
        gradients.
    """
    geometry = require_geometry(cloud)
    _, item = geometry.map(map)
    x = require_features(cloud, f"the convolution over {map!r}", x, item.coarse if transposed else item.fine)
    weight = require_floats(weight, "the weight")
    if groups < 1:
        raise ValueError(f"groups is {groups}, and it must be 1 or more")
    volume = geometry.volume(map)
    if weight.ndim < 3 or int(np.prod(weight.shape[:-2])) != volume or weight.shape[-2] * groups != x.shape[1]:
        raise ValueError(
            f"the weight has the shape {list(weight.shape)}, and [{volume}, {x.shape[1]} / {groups}, output channels] "
            f"is needed for the map {map!r} and {x.shape[1]} channels in {groups} groups"
        )
    weight = weight.reshape(volume, *weight.shape[-2:])
    if bias is not None:
        bias = require_floats(bias, "bias")
        if bias.shape != weight.shape[-1:]:
            raise ValueError(f"bias has the shape {list(bias.shape)}, and {list(weight.shape[-1:])} is needed")
    op = Op(geometry, map, dtype_of(x), x.shape[1], weight.shape[-1], groups, transposed, bias is not None)
    count = cloud.count(op.levels[1])
    pairs = cloud.pairs.get(map)
    result: Array = _conv(op, *alike(x, weight, bias, cloud.buffer, pairs, count))
    return result


def _forward(op: Op, x: Any, weight: Any, bias: Any, buffer: Any) -> Array:
    values = [weight]
    if bias is not None:
        values += [jnp.ones(bias.shape, jnp.float32), bias]
    result = [((op.rows[1], op.out_channels), x.dtype)]
    made: Array = run(op, buffer, [x], result, values, of_input=False)[0]
    return made


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _conv(op: Op, x: Any, weight: Any, bias: Any, buffer: Any, pairs: Any, count: Any) -> Array:
    return _forward(op, x, weight, bias, buffer)


def _conv_forward(
    op: Op, x: Any, weight: Any, bias: Any, buffer: Any, pairs: Any, count: Any
) -> tuple[Array, tuple[Any, ...]]:
    return _forward(op, x, weight, bias, buffer), (x, weight, bias, buffer, pairs, count)


@functools.lru_cache(maxsize=4096)
def _gradient_workspace(op: Op, which: int, most_pairs: int, target: Target) -> int:
    if target.arch == "cpu":
        return 0
    made = ParameterGradients(
        context(),
        op.in_channels,
        op.out_channels,
        **op.options,
        groups=op.groups,
        weight=bool(which & _abi.MINUET_GRADIENT_WEIGHT),
        bias=bool(which & _abi.MINUET_GRADIENT_BIAS),
    )
    return max(1, made.bytes(target.arch, most_pairs, op.rows[1]))


def _parameter_gradients(op: Op, which: int, gradient: Any, count: Any, others: list[Any], shape: Any) -> Array:
    most = others[1].shape[0] if others else 0
    made: Array = call(
        "minuet_parameter_gradients",
        [(shape, jnp.float32)],
        [gradient, count, *others],
        workspace=_gradient_workspace(op, which, most, current()),
        convolution=op.convolution,
        which=np.int64(which),
    )[0]
    return made


def _conv_backward(op: Op, kept: tuple[Any, ...], gradient: Any) -> tuple[Any, ...]:
    x, weight, bias, buffer, pairs, count = kept
    if pairs is None:
        raise ValueError(
            f"the gradient of the convolution over {op.map!r} needs the pairs of its map: describe the map by conv_map "
            "with is_trained=True, or give it Purpose.EXPORT"
        )
    # The gradients are calls of their own, so that XLA drops those whose result nobody reads.
    of_x = run(op, buffer, [gradient], [(x.shape, x.dtype)], [weight], of_input=True)[0]
    of_bias = None
    listed = [x, *pairs]
    of_weight = _parameter_gradients(op, _abi.MINUET_GRADIENT_WEIGHT, gradient, count, listed, weight.shape)
    if bias is not None:
        of_bias = _parameter_gradients(op, _abi.MINUET_GRADIENT_BIAS, gradient, count, [], bias.shape).astype(
            bias.dtype
        )
    return of_x, of_weight.astype(weight.dtype), of_bias, None, None, None


_conv.defvjp(_conv_forward, _conv_backward)
