"""Problems for the ops of minuet.jax, and what they compute, in float64 by jax's own ops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import minuet
import minuet.jax as sparse
import numpy as np
import oracle

#: The bounds of results and gradients of ops, relative to the largest value.
BOUNDS = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def cells(generator: np.random.Generator, count: int, ndim: int = 3, batches: int = 2) -> np.ndarray:
    """Returns unique coordinates int32 [count, 1 + ndim] in random order, negative ones too."""
    extent = {1: 60, 2: 8, 3: 4, 4: 3}[ndim]
    every = list(itertools.product(range(batches), *[range(-extent, extent)] * ndim))
    return np.ascontiguousarray(generator.permutation(np.array(every, np.int32))[:count])


def normal(generator: np.random.Generator, *shape: int, dtype: str = "float32") -> Any:
    return jnp.asarray(generator.normal(size=shape), dtype)


def poisoned(rows: Any, capacity: int) -> Any:
    """Returns the rows, and NaN behind them, which no op may read."""
    return jnp.concatenate([rows, jnp.full((capacity - rows.shape[0], *rows.shape[1:]), jnp.nan, rows.dtype)])


def convolved(pairs: np.ndarray, rows: int) -> Callable[..., Any]:
    """Returns the convolution over these pairs (offset, input row, output row) with a weight without groups."""
    k, source, target = (jnp.asarray(column) for column in pairs.T)

    def convolve(x: Any, weight: Any) -> Any:
        return (
            jnp.zeros((rows, weight.shape[2]), x.dtype).at[target].add(jnp.einsum("pi,pio->po", x[source], weight[k]))
        )

    return convolve


def pooled(pairs: np.ndarray, rows: int, reduction: str) -> Callable[[Any], Any]:
    """Returns the pooling over these pairs. Of equal maxima the first has the gradient."""
    taken = [pairs[pairs[:, 2] == row, 1] for row in range(rows)]

    def pool(x: Any) -> Any:
        results = []
        for sources in taken:
            values = x[sources]
            if not len(sources):
                results.append(0 * x.sum(0))
            elif reduction == "max":
                results.append(jnp.take_along_axis(values, values.argmax(0)[None], 0)[0])
            else:
                results.append(values.sum(0) / (len(sources) if reduction == "average" else 1))
        return jnp.stack(results)

    return pool


def spread(weight: Any, groups: int) -> Any:
    """Returns the weight [offsets, in / groups, out] without groups, by ops that jax differentiates."""
    inner, outer = weight.shape[1:]
    step = outer // groups
    parts = [
        jnp.pad(weight[:, :, g * step : (g + 1) * step], [(0, 0), (g * inner, (groups - 1 - g) * inner), (0, 0)])
        for g in range(groups)
    ]
    return jnp.concatenate(parts, 2)


def in_double(function: Callable[..., Any], *arrays: Any, out: Any) -> tuple[np.ndarray, list[np.ndarray]]:
    """Returns a function's result and its gradients in float64; `out` is the gradient of the result."""
    wide = [np.asarray(array).astype(np.float64) for array in (*arrays, out)]
    with jax.enable_x64(True):
        result, back = jax.vjp(function, *(jnp.asarray(array) for array in wide[:-1]))
        gradients = back(jnp.asarray(wide[-1]))
        return np.asarray(result), [np.asarray(gradient) for gradient in gradients]


def expect_close(actual: Any, expected: np.ndarray, dtype: str, size: float | None = None) -> None:
    """Compares with float64. `size`: of the terms of a sum, which errors are relative to."""
    actual = np.asarray(actual).astype(np.float64)
    assert actual.shape == expected.shape
    size = float(np.abs(expected).max(initial=0)) if size is None else size
    worst = float(np.abs(actual - expected).max(initial=0))
    assert worst <= BOUNDS[dtype] * max(size, 1e-3), f"off by {worst}, and the values are up to {size}"


def device_of_jax(context: minuet.Context) -> minuet.Device:
    """Opens the device that jax uses by default, for the package without jax."""
    return minuet.Device(context, "cuda:0" if jax.default_backend() == "gpu" else "cpu")


def same_bits(one: Any, two: Any) -> bool:
    """Whether two pytrees have the same bits."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def coarse_pairs(
    cloud: sparse.Cloud, kernel_size: Sequence[int], stride: int, *, transposed: bool = False
) -> tuple[np.ndarray, int, int]:
    """Returns the pairs of the map from level 0 to a level 1 with a stride (or within level 0), with the number of
    voxels of both. Rows of the result are those of the library's levels."""
    levels = (0, 0) if stride == 1 else (0, 1)
    sets = [np.asarray(cloud.coordinates(level))[: int(cloud.count(level)[0])] for level in levels]
    if stride != 1:
        assert {tuple(point) for point in sets[1].tolist()} == oracle.downsample(sets[0], stride)
    pairs = oracle.pairs_of(sets[0], sets[1], kernel_size, [1] * (sets[0].shape[1] - 1))
    return (pairs[:, [0, 2, 1]] if transposed else pairs), len(sets[0]), len(sets[1])


def values_of(generator: np.random.Generator, network: sparse.Network) -> dict[str, np.ndarray]:
    """Random parameters: variances above 0, and the rest small."""
    made = {}
    for name, struct in network.parameters.items():
        values = generator.normal(size=struct.shape) * 0.2
        made[name] = (np.abs(values) + 0.5 if name.endswith("running_var") else values).astype(np.float32)
    return made
