"""Whole networks as one function, for inference and for training."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, overload

import jax
import jax.numpy as jnp
import numpy as np

from .._infos import is_statistic
from .._plan import Plan
from .._pyramid import Pyramid
from .._training import Training, TrainingSizes
from .._types import Dataflow
from ._calls import ParameterForm, Result, alike, call, staged
from ._cloud import Array, Cloud, build
from ._flat import Flat
from ._geometry import FORMAT, Form, Numbers, bytes_for, head_numbers, int_array
from ._plans import bytes_of, require_floats
from ._target import Target, context, current

#: The parameters of a network: by their names, or as one array (Network.flatten, Network.prepare).
Parameters: TypeAlias = Mapping[str, Any] | Array


class Network:
    """A network: a shipped one, or one of a description. Hashable by identity, and static under jit. A copy, or what
    pickle loads, is made from the same arguments, and clouds of the original are not clouds of it.

    Args:
        network: the name of a shipped network (minuet.shipped_networks()), or the JSON description as a dict or a text.
        level_capacity: the most voxels of each level.
        dtype: of features, and in which weights are stored while it runs: "float32", "float16", "bfloat16" or "tf32".
        channels, in_channels, shape: as of minuet.Plan.network.
        bounds: the least and the greatest coordinates that clouds may have, the batch index first.
        batch_size: how many clouds there are, which networks with dense outputs or global poolings need.
        is_trained: whether train() is there. Clouds then have what its backward pass reads, too.
        momentum: the share of a batch in the running statistics, at most 1; with 0 train() gives the old ones.
        frozen_batch_norms, recompute_blocks: as of minuet.Training.

    Attributes:
        parameters: the shape and dtype of each parameter, by its name: a pytree like that of the parameters.
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
        is_trained: bool = False,
        momentum: float = 0.1,
        frozen_batch_norms: bool = False,
        recompute_blocks: bool = False,
    ) -> None:
        self._arguments = copy.deepcopy({name: value for name, value in locals().items() if name != "self"})
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
        self._training: Training | None = None
        self.training_numbers: Numbers = ()
        # The library has no share of 0, and what it then computes is not used.
        self.keeps_statistics, self.momentum = momentum == 0, momentum or 1.0
        kind = 1
        if is_trained:
            kind, inputs = 2, self._plan.info.inputs
            self._training = Training(
                context(),
                self._plan,
                input_gradients=range(inputs),
                momentum=self.momentum,
                frozen_batch_norms=frozen_batch_norms,
                recompute_blocks=recompute_blocks,
            )
            bits = (1 << inputs) - 1
            self.training_numbers = (FORMAT, bits, int(frozen_batch_norms), int(recompute_blocks))
            self._pyramid = self._training.pyramid(level_capacity, bounds=bounds, batch_size=batch_size)
        else:
            self._pyramid = Pyramid(
                context(), network=self._plan, level_capacity=level_capacity, bounds=bounds, batch_size=batch_size
            )
        self._numbers = head_numbers(self._plan.info.ndim, batch_size, bounds, 0, kind=kind)
        self._numbers += [len(level_capacity), *level_capacity, 0]
        self.capacities = tuple(level_capacity)
        self.parameters = {item.name: jax.ShapeDtypeStruct(item.shape, jnp.float32) for item in self._plan.parameters}
        #: The names of the parameters that are running statistics of batch norms.
        self.statistics = tuple(name for name in self.parameters if is_statistic(name))
        self.has_new_statistics = bool(self.statistics) and not frozen_batch_norms
        #: Where each parameter lies in the array of flatten().
        self.flat = Flat({name: struct.shape for name, struct in self.parameters.items()})

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), **self._arguments), ()

    @property
    def form(self) -> Form:
        """What custom calls need to know."""
        return _form(self, current())

    def pyramid(self, coordinates: Any, count: Any = None) -> Cloud:
        """Builds the levels and maps of a cloud: coordinates int32 [rows, 1 + axes] with the batch index first, and how
        many of the rows there are, int32 [1] (None: all)."""
        points, buffer, counts, status = build(self, bytes_for(self._pyramid), coordinates, count)
        return Cloud(points, buffer, counts, status, {}, self)

    def flatten(self, parameters: Mapping[str, Any]) -> Array:
        """Returns all parameters as one array, float32 [elements], which calls of the network and train() take in
        place of them. A program then has one operand, one gradient and one step of an optimizer for all of them, which
        costs less than one for each. The running statistics of batch norms are at its end."""
        return self.flat.join(dict(zip(self.parameters, self.values(parameters), strict=True)))

    def unflatten(self, flat: Any) -> dict[str, Array]:
        """Returns the parameters of flatten() by their names, or gradients of them."""
        return self.flat.split(self.flat.require(flat, "the parameters"))

    def with_statistics(self, flat: Any, statistics: Any) -> Array:
        """Returns the parameters of flatten() with the running statistics that train() has given for them."""
        array = self.flat.require(flat, "the parameters")
        if isinstance(statistics, Mapping):
            raise TypeError(
                "the statistics are by their names, as train() gives them for parameters by their names: give the "
                "array that it gives for an array of parameters, or flatten() the parameters with the new statistics"
            )
        new = jnp.asarray(statistics)
        if new.shape != (self.flat.size - self.flat.trained,) or new.dtype != jnp.float32:
            raise ValueError(
                f"the statistics are {new.dtype} of the shape {list(new.shape)}, and float32 "
                f"[{self.flat.size - self.flat.trained}] is needed, which train() gives for an array of parameters"
            )
        # For a GPU, XLA would fuse a dynamic_update_slice with the call that gives the statistics, and refuse the
        # program, because the updated weights need that call's other results.
        array, new = alike(array, new)
        return jnp.concatenate([array[: self.flat.trained], new])

    def prepare(self, parameters: Parameters) -> Array:
        """Returns the parameters as the kernels of calls of the network read them, uint8 [bytes]: batch norms are
        folded, and weights have the dtype of the network. Calls take this array in place of the parameters, and do not
        prepare them in each call then.

        Prepare where the network runs: the array serves this network on devices of the architecture that has written
        it, with the same version of the library, the same tuning results and the same kernels. A call refuses an array
        of another size, but cannot see otherwise where it was written: kernels read garbage from an array that was
        prepared on the CPU, or on a GPU of another architecture, and was moved."""
        if not self.parameters:
            raise ValueError("the network has no parameters to prepare")
        values, form = self._given(parameters)
        if form == ParameterForm.PREPARED:
            raise ValueError("the parameters are prepared already")
        (made,) = call(
            "minuet_prepare",
            [((_prepared_bytes(self, current()),), jnp.uint8)],
            [value.astype(jnp.float32) for value in values],
            map=np.int64(0),
            parameters=np.int64(form),
            statistics=_numbers_of(self),
            **self.form.attributes,
        )
        return made

    def __call__(self, parameters: Parameters, cloud: Cloud, *features: Any) -> Array | tuple[Array, ...]:
        """Runs the network at inference.

        Args:
            parameters: one array for each entry of `parameters`, float32, float16, bfloat16 or float64; or that of
                flatten() or of prepare().
            cloud: of pyramid().
            features: one array for each input: [capacity of its level, channels]. Rows of the first level are in the
                order of the coordinates.

        Returns:
            The output, or a tuple of as many as the network has.
        """
        arrays, results = self._operands(cloud, features)
        values, form = self._given(parameters)
        made = call(
            "minuet_run",
            results,
            [cloud.buffer, *_staged(arrays, cloud), *values],
            workspace=_workspace(self, current()),
            map=np.int64(0),
            parameters=np.int64(form),
            statistics=_numbers_of(self),
            **self.form.attributes,
        )
        return made[0] if len(made) == 1 else made

    @overload
    def train(
        self, parameters: Mapping[str, Any], cloud: Cloud, *features: Any
    ) -> tuple[Array | tuple[Array, ...], dict[str, Array]]: ...
    @overload
    def train(self, parameters: Array, cloud: Cloud, *features: Any) -> tuple[Array | tuple[Array, ...], Array]: ...
    def train(
        self, parameters: Parameters, cloud: Cloud, *features: Any
    ) -> tuple[Array | tuple[Array, ...], dict[str, Array] | Array]:
        """Runs the network in training: batch norms use the statistics of the batch. Differentiable by parameters and
        features, in one more call. Arguments are those of a call of the network; the parameters are float32.

        Returns:
            The output, or a tuple of as many as the network has, and the new running statistics, which replace those
            of the parameters: by their names, or for the array of flatten() as one array for with_statistics().

        Raises:
            ValueError: the network was made without is_trained, or as for inference.
        """
        if self._training is None:
            raise ValueError("this network is for inference only: make it with is_trained=True")
        arrays, _ = self._operands(cloud, features)
        values, form = self._given(parameters)
        if form == ParameterForm.PREPARED:
            raise ValueError("prepared parameters have no gradients: give the parameters themselves to train()")
        is_flat = form == ParameterForm.FLAT
        values = [array.astype(jnp.float32) for array in values]
        outputs, new = _train(self, is_flat, *alike(cloud.buffer, values, _staged(arrays, cloud)))
        made = outputs[0] if len(outputs) == 1 else outputs
        has_new = self.has_new_statistics and not self.keeps_statistics
        if is_flat:
            return made, jax.lax.stop_gradient(new[0] if has_new else values[0][self.flat.trained :])
        if not self.has_new_statistics:
            return made, {}
        if not has_new:
            old = dict(zip(self.parameters, values, strict=True))
            new = [old[name] for name in self.statistics]
        return made, dict(zip(self.statistics, jax.lax.stop_gradient(new), strict=True))

    def _given(self, parameters: Parameters) -> tuple[list[Array], ParameterForm]:
        """Returns the operands of the parameters, and how they are given."""
        if not isinstance(parameters, Mapping):
            if not hasattr(parameters, "dtype"):
                raise TypeError(
                    f"the parameters are of {type(parameters).__name__}: give arrays by their names, or the array of "
                    "flatten() or prepare()"
                )
            if jnp.asarray(parameters).dtype == jnp.uint8:
                return [self._require_prepared(parameters)], ParameterForm.PREPARED
            return [self.flat.require(parameters, "the parameters")], ParameterForm.FLAT
        values = self.values(parameters)
        return values, ParameterForm.EACH if values else ParameterForm.NONE

    def _require_prepared(self, prepared: Any) -> Array:
        array, size = jnp.asarray(prepared), _prepared_bytes(self, current())
        if array.shape != (size,):
            raise ValueError(
                f"the prepared parameters have the shape {list(array.shape)}, and [{size}] is needed: prepare them "
                "with this network, on the device that runs it"
            )
        return array

    def _operands(self, cloud: Cloud, features: Sequence[Any]) -> tuple[list[Array], list[Result]]:
        """Returns the features as arrays, and what the outputs are."""
        if cloud.geometry is not self:
            raise ValueError("the cloud was made for another network: use the method pyramid of this one")
        inputs = self._plan.inputs
        if len(features) != len(inputs):
            raise ValueError(f"the network has {len(inputs)} inputs, and {len(features)} arrays are given")
        arrays = [jnp.asarray(array) for array in features]
        for array, info in zip(arrays, inputs, strict=True):
            wanted = (self.capacities[info.level], info.channels)
            if array.shape != wanted or str(array.dtype) != info.dtype:
                raise ValueError(
                    f"{info.name} is {array.dtype} of the shape {list(array.shape)}, and {info.dtype} {list(wanted)} "
                    "is needed (minuet.jax.padded)"
                )
        return arrays, self._results()

    def _results(self) -> list[Result]:
        """Returns what the outputs are."""
        results: list[Result] = []
        for info in self._plan.outputs:
            rows = self._pyramid.rows_of(info)
            results.append(((rows, *(int(length or 0) for length in info.shape[1:])), jnp.dtype(info.dtype)))
        return results

    def values(self, parameters: Mapping[str, Any]) -> list[Array]:
        """Returns the parameters in the order of their numbers.

        Raises:
            TypeError: they are not given by their names.
            ValueError: one is missing, is not known, or has another shape or a dtype that is not floating-point.
        """
        if not isinstance(parameters, Mapping):
            raise TypeError(f"the parameters are of {type(parameters).__name__}: give arrays by their names")
        missing = [name for name in self.parameters if name not in parameters]
        unknown = [name for name in parameters if name not in self.parameters]
        if missing or unknown:
            raise ValueError(
                f"parameters are missing: {', '.join(missing[:8]) or 'none'}; are not known: "
                f"{', '.join(unknown[:8]) or 'none'}"
            )
        made = []
        for name, struct in self.parameters.items():
            array = require_floats(parameters[name], name)
            if array.shape != struct.shape:
                raise ValueError(f"{name} has the shape {list(array.shape)}, and {list(struct.shape)} is needed")
            made.append(array)
        return made


