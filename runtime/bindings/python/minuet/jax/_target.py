"""For which device a program is traced: sizes of buffers, and kernels that a program carries, depend on it."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import jax

from .._device import Context, Device


@dataclass(frozen=True)
class Target:
    """An architecture ("cpu", "sm_90a"), and whether programs carry the kernels of their plans for it."""

    arch: str
    with_kernels: bool = False

    @property
    def archs(self) -> list[str]:
        """The architectures whose kernels a plan carries."""
        return [self.arch] if self.with_kernels and self.arch != "cpu" else []


_named = threading.local()


@functools.cache
def context() -> Context:
    """Returns the context with which plans are made while programs are traced."""
    return Context()


@functools.cache
def _default(backend: str) -> Target:
    if backend != "gpu":
        return Target("cpu")
    return Target(Device(context(), f"cuda:{jax.local_devices()[0].local_hardware_id}").arch)


def current() -> Target:
    """Returns the target of this thread: that of target(), or the device that jax uses by default."""
    found: Target | None = getattr(_named, "target", None)
    return found or _default(jax.default_backend())


@contextlib.contextmanager
def target(arch: str, *, with_kernels: bool = True) -> Iterator[None]:
    """Names the GPU for which programs are traced within the block, which need not be there.

    Args:
        arch: such as "sm_90a"; "cpu" for none.
        with_kernels: whether the programs carry the kernels, so that a process that loads an export compiles nothing.
    """
    before = getattr(_named, "target", None)
    _named.target = Target(arch, with_kernels)
    try:
        yield
    finally:
        _named.target = before
