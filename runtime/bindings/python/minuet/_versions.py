"""The versions of frameworks that the package runs with."""

from __future__ import annotations

import re


def require_version(user: str, name: str, version: str, least: tuple[int, int]) -> None:
    """Raises ImportError where the version of a package, such as "2.11.0+cu130", is older than the least one.

    Args:
        user: the module that needs the package.
        name: of the package.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or tuple(map(int, found.groups())) < least:
        raise ImportError(
            f"{user} needs {name} {'.'.join(map(str, least))} or newer, and this is {name} {version}: install a "
            f"newer {name}"
        )
