"""Gradients of the parameters of convolutions and of affine steps."""

from __future__ import annotations

import ctypes
from typing import Any

from . import _abi
from ._arrays import device_view, stream_handle
from ._device import Context, Device
from ._kernel import Offsets, set_geometry
from ._library import Handle, call, library, make
from ._operands import matrix, place_count, place_workspace
from ._types import Axes, DType, KernelShape, WeightsOrder, choose, dtype_of


class ParameterGradients(Handle):
    """Computes the gradients of a convolution's weight and bias, from a list of the pairs of its kernel map
    (KernelMap.list_pairs, Pyramid.export_pairs). May be used from many threads. Results repeat bit by bit.

    The gradient of the input is a plan: Plan.convolution with `input_gradient`.

    Args:
        context: where its kernels are compiled and kept.
        kernel_size, stride, dilation, padding, groups, submanifold, transposed: those of the convolution.
        weight, bias: which gradients are computed.
    """

    def __init__(
        self,
        context: Context,
        in_channels: int,
        out_channels: int,
        *,
        kernel_size: Axes = 1,
        stride: Axes = 1,
        dilation: Axes = 1,
        padding: Axes | None = None,
        kernel_shape: KernelShape | str = "box",
        offsets: Offsets | None = None,
        ndim: int = 3,
        dtype: Any = DType.FLOAT32,
        groups: int = 1,
        submanifold: bool = False,
        transposed: bool = False,
        weight: bool = True,
        bias: bool = False,
    ) -> None:
        options = _abi.minuet_convolution_options(struct_size=ctypes.sizeof(_abi.minuet_convolution_options))
        options.ndim, options.dtype = ndim, dtype_of(dtype)
        options.in_channels, options.out_channels, options.groups = in_channels, out_channels, groups
        kept = set_geometry(options, ndim, kernel_size, stride, dilation, padding, kernel_shape, offsets)
        options.submanifold, options.transposed = int(submanifold), int(transposed)
        which = _abi.MINUET_GRADIENT_WEIGHT * int(weight) + _abi.MINUET_GRADIENT_BIAS * int(bias)
        self._in_channels, self._out_channels, self._dtype = in_channels, out_channels, dtype_of(dtype)
        self._is_affine = False
        pointer = make("minuet_gradient_create", context, ctypes.byref(options), which)
        del kept
        super().__init__(pointer, library.minuet_gradient_op_destroy, context)

    @classmethod
    def affine(
        cls,
        context: Context,
        channels: int,
        *,
        epsilon: float = 0.0,
        dtype: Any = DType.FLOAT32,
        scale: bool = True,
        shift: bool = True,
    ) -> ParameterGradients:
        """Makes an op for the gradients of the scale and the shift of an "affine" step (Plan.pointwise). compute()
        writes that of the scale, [channels], to `weight_gradient`, and that of the shift to `bias_gradient`, and reads
        no pairs.

        Args:
            channels: of the input and of the output.
            epsilon: above 0: the step reads the layer norm of `input` with this epsilon.
            dtype: of the features.
            scale, shift: which gradients are computed.
        """
        options = _abi.minuet_affine_gradient_options(struct_size=ctypes.sizeof(_abi.minuet_affine_gradient_options))
        options.dtype, options.channels, options.epsilon = dtype_of(dtype), channels, epsilon
        which = _abi.MINUET_GRADIENT_WEIGHT * int(scale) + _abi.MINUET_GRADIENT_BIAS * int(shift)
        made = cls.__new__(cls)
        made._in_channels, made._out_channels, made._dtype, made._is_affine = channels, channels, dtype_of(dtype), True
        pointer = make("minuet_gradient_create_affine", context, ctypes.byref(options), which)
        Handle.__init__(made, pointer, library.minuet_gradient_op_destroy, context)
        return made

    def bytes(self, arch: str, most_pairs: int, most_rows: int) -> int:
        """Returns the bytes of the workspace for so many pairs and output rows, without a device."""
        size = ctypes.c_int64()
        call("minuet_gradient_bytes", self, arch.encode(), most_pairs, most_rows, ctypes.byref(size))
        return size.value

    def load(self, device: Device) -> None:
        """Compiles and loads the kernels; compute() needs it once for a device."""
        call("minuet_gradient_op_load", self, device)
        self._keep(device)

    def compute(
        self,
        device: Device,
        out_gradient: Any,
        *,
        input: Any = None,
        pairs: Any = None,
        pair_count: Any = None,
        row_count: Any = None,
        weight_gradient: Any = None,
        bias_gradient: Any = None,
        order: WeightsOrder | str = WeightsOrder.MINUET,
        accumulate: bool = False,
        swapped: bool = False,
        workspace: Any = None,
        stream: Any = None,
    ) -> None:
        """Writes the gradients to arrays on the device. Only enqueues with a workspace, and may then be captured.

        Args:
            out_gradient: the gradient of the output, [rows, out_channels].
            input: for the weight: the convolution's input, [rows, in_channels].
            pairs: for the weight: int32 [pairs, 3], in ascending order of the offsets.
            pair_count, row_count: optional: how many pairs and output rows there are, int32 [1] on the device.
            weight_gradient: float32, in the shape and order that `order` says, with any strides.
            bias_gradient: float32 [out_channels].
            accumulate: the gradients are added to what is there.
            swapped: a pair is (offset, output row, input row), as Pyramid.export_pairs gives those of a transposed
                convolution.
            workspace: memory of bytes(); None: new memory, which is given back at the end of the call, so that on a
                GPU the call waits for the work.
        """
        handle = stream_handle(stream)
        arguments = _abi.minuet_gradient_arguments(struct_size=ctypes.sizeof(_abi.minuet_gradient_arguments))
        arguments.out_gradient = matrix(
            device, out_gradient, None, self._out_channels, self._dtype, handle, "out_gradient"
        )
        if input is not None:
            arguments.input = matrix(device, input, None, self._in_channels, self._dtype, handle, "input")
        if pairs is not None:
            found = device_view(pairs, device, handle, "pairs")
            found.require("pairs", "int32", (None, 3))
            found.require_contiguous("pairs")
            arguments.pairs, arguments.most_pairs = found.address or None, found.shape[0]
        for name, given in (("pair_count", pair_count), ("row_count", row_count)):
            place_count(arguments, name, given, device, handle)
        if weight_gradient is not None:
            target = device_view(weight_gradient, device, handle, "weight_gradient")
            target.require_writable("weight_gradient", handle)
            arguments.weight_gradient = ctypes.pointer(target.to_array("weight_gradient"))
        if bias_gradient is not None:
            target = device_view(bias_gradient, device, handle, "bias_gradient")
            target.require("bias_gradient", "float32", (self._out_channels,))
            target.require_contiguous("bias_gradient")
            target.require_writable("bias_gradient", handle)
            arguments.bias_gradient = target.address
        arguments.weights_order = choose(WeightsOrder, order, "order")
        if weight_gradient is None or self._is_affine:
            arguments.weights_order = 0
        arguments.accumulate, arguments.swapped = int(accumulate), int(swapped)
        most = (arguments.most_pairs, arguments.out_gradient.rows)
        held = place_workspace(arguments, workspace, lambda: self.bytes(device.arch, *most), device, handle)
        call("minuet_gradient_compute", self, device, ctypes.byref(arguments), handle)
        del held
