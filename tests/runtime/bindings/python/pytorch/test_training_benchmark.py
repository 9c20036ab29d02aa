"""tools/bench/training_step.py and training_convolutions.py on the CPU device: their networks are MinkUNet42, and their
rows are complete."""

from __future__ import annotations

import json
import math
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import plain_spconv  # noqa: E402
from conftest import PACKAGE, ROOT  # noqa: E402

BENCH = ROOT / "tools/bench"
sys.path.insert(0, str(BENCH))
import measuring  # noqa: E402
import minuet  # noqa: E402
import minuet.torch.spconv as spconv  # noqa: E402
import training_convolutions  # noqa: E402
import training_networks  # noqa: E402

# Runs the script in a process that has no spconv, whatever is installed.
WITHOUT_SPCONV = "import runpy, sys; sys.modules['spconv'] = None; runpy.run_path(sys.argv[0], run_name='__main__')"


def run_script(
    folder: pathlib.Path, *arguments: str, script: str = "training_step.py"
) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
    """Returns the exit status, the file, and the rows that were printed."""
    code = f"import sys; sys.path.insert(0, {str(BENCH)!r}); sys.argv[0] = {str(BENCH / script)!r}; "
    output = folder / "result.json"
    cloud = ["--device", "cpu", "--points", "500", "--repeats", "2", "--commit", "abc", "--output", str(output)]
    done = subprocess.run(
        [sys.executable, "-c", code + WITHOUT_SPCONV, *cloud, *arguments],
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "OMP_NUM_THREADS": "1"},
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert output.exists(), done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done.returncode, json.loads(output.read_text()), rows


def test_steps_in_both_modes(tmp_path):
    """A part that fails does not take the others along, and both modes train to the same loss."""
    status, document, rows = run_script(tmp_path, "--exact", "--capacity", "--fused", "--spconv")
    assert status == 1
    assert list(document["failed"]) == ["spconv"]
    assert document["rows"] == rows
    assert (document["device"], document["commit"], document["repeats"]) == ("cpu", "abc", 2)
    assert document["versions"]["torch"] == torch.__version__.partition("+")[0]
    fused = ["fused, exact", "fused, exact, stages computed again", "fused, capacity"]
    assert [row["mode"] for row in rows] == ["exact", "capacity", *fused]
    for row in rows:
        assert row["voxels"] == 500
        assert 0 < row["wall_ms"]["p10"] <= row["wall_ms"]["median"] <= row["wall_ms"]["p90"]
        assert row["last_loss"] < row["first_loss"]
    # The modes may run other kernels, which add in another order.
    assert all(math.isclose(row["first_loss"], rows[0]["first_loss"], rel_tol=1e-3) for row in rows)


def test_the_convolutions_of_a_step(tmp_path):
    """Their network has all convolutions of MinkUNet42 but its head, and nothing else."""
    status, document, rows = run_script(tmp_path, script="training_convolutions.py")
    assert status == 0 and not document["failed"]
    assert [row["cloud"] for row in rows] == ["random_500"]
    assert all(rows[0][part]["median"] > 0 for part in ("maps_ms", "convolutions_ms", "both_ms"))
    network = json.loads(training_convolutions.NETWORK.read_text())
    plan = minuet.Plan.network(minuet.Context(), "minkunet42", without_values=True)
    own = minuet.Plan.network(
        minuet.Context(), description=training_convolutions.convolutions_of(network), without_values=True
    )

    def weights(plan):
        return sorted(tuple(info.shape) for info in plan.parameters if len(info.shape) > 1)

    assert len(weights(own)) == 49
    assert weights(own) == weights(plan)
    assert len(own.parameters) == 49


def test_a_step_begins_anew(generator):
    """A graph's warm-up steps leave no trace in the steps behind them, whose values stay in their memory."""
    step = training_networks.Step(spconv, training_networks.minkunet42(spconv, 4, 5), [16, 16, 16], "cpu")
    coordinates = torch.from_numpy(generator.integers(0, 16, (300, 4)).astype("int32"))
    coordinates[:, 0] = 0
    coordinates = torch.unique(coordinates, dim=0)
    features = torch.from_numpy(generator.normal(size=(len(coordinates), 4)).astype("float32"))
    labels = torch.from_numpy(generator.integers(0, 5, len(coordinates)))
    saved, places = step.save(), [value.data_ptr() for value in step.network.state_dict().values()]
    first, second = (step(coordinates, features, labels)[0] for _ in range(2))
    assert not torch.equal(first, second)
    step.restore(saved)
    assert torch.equal(step(coordinates, features, labels)[0], first)
    assert torch.equal(step(coordinates, features, labels)[0], second)
    assert [value.data_ptr() for value in step.network.state_dict().values()] == places


def test_single_ops(tmp_path):
    status, document, rows = run_script(tmp_path, "--ops")
    assert status == 0 and not document["failed"]
    assert document["rows"] == rows
    ops = [(row["mode"], row["op"]) for row in rows]
    assert len(set(ops)) == len(ops) == 12
    for row in rows:
        assert all(row[name]["p10"] > 0 for name in ("forward_us", "forward_and_backward_us"))


def test_the_network_is_the_same_with_other_engines():
    """The module with Minuet's layers and with plain ones: one state, and one output, in float64 by the plain one."""
    coordinates = torch.from_numpy(measuring.random_voxels(400, 48))
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(400, 4, generator=generator)
    ours = training_networks.minkunet42(spconv, 4, 5)
    plain = training_networks.minkunet42(plain_spconv, 4, 5).double()
    assert sum(isinstance(module, spconv.SparseConvolution) for module in ours.modules()) == 50
    for (name, one), (other_name, two) in zip(ours.named_parameters(), plain.named_parameters(), strict=True):
        assert name == other_name
        assert torch.equal(one.double(), two)
    got = ours(spconv.SparseConvTensor(features, coordinates, [48] * 3, 1)).features
    want = plain(plain_spconv.SparseConvTensor(features.double(), coordinates, [48] * 3, 1)).features
    assert torch.linalg.norm(got.double() - want) <= 1e-4 * torch.linalg.norm(want)


def test_padding_counts_for_nothing():
    """The loss of a padded cloud in capacity mode is that of the cloud in exact mode."""
    coordinates = torch.from_numpy(measuring.random_voxels(200, 12))
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(200, 4, generator=generator)
    labels = torch.randint(5, (200,), generator=generator)
    losses = []
    for rows in (None, 300):
        step = training_networks.Step(spconv, training_networks.minkunet42(spconv, 4, 5), [16, 16, 16], "cpu")
        if rows is None:
            losses.append(step(coordinates, features, labels)[0])
        else:
            *given, count = training_networks.pad_to(rows, coordinates, features, labels)
            loss, status = step(*given, count=count, capacities=[rows] * 4)
            assert not int(status)
            losses.append(loss)
    assert torch.isclose(*losses, rtol=1e-3)
