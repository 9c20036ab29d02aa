"""Executions: one caller's use of a loaded plan."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from . import _abi
from ._arrays import View, device_view, stream_handle
from ._device import Device, Queue
from ._index import slots_of
from ._infos import Cloud, ExecutionCounters, ExecutionInfo, LayerInfo, LevelInfo, StageTimes, TensorInfo, told
from ._integers import integers
from ._library import Handle, call, library, make, using
from ._operands import int32_output, memory_view
from ._parameters import Parameters
from ._plan import Plan
from ._sets import Bounds, KernelMap, set_bounds
from ._types import CloudStatus, MapMethod, choose


def execution_options(
    ndim: int,
    max_points: int,
    keep_first_duplicate: bool,
    bounds: Bounds | None,
    scratch_bytes: int,
    level_capacity: Sequence[int] | None,
    level_slots: Sequence[int] | None,
    key_bits: int,
    map_method: MapMethod | str,
    parameter_inputs: bool,
    batch_size: int,
) -> tuple[_abi.minuet_execution_options, Any]:
    """Returns the options that workspace_bytes and executions share, and the memory that they point to."""
    options = _abi.minuet_execution_options(struct_size=ctypes.sizeof(_abi.minuet_execution_options))
    options.max_points = max_points
    options.keep_first_duplicate = int(keep_first_duplicate)
    set_bounds(options, bounds, ndim)
    options.scratch_bytes = scratch_bytes
    capacities = None
    slots = slots_of(level_slots, len(level_capacity or ()))
    if slots is not None:
        options.level_slots = ctypes.addressof(slots)
    if level_capacity is not None:
        capacities = integers(ctypes.c_int64, level_capacity, "level_capacity")
        options.level_capacity = ctypes.addressof(capacities)
        options.level_count = len(level_capacity)
    options.key_bits = key_bits
    options.map_method = choose(MapMethod, map_method, "map_method")
    options.parameter_inputs = int(parameter_inputs)
    options.batch_size = batch_size
    return options, (capacities, slots)


def workspace_bytes(
    plan: Plan,
    arch: str,
    *,
    max_points: int = 0,
    max_neighbours: float = 0.0,
    level_capacity: Sequence[int] | None = None,
    level_slots: Sequence[int] | None = None,
    keep_first_duplicate: bool = False,
    bounds: Bounds | None = None,
    scratch_bytes: int = 0,
    key_bits: int = 0,
    map_method: MapMethod | str = MapMethod.AUTO,
    batch_size: int = 0,
) -> int:
    """Returns the bytes of workspace that an execution of the plan needs, without a device.

    Args:
        plan: must be compiled for `arch`.
        max_points, max_neighbours: exact mode: the most points of a cloud, and the most inputs per output and kernel
            map on average.
        level_capacity, level_slots: capacity mode: exactly what an execution with these options takes.
    """
    options, _kept = execution_options(
        plan.info.ndim, 0, keep_first_duplicate, bounds, scratch_bytes, level_capacity, level_slots, key_bits,
        map_method, False, batch_size,
    )  # fmt: skip
    size = ctypes.c_int64()
    call(
        "minuet_plan_workspace_bytes", plan, arch.encode(), ctypes.byref(options), max_points, max_neighbours,
        ctypes.byref(size),
    )  # fmt: skip
    return size.value


def array_table(views: Sequence[tuple[View, str]]) -> Any:
    """Returns the library's arrays for views, each with its name in messages."""
    table = (_abi.minuet_array * max(1, len(views)))()
    for row, (found, what) in enumerate(views):
        table[row] = found.to_array(what)
    return table


def _tensor_view(given: Any, info: TensorInfo, device: Device, stream: int, what: str) -> tuple[View, str]:
    found = device_view(given, device, stream, what)
    kind = "bool" if info.dtype == "uint8" and found.kind == "bool" else info.dtype  # A mask may have either.
    found.require(what, kind, [None if length < 0 else length for length in info.shape])
    return found, what


def input_view(given: Any, info: TensorInfo, device: Device, stream: int) -> tuple[View, str]:
    """Finds an input of a run; the library checks its rows."""
    return _tensor_view(given, info, device, stream, f"the input {info.name!r}")


