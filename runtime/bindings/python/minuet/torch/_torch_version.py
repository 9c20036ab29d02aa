"""The versions of torch that the package runs with."""

from __future__ import annotations

import re

#: The oldest version that the package's tests pass with.
LEAST = (2, 11)


def require(version: str) -> None:
    """Raises ImportError where this version of torch, such as "2.11.0+cu130", is too old."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or tuple(map(int, found.groups())) < LEAST:
        raise ImportError(
            f"minuet.torch needs torch {'.'.join(map(str, LEAST))} or newer, and this is torch {version}: install a "
            "newer torch"
        )
