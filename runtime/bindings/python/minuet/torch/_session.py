"""What geometries of one forward pass share."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def _held_for_training(lock: Any) -> Iterator[None]:
    with lock, torch.inference_mode(False):
        yield


class Session:
    """What a geometry shares with those that were made beside it (Geometry.beside).

    Attributes:
        statuses: bits of minuet.CloudStatus of all that was made in capacity mode, int32 [1] each.
        capacities: of the levels that were made in capacity mode, by the number of the geometry and the level's path.
        geometries: how many there are.
    """

    def __init__(self) -> None:
        self.statuses: list[torch.Tensor] = []
        self.capacities: dict[tuple[Any, ...], int] = {}
        self.geometries = 0
        self._lock = None if torch.compiler.is_compiling() else threading.RLock()

    def building(self) -> contextlib.AbstractContextManager[Any]:
        """Surrounds what makes levels and maps: one thread at a time, and for training too, whatever mode is on."""
        if torch.compiler.is_compiling() or self._lock is None:
            return contextlib.nullcontext()
        if torch.is_inference_mode_enabled():
            # What is made here may serve a training step later, which may not keep tensors of the inference mode.
            return _held_for_training(self._lock)
        return self._lock
