"""The measurement of a trained network in 8 bits runs, and its counts are right."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import eight_bits


def test_a_short_measurement():
    made = eight_bits.record([3], steps=2, rooms=1, width=4, held_out=1)
    (run,) = made["runs"]
    assert run["convolutions"]["8 bits"]["int8"] == run["convolutions"]["8 bits"]["all"] - 1
    results = run["results"]
    assert results["fp32"]["same_label_as_fp32"] == 1 and results["fp32"]["relative_error"] == 0
    assert 0 < results["fp16"]["relative_error"] < 0.01
    for name, facts in results.items():
        assert 0 <= facts["mean_iou"] <= facts["accuracy"] <= 1, name
        assert facts["relative_error"] < 0.3, name
    assert results["8 bits, rest float32"]["relative_error"] > 0.001


def test_counts():
    counts = eight_bits.Counts()
    labels = np.array([0, 0, 1, 2])
    reference = np.eye(5, dtype=np.float32)[[0, 0, 1, 2]]
    counts.add(labels, reference, reference)
    counts.add(labels, np.eye(5, dtype=np.float32)[[0, 1, 1, 2]], reference)
    facts = counts.facts()
    assert facts["accuracy"] == 0.875
    assert facts["same_label_as_fp32"] == 0.875
    assert facts["iou"] == {"floor": 0.75, "wall": pytest.approx(2 / 3, abs=1e-6), "box": 1, "ball": 0, "column": 0}
    assert facts["relative_error"] == 0.5
