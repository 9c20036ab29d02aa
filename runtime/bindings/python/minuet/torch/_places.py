"""What the ops share: one context, one device of the library for each device of torch, and calls without overhead.

Most objects here live as long as the process, so that a call needs neither to count their users nor to lock them. Those
of which clouds of other sizes need others (pyramids and what runs on them) are dropped when there are many. A forked
child makes its own.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from .. import _abi
from .._device import Context, Device
from .._library import Handle, error_of
from .._types import DType

Made = TypeVar("Made")

_lock = threading.RLock()
_context: Context | None = None
_places: dict[tuple[str, int], Place] = {}
_caches: list[dict[Any, Any]] = [_places]

ELEMENTS = {
    torch.float32: _abi.MINUET_ELEMENT_F32,
    torch.float16: _abi.MINUET_ELEMENT_F16,
    torch.bfloat16: _abi.MINUET_ELEMENT_BF16,
    torch.float64: _abi.MINUET_ELEMENT_F64,
    torch.int32: _abi.MINUET_ELEMENT_I32,
}
_DTYPES = {torch.float32: DType.FLOAT32, torch.float16: DType.FLOAT16, torch.bfloat16: DType.BFLOAT16}


class Place:
    """A device of torch, and the library's device for the same memory."""

    def __init__(self, device: torch.device, context: Context) -> None:
        self.device = device
        self.is_cpu = device.type == "cpu"
        self.index: int = -1 if self.is_cpu else device.index
        self.context = context
        self.library_device = Device(context, "cpu" if self.is_cpu else f"cuda:{device.index}")
        self.pointer = pointer_of(self.library_device)
        self.arch = self.library_device.arch

    def stream(self) -> int:
        """Returns the stream on which torch enqueues work of this thread."""
        return 0 if self.is_cpu else int(torch.cuda.current_stream(self.device).cuda_stream)

    def is_capturing(self) -> bool:
        """Whether the current stream records a graph."""
        if self.is_cpu:
            return False
        if torch.cuda.current_device() == self.index:
            return bool(torch.cuda.is_current_stream_capturing())
        with torch.cuda.device(self.device):  # torch asks the stream of its current device.
            return bool(torch.cuda.is_current_stream_capturing())

    def wait_for(self, last: int) -> None:
        """Makes the current stream wait for what was enqueued on another one so far."""
        # torch begins a capture when all work is done, and events from outside may not be waited for in one.
        if not self.is_capturing():
            torch.cuda.current_stream(self.device).wait_stream(torch.cuda.ExternalStream(last, self.device))

    def require(self, *tensors: torch.Tensor | None) -> None:
        """Raises where a tensor is on another device, whose memory the library may not touch."""
        for tensor in tensors:
            if tensor is None:
                continue
            is_here = tensor.is_cpu if self.is_cpu else tensor.is_cuda and tensor.get_device() == self.index
            if not is_here:
                raise ValueError(
                    f"a tensor is on {tensor.device}, and the features or coordinates are on {self.device}: move all "
                    "tensors of an op to one device"
                )

    def empty_bytes(self, count: int) -> torch.Tensor:
        """Returns memory of torch's allocator for a buffer or a workspace."""
        return torch.empty(max(1, count), dtype=torch.uint8, device=self.device)


def context() -> Context:
    """Returns the context that all ops of the process share."""
    global _context
    with _lock:
        if _context is None:
            _context = Context()
        return _context


def place_of(device: torch.device) -> Place:
    """Returns the library's side of a device of torch.

    Raises:
        TypeError: the device is neither the CPU nor a CUDA device.
        UnavailableError: the library cannot use the device.
    """
    index = device.index
    found = _places.get((device.type, -1 if index is None else index))
    if found is not None:
        return found
    if device.type not in ("cpu", "cuda"):
        raise TypeError(f"a tensor is on {device}: the ops of minuet take tensors on the CPU and on CUDA devices")
    if device.type == "cuda" and index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    number = -1 if device.index is None or device.type == "cpu" else device.index
    return remembered(
        _places, (device.type, number), lambda: Place(device if number >= 0 else torch.device("cpu"), context())
    )


