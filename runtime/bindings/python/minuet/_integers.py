"""Integers that are checked before C gets them: ctypes itself cuts off what its types cannot hold."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Sequence
from typing import Any

_KINDS = (ctypes.c_int32, ctypes.c_uint32, ctypes.c_int64, ctypes.c_uint64)
#: The least and the greatest number of each integer type. ctypes has one type for all C types of one size.
LIMITS: dict[Any, tuple[int, int]] = {
    kind: (0, 256 ** ctypes.sizeof(kind) - 1)
    if kind(-1).value > 0
    else (-(256 ** ctypes.sizeof(kind)) // 2, 256 ** ctypes.sizeof(kind) // 2 - 1)
    for kind in _KINDS
}


def index_of(value: object) -> int | None:
    """Returns a number of Python or numpy as an int, and None for all else, such as a sequence."""
    if isinstance(value, (list, tuple)):
        return None  # torch.compile of some versions does not catch the error of operator.index.
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def checked(kind: Any, value: Any, what: str) -> int:
    """Returns a number of Python or numpy as an int, and raises where the C type does not hold it."""
    number = operator.index(value)
    least, greatest = LIMITS[kind]
    if not least <= number <= greatest:
        raise ValueError(f"{what} is {number}, and {least} to {greatest} are taken")
    return number


def integers(kind: Any, values: Sequence[Any], what: str) -> Any:
    """Returns numbers as a C array, of one element at least, so that it has an address."""
    numbers = [checked(kind, value, f"{what}[{place}]") for place, value in enumerate(values)]
    return (kind * max(1, len(numbers)))(*numbers)


class Structure(ctypes.Structure):
    """A struct of the library."""

    _kinds: dict[str, Any]

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls._kinds = {field: kind for field, kind, *_ in cls._fields_ if kind in LIMITS}

    def __setattr__(self, name: str, value: Any) -> None:
        kind = self._kinds.get(name)
        super().__setattr__(name, value if kind is None else checked(kind, value, name))
