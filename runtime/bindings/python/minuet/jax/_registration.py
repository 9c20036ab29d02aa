"""Loads libminuet_xla, and registers its custom calls with jax."""

from __future__ import annotations

import ctypes
import pathlib
from typing import Any

import jax

from .._library import library

#: The least version of jax: the first with XLA FFI 0.3, with which libminuet_xla is built.
LEAST = (0, 10)


class _Handler(ctypes.Structure):
    """minuet_xla_handler of minuet_xla.h."""

    name: bytes
    platform: bytes
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("platform", ctypes.c_char_p),
        ("instantiate", ctypes.c_void_p),
        ("prepare", ctypes.c_void_p),
        ("initialize", ctypes.c_void_p),
        ("execute", ctypes.c_void_p),
    )


def _open() -> ctypes.CDLL:
    version = tuple(int(part) for part in jax.__version__.split(".")[:2])
    if version < LEAST:
        raise ImportError(f"minuet.jax needs jax {LEAST[0]}.{LEAST[1]} or newer, and this is jax {jax.__version__}")
    path = pathlib.Path(library._name).parent / "libminuet_xla.so"
    if not path.exists():
        raise ImportError(
            f"{path} does not exist, because no jaxlib was there when libminuet was built: install jax, and configure "
            "and build Minuet again"
        )
    return ctypes.CDLL(str(path))


def _register() -> tuple[str, ...]:
    """Registers all handlers, and returns the names of their targets."""
    opened = _open()
    at: Any = opened.minuet_xla_handler_at
    at.restype, at.argtypes = ctypes.POINTER(_Handler), [ctypes.c_int32]
    names: dict[str, None] = {}
    index = 0
    while found := at(index):
        handler = found.contents
        stages = ("instantiate", "prepare", "initialize", "execute")
        capsules = {stage: jax.ffi.pycapsule(getattr(handler, stage)) for stage in stages}
        platform = {"Host": "cpu"}.get(handler.platform.decode(), handler.platform.decode())
        names[handler.name.decode()] = None
        jax.ffi.register_ffi_target(handler.name.decode(), capsules, platform=platform)
        index += 1
    return tuple(names)


#: The names of the custom calls.
TARGETS = _register()


def export_checks() -> list[jax.export.DisabledSafetyCheck]:
    """Returns the `disabled_checks` with which jax.export.export accepts programs that call Minuet. The program that
    loads the export imports minuet.jax, too, so that the custom calls are registered there."""
    return [jax.export.DisabledSafetyCheck.custom_call(name) for name in TARGETS]
