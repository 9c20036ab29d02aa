#!/usr/bin/env python3
"""Times MinkUNet42 in JAX, or by the C ABI, and prints one line of JSON for each row. training_step.py --jax runs it.

usage: training_step_jax.py --engine ENGINE [--cloud NAME=FILE.npy ...] [--random] [--device cuda|cpu] [--points N]
                            [--repeats N]

  jax                          inference as one jitted function, and a training step as one jitted function, each with
                               one array for each parameter, and with all in one array (prepared, and flat)
  jax-without-command-buffers  the same, where XLA launches each custom call by itself
  abi                          inference by a pyramid in capacity mode: on a GPU as one captured CUDA graph, for which
                               it needs torch
  turns                        inference by the C ABI, inference as a jitted function, and a jitted addition, one call of
                               each in turn, so that all meet the same host

All engines have the same parameters, capacities and clouds. `wall_ms` is a call alone until its results are there, and
`in_series_ms` a call of a series that does not wait between calls. Modes with "polled" wait by asking again and again
whether the results are ready, as torch.cuda.synchronize does, and the others as jax.block_until_ready does. `digest` is
a hash of the results' bits.
"""

import argparse
import hashlib
import json
import os

import minuet
import numpy as np
from measuring import add_cloud_arguments, captured, cloud_arrays, in_series, spread, times, wall

IN_CHANNELS, OUT_CHANNELS, CLASSES, ROOM = 4, 96, 20, 1.25
DROPPED_IN_WARM_UP, DROPPED = 0.05, 0.02
RATE, MOMENTUM, LOSS_SCALE = 1e-3, 0.9, 1024.0
WITHOUT_COMMAND_BUFFERS = "--xla_gpu_enable_command_buffer="
WITH_COMMAND_BUFFERS = "--xla_gpu_graph_min_graph_size=1"
# XLA otherwise chooses kernels of matrix products by measuring them, and bits differ from compilation to compilation.
SAME_BITS = "--xla_gpu_autotune_level=0"


