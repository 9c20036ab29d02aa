"""The versions of torch that the package runs with."""

from __future__ import annotations

from .._versions import require_version

#: The oldest version that the package's tests pass with.
LEAST = (2, 11)


def require(version: str) -> None:
    """Raises ImportError where this version of torch, such as "2.11.0+cu130", is too old."""
    require_version("minuet.torch", "torch", version, LEAST)
