#!/usr/bin/env python3
"""Times Minuet, spconv and FlexGEMM in one process on one GPU, in fp16, and writes one JSON file.

usage: peers.py --commit COMMIT --output FILE [--peers spconv,flexgemm] --cloud NAME=FILE.npy [...]

A cloud is an array of voxels, int32 [n, 4]: the batch index, then x, y, z; `minuet run ... --output-coordinates FILE.npy` writes
one. Three workloads: MinkUNet42 on each cloud and on 100,000 random voxels (Minuet, spconv); and one submanifold layer of
3^3 offsets on the voxels of a sphere's surface, which is FlexGEMM's own benchmark (all three). Coordinates and features
are in device memory, and every timed inference gets voxels that no earlier one saw. See tools/bench/methods.md.

It needs torch, the package minuet, and the peers that are to be timed.
"""

import argparse
import collections
import json
import pathlib

import minuet
import numpy as np
import torch
from measuring import captured, gpu_events, random_voxels, read_clouds, wall

WARM_UP, TIMED, PROFILED = 12, 30, 5
DROPPED_IN_WARM_UP, DROPPED = 0.05, 0.02


# ---- voxels -----------------------------------------------------------------------------------------------------------


class Voxels:
    """A set of voxels, from which every inference takes a random part."""

    def __init__(self, coordinates, channels, device="cuda"):
        coordinates = np.asarray(coordinates, np.int32).copy()
        coordinates[:, 1:] -= coordinates[:, 1:].min(0)  # spconv and FlexGEMM take no negative coordinates
        self.all = torch.from_numpy(coordinates).to(device)
        self.channels = channels
        self.shape = [int(extent) + 1 for extent in coordinates[:, 1:].max(0)]

    def draw(self, dropped, seed):
        device = self.all.device
        generator = torch.Generator(device=device).manual_seed(seed)
        kept = torch.randperm(len(self.all), generator=generator, device=device)[int(len(self.all) * dropped) :]
        coordinates = self.all[kept.sort().values].contiguous()
        features = torch.rand(len(coordinates), self.channels, generator=generator, device=device).half()
        return coordinates, features


def sphere_voxels(resolution):
    """The voxels whose centres lie at most 1.25 below the surface of the sphere that fills the cube."""
    parts, radius = [], resolution / 2
    squares = (torch.arange(resolution, device="cuda") + 0.5 - radius) ** 2
    for x in range(resolution):
        distance = (squares[x] + squares[:, None] + squares[None, :]).sqrt()
        found = torch.nonzero((distance <= radius) & (distance >= radius - 1.25))
        parts.append(torch.nn.functional.pad(found, (1, 0), value=x))
    return torch.nn.functional.pad(torch.cat(parts), (1, 0)).cpu().numpy()


# ---- clocks -----------------------------------------------------------------------------------------------------------


def busy(call, inputs):
    """The time in which the GPU works on a kernel or a copy, in ms for each input, and the number of both."""
    inputs = list(inputs)
    events = gpu_events(call, inputs)
    total, end = 0.0, 0.0
    for begin, stop in sorted((event.time_range.start, event.time_range.end) for event in events):
        total += max(0.0, stop - max(begin, end))
        end = max(end, stop)
    return round(total / len(inputs) / 1e3, 4), len(events) / len(inputs)


def measure(row, voxels, call, prepared=None):
    """Times call(coordinates, features). `prepared` makes, untimed, what a call takes instead."""
    prepared = prepared or (lambda *given: given)
    for seed in range(WARM_UP):
        call(*prepared(*voxels.draw(DROPPED_IN_WARM_UP if seed % 2 else 0.01, 1000 + seed)))
    draws = (prepared(*voxels.draw(DROPPED, 2000 + seed)) for seed in range(TIMED))
    row["wall_ms"], _ = wall(call, draws, torch.cuda.synchronize)
    row["busy_ms"], row["launches"] = busy(call, [prepared(*voxels.draw(DROPPED, 3000 + seed)) for seed in range(PROFILED)])
    row["voxels"] = len(voxels.all)
    print(json.dumps(row), flush=True)
    return row


def finite(tensor):
    if not torch.isfinite(tensor).all() or not (tensor != 0).any():
        raise SystemExit("peers.py: an output is not finite, or 0 everywhere")


# ---- Minuet -----------------------------------------------------------------------------------------------------------


