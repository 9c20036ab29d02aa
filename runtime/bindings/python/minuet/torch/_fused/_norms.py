"""Batch norms of a fused module: how they run, and what a step changes in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from .._places import Place
from ._tensors import Tensors


class Mode(NamedTuple):
    """Batch norms use the statistics of the batch, which has this share in the running ones; None: that of all others
    before it."""

    momentum: float | None


def versions_of(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Returns torch's counts of changes of tensors. Those that were made in inference mode have none."""
    try:
        return [tensor._version for tensor in tensors]
    except RuntimeError:
        return [0 if tensor.is_inference() else tensor._version for tensor in tensors]


def _marks(counters: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    return list(zip([counter.data_ptr() for counter in counters], versions_of(counters), strict=True))


class Norms:
    """The batch norms of a module.

    Args:
        module: the module.
        dropouts: the names of its modules that call a dropout.
        tensors: of it.
    """

    def __init__(self, module: nn.Module, dropouts: Sequence[str], tensors: Tensors, place: Place) -> None:
        self._norms, self._tensors, self._place = tensors.norms, tensors, place
        self._buffers = [norm._buffers for norm in self._norms]
        self._dropouts = [(name, module.get_submodule(name)) for name in dropouts]
        # Addresses and versions of counters that are known to be the same number.
        self._same: list[tuple[int, int]] = []
        self._zero = torch.zeros(1, dtype=torch.int64, device=place.device)

    def mode(self) -> Mode | None:
        """Returns how the norms run now; None where none uses the statistics of the batch.

        Raises:
            ValueError: they do not run alike, or the module is random.
        """
        for name, part in self._dropouts:
            if part.training:
                where = f"the module {name!r}" if name else "the fused module"
                raise ValueError(
                    f"{where} has a dropout, which is random, and a network has none: fuse with p=0, set it to eval(), "
                    "or fuse the parts before and behind it"
                )
        norms = self._norms
        if not norms:
            return None
        training, momentum = norms[0].training, norms[0].momentum
        for norm in norms:
            if norm.training is not training or norm.momentum != momentum or not norm.track_running_stats:
                raise ValueError(self._difference())
        if not training:
            return None
        if self._tensors.shared_norm:
            raise ValueError(
                f"the module calls the batch norm {self._tensors.shared_norm!r} more than once, so that a step "
                "would change its statistics more than once: give each call a batch norm of its own"
            )
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self._require_own_statistics()
        return Mode(momentum)

    def _difference(self) -> str:
        for name, norm in zip(self._tensors.norm_names, self._norms, strict=True):
            if not norm.track_running_stats:
                return f"the batch norm {name!r} has track_running_stats=False: a network keeps running statistics"
        what = "training" if len({norm.training for norm in self._norms}) > 1 else "momentum"
        values = {getattr(norm, what): name for name, norm in zip(self._tensors.norm_names, self._norms, strict=True)}
        text = " and ".join(f"{value} in {name!r}" for value, name in list(values.items())[:2])
        return (
            f"the batch norms of a fused module differ in `{what}`: {text}. Give all of them the same, or fuse the "
            "parts of the module that have the same"
        )

    def _require_own_statistics(self) -> None:
        for name, norm in zip(self._tensors.norm_names, self._norms, strict=True):
            is_shared = isinstance(norm, nn.SyncBatchNorm) or getattr(norm, "group", None) is not None
            if is_shared and torch.distributed.get_world_size() > 1:
                raise ValueError(
                    f"the batch norm {name!r} has the statistics of all ranks, and a fused module has those of its own "
                    "rank: use torch.nn.BatchNorm1d, or run the module op by op"
                )

    def _counters(self) -> list[torch.Tensor]:
        # Attributes of modules take longer to find.
        found = [buffers["num_batches_tracked"] for buffers in self._buffers]
        return [counter for counter in found if counter is not None]

    def begin(self, mode: Mode | None, is_exact: bool) -> Counts | None:
        """Returns where a forward call counts the batch; None where running statistics do not change."""
        if mode is None or mode.momentum == 0.0:
            return None
        if mode.momentum is None:
            counters = self._counters()
            if len(counters) < len(self._norms):
                raise ValueError("without a momentum, each batch norm needs num_batches_tracked")
            self._require_same_counts(counters)
            address = counters[0].data_ptr()
            return Counts(address, address, None)
        if is_exact:
            return Counts(None, None, None)
        added = torch.empty(1, dtype=torch.int64, device=self._place.device)
        return Counts(self._zero.data_ptr(), added.data_ptr(), added)

    def end(self, mode: Mode | None, counts: Counts | None) -> None:
        """Takes note of what a forward call changes, and counts the batch where only the device knows whether the cloud
        has voxels and fits."""
        if mode is None or counts is None:
            return
        statistics = [buffers[name] for buffers in self._buffers for name in ("running_mean", "running_var")]
        counters = self._counters()
        if mode.momentum is None:
            torch.autograd.graph.increment_version([*statistics, counters[0]])
            if len(counters) > 1:
                torch._foreach_copy_(counters[1:], [counters[0]] * (len(counters) - 1))
            self._same = _marks(counters)
            return
        torch.autograd.graph.increment_version(statistics)
        if counts.added is not None and counters:
            torch._foreach_add_(counters, [counts.added.view(())] * len(counters))

    def _require_same_counts(self, counters: Sequence[torch.Tensor]) -> None:
        """Raises ValueError where batch norms have counted other numbers of batches. The network has one number."""
        marks = _marks(counters)
        if marks == self._same and not any(counter.is_inference() for counter in counters):
            return
        for name, counter in zip(self._tensors.norm_names, counters, strict=True):
            if counter.dtype != torch.int64 or counter.shape or counter.device != self._place.device:
                raise ValueError(
                    f"num_batches_tracked of {name!r} is {counter.dtype} of the shape {list(counter.shape)} on "
                    f"{counter.device}: give it one int64 on {self._place.device}, as torch does"
                )
        if self._place.is_capturing():
            raise RuntimeError(
                "num_batches_tracked of the batch norms was set since the last step, and a graph cannot compare what "
                "they have counted: run one step, and then capture"
            )
        numbers = torch.stack(list(counters)).tolist()
        for name, number in zip(self._tensors.norm_names, numbers, strict=True):
            if number != numbers[0]:
                raise ValueError(
                    "without a momentum, all batch norms of a fused module must have counted the same number of "
                    f"batches: {self._tensors.norm_names[0]!r} has {numbers[0]}, and {name!r} has {number}. Call "
                    "reset_running_stats() of all, or fuse the parts of the module that have the same"
                )
        self._same = marks

    def count(self, mode: Mode | None) -> None:
        """Counts a batch, but where the forward call does."""
        if mode is not None and mode.momentum is not None:
            counters = self._counters()
            if counters:
                torch._foreach_add_(counters, 1)


class Counts(NamedTuple):
    """Addresses of the numbers of batches before and behind a step, and the memory of the latter."""

    before: int | None
    behind: int | None
    added: Any
