"""Pyramids, and runs that keep no state: for callers whose memory and sizes are all their own (XLA, torch.library)."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._arrays import device_view, stream_handle
from ._device import Context, Device
from ._execution import array_table, input_view, like_input, output_view
from ._index import slots_of
from ._infos import TensorInfo
from ._integers import integers
from ._kernel import Offsets, set_kernel
from ._library import Handle, call, library, make, using
from ._operands import int32_output, memory_view
from ._parameters import Parameters
from ._plan import Plan
from ._sets import Bounds, set_bounds
from ._types import Axes, KernelShape, Purpose, SetOrder, WeightsOrder, axes, choose


@dataclass(frozen=True)
class Level:
    """One coordinate set of a pyramid.

    Args:
        capacity: the most voxels; of level 0, the most coordinates too.
        parent: an earlier level; -1 for level 0, the set of the coordinates.
        stride: to the parent.
        kernel_size: where given, the set is all that a dense convolution reaches from the parent, with this dilation,
            padding and shape (Coordinates.reach).
        slots: of its hash table; 0: the default (index_bytes).
    """

    capacity: int
    parent: int = -1
    stride: Axes = 1
    kernel_size: Axes | None = None
    dilation: Axes = 1
    padding: Axes = 0
    shape: Axes = 0
    slots: int = 0


@dataclass(frozen=True)
class Map:
    """One kernel map of a pyramid, between two levels or within one.

    Args:
        fine, coarse: numbers of levels.
        purposes: which ops read it, or-ed.
        padding: where given, the offsets are those of a dense convolution.
        kernel_shape: "cross" for the offsets along the axes only.
        offsets: where given, the offsets themselves, as of a KernelMap.
    """

    fine: int
    coarse: int
    kernel_size: Axes = 1
    dilation: Axes = 1
    purposes: Purpose = Purpose.CONVOLUTION
    padding: Axes | None = None
    kernel_shape: KernelShape | str = KernelShape.BOX
    offsets: Offsets | None = None


class Pyramid(Handle):
    """Describes coordinate sets and kernel maps with sizes that only the device knows. May be used from many threads.

    A captured graph of its calls uses kernels and weights of the device, the pyramid, the plan and the parameters. Keep
    these objects as long as the graph is replayed: Python ends an object when nothing refers to it any more.

    Args:
        context: where its kernels are compiled and kept.
        levels, maps: what it has; or
        network, level_capacity: the plan of a network that has them, and the most voxels of each of its levels.
        level_slots: with level_capacity, the slots of each level's hash table; 0: the default.
        keep_coordinates: numbers of the levels whose coordinates stay in the buffer; 0 to 31.

    Raises:
        ValueError: levels or maps together with a network, level_capacity without one, or no such level to keep.
        InvalidArgumentError: a level or a map is wrong; the message names it.
    """

    def __init__(
        self,
        context: Context,
        levels: Sequence[Level] = (),
        maps: Sequence[Map] = (),
        *,
        network: Plan | None = None,
        level_capacity: Sequence[int] = (),
        level_slots: Sequence[int] | None = None,
        ndim: int = 0,
        keep_first_duplicate: bool = False,
        bounds: Bounds | None = None,
        keep_coordinates: Sequence[int] = (),
        batch_size: int = 0,
    ) -> None:
        if network is None and level_capacity:
            raise ValueError("level_capacity is of a network: give network too, or a capacity to each of the levels")
        if network is not None and (levels or maps):
            raise ValueError("a network has levels and maps of its own: give network with level_capacity, or levels")
        self._ndim = ndim or (network.info.ndim if network else 3)
        self._capacities = tuple(level_capacity) or tuple(level.capacity for level in levels)
        options = _abi.minuet_pyramid_options(struct_size=ctypes.sizeof(_abi.minuet_pyramid_options))
        options.ndim = ndim
        options.keep_first_duplicate = int(keep_first_duplicate)
        self._set_limits(options, bounds, keep_coordinates, batch_size)
        options.level_bytes = ctypes.sizeof(_abi.minuet_pyramid_level)
        options.map_bytes = ctypes.sizeof(_abi.minuet_pyramid_map)
        if levels:
            options.levels = (_abi.minuet_pyramid_level * len(levels))(*map(self._level, levels))
        kept: list[Any] = []
        if maps:
            options.maps = (_abi.minuet_pyramid_map * len(maps))(*(self._map(item, kept) for item in maps))
        capacities = integers(ctypes.c_int64, level_capacity, "level_capacity")
        slots = slots_of(level_slots, len(level_capacity))
        if slots is not None:
            options.level_slots = ctypes.addressof(slots)
        if network is not None:
            options.level_capacity = ctypes.addressof(capacities)
        options.level_count = len(level_capacity) if network is not None else len(levels)
        options.map_count = len(maps)
        with using(network) as (options.network,):
            pointer = make("minuet_pyramid_create", context, ctypes.byref(options))
        super().__init__(pointer, library.minuet_pyramid_destroy, context, network)

    def _set_limits(self, options: Any, bounds: Bounds | None, keep: Sequence[int], batch_size: int) -> None:
        """Fills in what every pyramid may have."""
        set_bounds(options, bounds, self._ndim)
        for number in keep:
            if not 0 <= number < min(32, len(self._capacities)):
                raise ValueError(
                    f"keep_coordinates has {number}, and the pyramid has levels 0 to {len(self._capacities) - 1}, of "
                    "which 0 to 31 can be kept"
                )
            options.keep_coordinates |= 1 << operator.index(number)
        options.batch_size = self._batch_size = batch_size

    def _level(self, level: Level) -> _abi.minuet_pyramid_level:
        row = _abi.minuet_pyramid_level(capacity=level.capacity, parent=level.parent, slots=level.slots)
        row.stride[: self._ndim] = axes(level.stride, self._ndim, "stride")
        if level.kernel_size is not None:
            row.is_reached = 1
            for name in ("kernel_size", "dilation", "padding", "shape"):
                getattr(row, name)[: self._ndim] = axes(getattr(level, name), self._ndim, name)
        return row

    def _map(self, item: Map, kept: list[Any]) -> _abi.minuet_pyramid_map:
        row = _abi.minuet_pyramid_map(fine=item.fine, coarse=item.coarse, purposes=int(item.purposes))
        shape, offsets = item.kernel_shape, item.offsets
        kept.append(set_kernel(row, self._ndim, item.kernel_size, item.dilation, item.padding, shape, offsets))
        return row

    @property
    def batch_size(self) -> int:
        """The most batch items, or 0 if the pyramid was made without."""
        return self._batch_size

    def rows_of(self, info: TensorInfo) -> int:
        """The extent of the first axis of an input or output of a network: the batch size of dense tensors and of those
        with a row for each batch item, else the capacity of the level."""
        has_items = len(info.shape) > 2 or not info.axes
        return self._batch_size if has_items else self._capacities[info.level]

    @property
    def capacities(self) -> tuple[int, ...]:
        """The most voxels of each level."""
        return self._capacities

    def bytes(self, arch: str) -> tuple[int, int]:
        """Returns the bytes of the buffer, and of the workspace of build(), without a device."""
        buffer, workspace = ctypes.c_int64(), ctypes.c_int64()
        call("minuet_pyramid_bytes", self, arch.encode(), ctypes.byref(buffer), ctypes.byref(workspace))
        return buffer.value, workspace.value

    def load(self, device: Device) -> None:
        """Compiles and loads the kernels that build pyramids; the other calls need it once for a device."""
        call("minuet_pyramid_load", self, device)
        self._keep(device)

    def build(
        self,
        device: Device,
        coordinates: Any,
        count: Any = None,
        *,
        buffer: Any = None,
        workspace: Any = None,
        status: Any = None,
        counts: Any = None,
        stream: Any = None,
    ) -> Any:
        """Builds the sets and maps of a cloud in one buffer, and returns it. Only enqueues, once memory is there.

        Args:
            coordinates: int32 [most, 1 + ndim] in memory of the device, batch first.
            count: optional: how many of them there are, int32 [1] in memory of the device.
            buffer, workspace: memory of bytes(arch), which begins on a multiple of 256 bytes. None: a new buffer, which
                is returned; a new workspace, which is given back at the end of the call, so that on a GPU the call
                waits for the work. Give a workspace where the call must only enqueue.
            status: optional: uint32 or int32 [1] on the device gets CloudStatus bits.
            counts: optional: int32 [1 + levels] on the device gets the coordinates taken and each level's voxels.
        """
        handle = stream_handle(stream)
        arguments = _abi.minuet_pyramid_arguments(struct_size=ctypes.sizeof(_abi.minuet_pyramid_arguments))
        if buffer is None or workspace is None:
            sizes = self.bytes(device.arch)
            buffer = device.empty(sizes[0], "uint8", handle) if buffer is None else buffer
            workspace = device.empty(sizes[1], "uint8", handle) if workspace is None else workspace
        arguments.buffer, arguments.buffer_bytes = memory_view(buffer, device, handle, "buffer").memory
        arguments.workspace, arguments.workspace_bytes = memory_view(workspace, device, handle, "workspace").memory
        found = device_view(coordinates, device, handle, "coordinates")
        found.require("coordinates", "int32", (None, 1 + self._ndim))
        found.require_contiguous("coordinates")
        arguments.coordinates, arguments.most = found.address or None, found.shape[0]
        if count is not None:
            number = device_view(count, device, handle, "count")
            number.require("count", "int32", (1,))
            arguments.count = number.address
        if status is not None:
            word = device_view(status, device, handle, "status")
            word.require("status", "int32" if word.kind == "int32" else "uint32", (1,))
            word.require_writable("status", handle)
            arguments.status = word.address
        if counts is not None:
            shape = (1 + len(self._capacities),)
            _, arguments.counts = int32_output(device, counts, shape, handle, "counts")
        call("minuet_pyramid_build", self, device, ctypes.byref(arguments), handle)
        return buffer

    def coordinates(self, device: Device, buffer: Any, level: int, out: Any = None, stream: Any = None) -> Any:
        """Enqueues a copy of a level's coordinates, int32 [capacity, 1 + ndim]; rows past the count are zeros."""
        handle = stream_handle(stream)
        shape = (self._capacities[level], 1 + self._ndim)
        result, address = int32_output(device, out, shape, handle, "out")
        place = memory_view(buffer, device, handle, "buffer", is_written=False).memory
        call("minuet_pyramid_coordinates", self, device, *place, level, address, handle)
        return result

    def rows(self, device: Device, buffer: Any, stream: Any = None) -> tuple[Any, Any]:
        """Enqueues copies of the two orders of level 0's rows, int32 [capacity] each: the caller's row of each row of
        the set, and the set's row of each row of the caller."""
        handle = stream_handle(stream)
        shape = (self._capacities[0],)
        source, source_address = int32_output(device, None, shape, handle, "source_row")
        target, target_address = int32_output(device, None, shape, handle, "set_row")
        place = memory_view(buffer, device, handle, "buffer", is_written=False).memory
        call("minuet_pyramid_rows", self, device, *place, source_address, target_address, handle)
        return source, target

    def export_pairs(
        self, device: Device, buffer: Any, kernel_map: int, capacity: int, stream: Any = None
    ) -> tuple[Any, Any]:
        """Enqueues the list of a map's pairs, int32 [capacity, 3] (offset, row of the finer set, row of the coarser
        set), and their number, int32 [1]. The map needs Purpose.EXPORT."""
        handle = stream_handle(stream)
        pairs, pairs_address = int32_output(device, None, (capacity, 3), handle, "pairs")
        count, count_address = int32_output(device, None, (1,), handle, "count")
        place = memory_view(buffer, device, handle, "buffer", is_written=False).memory
        pointer = pairs_address if capacity else None
        call("minuet_pyramid_export_pairs", self, device, *place, kernel_map, pointer, capacity, count_address, handle)
        return pairs, count

    def run_bytes(self, plan: Plan, arch: str, *, kernel_map: int = 0, set_order: SetOrder = SetOrder(0)) -> int:
        """Returns the bytes of the workspace of run(). The plan must be compiled for `arch`."""
        return self._bytes_by("minuet_plan_run_bytes", plan, arch, kernel_map, set_order)

    def prepared_bytes(self, plan: Plan, arch: str, *, kernel_map: int = 0, set_order: SetOrder = SetOrder(0)) -> int:
        """Returns the bytes of the memory of prepare(). The plan must be compiled for `arch`."""
        return self._bytes_by("minuet_plan_prepared_bytes", plan, arch, kernel_map, set_order)

    def _bytes_by(self, function: str, plan: Plan, arch: str, kernel_map: int, set_order: SetOrder) -> int:
        arguments = _abi.minuet_run_arguments(struct_size=ctypes.sizeof(_abi.minuet_run_arguments))
        arguments.map, arguments.set_order = kernel_map, int(set_order)
        size = ctypes.c_int64()
        with using(self) as (arguments.pyramid,):
            call(function, plan, arch.encode(), ctypes.byref(arguments), ctypes.byref(size))
        return size.value

    def prepare(
        self,
        plan: Plan,
        device: Device,
        values: Mapping[str, Any],
        *,
        kernel_map: int = 0,
        set_order: SetOrder = SetOrder(0),
        order: WeightsOrder | str = WeightsOrder.AS_DESCRIBED,
        out: Any = None,
        stream: Any = None,
    ) -> Any:
        """Writes the parameters of a plan to memory of the caller, in the form that its runs on this pyramid read
        (`prepared` of run()). Only enqueues, once memory is there, and keeps nothing.

        The form depends on the plan, the pyramid, kernel_map, set_order, the architecture of the device, the version of
        the library, and the tuning results and kernels that the process has. Nothing in the memory tells them: a copy
        is for runs for which all of them are the same.

        Args:
            values: one array for each parameter, float32 in memory of the device.
            order: of weights, as for Parameters.set.
            out: memory of prepared_bytes, which begins on a multiple of 16 bytes; None: new memory.

        Raises:
            KeyError: the plan has no parameter of a name.
            TypeError: an array is not float32.
            ValueError: a parameter has no value.
        """
        handle = stream_handle(stream)
        infos = plan.parameters
        missing = [info.name for info in infos if info.name not in values]
        if missing:
            raise ValueError(f"parameters without a value: {', '.join(missing[:8])}; give all of them")
        names = {info.name for info in infos}
        for name in values:
            if name not in names:
                raise KeyError(f"the plan has no parameter {name!r}")
        arguments = _abi.minuet_run_arguments(struct_size=ctypes.sizeof(_abi.minuet_run_arguments))
        arguments.map, arguments.set_order = kernel_map, int(set_order)
        if out is None:
            size = self.prepared_bytes(plan, device.arch, kernel_map=kernel_map, set_order=set_order)
            out = device.empty(size, "uint8", handle)
        views = []
        for info in infos:
            what = f"the parameter {info.name!r}"
            view = device_view(values[info.name], device, handle, what)
            view.require(what, "float32", None)
            views.append((view, info.name))
        table, place = array_table(views), memory_view(out, device, handle, "out").memory
        chosen = choose(WeightsOrder, order, "order")
        with using(self) as (arguments.pyramid,):
            pointer = ctypes.byref(arguments)
            call("minuet_plan_prepare_parameters", plan, device, pointer, table, len(views), chosen, *place, handle)
        return out

    def load_run(
        self,
        plan: Plan,
        device: Device,
        *,
        kernel_map: int = 0,
        set_order: SetOrder = SetOrder(0),
        parameters: Parameters | None = None,
    ) -> None:
        """Makes what the first run with parameters would make, before a capture."""
        arguments = _abi.minuet_run_arguments(struct_size=ctypes.sizeof(_abi.minuet_run_arguments))
        arguments.map, arguments.set_order = kernel_map, int(set_order)
        with using(self, parameters) as (arguments.pyramid, arguments.parameters):
            call("minuet_plan_run_load", plan, device, ctypes.byref(arguments))

    def run(
        self,
        plan: Plan,
        device: Device,
        buffer: Any,
        *inputs: Any,
        kernel_map: int = 0,
        set_order: SetOrder = SetOrder(0),
        workspace: Any = None,
        parameters: Parameters | None = None,
        prepared: Any = None,
        out: Any = None,
        output_rows: int | None = None,
        stream: Any = None,
    ) -> Any:
        """Runs a plan on what build() wrote, or on a copy of it. Only enqueues, once memory is there, from any number
        of threads; nothing is kept between calls.

        Args:
            inputs: features [capacity of their level, channels]; rows past the count are not read.
            kernel_map: number of the map, for a single op; networks find theirs.
            set_order: which tensors have their rows in the set's order (rows()), for a single op.
            workspace: memory of run_bytes, which begins on a multiple of 256 bytes. None: new memory, which is given
                back at the end of the call, so that on a GPU the call waits for the work. Give one where the call must
                only enqueue.
            parameters: values in place of the plan's own.
            prepared: the same as memory that prepare() has written for this plan and this pyramid, on a device of this
                architecture.
            out: the array, or arrays, to write to; None: new ones.
            output_rows: the capacity of the output's level, which a single op needs without `out`.
        """
        handle = stream_handle(stream)
        infos = (plan.inputs, plan.outputs)
        if len(inputs) != len(infos[0]):
            raise ValueError(f"the plan takes {len(infos[0])} inputs, and {len(inputs)} are given")
        arguments = _abi.minuet_run_arguments(struct_size=ctypes.sizeof(_abi.minuet_run_arguments))
        arguments.map, arguments.set_order = kernel_map, int(set_order)
        found = memory_view(buffer, device, handle, "buffer", is_written=False)
        arguments.buffer, arguments.buffer_bytes = found.memory
        if workspace is None:
            size = self.run_bytes(plan, device.arch, kernel_map=kernel_map, set_order=set_order)
            workspace = device.empty(size, "uint8", handle)
        arguments.workspace, arguments.workspace_bytes = memory_view(workspace, device, handle, "workspace").memory
        if prepared is not None:
            found = memory_view(prepared, device, handle, "prepared", is_written=False)
            arguments.prepared, arguments.prepared_bytes = found.memory
        views = [input_view(given, info, device, handle) for given, info in zip(inputs, infos[0], strict=True)]
        if out is None:
            is_network = plan.info.maps == 0
            results = []
            for info in infos[1]:
                if not is_network and output_rows is None:
                    raise ValueError("a single op on a pyramid needs `out`, or `output_rows` for a new array")
                rows = self.rows_of(info) if is_network else output_rows
                shape = [int(rows or 0), *info.shape[1:]]
                results.append(device.empty(shape, like_input(info.dtype, views), handle))
        else:
            results = list(out) if isinstance(out, tuple | list) else [out]
        targets = [output_view(given, info, device, handle) for given, info in zip(results, infos[1], strict=True)]
        inputs_table, outputs_table = array_table(views), array_table(targets)
        arguments.inputs, arguments.input_count = inputs_table, len(views)
        arguments.outputs, arguments.output_count = outputs_table, len(targets)
        with using(self, parameters) as (arguments.pyramid, arguments.parameters):
            call("minuet_plan_run", plan, device, ctypes.byref(arguments), handle)
        return results[0] if len(results) == 1 else tuple(results)