class Minuet:
    name = "Minuet"

    def __init__(self):
        self.context = minuet.Context()
        self.device = minuet.Device(self.context, "cuda:0")
        self.stream = torch.cuda.current_stream()

    def network(self, voxels):
        """Returns the calls of MinkUNet42 in exact mode, and as a captured graph."""
        plan = minuet.Plan.network(self.context, "minkunet42", dtype="float16", seed=1)
        plan.load(self.device)
        exact = minuet.Execution(plan, self.device)
        channels = plan.outputs[0].channels

        def run(coordinates, features):
            exact.prepare(coordinates, stream=self.stream)
            out = torch.empty(len(features), channels, dtype=torch.float16, device="cuda")
            return exact.run(features, out=out, stream=self.stream)

        finite(run(*voxels.draw(0, 1)))
        return run, self._graph(plan, exact, voxels, channels)

    def _graph(self, plan, exact, voxels, channels):
        capacities = exact.suggest_capacities(1.25)
        fixed = minuet.Execution(plan, self.device, level_capacity=capacities)
        coordinates = torch.zeros(capacities[0], 4, dtype=torch.int32, device="cuda")
        features = torch.zeros(capacities[0], voxels.channels, dtype=torch.float16, device="cuda")
        count = torch.zeros(1, dtype=torch.int32, device="cuda")
        out = torch.empty(capacities[0], channels, dtype=torch.float16, device="cuda")

        def enqueue(stream):
            fixed.prepare_on_device(coordinates, count, stream=stream)
            fixed.run(features, out=out, stream=stream)

        def fill(given_coordinates, given_features):
            coordinates[: len(given_coordinates)].copy_(given_coordinates)
            features[: len(given_features)].copy_(given_features)
            count.fill_(len(given_features))

        fill(*voxels.draw(0, 1))
        graph = captured(enqueue)

        def replay(given_coordinates, given_features, _execution=fixed):  # the graph reads memory of the execution
            fill(given_coordinates, given_features)
            graph.replay()
            return out

        replay(*voxels.draw(0, 1))
        torch.cuda.synchronize()
        if fixed.read_cloud().status != 0:
            raise SystemExit("peers.py: the cloud does not fit the capacities")
        finite(out)
        return replay

    def layer(self, channels):
        """Returns (with the map, prepare, layer alone)."""
        weight = np.random.default_rng(2).standard_normal((27, channels, channels), np.float32) / (3 * channels**0.5)
        plan = minuet.Plan.convolution(self.context, weight, dtype="float16", kernel_size=3, submanifold=True)
        plan.load(self.device)
        queue = minuet.Queue(self.device, self.stream)
        execution = minuet.Execution(plan, self.device, queue=queue)

        def prepare(coordinates, features):
            cells = minuet.Coordinates(self.device, coordinates, queue=queue, stream=self.stream)
            execution.prepare_maps(minuet.KernelMap(cells, cells, 3, stream=self.stream), stream=self.stream)
            return features, torch.empty_like(features)

        def alone(features, out):
            return execution.run(features, out=out, stream=self.stream)

        return lambda *given: alone(*prepare(*given)), prepare, alone


# ---- spconv -----------------------------------------------------------------------------------------------------------


class Spconv:
    def __init__(self):
        import spconv
        import spconv.pytorch
        from cumm import tensorview
        from spconv.core import ConvAlgo
        from spconv.pytorch import ops

        self.ops = ops
        self.name = f"spconv {spconv.__version__}"
        self.library, self.algorithm = spconv.pytorch, ConvAlgo.MaskImplicitGemm
        self.relu = tensorview.gemm.Activation.ReLU

    def forget_tuning(self):
        """Makes spconv tune again, because what it keeps does not depend on the number of voxels."""
        from spconv import algo

        self.ops.CONV_CPP = algo.ConvTunerSimple(
            [algo.algocore.get_conv_algo_desp_from_param(p) for p in algo.ALL_IMPGEMM_PARAMS]
        )
        self.ops.GEMM_CPP = algo.GemmTunerSimple(
            [algo.algocore.get_gemm_algo_desp_from_param(p) for p in algo.ALL_NATIVE_PARAMS]
        )

    def convolution(self, kind, inputs, outputs, kernel, key, relu=True, **options):
        """A convolution whose batch norm is its bias, and whose ReLU is in its kernel."""
        layer = getattr(self.library, kind)(
            inputs, outputs, kernel, bias=True, indice_key=key, algo=self.algorithm, **options
        )
        if relu:
            layer.act_type = self.relu
        with torch.no_grad():
            layer.weight.normal_(0, (1 / (inputs * min(8, kernel**3))) ** 0.5)
            layer.bias.normal_(0, 0.1)
        return layer.cuda().half().eval()

    def residual(self, inputs, outputs, key):
        first = self.convolution("SubMConv3d", inputs, outputs, 3, key, padding=1)
        second = self.convolution("SubMConv3d", outputs, outputs, 3, key, relu=False, padding=1)
        shortcut = self.convolution("SubMConv3d", inputs, outputs, 1, None, relu=False) if inputs != outputs else None

        def run(x):
            y = second(first(x))
            skip = x if shortcut is None else shortcut(x)
            return y.replace_feature(torch.relu_(y.features.add_(skip.features)))

        return run

    def network(self, voxels):
        """MinkUNet42, whose strided layers have kernel 2 and stride 2, for which both engines have the same voxels."""
        self.forget_tuning()
        widths = (32, 32, 64, 128, 256, 256, 128, 96, 96)
        stem = [
            self.convolution("SubMConv3d", voxels.channels, 32, 3, "level0", padding=1),
            self.convolution("SubMConv3d", 32, 32, 3, "level0", padding=1),
        ]
        encoder, decoder, width = [], [], widths[0]
        for level in range(1, 5):
            down = self.convolution("SparseConv3d", width, width, 2, f"down{level}", stride=2)
            encoder.append((down, self.residual(width, widths[level], f"level{level}"),
                            self.residual(widths[level], widths[level], f"level{level}")))  # fmt: skip
            width = widths[level]
        for level in range(5, 9):
            onto = 8 - level
            up = self.convolution("SparseInverseConv3d", width, widths[level], 2, f"down{onto + 1}")
            wide = widths[level] + widths[onto]
            decoder.append((up, self.residual(wide, widths[level], f"level{onto}"),
                            self.residual(widths[level], widths[level], f"level{onto}")))  # fmt: skip
            width = widths[level]

        def run(coordinates, features):
            x = self.library.SparseConvTensor(features, coordinates, voxels.shape, 1)
            for layer in stem:
                x = layer(x)
            skips = [x]
            for layers in encoder:
                for layer in layers:
                    x = layer(x)
                skips.append(x)
            skips.pop()
            for up, *rest in decoder:
                x = up(x)
                x = x.replace_feature(torch.cat((x.features, skips.pop().features), 1))
                for layer in rest:
                    x = layer(x)
            return x.features

        finite(run(*voxels.draw(0, 1)))
        return run

    def layer(self, voxels):
        self.forget_tuning()
        layer = self.convolution("SubMConv3d", voxels.channels, voxels.channels, 3, "map", relu=False, padding=1)

        def prepare(coordinates, features):
            x = self.library.SparseConvTensor(features, coordinates, voxels.shape, 1)
            x.indice_dict = layer(x).indice_dict  # with the map, which the next call finds by its key
            return (x,)

        def whole(coordinates, features):
            return layer(self.library.SparseConvTensor(features, coordinates, voxels.shape, 1))

        return whole, prepare, layer