class Recent(dict[Any, Any]):
    """A cache with a limit, which drops what was not used for longest. Whatever still uses that keeps it."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def get(self, key: Any, default: Any = None) -> Any:
        """Returns what there is, which then is the last to go."""
        found = super().pop(key, default)
        if found is not default:
            super().__setitem__(key, found)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        while len(self) > self._limit:
            super().pop(next(iter(self)), None)


def remembered(cache: dict[Any, Made], key: Any, make: Callable[[], Made]) -> Made:
    """Returns what the cache has for the key, and makes it where there is nothing yet."""
    found = cache.get(key)
    if found is None:
        with _lock:
            found = cache.get(key)
            if found is None:
                found = cache[key] = make()
    return found


def loaded(cache: dict[Any, Made], key: tuple[Any, ...], place: Place, make: Callable[[], Made]) -> Made:
    """Returns an op of the library that is loaded on a device."""

    def load() -> Made:
        op: Any = make()
        op.load(place.library_device)
        return op  # type: ignore[no-any-return]

    return remembered(cache, (place.pointer, *key), load)


def new_cache(limit: int = 0) -> dict[Any, Any]:
    """Returns a cache of this process: a forked child begins with an empty one.

    Args:
        limit: where given, the cache drops what was not used for longest.
    """
    cache: dict[Any, Any] = Recent(limit) if limit else {}
    _caches.append(cache)
    return cache


def _forget() -> None:
    """Drops what belongs to the parent of a forked process, whose threads and GPU contexts stayed there."""
    global _context, _lock
    _context = None
    _lock = threading.RLock()
    for cache in _caches:
        cache.clear()


os.register_at_fork(after_in_child=_forget)


def pointer_of(handle: Handle) -> int:
    """Returns the pointer of an object that a cache keeps. The object then stays until the end of the process."""
    return handle._acquire()


def check(status: int) -> None:
    """Raises the error of a call of the library."""
    if status != _abi.MINUET_OK:
        raise error_of(status)


def dtype_of_features(features: torch.Tensor) -> DType:
    """Returns how features of this dtype are computed."""
    return computed_dtype(features.dtype, features.is_cuda)


def computed_dtype(dtype: torch.dtype, is_cuda: bool) -> DType:
    """Returns how features of a dtype are computed.

    float32 features are computed in TF32 where torch.backends.cuda.matmul.allow_tf32 says so.
    """
    found = _DTYPES.get(dtype)
    if found is None:
        raise TypeError(f"features are {dtype}, and float32, float16 and bfloat16 are needed: convert them first")
    if found is DType.FLOAT32 and is_cuda and torch.backends.cuda.matmul.allow_tf32:
        return DType.TF32
    return found


def exact_dtype_of(features: torch.Tensor) -> DType:
    """Returns how an op that multiplies no matrices computes features of this dtype: never in TF32."""
    dtype = dtype_of_features(features)
    return DType.FLOAT32 if dtype is DType.TF32 else dtype


def address_of(tensor: torch.Tensor) -> int:
    """Returns the address of a tensor. torch says of one without rows that it has none."""
    return int(tensor.data_ptr() or tensor.untyped_storage().data_ptr())


def plain(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """Returns a tensor that DLPack gives away, although its values may have a gradient."""
    return None if tensor is None else tensor.detach().contiguous()


def rounded(count: int) -> int:
    """Returns a number of at least so many, one of eight for each power of two. Workspaces are sized for such numbers
    of rows, so that few sizes are asked for and kept."""
    step = 1 << max(0, (max(count, 1) - 1).bit_length() - 4)
    return min(-(-count // step) * step, 2**31 - 1)


#: The same outside of graphs that torch.compile traces.
known_rounded = functools.lru_cache(1 << 14)(rounded)


def rows_of(features: torch.Tensor) -> torch.Tensor:
    """Returns features [rows, channels] as the library reads them: contiguous, from a multiple of 16 bytes on."""
    if features.dim() != 2:
        raise ValueError(f"features have the shape {list(features.shape)}, and [rows, channels] is needed")
    if not features.is_contiguous():
        return features.contiguous()
    return features.clone() if features.data_ptr() % 16 else features


def with_room(features: torch.Tensor, rows: int) -> torch.Tensor:
    """Returns the same features in memory that has at least so many rows. Those behind the features have no meaning.

    The library reads only the rows in use. But it treats an input as if it had as many rows as its level's capacity,
    and refuses a call that writes to any of that memory. In exact mode, results of convolutions, poolings and norms
    have so much memory (without_view); other tensors are copied.
    """
    features = rows_of(features)
    if features.shape[0] >= rows:
        return features
    storage = features.untyped_storage()
    begin = features.storage_offset() * features.element_size()
    if storage.nbytes() - begin >= rows * features.shape[1] * features.element_size():
        return features
    copy = features.new_empty((rows, features.shape[1]))[: features.shape[0]]
    return copy.copy_(features)


def without_view(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    """Returns a new tensor with its first rows only, and the memory of all. It is no view of another tensor, because
    autograd refuses to change views of a custom function's result in place, as ReLU(inplace=True) does."""
    if tensor.shape[0] != rows:
        tensor.resize_((rows, *tensor.shape[1:]))
    return tensor


