"""python -m minuet: a network over a generated LiDAR sweep, on the GPU if there is one, else on the CPU. With arguments
it is the command-line tool (python -m minuet run --help)."""

from __future__ import annotations

import sys
import time

import numpy as np

import minuet

from . import _command


def make_sweep(beams: int, columns: int) -> np.ndarray:
    """Returns points [count, 3] in metres of a scanner 1.7 m above a plane, between walls, with boxes on the plane."""
    generator = np.random.default_rng(0)
    up, around = np.meshgrid(
        np.deg2rad(np.linspace(-22, 10, beams)), np.linspace(0, 2 * np.pi, columns, endpoint=False), indexing="ij"
    )
    ray = np.stack([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)], -1).reshape(-1, 3)
    distance = np.full(len(ray), 60.0)
    with np.errstate(divide="ignore"):
        distance = np.minimum(distance, np.where(ray[:, 2] < 0, -1.7 / ray[:, 2], np.inf))
        for axis, wall in ((0, 25.0), (1, 12.0)):
            distance = np.minimum(distance, wall / np.abs(ray[:, axis]))
        for _ in range(40):
            low = np.append(generator.uniform((-24, -11), (22, 10)), -1.7)
            faces = np.stack([low, low + generator.uniform((1, 1, 0.5), (4, 2, 2.5))])[:, None] / ray
            near, far = np.minimum(*faces).max(1), np.maximum(*faces).min(1)
            distance = np.where((near > 1) & (near < far), np.minimum(distance, near), distance)
    points = ray * (distance + generator.normal(0, 0.02, len(ray)))[:, None]
    kept: np.ndarray = points[distance < 60.0]
    return kept


def quickstart() -> int:
    """Runs MinkUNet42 with random weights, and says what happened."""
    print(f"minuet {minuet.version()}")
    context = minuet.Context()
    device = minuet.Device(context)
    print(f"device {device.name}: {device.info.description}")
    if device.is_cpu:
        print(minuet.system_info().missing.strip() or "there is no usable GPU, so that the CPU does the work")

    points = make_sweep(32, 512) if device.is_cpu else make_sweep(128, 1024)
    voxels, first = np.unique(np.floor(points / 0.1).astype(np.int32), axis=0, return_index=True)
    coordinates = np.ascontiguousarray(np.pad(voxels, ((0, 0), (1, 0))))  # batch 0, then x, y, z
    features = np.concatenate([points[first], np.ones((len(first), 1))], 1).astype(np.float32)
    print(f"{len(points)} points of a generated sweep, {len(voxels)} voxels of 0.1 m")

    start = time.perf_counter()
    dtype = "float32" if device.is_cpu else "float16"
    plan = minuet.Plan.network(context, "minkunet42", dtype=dtype)
    plan.load(device)
    counters = context.kernel_counters()
    print(
        f"MinkUNet42 in {dtype}, random weights: loaded in {time.perf_counter() - start:.2f} s "
        f"({counters.compiled} kernels compiled, {counters.disk_hits} from the cache {context.cache_directory})"
    )

    execution = minuet.Execution(plan, device)
    device_coordinates = device.to_device(coordinates)
    device_features = device.to_device(features.astype(dtype))
    for word in ("first", "second"):
        start = time.perf_counter()
        execution.prepare(device_coordinates)
        output = execution.run(device_features)
        device.synchronize()
        print(f"{word} inference: {1e3 * (time.perf_counter() - start):.1f} ms, output {list(output.shape)}")
    result = device.to_host(output).astype(np.float32)
    if not np.isfinite(result).all():
        print("the output has numbers that are not finite", file=sys.stderr)
        return 1
    print(f"the most frequent label is {np.bincount(result.argmax(1)).argmax()}, which means nothing with such weights")
    print("next: python -m minuet run --help, or the page on Python: share/doc/minuet/PYTHON.md")
    return 0


if __name__ == "__main__":
    sys.exit(_command.run(sys.argv[1:]) if sys.argv[1:] else quickstart())
