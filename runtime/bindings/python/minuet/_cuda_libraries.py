"""Finds NVRTC and cuBLASLt of CUDA 13 in the nvidia-* wheels that pip installed for this Python.

The library itself looks into toolkits and virtual environments. It cannot know Python's module path, so that what is
installed elsewhere is found here. A name in the environment goes first.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import pathlib


@functools.cache
def _find(name: str, folders: tuple[str, ...]) -> str | None:
    try:
        wheels = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return None
    for root in (wheels and wheels.submodule_search_locations) or ():
        for folder in folders:
            path = pathlib.Path(root) / folder / "lib" / name
            if path.exists():
                return str(path)
    return None


def nvrtc() -> str | None:
    """Returns the path of libnvrtc, or None where the library is to look for it."""
    return None if os.environ.get("MINUET_NVRTC") else _find("libnvrtc.so.13", ("cu13", "cuda_nvrtc"))


def cublaslt() -> str | None:
    """Returns the path of cuBLASLt, or None where the library is to look for it."""
    return None if os.environ.get("MINUET_CUBLASLT") else _find("libcublasLt.so.13", ("cu13", "cublas"))
