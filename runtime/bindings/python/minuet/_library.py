"""Loads libminuet, calls it, and owns its objects.

Every call goes through call(), which keeps the objects of the call alive, releases the GIL (ctypes does), and raises
the library's error. Every object of the library belongs to a Handle, which may be closed or collected at any time, in
any order and by any thread: an object that is in a call is destroyed at the end of that call.
"""

from __future__ import annotations

# The module `signal` makes enumerations of all that it takes and gives, which takes longer than a call.
import _signal  # type: ignore[import-not-found]
import atexit
import contextlib
import ctypes
import operator
import os
import pathlib
import sys
import threading
import time
import traceback
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar

from . import _abi, _integers
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
    global _forks, _busy
    _forks += 1
    _busy = getattr(_thread, "busy", 0)
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_count_fork)

# At the end of the interpreter no other thread may be in a call that calls Python back: before Python 3.14 such a
# thread is unwound through the frames of the library, which ends the process. _busy counts these calls of all threads.
END_SECONDS = 5.0
_busy = 0
_is_ending = False


def _enter_callbacks() -> bool:
    """Begins a call that may call Python back, and says whether it may: no more on a daemon thread once the interpreter
    ends."""
    global _busy
    is_main = threading.current_thread() is threading.main_thread()
    with _lock:
        depth = getattr(_thread, "busy", 0)
        if _is_ending and not depth and not is_main:
            return False
        _busy += 1
        _thread.busy = depth + 1
    if is_main and not depth:
        _hold_interrupts()
    return True


def _leave_callbacks() -> None:
    global _busy
    with _lock:
        _busy -= 1
        _thread.busy -= 1
    if not _thread.busy:
        _give_interrupts_back()


@contextlib.contextmanager
def calling_back() -> Iterator[None]:
    """Surrounds a call that may call Python back. Where it may not any more, it waits for the end."""
    while not _enter_callbacks():
        time.sleep(3600)
    try:
        yield
    finally:
        _leave_callbacks()
        _raise_interrupt()


# Python runs the handler of Ctrl-C where it enters a callback, before any `try` of ours, so that its KeyboardInterrupt
# would go to ctypes, which drops it. Between the callbacks of a call it is therefore kept until the end of the call.
_handler: Any = None


def _on_interrupt(number: int, frame: Any) -> None:
    if getattr(_thread, "callbacks", 0):  # In the user's function, where it is caught.
        _handler(number, frame)
        return
    try:
        _handler(number, frame)
    except BaseException as error:
        _thread.interrupt = error


def _hold_interrupts() -> None:
    global _handler
    handler = _signal.getsignal(_signal.SIGINT)
    if callable(handler):
        with contextlib.suppress(ValueError):  # Only the main interpreter has handlers.
            _handler = handler
            _signal.signal(_signal.SIGINT, _on_interrupt)


def _give_interrupts_back() -> None:
    if threading.current_thread() is threading.main_thread() and _signal.getsignal(_signal.SIGINT) is _on_interrupt:
        _signal.signal(_signal.SIGINT, _handler)


def _end() -> None:
    """Has daemon threads end the calls that call Python back, and cancels those that can be cancelled."""
    global _is_ending
    _is_ending = True
    until = time.monotonic() + END_SECONDS
    while _busy > getattr(_thread, "busy", 0) and time.monotonic() < until:
        time.sleep(0.001)


atexit.register(_end)


def is_stopping() -> bool:
    """Says whether what can be cancelled is to end: after Ctrl-C, and at the end of the interpreter."""
    return _is_ending or getattr(_thread, "interrupt", None) is not None


class _Cell:
    """The state of a handle, which outlives the Python object until the last call that uses it has ended.

    `keep` has the callbacks that the object calls, and the cells of what it was made from, which have theirs;
    `memory` is the caller's memory that it works in.
    """

    def __init__(self, pointer: int, destroy: Callable[[int], object], keep: tuple[Any, ...]) -> None:
        self.pointer = pointer
        self.destroy = destroy
        self.keep = keep
        self.memory: Any = None
        self.calls_back = False
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
        """Says whether the process forked since the object was made. A child leaves the parent's objects alone, because
        their threads and GPU contexts stayed in the parent."""
        return self.fork != _forks

    def _destroy(self) -> None:
        # A collection may run anywhere. Inside a callback it may not destroy an object that the interrupted call of the
        # library has locked, and with the lock of the handles held it may not wait for the device.
        if getattr(_thread, "callbacks", 0) or _lock._is_owned():  # type: ignore[attr-defined]
            _deferred.append(self)
        else:
            self.destroy_now()

    def destroy_now(self) -> None:
        # Asked here, because the process may have forked since the object was deferred.
        if self.is_of_parent:
            return
        with freeing(self) as may_free:
            if may_free:
                self.destroy(self.pointer)


