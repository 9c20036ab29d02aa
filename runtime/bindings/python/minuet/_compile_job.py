"""Compiles of plans in the background."""

from __future__ import annotations

from collections.abc import Callable

from . import _abi
from ._library import Handle, LastingCallback, ask, call, calling_back, error_of, library, make


class CompileJob(Handle):
    """A compile in the background (Plan.compile_async). Closing it, or dropping it, cancels the compile."""

    def __init__(self, plan: Handle, arch: str, done: Callable[[Exception | None], object] | None = None) -> None:
        def finish(status: int, user: object) -> None:
            assert done is not None
            done(None if status == _abi.MINUET_OK else error_of(status))

        callback = LastingCallback(_abi.minuet_job_callback, finish if done is not None else None)
        with calling_back():
            pointer = make("minuet_plan_compile_async", plan, arch.encode(), callback.pointer, None)
        super().__init__(pointer, library.minuet_job_destroy, plan, callback)
        # The job's thread may call Python, which is impossible once the interpreter is gone.
        self._finalizer.atexit = True

    @property
    def done(self) -> bool:
        """Says whether the compile has ended."""
        return bool(ask("minuet_job_done", self))

    def cancel(self) -> None:
        """Asks the compile to stop, and returns at once."""
        ask("minuet_job_cancel", self)

    def wait(self) -> None:
        """Waits for the end.

        Raises:
            CancelledError: the compile was stopped before.
            Error: it failed.
        """
        call("minuet_job_wait", self)
