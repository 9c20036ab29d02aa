"""What ops compute, in float64 and plain loops over dictionaries, and problems to ask them."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import struct
from collections.abc import Sequence

import numpy as np

# The bounds of shared/design/convolution.md for one layer, relative to the sum of magnitudes.
BOUNDS = {"float32": 1e-5, "tf32": 2e-3, "float16": 2e-3, "bfloat16": 1.6e-2}


def make_cloud(generator: np.random.Generator, count: int, extent: int = 6, batches: int = 2) -> np.ndarray:
    """Returns unique coordinates int32 [count, 4] in random order, negative ones too."""
    cells = np.array(list(itertools.product(range(batches), *[range(-extent, extent)] * 3)), np.int32)
    return np.ascontiguousarray(generator.permutation(cells)[:count])


def offsets_of(kernel_size: Sequence[int]) -> list[tuple[int, ...]]:
    """Returns -(K - 1) / 2 to K / 2 on each axis, the first axis slowest."""
    return list(itertools.product(*[range(-((size - 1) // 2), size // 2 + 1) for size in kernel_size]))


def pairs_of(inputs: np.ndarray, outputs: np.ndarray, kernel_size: Sequence[int], step: Sequence[int]) -> np.ndarray:
    """Returns (offset, input row, output row) of a forward map, ascending."""
    rows = {tuple(point): row for row, point in enumerate(inputs.tolist())}
    found = []
    for number, offset in enumerate(offsets_of(kernel_size)):
        for row, (batch, *point) in enumerate(outputs.tolist()):
            at = (batch, *(p + o * s for p, o, s in zip(point, offset, step, strict=True)))
            if at in rows:
                found.append((number, rows[at], row))
    return np.array(sorted(found), np.int32).reshape(-1, 3)


def downsample(points: np.ndarray, stride: int) -> set[tuple[int, ...]]:
    return {(batch, *(p // stride * stride for p in point)) for batch, *point in points.tolist()}


def convolve(pairs: np.ndarray, features: np.ndarray, weight: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the output, and the sum of magnitudes by which errors are measured."""
    output = np.zeros((rows, weight.shape[2]))
    magnitude = np.zeros_like(output)
    for offset, source, target in pairs.tolist():
        output[target] += features[source].astype(np.float64) @ weight[offset].astype(np.float64)
        magnitude[target] += np.abs(features[source].astype(np.float64)) @ np.abs(weight[offset].astype(np.float64))
    return output, magnitude


def spread_groups(weight: np.ndarray, groups: int) -> np.ndarray:
    """Returns the weight without groups, with zeros between channels of different ones."""
    volume, inputs, outputs = weight.shape
    result = np.zeros((volume, inputs * groups, outputs), weight.dtype)
    for group in range(groups):
        columns = slice(group * outputs // groups, (group + 1) * outputs // groups)
        result[:, group * inputs : (group + 1) * inputs, columns] = weight[:, :, columns]
    return result


def pool(pairs: np.ndarray, features: np.ndarray, rows: int, reduction: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the output, and of a max the input row that wins each element."""
    output = np.zeros((rows, features.shape[1]))
    winners = np.full(output.shape, -1, np.int32)
    counts = np.zeros(rows)
    for _, source, target in sorted(pairs.tolist()):
        counts[target] += 1
        for channel, value in enumerate(features[source].astype(np.float64)):
            if reduction != "max":
                output[target, channel] += value
            elif winners[target, channel] < 0 or value > output[target, channel]:
                output[target, channel], winners[target, channel] = value, source
    if reduction == "average":
        output /= np.maximum(counts, 1)[:, None]
    return output, winners


def expect_close(actual: np.ndarray, expected: np.ndarray, magnitude: np.ndarray, dtype: str) -> None:
    difference = np.abs(actual.astype(np.float64) - expected)
    limit = BOUNDS[dtype] * (magnitude + np.abs(expected)) + 1e-30
    worst = float(np.max(difference / limit, initial=0.0))
    assert worst <= 1, f"off by {worst:.2f} times the bound of {dtype}"


def shared_folder() -> pathlib.Path:
    root = pathlib.Path(__file__).resolve().parents[4]
    return pathlib.Path(os.environ.get("MINUET_SHARED") or root / "../shared")


def read_safetensors(path: pathlib.Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    kinds = {"I32": np.int32, "F32": np.float32, "F64": np.float64}
    tensors = {}
    for name, item in header.items():
        begin, end = (8 + length + offset for offset in item["data_offsets"])
        tensors[name] = np.frombuffer(content[begin:end], kinds[item["dtype"]]).reshape(item["shape"]).copy()
    return metadata, tensors


def encode(values: np.ndarray, dtype: str) -> np.ndarray:
    """Returns features in the storage of a dtype."""
    import minuet

    if dtype == "bfloat16":
        if minuet.bfloat16 != np.uint16:
            return values.astype(minuet.bfloat16)
        bits = values.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return values.astype(np.float16 if dtype == "float16" else np.float32)


def decode(values: np.ndarray) -> np.ndarray:
    if values.dtype == np.uint16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32)