@contextlib.contextmanager
def freeing(cell: _Cell) -> Iterator[bool]:
    """Surrounds what gives memory back, which may happen in a collection, and says whether it may."""
    if not cell.calls_back:
        yield True
        return
    may = _enter_callbacks()
    try:
        yield may
    finally:
        if may:
            _leave_callbacks()


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
        kept = [item._cell if isinstance(item, Handle) else item for item in objects if item is not None]
        cell = self._cell
        with _lock:
            cell.keep += tuple(item for item in kept if not any(item is other for other in cell.keep))
            cell.calls_back = any(isinstance(item, LastingCallback) or item.calls_back for item in cell.keep)

    def close(self) -> None:
        """Releases the object. Waits for the work that it has enqueued; calls in other threads are not disturbed."""
        self._cell.close()
        self._finalizer.detach()

    @property
    def closed(self) -> bool:
        """Says whether close() was called."""
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
        with calling_back() if any(handle._cell.calls_back for handle in held) else contextlib.nullcontext():
            yield pointers
    finally:
        for handle in held:
            handle._cell.release()


# The places and the types of the integers among the parameters of each function.
_INTEGERS = {
    name: [(place, kind) for place, kind in enumerate(parameters) if kind in _integers.LIMITS]
    for name, (_, parameters) in _abi.FUNCTIONS.items()
}


def _invoke(name: str, arguments: tuple[Any, ...], is_error: Callable[[int], bool] | None) -> Any:
    held: list[_Cell] = []
    function = getattr(library, name)
    calls_back = False
    try:
        given: list[Any] = []
        for argument in arguments:
            if isinstance(argument, Handle):
                given.append(argument._acquire())
                held.append(argument._cell)
                calls_back = calls_back or argument._cell.calls_back
            else:
                given.append(argument)
        for place, kind in _INTEGERS[name]:
            given[place] = _integers.checked(kind, given[place], f"argument {place} of {name}")
        if calls_back:
            with calling_back():
                result = function(*given)
        else:
            result = function(*given)
        # The message belongs to the thread, so it is read before anything else is called.
        error = error_of(result) if is_error is not None and is_error(result) else None
    finally:
        for cell in held:
            cell.release()
        if not getattr(_thread, "callbacks", 0):
            if _deferred:
                _destroy_deferred()
            _raise_interrupt()
    if error is not None:
        raise error
    return result


def _raise_interrupt() -> None:
    """Raises the KeyboardInterrupt or SystemExit of a lasting callback, once the call that it came in is over."""
    interrupt = getattr(_thread, "interrupt", None)
    if interrupt is not None:
        _thread.interrupt = None
        raise interrupt


def ask(name: str, *arguments: Any) -> Any:
    """Calls a function whose result is a value. Handles among the arguments become their pointers."""
    return _invoke(name, arguments, None)


def ask_count(name: str, *arguments: Any) -> int:
    """Calls a function whose result is a number, and negative where it failed."""
    number: int = _invoke(name, arguments, lambda result: result < 0)
    return number


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status, and raises its error."""
    _invoke(name, arguments, lambda result: result != _abi.MINUET_OK)


def call_with(callbacks: Sequence[Callback], name: str, *arguments: Any) -> None:
    """Calls a function with callbacks. An exception in one of them goes before the error that follows from it."""
    try:
        with calling_back():
            call(name, *arguments)
    finally:
        for callback in callbacks:
            callback.raise_error()


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
        cell.destroy_now()


class Callback:
    """A Python function as a callback of one call. An exception in it is kept, and raised when the call is over.

    ctypes gives the library whatever is in memory where a callback raises or returns no number of its type, so that
    results are converted here, and nothing is raised.
    """

    def __init__(self, kind: Any, function: Callable[..., Any] | None, on_error: int = 0) -> None:
        self.error: BaseException | None = None
        self._function = function
        self._on_error = on_error
        self._has_result = kind._restype_ is not None
        self.pointer = kind(self._run) if function is not None else kind()

    def _run(self, *arguments: Any) -> Any:
        try:
            _thread.callbacks = getattr(_thread, "callbacks", 0) + 1
            try:
                assert self._function is not None
                result = self._function(*arguments)
                if not self._has_result:
                    return None
                return 0 if result is None else operator.index(result)
            finally:
                _thread.callbacks -= 1
        except BaseException as error:
            self._report(error)
            return self._on_error if self._has_result else None

    def _report(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error

    def raise_error(self) -> None:
        if self.error is not None:
            raise self.error


class LastingCallback(Callback):
    """A callback that outlives the call. There is no one to raise an exception to, so it is reported as unraisable; an
    interrupt is raised at the end of the call that it came in."""

    def _report(self, error: BaseException) -> None:
        try:
            if isinstance(error, KeyboardInterrupt | SystemExit) and getattr(_thread, "busy", 0) > 0:
                _thread.interrupt = error
            elif sys.unraisablehook is sys.__unraisablehook__:
                # Python's own hook takes an object that only C makes.
                print(f"{_MESSAGE}: {self._function!r}", file=sys.stderr)
                traceback.print_exception(error)
            else:
                sys.unraisablehook(_unraisable(error, self._function))
        except BaseException:
            # The hook failed, or there is no standard error: there is nowhere left to report to.
            return


_MESSAGE = "Exception ignored in a callback of minuet"


def _unraisable(error: BaseException, function: object) -> Any:
    """Returns what a hook reads."""
    return types.SimpleNamespace(
        exc_type=type(error), exc_value=error, exc_traceback=error.__traceback__, err_msg=_MESSAGE, object=function
    )
