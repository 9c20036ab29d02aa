#!/usr/bin/env python3
"""Measures how MinkUNet42 scales over the GPUs of a machine, in PyTorch and JAX, and writes one JSON file.

usage: scale.py --commit COMMIT --output FILE [--torch] [--jax] [--counts N ...] [--weak] [--equal] [--strong]
                [--training] [--inference] [--mode NAME ...] [--batch N] [--cloud NAME=FILE.npy ...] [--random]
                [--device cuda|cpu] [--points N] [--repeats N]

  --torch    a process for each device, DistributedDataParallel over NCCL, or gloo on the CPU: scale_torch.py
  --jax      one process with all devices, jax.shard_map over a mesh of clouds: scale_jax.py
  --counts   numbers of devices; default: the powers of two up to those of the machine, and on the CPU 1 and 2

In weak scaling each device has one cloud. In strong scaling the devices share the clouds of one batch (--batch), all of
which a single device has. Clouds are random parts of those that are given, and differ in size, but for a second form of
weak scaling (--equal), in which no device waits for a larger cloud.

For each framework and count, the processes are started twice on the same cache folder, which is empty at first. In
PyTorch, the first start compiles each kernel once, whatever the number of processes, and the second compiles nothing,
or the result lists a failure. JAX has one process, whose custom calls have counters that the script cannot read: there,
a second start with more kernels in the folder is the failure. The second start measures. A result also lists a failure
where the first losses in strong scaling, with batch norms over all devices, are not those of one device with the whole
batch. See tools/bench/methods.md.

It needs the package minuet, and torch or jax.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import minuet
import numpy as np
from measuring import Record, cloud_arrays, framework_versions, host_cpu
from scaling import STRONG, add_work_arguments

FRAMEWORKS = {"torch": "PyTorch", "jax": "JAX"}
# How far the first losses may be from those of one device, which adds in another order, in float16.
LOSS_BOUND = 2e-2
TIMEOUT_S = 3600


def work_arguments(given: argparse.Namespace) -> list[str]:
    """Returns the arguments that processes share."""
    words = ["--device", given.device, "--repeats", str(given.repeats), "--batch", str(given.batch)]
    words += ["--points", str(given.points)] * bool(given.points)
    for name in ("random", "weak", "equal", "strong", "training", "inference"):
        words += [f"--{name}"] * getattr(given, name)
    for name in ("cloud", "mode"):
        words += [word for value in getattr(given, name) for word in (f"--{name}", value)]
    return words


def commands_of(framework: str, count: int, folder: pathlib.Path) -> list[list[str]]:
    """Returns the command lines of the processes of a framework, each without the arguments that all share."""
    script = str(pathlib.Path(__file__).with_name(f"scale_{framework}.py"))
    shared = [sys.executable, script, "--ranks", str(count)]
    if framework == "jax":
        return [[*shared, "--output", str(folder / "0.json")]]
    store = ["--store", str(folder / "store")]
    return [[*shared, *store, "--rank", str(rank), "--output", str(folder / f"{rank}.json")] for rank in range(count)]


def run_processes(commands: list[list[str]], cache: pathlib.Path, arguments: list[str]) -> list[dict[str, Any]]:
    """Runs processes side by side, and returns what each has written.

    Raises:
        RuntimeError: one of them failed. The others are ended, because they would wait for it.
    """
    cores = max(1, len(os.sched_getaffinity(0)) // len(commands))
    settings = {"OMP_NUM_THREADS": str(cores), **os.environ, "MINUET_CACHE_DIR": str(cache)}
    started, running = time.monotonic(), []
    for command in commands:
        words = [*command, "--started", str(started), *arguments]
        running.append(subprocess.Popen(words, env=settings, stdout=sys.stderr))
    try:
        waiting = list(running)
        while waiting:
            for process in list(waiting):
                if process.poll() is not None:
                    waiting.remove(process)
                    if process.returncode:
                        raise RuntimeError(f"{' '.join(process.args)} ended with {process.returncode}")
            if time.monotonic() - started > TIMEOUT_S:
                raise RuntimeError(f"{' '.join(waiting[0].args)} took longer than {TIMEOUT_S} s")
            time.sleep(0.02)
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()
    outputs = [command[command.index("--output") + 1] for command in commands]
    return [json.loads(pathlib.Path(output).read_text()) for output in outputs]


def start_row(which: str, count: int, documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the row of a start: the time of the slowest process, the kernels of all, and those in the cache folder
    when the last process had started."""
    starts = [document["start"] for document in documents]
    kernels = {name: round(sum(start["kernels"][name] for start in starts), 1) for name in starts[0]["kernels"]}
    return {
        "start": which,
        "devices": count,
        "processes": len(starts),
        "seconds": max(start["seconds"] for start in starts),
        "kernels": {**kernels, "cached": max(start["cached"] for start in starts)},
        "ranks": starts,
    }


