"""Contexts, devices, device memory and queues."""

from __future__ import annotations

import ctypes
import math
import operator
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from . import _abi, _cuda_libraries, _dlpack
from ._arrays import View, device_view, empty_aligned, numpy_dtype, stream_handle, view
from ._infos import DeviceInfo, KernelCounters, told
from ._integers import index_of
from ._library import Handle, LastingCallback, call, calling_back, freeing, library, make, read_text, using
from ._types import element_of

Path = str | os.PathLike[str]


def path_bytes(path: Path | None) -> bytes | None:
    return None if path is None else os.fsencode(path)


class Context(Handle):
    """Says where kernels are compiled and kept. It is tied to no device and opens neither the driver nor NVRTC.

    What is not given comes from the environment (MINUET_CACHE_DIR, MINUET_NO_JIT, ...), which is read once, here. A
    context may be used from many threads at once, and in forked children to compile.

    Args:
        cache_directory: the kernel cache folder.
        disable_disk_cache: kernels live in memory only.
        log: called as log(is_warning, text), from any thread.
        jit: whether kernels that are nowhere to be found are compiled; None: unless MINUET_NO_JIT is 1.
        bundle_path: bundles, or folders of them; "" or an empty list: none.
        bundle_policy_any: take kernels of bundles whatever compiler made them.
        bundle_ptx: take PTX of bundles where there is no code for the GPU.
        record_path: the file that gets what no bundle had; "": none.
        cache_max_bytes: least recently used kernels go past it; 0: the default.
        cache_shared: whether the cache folder may belong to other users; None: as MINUET_CACHE_SHARED says.
        trace: keep times for write_trace.
        nvrtc_path: libnvrtc, or its folder. Where neither it nor MINUET_NVRTC is given, that of the pip wheel
            nvidia-cuda-nvrtc in this Python's path is used if there is one, else the library looks for it.
        cublaslt_path: the same for cuBLASLt, MINUET_CUBLASLT and nvidia-cublas.
        cpu_threads: threads of the CPU device; 0: one for each CPU.
    """

    _may_be_used_after_fork = True

    def __init__(
        self,
        cache_directory: Path | None = None,
        *,
        disable_disk_cache: bool = False,
        log: Callable[[bool, str], object] | None = None,
        jit: bool | None = None,
        bundle_path: Path | Sequence[Path] | None = None,
        bundle_policy_any: bool = False,
        bundle_ptx: bool = False,
        record_path: Path | None = None,
        cache_max_bytes: int = 0,
        cache_shared: bool | None = None,
        trace: bool = False,
        nvrtc_path: Path | None = None,
        cublaslt_path: Path | None = None,
        cpu_threads: int = 0,
    ) -> None:
        options = _abi.minuet_context_options(struct_size=ctypes.sizeof(_abi.minuet_context_options))
        options.cache_directory = path_bytes(cache_directory)
        options.disable_disk_cache = int(disable_disk_cache)
        options.jit = _abi.MINUET_JIT_DEFAULT if jit is None else _abi.MINUET_JIT_ON if jit else _abi.MINUET_JIT_OFF
        options.bundle_policy = _abi.MINUET_BUNDLE_ANY if bundle_policy_any else _abi.MINUET_BUNDLE_SAME_MAJOR
        options.record_path = path_bytes(record_path)
        options.cache_max_bytes = cache_max_bytes
        options.trace = int(trace)
        if bundle_path is not None:
            paths = [bundle_path] if isinstance(bundle_path, str | os.PathLike) else bundle_path
            options.bundle_path = b":".join(os.fsencode(path) for path in paths)
        options.nvrtc_path = path_bytes(nvrtc_path or _cuda_libraries.nvrtc())
        options.cublaslt_path = path_bytes(cublaslt_path or _cuda_libraries.cublaslt())
        options.cache_shared = 0 if cache_shared is None else 1 if cache_shared else 2
        options.bundle_ptx = int(bundle_ptx)
        options.cpu_threads = cpu_threads
        callback = None
        if log is not None:
            function = log

            def write(level: int, text: int, length: int, user: object) -> None:
                line = ctypes.string_at(text, length).decode("utf-8", "replace")
                function(level == _abi.MINUET_LOG_WARNING, line)

            callback = LastingCallback(_abi.minuet_log_callback, write)
            options.log = callback.pointer
        with calling_back():
            pointer = make("minuet_context_create", ctypes.byref(options))
        super().__init__(pointer, library.minuet_context_destroy, callback)

    def kernel_counters(self) -> KernelCounters:
        """Says where this context's kernels came from so far."""
        counters = _abi.minuet_kernel_counters(struct_size=ctypes.sizeof(_abi.minuet_kernel_counters))
        call("minuet_context_kernel_counters", self, ctypes.byref(counters))
        return told(KernelCounters, counters)

    def add_bundle(self, path: Path, sha256: str | None = None) -> None:
        """Opens a bundle that precompile() wrote, and looks in it before all others. `sha256`: 64 hex digits that the
        file must have."""
        call("minuet_context_add_bundle", self, os.fsencode(path), sha256.encode() if sha256 else None)

    def add_bundle_memory(self, data: bytes | bytearray | memoryview, sha256: str | None = None) -> None:
        """Does the same for bytes, which are copied."""
        content = np.frombuffer(data, np.uint8)
        digest = sha256.encode() if sha256 else None
        call("minuet_context_add_bundle_memory", self, content.ctypes.data, content.size, digest)

    def write_trace(self, path: Path) -> None:
        """Writes the times so far as a trace that ui.perfetto.dev opens, of a context made with `trace`."""
        call("minuet_context_write_trace", self, os.fsencode(path))

    @property
    def cache_directory(self) -> str:
        """The cache folder in use; empty when kernels live in memory only."""
        with using(self) as (pointer,):
            return read_text(library.minuet_context_cache_directory, pointer)

    def load_tuning(self, device: Device, directory: Path | None = None) -> int:
        """Makes plans of this context from now on go by what was measured on devices like this one. Returns for how
        many kinds of layer and size there are results. `directory`: None for the cache folder."""
        results = ctypes.c_int64()
        call("minuet_context_load_tuning", self, device, path_bytes(directory), ctypes.byref(results))
        return results.value


