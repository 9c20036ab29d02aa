"""MinkUNet42 for scale_jax.py by the ops of minuet.jax, so that batch norms can share statistics of all devices."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import minuet
import minuet.jax as sparse

NAME = "minkunet42"


class OpNetwork:
    """The layers of the shipped network as single ops. Calls and methods are like those of minuet.jax.Network.

    Args:
        level_capacity: the most voxels of each level.
        bounds: the least and the greatest coordinates.
    """

    def __init__(self, level_capacity: Sequence[int], bounds: Any = None) -> None:
        (found,) = (item for item in minuet.shipped_networks() if item.name == NAME)
        description = json.loads(found.description)
        self._layers, self._levels = description["layers"], len(level_capacity)
        levels = [
            sparse.Level(capacity, *([level - 1, 2] if level else [])) for level, capacity in enumerate(level_capacity)
        ]
        maps = {f"same{level}": sparse.conv_map(level, level, 3) for level in range(self._levels)}
        maps |= {f"point{level}": sparse.conv_map(level, level, 1) for level in range(self._levels)}
        maps |= {f"down{level}": sparse.conv_map(level, level + 1, 2) for level in range(self._levels - 1)}
        self._geometry = sparse.Geometry(levels, maps, bounds=bounds)

    def pyramid(self, coordinates: Any, count: Any) -> sparse.Cloud:
        """Builds the levels and maps of a cloud."""
        return sparse.pyramid(self._geometry, coordinates, count)

    def train(
        self, parameters: dict[str, Any], cloud: sparse.Cloud, features: Any, axis_name: Hashable = None
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Returns the output and the new running statistics, over the devices of an axis of a mesh if one is named."""
        run = _Run(parameters, cloud, axis_name)
        x, level, skips = features, 0, {}
        for layer in self._layers:
            kind, name = layer["op"], layer.get("name", "")
            if kind == "block":
                is_down = layer.get("stride", 1) == 2
                x = run.unit(
                    x, f"down{level}" if is_down else f"same{level}", level + is_down, f"{name}.conv", f"{name}.bn"
                )
                level += is_down
            elif kind == "residual":
                x = run.residual(x, level, name)
            elif kind == "up":
                level -= 1
                x = run.unit(x, f"down{level}", level, f"{name}.conv", f"{name}.bn", transposed=True)
            elif kind == "concat":
                x = jnp.concatenate([x, skips[layer["with"]]], 1)
            elif kind != "head":  # The shipped description has a head without classes.
                raise NotImplementedError(f"{NAME} has a layer {kind!r}, which this benchmark does not know: add it")
            if "save" in layer:
                skips[layer["save"]] = x
        return x, run.statistics


class _Run:
    """A forward pass, which collects the new running statistics."""

    def __init__(self, parameters: dict[str, Any], cloud: sparse.Cloud, axis_name: Hashable) -> None:
        self._parameters, self._cloud, self._axis_name = parameters, cloud, axis_name
        self.statistics: dict[str, jax.Array] = {}

    def unit(
        self, x: Any, map: str, level: int, conv: str, norm: str, *, relu: bool = True, residual: Any = None,
        transposed: bool = False,
    ) -> Any:  # fmt: skip
        """A convolution to a level, with its batch norm."""
        given = self._parameters
        x = sparse.conv(self._cloud, map, x, given[f"{conv}.weight"], transposed=transposed)
        before = sparse.Statistics(given[f"{norm}.running_mean"], given[f"{norm}.running_var"])
        x, after = sparse.batch_norm(
            self._cloud, level, x, given[f"{norm}.weight"], given[f"{norm}.bias"], before, relu=relu, residual=residual,
            axis_name=self._axis_name,
        )  # fmt: skip
        self.statistics |= {f"{norm}.running_mean": after.mean, f"{norm}.running_var": after.variance}
        return x

    def residual(self, x: Any, level: int, name: str) -> Any:
        """Two convolutions, with the input added before the last ReLU."""
        y = self.unit(x, f"same{level}", level, f"{name}.conv1", f"{name}.bn1")
        skip = x
        if f"{name}.shortcut.conv.weight" in self._parameters:
            where = f"{name}.shortcut"
            skip = self.unit(x, f"point{level}", level, f"{where}.conv", f"{where}.bn", relu=False)
        return self.unit(y, f"same{level}", level, f"{name}.conv2", f"{name}.bn2", residual=skip)
