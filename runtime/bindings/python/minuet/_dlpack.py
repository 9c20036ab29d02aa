"""DLPack: reads the tensors of other libraries, and gives them memory of a device. The structs are those of DLPack's
stable C ABI (dlpack.h of DLPack 0.8 and 1.0)."""

from __future__ import annotations

import ctypes
import math
import sys
import threading
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
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
# The capsule keeps the address of its name, so that the name is memory of its own.
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
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


# What consumers call may come with an exception pending, without the GIL, or when the interpreter is gone, so that none
# of it is Python: the deleter is the function time() of C, which writes the seconds to the address that it gets, the
# first word of the managed tensor. That is the address of the data, so that another value there says "deleted", and
# sweep() does the rest. A capsule that no one takes is kept here, and given up once no one else refers to it.
_c = ctypes.CDLL(None)
_c.malloc.restype, _c.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_c.free.argtypes = [ctypes.c_void_p]
_delete = ctypes.cast(_c.time, _deleter)
_name_memory: int = _c.malloc(len(_NAME) + 1)
ctypes.memmove(_name_memory, _NAME, len(_NAME) + 1)


class _Exported(ctypes.Structure):
    """Says what a consumer gets: memory of C, which outlives the interpreter."""

    _fields_ = [("managed", _Managed), ("lengths", ctypes.c_int64 * (2 * 8))]


class _Export:
    def __init__(self, place: int, data: int, owner: Any, capsule: Any) -> None:
        self.place, self.data, self.owner, self.capsule = place, data, owner, capsule

    @property
    def is_over(self) -> bool:
        if self.capsule is not None:
            if not _is_valid(id(self.capsule), _NAME):
                self.capsule = None  # A consumer has renamed it, and calls the deleter.
            elif _references(self) <= _LONE:
                return True
        return ctypes.c_uint64.from_address(self.place).value != self.data


def _references(export: _Export) -> int:
    return sys.getrefcount(export.capsule)


# How many references there are to a capsule that only an _Export has, as this Python counts them.
_LONE = _references(_Export(0, 0, None, object()))

_exported: dict[int, _Export] = {}
_sweeping = threading.Lock()


def sweep() -> None:
    """Lets go of the owners of all tensors that consumers have deleted, and of capsules that no one has taken."""
    if not _exported or not _sweeping.acquire(blocking=False):
        return
    try:
        for export in list(_exported.values()):
            if export.is_over:
                del _exported[export.place]
                _c.free(export.place)
    finally:
        _sweeping.release()


_FORMATS = {name: code for code, name in _CODES.items()}


def export(owner: Any, address: int, shape: tuple[int, ...], kind: str, device: tuple[int, int]) -> Any:
    """Returns a capsule around contiguous memory, which keeps `owner` alive."""
    sweep()
    code = kind.rstrip("0123456789")
    bits = int(kind[len(code) :] or "8")
    if len(shape) > 8:
        raise BufferError(f"the array has {len(shape)} axes, and 8 are the most")
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    place: int = _c.malloc(ctypes.sizeof(_Exported))
    exported = _Exported.from_address(place)
    exported.lengths[: 2 * len(shape)] = [*shape, *strides]
    begin = place + _Exported.lengths.offset
    pointer = ctypes.POINTER(ctypes.c_int64)
    exported.managed = _Managed(
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
    capsule = _new_capsule(place, _name_memory, None)
    _exported[place] = _Export(place, address, owner, capsule)
    return capsule