class Allocator(Protocol):
    """A pool of device memory that the library shares with its host. Both methods are called from any thread and at
    any time while the device is in use, with memory aligned to 256 bytes; minuet.h has the rules of streams. They may
    not use the objects of the call that needs the memory. An exception in `allocate`, or a result that is no integer,
    counts as "no memory"."""

    def allocate(self, bytes: int, stream: int) -> int:
        """Returns the address of new memory of the device, or 0 where there is none."""

    def free(self, memory: int, bytes: int, stream: int) -> None:
        """Takes back a block of allocate."""


class Device(Handle):
    """A GPU or the CPU.

    Args:
        context: the context whose kernels the device runs.
        name: "cuda:N", "cpu", or None for cuda:0 where it is usable, else cpu.
        allocator: optional; all memory of the device comes from it. It needs a name.

    Raises:
        UnavailableError: the device is not usable; the message says what is missing.
    """

    def __init__(self, context: Context, name: str | None = None, *, allocator: Allocator | None = None) -> None:
        options = _abi.minuet_device_options(struct_size=ctypes.sizeof(_abi.minuet_device_options))
        self._context = context
        self._has_allocator = allocator is not None
        callbacks: tuple[LastingCallback, ...] = ()
        if allocator is not None:
            pool = allocator
            callbacks = (
                LastingCallback(
                    _abi.minuet_allocate_callback, lambda size, stream, _: pool.allocate(size, stream or 0)
                ),
                LastingCallback(
                    _abi.minuet_free_callback, lambda memory, size, stream, _: pool.free(memory, size, stream or 0)
                ),
            )
            options.allocate, options.free = (callback.pointer for callback in callbacks)
        encoded = name.encode() if name is not None else None
        with calling_back():
            pointer = make("minuet_device_open", context, encoded, ctypes.byref(options))
        super().__init__(pointer, library.minuet_device_destroy, context, *callbacks)
        info = _abi.minuet_device_info(struct_size=ctypes.sizeof(_abi.minuet_device_info))
        call("minuet_device_query", self, ctypes.byref(info))
        self._info = told(DeviceInfo, info)

    @property
    def context(self) -> Context:
        """The context that the device was opened with."""
        return self._context

    @property
    def info(self) -> DeviceInfo:
        """Says what the device is."""
        return self._info

    @property
    def name(self) -> str:
        """ "cuda:N" or "cpu"."""
        return self._info.name

    @property
    def arch(self) -> str:
        """The architecture for Plan.compile, such as "sm_90a"; "cpu" on the CPU."""
        return self._info.arch

    @property
    def is_cpu(self) -> bool:
        """Says whether the memory of the device is host memory."""
        return self._info.name == "cpu"

    @property
    def number(self) -> int:
        """N of cuda:N; 0 on the CPU."""
        return 0 if self.is_cpu else int(self._info.name.split(":")[1])

    def __repr__(self) -> str:
        return f"<minuet.Device {self.name} ({self._info.description})>"

    def synchronize(self, stream: Any = None) -> None:
        """Waits for the work on a stream; None: the default stream."""
        call("minuet_device_synchronize", self, stream_handle(stream))

    def empty(self, shape: int | Sequence[int], dtype: Any = "float32", stream: Any = None) -> Any:
        """Returns new memory of the device with undefined contents: a numpy array on the CPU, else a DeviceArray.

        Args:
            shape: the lengths of the axes.
            dtype: "float32", "float16", "bfloat16", "float64", "int8", "uint8", "int32", "int64" or "bool".
            stream: where work on the array will be enqueued, which those who take the array are told.
        """
        lengths = tuple(map(operator.index, shape if index_of(shape) is None else [shape]))  # type: ignore[arg-type]
        if any(length < 0 for length in lengths):
            raise ValueError(f"shape is {list(lengths)}, and lengths are 0 or more")
        kind = element_of(dtype)
        if self.is_cpu:
            return empty_aligned(lengths, numpy_dtype(kind))
        return DeviceArray(self, lengths, kind, stream)

    def to_device(self, array: Any, stream: Any = None) -> Any:
        """Copies an array of the host to new memory of the device. Waits until it is done."""
        source = view(array, self, 0, "the array")
        if not source.is_on_host:
            raise ValueError("the array is in the memory of a GPU already")
        source.require_contiguous("the array")
        kind = "uint16" if source.kind == "void16" else source.kind
        target = self.empty(source.shape, kind, stream)
        found = view(target, self, 0, "the copy")
        size = math.prod(source.shape) * numpy_dtype(kind).itemsize
        if size:
            call("minuet_device_copy", self, found.address, source.address, size, 0)
        return target

    def to_host(self, array: Any, stream: Any = None) -> np.ndarray[Any, Any]:
        """Waits for the stream, and copies an array of the device to a new numpy array. `stream`: on which the array
        was written; None: the stream that a DeviceArray knows, else the default stream."""
        handle = getattr(array, "_written", 0) if stream is None else stream_handle(stream)
        source = device_view(array, self, handle, "the array")
        source.require_contiguous("the array")
        dtype = numpy_dtype(source.kind)
        target = np.empty(source.shape, dtype)
        self.synchronize(handle)
        if target.nbytes:
            call("minuet_device_copy", self, target.ctypes.data, source.address, target.nbytes, 1)
        return target


