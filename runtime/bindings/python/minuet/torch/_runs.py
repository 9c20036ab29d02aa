"""Runs of plans of single ops on pyramids, and values of their parameters."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from .. import _abi
from .._library import library
from .._parameters import Parameters
from .._plan import Plan
from .._types import SetOrder
from ._places import (
    ELEMENTS,
    Place,
    Pool,
    address_of,
    array_struct,
    check,
    new_cache,
    pointer_of,
    remembered,
    word_of,
    words_of,
)
from ._pyramids import MadePyramid, pyramid_of

_SET_ORDER = SetOrder.INPUT | SetOrder.OUTPUT | SetOrder.RESIDUAL
_MOST_ARRAYS = 3
_ARRAY_WORDS = ctypes.sizeof(_abi.minuet_array) // 8


class _RunBlock(ctypes.Structure):
    """The arguments of a run, and of the call before it that sets parameters, with the arrays that they point to.

    Attributes:
        words: all of it as 64-bit words, of which a call writes those that have addresses.
        addresses: of the arguments, of the numbers of the parameters (32-bit words), and of their arrays.
    """

    arguments: Any
    inputs: Any
    outputs: Any
    values: Any
    numbers: Any
    words: Any
    addresses: tuple[int, int, int]
    _fields_ = [
        ("arguments", _abi.minuet_run_arguments),
        ("inputs", _abi.minuet_array * _MOST_ARRAYS),
        ("outputs", _abi.minuet_array * _MOST_ARRAYS),
        ("values", _abi.minuet_array * _MOST_ARRAYS),
        ("numbers", ctypes.c_int64 * _MOST_ARRAYS),
    ]


def _argument(name: str) -> int:
    return word_of((_RunBlock, "arguments"), (_abi.minuet_run_arguments, name))


_BUFFER, _BUFFER_BYTES = _argument("buffer"), _argument("buffer_bytes")
_WORKSPACE, _WORKSPACE_BYTES = _argument("workspace"), _argument("workspace_bytes")
_INPUTS, _OUTPUTS, _VALUES = (
    word_of((_RunBlock, name), (_abi.minuet_array, "data")) for name in ("inputs", "outputs", "values")
)


class Values:
    """The values of a plan's parameters on a device, which every run sets anew from tensors.

    One object serves all layers with the same plan. Work on one stream is in order, so that a run always reads what
    was set just before it. The lock makes a pair of both, and where the stream changes, the new one waits for the old.
    """

    def __init__(self, plan: Plan, place: Place) -> None:
        self.lock = threading.Lock()
        self.parameters = Parameters(plan, place.library_device, set_by_each_run=True)
        self.pointer = self.parameters._cell.pointer  # It lives as long as this.
        self._place = place
        self._stream: int | None = None

    def take_over(self, stream: int) -> None:
        """Makes the current stream wait for the last work with the values on another one. Needs the lock."""
        if stream != self._stream:
            if self._stream is not None:
                self._place.wait_for(self._stream)
            self._stream = stream


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


def loaded_plan(key: Any, place: Place, has_parameters: bool, make: Callable[[], Plan]) -> LoadedPlan:
    """Returns the plan of a key on a device."""
    return remembered(_plans, (key, place.pointer), lambda: LoadedPlan(make(), place, has_parameters))


class HasAddress(Protocol):
    """A tensor, or other memory of the device."""

    def data_ptr(self) -> int:
        """Returns the address."""


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
        self._order = _SET_ORDER if made.key.is_ordered else SetOrder(0)
        size = made.pyramid.run_bytes(loaded.plan, loaded.place.arch, kernel_map=map, set_order=self._order)
        self.workspace_bytes = max(1, size)
        self._blocks = Pool(self._block)
        self.input_rows = int(inputs[0].shape[0])
        self.output_shape = tuple(outputs[0].shape[: outputs[0].rank])

    def _block(self) -> _RunBlock:
        block = _RunBlock()
        arguments = block.arguments
        arguments.struct_size = ctypes.sizeof(_abi.minuet_run_arguments)
        arguments.pyramid, arguments.map = self._made.pointer, self._map
        arguments.set_order = int(self._order)
        arguments.input_count, arguments.output_count = len(self._inputs), len(self._outputs)
        arguments.workspace_bytes = self.workspace_bytes
        for target, arrays in (
            (block.inputs, self._inputs),
            (block.outputs, self._outputs),
            (block.values, self._values),
        ):
            for number, array in enumerate(arrays):
                target[number] = array
        numbers = ctypes.cast(block.numbers, ctypes.POINTER(ctypes.c_int32))
        for number in range(len(self._values)):
            numbers[number] = number
        arguments.inputs, arguments.outputs = block.inputs, block.outputs
        if self._loaded.values is not None:
            arguments.parameters = self._loaded.values.pointer
        block.words = words_of(block)
        block.addresses = (
            ctypes.addressof(block),
            ctypes.addressof(block.numbers),
            ctypes.addressof(block.values),
        )
        return block

    def check_rows(self, rows: int) -> None:
        """Raises ValueError where the output has no memory for so many rows."""
        capacity = self.output_shape[0]
        if not 0 <= rows <= capacity:
            raise ValueError(f"rows is {rows}, and the pyramid has a capacity of {capacity} there")

    def __call__(
        self,
        buffer: torch.Tensor,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        values: Sequence[HasAddress] = (),
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
        workspace = buffer.new_empty(self.workspace_bytes)  # Both are bytes.
        block = self._blocks.take()
        words = block.words
        words[_BUFFER], words[_BUFFER_BYTES] = buffer.data_ptr(), buffer.numel()
        words[_WORKSPACE] = workspace.data_ptr()
        word = _INPUTS
        for tensor in inputs:
            words[word] = address_of(tensor)
            word += _ARRAY_WORDS
        word = _OUTPUTS
        for tensor in outputs:
            words[word] = tensor.data_ptr()
            word += _ARRAY_WORDS
        arguments, numbers, arrays = block.addresses
        own = loaded.values
        if own is None:
            check(plan_run(loaded.pointer, place.pointer, arguments, stream))
        else:
            word = _VALUES
            for tensor in values:
                words[word] = tensor.data_ptr()
                word += _ARRAY_WORDS
            with own.lock:
                own.take_over(stream)
                check(parameters_set(own.pointer, numbers, arrays, len(values), _abi.MINUET_WEIGHTS_MINUET, stream))
                check(plan_run(loaded.pointer, place.pointer, arguments, stream))
        self._blocks.give(block)


_ADDRESS, _NUMBER = ctypes.c_void_p, ctypes.c_int32


def with_addresses(name: str, *kinds: Any) -> Any:
    """Returns a function of the library that takes addresses as they are, without the checks of typed pointers."""
    return ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)((name, library))


plan_run = with_addresses("minuet_plan_run", *[_ADDRESS] * 4)
parameters_set = with_addresses("minuet_parameters_set", *[_ADDRESS] * 3, _NUMBER, _NUMBER, _ADDRESS)


def run_of(pyramid: str, key: Any, make: Callable[[MadePyramid], Run]) -> Run:
    """Returns the run of a key on a pyramid."""
    made = pyramid_of(pyramid)
    found: Run = made.runs.get(key) or remembered(made.runs, key, lambda: make(made))
    return found


def features_array(rows: int, channels: int, dtype: torch.dtype) -> _abi.minuet_array:
    """Returns the library's form of features without their address."""
    return array_struct((rows, channels), ELEMENTS[dtype])
