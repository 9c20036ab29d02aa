"""Batch norm in training, and its gradients."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._arrays import device_view, stream_handle
from ._device import Context, Device
from ._library import Handle, call, library, make
from ._operands import matrix, output_array, place_count, place_workspace
from ._types import DType, dtype_of, element_of


@dataclass(frozen=True)
class Normalized:
    """What BatchNorm.forward and BatchNorm.apply give, in memory of the device.

    As their `out`, it has the arrays that are written; new memory is made for each that is None. The running statistics
    may be the arrays that the call reads, which are then updated in place.

    Args:
        output: [rows, channels] of the dtype; 0 in the rows that are not in use.
        saved: float32 [2 * channels + 1], for the gradients: means, inverse standard deviations, and the number of rows
            (of all ranks).
        running_mean, running_variance: float32 [channels], with running statistics; else None.
        batch_count: int64 [1], where the call was given one; else None.
    """

    output: Any = None
    saved: Any = None
    running_mean: Any = None
    running_variance: Any = None
    batch_count: Any = None


@dataclass(frozen=True)
class NormGradients:
    """What BatchNorm.backward and BatchNorm.sum_gradients give, in memory of the device.

    As their `out`, it has the arrays that are written; new memory is made for each that is None, but see `accumulate`
    and `residual`.

    Args:
        input: of backward: [rows, channels] of the dtype; 0 in the rows that are not in use. Else None.
        weight, bias: float32 [channels], of this rank's rows alone.
        residual: with a residual: [rows, channels] of the dtype. Without a ReLU it equals out_gradient in the rows in
            use, so that it is written only where `out` has it.
        sums: of sum_gradients: float32 [2 * channels], which the ranks add up for apply_gradients. Else None.
    """

    input: Any = None
    weight: Any = None
    bias: Any = None
    residual: Any = None
    sums: Any = None


def require_eps(eps: float) -> None:
    """Raises ValueError unless eps is finite and above 0 in float32. The library takes 0 as its default."""
    if not 0 < ctypes.c_float(eps).value < math.inf:
        raise ValueError(f"eps is {eps}, and it must be above 0 and finite in float32, because a variance may be 0")


class BatchNorm(Handle):
    """Normalizes the channels of a batch by its own mean and variance, as batch norm does in training, and computes the
    gradients. May be used from many threads. Results repeat bit by bit, with any number of rows that are not in use.

    output = (input - mean) / sqrt(variance + eps) * weight + bias, plus a residual, then a ReLU, in one pass; the
    variance is the biased one. At inference a batch norm is a part of Plan.convolution (`scale` and `shift`), or an
    "affine" step of Plan.pointwise.

    One rank calls forward() and backward(). Several ranks share statistics: sum(), then the caller gathers the moments
    of all ranks, then apply(); sum_gradients(), then the caller adds up the sums of all ranks, then apply_gradients().
    With one rank these give the same bits as the two calls in one.

    Calls only enqueue on `stream`, once memory is there: with every array of `out` and a workspace they may be captured
    in a graph. A workspace is memory of bytes(); None: new memory, which is given back at the end of the call, so that
    on a GPU the call waits for the work.

    Arrays are on the device, and features have the dtype of the op, with any stride between rows. Nothing that a call
    writes may overlap another array of it, except that running statistics may be updated in place. Calls raise
    ValueError or TypeError for an array of another shape or dtype, InvalidArgumentError for one that is missing,
    overlaps, or belongs to an option that the op does not have, ResourceExhaustedError for a workspace that is too
    small, and FailedPreconditionError without load().

    Args:
        context: where its kernels are compiled and kept.
        channels: 1 to 65536.
        eps: added to the variance; positive in float32.
        running_mean: whether forward() and apply() update a running mean and a running (unbiased) variance.
        momentum: with running statistics: the share of this batch in them, above 0 and at most 1. Without them, or
            with `cumulative`, 0.
        cumulative: the share is 1 divided by the batches so far, this one included, which batch_count counts.
        residual: whether a residual is added to the normalized input.
        relu: whether negative results become 0; NaN stays NaN.
        ndim: results do not depend on it; ops with the same number share what load() makes.
        dtype: of the features and their gradients. Statistics, weight and bias are float32.

    Raises:
        InvalidArgumentError: an option is out of its range; the message names it.
    """

    def __init__(
        self,
        context: Context,
        channels: int,
        *,
        eps: float = 1e-5,
        running_mean: bool = False,
        momentum: float = 0.0,
        cumulative: bool = False,
        residual: bool = False,
        relu: bool = False,
        ndim: int = 3,
        dtype: Any = DType.FLOAT32,
    ) -> None:
        require_eps(eps)
        options = _abi.minuet_batch_norm_options(struct_size=ctypes.sizeof(_abi.minuet_batch_norm_options))
        options.ndim, options.dtype, options.channels, options.eps = ndim, dtype_of(dtype), channels, eps
        options.has_running_mean, options.momentum = int(running_mean), momentum
        options.is_cumulative = int(cumulative)
        options.has_residual, options.has_relu = int(residual), int(relu)
        self._channels, self._dtype = channels, dtype_of(dtype)
        self._has_running_mean, self._has_residual, self._has_relu = running_mean, residual, relu
        super().__init__(
            make("minuet_batch_norm_create", context, ctypes.byref(options)),
            library.minuet_batch_norm_destroy,
            context,
        )

    def bytes(self, arch: str, most_rows: int) -> int:
        """Returns the bytes of the workspace of any call with at most so many rows, without a device."""
        size = ctypes.c_int64()
        call("minuet_batch_norm_bytes", self, arch.encode(), most_rows, ctypes.byref(size))
        return size.value

    def load(self, device: Device) -> None:
        """Compiles and loads the kernels; the calls below need it once for a device."""
        call("minuet_batch_norm_load", self, device)
        self._keep(device)

    def forward(
        self,
        device: Device,
        input: Any,
        *,
        residual: Any = None,
        weight: Any = None,
        bias: Any = None,
        running_mean: Any = None,
        running_variance: Any = None,
        batch_count: Any = None,
        row_count: Any = None,
        out: Normalized | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> Normalized:
        """Normalizes by the statistics of these rows.

        Args:
            input: [rows, channels].
            residual: with a residual: [rows, channels].
            weight, bias: float32 [channels]; None: 1 and 0.
            running_mean, running_variance: with running statistics: float32 [channels], those before this batch.
            batch_count: int64 [1], the batches before this one; with `cumulative` it is required.
            row_count: how many rows are in use, int32 [1]; None: all. A count that is not 0 to the number of rows
                counts as 0.
            out: the arrays that are written, of the same shapes; None: new memory.
        """
        handle = stream_handle(stream)
        arguments = self._input(device, input, row_count, handle)
        self._read_apply(arguments, device, residual, weight, bias, handle)
        result = self._write_apply(arguments, device, running_mean, running_variance, batch_count, out, handle)
        self._run("minuet_batch_norm_forward", arguments, device, handle, workspace)
        return result

    def sum(
        self,
        device: Device,
        input: Any,
        *,
        row_count: Any = None,
        out: Any = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> Any:
        """Returns the moments of this rank's rows, float32 [2 * channels + 1]: the means, the sums of squared
        differences from the mean, and the number of rows. `input` and `row_count` are those of forward().

        Args:
            out: the array to write to; None: new memory.
        """
        handle = stream_handle(stream)
        arguments = self._input(device, input, row_count, handle)
        shape = (2 * self._channels + 1,)
        moments, arguments.moments = output_array(device, out, shape, "float32", handle, "moments")
        self._run("minuet_batch_norm_sum", arguments, device, handle, workspace)
        return moments

    def apply(
        self,
        device: Device,
        input: Any,
        all_moments: Any,
        *,
        residual: Any = None,
        weight: Any = None,
        bias: Any = None,
        running_mean: Any = None,
        running_variance: Any = None,
        batch_count: Any = None,
        row_count: Any = None,
        out: Normalized | None = None,
        stream: Any = None,
    ) -> Normalized:
        """Merges the moments of all ranks and normalizes this rank's rows. Needs no workspace.

        Args:
            all_moments: float32 [ranks, 2 * channels + 1], what sum() gave on each rank. Every rank takes them in the
                same order, and may have another number of rows.

        All others are those of forward().
        """
        handle = stream_handle(stream)
        arguments = self._input(device, input, row_count, handle)
        moments = device_view(all_moments, device, handle, "all_moments")
        moments.require("all_moments", "float32", (None, 2 * self._channels + 1))
        moments.require_contiguous("all_moments")
        arguments.all_moments, arguments.ranks = moments.address or None, moments.shape[0]
        self._read_apply(arguments, device, residual, weight, bias, handle)
        result = self._write_apply(arguments, device, running_mean, running_variance, batch_count, out, handle)
        self._run("minuet_batch_norm_apply", arguments, device, handle)
        return result

    def backward(
        self,
        device: Device,
        input: Any,
        out_gradient: Any,
        saved: Any,
        *,
        output: Any = None,
        weight: Any = None,
        bias: Any = None,
        row_count: Any = None,
        accumulate: bool = False,
        out: NormGradients | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> NormGradients:
        """Computes the gradients, by the sums of these rows.

        Args:
            input, weight, bias, row_count: those of forward().
            out_gradient: the gradient of the output, [rows, channels].
            saved: float32 [2 * channels + 1], that forward() gave.
            output: that forward() gave, with both a residual and a ReLU; else None.
            accumulate: the gradients of weight and bias are added to the arrays in `out`. One that `out` does not have
                is not computed.
            out: the arrays that are written; None: new memory.
        """
        handle = stream_handle(stream)
        arguments = self._gradient_input(device, input, saved, weight, bias, row_count, handle)
        result = self._sum_gradients(arguments, device, out_gradient, output, accumulate, out, "sums", handle)
        result["input"], arguments.input_gradient = self._rows(
            arguments, device, getattr(out, "input", None), handle, "input_gradient"
        )
        self._run("minuet_batch_norm_backward", arguments, device, handle, workspace)
        return NormGradients(**result)

    def sum_gradients(
        self,
        device: Device,
        input: Any,
        out_gradient: Any,
        saved: Any,
        *,
        output: Any = None,
        weight: Any = None,
        bias: Any = None,
        row_count: Any = None,
        accumulate: bool = False,
        out: NormGradients | None = None,
        workspace: Any = None,
        stream: Any = None,
    ) -> NormGradients:
        """Computes the sums of this rank's rows, and all gradients but that of the input. Arguments are those of
        backward(), with what apply() gave in place of forward()."""
        handle = stream_handle(stream)
        arguments = self._gradient_input(device, input, saved, weight, bias, row_count, handle)
        result = self._sum_gradients(arguments, device, out_gradient, output, accumulate, out, "input", handle)
        shape = (2 * self._channels,)
        result["sums"], arguments.sums = output_array(
            device, getattr(out, "sums", None), shape, "float32", handle, "sums"
        )
        self._run("minuet_batch_norm_sum_gradients", arguments, device, handle, workspace)
        return NormGradients(**result)

    def apply_gradients(
        self,
        device: Device,
        input: Any,
        out_gradient: Any,
        saved: Any,
        sums: Any,
        *,
        residual_gradient: Any = None,
        weight: Any = None,
        bias: Any = None,
        row_count: Any = None,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Returns the gradient of the input, [rows, channels], by the sums over all ranks. Needs no workspace.

        Args:
            input, saved, weight, bias, row_count: those of sum_gradients().
            out_gradient: that of sum_gradients(). With both a residual and a ReLU it is not read, and may be None.
            sums: float32 [2 * channels], the sums of all ranks, added up.
            residual_gradient: that sum_gradients() gave, with both a residual and a ReLU; else None.
            out: the array to write to; None: new memory.
        """
        handle = stream_handle(stream)
        arguments = self._gradient_input(device, input, saved, weight, bias, row_count, handle)
        rows = arguments.input.rows
        for name, given in (("out_gradient", out_gradient), ("residual_gradient", residual_gradient)):
            if given is not None:
                tensor = matrix(device, given, rows, self._channels, self._dtype, handle, name)
                setattr(arguments, name, tensor)
        self._read(arguments, "sums", sums, 2 * self._channels, device, handle)
        result, arguments.input_gradient = self._rows(arguments, device, out, handle, "input_gradient")
        self._run("minuet_batch_norm_apply_gradients", arguments, device, handle)
        return result

    def _run(self, name: str, arguments: Any, device: Device, stream: int, *workspace: Any) -> None:
        """Calls a function of the library; `workspace`: what the caller gave, of a function that needs one."""
        held = [
            place_workspace(arguments, given, lambda: self.bytes(device.arch, arguments.input.rows), device, stream)
            for given in workspace
        ]
        call(name, self, device, ctypes.byref(arguments), stream)
        del held

    def _input(self, device: Device, input: Any, row_count: Any, stream: int) -> _abi.minuet_batch_norm_arguments:
        """Returns arguments with the rows that every forward call reads."""
        arguments = _abi.minuet_batch_norm_arguments(struct_size=ctypes.sizeof(_abi.minuet_batch_norm_arguments))
        arguments.input = matrix(device, input, None, self._channels, self._dtype, stream, "input")
        place_count(arguments, "row_count", row_count, device, stream)
        return arguments

    def _gradient_input(
        self, device: Device, input: Any, saved: Any, weight: Any, bias: Any, row_count: Any, stream: int
    ) -> _abi.minuet_batch_norm_gradient_arguments:
        """Returns arguments with what every call for gradients reads."""
        arguments = _abi.minuet_batch_norm_gradient_arguments(
            struct_size=ctypes.sizeof(_abi.minuet_batch_norm_gradient_arguments)
        )
        arguments.input = matrix(device, input, None, self._channels, self._dtype, stream, "input")
        place_count(arguments, "row_count", row_count, device, stream)
        self._read(arguments, "saved", saved, 2 * self._channels + 1, device, stream)
        self._read(arguments, "weight", weight, self._channels, device, stream)
        self._read(arguments, "bias", bias, self._channels, device, stream)
        return arguments

    def _read(
        self, arguments: Any, name: str, given: Any, length: int, device: Device, stream: int, kind: str = "float32"
    ) -> None:
        """Fills in numbers that a call reads; whether they may be None, the library knows."""
        if given is None:
            return
        found = device_view(given, device, stream, name)
        found.require(name, kind, (length,))
        found.require_contiguous(name)
        setattr(arguments, name, found.address)

    def _rows(self, arguments: Any, device: Device, out: Any, stream: int, what: str) -> tuple[Any, _abi.minuet_tensor]:
        """Returns `out`, or a new array, of as many rows as the input has, and the library's form of it."""
        rows = arguments.input.rows
        result = device.empty((rows, self._channels), element_of(self._dtype), stream) if out is None else out
        tensor = matrix(device, result, rows, self._channels, self._dtype, stream, what, is_written=True)
        return result, tensor

    def _read_apply(
        self,
        arguments: _abi.minuet_batch_norm_arguments,
        device: Device,
        residual: Any,
        weight: Any,
        bias: Any,
        stream: int,
    ) -> None:
        if residual is not None:
            rows = arguments.input.rows
            arguments.residual = matrix(device, residual, rows, self._channels, self._dtype, stream, "residual")
        self._read(arguments, "weight", weight, self._channels, device, stream)
        self._read(arguments, "bias", bias, self._channels, device, stream)

    def _write_apply(
        self,
        arguments: _abi.minuet_batch_norm_arguments,
        device: Device,
        running_mean: Any,
        running_variance: Any,
        batch_count: Any,
        out: Normalized | None,
        stream: int,
    ) -> Normalized:
        """Fills in the running statistics and what forward() and apply() write."""
        self._read(arguments, "running_mean", running_mean, self._channels, device, stream)
        self._read(arguments, "running_variance", running_variance, self._channels, device, stream)
        self._read(arguments, "batch_count", batch_count, 1, device, stream, "int64")
        written: dict[str, Any] = {}
        written["output"], arguments.output = self._rows(
            arguments, device, getattr(out, "output", None), stream, "output"
        )
        for name, field, length, kind, is_needed in (
            ("saved", "saved", 2 * self._channels + 1, "float32", True),
            ("running_mean", "new_running_mean", self._channels, "float32", self._has_running_mean),
            ("running_variance", "new_running_variance", self._channels, "float32", self._has_running_mean),
            ("batch_count", "new_batch_count", 1, "int64", batch_count is not None),
        ):
            given = getattr(out, name, None)
            if is_needed or given is not None:
                written[name], address = output_array(device, given, (length,), kind, stream, field)
                setattr(arguments, field, address)
        return Normalized(**written)

    def _sum_gradients(
        self,
        arguments: _abi.minuet_batch_norm_gradient_arguments,
        device: Device,
        out_gradient: Any,
        output: Any,
        accumulate: bool,
        out: NormGradients | None,
        unused: str,
        stream: int,
    ) -> dict[str, Any]:
        """Fills in what backward() and sum_gradients() share, and returns the arrays that they write. `unused` names
        the field of `out` that the call does not write."""
        if getattr(out, unused, None) is not None:
            raise ValueError(f"out has {unused}, which this call does not write: leave it out")
        rows = arguments.input.rows
        for name, given in (("out_gradient", out_gradient), ("output", output)):
            if given is not None:
                setattr(arguments, name, matrix(device, given, rows, self._channels, self._dtype, stream, name))
        written: dict[str, Any] = {}
        arguments.accumulate = int(accumulate)
        for name in ("weight", "bias"):
            given = getattr(out, name, None)
            if given is None and accumulate:
                continue
            field = f"{name}_gradient"
            written[name], address = output_array(device, given, (self._channels,), "float32", stream, field)
            setattr(arguments, field, address)
        if accumulate and not written:
            raise ValueError("accumulate is set, and out has neither weight nor bias to add to: give one")
        residual = getattr(out, "residual", None)
        if residual is not None or (self._has_residual and self._has_relu):
            written["residual"], arguments.residual_gradient = self._rows(
                arguments, device, residual, stream, "residual_gradient"
            )
        return written