def output_view(given: Any, info: TensorInfo, device: Device, stream: int) -> tuple[View, str]:
    """Finds an output of a run; the library checks its rows."""
    result = _tensor_view(given, info, device, stream, f"the output {info.name!r}")
    result[0].require_writable(result[1], stream)
    return result


def like_input(dtype: str, views: Sequence[tuple[View, str]]) -> str:
    """Returns the dtype of a new output: bfloat16 as uint16 where the caller's first input has its bits so."""
    return "uint16" if dtype == "bfloat16" and views and views[0][0].kind == "uint16" else dtype


class Execution(Handle):
    """One caller's use of a loaded plan on a device: memory, streams and what is prepared.

    It serves one thread at a time: a call that meets another's raises FailedPreconditionError and changes nothing.
    Different executions may run in different threads. Its calls must be ordered on the device too: one stream, or
    events between them.

    A captured graph of its calls uses its memory. Keep the execution as long as the graph is replayed: Python ends an
    execution when nothing refers to it any more.

    Args:
        plan: must be loaded on the device.
        device: where it runs.
        max_points: room for coordinates and maps to begin with.
        keep_first_duplicate: of equal coordinates the first row wins; else they are an error.
        bounds: (least, greatest), inclusive and batch first, in which all coordinates lie.
        workspace: optional: memory of the device that it works in, which never grows. It begins on a multiple of 256
            bytes.
        queue: optional; scratch lies there.
        scratch_bytes: what a layer's buffers may take together; 0: the default.
        level_capacity: the most voxels of each level, which puts the execution in capacity mode: sizes live on the
            device, and prepare and run only enqueue.
        level_slots: with level_capacity, the slots of each level's hash table (suggest_slots); 0: the default.
        key_bits: 32 or 64; 0: 64.
        map_method: how sets and maps are made.
        defer_workspace: set_workspace gives the memory before the first prepare.
        parameters: values in place of the plan's own.
        parameter_inputs: run takes the plan's parameters behind the features.
        batch_size: the number of batch items; a network with a dense tensor or a global pooling needs it.
    """

    def __init__(
        self,
        plan: Plan,
        device: Device,
        *,
        max_points: int = 0,
        keep_first_duplicate: bool = False,
        bounds: Bounds | None = None,
        workspace: Any = None,
        queue: Queue | None = None,
        scratch_bytes: int = 0,
        level_capacity: Sequence[int] | None = None,
        level_slots: Sequence[int] | None = None,
        key_bits: int = 0,
        map_method: MapMethod | str = MapMethod.AUTO,
        defer_workspace: bool = False,
        parameters: Parameters | None = None,
        parameter_inputs: bool = False,
        batch_size: int = 0,
    ) -> None:
        info = plan.info
        options, _kept = execution_options(
            info.ndim, max_points, keep_first_duplicate, bounds, scratch_bytes, level_capacity, level_slots, key_bits,
            map_method, parameter_inputs, batch_size,
        )  # fmt: skip
        options.defer_workspace = int(defer_workspace)
        memory = None if workspace is None else memory_view(workspace, device, 0, "workspace")
        if memory is not None:
            options.workspace, options.workspace_bytes = memory.memory
        with using(queue, parameters) as (options.queue, options.parameters):
            pointer = make("minuet_execution_create", plan, device, ctypes.byref(options))
        super().__init__(pointer, library.minuet_execution_destroy, plan, device, queue, parameters)
        self._plan, self._device, self._queue, self._parameters = plan, device, queue, parameters
        self._info, self._inputs, self._outputs = info, plan.inputs, plan.outputs
        self._parameter_infos = plan.parameters if parameter_inputs else ()
        self._batch_size = batch_size
        # A network that takes points ends with two inputs of integers, which may be left out.
        self._takes_points = [(item.name, item.dtype) for item in self._inputs[-2:]] == [
            ("batch", "int32"),
            ("count", "int32"),
        ]
        # The cell outlives this object where the execution is in a call, and so must the memory.
        self._cell.memory = memory

    @property
    def plan(self) -> Plan:
        """The plan that runs."""
        return self._plan

    @property
    def device(self) -> Device:
        """Says where it runs."""
        return self._device

    @property
    def info(self) -> ExecutionInfo:
        """Says what a caller must know before it gives memory or captures calls."""
        info = _abi.minuet_execution_info(struct_size=ctypes.sizeof(_abi.minuet_execution_info))
        call("minuet_execution_query", self, ctypes.byref(info))
        return told(ExecutionInfo, info)

    def _coordinates(self, coordinates: Any, stream: int) -> View:
        found = device_view(coordinates, self._device, stream, "coordinates")
        found.require("coordinates", "int32", (None, 1 + self._info.ndim))
        found.require_contiguous("coordinates")
        return found

    def prepare(self, coordinates: Any, stream: Any = None) -> None:
        """Builds all coordinate sets and kernel maps of a network for one cloud.

        Args:
            coordinates: int32 [count, 1 + ndim] in memory of the device, batch first. Read during the call only, but
                in capacity mode, where the call only enqueues.
            stream: in exact mode the call waits for it.

        Raises:
            InvalidArgumentError: duplicates.
            OutOfRangeError: a coordinate is outside the bounds.
        """
        handle = stream_handle(stream)
        found = self._coordinates(coordinates, handle)
        call("minuet_execution_prepare", self, found.address, found.shape[0], handle)

    def prepare_on_device(self, coordinates: Any, count: Any, stream: Any = None) -> None:
        """Does the same in capacity mode, with the number of coordinates, int32 [1], in memory of the device, which is
        read whenever the work runs. Rows past it are not read."""
        handle = stream_handle(stream)
        found = self._coordinates(coordinates, handle)
        number = device_view(count, self._device, handle, "count")
        number.require("count", "int32", (1,))
        call("minuet_execution_prepare_on_device", self, found.address, number.address, handle)

    def prepare_maps(self, *maps: KernelMap, stream: Any = None) -> None:
        """Takes the kernel maps of a single op, and makes what its kernels read of them."""
        with using(*maps) as pointers:
            handles = (ctypes.c_void_p * max(1, len(maps)))(*pointers)
            call("minuet_execution_prepare_maps", self, handles, len(maps), stream_handle(stream))

    def output_shape(self, output: int = 0) -> tuple[int, ...]:
        """Returns the shape of an output for what is prepared."""
        if not 0 <= output < len(self._outputs):
            raise IndexError(f"there is no output {output}: the plan has {len(self._outputs)}, counted from 0")
        shape = self._outputs[output].shape
        if len(shape) > 2:
            return (self._batch_size, *shape[1:])
        rows, channels = ctypes.c_int64(), ctypes.c_int32()
        call("minuet_execution_output_shape_of", self, output, ctypes.byref(rows), ctypes.byref(channels))
        return (rows.value, channels.value)

    def run(self, *inputs: Any, out: Any = None, stream: Any = None) -> Any:
        """Runs what is prepared. Only enqueues, once memory for the outputs is there.

        Args:
            inputs: features [rows, channels] of the plan's dtype, or masks of uint8 or bool, in memory of the device,
                one for each of Plan.inputs; behind them, with parameter_inputs, one array for each of Plan.parameters.
                Row i of the first belongs to coordinate i of the caller. Columns of a wider matrix are fine where they
                are aligned (README.md, "Arrays").
            out: the array to write to, or a sequence of them where the plan has several outputs; None: new ones (numpy
                on the CPU, DeviceArray on a GPU). It may not overlap an input. In exact mode, an output on a level
                that an op makes in each run needs an array with room for all rows; output_shape tells their number
                afterwards.
            stream: CUDA stream of the work.

        A network that begins with voxelize has no prepare. Its inputs are the points, float32 [N, columns], its other
        inputs, and batch, int32 [N], and count, int32 [1], which may be left out.

        Returns:
            The output, or a tuple of all.
        """
        handle = stream_handle(stream)
        expected = len(self._inputs) + len(self._parameter_infos)
        optional = 2 if self._takes_points and not self._parameter_infos else 0
        if not expected - optional <= len(inputs) <= expected:
            names = ", ".join([item.name for item in self._inputs] + [item.name for item in self._parameter_infos])
            raise ValueError(f"the plan takes {expected} inputs ({names}), and {len(inputs)} are given")
        views = [
            input_view(given, info, self._device, handle) for given, info in zip(inputs, self._inputs, strict=False)
        ]
        for given, parameter in zip(inputs[len(self._inputs) :], self._parameter_infos, strict=True):
            what = f"the parameter {parameter.name!r}"
            views.append((device_view(given, self._device, handle, what), what))
        results = self._outputs_of(views, out, handle)
        targets = [
            output_view(given, info, self._device, handle) for given, info in zip(results, self._outputs, strict=True)
        ]
        call(
            "minuet_execution_run_arrays", self, array_table(views), len(views), array_table(targets), len(targets),
            handle,
        )  # fmt: skip
        return results[0] if len(results) == 1 else tuple(results)

    def _outputs_of(self, views: Sequence[tuple[View, str]], out: Any, stream: int) -> list[Any]:
        count = len(self._outputs)
        if out is None:
            return [
                self._device.empty(self._shape_of(number, views), like_input(info.dtype, views), stream)
                for number, info in enumerate(self._outputs)
            ]
        given = list(out) if isinstance(out, tuple | list) else [out]
        if len(given) != count:
            raise ValueError(f"the plan gives {count} outputs, and `out` has {len(given)} arrays")
        return given

    def _shape_of(self, output: int, views: Sequence[tuple[View, str]]) -> tuple[int, ...]:
        """Returns the shape of an output before a run."""
        info = self._outputs[output]
        if self._takes_points and not info.axes and len(info.shape) == 2 and info.level == 0:
            return (views[0][0].shape[0], info.channels)  # It has a row for each point.
        return self.output_shape(output)

    def read_points(self, stream: Any = None) -> tuple[int, ...]:
        """Waits, and returns the counts of the points of the last run of a network that begins with voxelize: voxels,
        points that count, points outside, points whose position is not finite, points past most_points_per_voxel, and
        points whose voxel is past most_voxels."""
        counts = (ctypes.c_int32 * _abi.MINUET_VOXELIZE_COUNTS)()
        call("minuet_execution_read_points", self, counts, len(counts), stream_handle(stream))
        return tuple(counts)

    def output_coordinates(self, output: int = 0, out: Any = None, stream: Any = None) -> Any:
        """Returns the coordinates of an output of a network, int32 [rows, 1 + axes of its level] in memory of the
        device, in the order of its rows. Enqueued on the stream."""
        handle = stream_handle(stream)
        shape = (self.output_shape(output)[0], 1 + len(self._outputs[output].axes))
        result, address = int32_output(self._device, out, shape, handle, "out")
        call("minuet_execution_output_coordinates_of", self, output, address, handle)
        return result

    def read_cloud(self, stream: Any = None) -> Cloud:
        """Waits, and says what the last prepare in capacity mode found."""
        status = ctypes.c_uint32()
        counts = (ctypes.c_int32 * (1 + self._info.levels))()
        call("minuet_execution_read_cloud", self, ctypes.byref(status), counts, len(counts), stream_handle(stream))
        return Cloud(CloudStatus(status.value), counts[0], tuple(counts[1:]))

    def copy_cloud(self, status: Any = None, counts: Any = None, stream: Any = None) -> None:
        """Enqueues copies of the status word, uint32 or int32 [1], and of the counts, int32 [1 + levels], to memory of
        the device."""
        handle = stream_handle(stream)
        if status is None:
            status_view = None
        else:
            status_view = device_view(status, self._device, handle, "status")
            status_view.require("status", "int32" if status_view.kind == "int32" else "uint32", (1,))
            status_view.require_writable("status", handle)
        address, length = None, 0
        if counts is not None:
            length = 1 + self._info.levels
            _, address = int32_output(self._device, counts, (length,), handle, "counts")
        call("minuet_execution_copy_cloud", self, status_view.address if status_view else None, address, length, handle)

    def cloud_addresses(self) -> tuple[int, int]:
        """Returns the addresses, in memory of the device, of the status word and of the counts that each prepare in
        capacity mode writes."""
        status, counts = ctypes.c_void_p(), ctypes.c_void_p()
        call("minuet_execution_query_cloud", self, ctypes.byref(status), ctypes.byref(counts))
        return status.value or 0, counts.value or 0

    def suggest_capacities(self, factor: float = 1.25) -> tuple[int, ...]:
        """After a prepare in exact mode: capacities for level_capacity, in 256s.

        Args:
            factor: how much room a level has, in terms of the voxels that this cloud has there; 1 or more.

        Raises:
            FailedPreconditionError: nothing is prepared, or it is in capacity mode.
        """
        capacities = (ctypes.c_int64 * self._info.levels)()
        call("minuet_execution_suggest_capacities", self, factor, capacities, len(capacities))
        return tuple(capacities)

    def suggest_slots(self, factor: float = 1.25, stream: Any = None) -> tuple[int, ...]:
        """After a prepare: level_slots for clouds like this one, so that at most half of them are taken. Waits for
        the stream.

        Args:
            factor: how many superblocks there may be, in terms of those of this cloud; 1 or more.

        Raises:
            FailedPreconditionError: nothing is prepared, or the maps are sorted.
        """
        slots = (ctypes.c_int64 * self._info.levels)()
        call("minuet_execution_suggest_slots", self, factor, slots, len(slots), stream_handle(stream))
        return tuple(slots)

    def set_workspace(self, workspace: Any, stream: Any = None) -> None:
        """Gives the execution other memory of the device for good. Waits for the stream; nothing is prepared
        afterwards."""
        handle = stream_handle(stream)
        # Which of the two the execution has after a failure depends on its reason, so that both are kept.
        memory = memory_view(workspace, self._device, handle, "workspace")
        self._cell.memory = (self._cell.memory, memory)
        call("minuet_execution_set_workspace", self, *memory.memory, handle)
        self._cell.memory = memory

    def release_captures(self) -> None:
        """Frees the memory that only captured graphs use; none of them may be replayed any more."""
        call("minuet_execution_release_captures", self)

    @property
    def counters(self) -> ExecutionCounters:
        """Says what the calls did since the last reset_counters."""
        counters = _abi.minuet_execution_counters(struct_size=ctypes.sizeof(_abi.minuet_execution_counters))
        call("minuet_execution_query_counters", self, ctypes.byref(counters))
        return told(ExecutionCounters, counters)

    def reset_counters(self) -> None:
        """Sets the counters to 0."""
        call("minuet_execution_reset_counters", self)

    def set_profiling(self, on: bool) -> None:
        """Turns the timing of stages on or off; it adds events between stages."""
        call("minuet_execution_set_profiling", self, int(on))

    def stages(self) -> StageTimes:
        """Waits, and returns the timed stages of the last prepare and the last run."""
        times = _abi.minuet_stage_times(struct_size=ctypes.sizeof(_abi.minuet_stage_times))
        call("minuet_execution_query_stages", self, ctypes.byref(times))
        return told(StageTimes, times)

    @property
    def levels(self) -> tuple[LevelInfo, ...]:
        """The coordinate sets of what is prepared."""
        result = []
        for number in range(self._info.levels):
            info = _abi.minuet_level_info(struct_size=ctypes.sizeof(_abi.minuet_level_info))
            call("minuet_execution_query_level", self, number, ctypes.byref(info))
            result.append(told(LevelInfo, info))
        return tuple(result)

    @property
    def layers(self) -> tuple[LayerInfo, ...]:
        """The layers of what is prepared, with what was chosen for each."""
        result = []
        for number in range(self._info.layers):
            info = _abi.minuet_layer_info(struct_size=ctypes.sizeof(_abi.minuet_layer_info))
            with using(self) as (pointer,):  # The names live as long as the execution.
                call("minuet_execution_query_layer", pointer, number, ctypes.byref(info))
                result.append(told(LayerInfo, info))
        return tuple(result)

    def find_overflow(self, stream: Any = None) -> int | None:
        """Waits, and returns the number of the first layer that wrote a number past its dtype (infinite or NaN) in any
        run since prepare, or None."""
        layer = ctypes.c_int32(-1)
        call("minuet_execution_find_overflow", self, stream_handle(stream), ctypes.byref(layer))
        return None if layer.value < 0 else layer.value


def prepare_maps_together(pairs: Sequence[tuple[Execution, KernelMap]], stream: Any = None) -> None:
    """Does Execution.prepare_maps for many executions of one queue, each with its map, in about as many launches as
    one takes."""
    count = len(pairs)
    with using(*(execution for execution, _ in pairs), *(kernel_map for _, kernel_map in pairs)) as pointers:
        executions = (ctypes.c_void_p * max(1, count))(*pointers[:count])
        maps = (ctypes.c_void_p * max(1, count))(*pointers[count:])
        call("minuet_executions_prepare_maps", executions, maps, count, stream_handle(stream))
