#!/usr/bin/env python3
"""Times a training step of MinkUNet42 with Minuet in PyTorch and JAX, beside spconv, and writes one JSON file.

usage: training_step.py --commit COMMIT --output FILE [--exact] [--capacity] [--fused] [--compile] [--spconv] [--ops]
                        [--jax] [--cloud NAME=FILE.npy ...] [--random] [--device cuda|cpu] [--points N] [--repeats N]

  --exact     the step in exact mode, which is what a loop for spconv becomes when its import changes
  --capacity  the step in capacity mode: enqueued op by op, and as one captured CUDA graph
  --fused     the step with the whole network as one op (minuet.torch.fuse), in exact mode and as one captured graph
  --compile   the step in capacity mode with its forward and backward pass by torch.compile
  --spconv    the same module with spconv, with each of its algorithms
  --ops       what single ops take on the host until they are enqueued
  --jax       inference and the step as jitted functions, beside the C ABI: training_step_jax.py in other processes

Without any of these, all are measured. A part that fails is listed under `failed` and does not end the others. A cloud
is an array of voxels, int32 [n, 4]: the batch index, then x, y, z; `minuet run ... --output-coordinates FILE.npy` writes one.
--random adds a million voxels of a cube of 400^3. --points takes so many random voxels as the only cloud, which with
--device cpu tries the script without a GPU. See tools/bench/methods.md.

It needs torch and the package minuet, and for the other parts spconv or jax.
"""

import argparse
import gc
import json
import os
import pathlib
import subprocess
import sys
import time
from functools import partial

import minuet
import numpy as np
import torch
from measuring import Record, add_cloud_arguments, cloud_arrays, framework_versions, host_cpu, spread, wall
from peers import DROPPED, DROPPED_IN_WARM_UP, PROFILED, Spconv, Voxels, busy, finite
from training_networks import GraphStep, Step, minkunet42, pad_to

PARTS = ("exact", "capacity", "fused", "compile", "spconv", "ops", "jax")
IN_CHANNELS, CLASSES, ROOM = 4, 20, 1.25
# How spconv can train: algorithms, and options of the convolutions and of the step.
SPCONV_SETTINGS = {
    "MaskImplicitGemm": ("MaskImplicitGemm", {}, {}),
    "MaskSplitImplicitGemm": ("MaskSplitImplicitGemm", {}, {}),
    "Native": ("Native", {}, {}),
    "MaskImplicitGemm, sums in float32": ("MaskImplicitGemm", {"fp32_accum": True}, {}),
    "MaskImplicitGemm, float16 parameters": ("MaskImplicitGemm", {}, {"half": True}),
}