def _staged(arrays: Sequence[Any], cloud: Cloud) -> list[Any]:
    """Returns copies of the features, where that saves time."""
    return [staged(array, cloud.counts) for array in arrays]


@functools.lru_cache(maxsize=64)
def _form(network: Network, target: Target) -> Form:
    plan = network._plan
    data = bytes_of(plan, target)
    return Form(
        tuple(network._numbers), network.capacities, plan.info.ndim, data, network.training_numbers, network.momentum
    )


@functools.lru_cache(maxsize=64)
def _workspace(network: Network, target: Target) -> int:
    if target.arch == "cpu":
        return 0
    network._plan.compile(target.arch)
    return max(1, network._pyramid.run_bytes(network._plan, target.arch))


@functools.lru_cache(maxsize=64)
def _prepared_bytes(network: Network, target: Target) -> int:
    """Returns the size of prepared parameters. It has room for the CPU and for the target.

    The size for a GPU is never that for the CPU, whose layout is another one.
    """
    sizes = []
    for arch in {"cpu", target.arch}:
        network._plan.compile(arch)
        sizes.append(network._pyramid.prepared_bytes(network._plan, arch))
    return max(sizes) + (0 if target.arch == "cpu" else 16)


@functools.lru_cache(maxsize=64)
def _sizes(network: Network, target: Target) -> TrainingSizes:
    """Returns the sizes of the memory of one step. What is kept has room for the CPU and for the target."""
    training = network._training
    assert training is not None
    found = training.bytes("cpu", network._pyramid)
    if target.arch == "cpu":
        return TrainingSizes(found.kept, 0, 0)
    other = training.bytes(target.arch, network._pyramid)
    return TrainingSizes(max(found.kept, other.kept), max(1, other.forward_workspace), max(1, other.backward_workspace))


