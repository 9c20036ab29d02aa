"""Errors of the library as exceptions."""

from __future__ import annotations

from enum import IntEnum

from . import _abi


class Status(IntEnum):
    """Kinds of errors; the numbers are those of absl."""

    CANCELLED = _abi.MINUET_CANCELLED
    INVALID_ARGUMENT = _abi.MINUET_INVALID_ARGUMENT
    NOT_FOUND = _abi.MINUET_NOT_FOUND
    RESOURCE_EXHAUSTED = _abi.MINUET_RESOURCE_EXHAUSTED
    FAILED_PRECONDITION = _abi.MINUET_FAILED_PRECONDITION
    OUT_OF_RANGE = _abi.MINUET_OUT_OF_RANGE
    UNIMPLEMENTED = _abi.MINUET_UNIMPLEMENTED
    INTERNAL = _abi.MINUET_INTERNAL
    UNAVAILABLE = _abi.MINUET_UNAVAILABLE


class Error(Exception):
    """A failed call of the library. The text is the library's message, which says what was wrong and what to do.

    Attributes:
        status: the kind of the error.
        detail: what is too long for the message, such as the compiler's log; often empty.
    """

    status: Status

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class CancelledError(Error):
    """The work was stopped before its end."""

    status = Status.CANCELLED


class InvalidArgumentError(Error, ValueError):
    """An argument is wrong, whatever the state of the objects."""

    status = Status.INVALID_ARGUMENT


class NotFoundError(Error, LookupError):
    """A file or a named thing is not there."""

    status = Status.NOT_FOUND


class ResourceExhaustedError(Error, MemoryError):
    """Memory, or a buffer of the caller, is too small."""

    status = Status.RESOURCE_EXHAUSTED


class FailedPreconditionError(Error, RuntimeError):
    """An object is not in the state that the call needs."""

    status = Status.FAILED_PRECONDITION


class OutOfRangeError(Error, IndexError):
    """A coordinate, a count or an index is past its limits."""

    status = Status.OUT_OF_RANGE


class UnimplementedError(Error, NotImplementedError):
    """The library does not have this yet; the message says which way there is instead."""

    status = Status.UNIMPLEMENTED


class InternalError(Error, RuntimeError):
    """The library or a library below it failed."""

    status = Status.INTERNAL


class UnavailableError(Error, RuntimeError):
    """Something that the call needs is not installed or does not work here, such as a GPU or NVRTC."""

    status = Status.UNAVAILABLE


CLASSES: dict[int, type[Error]] = {
    int(kind.status): kind
    for kind in (
        CancelledError,
        InvalidArgumentError,
        NotFoundError,
        ResourceExhaustedError,
        FailedPreconditionError,
        OutOfRangeError,
        UnimplementedError,
        InternalError,
        UnavailableError,
    )
}
