#!/usr/bin/env python3
"""One rank of scale.py in PyTorch: trains MinkUNet42 by DistributedDataParallel, and runs it by a plan of rank 0.

Training has three forms. In "ops", gradients are exchanged while the backward pass goes on. In "ops, shared norms",
batch norms have the statistics of all ranks besides. In "fused", the network is one op, and gradients are exchanged
behind it. All weigh all voxels of the batch alike, and run in capacity mode with the same capacities on all ranks:
enqueued, and on a GPU as one captured graph with all that ranks exchange.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import gc
import resource
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import minuet
import minuet.torch
import minuet.torch.spconv as spconv
import numpy as np
import torch
from measuring import cloud_arrays, gpu_events, times
from minuet.torch._places import context as shared_context
from scaling import (
    CLASSES,
    IN_CHANNELS,
    LOSSES,
    PROFILED,
    WARM_UP,
    WARM_UP_ON_CPU,
    Batches,
    add_rank_arguments,
    batches_of,
    divide,
    is_wanted,
    selected_work,
    start_record,
    sum_by_class,
    write_process,
)
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from training_networks import Step, minkunet42
from training_step import capacity_step, graph_step

# DistributedDataParallel arranges its buckets anew in its first steps, and may be captured behind eleven of them.
WARM_UP_OF_CAPTURE = 11
OPS, SHARED_NORMS, FUSED = "ops", "ops, shared norms", "fused"


class Scenes:
    """The batches of one rank as tensors, for the steps of training_step.py."""

    def __init__(self, batches: Batches, rank: int, device: str) -> None:
        self.batches, self.rank, self.device = batches, rank, device
        self.name, self.shape = batches.name, batches.shape

    def tensors(self, step: int, whole: bool = False) -> list[torch.Tensor]:
        """Returns coordinates, features and labels of a step."""
        return [torch.from_numpy(array).to(self.device) for array in self.batches.draw(step, self.rank, whole)]

    def draw(self, dropped: float, seed: int) -> list[torch.Tensor]:
        """Returns whole clouds, by which training_step.py learns capacities. It asks for them with `dropped` 0."""
        assert dropped == 0
        return self.tensors(seed, whole=True)


class RankStep(Step):
    """A training step of a rank, whose loss weighs all voxels of all ranks alike.

    Args:
        exchanges: whether there are other ranks. DistributedDataParallel takes the mean of the gradients of ranks, so
            that the loss is the mean over the rank's own voxels times their share of a rank's.
    """

    def __init__(self, network: nn.Module, scenes: Scenes, exchanges: bool) -> None:
        super().__init__(spconv, network, scenes.shape, scenes.device, batch_size=scenes.batches.clouds_of_rank)
        self._ranks = scenes.batches.ranks if exchanges else 1

    def loss(
        self, coordinates: torch.Tensor, features: torch.Tensor, labels: torch.Tensor, **capacity: Any
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Returns the loss of the rank, whose mean over all ranks is that of the batch, and the status."""
        mean, status = super().loss(coordinates, features, labels, **capacity)
        if self._ranks == 1:
            return mean, status
        count = capacity.get("count")
        own = torch.full((), len(labels), device=labels.device) if count is None else count[0]
        total = own.float()
        distributed.all_reduce(total)
        return mean * (own * self._ranks / total), status


def rank_step(scenes: Scenes, device: str, form: str = SHARED_NORMS, exchanges: bool = True) -> RankStep:
    """Returns the step of a rank.

    Args:
        form: OPS, SHARED_NORMS or FUSED.
        exchanges: whether it exchanges anything with other ranks.
    """
    network = minkunet42(spconv, IN_CHANNELS, CLASSES).to(device)
    shares = exchanges and scenes.batches.ranks > 1
    if form == FUSED:
        coordinates, features, _ = scenes.draw(0, 1)
        given = spconv.SparseConvTensor(features, coordinates, scenes.shape, scenes.batches.clouds_of_rank)
        network = minuet.torch.fuse(network, given)
    if shares:
        # Running statistics are the same on all ranks already, or each rank keeps its own.
        with side_stream(device):
            network = DistributedDataParallel(network, broadcast_buffers=False, gradient_as_bucket_view=True)
        if form == SHARED_NORMS:  # Parameters stay. DistributedDataParallel would refuse a SyncBatchNorm on the CPU.
            network.module = nn.SyncBatchNorm.convert_sync_batchnorm(network.module)
    return RankStep(network, scenes, shares)


