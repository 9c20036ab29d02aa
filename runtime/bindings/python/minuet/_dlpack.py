"""DLPack: reads the tensors of other libraries, and gives them memory of a device. The structs are those of DLPack's
stable C ABI (dlpack.h of DLPack 0.8 and 1.0)."""

from __future__ import annotations

import ctypes
import math
from typing import Any

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13

_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}


class _Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _deleter)]


class _Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("version", _Version),
        ("context", ctypes.c_void_p),
        ("deleter", _deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_READ_ONLY = 1
_NAME = b"dltensor"
_destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _destructor)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class Imported:
    """A tensor that another library gave. The capsule is not consumed: it releases the tensor when it goes."""

    def __init__(self, producer: Any, stream: int | None) -> None:
        """`stream`: the handle that the data must be ready on; None where the data are on the host."""
        given: dict[str, Any] = {} if stream is None else {"stream": stream}
        try:
            self.capsule = producer.__dlpack__(max_version=(1, 0), **given)
        except TypeError:  # The producer is older than DLPack 1.0.
            self.capsule = producer.__dlpack__(**given)
        if _is_valid(id(self.capsule), b"dltensor_versioned"):
            versioned = _ManagedVersioned.from_address(_pointer_of(id(self.capsule), b"dltensor_versioned"))
            if versioned.version.major > 1:
                raise BufferError(f"the tensor is of DLPack {versioned.version.major}, which is not known here")
            tensor, self.readonly = versioned.tensor, bool(versioned.flags & _READ_ONLY)
        elif _is_valid(id(self.capsule), _NAME):
            managed = _Managed.from_address(_pointer_of(id(self.capsule), _NAME))
            tensor, self.readonly = managed.tensor, False
        else:
            raise BufferError(f"__dlpack__ of {type(producer).__name__} gave no DLPack tensor")
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.device = (tensor.device.device_type, tensor.device.device_id)
        self.shape = tuple(tensor.shape[: tensor.ndim])
        self.strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
        code, bits = _CODES.get(tensor.dtype.code, f"code{tensor.dtype.code}_"), tensor.dtype.bits
        self.kind = "bool" if code == "bool" else f"{code}{bits}"
        if tensor.dtype.lanes != 1:
            self.kind += f"x{tensor.dtype.lanes}"


_exported: dict[int, tuple[Any, ...]] = {}


def _forget(address: int) -> None:
    _exported.pop(address, None)


def _forget_unused(capsule: int) -> None:
    # A consumer renames the capsule, and calls the deleter itself.
    if _is_valid(capsule, _NAME):
        _forget(_pointer_of(capsule, _NAME))


_delete, _destroy = _deleter(_forget), _destructor(_forget_unused)


# Consumers may use these while the interpreter ends, when this module is gone, so that they live for ever.
for _lasting in (_delete, _destroy, _NAME):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_lasting))

_FORMATS = {"float": 2, "bfloat": 4, "int": 0, "uint": 1, "bool": 6}


def export(owner: Any, address: int, shape: tuple[int, ...], kind: str, device: tuple[int, int]) -> Any:
    """Returns a capsule around contiguous memory, which keeps `owner` alive."""
    code = kind.rstrip("0123456789")
    bits = int(kind[len(code) :] or "8")
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    lengths = (ctypes.c_int64 * max(1, 2 * len(shape)))(*shape, *strides)
    begin = ctypes.addressof(lengths)
    pointer = ctypes.POINTER(ctypes.c_int64)
    managed = _Managed(
        tensor=_Tensor(
            data=address,
            device=_Device(*device),
            ndim=len(shape),
            dtype=_DataType(_FORMATS[code], bits, 1),
            shape=ctypes.cast(begin, pointer),
            strides=ctypes.cast(begin + 8 * len(shape), pointer),
        ),
        deleter=_delete,
    )
    place = ctypes.addressof(managed)
    _exported[place] = (managed, lengths, owner)
    return _new_capsule(place, _NAME, _destroy)