class DeviceArray:
    """A contiguous array in memory of a GPU, which it owns. cupy, torch, jax and numba take it without a copy, by
    __dlpack__ or __cuda_array_interface__; numpy() copies it to the host. Device.empty makes one.

    It comes from the driver's allocator, which waits for the device at times: give `out` in loops that must not. On a
    device with an allocator of the caller it comes from there, and goes back when the work is done on every stream that
    a call of minuet used it on, and on the one that a taker named by DLPack; who uses it on others, or names none, has
    to wait for them before the array goes. These streams must live as long as the array.
    """

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: str, stream: Any = None) -> None:
        self._device, self._shape, self._kind = device, shape, dtype
        # The stream on which the array was written last, and all on which it was used. They must live as long as it.
        self._written = stream_handle(stream)
        self._used = {self._written}
        self._address = 0
        _dlpack.sweep()
        if self.nbytes:
            memory = ctypes.c_void_p()
            call("minuet_device_allocate", device, self.nbytes, ctypes.byref(memory))
            self._address = memory.value or 0
            # The device stays open as long as the array, however it is closed before.
            pointer = device._acquire()
            wait = self._used if device._has_allocator else set()
            finalizer = weakref.finalize(self, _free, device._cell, pointer, self._address, wait)
            finalizer.atexit = False

    @property
    def device(self) -> Device:
        """The device that has the memory."""
        return self._device

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self._shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The elements in numpy's terms (minuet.bfloat16 for bfloat16)."""
        return numpy_dtype(self._kind)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return math.prod(self._shape) * self.dtype.itemsize

    def __len__(self) -> int:
        return self._shape[0]

    def __repr__(self) -> str:
        return f"<minuet.DeviceArray {list(self._shape)} {self._kind} on {self._device.name}>"

    def numpy(self) -> np.ndarray[Any, Any]:
        """Waits for the stream of the array, and copies it to the host."""
        return self._device.to_host(self)

    def _view(self, stream: int) -> View:
        """Says where the elements lie, to work on them on a stream."""
        self._used.add(stream)
        device = (_dlpack.CUDA, self._device.number)
        return View(self, self._address, self._shape, None, self._kind, False, device)

    def _note_written(self, stream: int) -> None:
        """Says on which stream the array was written last."""
        self._written = stream

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        typestr = "<V2" if self._kind == "bfloat16" else self.dtype.str
        return {
            "shape": self._shape,
            "typestr": typestr,
            "data": (self._address, False),
            "strides": None,
            "version": 3,
            "stream": self._written or 1,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_dlpack.CUDA, self._device.number)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError("the array is not copied to another device: use numpy()")
        if copy:
            raise BufferError("the array is not copied here: copy it with the library that takes it")
        # -1 says that the taker orders its work itself; another stream than the array's has to wait for it.
        if stream != -1:
            theirs = 0 if stream is None or stream == 1 else stream
            self._used.add(theirs)
            if theirs != self._written:
                self._device.synchronize(self._written)
        return _dlpack.export(self, self._address, self._shape, self._kind, self.__dlpack_device__())


def _free(cell: Any, device: int, memory: int, streams: set[int]) -> None:
    if not cell.is_of_parent:
        with freeing(cell) as may_free:
            if may_free:
                # The memory of a caller's allocator is given back at once, so the work on it must be done.
                for stream in streams:
                    library.minuet_device_synchronize(device, stream)
                library.minuet_device_free(device, memory)
    cell.release()


class Queue(Handle):
    """Has what coordinate sets, kernel maps and executions on one stream share: scratch, side streams, freed memory.

    What was made with a queue goes with what was made with the same one only, and its calls name the queue's stream
    and come from one thread at a time. The stream must outlive the queue and all that is made with it.

    Raises:
        ResourceExhaustedError: the device has no memory left.
    """

    def __init__(self, device: Device, stream: Any = None) -> None:
        self._device = device
        self._stream = stream_handle(stream)
        pointer = make("minuet_queue_create", device, self._stream)
        super().__init__(pointer, library.minuet_queue_destroy, device)

    @property
    def stream(self) -> int:
        """The handle of the queue's stream; 0: the default stream."""
        return self._stream
