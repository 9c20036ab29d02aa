"""Plans: networks and single ops, compiled for an architecture and loaded onto devices."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _abi
from ._arrays import host_floats
from ._compile_job import CompileJob
from ._device import Context, Device, Path
from ._infos import KernelCode, ParameterInfo, PlanInfo, TensorInfo, TunedChoice, told
from ._kernel import Offsets, kernel_lengths, require_ndim, set_geometry
from ._kernels import KernelVisitor, kernel_code, visitor_of
from ._library import (
    Callback,
    Handle,
    call,
    call_with,
    library,
    make,
    read_text,
    using,
)
from ._network_options import encoded_names, network_options
from ._types import (
    ELEMENT_NAMES,
    Activation,
    Axes,
    Dataflow,
    DType,
    KernelShape,
    PointwiseKind,
    Reduction,
    WeightsOrder,
    axes,
    choose,
    dtype_of,
)


@dataclass(frozen=True)
class Step:
    """One step of a pointwise chain.

    Args:
        kind: what it computes, such as "relu", "add" or PointwiseKind.AFFINE.
        number: the slope of LEAKY_RELU and its gradient, or the epsilon of LAYER_NORM and its gradient.
        scale, shift: of AFFINE, [channels] float32 on the host; None: 1 and 0.
    """

    kind: PointwiseKind | str
    number: float = 0.0
    scale: Any = None
    shift: Any = None


class Plan(Handle):
    """A network or one op: immutable, and shared by devices and threads. Made by one of the class methods, compiled for
    an architecture and loaded onto devices. In a forked child it may be compiled."""

    _may_be_used_after_fork = True

    def __init__(self) -> None:
        raise TypeError(
            "make a plan with Plan.network, Plan.convolution, Plan.pooling, Plan.pointwise or Plan.deserialize"
        )

    @classmethod
    def _make(cls, context: Context, name: str, *arguments: Any) -> Plan:
        plan = cls.__new__(cls)
        Handle.__init__(plan, make(name, context, *arguments), library.minuet_plan_destroy, context)
        plan._context = context
        return plan

    _context: Context

    @classmethod
    def network(
        cls,
        context: Context,
        name: str | None = None,
        *,
        description: str | Mapping[str, Any] | None = None,
        dtype: Any = DType.FLOAT32,
        channels: Sequence[int] | None = None,
        ndim: int = 0,
        weights: Path | None = None,
        seed: int = 0,
        weights_order: WeightsOrder | str = WeightsOrder.AS_DESCRIBED,
        allow_unused: bool = False,
        weights_prefix: str | None = None,
        weights_map: str | Mapping[str, str] | None = None,
        dataflow: Dataflow | str = Dataflow.AUTO,
        allow_non_finite_parameters: bool = False,
        without_values: bool = False,
        shape: Sequence[int] | None = None,
        in_channels: int = 0,
        weights_key: str | None = None,
    ) -> Plan:
        """Makes a plan of a network: a shipped one (shipped_networks()) by its name, or a JSON description.

        Args:
            context: where its kernels are compiled and kept.
            name: of a shipped network, such as "minkunet42". Give it or a description.
            description: the JSON text of a network, or the same as a dict.
            dtype: of features and weights.
            channels: other widths, as many as the description lists.
            weights: a safetensors file or a checkpoint of PyTorch; None: seeded random weights.
            seed: of the random weights.
            weights_order, weights_prefix, weights_map, weights_key: how to read the file (share/doc: WEIGHTS.md).
            allow_unused: the file may have tensors that no layer uses.
            allow_non_finite_parameters: parameters are taken as they are, infinite and NaN too.
            without_values: no values; executions get them from Parameters.
            shape: other cells of the input along each axis.
            in_channels: other channels of the input.

        Raises:
            NotFoundError: there is no such network or file.
            InvalidArgumentError: the description or the file is wrong; the message names the place.
        """
        options, _kept = network_options(
            name, description, dtype, channels, ndim, weights, seed, weights_order, allow_unused, weights_prefix,
            weights_map, dataflow, allow_non_finite_parameters, without_values, shape, in_channels, weights_key,
        )  # fmt: skip
        return cls._make(context, "minuet_plan_create_network", ctypes.byref(options))

    @classmethod
    def convolution(
        cls,
        context: Context,
        weight: Any = None,
        *,
        kernel_size: Axes = 1,
        stride: Axes = 1,
        dilation: Axes = 1,
        padding: Axes | None = None,
        kernel_shape: KernelShape | str = KernelShape.BOX,
        offsets: Offsets | None = None,
        ndim: int = 3,
        dtype: Any = DType.FLOAT32,
        in_channels: int | None = None,
        out_channels: int | None = None,
        groups: int = 1,
        submanifold: bool = False,
        transposed: bool = False,
        scale: Any = None,
        shift: Any = None,
        activation: Activation | str = Activation.NONE,
        negative_slope: float = 0.0,
        residual: bool = False,
        dataflow: Dataflow | str = Dataflow.AUTO,
        allow_non_finite_parameters: bool = False,
        with_scale_and_shift: bool = False,
        input_gradient: bool = False,
    ) -> Plan:
        """Makes a plan of one convolution, whose coordinate sets and kernel map are the caller's.

        Args:
            weight: float32 [K, in_channels / groups, out_channels] on the host, offsets x slowest, or [k_x, k_y, k_z,
                in, out]; copied. None: a plan without values, which executions get from Parameters.
            kernel_size, stride, dilation: for all axes or one each.
            padding: where given, the kernel map has the offsets of a dense convolution and this padding.
            kernel_shape, offsets: as of the KernelMap; the weight has the order of the offsets.
            in_channels, out_channels: needed without a weight only.
            scale, shift: [out_channels] float32 on the host: batch norm or bias, applied to the sum.
            activation: last, such as "relu" or "gelu".
            negative_slope: of "leaky_relu".
            residual: run takes a second input, which is added before the activation.
            with_scale_and_shift: without a weight: executions get a scale and a shift too.
            input_gradient: the plan computes the gradient of the convolution's input from that of its output, over
                KernelMap.transpose() of its map.
        """
        require_ndim(ndim)
        options = _abi.minuet_convolution_options(struct_size=ctypes.sizeof(_abi.minuet_convolution_options))
        kept = [set_geometry(options, ndim, kernel_size, stride, dilation, padding, kernel_shape, offsets)]
        lengths = kernel_lengths(ndim, kernel_size, kernel_shape, offsets)
        if weight is not None:
            values = host_floats(weight, "weight")
            in_channels, out_channels = _channels_of(values.shape, lengths, groups, in_channels, out_channels)
            options.weight, options.weight_count = values.ctypes.data, values.size
            kept.append(values)
        else:
            options.without_values = 1
            options.weight_count = math.prod(lengths) * (in_channels or 0) // max(1, groups) * (out_channels or 0)
            if scale is not None or shift is not None:
                raise ValueError("scale and shift need a weight: without one, use with_scale_and_shift and Parameters")
            if with_scale_and_shift:
                options.scale_count = options.shift_count = out_channels or 0
        if in_channels is None or out_channels is None:
            raise ValueError("a convolution without a weight needs in_channels and out_channels")
        for name, given in (("scale", scale), ("shift", shift)):
            if given is not None:
                values = host_floats(given, name)
                setattr(options, name, values.ctypes.data)
                setattr(options, f"{name}_count", values.size)
                kept.append(values)
        options.ndim, options.dtype = ndim, dtype_of(dtype)
        options.in_channels, options.out_channels, options.groups = in_channels, out_channels, groups
        options.submanifold, options.transposed = int(submanifold), int(transposed)
        options.activation = choose(Activation, activation, "activation")
        options.negative_slope, options.residual = negative_slope, int(residual)
        options.dataflow = choose(Dataflow, dataflow, "dataflow")
        options.allow_non_finite_parameters = int(allow_non_finite_parameters)
        if input_gradient:
            which = _abi.MINUET_GRADIENT_INPUT
            return cls._make(context, "minuet_plan_create_convolution_gradient", ctypes.byref(options), which)
        return cls._make(context, "minuet_plan_create_convolution", ctypes.byref(options))

    @classmethod
    def pooling(
        cls,
        context: Context,
        channels: int,
        reduction: Reduction | str = Reduction.MAX,
        *,
        kernel_size: Axes = 1,
        stride: Axes = 1,
        dilation: Axes = 1,
        padding: Axes | None = None,
        kernel_shape: KernelShape | str = KernelShape.BOX,
        offsets: Offsets | None = None,
        ndim: int = 3,
        dtype: Any = DType.FLOAT32,
        submanifold: bool = False,
        transposed: bool = False,
        winners: bool = False,
        input_gradient: bool = False,
    ) -> Plan:
        """Makes a plan of one pooling, whose coordinate sets and kernel map are the caller's.

        Args:
            channels: of the input and of the output.
            kernel_size, stride, dilation: for all axes or one each.
            padding: where given, the kernel map has the offsets of a dense convolution and this padding.
            kernel_shape, offsets: as of the KernelMap.
            ndim: the number of axes, 1 to 4.
            dtype: of the features.
            submanifold: the outputs are the input's set; the stride is 1.
            transposed: the kernel map leads from the coarser set to the finer.
            reduction: "max", "average" (over the inputs that are there) or "sum".
            winners: of a max: a second output, int32 [rows, channels], has the input row that each maximum is from,
                and -1 where an output has no input.
            input_gradient: the plan computes the gradient of the pooling's input from that of its output, over
                KernelMap.transpose() of its map. Of a max, its second input are the winners, int32.
        """
        options = _abi.minuet_pooling_options(struct_size=ctypes.sizeof(_abi.minuet_pooling_options))
        options.ndim, options.dtype, options.channels = ndim, dtype_of(dtype), channels
        kept = set_geometry(options, ndim, kernel_size, stride, dilation, padding, kernel_shape, offsets)
        options.reduction = choose(Reduction, reduction, "reduction")
        options.submanifold, options.transposed = int(submanifold), int(transposed)
        options.winners = int(winners)
        function = "minuet_plan_create_pooling_gradient" if input_gradient else "minuet_plan_create_pooling"
        plan = cls._make(context, function, ctypes.byref(options))
        del kept
        return plan

    @classmethod
    def space_to_channel(
        cls, context: Context, channels: int, stride: Axes, *, ndim: int = 3, dtype: Any = DType.FLOAT32
    ) -> Plan:
        """Makes a plan that puts the features of the children of each coarser cell side by side: [rows, channels] to
        [coarser rows, children * channels], with 0 for children that do not exist. Child k has the columns
        k * channels to (k + 1) * channels - 1, and the axis x is the slowest. The caller's kernel map leads to
        Coordinates.downsample of the stride, has that stride as its kernel size, and padding=0 where a stride is 3 or
        more.

        Args:
            channels: of the finer set.
            stride: for all axes or one each; 2 or more on an axis.
            ndim: the number of axes, 1 to 4.
            dtype: of the features.
        """
        return cls._space(context, "minuet_plan_create_space_to_channel", channels, stride, ndim, dtype)

    @classmethod
    def channel_to_space(
        cls, context: Context, channels: int, stride: Axes, *, ndim: int = 3, dtype: Any = DType.FLOAT32
    ) -> Plan:
        """Makes a plan of the way back from Plan.space_to_channel: each row gets its part of the features of its cell.
        It takes the transposed kernel map (KernelMap.transpose), and the same arguments."""
        return cls._space(context, "minuet_plan_create_channel_to_space", channels, stride, ndim, dtype)

    @classmethod
    def _space(cls, context: Context, function: str, channels: int, stride: Axes, ndim: int, dtype: Any) -> Plan:
        require_ndim(ndim)
        options = _abi.minuet_space_options(struct_size=ctypes.sizeof(_abi.minuet_space_options))
        options.ndim, options.dtype, options.channels = ndim, dtype_of(dtype), channels
        options.stride[:ndim] = axes(stride, ndim, "stride")
        return cls._make(context, function, ctypes.byref(options))

    @classmethod
    def pointwise(
        cls,
        context: Context,
        channels: int,
        steps: Iterable[Step | PointwiseKind | str],
        *,
        ndim: int = 3,
        dtype: Any = DType.FLOAT32,
        without_values: bool = False,
        allow_non_finite_parameters: bool = False,
    ) -> Plan:
        """Makes a plan of a chain of 1 to 8 pointwise steps, in one kernel: [rows, channels] to [rows, channels], or
        with "argmax" last to int32 [rows, 1]. "add", "multiply" and gradients such as "gelu_gradient" take one more
        input each. Its kernel map has one offset and leads from a set to itself.

        Args:
            channels: of the input, and of all steps.
            steps: each a Step, or its kind alone.
            ndim: the number of axes, 1 to 4.
            dtype: of the features.
            without_values: executions get scales and shifts from Parameters.
            allow_non_finite_parameters: scales and shifts may be infinite or NaN.

        Raises:
            ValueError: a scale or a shift is not of the shape [channels].
            InvalidArgumentError: the steps do not make a chain; the message names the step.
        """
        given = [step if isinstance(step, Step) else Step(step) for step in steps]
        kept: list[np.ndarray[Any, Any]] = []

        def floats(values: Any, what: str) -> int | None:
            if values is None:
                return None
            numbers = host_floats(values, what)
            if numbers.shape != (channels,):
                raise ValueError(f"{what} has the shape {list(numbers.shape)}, and [{channels}] is needed")
            kept.append(numbers)
            return int(numbers.ctypes.data)

        table = (_abi.minuet_pointwise_step * max(1, len(given)))()
        for place, (step, row) in enumerate(zip(given, table, strict=False)):
            row.kind = choose(PointwiseKind, step.kind, f"the kind of steps[{place}]")
            row.number = step.number
            row.scale = floats(step.scale, f"the scale of steps[{place}]")
            row.shift = floats(step.shift, f"the shift of steps[{place}]")
        options = _abi.minuet_pointwise_options(struct_size=ctypes.sizeof(_abi.minuet_pointwise_options))
        options.ndim, options.dtype, options.channels = ndim, dtype_of(dtype), channels
        options.step_count, options.steps = len(given), table
        options.step_bytes = ctypes.sizeof(_abi.minuet_pointwise_step)
        options.without_values = int(without_values)
        options.allow_non_finite_parameters = int(allow_non_finite_parameters)
        return cls._make(context, "minuet_plan_create_pointwise", ctypes.byref(options))

    @classmethod
    def deserialize(cls, context: Context, data: bytes | bytearray | memoryview) -> Plan:
        """Makes a plan of what serialize() gave, here or in another process. The bytes need a trusted source."""
        content = np.frombuffer(data, np.uint8)
        return cls._make(context, "minuet_plan_deserialize", content.ctypes.data, content.size)

    @property
    def context(self) -> Context:
        """The context that the plan was made with."""
        return self._context

    @property
    def info(self) -> PlanInfo:
        """Says what the plan is."""
        info = _abi.minuet_plan_info(struct_size=ctypes.sizeof(_abi.minuet_plan_info))
        with using(self) as (pointer,):  # The name lives as long as the plan.
            call("minuet_plan_query", pointer, ctypes.byref(info))
            return told(PlanInfo, info)

    @functools.cached_property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """The tensors that run takes, without parameters."""
        return tuple(self._tensor("minuet_plan_query_input", number) for number in range(self.info.inputs))

    @functools.cached_property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """The tensors that run gives."""
        return tuple(self._tensor("minuet_plan_query_output", number) for number in range(self.info.outputs))

    def _tensor(self, name: str, number: int) -> TensorInfo:
        info = _abi.minuet_tensor_info(struct_size=ctypes.sizeof(_abi.minuet_tensor_info))
        with using(self) as (pointer,):
            call(name, pointer, number, ctypes.byref(info))
            return TensorInfo(
                name=(info.name or b"").decode(),
                shape=tuple(info.shape[: info.rank]),
                tensor_stride=tuple(info.tensor_stride),
                level=info.level,
                channels=info.channels,
                dtype=ELEMENT_NAMES[info.element],
                axes=tuple(axis for axis in range(_abi.MINUET_MAX_DIM) if info.axes >> axis & 1),
            )

    @property
    def parameters(self) -> tuple[ParameterInfo, ...]:
        """The parameter tensors, in the order of their numbers."""
        result = []
        for number in range(self.info.parameter_tensors):
            info = _abi.minuet_parameter_info(struct_size=ctypes.sizeof(_abi.minuet_parameter_info))
            with using(self) as (pointer,):
                call("minuet_plan_query_parameter", pointer, number, ctypes.byref(info))
                result.append(ParameterInfo((info.name or b"").decode(), tuple(info.shape[: info.rank])))
        return tuple(result)

    @property
    def description(self) -> str:
        """The JSON description of a network, with the widths and heads that the plan has; "" for one op."""
        with using(self) as (pointer,):
            return read_text(library.minuet_plan_description, pointer)

    def compile(self, arch: str, visit: KernelVisitor | None = None) -> None:
        """Compiles every kernel that any cloud may need on `arch` ("sm_90a", Device.arch; "cpu" has no kernels) into
        the cache. Needs no GPU. `visit` is called once a kernel.

        Raises:
            InvalidArgumentError: there is no such architecture.
            UnavailableError: a kernel must be compiled, and NVRTC or the compile program is not there.
            FailedPreconditionError: a kernel is in no bundle and no cache, and the context has jit=False.
        """
        callback = Callback(_abi.minuet_kernel_visitor, visitor_of(visit))
        call_with([callback], "minuet_plan_compile", self, arch.encode(), callback.pointer, None)

    def compile_async(self, arch: str, done: Callable[[Exception | None], object] | None = None) -> CompileJob:
        """Starts a compile in a thread of its own. `done` is called at its end, from that thread, with the error or
        None; it must not wait for the job."""
        return CompileJob(self, arch, done)

    def load(self, device: Device) -> None:
        """Compiles for the device's architecture what has not been compiled, and loads kernels and weights onto it.

        Raises:
            ResourceExhaustedError: the device has no memory for the weights.
            Error: as compile().
        """
        self.compile(device.arch)
        call("minuet_plan_load", self, device)
        self._keep(device)

    def serialize(self, archs: Sequence[str] = (), *, with_values: bool = True) -> bytes:
        """Returns the plan as bytes, with its parameters and with the kernels for these architectures, which are
        compiled where they are missing. Needs no GPU.

        Args:
            archs: a list of names such as "sm_90a".
            with_values: whether the bytes have the values of the parameters.

        Raises:
            TypeError: archs is one text.
            Error: as compile().
        """
        encoded = encoded_names(archs, "archs")
        names = (ctypes.c_char_p * len(encoded))(*encoded) if encoded else None
        flags = 0 if with_values else _abi.MINUET_SERIALIZE_WITHOUT_VALUES
        size = ctypes.c_size_t()
        call("minuet_plan_serialize", self, names, len(archs), flags, None, 0, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        call("minuet_plan_serialize", self, names, len(archs), flags, buffer, size.value, ctypes.byref(size))
        return buffer.raw

    def kernels(self, arch: str) -> tuple[KernelCode, ...]:
        """Returns the kernels of each candidate of each layer, with all that a launch by the driver API needs. The plan
        must be compiled for just this `arch`. What they say holds for this very version of the library."""
        kernels: list[KernelCode] = []
        callback = Callback(
            _abi.minuet_kernel_code_visitor, lambda kernel, _: kernels.append(kernel_code(kernel.contents))
        )
        call_with([callback], "minuet_plan_visit_kernels", self, arch.encode(), callback.pointer, None)
        return tuple(kernels)

    def tuning(self) -> tuple[TunedChoice, ...]:
        """Returns every tuning result that the plan was made by (Context.load_tuning)."""
        choices: list[TunedChoice] = []
        callback = Callback(
            _abi.minuet_tuned_visitor, lambda choice, _: choices.append(told(TunedChoice, choice.contents))
        )
        call_with([callback], "minuet_plan_visit_tuning", self, callback.pointer, None)
        return tuple(choices)


def _channels_of(
    shape: tuple[int, ...], kernel: list[int], groups: int, in_channels: int | None, out_channels: int | None
) -> tuple[int, int]:
    """Returns the channels of a weight of this shape, which must be that of the kernel and of the given channels."""
    if groups < 1:
        raise ValueError(f"groups is {groups}, and must be 1 or more")
    ours: list[int | None] = [in_channels and in_channels // groups, out_channels]
    wanted = [[math.prod(kernel), *ours], [*kernel, *ours]]
    if not any(
        len(shape) == len(each) and all(want in (None, have) for want, have in zip(each, shape, strict=True))
        for each in wanted
    ):
        texts = [", ".join("any" if length is None else str(length) for length in each) for each in wanted]
        raise ValueError(
            f"weight has the shape {list(shape)}, and [{texts[0]}] or [{texts[1]}] is needed: the offsets of the "
            f"kernel of size {kernel}, then in_channels / groups and out_channels; check kernel_size and the order"
        )
    return shape[-2] * groups if in_channels is None else in_channels, shape[-1]