class Scenes:
    """Draws clouds with a label for each voxel."""

    def __init__(self, name, coordinates, device):
        self.name, self.voxels = name, Voxels(coordinates, IN_CHANNELS, device)
        self.shape = [-(-cells // 16) * 16 for cells in self.voxels.shape]  # so that no level loses its last cells

    def draw(self, dropped, seed):
        """Returns coordinates, float32 features and labels of a random part of the voxels."""
        coordinates, features = self.voxels.draw(dropped, seed)
        generator = torch.Generator(device=coordinates.device).manual_seed(seed)
        labels = torch.randint(CLASSES, (len(coordinates),), generator=generator, device=coordinates.device)
        return coordinates, features.float(), labels


class Bench:
    """Measures steps on one device."""

    def __init__(self, device, repeats):
        self.device, self.repeats, self.is_gpu = device, repeats, device == "cuda"

    def wait(self):
        """Waits for all work on the device."""
        if self.is_gpu:
            torch.cuda.synchronize()

    def used_memory(self):
        """Returns the bytes of the GPU that are in use, and those that torch's allocator has of them."""
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        free, whole = torch.cuda.mem_get_info()
        return whole - free, torch.cuda.memory_reserved()

    def row(self, scenes, row, make):
        """Measures one way to train on one cloud.

        Args:
            make: gives the step, a function of coordinates, features and labels that returns the loss and the status.
        """
        used, reserved = self.used_memory() if self.is_gpu else (0, 0)
        step = make()
        whole = scenes.draw(0, 1)
        first = float(step(*whole)[0])
        warm_up = 12 if self.is_gpu else 1
        for seed in range(warm_up):
            step(*scenes.draw(DROPPED_IN_WARM_UP if seed % 2 else 0.01, 1000 + seed))
        if self.is_gpu:
            torch.cuda.reset_peak_memory_stats()  # Tuning and learning, which are done, do not count.
        row = {"cloud": scenes.name, "voxels": len(scenes.voxels.all), **row, "first_loss": round(first, 5)}
        drawn = (scenes.draw(DROPPED, 2000 + seed) for seed in range(self.repeats))
        row["wall_ms"], row["enqueued_ms"] = wall(step, drawn, self.wait)
        row["memory_mib"] = row["busy_ms"] = row["launches"] = None
        if self.is_gpu:
            peak = max(torch.cuda.max_memory_allocated(), getattr(step, "peak_of_capture", 0))
            now = self.used_memory()
            outside = now[0] - now[1] - (used - reserved)
            row["memory_mib"] = {"peak_of_tensors": round(peak / 2**20, 1), "outside_torch": round(outside / 2**20, 1)}
            row["busy_ms"], row["launches"] = busy(step, [scenes.draw(DROPPED, 3000 + n) for n in range(PROFILED)])
        loss, status = step(*whole)
        row["last_loss"] = round(float(loss), 5)
        if not np.isfinite([first, float(loss)]).all():
            raise RuntimeError(f"the loss is not finite: {row}")
        if status is not None and int(status):
            raise RuntimeError(f"the cloud does not fit the capacities: status {int(status)}")
        return row


# ---- steps of PyTorch ------------------------------------------------------------------------------------------------


def minuet_step(scenes, device):
    """Returns the step of a loop for spconv whose import has changed."""
    import minuet.torch.spconv as spconv

    return Step(spconv, minkunet42(spconv, IN_CHANNELS, CLASSES), scenes.shape, device)


def learned_capacities(step, scenes):
    """Returns capacities with room for the whole cloud, and the rows of its first level. Nothing is trained."""
    import minuet.torch

    capacities = minuet.torch.Capacities(factor=ROOM)
    state = {name: value.clone() for name, value in step.network.state_dict().items()}
    coordinates, features, labels = scenes.draw(0, 1)
    loss, _ = step.loss(coordinates, features, labels, capacities=capacities)
    loss.backward()  # which maps need room for the pairs of gradients of weights
    step.optimizer.zero_grad(set_to_none=True)
    step.network.load_state_dict(state)
    return capacities, len(capacities.pad(features, coordinates)[0])


def exact(bench, clouds):
    """The step in exact mode."""
    for scenes in clouds:
        row = {"engine": "Minuet", "mode": "exact"}
        yield bench.row(scenes, row, lambda scenes=scenes: minuet_step(scenes, bench.device))


def capacity_step(scenes, device, compiled=None, make=minuet_step):
    """Returns a step that brings each cloud to the capacity, and enqueues its ops."""
    step = make(scenes, device)
    capacities, rows = learned_capacities(step, scenes)
    if compiled:
        step.compute_loss = torch.compile(step.loss, fullgraph=True, **compiled)

    def run(*given):
        coordinates, features, labels, count = pad_to(rows, *given)
        return step(coordinates, features, labels, count=count, capacities=capacities)

    return run


def graph_step(scenes, device, make=minuet_step, **options):
    """Returns a step that is captured whole. The options are those of GraphStep."""
    step = make(scenes, device)
    capacities, rows = learned_capacities(step, scenes)
    return GraphStep(step, capacities, rows, scenes.draw(0, 1), **options)


def capacity(bench, clouds):
    """The step in capacity mode, enqueued and as a graph."""
    for scenes in clouds:
        row = {"engine": "Minuet", "mode": "capacity"}
        yield bench.row(scenes, row, lambda scenes=scenes: capacity_step(scenes, bench.device))
        if bench.is_gpu:
            yield bench.row(scenes, {**row, "mode": "graph"}, lambda scenes=scenes: graph_step(scenes, bench.device))


def fused_step(scenes, device, lays_out=False, recompute=()):
    """Returns the step of a loop for spconv whose network is one op.

    Args:
        lays_out: weights are in the network's order.
        recompute: of minuet.torch.fuse.
    """
    import minuet.torch
    import minuet.torch.spconv as spconv

    coordinates, features, _ = scenes.draw(0, 1)
    example = spconv.SparseConvTensor(features, coordinates, scenes.shape, 1)
    network = minuet.torch.fuse(minkunet42(spconv, IN_CHANNELS, CLASSES).to(device), example, recompute=recompute)
    return Step(spconv, network.lay_out() if lays_out else network, scenes.shape, device)


def fused(bench, clouds):
    """The step with the whole network as one op: in exact mode, with little memory, in capacity mode, and as a graph."""
    stages = [f"{part}.{number}" for part in ("encoder", "decoder") for number in range(4)]
    modes = {
        "exact": fused_step,
        "exact, stages computed again": partial(fused_step, recompute=["stem", *stages]),
        "capacity": partial(capacity_step, make=fused_step),
    }
    if bench.is_gpu:
        modes["graph"] = partial(graph_step, make=fused_step)
        modes["graph, weights laid out"] = partial(graph_step, make=partial(fused_step, lays_out=True))
    for scenes in clouds:
        for mode, make in modes.items():
            row = {"engine": "Minuet", "mode": f"fused, {mode}"}
            yield bench.row(scenes, row, lambda scenes=scenes, make=make: make(scenes, bench.device))


def compile_(bench, clouds, modes=("default", "reduce-overhead")):
    """The step with its forward and backward pass compiled to one graph of torch."""
    for scenes in clouds:
        for mode in modes if bench.is_gpu else modes[:1]:
            torch._dynamo.reset()
            row = {"engine": "Minuet", "mode": f"torch.compile, {mode}"}
            yield bench.row(
                scenes, row, lambda scenes=scenes, mode=mode: capacity_step(scenes, bench.device, {"mode": mode})
            )


def spconv(bench, clouds, record):
    """Every setting of spconv on every cloud. The peer is the one with the least median."""
    engine = Spconv()
    from spconv.core import ConvAlgo

    for scenes in clouds:
        for setting, (algorithm, options, step_options) in SPCONV_SETTINGS.items():

            def make(scenes=scenes, algorithm=algorithm, options=options, step_options=step_options):
                engine.forget_tuning()
                options = {**options, "algo": getattr(ConvAlgo, algorithm)}
                network = minkunet42(engine.library, IN_CHANNELS, CLASSES, **options)
                step = Step(engine.library, network, scenes.shape, bench.device, **step_options)
                if step.half:
                    return lambda coordinates, features, labels: step(coordinates, features.half(), labels)
                return step

            try:
                yield bench.row(scenes, {"engine": engine.name, "mode": setting}, make)
            except Exception as error:
                record.fail(f"spconv: {setting} on {scenes.name}", error)


# ---- single ops ------------------------------------------------------------------------------------------------------


def single_ops(scenes, channels, in_capacity_mode):
    """Gives (name, op, tensors by which its gradient is taken). An op returns a matrix; its maps and levels are made
    before."""
    import minuet.torch.spconv as spconv

    coordinates, _, labels = scenes.draw(0, 1)
    features, options = torch.randn(len(coordinates), channels, device=coordinates.device).half(), {}
    if in_capacity_mode:
        rows = int(ROOM * len(coordinates))
        coordinates, features, _, count = pad_to(rows, coordinates, features, labels)
        options = {"count": count, "capacities": [rows]}
    x = spconv.SparseConvTensor(features, coordinates, scenes.shape, 1, **options)
    within = spconv.SubMConv3d(channels, channels, 3, padding=1, bias=False, indice_key="within").to(coordinates.device)
    down = spconv.SparseConv3d(channels, channels, 2, stride=2, bias=False, indice_key="down").to(coordinates.device)
    up = spconv.SparseInverseConv3d(channels, channels, 2, bias=False, indice_key="down").to(coordinates.device)
    norm = spconv.SparseSequential(torch.nn.BatchNorm1d(channels), torch.nn.ReLU()).to(coordinates.device)
    with torch.no_grad():
        coarse = down(x)
    weight = torch.randn(channels, channels, device=coordinates.device).half().requires_grad_()

    def leaf(tensor):
        return tensor.replace_feature(tensor.features.detach().half().requires_grad_())

    fine, other, coarse = leaf(x), leaf(x), leaf(coarse)
    for name, layer, given in (
        ("submanifold convolution", within, fine),
        ("batch norm and ReLU", norm, fine),
        ("convolution of stride 2", down, fine),
        ("inverse convolution", up, coarse),
    ):
        tensors = [given.features, *layer.parameters()]
        yield name, lambda layer=layer, given=given: layer(given).features, tensors
    yield "sum of two tensors", lambda: (fine + other).features, [fine.features, other.features]
    yield "matrix product of torch", lambda: fine.features @ weight, [fine.features, weight]


def ops(bench, clouds, channels=64, calls=40):
    """Times the host for `calls` ops that are enqueued one behind the other; nothing waits between them."""

    def per_call(call):
        times = []
        for number in range(bench.repeats + 3):
            bench.wait()
            begin = time.perf_counter()
            for _ in range(calls):
                call()
            if number >= 3:  # The ones before load kernels and fill the allocator's cache.
                times.append((time.perf_counter() - begin) / calls * 1e6)
        bench.wait()
        return spread(times)

    calls = calls if bench.is_gpu else 2
    scenes = clouds[0]
    for mode in ("exact", "capacity"):
        for name, op, tensors in single_ops(scenes, channels, mode == "capacity"):
            with torch.autocast(bench.device, dtype=torch.float16):
                finite(op())
                gradient = torch.ones_like(op())

                def both(op=op, tensors=tensors, gradient=gradient):
                    torch.autograd.grad(op(), tensors, gradient)

                forward, whole = per_call(op), per_call(both)
            backward = round(whole["median"] - forward["median"], 2)
            yield {
                "engine": "Minuet", "mode": mode, "op": name, "cloud": scenes.name, "voxels": len(scenes.voxels.all),
                "channels": channels, "calls": calls, "forward_us": forward, "forward_and_backward_us": whole,
                "backward_us": backward,
            }  # fmt: skip


# ---- JAX -------------------------------------------------------------------------------------------------------------


def jax_rows(given, record):
    """Runs training_step_jax.py for each engine; rows of inference have equal bits, or the part fails."""
    script = pathlib.Path(__file__).with_name("training_step_jax.py")
    shared = ["--device", given.device, "--repeats", str(given.repeats)]
    shared += [part for cloud in given.cloud for part in ("--cloud", cloud)]
    shared += ["--points", str(given.points)] * bool(given.points) + ["--random"] * given.random
    digests = {}
    for engine in ("abi", "turns", "jax", "jax-without-command-buffers"):
        command = [sys.executable, str(script), "--engine", engine, *shared]
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, env=os.environ)
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                # With all parameters in one array, XLA compiles the steps of the optimizer in another way.
                key = (row["cloud"], row["what"], "flat" in row["mode"])
                if "digest" in row:
                    digests.setdefault(key, set()).add(row["digest"])
                yield row
        if done.returncode:
            record.fail(f"jax: {engine}", RuntimeError(f"{' '.join(command)} ended with {done.returncode}"))
    for (cloud, what, _), found in digests.items():
        if len(found) > 1:
            raise RuntimeError(f"{what} on {cloud} has other bits with one of the engines: {sorted(found)}")


def main():
    """Measures the parts that the arguments name. Returns 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--output", required=True)
    for part in PARTS:
        parser.add_argument(f"--{part}", action="store_true")
    add_cloud_arguments(parser)
    given = parser.parse_args()
    parts = [part for part in PARTS if getattr(given, part)] or list(PARTS)
    clouds = cloud_arrays(parser, given)
    scenes = [Scenes(name, coordinates, given.device) for name, coordinates in clouds.items()]
    system = minuet.system_info()
    record = Record(
        given.output,
        device=torch.cuda.get_device_name() if given.device == "cuda" else "cpu", host_cpu=host_cpu(),
        driver=system.driver, toolkit=system.nvrtc, commit=given.commit, minuet=minuet.version(),
        versions=framework_versions(), network="MinkUNet42", dtype="fp16", repeats=given.repeats,
    )  # fmt: skip
    bench = Bench(given.device, given.repeats)
    measured = {
        "exact": lambda: exact(bench, scenes),
        "capacity": lambda: capacity(bench, scenes),
        "fused": lambda: fused(bench, scenes),
        "compile": lambda: compile_(bench, scenes),
        "spconv": lambda: spconv(bench, scenes, record),
        "ops": lambda: ops(bench, scenes),
        "jax": lambda: jax_rows(given, record),
    }
    for part in parts:
        record.part(part, measured[part]())
    return 1 if record.document["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
