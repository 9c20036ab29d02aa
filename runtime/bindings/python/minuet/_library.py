"""Loads libminuet, calls it, and owns its objects.

Every call goes through call(), which keeps the objects of the call alive, releases the GIL (ctypes does), and raises
the library's error. Every object of the library belongs to a Handle, which may be closed or collected at any time, in
any order and by any thread: an object that is in a call is destroyed at the end of that call.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar

from . import _abi
from ._errors import CLASSES, Error, InternalError

VARIABLE = "MINUET_LIBRARY"
PACKAGE = pathlib.Path(__file__).resolve().parent


def _open() -> ctypes.CDLL:
    """Opens the library that the wheel holds, or the one that MINUET_LIBRARY names."""
    named = os.environ.get(VARIABLE)
    soname = f"libminuet.so.{_abi.MINUET_VERSION_MAJOR}.{_abi.MINUET_VERSION_MINOR}"
    path = pathlib.Path(named) if named else PACKAGE / "lib" / soname
    if not path.exists():
        raise ImportError(
            f"{path} does not exist: install the wheel (pip install ./runtime/bindings/python), or name libminuet.so "
            f"in the environment variable {VARIABLE}"
        )
    loaded = ctypes.CDLL(str(path))
    for name, (result, parameters) in _abi.FUNCTIONS.items():
        try:
            function = getattr(loaded, name)
        except AttributeError:
            raise ImportError(f"{path} has no function {name}: it is older than this Python package") from None
        function.restype = result
        function.argtypes = parameters
    version = loaded.minuet_version()
    expected = (_abi.MINUET_VERSION_MAJOR, _abi.MINUET_VERSION_MINOR)
    if (version // 10000, version // 100 % 100) != expected:
        raise ImportError(
            f"{path} has version {version // 10000}.{version // 100 % 100}, and this Python package is for "
            f"{expected[0]}.{expected[1]}"
        )
    return loaded


library = _open()


def read_text(function: Callable[..., int], *arguments: Any) -> str:
    """Returns the text that a function writes by size query. The text may grow between the two calls."""
    size = function(*arguments, None, 0)
    while True:
        buffer = ctypes.create_string_buffer(size)
        needed = function(*arguments, buffer, size)
        if needed <= size:
            return buffer.value.decode("utf-8", "replace")
        size = needed


def error_of(status: int) -> Error:
    """Returns the exception for a failed call of this thread."""
    message = read_text(library.minuet_last_error)
    detail = read_text(library.minuet_last_error_detail)
    return CLASSES.get(status, InternalError)(message, detail)


# The lock guards the counts of all handles. It is held for a moment only, and reentrant, because a collection may run a
# finalizer anywhere. A fork waits for it, so that a child never inherits it locked.
_lock = threading.RLock()
_forks = 0
_thread = threading.local()
_deferred: list[_Cell] = []


def _count_fork() -> None:
    global _forks
    _forks += 1
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_count_fork)


class _Cell:
    """The state of a handle, which outlives the Python object until the last call that uses it has ended.

    `keep` has the callbacks that the object calls, and the cells of what it was made from, which have theirs.
    """

    def __init__(self, pointer: int, destroy: Callable[[int], object], keep: tuple[Any, ...]) -> None:
        self.pointer = pointer
        self.destroy = destroy
        self.keep = keep
        self.users = 0
        self.closed = False
        self.fork = _forks

    def acquire(self) -> None:
        with _lock:
            if self.closed:
                raise ValueError("the object is closed: it can no longer be used")
            self.users += 1

    def release(self) -> None:
        with _lock:
            self.users -= 1
            is_last = self.closed and self.users == 0
        if is_last:
            self._destroy()

    def close(self) -> None:
        with _lock:
            is_last = not self.closed and self.users == 0
            self.closed = True
        if is_last:
            self._destroy()

    @property
    def is_of_parent(self) -> bool:
        """Whether the process forked since the object was made. A child leaves the parent's objects alone, because
        their threads and GPU contexts stayed in the parent."""
        return self.fork != _forks

    def _destroy(self) -> None:
        if self.is_of_parent:
            return
        # A collection may run anywhere. Inside a callback it may not destroy an object that the interrupted call of the
        # library has locked, and with the lock of the handles held it may not wait for the device.
        if getattr(_thread, "callbacks", 0) or _lock._is_owned():  # type: ignore[attr-defined]
            _deferred.append(self)
        else:
            self.destroy(self.pointer)


Self = TypeVar("Self", bound="Handle")


class Handle:
    """Owns one object of the library.

    Handles may be closed explicitly (close(), or a with statement), or are released when Python collects them, in any
    order: the library keeps what an object was made from alive. A log function or an allocator that refers to the
    object itself keeps it until close(). At the end of the interpreter nothing is released, so that daemon threads may
    still be at work; the operating system frees what is left.
    """

    _may_be_used_after_fork = False

    def __init__(self, pointer: int | None, destroy: Callable[[int], object], *made_from: Any) -> None:
        if not pointer:
            raise InternalError("the library gave no object")
        self._cell = _Cell(pointer, destroy, ())
        self._keep(*made_from)
        self._finalizer = weakref.finalize(self, self._cell.close)
        self._finalizer.atexit = False

    def _keep(self, *objects: Any) -> None:
        """Keeps callbacks, and those of other handles, as long as the library may call them."""
        kept = (item._cell if isinstance(item, Handle) else item for item in objects if item is not None)
        self._cell.keep += tuple(item for item in kept if item not in self._cell.keep)

    def close(self) -> None:
        """Releases the object. Waits for the work that it has enqueued; calls in other threads are not disturbed."""
        self._cell.close()
        self._finalizer.detach()

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._cell.closed

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _acquire(self) -> int:
        if self._cell.is_of_parent and not self._may_be_used_after_fork:
            raise RuntimeError(
                f"this {type(self).__name__} was made before the process forked: make it in the child, or start "
                "processes with the method 'spawn'"
            )
        self._cell.acquire()
        return self._cell.pointer


@contextlib.contextmanager
def using(*handles: Handle | None) -> Iterator[list[int | None]]:
    """Gives the pointers of the handles, and keeps the objects alive until the end of the with statement."""
    held: list[Handle] = []
    try:
        pointers: list[int | None] = []
        for handle in handles:
            pointers.append(None if handle is None else handle._acquire())
            if handle is not None:
                held.append(handle)
        yield pointers
    finally:
        for handle in held:
            handle._cell.release()


def _invoke(name: str, arguments: tuple[Any, ...], returns_status: bool) -> Any:
    held: list[_Cell] = []
    try:
        given: list[Any] = []
        for argument in arguments:
            if isinstance(argument, Handle):
                given.append(argument._acquire())
                held.append(argument._cell)
            else:
                given.append(argument)
        result = getattr(library, name)(*given)
        # The message belongs to the thread, so it is read before anything else is called.
        if returns_status and result != _abi.MINUET_OK:
            raise error_of(result)
        return result
    finally:
        for cell in held:
            cell.release()
        if _deferred and not getattr(_thread, "callbacks", 0):
            _destroy_deferred()


def ask(name: str, *arguments: Any) -> Any:
    """Calls a function whose result is a value. Handles among the arguments become their pointers."""
    return _invoke(name, arguments, False)


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status, and raises its error."""
    _invoke(name, arguments, True)


