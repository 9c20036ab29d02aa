"""What scale.py and its ranks share: the work of each rank, batches of clouds that differ in size, and how the time of
a step is divided.

It needs numpy only, so that a process with one framework does not load another.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from measuring import add_cloud_arguments, spread

IN_CHANNELS, CLASSES = 4, 20
# The share of the voxels that a cloud of a batch lacks: anything up to this, so that clouds differ in size. Clouds of
# equal size lack half of it.
MOST_DROPPED = 0.3
WEAK, EQUAL, STRONG = "weak", "weak, equal sizes", "strong"
WARM_UP, PROFILED = 12, 5
WARM_UP_ON_CPU = 2
# The first losses of training, which are recorded: those of the whole batch.
LOSSES = 4


class Batches:
    """Batches of clouds, each a random part of one scene. A batch is the same for any number of ranks that share it.

    Args:
        coordinates: int32 [n, 4] of the scene.
        clouds: how many clouds the batch of all ranks has.
        ranks: how many ranks share it.
        equal: all clouds have the same number of voxels. Otherwise they differ.
    """

    def __init__(self, name: str, coordinates: np.ndarray, clouds: int, ranks: int, equal: bool = False) -> None:
        if clouds % ranks:
            raise ValueError(f"{clouds} clouds cannot be divided among {ranks} ranks: give --batch a multiple of that")
        coordinates = np.array(coordinates, np.int32)
        coordinates[:, 1:] -= coordinates[:, 1:].min(0)
        coordinates[:, 0] = 0
        self.name, self.all, self.equal = name, coordinates, equal
        self.clouds, self.ranks, self.clouds_of_rank = clouds, ranks, clouds // ranks
        # A multiple of 16 cells, so that no level loses its last cells.
        self.shape = [-(-(int(most) + 1) // 16) * 16 for most in coordinates[:, 1:].max(0)]

    def draw(self, step: int, rank: int, whole: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the clouds of a rank in a step: coordinates with the batch index first, float32 features and labels.

        Args:
            whole: no voxel is dropped. The result is the same on all ranks but for features and labels, and has as many
                voxels as any draw may have.
        """
        parts = []
        for number in range(self.clouds_of_rank):
            cloud = rank * self.clouds_of_rank + number
            random = np.random.default_rng([step, cloud])
            drawn = random.uniform(0, MOST_DROPPED)
            dropped = 0.0 if whole else MOST_DROPPED / 2 if self.equal else drawn
            kept = np.sort(random.permutation(len(self.all))[int(len(self.all) * dropped) :])
            coordinates = self.all[kept]
            coordinates[:, 0] = number
            features = random.random((len(kept), IN_CHANNELS), np.float32)
            parts.append((coordinates, features, random.integers(0, CLASSES, len(kept))))
        coordinates, features, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return coordinates, features, labels

    def capacities(self, levels: int) -> list[int]:
        """Returns how many voxels each level of a rank may have, the same on all ranks."""
        counts = [len(np.unique(self.all // [1, 2**level, 2**level, 2**level], axis=0)) for level in range(levels)]
        return [-(-count * self.clouds_of_rank // 256) * 256 for count in counts]


def add_work_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that say what the ranks measure."""
    add_cloud_arguments(parser)
    parser.add_argument("--batch", type=int, default=8, help="clouds of a batch in strong scaling (default: 8)")
    parser.add_argument("--mode", action="append", default=[], help="only modes with these names, or that begin so")
    parser.add_argument("--weak", action="store_true", help="weak scaling only")
    parser.add_argument("--equal", action="store_true", help="weak scaling with clouds of equal size only")
    parser.add_argument("--strong", action="store_true", help="strong scaling only")
    parser.add_argument("--training", action="store_true", help="the training step only")
    parser.add_argument("--inference", action="store_true", help="inference only")


def add_rank_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments with which scale.py starts processes."""
    add_work_arguments(parser)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--output", required=True, help="the JSON file of this process")
    parser.add_argument("--started", type=float, required=True, help="when it was started, by time.monotonic()")
    parser.add_argument("--only-start", action="store_true", help="end after the first training step")


def selected(given: argparse.Namespace, names: dict[str, str]) -> list[str]:
    """Returns the names, values of `names`, whose arguments are given; without any, all."""
    return [name for argument, name in names.items() if getattr(given, argument)] or list(names.values())


def selected_work(given: argparse.Namespace) -> list[str]:
    """Returns what is to be measured."""
    return selected(given, {"training": "training step", "inference": "inference"})


def is_wanted(given: argparse.Namespace, mode: str) -> bool:
    """Whether the arguments ask for a mode."""
    return not given.mode or mode.startswith(tuple(given.mode))


def batches_of(given: argparse.Namespace, clouds: dict[str, np.ndarray]) -> Iterator[tuple[str, Batches]]:
    """Gives (scaling, batches) for each cloud. In weak scaling each rank has one cloud, in strong scaling its share."""
    for scaling in selected(given, {"weak": WEAK, "equal": EQUAL, "strong": STRONG}):
        for name, coordinates in clouds.items():
            clouds_of_all = given.batch if scaling == STRONG else given.ranks
            yield scaling, Batches(name, coordinates, clouds_of_all, given.ranks, scaling == EQUAL)


def kernels_in(folder: pathlib.Path) -> int:
    """Returns the number of kernels in a cache folder."""
    return sum(path.is_file() for path in folder.glob("v1/obj/*/*"))


def start_record(started: float, counters: Any) -> dict[str, Any]:
    """Returns the seconds from the start of the process until now, where the library's kernels came from, and how many
    the cache folder has."""
    seconds = round(time.monotonic() - started, 3)
    names = ("compiled", "disk_hits", "bundle_hits", "failures", "waits", "lock_timeouts", "compile_ms", "wait_ms")
    kernels = {name: round(getattr(counters, name), 1) for name in names}
    return {"seconds": seconds, "kernels": kernels, "cached": kernels_in(pathlib.Path(os.environ["MINUET_CACHE_DIR"]))}


def write_process(path: str, document: dict[str, Any]) -> None:
    """Writes what a process has measured, for scale.py."""
    pathlib.Path(path).write_text(json.dumps(document) + "\n")


def divide(steps: Sequence[Sequence[float]], alone: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Divides the times of steps of all ranks, in ms.

    Args:
        steps: of each rank, its times of the steps.
        alone: the same without anything that ranks exchange.

    Returns:
        The spreads of: the whole step, which ends with the last rank; what exchange adds to the slowest rank's step
        (`communication_ms`, in which what runs beside computation does not count); and for each rank the time that it
        waits because another one has more to compute.
    """
    whole, each = np.max(np.asarray(steps, float), axis=0), np.asarray(alone, float)
    slowest = each.max(0)
    return {
        "wall_ms": spread(whole),
        "communication_ms": spread(whole - slowest),
        "waiting_ms": [spread(slowest - own) for own in each],
    }


def kernel_class(name: str) -> str:
    """Returns whose work an op of a profile is: `ours`, `exchange` or `other`."""
    if "minuet" in name:  # The namespace of kernels, mangled or not, and of ops of torch.
        return "ours"
    return "exchange" if any(word in name.lower() for word in ("nccl", "gloo", "all-reduce", "all-gather")) else "other"


def sum_by_class(events: Sequence[tuple[str, float]], calls: int) -> dict[str, float]:
    """Returns the ms of each class of work in a call, from (name, microseconds) of what ran in several calls."""
    sums = {"ours": 0.0, "exchange": 0.0, "other": 0.0}
    for name, microseconds in events:
        sums[kernel_class(name)] += microseconds / 1e3 / calls
    return {name: round(total, 4) for name, total in sums.items()}
