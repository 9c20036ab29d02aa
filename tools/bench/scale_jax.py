#!/usr/bin/env python3
"""The process of scale.py in JAX: MinkUNet42 by jax.shard_map over a mesh of clouds, one or a few on each device.

Training has three forms. In "ops, shared norms", batch norms have the statistics of all devices. In "network", the
network is one op for each pass, whose batch norms have the statistics of their device, and the running ones are
averaged. "network, flat" is the same with all parameters in one array, so that one exchange serves all gradients. All
weigh all voxels of the batch alike. Inference is the network as one op, with parameters that are prepared once.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import resource
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from measuring import cloud_arrays, times
from scaling import (
    CLASSES,
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
from training_step_jax import LOSS_SCALE, MOMENTUM, OUT_CHANNELS, RATE, WITH_COMMAND_BUFFERS, Program, values_of

AXIS, LEVELS = "clouds", 5
SHARED_NORMS, NETWORK, FLAT = "ops, shared norms, jit", "network, jit", "network, flat, jit"


class Shards:
    """The batches of all devices as arrays, padded to the capacity of the first level."""

    def __init__(self, batches: Batches) -> None:
        self.batches, self.capacities = batches, batches.capacities(LEVELS)
        highest = batches.all.max(0).tolist()
        self.bounds = ([0, 0, 0, 0], [batches.clouds_of_rank - 1, *highest[1:]])

    def of_rank(self, step: int, rank: int, whole: bool = False) -> list[np.ndarray]:
        """Returns coordinates, their number, float16 features and labels of one device."""
        coordinates, features, labels = self.batches.draw(step, rank, whole)
        rest = self.capacities[0] - len(labels)
        pad = ((0, rest), (0, 0))
        return [
            np.pad(coordinates, pad),
            np.array([len(labels)], np.int32),
            np.pad(features.astype(np.float16), pad),
            np.pad(labels.astype(np.int32), pad[0]),
        ]

    def of_all(self, step: int, whole: bool = False) -> list[np.ndarray]:
        """Returns those of all devices, one behind the other."""
        parts = [self.of_rank(step, rank, whole) for rank in range(self.batches.ranks)]
        return [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]


class Process:
    """Measures all devices."""

    def __init__(self, given: argparse.Namespace) -> None:
        import jax
        from jax.sharding import AxisType, NamedSharding
        from jax.sharding import PartitionSpec as P

        self.given, self.is_gpu = given, given.device == "cuda"
        self.devices = jax.devices()[: given.ranks]
        if len(self.devices) < given.ranks:
            raise SystemExit(f"scale_jax.py: there are {len(self.devices)} devices, and {given.ranks} are asked for")
        self.mesh = jax.make_mesh((given.ranks,), (AXIS,), axis_types=(AxisType.Auto,), devices=self.devices)
        self.of_all, self.of_each = P(), P(AXIS)
        self.whole, self.parts = NamedSharding(self.mesh, P()), NamedSharding(self.mesh, P(AXIS))
        self.document: dict[str, Any] = {"rows": []}

    def shard(self, function: Callable[..., Any], outputs: Any) -> Callable[..., Any]:
        """Returns a function of a state and the arrays of a cloud for each device, as one of all devices."""
        import jax

        inputs = (self.of_all, *[self.of_each] * 4)
        return jax.shard_map(function, mesh=self.mesh, in_specs=inputs, out_specs=outputs)

    def upload(self, *arrays: np.ndarray) -> list[Any]:
        """Returns the arrays on the devices, once they are there."""
        import jax

        return jax.block_until_ready([jax.device_put(array, self.parts) for array in arrays])

    def upload_to_first(self, *arrays: np.ndarray) -> list[Any]:
        """Returns the arrays of one rank on the first device."""
        import jax

        return jax.block_until_ready([jax.device_put(array, self.devices[0]) for array in arrays])

    def training(self, shards: Shards, mode: str) -> Program:
        """Returns the step of all devices, a Program with its state."""
        step, first = training_step(shards, mode, AXIS)
        outputs = (self.of_all, (self.of_all, self.of_each))
        return Program(self.shard(step, outputs), self.first_state(first, self.whole), is_new=True)

    def training_alone(self, shards: Shards, mode: str) -> Program:
        """Returns the step of one device without any exchange."""
        step, first = training_step(shards, mode, None)
        return Program(step, self.first_state(first, self.devices[0]), is_new=True)

    def first_state(self, first: Any, place: Any) -> Any:
        """Returns the parameters and a momentum of zeros."""
        import jax

        return jax.device_put((first, jax.tree.map(np.zeros_like, first)), place)

    def start(self) -> None:
        """Notes the time from the start of the process to the end of its first step."""
        from minuet.jax._target import context

        _, batches = next(batches_of(self.given, cloud_arrays(argparse.ArgumentParser(), self.given)))
        shards = Shards(batches)
        program = self.training(shards, NETWORK)
        program(*self.upload(*shards.of_all(0)))
        program.wait()
        # The custom calls have a context of their own, which finds these kernels in the cache.
        self.document["start"] = start_record(self.given.started, context().kernel_counters())

    def measure(self) -> None:
        """Measures all rows."""
        for scaling, batches in batches_of(self.given, cloud_arrays(argparse.ArgumentParser(), self.given)):
            shards = Shards(batches)
            row = {"scaling": scaling, "cloud": batches.name, "clouds": batches.clouds}
            for what in selected_work(self.given):
                modes = {mode: partial(self.training_row, mode=mode) for mode in (SHARED_NORMS, NETWORK, FLAT)}
                if what == "inference":
                    modes = {f"{NETWORK}, prepared": self.inference_row}
                for mode, measure in modes.items():
                    if is_wanted(self.given, mode):
                        self.document["rows"].append({**row, "what": what, "mode": mode, **measure(shards)})

    def training_row(self, shards: Shards, mode: str) -> dict[str, Any]:
        """Measures one way to train."""
        import minuet.jax as sparse

        program, curve = self.training(shards, mode), []
        for seed in range(LOSSES):
            loss, status = program(*self.upload(*shards.of_all(seed)))
            sparse.check(status)
            curve.append(float(loss))
        if not np.isfinite(curve).all():
            raise RuntimeError(f"the losses are not finite: {curve}")
        row = {"statistics": "of all ranks" if mode == SHARED_NORMS else "of each rank", "loss_curve": curve}
        steps, kernels = self.times_of(program, shards), self.kernels(program, shards)
        memory = self.memory()
        del program
        alone = [steps]
        if self.given.ranks > 1:
            alone = self.alone(self.training_alone(shards, mode), shards)
        return {**row, **self.divided(shards, steps, alone, memory, kernels)}

    def inference_row(self, shards: Shards) -> dict[str, Any]:
        """Measures inference."""
        import jax
        import minuet.jax as sparse

        network = sparse.Network("minkunet42", shards.capacities, dtype="float16", bounds=shards.bounds)
        values = values_of({name: kind.shape for name, kind in network.parameters.items()})

        def infer(prepared: Any, coordinates: Any, count: Any, features: Any, _: Any) -> Any:
            cloud = network.pyramid(coordinates, count)
            return network(prepared, cloud, features), cloud.status

        prepared = jax.jit(network.prepare)(jax.device_put(values, self.devices[0]))
        program = Program(
            self.shard(infer, (self.of_each, self.of_each)), jax.device_put(prepared, self.whole), is_new=False
        )
        output, status = program(*self.upload(*shards.of_all(0, whole=True)))
        sparse.check(status)
        if not np.isfinite(np.asarray(output)).all() or not output.any():
            raise RuntimeError("the output is not finite, or 0 everywhere")
        del output
        steps, kernels, memory = self.times_of(program, shards), self.kernels(program, shards), self.memory()
        del program
        alone = [steps]
        if self.given.ranks > 1:
            alone = self.alone(Program(infer, prepared, is_new=False), shards)
        return self.divided(shards, steps, alone, memory, kernels)

    def times_of(self, program: Program, shards: Shards) -> list[float]:
        """Returns the times of the steps of all devices, in ms."""
        for seed in range(WARM_UP if self.is_gpu else WARM_UP_ON_CPU):
            program(*self.upload(*shards.of_all(1000 + seed)))
        drawn = (self.upload(*shards.of_all(2000 + seed)) for seed in range(self.given.repeats))
        return times(program, drawn, lambda: self.wait(program))[0]

    def alone(self, program: Program, shards: Shards) -> list[list[float]]:
        """Returns for each rank the times of its steps, by the first device and without exchange. All devices are of
        one kind, so that one compiled program tells how much each rank has to compute."""
        for seed in range(WARM_UP if self.is_gpu else WARM_UP_ON_CPU):
            program(*self.upload_to_first(*shards.of_rank(1000 + seed, 0)))
        found = []
        for rank in range(self.given.ranks):
            drawn = (self.upload_to_first(*shards.of_rank(2000 + seed, rank)) for seed in range(self.given.repeats))
            found.append(times(program, drawn, lambda: self.wait(program))[0])
        return found

    def wait(self, program: Program) -> None:
        """Waits for the last call, if there was one."""
        if program.results is not None:
            program.wait()

    def memory(self) -> list[dict[str, float]]:
        """Returns the peak of JAX's arrays on each GPU, or on the CPU the peak of the process, in MiB."""
        if not self.is_gpu:
            return [{"process": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)}] * self.given.ranks
        peaks = [device.memory_stats()["peak_bytes_in_use"] for device in self.devices]
        return [{"peak_of_tensors": round(peak / 2**20, 1)} for peak in peaks]

    def kernels(self, program: Program, shards: Shards) -> list[dict[str, float] | None]:
        """Returns for each GPU the ms of each class of kernels in a step."""
        import jax

        if not self.is_gpu:
            return [None] * self.given.ranks
        inputs = [self.upload(*shards.of_all(3000 + seed)) for seed in range(PROFILED)]
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                for arrays in inputs:
                    program(*arrays)
                program.wait()
            (path,) = pathlib.Path(folder).rglob("*.xplane.pb")
            planes = list(jax.profiler.ProfileData.from_file(str(path)).planes)
        return [
            sum_by_class(events_of(planes, f"/device:GPU:{device.local_hardware_id}"), PROFILED)
            for device in self.devices
        ]

    def divided(
        self, shards: Shards, steps: list[float], alone: list[list[float]], memory: list[Any], kernels: list[Any]
    ) -> dict[str, Any]:
        """Returns the parts of a row that all modes have."""
        parts = divide([steps] * self.given.ranks, alone)
        ranks = []
        for rank, waiting in enumerate(parts.pop("waiting_ms")):
            voxels = [len(shards.batches.draw(2000 + seed, rank)[0]) for seed in range(self.given.repeats)]
            own = {"memory_mib": memory[rank], "kernels_ms": kernels[rank], "voxels": voxels, "step_ms": steps}
            ranks.append({"rank": rank, **own, "alone_ms": alone[rank], "waiting_ms": waiting})
        return {**parts, "ranks": ranks}