def _numbers_of(network: Network) -> Any:
    names = list(network.parameters)
    return int_array([names.index(name) for name in network.statistics])


def _form_of(is_flat: bool) -> Any:
    """Returns the attribute `parameters` of the passes."""
    return np.int64(ParameterForm.FLAT if is_flat else ParameterForm.EACH)


def _forward(network: Network, is_flat: bool, buffer: Any, values: list[Any], arrays: list[Any]) -> tuple[Any, ...]:
    """Returns the outputs, the new statistics and what the backward pass needs."""
    sizes = _sizes(network, current())
    outputs = network._results()
    results = [*outputs, ((max(1, sizes.kept),), jnp.uint8)]
    if network.has_new_statistics and is_flat:
        results.append(((network.flat.size - network.flat.trained,), jnp.float32))
    elif network.has_new_statistics:
        results += [(network.parameters[name].shape, jnp.float32) for name in network.statistics]
    made = call(
        "minuet_training_forward",
        results,
        [buffer, *arrays, *values],
        workspace=sizes.forward_workspace,
        parameters=_form_of(is_flat),
        statistics=_numbers_of(network),
        **network.form.attributes,
    )
    count = len(outputs)
    return tuple(made[:count]), tuple(made[count + 1 :]), made[count]


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _train(network: Network, is_flat: bool, buffer: Any, values: list[Any], arrays: list[Any]) -> tuple[Any, Any]:
    """Returns the outputs and the new running statistics of a training step."""
    outputs, new, _ = _forward(network, is_flat, buffer, values, arrays)
    return outputs, new


