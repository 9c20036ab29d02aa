"""Weights as data: values of a plan's parameters on a device."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Mapping
from typing import Any

from . import _abi
from ._arrays import any_view, stream_handle
from ._device import Device
from ._library import Handle, call, library, make
from ._plan import Plan
from ._types import WeightsOrder, choose


class Parameters(Handle):
    """One set of values of a plan's parameters on a device, for any number of executions. It starts with no values.

    Args:
        plan: must be loaded on the device.
        device: where the values are.
        master: also keeps weights in float32, as get() gives them back then, bit by bit.
        set_by_each_run: the caller sets all values before each run, in captured graphs too; nothing checks that. Runs
            may then select other kernels after a capture of set(). Otherwise they are refused, because replays would
            not set the weights of these kernels.
    """

    def __init__(self, plan: Plan, device: Device, *, master: bool = False, set_by_each_run: bool = False) -> None:
        options = _abi.minuet_parameters_options(struct_size=ctypes.sizeof(_abi.minuet_parameters_options))
        options.master, options.set_by_each_run = int(master), int(set_by_each_run)
        pointer = make("minuet_parameters_create", plan, device, ctypes.byref(options))
        super().__init__(pointer, library.minuet_parameters_destroy, plan, device)
        self._plan, self._device = plan, device
        self._infos = plan.parameters
        self._numbers = {info.name: number for number, info in enumerate(self._infos)}

    def _number(self, name: str | int) -> int:
        if not isinstance(name, str):
            name = operator.index(name)
            if not 0 <= name < len(self._infos):
                raise IndexError(f"there is no parameter {name}: the plan has {len(self._infos)}, counted from 0")
            return name
        if name not in self._numbers:
            names = ", ".join(list(self._numbers)[:8])
            raise KeyError(f"the plan has no parameter {name!r}: the names begin with {names}")
        return self._numbers[name]

    def set(
        self,
        values: Mapping[str, Any] | Mapping[int, Any],
        *,
        order: WeightsOrder | str = WeightsOrder.AS_DESCRIBED,
        stream: Any = None,
    ) -> None:
        """Sets parameters, by their names or numbers (Plan.parameters), many at once.

        Values are arrays of float32, float16, bfloat16 (or its bits as uint16) or float64 of the parameter's shape,
        weights in the layout of `order`, in memory of the device (only enqueued, and may be captured) or of the host
        (waits). They are taken as they are, not finite too.

        Raises:
            InvalidArgumentError: an array does not fit; nothing is set.
        """
        handle = stream_handle(stream)
        numbers, arrays, kept = [], [], []
        for name, value in values.items():
            what = f"the parameter {name!r}"
            numbers.append(self._number(name))
            found = any_view(value, self._device, handle, what)
            kept.append(found)
            arrays.append(found.to_array(what))
        if not numbers:
            return
        count = len(numbers)
        call(
            "minuet_parameters_set",
            self,
            (ctypes.c_int32 * count)(*numbers),
            (_abi.minuet_array * count)(*arrays),
            count,
            choose(WeightsOrder, order, "order"),
            handle,
        )

    def get(self, name: str | int, out: Any = None, *, dtype: Any = "float32", stream: Any = None) -> Any:
        """Returns a value: weights as rounded to the plan's dtype, or with `master` as they were set.

        Args:
            name: of the parameter, or its number.
            out: a contiguous array of float32, float16 or bfloat16 of the parameter's shape, on the device (only
                enqueues) or on the host (waits); None: a new one on the device.
            dtype: of the new array.

        Raises:
            KeyError, IndexError: there is no such parameter.
            FailedPreconditionError: it was never set.
            InvalidArgumentError: `out` has other elements than these.
        """
        handle = stream_handle(stream)
        number = self._number(name)
        shape = self._infos[number].shape
        result = self._device.empty(shape, dtype, handle) if out is None else out
        found = any_view(result, self._device, handle, "out")
        found.require("out", found.kind, shape)
        found.require_writable("out", handle)
        array = found.to_array("out")
        call("minuet_parameters_get", self, number, ctypes.byref(array), handle)
        return result

    def release_captures(self) -> None:
        """Says that no graph that captured set() or a run with these values is replayed any more."""
        call("minuet_parameters_release_captures", self)
