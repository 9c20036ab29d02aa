"""The parameters of a network as one array."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from .._infos import is_statistic
from ._cloud import Array


class Flat:
    """Where each parameter lies in one array, float32 [size], in C order and without gaps: first those that are
    trained, in the order of their numbers, then the running statistics of batch norms, in the same order.

    Attributes:
        size: elements of the array.
        trained: elements of its first part.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self._shapes = dict(shapes)
        names = sorted(shapes, key=is_statistic)  # The sort keeps the order within both parts.
        self._begins: dict[str, int] = {}
        self.size = self.trained = 0
        for name in names:
            self._begins[name] = self.size
            self.size += math.prod(shapes[name])
            if not is_statistic(name):
                self.trained = self.size

    def join(self, values: Mapping[str, Array]) -> Array:
        """Returns the array, of a value for each parameter."""
        parts = [values[name].reshape(-1).astype(jnp.float32) for name in self._begins]
        return jnp.concatenate([jnp.zeros(0, jnp.float32), *parts])

    def split(self, flat: Array) -> dict[str, Array]:
        """Returns the parameters by their names, in the order of their numbers."""
        made = {}
        for name, shape in self._shapes.items():
            begin = self._begins[name]
            made[name] = flat[begin : begin + math.prod(shape)].reshape(shape)
        return made

    def require(self, flat: Any, what: str) -> Array:
        """Returns an array of all parameters as it is needed.

        Raises:
            ValueError: it has another shape or dtype.
        """
        array = jnp.asarray(flat)
        if array.shape != (self.size,) or array.dtype != jnp.float32:
            raise ValueError(
                f"{what} are {array.dtype} of the shape {list(array.shape)}, and float32 [{self.size}] is needed "
                "(minuet.jax.Network.flatten)"
            )
        return array
