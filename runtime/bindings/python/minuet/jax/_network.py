"""Whole networks as one function."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._plan import Plan
from .._pyramid import Pyramid
from .._types import Dataflow
from ._calls import call
from ._cloud import Array, Cloud, build
from ._geometry import Form, Numbers, bytes_for, head_numbers
from ._plans import bytes_of
from ._target import Target, context, current


class Network:
    """A network for inference: a shipped one, or one of a description. Hashable by identity, and static under jit.

    Args:
        network: the name of a shipped network (minuet.shipped_networks()), or the JSON description as a dict or a text.
        level_capacity: the most voxels of each level.
        dtype: of features, and in which weights are stored while it runs: "float32", "float16", "bfloat16" or "tf32".
        channels, in_channels, shape: as of minuet.Plan.network.
        bounds: the least and the greatest coordinates that clouds may have, the batch index first.
        batch_size: how many clouds there are, which networks with dense outputs or global poolings need.

    Attributes:
        parameters: the shape and dtype of each parameter, by its name: a pytree that has the structure of the parameters.
    """

    def __init__(
        self,
        network: str | Mapping[str, Any],
        level_capacity: Sequence[int],
        *,
        dtype: str = "float32",
        channels: Sequence[int] | None = None,
        in_channels: int = 0,
        shape: Sequence[int] | None = None,
        bounds: tuple[Numbers, Numbers] | None = None,
        batch_size: int = 0,
    ) -> None:
        is_name = isinstance(network, str) and not network.lstrip().startswith("{")
        named: dict[str, Any] = {"name": network} if is_name else {"description": network}
        self._plan = Plan.network(
            context(),
            **named,
            dtype=dtype,
            channels=channels,
            in_channels=in_channels,
            shape=shape,
            dataflow=Dataflow.FUSED,
            without_values=True,
        )
        levels = self._plan.info.levels
        if len(level_capacity) != levels:
            raise ValueError(f"level_capacity has {len(level_capacity)} numbers, and the network has {levels} levels")
        self._batch_size = batch_size
        self._pyramid = Pyramid(
            context(),
            network=self._plan,
            level_capacity=level_capacity,
            bounds=bounds,
            batch_size=batch_size,
        )
        self._numbers = head_numbers(self._plan.info.ndim, batch_size, bounds, 0, is_of_network=True)
        self._numbers += [len(level_capacity), *level_capacity, 0]
        self.capacities = tuple(level_capacity)
        self.parameters = {
            item.name: jax.ShapeDtypeStruct(item.shape, jnp.float32) for item in self._plan.parameters
        }

    @property
    def form(self) -> Form:
        """What custom calls need to know."""
        return _form(self, current())

    def pyramid(self, coordinates: Any, count: Any = None) -> Cloud:
        """Builds the levels and maps of a cloud: coordinates int32 [rows, 1 + axes] with the batch index first, and how
        many of the rows there are, int32 [1] (None: all)."""
        return Cloud(*build(self, bytes_for(self._pyramid), coordinates, count), {}, self)

    def __call__(self, parameters: Mapping[str, Any], cloud: Cloud, *features: Any) -> Array | tuple[Array, ...]:
        """Runs the network at inference.

        Args:
            parameters: one array for each entry of `parameters`, of any floating-point dtype.
            cloud: of pyramid().
            features: one array for each input: [capacity of its level, channels]. Rows of the first level are in the
                order of the coordinates.

        Returns:
            The output, or a tuple of as many as the network has.
        """
        if cloud.geometry is not self:
            raise ValueError("the cloud was made for another network: use the method pyramid of this one")
        inputs, outputs = self._plan.inputs, self._plan.outputs
        if len(features) != len(inputs):
            raise ValueError(f"the network has {len(inputs)} inputs, and {len(features)} arrays are given")
        arrays = [jnp.asarray(array) for array in features]
        for array, info in zip(arrays, inputs, strict=True):
            wanted = (self.capacities[info.level], info.channels)
            if array.shape != wanted or str(array.dtype) != info.dtype:
                raise ValueError(
                    f"{info.name} is {array.dtype} of the shape {list(array.shape)}, and {info.dtype} {list(wanted)} is "
                    "needed (minuet.jax.padded)"
                )
        results = []
        for info in outputs:
            rows = self._batch_size if len(info.shape) > 2 else self.capacities[info.level]
            results.append(((rows, *(int(length or 0) for length in info.shape[1:])), jnp.dtype(info.dtype)))
        made = call(
            "minuet_run",
            results,
            [cloud.buffer, *arrays, *self.values(parameters)],
            workspace=_workspace(self, current()),
            map=np.int64(0),
            parameters=np.int64(len(self.parameters) > 0),
            **self.form.attributes,
        )
        return made[0] if len(made) == 1 else made

    def values(self, parameters: Mapping[str, Any]) -> list[Array]:
        """Returns the parameters in the order of their numbers.

        Raises:
            ValueError: one is missing, is not known or has another shape.
        """
        missing = [name for name in self.parameters if name not in parameters]
        unknown = [name for name in parameters if name not in self.parameters]
        if missing or unknown:
            raise ValueError(
                f"parameters are missing: {', '.join(missing[:8]) or 'none'}; are not known: "
                f"{', '.join(unknown[:8]) or 'none'}"
            )
        made = []
        for name, struct in self.parameters.items():
            array = jnp.asarray(parameters[name])
            if array.shape != struct.shape:
                raise ValueError(f"{name} has the shape {list(array.shape)}, and {list(struct.shape)} is needed")
            made.append(array)
        return made


@functools.lru_cache(maxsize=64)
def _form(network: Network, target: Target) -> Form:
    plan = network._plan
    data = bytes_of(plan, target)
    return Form(tuple(network._numbers), network.capacities, plan.info.ndim, data)


@functools.lru_cache(maxsize=64)
def _workspace(network: Network, target: Target) -> int:
    if target.arch == "cpu":
        return 0
    network._plan.compile(target.arch)
    return max(1, network._pyramid.run_bytes(network._plan, target.arch))