def events_of(planes: list[Any], name: str) -> list[tuple[str, float]]:
    """Returns (name, microseconds) of the kernels of a GPU in a profile of JAX, which are on the lines of streams."""
    return [
        (event.name, event.duration_ns / 1e3)
        for plane in planes
        if plane.name == name
        for line in plane.lines
        if line.name.startswith("Stream")
        for event in line.events
    ]


def training_step(shards: Shards, mode: str, axis: str | None) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Returns a step as a function of the state and the arrays of a cloud, and the first parameters.

    Args:
        axis: of the mesh over which the step runs; None: it exchanges nothing.
    """
    import jax
    import jax.numpy as jnp
    import minuet.jax as sparse
    from scale_networks_jax import OpNetwork

    options = {"dtype": "float16", "bounds": shards.bounds}
    network = sparse.Network("minkunet42", shards.capacities, is_trained=True, **options)
    made = OpNetwork(shards.capacities, shards.bounds) if mode == SHARED_NORMS else network
    is_flat = mode == FLAT

    def total(number: Any) -> Any:
        return number if axis is None else jax.lax.psum(number, axis)

    def loss_of(weights: Any, cloud: Any, features: Any, labels: Any, voxels: Any) -> Any:
        shared = {"axis_name": axis} if mode == SHARED_NORMS else {}
        output, statistics = made.train(weights["network"], cloud, features, **shared)
        logits = output.astype(jnp.float32) @ weights["head"]
        each = -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)[:, 0]
        # JAX adds the gradients of all devices: each has its part of the mean over all voxels.
        return LOSS_SCALE * jnp.where(cloud.is_used(0), each, 0).sum() / voxels, statistics

    def step(state: Any, coordinates: Any, count: Any, features: Any, labels: Any) -> Any:
        weights, momentum = state
        cloud = made.pyramid(coordinates, count)
        gradient = jax.value_and_grad(loss_of, has_aux=True)
        voxels = total(count[0]).astype(jnp.float32)
        (loss, statistics), gradients = gradient(weights, cloud, features, labels, voxels)
        if mode != SHARED_NORMS and axis is not None:
            statistics = jax.lax.pmean(statistics, axis)
        momentum = jax.tree.map(lambda m, g: MOMENTUM * m + g / LOSS_SCALE, momentum, gradients)
        weights = jax.tree.map(lambda w, m: w - RATE * m, weights, momentum)
        held = weights["network"]
        weights["network"] = network.with_statistics(held, statistics) if is_flat else {**held, **statistics}
        return (weights, momentum), (total(loss) / LOSS_SCALE, cloud.status)

    head = np.random.default_rng(2).standard_normal((OUT_CHANNELS, CLASSES)).astype(np.float32) / OUT_CHANNELS**0.5
    values = values_of({name: kind.shape for name, kind in network.parameters.items()})
    return step, {"network": network.flatten(values) if is_flat else values, "head": head}


def main() -> None:
    """Measures all devices, and writes the file of the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_rank_arguments(parser)
    given = parser.parse_args()
    # XLA reads these when it is loaded.
    flags = WITH_COMMAND_BUFFERS if given.device == "cuda" else f"--xla_force_host_platform_device_count={given.ranks}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    os.environ["JAX_PLATFORMS"] = given.device
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    process = Process(given)
    process.start()
    if not given.only_start:
        process.measure()
    write_process(given.output, process.document)


if __name__ == "__main__":
    main()