def parameter_element(tensor: torch.Tensor, what: str) -> int:
    """Returns the number of a parameter's element type, which must be a floating-point type."""
    if not tensor.is_floating_point() or tensor.dtype not in ELEMENTS:
        raise TypeError(f"{what} is {tensor.dtype}; float32, float16, bfloat16 or float64 is needed")
    return ELEMENTS[tensor.dtype]


class Pool:
    """Blocks of arguments, each of which one call uses at a time.

    A block has everything that stays the same from call to call, so that a call fills in addresses only.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._free: list[Any] = []

    def take(self) -> Any:
        """Returns a block that no other thread uses."""
        try:
            return self._free.pop()
        except IndexError:
            return self._make()

    def give(self, block: Any) -> None:
        """Gives a block back."""
        self._free.append(block)


def array_struct(shape: tuple[int, ...], element: int, strides: tuple[int, ...] | None = None) -> _abi.minuet_array:
    """Returns the library's form of an array on the device, without its address."""
    array = _abi.minuet_array()
    array.rank, array.element = len(shape), element
    array.shape[: len(shape)] = shape
    if strides is not None:
        array.has_strides = 1
        array.stride[: len(shape)] = strides
    return array


def words_of(block: ctypes.Structure) -> Any:
    """Returns the memory of a block as 64-bit words, which are written faster than fields."""
    return (ctypes.c_int64 * (ctypes.sizeof(block) // 8)).from_buffer(block)


def word_of(*path: tuple[type[ctypes.Structure], str]) -> int:
    """Returns the number of a field's word in a block: the offsets of the fields of a path, added up."""
    return sum(int(getattr(kind, name).offset) for kind, name in path) // 8


def reference(struct: ctypes.Structure) -> Any:
    """Returns the address of a struct for one call."""
    return ctypes.byref(struct)


class Block:
    """The arguments of a call, whose words with addresses and numbers of rows a call writes.

    Args:
        kind: of the arguments.
        tensors: the fields that are features; other tensors stay zeros.
        like: the library's form of the features, without address and rows.
    """

    def __init__(self, kind: Any, tensors: Sequence[str] = (), like: _abi.minuet_tensor | None = None) -> None:
        arguments = kind(struct_size=ctypes.sizeof(kind))
        for name in tensors:
            setattr(arguments, name, like)
        self.words = words_of(arguments)
        self.reference = reference(arguments)

    def set_tensors(self, places: Sequence[tuple[int, int]], tensors: Sequence[torch.Tensor | None], rows: int) -> None:
        """Writes the addresses of features with so many rows. None: there are none."""
        words = self.words
        for (data, number), tensor in zip(places, tensors, strict=True):
            words[data], words[number] = (0, 0) if tensor is None else (tensor.data_ptr(), rows)

    def set_words(self, places: Sequence[int], values: Sequence[torch.Tensor | int | None]) -> None:
        """Writes the addresses of other tensors, and numbers."""
        words = self.words
        for place, value in zip(places, values, strict=True):
            words[place] = value.data_ptr() if isinstance(value, torch.Tensor) else value or 0
