"""Runs of plans of single ops on pyramids, and values of their parameters."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _abi
from .._library import library
from .._parameters import Parameters
from .._plan import Plan
from ._places import (
    ELEMENTS,
    Place,
    Pool,
    array_struct,
    check,
    new_cache,
    pointer_of,
    reference,
    remembered,
)
from ._pyramids import MadePyramid

_MOST_ARRAYS = 3


class _RunBlock(ctypes.Structure):
    """The arguments of a run, with the arrays that they point to."""

    arguments: Any
    inputs: Any
    outputs: Any
    _fields_ = [
        ("arguments", _abi.minuet_run_arguments),
        ("inputs", _abi.minuet_array * _MOST_ARRAYS),
        ("outputs", _abi.minuet_array * _MOST_ARRAYS),
    ]


class _SetBlock(ctypes.Structure):
    """The arguments of one call that sets parameters."""

    numbers: Any
    values: Any
    _fields_ = [("numbers", ctypes.c_int32 * _MOST_ARRAYS), ("values", _abi.minuet_array * _MOST_ARRAYS)]


class Values:
    """The values of a plan's parameters on a device, which every run sets anew from tensors.

    One object serves all layers with the same plan. Work on one stream is in order, so that a run always reads what
    was set just before it. The lock makes a pair of both, and where the stream changes, the new one waits for the old.
    """

    def __init__(self, plan: Plan, place: Place) -> None:
        self.lock = threading.Lock()
        self.parameters = Parameters(plan, place.library_device)
        self.pointer = pointer_of(self.parameters)
        self._place = place
        self._stream: Any = None

    def take_over(self) -> None:
        """Makes the current stream wait for the last work with the values on another one. Needs the lock."""
        if self._place.is_cpu:
            return
        stream = torch.cuda.current_stream(self._place.device)
        last, self._stream = self._stream, stream
        # torch begins a capture when all work is done, and events from outside may not be waited for in one.
        if last is not None and last != stream and not torch.cuda.is_current_stream_capturing():
            stream.wait_stream(last)


class LoadedPlan:
    """A plan of one op on a device.

    Attributes:
        plan: the plan.
        values: of its parameters, or None.
    """

    def __init__(self, plan: Plan, place: Place, has_parameters: bool) -> None:
        plan.load(place.library_device)
        self.plan = plan
        self.place = place
        self.pointer = pointer_of(plan)
        self.values = Values(plan, place) if has_parameters else None


_plans: dict[Any, LoadedPlan] = new_cache()
_runs: dict[Any, Run] = new_cache()


def loaded_plan(key: Any, place: Place, has_parameters: bool, make: Callable[[], Plan]) -> LoadedPlan:
    """Returns the plan of a key on a device."""
    return remembered(_plans, (key, place.pointer), lambda: LoadedPlan(make(), place, has_parameters))


class Run:
    """A plan on one map of a pyramid.

    Args:
        loaded: the plan.
        made: the pyramid.
        map: the number of the map.
        inputs, outputs: the arrays without their addresses; rows are those of the pyramid.
        values: the arrays of the parameters without their addresses.
    """

    def __init__(
        self,
        loaded: LoadedPlan,
        made: MadePyramid,
        map: int,
        inputs: Sequence[_abi.minuet_array],
        outputs: Sequence[_abi.minuet_array],
        values: Sequence[_abi.minuet_array] = (),
    ) -> None:
        self._loaded, self._made, self._map = loaded, made, map
        self._inputs, self._outputs, self._values = inputs, outputs, values
        self.workspace_bytes = max(1, made.pyramid.run_bytes(loaded.plan, loaded.place.arch, kernel_map=map))
        self._blocks = Pool(self._block)
        self._sets = Pool(self._set)
        self.input_rows = int(inputs[0].shape[0])
        self.output_shape = tuple(outputs[0].shape[: outputs[0].rank])

    def _block(self) -> _RunBlock:
        block = _RunBlock()
        arguments = block.arguments
        arguments.struct_size = ctypes.sizeof(_abi.minuet_run_arguments)
        arguments.pyramid, arguments.map = self._made.pointer, self._map
        arguments.input_count, arguments.output_count = len(self._inputs), len(self._outputs)
        for number, array in enumerate(self._inputs):
            block.inputs[number] = array
        for number, array in enumerate(self._outputs):
            block.outputs[number] = array
        arguments.inputs, arguments.outputs = block.inputs, block.outputs
        if self._loaded.values is not None:
            arguments.parameters = self._loaded.values.pointer
        return block

    def _set(self) -> _SetBlock:
        block = _SetBlock()
        for number, array in enumerate(self._values):
            block.numbers[number] = number
            block.values[number] = array
        return block

    def __call__(
        self,
        buffer: torch.Tensor,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        values: Sequence[torch.Tensor] = (),
    ) -> None:
        """Enqueues the run on torch's current stream.

        Args:
            buffer: of the pyramid.
            inputs: features with all rows of the capacities (with_room).
            outputs: with all rows of the capacities.
            values: of the parameters, in the order of their numbers.
        """
        loaded = self._loaded
        place = loaded.place
        stream = place.stream()
        workspace = place.empty_bytes(self.workspace_bytes)
        block = self._blocks.take()
        arguments = block.arguments
        arguments.buffer, arguments.buffer_bytes = buffer.data_ptr(), buffer.numel()
        arguments.workspace, arguments.workspace_bytes = workspace.data_ptr(), self.workspace_bytes
        for number, tensor in enumerate(inputs):
            # A tensor without rows says that it has no address.
            block.inputs[number].data = tensor.data_ptr() or tensor.untyped_storage().data_ptr()
        for number, tensor in enumerate(outputs):
            block.outputs[number].data = tensor.data_ptr()
        if loaded.values is None:
            check(library.minuet_plan_run(loaded.pointer, place.pointer, reference(arguments), stream))
        else:
            with loaded.values.lock:
                self._run_with(loaded.values, values, arguments, stream)
        self._blocks.give(block)

    def _run_with(self, own: Values, values: Sequence[torch.Tensor], arguments: Any, stream: int) -> None:
        own.take_over()
        block = self._sets.take()
        for number, tensor in enumerate(values):
            block.values[number].data = tensor.data_ptr()
        count = len(values)
        pointer = own.pointer
        check(
            library.minuet_parameters_set(
                pointer, block.numbers, block.values, count, _abi.MINUET_WEIGHTS_MINUET, stream
            )
        )
        self._sets.give(block)
        place = self._loaded.place
        check(library.minuet_plan_run(self._loaded.pointer, place.pointer, reference(arguments), stream))


def run_of(key: Any, make: Callable[[], Run]) -> Run:
    """Returns the run of a key."""
    return remembered(_runs, key, make)


def features_array(rows: int, channels: int, dtype: torch.dtype) -> _abi.minuet_array:
    """Returns the library's form of features without their address."""
    return array_struct((rows, channels), ELEMENTS[dtype])
