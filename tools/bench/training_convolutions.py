#!/usr/bin/env python3
"""Times the convolutions of a training step of MinkUNet42, and writes one JSON file.

usage: training_convolutions.py --commit COMMIT --output FILE [--cloud NAME=FILE.npy ...] [--random]
                                [--device cuda|cpu] [--points N] [--repeats N]

The network has all convolutions of MinkUNet42 and its concats, but no batch norms, ReLUs and sums. Three things are
timed by the GPU's clock, each as one captured CUDA graph that is replayed for another cloud each time: the maps of the
cloud, the convolutions (forward, and the gradients of inputs and weights, with the conversion of the weights), and both.

It needs torch and the package minuet.
"""

import argparse
import json
import pathlib
import sys

import minuet
import torch
from measuring import (
    Record, add_cloud_arguments, captured, cloud_arrays, framework_versions, host_cpu, spread, times,
)  # fmt: skip
from training_step_jax import DROPPED, DROPPED_IN_WARM_UP, Scenes

NETWORK = pathlib.Path(__file__).resolve().parents[2] / "runtime/network/networks/minkunet42.json"


def convolutions_of(network):
    """Returns the description of a network that has only the convolutions of another one, which has residual blocks."""
    layers, outputs, widths, channels = [], [], {}, network["in_channels"]
    plain = {"norm": "none", "activation": "none"}
    for layer in network["layers"]:
        if layer["op"] == "head":
            continue
        if layer["op"] == "concat":
            layers.append(layer)
            channels += widths[layer["with"]]
            continue
        before, channels = channels, network["channels"][layer["width"]]
        own = {**layer, "out_channels": channels, **plain}
        del own["width"]
        if layer["op"] == "residual":
            given = layers[-1].setdefault("save", f"given{len(layers)}")
            inside = {"op": "block", "out_channels": channels, "kernel_size": 3, **plain}
            if before != channels:
                outputs.append(layer["name"] + ".shortcut")
                names = {"name": outputs[-1], "save": outputs[-1]}
                layers.append({"op": "linear", **names, "out_channels": channels, "bias": False})
            layers.append({**inside, "name": layer["name"] + ".first", "input": given})
            own = {**inside, "name": layer["name"] + ".second"}
            if "save" in layer:
                own["save"] = layer["save"]
        layers.append(own)
        if "save" in own:
            widths[own["save"]] = channels
    outputs.append(layers[-1].setdefault("save", "last"))
    return {
        "name": network["name"] + "_convolutions", "ndim": network["ndim"], "in_channels": network["in_channels"],
        "layers": layers, "outputs": outputs,
    }  # fmt: skip