def joined(count: int, documents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Gives the rows of all ranks together. A process may have several ranks: its rows then hold a list of them."""
    shared = ("scaling", "cloud", "clouds", "what", "mode", "statistics", "loss_curve", "wall_ms", "communication_ms")
    for rows in zip(*(document["rows"] for document in documents), strict=True):
        ranks = []
        for rank, row in enumerate(rows):
            ranks += row.get("ranks", [{"rank": rank, **row}])
        row = {name: rows[0][name] for name in shared if name in rows[0]}
        whole = [sum(parts) for parts in zip(*(rank["voxels"] for rank in ranks), strict=True)]
        made = [{name: value for name, value in rank.items() if name not in shared} for rank in ranks]
        yield {**row, "devices": count, "voxels": round(sum(whole) / len(whole)), "ranks": made}


class Framework:
    """Measures one framework with several numbers of devices."""

    def __init__(self, name: str, given: argparse.Namespace, record: Record) -> None:
        self.name, self.given, self.record = name, given, record
        self.of_one: dict[Any, list[float]] = {}
        self.cached = 0

    def rows(self, count: int) -> Iterator[dict[str, Any]]:
        """Gives the rows of both starts, and those of the measurements."""
        head, arguments = {"framework": FRAMEWORKS[self.name]}, work_arguments(self.given)
        with tempfile.TemporaryDirectory() as name:
            for which in ("first", "second"):
                folder = pathlib.Path(name) / which
                folder.mkdir()
                extra = ["--only-start"] if which == "first" else []
                commands = commands_of(self.name, count, folder)
                cache = pathlib.Path(name) / "cache"
                documents = run_processes(commands, cache, [*arguments, *extra])
                row = start_row(which, count, documents)
                self.check_start(row)
                yield {**head, **row}
        for row in joined(count, documents):
            self.check_losses(row)
            yield {**head, **row}

    def check_start(self, row: dict[str, Any]) -> None:
        """Notes a failure where a kernel was compiled twice: in the first start by two processes, or in the second."""
        compiled, cached, where = (
            row["kernels"]["compiled"],
            row["kernels"]["cached"],
            f"{self.name}, {row['devices']} devices",
        )
        if row["start"] == "first" and compiled > cached:
            text = f"{compiled} kernels were compiled, and the cache has {cached}"
            self.record.fail(f"{where}: first start", RuntimeError(text))
        # The custom calls of JAX compile with a context of their own, and what they compile is in the cache, too.
        if row["start"] == "second" and (compiled or cached != self.cached):
            text = f"{compiled} kernels were compiled, and the cache has {cached} instead of {self.cached}"
            self.record.fail(f"{where}: second start", RuntimeError(text))
        self.cached = cached

    def check_losses(self, row: dict[str, Any]) -> None:
        """Notes a failure where the losses are not those of the same batches on the least number of devices."""
        if row["scaling"] != STRONG or row.get("statistics") != "of all ranks":
            return
        key = (row["cloud"], row["mode"])
        wanted = self.of_one.setdefault(key, row["loss_curve"])
        one, two = np.array(row["loss_curve"]), np.array(wanted)
        found = float(np.max(np.abs(one - two) / np.abs(two)))
        row["loss_difference"] = round(found, 6)
        if not found <= LOSS_BOUND:
            where = f"{self.name}, {row['devices']} devices, {', '.join(key)}: losses"
            self.record.fail(where, RuntimeError(f"{row['loss_curve']} differ from {wanted}"))


def main() -> int:
    """Measures what the arguments name. Returns 1 if something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--jax", action="store_true")
    parser.add_argument("--counts", type=int, nargs="+", default=[])
    add_work_arguments(parser)
    given = parser.parse_args()
    clouds = cloud_arrays(parser, given)
    system = minuet.system_info()
    most = 2 if given.device == "cpu" else system.cuda_devices
    counts = sorted(given.counts) or [2**power for power in range(most.bit_length())]
    if given.device == "cuda" and max(counts, default=1) > most:
        needed = max(counts, default=1)
        parser.error(
            f"{needed} GPUs are needed, and the machine has {most}: --device cpu tries this script without one"
        )
    device = minuet.Device(minuet.Context(disable_disk_cache=True), "cpu" if given.device == "cpu" else "cuda:0")
    record = Record(
        given.output,
        device=device.info.description, host_cpu=host_cpu(), driver=system.driver, toolkit=system.nvrtc,
        commit=given.commit, minuet=minuet.version(), versions=framework_versions(), network="MinkUNet42", dtype="fp16",
        repeats=given.repeats, device_counts=[], batch=given.batch,
        scenes={name: len(coordinates) for name, coordinates in clouds.items()},
    )  # fmt: skip
    for name in [name for name in FRAMEWORKS if getattr(given, name)] or FRAMEWORKS:
        framework = Framework(name, given, record)
        for count in counts:
            if count not in record.document["device_counts"]:
                record.document["device_counts"].append(count)
            record.part(f"{name}, {count}", framework.rows(count))
    return 1 if record.document["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