def make(name: str, *arguments: Any) -> int | None:
    """Calls a function whose last parameter gets a new object, and returns the object's address."""
    pointer = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(pointer))
    return pointer.value


def _destroy_deferred() -> None:
    while _deferred:
        try:
            cell = _deferred.pop()
        except IndexError:  # Another thread took the last one.
            return
        cell.destroy(cell.pointer)


class Callback:
    """A Python function as a callback of one call. An exception in it is kept, and raised when the call is over."""

    def __init__(self, kind: Any, function: Callable[..., Any] | None, on_error: Any = None) -> None:
        self.error: BaseException | None = None
        self._function = function
        self._on_error = on_error
        self.pointer = kind(self._run) if function is not None else kind()

    def _run(self, *arguments: Any) -> Any:
        assert self._function is not None
        _thread.callbacks = getattr(_thread, "callbacks", 0) + 1
        try:
            return self._function(*arguments)
        except BaseException as error:
            if self.error is None:
                self.error = error
            return self._on_error
        finally:
            _thread.callbacks -= 1

    def raise_error(self) -> None:
        if self.error is not None:
            raise self.error


class LastingCallback(Callback):
    """A callback that outlives the call. There is no one to raise an exception to, so it is reported as unraisable."""

    def _run(self, *arguments: Any) -> Any:
        result = super()._run(*arguments)
        if self.error is not None:
            error, self.error = self.error, None
            sys.unraisablehook(_Unraisable(error, self._function))  # type: ignore[arg-type]
        return result


class _Unraisable:
    """What sys.unraisablehook reads."""

    def __init__(self, error: BaseException, function: object) -> None:
        self.exc_type = type(error)
        self.exc_value = error
        self.exc_traceback = error.__traceback__
        self.err_msg = "Exception ignored in a callback of minuet"
        self.object = function
