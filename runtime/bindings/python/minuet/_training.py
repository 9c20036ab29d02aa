"""Training plans: the forward and the backward pass of a network, in two calls a step."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from . import _abi
from ._arrays import View, device_view, stream_handle
from ._device import Context, Device
from ._errors import OutOfRangeError
from ._execution import array_table, input_view, like_input, output_view
from ._infos import ParameterInfo, TensorInfo, is_statistic
from ._library import Handle, call, library, make, using
from ._network_options import encoded_names
from ._operands import memory_view, output_array, place_workspace
from ._plan import Plan
from ._pyramid import Pyramid, pyramid_of_training
from ._sets import Bounds
from ._types import ELEMENT_NAMES, WeightsOrder, choose


@dataclass(frozen=True)
class KeptTensor:
    """One tensor that a forward pass keeps for the backward pass: the layer or the input that it is the result of."""

    name: str
    level: int
    channels: int
    dtype: str


@dataclass(frozen=True)
class TrainingSizes:
    """Bytes of the memory of one step: what lives from a forward call to its backward call, and the two workspaces."""

    kept: int
    forward_workspace: int
    backward_workspace: int


@dataclass(frozen=True)
class ForwardResult:
    """What Training.forward gives, in memory of the device.

    Args:
        outputs: one array for each output of the network, [capacity of its level, channels], or dense.
        kept: for Training.backward.
        statistics: the new running statistics by the names of the parameters; empty with frozen batch norms.
    """

    outputs: tuple[Any, ...]
    kept: Any
    statistics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StepGradients:
    """What Training.backward gives, in memory of the device.

    Args:
        parameters: the gradients by the names of the parameters, float32 and of their shapes.
        inputs: one for each input of the network; None where no gradient is wanted.
    """

    parameters: Mapping[str, Any]
    inputs: tuple[Any, ...]


class Training(Handle):
    """The forward and the backward pass of a network. May be used from many threads. Results repeat bit by bit.

    The road: Plan.network (usually without values) -> Training -> load(device) -> pyramid() -> for each step
    Pyramid.build, forward() and backward(). Nothing is kept between calls but what forward() returns.

    Parameters are those of the plan, by their names, as float32 arrays on the device. Calls only enqueue on `stream`,
    once memory is there: with every array given they may be captured in a graph.

    Args:
        context: where its kernels are compiled and kept.
        network: the plan of a network; its values are not read.
        input_gradients: numbers of the inputs whose gradients backward() gives.
        frozen_batch_norms: batch norms use their running statistics, which do not change.
        momentum: the share of a batch in the running statistics, above 0 and at most 1.
        cumulative: all batches have the same share instead.
        recompute_blocks: backward() computes again what lies inside residual and bottleneck blocks, so that only their
            inputs are kept. The bits are the same.
        recompute: names of segments whose inside is computed again too. A segment is a block, a convolution, linear
            layer or pooling of this name, or all neighbouring ones whose names begin with this one and a dot, such as
            "encoder.1" for a stage, with the pointwise layers between them.
        branches: 2: on a GPU forward() computes shortcuts beside their blocks, and backward() the gradients of
            parameters beside the others, on a stream of their own, which is faster for clouds that do not fill the
            GPU. 1: all work is on the caller's stream, and the workspaces are smaller. The bits are the same. 0: the
            library chooses, and chooses 2 so far.

    Raises:
        UnimplementedError: a layer cannot be trained; the message names it.
    """

    def __init__(
        self,
        context: Context,
        network: Plan,
        *,
        input_gradients: Sequence[int] = (),
        frozen_batch_norms: bool = False,
        momentum: float = 0.1,
        cumulative: bool = False,
        recompute_blocks: bool = False,
        recompute: Sequence[str] = (),
        branches: int = 0,
    ) -> None:
        if not cumulative and not 0 < momentum <= 1:  # The library reads 0 as its default.
            raise ValueError(
                f"momentum is {momentum}, and it must be above 0 and at most 1: where running statistics are to stay "
                "as they are, leave out those that forward() returns"
            )
        options = _abi.minuet_training_options(struct_size=ctypes.sizeof(_abi.minuet_training_options))
        for number in input_gradients:
            options.input_gradients |= 1 << operator.index(number)
        options.frozen_batch_norms, options.is_cumulative = int(frozen_batch_norms), int(cumulative)
        options.momentum = 0 if cumulative else momentum
        options.recompute_blocks, options.branches = int(recompute_blocks), branches
        encoded = encoded_names(recompute, "recompute")
        names = (ctypes.c_char_p * max(1, len(encoded)))(*encoded)
        if encoded:
            options.recompute, options.recompute_count = ctypes.addressof(names), len(encoded)
        pointer = make("minuet_training_create", context, network, ctypes.byref(options))
        super().__init__(pointer, library.minuet_training_destroy, context)
        self._inputs, self._outputs, self._parameters = network.inputs, network.outputs, network.parameters
        self._ndim = network.info.ndim
        self._wanted = frozenset(input_gradients)
        self._has_statistics = not frozen_batch_norms
        self._sizes: WeakKeyDictionary[Pyramid, dict[str, TrainingSizes]] = WeakKeyDictionary()

    @property
    def kept(self) -> tuple[KeptTensor, ...]:
        """The tensors that forward() keeps for backward()."""
        tensors: list[KeptTensor] = []
        info = _abi.minuet_kept_info(struct_size=ctypes.sizeof(_abi.minuet_kept_info))
        while True:
            try:
                call("minuet_training_query_kept", self, len(tensors), ctypes.byref(info))
            except OutOfRangeError:
                return tuple(tensors)
            name = (info.name or b"").decode()
            tensors.append(KeptTensor(name, info.level, info.channels, ELEMENT_NAMES[info.element]))

    def pyramid(
        self,
        level_capacity: Sequence[int],
        *,
        level_slots: Sequence[int] | None = None,
        bounds: Bounds | None = None,
        keep_coordinates: Sequence[int] = (),
        batch_size: int = 0,
    ) -> Pyramid:
        """Returns a pyramid with the levels and maps of the network, for both passes and for inference. Arguments are
        those of Pyramid for a network."""
        return pyramid_of_training(self, self._ndim, level_capacity, level_slots, bounds, keep_coordinates, batch_size)

    def bytes(self, arch: str, pyramid: Pyramid) -> TrainingSizes:
        """Returns the sizes of the memory of one step, without a device."""
        sizes = _abi.minuet_training_sizes(struct_size=ctypes.sizeof(_abi.minuet_training_sizes))
        call("minuet_training_bytes", self, arch.encode(), pyramid, ctypes.byref(sizes))
        return TrainingSizes(sizes.kept, sizes.forward_workspace, sizes.backward_workspace)

    def _sizes_on(self, device: Device, pyramid: Pyramid) -> TrainingSizes:
        """Returns bytes(), which each step would else compute anew."""
        known = self._sizes.setdefault(pyramid, {})
        if device.arch not in known:
            known[device.arch] = self.bytes(device.arch, pyramid)
        return known[device.arch]

    def load(self, device: Device) -> None:
        """Compiles and loads the kernels; the calls below need it once for a device."""
        call("minuet_training_load", self, device)
        self._keep(device)

    def forward(
        self,
        device: Device,
        pyramid: Pyramid,
        buffer: Any,
        inputs: Sequence[Any],
        parameters: Mapping[str, Any],
        *,
        order: WeightsOrder | str = WeightsOrder.AS_DESCRIBED,
        statistics: Mapping[str, Any] | None = None,
        batch_count: Any = None,
        new_batch_count: Any = None,
        out: Sequence[Any] | None = None,
        kept: Any = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> ForwardResult:
        """Computes the outputs.

        Args:
            pyramid, buffer: what Pyramid.build wrote, of a pyramid of this training plan.
            inputs: features [capacity of their level, channels]; rows past the count are not read.
            parameters: all of them.
            order: of weights. The shapes that Plan.parameters tells are those of WeightsOrder.MINUET; the default is
                what the network's description says.
            statistics: the arrays that get the new running statistics, which may be those of `parameters`; None: new
                ones.
            batch_count: int64 [1], the batches before this one, with `cumulative`.
            new_batch_count: int64 [1] gets 1 more; may be batch_count.
            out: the arrays to write to; None: new ones.
            kept, workspace: memory of bytes(), which begins on a multiple of 256 bytes. None: new memory; a new
                workspace is given back at the end of the call, so that on a GPU the call waits for the work.
        """
        handle = stream_handle(stream)
        arguments = _abi.minuet_training_forward_arguments(
            struct_size=ctypes.sizeof(_abi.minuet_training_forward_arguments)
        )
        sizes = self._sizes_on(device, pyramid)
        given = self._values(arguments, device, buffer, parameters, order, handle)
        new: dict[str, Any] = {}
        counts = {"batch_count": batch_count, "new_batch_count": new_batch_count}
        if not self._has_statistics:
            for name, one in {"statistics": statistics, **counts}.items():
                if one is not None:
                    raise ValueError(
                        f"{name} is given, but the batch norms are frozen and change nothing: leave it out"
                    )
        else:
            new = self._like(device, given, statistics, handle, of_statistics=True)
            arguments.new_statistics = self._table(device, new, handle, "statistics")
            for name, count in counts.items():
                if count is not None:
                    found = device_view(count, device, handle, name)
                    found.require(name, "int64", (1,))
                    setattr(arguments, name, found.address)
        if len(inputs) != len(self._inputs):
            raise ValueError(f"the network takes {len(self._inputs)} inputs, and {len(inputs)} are given")
        views = [input_view(one, info, device, handle) for one, info in zip(inputs, self._inputs, strict=True)]
        results = self._arrays(device, pyramid, self._outputs, out, views, handle)
        targets = [output_view(one, info, device, handle) for one, info in zip(results, self._outputs, strict=True)]
        arguments.inputs, arguments.input_count = array_table(views), len(views)
        arguments.outputs, arguments.output_count = array_table(targets), len(targets)
        if kept is None:
            kept = device.empty(max(1, sizes.kept), "uint8", handle)
        arguments.kept, arguments.kept_bytes = memory_view(kept, device, handle, "kept").memory
        held = place_workspace(arguments, workspace, lambda: sizes.forward_workspace, device, handle)
        with using(pyramid) as (arguments.pyramid,):
            call("minuet_training_forward", self, device, ctypes.byref(arguments), handle)
        del held
        return ForwardResult(tuple(results), kept, new)

    def backward(
        self,
        device: Device,
        pyramid: Pyramid,
        buffer: Any,
        kept: Any,
        out_gradients: Sequence[Any],
        parameters: Mapping[str, Any],
        *,
        order: WeightsOrder | str = WeightsOrder.AS_DESCRIBED,
        gradients: Mapping[str, Any] | None = None,
        accumulate: bool = False,
        out: Sequence[Any] | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> StepGradients:
        """Computes the gradients.

        Args:
            pyramid, buffer, kept, parameters, order: those of the forward call.
            out_gradients: the gradient of each output, of its shape and dtype; None stands for zeros, and is needed for
                an output of integers.
            gradients: arrays that get the gradients of these parameters, and no others; None: those of all parameters
                in new arrays.
            accumulate: gradients of parameters are added to what `gradients` hold.
            out: one for each input of the network: the array for its gradient, or None where none is wanted; None: new
                ones.
            workspace: as for forward().
        """
        if kept is None:
            raise ValueError("kept is None: give the `kept` of what forward() returned")
        if accumulate and gradients is None:
            raise ValueError("accumulate is set, but there is nothing to add to: give gradients")
        handle = stream_handle(stream)
        arguments = _abi.minuet_training_backward_arguments(
            struct_size=ctypes.sizeof(_abi.minuet_training_backward_arguments)
        )
        sizes = self._sizes_on(device, pyramid)
        given = self._values(arguments, device, buffer, parameters, order, handle)
        own = self._like(device, given, None, handle, of_statistics=False) if gradients is None else dict(gradients)
        arguments.parameter_gradients = self._table(device, own, handle, "gradients")
        arguments.accumulate = int(accumulate)
        if len(out_gradients) != len(self._outputs):
            raise ValueError(
                f"the network gives {len(self._outputs)} outputs, and {len(out_gradients)} gradients are given"
            )
        table = (_abi.minuet_array * len(self._outputs))()
        views: list[tuple[View, str]] = []
        for number, (one, info) in enumerate(zip(out_gradients, self._outputs, strict=True)):
            if one is not None:
                views.append(input_view(one, info, device, handle))
                table[number] = views[-1][0].to_array(f"the gradient of the output {info.name!r}")
        arguments.out_gradients, arguments.out_gradient_count = table, len(self._outputs)
        if out is None:
            wanted = [info for number, info in enumerate(self._inputs) if number in self._wanted]
            rest = iter(self._arrays(device, pyramid, wanted, None, views, handle))
            inputs = tuple(next(rest) if number in self._wanted else None for number in range(len(self._inputs)))
        else:
            inputs = tuple(out)
            if [one is not None for one in inputs] != [number in self._wanted for number in range(len(self._inputs))]:
                raise ValueError(
                    f"`out` has {len(inputs)} elements, with arrays at "
                    f"{[number for number, one in enumerate(inputs) if one is not None]}; it must have "
                    f"{len(self._inputs)}, with arrays at {sorted(self._wanted)} and None elsewhere"
                )
        of_inputs = (_abi.minuet_array * len(self._inputs))()
        for number, (one, info) in enumerate(zip(inputs, self._inputs, strict=True)):
            if one is not None:
                of_inputs[number] = output_view(one, info, device, handle)[0].to_array(f"the gradient of {info.name!r}")
        arguments.input_gradients = of_inputs
        arguments.kept, arguments.kept_bytes = memory_view(kept, device, handle, "kept", is_written=False).memory
        held = place_workspace(arguments, workspace, lambda: sizes.backward_workspace, device, handle)
        with using(pyramid) as (arguments.pyramid,):
            call("minuet_training_backward", self, device, ctypes.byref(arguments), handle)
        del held
        return StepGradients(own, inputs)

    def _values(
        self,
        arguments: Any,
        device: Device,
        buffer: Any,
        parameters: Mapping[str, Any],
        order: WeightsOrder | str,
        stream: int,
    ) -> list[tuple[ParameterInfo, View]]:
        """Fills in what both calls take of the caller, and returns the views of all parameters."""
        found = memory_view(buffer, device, stream, "buffer", is_written=False)
        arguments.buffer, arguments.buffer_bytes = found.memory
        arguments.weights_order = choose(WeightsOrder, order, "order")
        missing = [info.name for info in self._parameters if info.name not in parameters]
        if missing:
            raise ValueError(f"parameters without a value: {', '.join(missing[:8])}; give all of them")
        given = [
            (info, device_view(parameters[info.name], device, stream, f"the parameter {info.name!r}"))
            for info in self._parameters
        ]
        arguments.parameters = array_table([(view, info.name) for info, view in given])
        arguments.parameter_count = len(given)
        return given

    def _like(
        self,
        device: Device,
        given: Sequence[tuple[ParameterInfo, View]],
        out: Mapping[str, Any] | None,
        stream: int,
        *,
        of_statistics: bool,
    ) -> dict[str, Any]:
        """Returns the arrays of `out`, or new ones with the shapes of the parameters, for statistics or for others."""
        result: dict[str, Any] = {}
        for info, view in given:
            if is_statistic(info.name) != of_statistics:
                continue
            if out is not None and info.name not in out:
                raise ValueError(f"statistics has no array for {info.name}: give all of them")
            one = None if out is None else out[info.name]
            result[info.name], _ = output_array(device, one, view.shape, "float32", stream, info.name)
        return result

    def _table(self, device: Device, arrays: Mapping[str, Any], stream: int, what: str) -> Any:
        """Returns the library's list of arrays for the parameters, of which those without an array have no data."""
        known = {info.name: number for number, info in enumerate(self._parameters)}
        table = (_abi.minuet_array * max(1, len(known)))()
        for name, array in arrays.items():
            if name not in known:
                raise KeyError(f"{what} has {name!r}, and the network has no such parameter")
            view = device_view(array, device, stream, f"{what}[{name!r}]")
            view.require_writable(f"{what}[{name!r}]", stream)
            table[known[name]] = view.to_array(f"{what}[{name!r}]")
        return table

    def _arrays(
        self,
        device: Device,
        pyramid: Pyramid,
        infos: Sequence[TensorInfo],
        out: Sequence[Any] | None,
        views: Sequence[tuple[View, str]],
        stream: int,
    ) -> list[Any]:
        """Returns `out`, or new arrays for tensors on the levels of the pyramid."""
        if out is not None:
            if len(out) != len(infos):
                raise ValueError(f"`out` has {len(out)} arrays, and {len(infos)} are needed")
            return list(out)
        arrays = []
        for info in infos:
            shape = [pyramid.rows_of(info), *info.shape[1:]]
            arrays.append(device.empty(shape, like_input(info.dtype, views), stream))
        return arrays
