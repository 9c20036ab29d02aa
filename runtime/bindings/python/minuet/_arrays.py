"""Arrays of callers: where their elements lie, by DLPack, __cuda_array_interface__ or the buffer protocol."""

from __future__ import annotations

import contextlib
import ctypes
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _abi, _dlpack
from ._integers import index_of
from ._types import ELEMENTS

if TYPE_CHECKING:
    from ._device import Device

try:
    import ml_dtypes

    #: The numpy dtype of bfloat16 arrays that the package makes: that of ml_dtypes where it is installed, else uint16
    #: with the same bits.
    bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
except ImportError:
    bfloat16 = np.dtype(np.uint16)

_CUDA_INTERFACE_KINDS = {"f": "float", "i": "int", "u": "uint", "b": "bool", "V": "void"}
# numpy has no bfloat16, so that arrays of two bytes that cannot be mistaken for a number of another type are taken.
_BFLOAT16_BITS = ("uint16", "void16")


def stream_handle(stream: Any) -> int:
    """Returns the CUstream of an int, of a stream of torch, cupy, numba or cuda.core, or 0 for None."""
    if stream is None:
        return 0
    handle = index_of(stream)
    if handle is not None:
        return handle
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int((protocol() if callable(protocol) else protocol)[1])
    for name in ("cuda_stream", "ptr"):
        value = getattr(stream, name, None)
        if isinstance(value, int):
            return value
    value = getattr(getattr(stream, "handle", None), "value", None)
    if isinstance(value, int):
        return value
    raise TypeError(
        f"{type(stream).__name__} is no CUDA stream: give the handle as an int, or an object with __cuda_stream__, "
        "cuda_stream or ptr"
    )


class View:
    """Says where the elements of an array lie. `device` is DLPack's (type, number), None where the array does not say;
    `strides` are in elements, None where elements lie one behind the other."""

    def __init__(
        self,
        owner: Any,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        kind: str,
        readonly: bool,
        device: tuple[int, int | None],
    ) -> None:
        self.owner, self.address, self.kind = owner, address, kind
        self.shape, self.strides = shape, strides
        self.readonly, self.device = readonly, device

    @property
    def is_contiguous(self) -> bool:
        if self.strides is None or 0 in self.shape:
            return True
        expected = 1
        for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if length != 1 and stride != expected:
                return False
            expected *= length
        return True

    @property
    def is_on_host(self) -> bool:
        return self.device[0] in (_dlpack.CPU, _dlpack.CUDA_HOST)

    def require(self, what: str, kind: str, shape: Sequence[int | None] | None) -> None:
        """Raises where the elements or the shape are others; None stands for any length of an axis."""
        if self.kind != kind and not (kind == "bfloat16" and self.kind in _BFLOAT16_BITS):
            hint = " (or its bits as uint16)" if kind == "bfloat16" else ""
            raise TypeError(f"{what} has elements of {self.kind}, and {kind}{hint} is needed: convert it first")
        if shape is None:
            return
        fits = len(shape) == len(self.shape) and all(
            want in (None, have) for want, have in zip(shape, self.shape, strict=True)
        )
        if not fits:
            wanted = ", ".join("any" if length is None else str(length) for length in shape)
            raise ValueError(f"{what} has the shape {list(self.shape)}, and [{wanted}] is needed")

    def require_contiguous(self, what: str) -> None:
        if not self.is_contiguous:
            raise ValueError(f"{what} is not contiguous: make a contiguous copy of it, with the last axis fastest")

    def require_writable(self, what: str, stream: int) -> None:
        """Raises where the array cannot be written, and says that a call writes to it on the stream."""
        if self.readonly:
            raise ValueError(f"{what} is read-only, and the call writes to it: give a writable array")
        if hasattr(self.owner, "_note_written"):
            self.owner._note_written(stream)

    @property
    def memory(self) -> tuple[int | None, int]:
        """The address and the bytes of contiguous elements."""
        return self.address or None, math.prod(self.shape) * numpy_dtype(self.kind).itemsize

    def to_array(self, what: str) -> _abi.minuet_array:
        """Returns the library's form. Two bytes of no type that the library has are bits of bfloat16."""
        if not 1 <= len(self.shape) <= _abi.MINUET_MAX_RANK:
            raise ValueError(f"{what} has {len(self.shape)} axes, and 1 to {_abi.MINUET_MAX_RANK} are taken")
        kind = "bfloat16" if self.kind in _BFLOAT16_BITS else self.kind
        if kind not in ELEMENTS:
            raise TypeError(f"{what} has elements of {kind}; the library knows {', '.join(ELEMENTS)}")
        array = _abi.minuet_array()
        array.data = None if 0 in self.shape else self.address
        array.rank = len(self.shape)
        array.element = ELEMENTS[kind]
        array.on_host = int(self.is_on_host)
        array.shape[: array.rank] = list(self.shape)
        if self.strides is not None:
            array.has_strides = 1
            array.stride[: array.rank] = list(self.strides)
        return array