@functools.cache
def capture_stream() -> torch.cuda.Stream:
    """Returns the stream on which steps are captured, and modules for them are made: autograd adds up the gradient of a
    parameter on the stream where DistributedDataParallel has first seen it, and a capture may not reach another one."""
    return torch.cuda.Stream()


@contextlib.contextmanager
def side_stream(device: str) -> Iterator[None]:
    """Runs the block on the stream of captures, where the device is a GPU."""
    if device != "cuda":
        yield
        return
    stream = capture_stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)


def training_modes(device: str) -> dict[str, tuple[str, Callable[..., Any]]]:
    """Returns the ways to train: the form, and what makes the step from what makes the form's."""
    made: dict[str, tuple[str, Callable[..., Any]]] = {}
    for form in (OPS, SHARED_NORMS, FUSED):
        made[f"{form}, capacity"] = (form, lambda scenes, device, make: capacity_step(scenes, device, make=make))
        if device == "cuda":
            options = {"warm_up": WARM_UP_OF_CAPTURE, "stream": capture_stream()}
            made[f"{form}, graph"] = (form, partial(graph_step, **options))
    return made


class Rank:
    """Measures what one rank does."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.device, self.is_gpu = given, given.device, given.device == "cuda"
        self.document: dict[str, Any] = {"rank": given.rank, "rows": []}

    def wait(self) -> None:
        """Waits for all work on the device."""
        if self.is_gpu:
            torch.cuda.synchronize()

    def gather(self, value: Any) -> list[Any]:
        """Returns the values of all ranks."""
        values = [None] * self.given.ranks
        distributed.all_gather_object(values, value)
        return values

    def together(self, draws: Iterator[Any]) -> Iterator[Any]:
        """Gives what is drawn when all ranks have it."""
        for drawn in draws:
            distributed.barrier()
            yield drawn

    def start(self) -> None:
        """Notes the time from the start of the process to the end of its first step."""
        clouds = cloud_arrays(argparse.ArgumentParser(), self.given)
        _, batches = next(batches_of(self.given, clouds))
        scenes = Scenes(batches, self.given.rank, self.device)
        capacity_step(scenes, self.device, make=rank_step)(*scenes.tensors(0))
        self.wait()
        self.document["start"] = start_record(self.given.started, shared_context().kernel_counters())

    def measure(self) -> None:
        """Measures all rows."""
        for scaling, batches in batches_of(self.given, cloud_arrays(argparse.ArgumentParser(), self.given)):
            scenes = Scenes(batches, self.given.rank, self.device)
            row = {"scaling": scaling, "cloud": batches.name, "clouds": batches.clouds}
            for what in selected_work(self.given):
                for mode, measure in (self.trainings() if what == "training step" else self.inferences()).items():
                    if is_wanted(self.given, mode):
                        self.document["rows"].append({**row, "what": what, "mode": mode, **measure(scenes)})

    def trainings(self) -> dict[str, Callable[[Scenes], dict[str, Any]]]:
        """Returns what measures each way to train."""
        return {
            mode: partial(self.training, form=form, make=make)
            for mode, (form, make) in training_modes(self.device).items()
        }

    def training(self, scenes: Scenes, form: str, make: Callable[..., Any]) -> dict[str, Any]:
        """Measures one way to train."""
        step = make(scenes, self.device, make=partial(rank_step, form=form))
        losses = []
        for seed in range(LOSSES):
            loss, status = step(*scenes.tensors(seed))
            losses.append(float(loss))  # Before the next step: a graph writes each result to the same memory.
            if not np.isfinite(losses[-1]) or int(status):
                raise RuntimeError(f"the loss is {losses[-1]}, and the status of the cloud {int(status)}")
        # The mean over the ranks is the loss of the whole batch, which a single rank with all clouds has, too.
        curve = [sum(parts) / len(parts) for parts in zip(*self.gather(losses), strict=True)]
        row = {"statistics": "of all ranks" if form == SHARED_NORMS else "of each rank", "loss_curve": curve}
        row |= self.timed(step, scenes)
        del step
        if self.given.ranks == 1:
            return self.divided(row)
        own = make(scenes, self.device, make=partial(rank_step, form=form, exchanges=False))
        alone = self.times_of(own, scenes)
        return self.divided(row, alone)

    def times_of(self, call: Callable[..., Any], scenes: Scenes) -> list[float]:
        """Returns the times of the steps in ms, which begin on all ranks together."""
        for seed in range(WARM_UP if self.is_gpu else WARM_UP_ON_CPU):
            call(*scenes.tensors(1000 + seed))
        drawn = (scenes.tensors(2000 + seed) for seed in range(self.given.repeats))
        return times(call, self.together(drawn), self.wait)[0]

    def timed(self, call: Callable[..., Any], scenes: Scenes) -> dict[str, Any]:
        """Returns the times of the steps, the memory of the rank, and whose kernels the GPU ran."""
        if self.is_gpu:
            torch.cuda.reset_peak_memory_stats()
        row = {"step_ms": self.times_of(call, scenes), "memory_mib": self.memory(call)}
        row["kernels_ms"] = self.kernels(call, [scenes.tensors(3000 + seed) for seed in range(PROFILED)])
        row["voxels"] = [len(scenes.batches.draw(2000 + seed, scenes.rank)[0]) for seed in range(self.given.repeats)]
        return row

    def memory(self, call: Any) -> dict[str, float]:
        """Returns the peak of torch's tensors and what lies outside of torch's allocator, or on the CPU the peak of the
        process, in MiB."""
        if not self.is_gpu:
            return {"process": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)}
        peak = max(torch.cuda.max_memory_allocated(), getattr(call, "peak_of_capture", 0))
        free, whole = torch.cuda.mem_get_info()
        outside = whole - free - torch.cuda.memory_reserved()
        return {"peak_of_tensors": round(peak / 2**20, 1), "outside_torch": round(outside / 2**20, 1)}

    def kernels(self, call: Callable[..., Any], inputs: list[Any]) -> dict[str, float] | None:
        """Returns the ms of each class of kernels in a step on a GPU. An exchange lasts until the last rank has joined
        it."""
        if not self.is_gpu:
            return None
        distributed.barrier()  # None is between the steps, because it would count as exchange.
        events = gpu_events(call, inputs)
        return sum_by_class([(event.name, event.time_range.elapsed_us()) for event in events], len(inputs))

    def divided(self, row: dict[str, Any], alone: list[float] | None = None) -> dict[str, Any]:
        """Adds how the time is divided among computing, exchange and waiting. Without `alone` there is no exchange."""
        steps, own = self.gather(row.pop("step_ms")), self.given.rank
        each = steps if alone is None else self.gather(alone)
        parts = divide(steps, each)
        waiting = parts.pop("waiting_ms")[own]
        return {**row, **parts, "step_ms": steps[own], "alone_ms": each[own], "waiting_ms": waiting}

    def inferences(self) -> dict[str, Callable[[Scenes], dict[str, Any]]]:
        """Returns what measures each way to infer."""
        modes = {"plan of rank 0, exact": self.inference}
        if self.is_gpu:
            modes["plan of rank 0, graph"] = partial(self.inference, has_graph=True)
        return modes

    def inference(self, scenes: Scenes, has_graph: bool = False) -> dict[str, Any]:
        """Measures inference by a plan that came as bytes."""
        library = minuet.Device(minuet.Context(), f"cuda:{self.given.rank}" if self.is_gpu else "cpu")
        plan = broadcast_plan(
            library, lambda context: minuet.Plan.network(context, "minkunet42", dtype="float16", seed=1)
        )
        plan.load(library)
        execution = minuet.Execution(plan, library)
        stream = torch.cuda.current_stream() if self.is_gpu else None
        channels = plan.outputs[0].channels

        def infer(coordinates: torch.Tensor, features: torch.Tensor, _: Any) -> torch.Tensor:
            execution.prepare(coordinates, stream=stream)
            out = torch.empty(len(features), channels, dtype=torch.float16, device=self.device)
            return execution.run(features.half(), out=out, stream=stream)

        output = infer(*scenes.tensors(0))
        if not torch.isfinite(output).all() or not output.any():
            raise RuntimeError("the output is not finite, or 0 everywhere")
        if has_graph:
            infer = self.replayed(plan, library, scenes.batches.capacities(plan.info.levels), scenes)
        return self.divided(self.timed(infer, scenes))

    def replayed(
        self, plan: minuet.Plan, library: minuet.Device, capacities: list[int], scenes: Scenes
    ) -> Callable[..., torch.Tensor]:
        """Returns the inference as one captured graph."""
        execution = minuet.Execution(plan, library, level_capacity=capacities)
        rows = capacities[0]
        coordinates = torch.zeros(rows, 4, dtype=torch.int32, device=self.device)
        features = torch.zeros(rows, IN_CHANNELS, dtype=torch.float16, device=self.device)
        count = torch.zeros(1, dtype=torch.int32, device=self.device)
        out = torch.empty(rows, plan.outputs[0].channels, dtype=torch.float16, device=self.device)

        def fill(given: torch.Tensor, values: torch.Tensor) -> None:
            coordinates[: len(given)].copy_(given)
            features[: len(values)].copy_(values)
            count.fill_(len(given))

        def enqueue() -> None:
            stream = torch.cuda.current_stream()
            execution.prepare_on_device(coordinates, count, stream=stream)
            execution.run(features, out=out, stream=stream)

        fill(*scenes.tensors(0)[:2])
        with side_stream(self.device):
            enqueue()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            enqueue()

        def infer(given: torch.Tensor, values: torch.Tensor, _: Any) -> torch.Tensor:
            fill(given, values)
            graph.replay()
            return out

        infer.execution = execution  # The graph uses its memory.
        infer(*scenes.tensors(0, whole=True))
        torch.cuda.synchronize()
        if execution.read_cloud().status != 0:
            raise RuntimeError("the cloud does not fit the capacities")
        return infer


def broadcast_plan(device: minuet.Device, make: Callable[[minuet.Context], minuet.Plan]) -> minuet.Plan:
    """Returns on every rank the plan that rank 0 has made, from bytes with its values and its kernels for `device`."""
    context = device.context
    archs = [] if device.arch == "cpu" else [device.arch]
    sent = [make(context).serialize(archs)] if distributed.get_rank() == 0 else [None]
    distributed.broadcast_object_list(sent, 0)
    return minuet.Plan.deserialize(context, sent[0])


def main() -> None:
    """Measures one rank, and writes its file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--store", required=True, help="a file by which the ranks find each other")
    add_rank_arguments(parser)
    given = parser.parse_args()
    is_gpu, options = given.device == "cuda", {}
    if is_gpu:
        torch.cuda.set_device(given.rank)
        options["device_id"] = torch.device("cuda", given.rank)
    distributed.init_process_group(
        "nccl" if is_gpu else "gloo", init_method=f"file://{given.store}", rank=given.rank, world_size=given.ranks,
        timeout=datetime.timedelta(minutes=8), **options,
    )  # fmt: skip
    rank = Rank(given)
    rank.start()
    if not given.only_start:
        distributed.barrier()  # Until all have counted the kernels in the cache folder.
        rank.measure()
    write_process(given.output, rank.document)
    gc.collect()  # NCCL waits for the end of graphs that have captured it.
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
