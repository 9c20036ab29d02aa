"""The command `minuet`: starts the command-line tool that the wheel holds."""

from __future__ import annotations

import os
import sys

from . import _cuda_libraries
from ._library import PACKAGE


def run(arguments: list[str]) -> int:
    """Becomes the tool; returns only where it cannot be started."""
    tool = PACKAGE / "bin" / "minuet"
    if not tool.exists():
        print(f"minuet: {tool} does not exist: install the wheel", file=sys.stderr)
        return 1
    environment = dict(os.environ)
    for name, path in (("MINUET_NVRTC", _cuda_libraries.nvrtc()), ("MINUET_CUBLASLT", _cuda_libraries.cublaslt())):
        if path is not None:
            environment[name] = path
    os.execve(tool, [str(tool), *arguments], environment)


def main() -> int:
    """Runs the tool with the arguments of this process."""
    return run(sys.argv[1:])
