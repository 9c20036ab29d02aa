"""Modules of flax (nnx) for the ops and networks of minuet.jax. It needs flax, and is imported only when it is used."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

try:
    import flax
    from flax import nnx
except ImportError as error:
    raise ImportError(
        "minuet.jax.nn has modules of flax, which cannot be imported: install flax 0.12 or newer, or use the functions "
        "of minuet.jax, which do not need it"
    ) from error

from .._ahead import shipped_networks
from .._batch_norm import require_eps
from .._infos import is_statistic
from .._versions import require_version
from ._cloud import Array, Cloud
from ._convolutions import conv
from ._geometry import Geometry, Numbers
from ._network import Network as NetworkFunction
from ._norms import Statistics, batch_norm, norm_operands

require_version("minuet.jax.nn", "flax", flax.__version__, (0, 12))

__all__ = ["BatchNorm", "Conv", "MinkUNet", "Network"]

#: A normal distribution of variance 2 / fan-in, as the library draws weights itself.
_HE = jax.nn.initializers.variance_scaling(2.0, "fan_in", "normal")


class Conv(nnx.Module):
    """A convolution over a map of a geometry: minuet.jax.conv with a kernel and a bias of its own.

    Args:
        geometry: the one of the clouds.
        map: the name of the map.
        in_features, out_features: channels.
        groups, transposed: as of minuet.jax.conv.
        use_bias: whether it has a bias.
        kernel_init, bias_init: initializers of jax. The kernel is [offsets, in_features / groups, out_features].
        rngs: its stream `params` draws the values.
    """

    def __init__(
        self,
        geometry: Geometry,
        map: str,
        in_features: int,
        out_features: int,
        *,
        groups: int = 1,
        transposed: bool = False,
        use_bias: bool = True,
        kernel_init: Any = _HE,
        bias_init: Any = jax.nn.initializers.zeros,
        rngs: nnx.Rngs,
    ) -> None:
        if groups < 1 or in_features % groups or out_features % groups:
            raise ValueError(f"{in_features} and {out_features} channels cannot be divided into {groups} groups")
        self.map, self.groups, self.transposed = map, groups, transposed
        shape = (geometry.volume(map), in_features // groups, out_features)
        self.kernel = nnx.Param(kernel_init(rngs.params(), shape, jnp.float32))
        self.bias = nnx.data(nnx.Param(bias_init(rngs.params(), (out_features,), jnp.float32)) if use_bias else None)

    def __call__(self, cloud: Cloud, x: Any) -> Array:
        """Returns the convolved features of a cloud."""
        bias = None if self.bias is None else self.bias[...]
        return conv(cloud, self.map, x, self.kernel[...], bias, groups=self.groups, transposed=self.transposed)


class BatchNorm(nnx.Module):
    """A batch norm over the voxels of a level: minuet.jax.batch_norm with running statistics. Behind model.eval(), it
    normalizes by these.

    Args:
        level: of the features.
        num_features: channels.
        use_running_average: whether it normalizes by the running statistics, which then do not change.
        momentum: the share of the old running statistics in the new ones, as in flax. Variances are unbiased.
        epsilon: is added to variances; above 0.
        relu: whether a ReLU follows.
        axis_name: the axis of a mesh (jax.shard_map) over which the shards share statistics.
        rngs: as flax's modules have it. It is not needed: scales begin as 1, and biases as 0.
    """

    def __init__(
        self,
        level: int,
        num_features: int,
        *,
        use_running_average: bool = False,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        relu: bool = False,
        axis_name: Hashable = None,
        rngs: nnx.Rngs | None = None,
    ) -> None:
        require_eps(epsilon)
        self.level, self.use_running_average, self.momentum = level, use_running_average, momentum
        self.epsilon, self.relu, self.axis_name = epsilon, relu, axis_name
        self.scale, self.bias = (nnx.Param(make(num_features, jnp.float32)) for make in (jnp.ones, jnp.zeros))
        self.mean, self.var = (nnx.BatchStat(make(num_features, jnp.float32)) for make in (jnp.zeros, jnp.ones))

    def __call__(self, cloud: Cloud, x: Any, residual: Any = None) -> Array:
        """Returns the normalized features, with the residual added and behind the ReLU."""
        if self.use_running_average:
            return self._by_running_statistics(cloud, x, residual)
        result, new = batch_norm(
            cloud,
            self.level,
            x,
            self.scale[...],
            self.bias[...],
            Statistics(self.mean[...], self.var[...]),
            momentum=1 - self.momentum,
            eps=self.epsilon,
            residual=residual,
            relu=self.relu,
            axis_name=self.axis_name,
        )
        assert new is not None
        self.mean[...], self.var[...] = new.mean, new.variance
        return result

    def _by_running_statistics(self, cloud: Cloud, x: Any, residual: Any) -> Array:
        statistics = Statistics(self.mean[...], self.var[...])
        x, scale, bias, running, residual = norm_operands(
            cloud, self.level, x, self.scale[...], self.bias[...], statistics, residual
        )
        assert running is not None
        scale = scale * jax.lax.rsqrt(running.variance + self.epsilon)
        result = (x.astype(jnp.float32) - running.mean) * scale + bias
        result = result if residual is None else result + residual
        result = jax.nn.relu(result) if self.relu else result
        return jnp.where(cloud.is_used(self.level)[:, None], result, 0).astype(x.dtype)


def _drawn(name: str, shape: Sequence[int], rngs: nnx.Rngs) -> Array:
    """Returns the first values of a parameter of a network."""
    if len(shape) > 1:
        drawn: Array = _HE(rngs.params(), tuple(shape), jnp.float32)
        return drawn
    is_one = name.rpartition(".")[2] in ("weight", "scale", "running_var")  # of norms
    return jnp.full(tuple(shape), 1 if is_one else 0, jnp.float32)


class Network(nnx.Module):
    """A minuet.jax.Network with parameters of its own, in the attribute `parameters`, by the names of a weights file:
    nnx.Param, or nnx.BatchStat for running statistics of batch norms.

    Args:
        network: what it computes.
        parameters: one array for each parameter of the network; None: they are drawn.
        use_running_average: whether calls are those of inference. model.train() and model.eval() set it.
        rngs: its stream `params` draws the values.
    """

    def __init__(
        self,
        network: NetworkFunction,
        *,
        parameters: Mapping[str, Any] | None = None,
        use_running_average: bool = False,
        rngs: nnx.Rngs | None = None,
    ) -> None:
        self.network, self.use_running_average = network, use_running_average
        if parameters is None:
            if rngs is None:
                raise ValueError("give rngs, with which parameters are drawn, or the parameters")
            parameters = {name: _drawn(name, kind.shape, rngs) for name, kind in network.parameters.items()}
        self.parameters = nnx.Dict(
            {
                name: (nnx.BatchStat if is_statistic(name) else nnx.Param)(value)
                for name, value in self._checked(parameters).items()
            }
        )

    def _checked(self, parameters: Mapping[str, Any]) -> dict[str, Array]:
        values = (value.astype(jnp.float32) for value in self.network.values(parameters))
        return dict(zip(self.network.parameters, values, strict=True))

    def get_parameters(self) -> dict[str, Array]:
        """Returns the parameters and running statistics by their names, as minuet.jax.Network takes them."""
        return {name: self.parameters[name][...] for name in self.network.parameters}

    def set_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Replaces all parameters and running statistics.

        Raises:
            ValueError: one is missing, is not known or has another shape.
        """
        for name, value in self._checked(parameters).items():
            self.parameters[name][...] = value

    def pyramid(self, coordinates: Any, count: Any = None) -> Cloud:
        """Builds the levels and maps of a cloud, as minuet.jax.Network.pyramid."""
        return self.network.pyramid(coordinates, count)

    def __call__(self, cloud: Cloud, *features: Any) -> Array | tuple[Array, ...]:
        """Returns the output, or a tuple of as many as the network has. In training, batch norms use the statistics of
        the cloud and change the running ones."""
        parameters = self.get_parameters()
        if self.use_running_average:
            return self.network(parameters, cloud, *features)
        outputs, statistics = self.network.train(parameters, cloud, *features)
        for name, value in statistics.items():
            self.parameters[name][...] = value
        return outputs