def pyramid_of_training(
    training: Handle,
    ndim: int,
    level_capacity: Sequence[int],
    level_slots: Sequence[int] | None,
    bounds: Bounds | None,
    keep_coordinates: Sequence[int],
    batch_size: int,
) -> Pyramid:
    """Makes a pyramid with the levels and maps of a training plan."""
    made = Pyramid.__new__(Pyramid)
    made._ndim, made._capacities = ndim, tuple(level_capacity)
    options = _abi.minuet_pyramid_options(struct_size=ctypes.sizeof(_abi.minuet_pyramid_options))
    options.level_bytes = ctypes.sizeof(_abi.minuet_pyramid_level)
    options.map_bytes = ctypes.sizeof(_abi.minuet_pyramid_map)
    made._set_limits(options, bounds, keep_coordinates, batch_size)
    capacities = integers(ctypes.c_int64, level_capacity, "level_capacity")
    options.level_capacity, options.level_count = ctypes.addressof(capacities), len(made._capacities)
    slots = slots_of(level_slots, len(made._capacities))
    if slots is not None:
        options.level_slots = ctypes.addressof(slots)
    pointer = make("minuet_training_create_pyramid", training, ctypes.byref(options))
    Handle.__init__(made, pointer, library.minuet_pyramid_destroy, training)
    return made
