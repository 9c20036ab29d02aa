"""What the benchmarks in Python share: clouds, clocks, and the file that the results are written to.

It needs numpy only, and torch for profiles and graphs, so that a process with one framework does not load another.
"""

import importlib.metadata
import json
import os
import pathlib
import platform
import time
import traceback

import numpy as np

# Distributions whose versions a result names. Those of spconv have the version of CUDA in their name.
FRAMEWORKS = ("torch", "jax", "jaxlib", "spconv", "cumm", "numpy")


def random_voxels(count, extent):
    """Returns `count` different voxels of a cube, int32 [count, 4]: the batch index, then x, y, z."""
    cells = np.random.default_rng(1).choice(extent**3, count, replace=False)
    voxels = np.stack([np.zeros_like(cells), cells // extent**2, cells // extent % extent, cells % extent], 1)
    return voxels.astype(np.int32)


def read_clouds(given):
    """Reads clouds that are given as NAME=FILE.npy."""
    return {name: np.load(path) for name, path in (cloud.split("=", 1) for cloud in given)}


def add_cloud_arguments(parser):
    """Adds the arguments that say where to measure, on which clouds, and how often."""
    parser.add_argument("--cloud", action="append", default=[], metavar="NAME=FILE.npy")
    parser.add_argument("--random", action="store_true", help="also a million random voxels")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--points", type=int, default=0, help="so many random voxels are the only cloud")
    parser.add_argument("--repeats", type=int, default=20)


def cloud_arrays(parser, given):
    """Returns the clouds that the arguments name."""
    if given.points:
        return {f"random_{given.points}": random_voxels(given.points, max(8, round((10 * given.points) ** (1 / 3))))}
    clouds = read_clouds(given.cloud)
    if given.random:
        clouds["random_1e6"] = random_voxels(1_000_000, 400)
    if not clouds:
        parser.error("there is no cloud: give --cloud, --random or --points")
    return clouds


def spread(times):
    """Returns the median and the outer deciles."""
    return {name: round(float(np.percentile(times, at)), 4) for name, at in (("median", 50), ("p10", 10), ("p90", 90))}


def times(call, inputs, wait):
    """Times call(*given) for each input by the host's clock.

    Args:
        wait: waits for all work on the device.

    Returns:
        Two lists in ms: until the work is done, and until the call returns.
    """
    whole, enqueued = [], []
    for given in inputs:
        wait()
        begin = time.perf_counter()
        call(*given)
        enqueued.append((time.perf_counter() - begin) * 1e3)
        wait()
        whole.append((time.perf_counter() - begin) * 1e3)
    return whole, enqueued


def wall(call, inputs, wait):
    """Returns the spreads of both lists of times()."""
    whole, enqueued = times(call, inputs, wait)
    return spread(whole), spread(enqueued)


def in_series(call, inputs, wait, series=5):
    """Times calls that follow one another without a wait, by the host's clock.

    Returns:
        The spread over the series of the ms that a call takes.
    """
    inputs, found = list(inputs), []
    for _ in range(series):
        wait()
        begin = time.perf_counter()
        for given in inputs:
            call(*given)
        wait()
        found.append((time.perf_counter() - begin) * 1e3 / len(inputs))
    return spread(found)


def gpu_events(call, inputs):
    """Returns the events of a GPU in a profile of torch, in which call(*given) runs for each input: kernels and copies.

    Without TEARDOWN_CUPTI, torch leaves the profiler attached, which makes the later steps of the process slower: the
    same step took 9.7 instead of 8.8 ms (scale_torch_4.json: "ops, shared norms, graph" and "ops, graph" on one GPU).
    """
    import torch

    os.environ["TEARDOWN_CUPTI"] = "1"
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as profile:
        for given in inputs:
            call(*given)
        torch.cuda.synchronize()
    return [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]


def captured(enqueue):
    """Returns a CUDA graph of what enqueue(stream) enqueues, which it has done once before, so that the capture loads no
    kernels. The caller keeps all objects and arrays that the graph uses."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        enqueue(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        enqueue(torch.cuda.current_stream())
    return graph


def host_cpu():
    """Returns the name of the host's processor."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def framework_versions():
    """Returns the versions of the frameworks that are installed."""
    found = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name in FRAMEWORKS or name.startswith(("spconv-", "cumm-")):
            found[name] = distribution.version
    return dict(sorted(found.items()))


class Record:
    """A result file: what was measured where, the rows, and the parts that failed."""

    def __init__(self, path, **head):
        self.path, self.document = path, {**head, "rows": [], "failed": {}}

    def part(self, name, rows):
        """Takes the rows that a part gives, prints each at once, and writes the file, also if the part fails."""
        try:
            for row in rows:
                row = {"part": name, **row}
                print(json.dumps(row), flush=True)
                self.document["rows"].append(row)
        except (Exception, SystemExit) as error:  # peers.py ends with SystemExit where an output is wrong
            self.fail(name, error)
        finally:
            pathlib.Path(self.path).write_text(json.dumps(self.document, indent=1) + "\n")

    def fail(self, name, error):
        """Notes that a part, or a thing of a part, could not be measured."""
        traceback.print_exception(error)
        self.document["failed"][name] = f"{type(error).__name__}: {error}"[:500]