class MinkUNet(Network):
    """A MinkUNet with a head: a number for each class, of each voxel.

    Args:
        in_features: channels of the input.
        out_features: classes.
        level_capacity: the most voxels of each level.
        name: of a shipped MinkUNet (minuet.shipped_networks()).
        channels: the widths; None: those of the shipped one.
        is_trained: whether the model can be called in training.
        momentum: the share of the old running statistics in the new ones, as in flax.
        dtype, bounds, recompute_blocks: as of minuet.jax.Network.
        parameters, rngs: as of Network.
        use_running_average: as of Network; None: not is_trained.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        level_capacity: Sequence[int],
        *,
        name: str = "minkunet42",
        channels: Sequence[int] | None = None,
        is_trained: bool = True,
        momentum: float = 0.9,
        dtype: str = "float32",
        bounds: tuple[Numbers, Numbers] | None = None,
        recompute_blocks: bool = False,
        parameters: Mapping[str, Any] | None = None,
        use_running_average: bool | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> None:
        known = {item.name: json.loads(item.description) for item in shipped_networks()}
        heads = {key: each for key, each in known.items() if key.startswith("minkunet") and _ends_in_head(each)}
        if name not in heads:
            raise ValueError(f"there is no shipped MinkUNet {name!r}: use one of {', '.join(heads)}")
        description = {**heads[name], "in_channels": in_features}
        description["layers"][-1]["classes"] = out_features
        network = NetworkFunction(
            description,
            level_capacity,
            dtype=dtype,
            channels=channels,
            bounds=bounds,
            is_trained=is_trained,
            momentum=1 - momentum,
            recompute_blocks=recompute_blocks,
        )
        is_inference = not is_trained if use_running_average is None else use_running_average
        super().__init__(network, parameters=parameters, use_running_average=is_inference, rngs=rngs)


def _ends_in_head(description: Mapping[str, Any]) -> bool:
    layers = description["layers"]
    return bool(layers[-1]["op"] == "head" and layers[0]["op"] != "voxelize")