# ---- FlexGEMM ---------------------------------------------------------------------------------------------------------


class FlexGemm:
    def __init__(self, commit):
        from flex_gemm.ops import spconv

        self.name, self.ops = f"FlexGEMM {commit}", spconv

    def layer(self, voxels):
        channels = voxels.channels
        weight = torch.randn(channels, 3, 3, 3, channels, device="cuda").half() / (3 * channels**0.5)
        bias = torch.randn(channels, device="cuda").half()
        shape = torch.Size([1, channels, *voxels.shape])

        def run(coordinates, features, cache=None):
            return self.ops.sparse_submanifold_conv3d(features, coordinates, shape, weight, bias, cache)

        def prepare(coordinates, features):
            return coordinates, features, run(coordinates, features)[1]

        return run, prepare, run


# ---- workloads --------------------------------------------------------------------------------------------------------


def networks(engines, clouds):
    for cloud, coordinates in clouds.items():
        voxels = Voxels(coordinates, 4)
        for engine in engines:
            if not hasattr(engine, "network"):
                continue
            row = {"network": "MinkUNet42", "cloud": cloud, "engine": engine.name}
            calls = engine.network(voxels)
            modes = {"exact": calls[0], "graph": calls[1]} if isinstance(calls, tuple) else {"exact": calls}
            for mode, call in modes.items():
                yield measure({**row, "mode": mode}, voxels, call)


def layers(engines):
    for resolution, channels in ((1024, 64), (512, 128), (256, 256)):
        voxels = Voxels(sphere_voxels(resolution), channels)
        for engine in engines:
            row = {"cloud": f"sphere_{resolution}", "engine": engine.name, "mode": "exact"}
            whole, prepare, alone = engine.layer(channels if isinstance(engine, Minuet) else voxels)
            yield measure({"network": f"layer of {channels} channels with its map", **row}, voxels, whole)
            yield measure({"network": f"layer of {channels} channels alone", **row}, voxels, alone, prepare)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--commit", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--peers", default="spconv,flexgemm")
    parser.add_argument("--flexgemm-commit", default="6dd94a8")
    parser.add_argument("--cloud", action="append", default=[], metavar="NAME=FILE.npy")
    given = parser.parse_args()
    peers = {"spconv": Spconv, "flexgemm": lambda: FlexGemm(given.flexgemm_commit)}
    engines = [Minuet(), *(peers[name]() for name in given.peers.split(",") if name)]
    clouds = read_clouds(given.cloud)
    clouds["random_1e5"] = random_voxels(100_000, 400)
    system = minuet.system_info()
    document = collections.OrderedDict(
        device=torch.cuda.get_device_name(), driver=system.driver, toolkit=system.nvrtc, commit=given.commit,
        torch=torch.__version__, dtype="fp16", repeats=TIMED, rows=[],
    )  # fmt: skip
    for rows in (networks(engines, clouds), layers(engines)):
        for row in rows:
            document["rows"].append(row)
            pathlib.Path(given.output).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    with torch.no_grad():
        main()
