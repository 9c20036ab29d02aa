"""Measures what 8 bits cost a trained network: its accuracy on rooms that it has not seen, before and after.

usage: eight_bits.py --output FILE [--steps N] [--rooms N] [--width N] [--seeds N...] [--held-out N]

The network of test_training is trained on generated rooms, exported, and quantized on some rooms of the training. All
results are those of the CPU device. From equal integers on, a network with ReLUs has the same bits on a GPU.
`tools/long eight_bits` records the numbers, in tests/records/eight_bits.json.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import minuet
import minuet.torch
import numpy as np
import torch
from minuet.torch import spconv
from room_training import make_network, train
from scenes import CLASSES, SHAPE, draw_batch

LABELS = ["floor", "wall", "box", "ball", "column"]
#: The first seed of the rooms that the training has not seen.
HELD_OUT = 1_000_000
#: How many batches of the training the ranges are from.
CALIBRATION = 4


class Network:
    """A network on the CPU device."""

    def __init__(self, plan: minuet.Plan, rooms: int) -> None:
        device = minuet.Device(plan.context, "cpu")
        plan.load(device)
        self._device, self._execution = device, minuet.Execution(plan, device, batch_size=rooms)
        self._dtype = plan.info.dtype

    def scores(self, features: torch.Tensor, indices: torch.Tensor) -> np.ndarray[Any, Any]:
        """Returns the score of each label, float32 [voxels, labels]."""
        given = features.numpy().astype(np.float16 if self._dtype == minuet.DType.FLOAT16 else np.float32)
        self._execution.prepare(self._device.to_device(indices.numpy()))
        result = self._device.to_host(self._execution.run(self._device.to_device(given)))
        return np.asarray(result, np.float32)


class Counts:
    """Counts voxels by their label and by what a network says."""

    def __init__(self) -> None:
        self.counts = np.zeros((CLASSES, CLASSES), np.int64)
        self.same = self.voxels = 0
        self.error = self.norm = 0.0

    def add(self, labels: np.ndarray[Any, Any], scores: np.ndarray[Any, Any], reference: np.ndarray[Any, Any]) -> None:
        """Adds a batch. `reference` has the scores of the network in float32."""
        found = scores.argmax(1)
        np.add.at(self.counts, (labels, found), 1)
        self.voxels += len(labels)
        self.same += int((found == reference.argmax(1)).sum())
        self.error += float(((scores.astype(np.float64) - reference) ** 2).sum())
        self.norm += float((reference.astype(np.float64) ** 2).sum())

    def facts(self) -> dict[str, Any]:
        """Returns the accuracy over all voxels, the mean over the labels of intersection over union, and how far the
        scores are from those in float32."""
        hits = self.counts.diagonal()
        union = self.counts.sum(0) + self.counts.sum(1) - hits
        ious = hits / np.maximum(union, 1)
        return {
            "accuracy": round(float(hits.sum() / self.counts.sum()), 6),
            "mean_iou": round(float(ious.mean()), 6),
            "iou": {name: round(float(iou), 6) for name, iou in zip(LABELS, ious, strict=True)},
            "same_label_as_fp32": round(self.same / self.voxels, 6),
            "relative_error": round((self.error / self.norm) ** 0.5, 6),
        }


def measure(seed: int, steps: int, rooms: int, width: int, held_out: int) -> dict[str, Any]:
    """Trains the network of a seed, quantizes it, and returns what was measured."""
    network, begin = make_network(spconv, seed, width), time.monotonic()
    losses = train(network, steps, rooms)
    seconds = time.monotonic() - begin
    network.eval()
    batches = [draw_batch(rooms, number) for number in range(min(CALIBRATION, steps))]
    calibration = [(features, indices, SHAPE, rooms) for features, indices, _ in batches]
    exported = minuet.torch.export(network, calibration[0], name="rooms")
    plans = {"fp32": exported.plan(dtype="float32"), "fp16": exported.plan(dtype="float16")}
    convolutions = {}
    for name, percentile in (("8 bits", 100.0), ("8 bits, 99.9 %", 99.9)):
        quantized = minuet.torch.quantize(network, calibration, name="rooms", percentile=percentile)
        for dtype in ("float32", "float16"):
            plans[f"{name}, rest {dtype}"] = quantized.plan(dtype=dtype)
        convolutions[name] = {
            "int8": sum(layer.is_int8 for layer in quantized.layers),
            "all": len(quantized.layers),
            "floating": {layer.name: layer.reason for layer in quantized.layers if not layer.is_int8},
        }
    networks = {name: Network(plan, rooms) for name, plan in plans.items()}
    counts = {name: Counts() for name in networks}
    for number in range(held_out):
        features, indices, labels = draw_batch(rooms, HELD_OUT + number)
        reference = networks["fp32"].scores(features, indices)
        for name, each in networks.items():
            scores = reference if name == "fp32" else each.scores(features, indices)
            counts[name].add(labels.numpy(), scores, reference)
    return {
        "seed": seed,
        "first_loss": round(losses[0], 4),
        "mean_loss_of_last_10": round(sum(losses[-10:]) / len(losses[-10:]), 4),
        "training_seconds": round(seconds),
        "held_out_voxels": counts["fp32"].voxels,
        "convolutions": convolutions,
        "results": {name: each.facts() for name, each in counts.items()},
    }


def record(seeds: Sequence[int], steps: int, rooms: int, width: int, held_out: int) -> dict[str, Any]:
    """Measures the networks of several seeds."""
    return {
        "network": f"MinkUNet18 of the width {width}: 18 layers in the encoder, ReLU",
        "training": f"{steps} steps of {rooms} generated rooms each, SGD",
        "calibration": f"{min(CALIBRATION, steps)} batches of {rooms} rooms of the training",
        "held_out_rooms": held_out * rooms,
        "device": "cpu",
        "torch": str(torch.__version__),
        "runs": [measure(seed, steps, rooms, width, held_out) for seed in seeds],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, help="JSON file for the numbers")
    parser.add_argument("--steps", type=int, default=200, help="steps of the training")
    parser.add_argument("--rooms", type=int, default=2, help="rooms of a step, and of a batch of the measurement")
    parser.add_argument("--width", type=int, default=16, help="channels of the first layer")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of the parameters before the training")
    parser.add_argument("--held-out", type=int, default=25, help="batches of rooms for the measurement")
    arguments = parser.parse_args()
    for name in ("steps", "rooms", "width", "held_out"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be 1 or more")
    made = record(arguments.seeds, arguments.steps, arguments.rooms, arguments.width, arguments.held_out)
    with tempfile.NamedTemporaryFile("w", dir=pathlib.Path(arguments.output).parent, delete=False) as file:
        json.dump(made, file, indent=1)
    pathlib.Path(file.name).replace(arguments.output)


if __name__ == "__main__":
    main()