def _train_forward(
    network: Network, is_flat: bool, buffer: Any, values: list[Any], arrays: list[Any]
) -> tuple[Any, Any]:
    outputs, new, kept = _forward(network, is_flat, buffer, values, arrays)
    return (outputs, new), (buffer, values, kept)


def _train_backward(
    network: Network, is_flat: bool, kept: tuple[Any, ...], gradients: tuple[Any, Any]
) -> tuple[Any, ...]:
    buffer, values, tensors = kept
    infos = network._plan.inputs
    of_outputs = [
        gradient
        for gradient, (_, dtype) in zip(gradients[0], network._results(), strict=True)
        if jnp.issubdtype(dtype, jnp.floating)
    ]
    trained = [name for name in network.parameters if name not in network.statistics]
    results: list[Result]
    if is_flat:
        results = [((network.flat.trained,), jnp.float32)] if trained else []
    else:
        results = [(network.parameters[name].shape, jnp.float32) for name in trained]
    count = len(results)
    results += [((network.capacities[info.level], info.channels), jnp.dtype(info.dtype)) for info in infos]
    made = call(
        "minuet_training_backward",
        results,
        [buffer, *values, *of_outputs, tensors],
        workspace=_sizes(network, current()).backward_workspace,
        parameters=_form_of(is_flat),
        statistics=_numbers_of(network),
        **network.form.attributes,
    )
    if is_flat:
        # Running statistics have no gradient.
        rest = (0, network.flat.size - network.flat.trained)
        of_values = [jnp.pad(array, rest) for array in made[:count]] or [jnp.zeros_like(values[0])]
    else:
        by_name = dict(zip(trained, made, strict=False))
        of_values = [
            by_name[name] if name in by_name else jnp.zeros_like(value)
            for name, value in zip(network.parameters, values, strict=True)
        ]
    return None, of_values, list(made[count:])


_train.defvjp(_train_forward, _train_backward)
