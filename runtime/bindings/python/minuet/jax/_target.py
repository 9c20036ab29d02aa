"""For which device a program is traced: sizes of buffers, and kernels that a program carries, depend on it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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


# Part of the keys of jax's caches, so that a function is traced for each target by itself. None: none is named.
_named: Any = jax.make_user_context(None)


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
    found: Target | None = _named.value
    return found or _default(jax.default_backend())


@contextlib.contextmanager
def target(arch: str, *, with_kernels: bool = True) -> Iterator[None]:
    """Names the GPU for which programs are traced within the block, which need not be there. A function that was traced
    for another target is traced anew.

    Args:
        arch: such as "sm_90a"; "cpu" for none.
        with_kernels: whether the programs carry the kernels, so that a process that loads an export compiles nothing.
    """
    with _named(Target(arch, with_kernels)):
        yield