def _numpy_kind(dtype: np.dtype[Any]) -> str:
    if dtype.name == "bfloat16":
        return "bfloat16"
    if not dtype.isnative:
        return f"{dtype.name} in the other byte order"
    return "void16" if dtype.kind == "V" and dtype.itemsize == 2 else dtype.name


def _element_strides(strides: Sequence[int], item: int, shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    result = []
    for stride, length in zip(strides, shape, strict=True):
        if length < 2:
            stride = item  # Nothing is behind a lone element, so that its stride means nothing.
        if stride < 0:
            raise ValueError(f"{what} has a negative stride: make a copy of it")
        if stride % item:
            raise ValueError(f"{what} has a stride of {stride} bytes, no multiple of its elements' {item}: copy it")
        result.append(stride // item)
    return tuple(result)


def _refuse_mask(array: object, what: str) -> None:
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{what} is a masked array, whose mask would be lost: give array.filled(value) or array.data")


def _view_numpy(array: np.ndarray[Any, Any], what: str) -> View:
    _refuse_mask(array, what)
    is_contiguous = array.flags.c_contiguous
    return View(
        array,
        array.ctypes.data,
        array.shape,
        None if is_contiguous else _element_strides(array.strides, array.itemsize, array.shape, what),
        _numpy_kind(array.dtype),
        not array.flags.writeable,
        (_dlpack.CPU, 0),
    )


def _require_gpu(device: Device | None, number: int | None, what: str) -> None:
    """Raises where memory of this GPU (None: of any) is not that of the device."""
    if device is None:
        return
    if device.is_cpu:
        raise ValueError(f"{what} is in the memory of a GPU, and the device is cpu: copy it to the host first")
    if number not in (None, device.number):
        raise ValueError(f"{what} is on cuda:{number}, and the device is {device.name}: copy it there first")


def _torch_device(given: Any, number: int) -> contextlib.AbstractContextManager[Any]:
    """Makes this GPU torch's current one for a torch tensor, because torch exports only tensors of its current GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(given, torch.Tensor):
        return contextlib.nullcontext()
    scope: contextlib.AbstractContextManager[Any] = torch.cuda.device(number)
    return scope


def _view_dlpack(given: Any, device: Device | None, stream: int, what: str) -> View:
    place = given.__dlpack_device__()
    kind = int(place[0])
    on_gpu = kind in (_dlpack.CUDA, _dlpack.CUDA_MANAGED)
    if on_gpu:
        _require_gpu(device, None if kind == _dlpack.CUDA_MANAGED else int(place[1]), what)
    try:
        with _torch_device(given, int(place[1])) if on_gpu else contextlib.nullcontext():
            # DLPack's number of the default stream is 1; 0 is not allowed.
            tensor = _dlpack.Imported(given, (stream or 1) if on_gpu else None)
    except BufferError as error:  # The producer refuses, as torch does for a tensor that requires a gradient.
        raise ValueError(f"{what} cannot be read by DLPack: {error}") from error
    if tensor.strides is not None and any(stride < 0 for stride in tensor.strides):
        raise ValueError(f"{what} has a negative stride: make a copy of it")
    # Arrays of jax are immutable, and do not say so by DLPack.
    readonly = tensor.readonly or type(given).__module__.partition(".")[0] in ("jax", "jaxlib")
    return View(tensor, tensor.address, tensor.shape, tensor.strides, tensor.kind, readonly, tensor.device)


def _view_cuda_interface(given: Any, device: Device | None, stream: int, what: str) -> View:
    _require_gpu(device, None, what)
    interface = given.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise ValueError(f"{what} has a mask, which is not supported")
    address, readonly = interface["data"]
    shape = tuple(int(length) for length in interface["shape"])
    order, kind, item = interface["typestr"][0], interface["typestr"][1], int(interface["typestr"][2:])
    if order == ">":
        raise TypeError(f"{what} has elements in the other byte order: convert it first")
    strides = interface.get("strides")
    if strides is not None:
        strides = _element_strides(strides, item, shape, what)
    # The interface says where its work is enqueued; a wait is needed where that is another stream than the call's.
    theirs = interface.get("stream")
    if theirs is not None and device is not None and (0 if theirs == 1 else theirs) != stream:
        device.synchronize(None if theirs == 1 else theirs)
    name = _CUDA_INTERFACE_KINDS.get(kind, kind)
    full = "bool" if name == "bool" else f"{name}{8 * item}"
    return View(given, int(address or 0), shape, strides, full, bool(readonly), (_dlpack.CUDA, None))


def view(given: Any, device: Device | None, stream: int, what: str) -> View:
    """Finds the elements of any array. `stream`: on which the caller's work on the array must be done."""
    if isinstance(given, np.ndarray):
        return _view_numpy(given, what)
    if hasattr(given, "_note_written"):  # a DeviceArray, whose work the caller orders as in the C ABI
        _require_gpu(device, given.device.number, what)
        own: View = given._view(stream)
        return own
    if hasattr(given, "__dlpack__") and hasattr(given, "__dlpack_device__"):
        return _view_dlpack(given, device, stream, what)
    if hasattr(given, "__cuda_array_interface__"):
        return _view_cuda_interface(given, device, stream, what)
    try:
        buffer = memoryview(given)
    except TypeError:
        raise TypeError(
            f"{what} is of the type {type(given).__name__}: give an array with __dlpack__, __cuda_array_interface__ or "
            "the buffer protocol (numpy, torch, cupy, jax, DeviceArray)"
        ) from None
    return _view_numpy(np.asarray(buffer), what)


def any_view(given: Any, device: Device, stream: int, what: str) -> View:
    """Finds the elements of an array that must lie in the memory of the device or of the host."""
    found = view(given, device, stream, what)
    if not found.is_on_host and found.device[0] not in (_dlpack.CUDA, _dlpack.CUDA_MANAGED):
        raise ValueError(f"{what} is on a device of DLPack's type {found.device[0]}, and the device is {device.name}")
    return found


def device_view(given: Any, device: Device, stream: int, what: str) -> View:
    """Finds the elements of an array that must lie in the memory of the device."""
    found = any_view(given, device, stream, what)
    if found.is_on_host and not device.is_cpu:
        raise ValueError(
            f"{what} is in host memory, and the device is {device.name}: copy it there first, for example with "
            "Device.to_device"
        )
    return found


def host_floats(given: Any, what: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Returns numbers of the host as contiguous float32, whatever array or nested list they come in. Arrays of
    two bytes that are no numbers of another type are bits of bfloat16, as everywhere."""
    _refuse_mask(given, what)
    if isinstance(given, np.ndarray) or not hasattr(given, "__dlpack__"):
        if hasattr(given, "__cuda_array_interface__"):
            raise ValueError(f"{what} is in the memory of a GPU, and is read on the host: copy it to the host first")
        numbers = np.asarray(given)
    else:
        found = view(given, None, 0, what)
        if not found.is_on_host:
            raise ValueError(f"{what} is in the memory of a GPU, and is read on the host: copy it to the host first")
        numbers = as_numpy(found)
    if _numpy_kind(numbers.dtype) in ("bfloat16", *_BFLOAT16_BITS):
        return np.ascontiguousarray((numbers.view(np.uint16).astype(np.uint32) << 16).view(np.float32))
    return np.ascontiguousarray(numbers, dtype=np.float32)


def as_numpy(found: View) -> np.ndarray[Any, Any]:
    """Returns a numpy array of the same memory, of a view on the host."""
    dtype = numpy_dtype(found.kind)
    strides = found.strides or tuple(math.prod(found.shape[axis + 1 :]) for axis in range(len(found.shape)))
    extent = 1 + sum((length - 1) * stride for length, stride in zip(found.shape, strides, strict=True))
    if 0 in found.shape:
        return np.empty(found.shape, dtype)
    memory = (ctypes.c_char * (extent * dtype.itemsize)).from_address(found.address)
    memory.owner = found  # type: ignore[attr-defined]  # keeps the memory alive as long as numpy has it
    flat = np.frombuffer(memoryview(memory), dtype)
    return np.lib.stride_tricks.as_strided(flat, found.shape, [stride * dtype.itemsize for stride in strides])


def numpy_dtype(kind: str) -> np.dtype[Any]:
    """Returns the numpy dtype of a kind of element."""
    if kind == "bfloat16":
        return bfloat16
    return np.dtype(np.uint16) if kind == "void16" else np.dtype(kind)


def empty_aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns a new numpy array that begins on a multiple of 256 bytes, as device memory does."""
    count = math.prod(shape) * dtype.itemsize
    memory = np.empty(count + 256, np.uint8)
    begin = -memory.ctypes.data % 256
    return memory[begin : begin + count].view(dtype).reshape(shape)