class Scenes:
    """Draws clouds as numpy arrays with as many rows as the first level's capacity."""

    def __init__(self, name, coordinates):
        coordinates = np.asarray(coordinates, np.int32).copy()
        coordinates[:, 1:] -= coordinates[:, 1:].min(0)
        self.name, self.all = name, coordinates
        self.bounds = ([0, 0, 0, 0], coordinates.max(0).tolist())
        # The voxels of each level of the whole cloud, with room.
        levels = [np.unique(coordinates // [1, 2**level, 2**level, 2**level], axis=0) for level in range(5)]
        self.capacities = [-(-int(ROOM * len(level)) // 256) * 256 for level in levels]

    def draw(self, dropped, seed):
        """Returns coordinates, how many there are, float16 features, and labels, all padded with zeros."""
        generator = np.random.default_rng(seed)
        kept = np.sort(generator.permutation(len(self.all))[int(len(self.all) * dropped) :])
        rows = self.capacities[0]
        coordinates, features = np.zeros((rows, 4), np.int32), np.zeros((rows, IN_CHANNELS), np.float16)
        labels = np.zeros(rows, np.int32)
        coordinates[: len(kept)] = self.all[kept]
        features[: len(kept)] = generator.random((len(kept), IN_CHANNELS), np.float32)
        labels[: len(kept)] = generator.integers(0, CLASSES, len(kept))
        return coordinates, np.array([len(kept)], np.int32), features, labels


def values_of(shapes):
    """Returns parameters with which activations keep their size, from the shapes by their names."""
    generator, made = np.random.default_rng(1), {}
    for name, shape in shapes.items():
        if len(shape) > 1:
            fan = shape[-2] * min(8, int(np.prod(shape[:-2])))
            made[name] = (generator.standard_normal(shape) / fan**0.5).astype(np.float32)
        else:
            is_one = name.endswith(("running_var", ".weight"))
            made[name] = np.full(shape, float(is_one), np.float32)
    return made


def digest_of(arrays):
    """Returns a hash of the bits of arrays, whose rows past the count are zeros."""
    made = hashlib.sha256()
    for array in arrays:
        made.update(np.ascontiguousarray(array).tobytes())
    return made.hexdigest()[:16]


def measure(scenes, given, row, call, upload, wait):
    """Times call(*upload(*drawn)): each call alone, and calls that follow one another without a wait."""
    for seed in range(2 if given.device == "cpu" else 12):
        call(*upload(*scenes.draw(DROPPED_IN_WARM_UP if seed % 2 else 0.01, 1000 + seed)))
    drawn = [upload(*scenes.draw(DROPPED, 2000 + seed)) for seed in range(given.repeats)]
    whole, enqueued = wall(call, drawn, wait)
    row = {"cloud": scenes.name, "voxels": len(scenes.all), **row, "wall_ms": whole, "enqueued_ms": enqueued}
    return {**row, "in_series_ms": in_series(call, drawn, wait)}


def require(condition, what):
    """Ends the process with a message unless the condition holds."""
    if not condition:
        raise SystemExit(f"training_step_jax.py: {what}")


# ---- the C ABI -------------------------------------------------------------------------------------------------------


def abi_calls(scenes, given):
    """Returns the mode of inference by the C ABI, and (infer, upload, wait, download)."""
    context = minuet.Context()
    device = minuet.Device(context, "cpu" if given.device == "cpu" else "cuda:0")
    plan = minuet.Plan.network(context, "minkunet42", dtype="float16", dataflow="fused", without_values=True)
    plan.load(device)
    values = minuet.Parameters(plan, device)
    values.set(values_of({item.name: item.shape for item in plan.parameters}))
    pyramid = minuet.Pyramid(context, network=plan, level_capacity=scenes.capacities, bounds=scenes.bounds)
    pyramid.load(device)
    mode, made = ("C ABI", abi_on_cpu) if given.device == "cpu" else ("C ABI, graph", abi_graph)
    return mode, made(device, plan, pyramid, values, scenes)


def abi_rows(scenes, given):
    """Inference by the C ABI."""
    mode, (infer, upload, wait, download) = abi_calls(scenes, given)

    def infer_whole():
        output, status = infer(*upload(*scenes.draw(0, 1)))
        wait()
        output, status = download(output), download(status)
        require(not int(status[0]), f"the cloud does not fit the capacities: status {int(status[0])}")
        require(np.isfinite(output).all() and output.any(), "the output is not finite, or 0 everywhere")
        return digest_of([output])

    digest = infer_whole()
    row = measure(scenes, given, {"engine": "Minuet", "mode": mode, "what": "inference"}, infer, upload, wait)
    require(infer_whole() == digest, "the output has other bits after the measurement")
    yield {**row, "digest": digest}


def abi_on_cpu(device, plan, pyramid, values, scenes):
    """Returns (infer, upload, wait, download) for numpy arrays."""
    status = np.full(1, -1, np.int32)
    output = np.full((scenes.capacities[0], OUT_CHANNELS), np.nan, np.float16)

    def infer(coordinates, count, features):
        buffer = pyramid.build(device, coordinates, count, status=status)
        pyramid.run(plan, device, buffer, features, parameters=values, out=output)
        return output, status

    return infer, lambda coordinates, count, features, _: (coordinates, count, features), lambda: None, np.array


def abi_graph(device, plan, pyramid, values, scenes):
    """Returns the same for tensors of torch, where infer() replays a graph."""
    import torch

    def memory(size):
        return torch.empty(size, dtype=torch.uint8, device="cuda")

    def upload(coordinates, count, features, _):
        return [torch.from_numpy(array).cuda() for array in (coordinates, count, features)]

    buffer, workspace = (memory(size) for size in pyramid.bytes(device.arch))
    of_run = memory(pyramid.run_bytes(plan, device.arch))
    pyramid.load_run(plan, device, parameters=values)
    held = upload(*scenes.draw(0, 1))
    output = torch.full((scenes.capacities[0], OUT_CHANNELS), torch.nan, dtype=torch.float16, device="cuda")
    status = torch.full((1,), -1, dtype=torch.int32, device="cuda")

    def enqueue(stream):
        pyramid.build(device, held[0], held[1], buffer=buffer, workspace=workspace, status=status, stream=stream)
        pyramid.run(plan, device, buffer, held[2], workspace=of_run, parameters=values, out=output, stream=stream)

    graph = captured(enqueue)

    def infer(*arrays):
        for target, source in zip(held, arrays, strict=True):
            target.copy_(source)
        graph.replay()
        return output, status

    # The graph uses this memory, and the kernels and weights of the objects that enqueue() refers to.
    infer.kept = buffer, workspace, of_run, enqueue
    return infer, upload, torch.cuda.synchronize, lambda tensor: tensor.cpu().numpy()


# ---- JAX -------------------------------------------------------------------------------------------------------------


class Program:
    """A jitted function, each of whose calls gets the memory of the last call's results for its own: XLA records a
    command buffer anew where addresses change.

    Args:
        function: function(state, *arrays) returns the results; with `is_new` the next state and the results.
        is_new: whether each call makes a new state, and is given the old one with its memory.
    """

    def __init__(self, function, state, is_new):
        import jax

        self.state, self.results, self._is_new = state, None, is_new
        self._function = function
        self._compiled = jax.jit(
            lambda last, state, *arrays: function(state, *arrays),
            donate_argnums=(0, 1) if is_new else 0,
            keep_unused=True,
        )

    def __call__(self, *arrays):
        """Returns the results, which are there until the next call."""
        import jax
        import jax.numpy as jnp

        if self.results is None:
            kinds = jax.eval_shape(self._function, self.state, *arrays)
            kinds = kinds[1] if self._is_new else kinds
            self.results = jax.tree.map(lambda kind: jnp.zeros(kind.shape, kind.dtype), kinds)
        made = self._compiled(self.results, self.state, *arrays)
        if self._is_new:
            self.state, self.results = made
        else:
            self.results = made
        return self.results

    def wait(self):
        """Waits for the last call."""
        import jax

        jax.block_until_ready((self.state, self.results))

    def poll(self):
        """Waits for the results of the last call, and keeps the thread busy."""
        import jax

        for result in jax.tree.leaves(self.results):
            while not result.is_ready():
                pass


def on_device(*arrays):
    """Returns arrays of JAX once they are there."""
    import jax

    return jax.block_until_ready([jax.device_put(array) for array in arrays])


def jax_rows(scenes, given):
    """Inference and a training step as jitted functions."""
    import jax
    import minuet.jax as sparse

    options = {"dtype": "float16", "bounds": scenes.bounds}
    mode = "jit" if given.engine == "jax" else "jit without command buffers"
    network = sparse.Network("minkunet42", scenes.capacities, **options)
    values = values_of({name: kind.shape for name, kind in network.parameters.items()})
    parameters = jax.device_put(values)
    for form, held in ((mode, parameters), (f"{mode}, prepared", network.prepare(parameters))):
        yield inference_row(scenes, given, network, form, held)
    del parameters, held
    trained = sparse.Network("minkunet42", scenes.capacities, is_trained=True, **options)
    for form, join, split, replace in (
        (mode, jax.device_put, lambda held: held, lambda held, statistics: {**held, **statistics}),
        (f"{mode}, flat", trained.flatten, trained.unflatten, trained.with_statistics),
    ):
        yield training_row(scenes, given, trained, form, values, (join, split, replace))


def inference_program(network, parameters):
    """Returns inference from coordinates to the output and the status of the cloud."""

    def run(parameters, coordinates, count, features, _):
        cloud = network.pyramid(coordinates, count)
        return network(parameters, cloud, features), cloud.status

    return Program(run, parameters, is_new=False)


def inference_row(scenes, given, network, mode, parameters):
    """Inference with parameters in one of their forms."""
    import minuet.jax as sparse

    program = inference_program(network, parameters)

    def infer_whole():
        output, status = program(*on_device(*scenes.draw(0, 1)))
        sparse.check(status)
        output = np.asarray(output)
        require(np.isfinite(output).all() and output.any(), "the output is not finite, or 0 everywhere")
        return digest_of([output])

    digest = infer_whole()
    row = measure(
        scenes, given, {"engine": "Minuet", "mode": mode, "what": "inference"}, program, on_device, program.wait
    )
    require(infer_whole() == digest, "the output has other bits after the measurement")
    return {**row, "digest": digest}


def training_row(scenes, given, trained, mode, values, forms):
    """A training step with parameters in one of their forms.

    Args:
        forms: functions that make this form of a dict of arrays, make a dict of it, and replace running statistics.
    """
    import jax
    import jax.numpy as jnp
    import minuet.jax as sparse

    join, split, replace = forms

    def loss_of(weights, cloud, features, labels):
        output, statistics = trained.train(weights["network"], cloud, features)
        logits = output.astype(jnp.float32) @ weights["head"]
        each = -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)[:, 0]
        used = cloud.is_used(0)
        return LOSS_SCALE * jnp.where(used, each, 0).sum() / used.sum(), statistics

    def step(state, coordinates, count, features, labels):
        weights, momentum = state
        cloud = trained.pyramid(coordinates, count)
        gradient = jax.value_and_grad(loss_of, has_aux=True)
        (loss, statistics), gradients = gradient(weights, cloud, features, labels)
        momentum = jax.tree.map(lambda m, g: MOMENTUM * m + g / LOSS_SCALE, momentum, gradients)
        weights = jax.tree.map(lambda w, m: w - RATE * m, weights, momentum)
        weights["network"] = replace(weights["network"], statistics)
        return (weights, momentum), (loss / LOSS_SCALE, cloud.status)

    head = np.random.default_rng(2).standard_normal((OUT_CHANNELS, CLASSES)).astype(np.float32) / OUT_CHANNELS**0.5
    first = {"network": join(values), "head": jax.device_put(head)}
    program = Program(step, (first, jax.tree.map(jnp.zeros_like, first)), is_new=True)

    def train():
        loss, status = program(*on_device(*scenes.draw(0, 1)))
        sparse.check(status)
        return round(float(loss), 5)

    first_loss = train()
    state = [{**part, "network": split(part["network"])} for part in program.state]
    row = {"engine": "Minuet", "mode": mode, "what": "training step", "first_loss": first_loss}
    digest = digest_of(jax.tree.leaves(state))
    del state, first
    row = measure(scenes, given, row, program, on_device, program.wait)
    last_loss = train()
    require(np.isfinite(last_loss), "the loss is not finite")
    return {**row, "last_loss": last_loss, "digest": digest}


# ---- both in turn ----------------------------------------------------------------------------------------------------


def turn_rows(scenes, given):
    """The calls that the engine "turns" compares."""
    import jax.numpy as jnp
    import minuet.jax as sparse

    abi, (infer, upload, wait, _) = abi_calls(scenes, given)
    network = sparse.Network("minkunet42", scenes.capacities, dtype="float16", bounds=scenes.bounds)
    prepared = network.prepare(values_of({name: kind.shape for name, kind in network.parameters.items()}))
    jitted = inference_program(network, prepared)
    addition = Program(lambda _, coordinates, count, features, labels: (features + jnp.float16(1),), (), is_new=False)
    drawn = [scenes.draw(DROPPED, 2000 + seed) for seed in range(given.repeats)]
    of_abi, of_jax = ([to(*arrays) for arrays in drawn] for to in (upload, on_device))
    calls = {("Minuet", abi, "inference, in turn"): (infer, of_abi, wait)}
    for engine, what, program in (("Minuet", "inference, in turn", jitted), ("JAX", "addition, in turn", addition)):
        calls[engine, "jit", what] = (program, of_jax, program.wait)
        calls[engine, "jit, polled", what] = (program, of_jax, program.poll)
    found = {name: ([], []) for name in calls}
    for is_timed in (False, True):
        for number in range(given.repeats):
            for name, (call, inputs, wait_for) in calls.items():
                for kept, measured in zip(found[name], times(call, inputs[number : number + 1], wait_for), strict=True):
                    kept += measured if is_timed else []
    for (engine, mode, what), (whole, enqueued) in found.items():
        row = {"cloud": scenes.name, "voxels": len(scenes.all), "engine": engine, "mode": mode, "what": what}
        yield {**row, "wall_ms": spread(whole), "enqueued_ms": spread(enqueued)}


ENGINES = {"abi": abi_rows, "turns": turn_rows, "jax": jax_rows, "jax-without-command-buffers": jax_rows}


def main():
    """Prints the rows of one engine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=ENGINES, required=True)
    add_cloud_arguments(parser)
    given = parser.parse_args()
    if given.engine != "abi":  # XLA reads these when it is loaded.
        has_none = given.engine == "jax-without-command-buffers"
        flags = WITHOUT_COMMAND_BUFFERS if has_none else WITH_COMMAND_BUFFERS
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags} {SAME_BITS}".strip()
        os.environ["JAX_PLATFORMS"] = given.device
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    for name, coordinates in cloud_arrays(parser, given).items():
        for row in ENGINES[given.engine](Scenes(name, coordinates), given):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