class Step:
    """The maps and the convolutions of a step on one device, with memory of their own."""

    def __init__(self, scenes, place):
        self.place, self.is_gpu = place, place == "cuda"
        context = minuet.Context()
        self.device = minuet.Device(context, "cuda:0" if self.is_gpu else "cpu")
        plan = minuet.Plan.network(
            context, description=convolutions_of(json.loads(NETWORK.read_text())),
            dtype="float16" if self.is_gpu else "float32", dataflow="fused", without_values=True,
        )  # fmt: skip
        self.training = minuet.Training(context, plan)
        self.pyramid = self.training.pyramid(scenes.capacities, bounds=scenes.bounds)
        self.pyramid.load(self.device)
        self.training.load(self.device)
        arch = self.device.arch
        sizes = self.training.bytes(arch, self.pyramid)
        self.buffer, self.of_maps = (self._memory(size) for size in self.pyramid.bytes(arch))
        self.kept, self.of_forward, self.of_backward = (
            self._memory(size) for size in (sizes.kept, sizes.forward_workspace, sizes.backward_workspace)
        )
        generator = torch.Generator(place).manual_seed(1)

        def numbers(shape):
            """Returns weights with which sums over a kernel keep their size, or small gradients."""
            return torch.randn(shape, generator=generator, device=place) / (8 * shape[-2]) ** 0.5

        self.parameters = {info.name: numbers(tuple(info.shape)) for info in plan.parameters}
        self.gradients = {name: torch.empty_like(value) for name, value in self.parameters.items()}
        self.status = torch.zeros(1, dtype=torch.int32, device=place)
        self.held = self.upload(*scenes.draw(0, 1))
        self.build(None)
        shapes = [output.shape for output in self.forward(None).outputs]
        dtype = torch.float16 if self.is_gpu else torch.float32
        self.outputs = [torch.empty(tuple(shape), dtype=dtype, device=place) for shape in shapes]
        self.out_gradients = [numbers(tuple(shape)).to(dtype) for shape in shapes]

    def _memory(self, size):
        return torch.empty(max(1, size), dtype=torch.uint8, device=self.place)

    def upload(self, coordinates, count, features, _):
        """Returns a cloud in the device's memory."""
        arrays = [torch.from_numpy(array).to(self.place) for array in (coordinates, count, features)]
        return arrays if self.is_gpu else [*arrays[:2], arrays[2].float()]

    def build(self, stream):
        """Enqueues the maps."""
        self.pyramid.build(
            self.device, *self.held[:2], buffer=self.buffer, workspace=self.of_maps, status=self.status, stream=stream
        )

    def forward(self, stream):
        """Enqueues the forward pass."""
        return self.training.forward(
            self.device, self.pyramid, self.buffer, self.held[2:], self.parameters, order="minuet",
            out=getattr(self, "outputs", None), kept=self.kept, workspace=self.of_forward, stream=stream,
        )  # fmt: skip

    def convolve(self, stream):
        """Enqueues both passes."""
        self.forward(stream)
        self.training.backward(
            self.device, self.pyramid, self.buffer, self.kept, self.out_gradients, self.parameters, order="minuet",
            gradients=self.gradients, workspace=self.of_backward, stream=stream,
        )  # fmt: skip

    def both(self, stream):
        """Enqueues the maps and both passes."""
        self.build(stream)
        self.convolve(stream)

    def replayed(self, enqueue):
        """Returns a function that runs what `enqueue` enqueues: on a GPU as a captured graph."""
        if not self.is_gpu:
            return lambda: enqueue(None)
        return captured(enqueue).replay

    def take(self, cloud):
        """Copies a cloud to where the graphs read it."""
        for target, source in zip(self.held, cloud, strict=True):
            target.copy_(source)


def time_of(run, is_gpu):
    """Returns the ms that run() takes: on a GPU between two events, so that the launch of a graph does not count."""
    if not is_gpu:
        return times(run, [()], lambda: None)[0][0]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    torch.cuda.synchronize()
    events[0].record()
    run()
    events[1].record()
    torch.cuda.synchronize()
    return events[0].elapsed_time(events[1])


def rows(given, clouds):
    """Measures each cloud."""
    for name, coordinates in clouds.items():
        scenes = Scenes(name, coordinates)
        step = Step(scenes, given.device)
        parts = {"maps": step.build, "convolutions": step.convolve, "both": step.both}
        parts = {part: step.replayed(enqueue) for part, enqueue in parts.items()}
        found = {part: [] for part in parts}
        warm_up = 12 if step.is_gpu else 1
        for seed in range(warm_up + given.repeats):
            is_timed = seed >= warm_up
            step.take(step.upload(*scenes.draw(DROPPED if is_timed else DROPPED_IN_WARM_UP, 1000 + seed)))
            for part, run in parts.items():
                elapsed = time_of(run, step.is_gpu)
                if is_timed:
                    found[part].append(elapsed)
        if int(step.status[0]):
            raise RuntimeError(f"the cloud does not fit the capacities: status {int(step.status[0])}")
        if not all(bool(gradient.isfinite().all()) for gradient in step.gradients.values()):
            raise RuntimeError("a gradient is not finite")
        yield {"cloud": name, "voxels": len(scenes.all), **{f"{part}_ms": spread(all_) for part, all_ in found.items()}}


def main():
    """Measures the clouds that the arguments name. Returns 1 if that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--output", required=True)
    add_cloud_arguments(parser)
    given = parser.parse_args()
    clouds = cloud_arrays(parser, given)
    system = minuet.system_info()
    record = Record(
        given.output,
        device=torch.cuda.get_device_name() if given.device == "cuda" else "cpu", host_cpu=host_cpu(),
        driver=system.driver, toolkit=system.nvrtc, commit=given.commit, minuet=minuet.version(),
        versions=framework_versions(), network="MinkUNet42", dtype="fp16" if given.device == "cuda" else "fp32",
        repeats=given.repeats,
    )  # fmt: skip
    record.part("convolutions", rows(given, clouds))
    return 1 if record.document["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
