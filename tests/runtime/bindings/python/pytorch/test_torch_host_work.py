"""What the host does for an op, beside the op itself: pyramids that are built, numbers that are read, and copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import minuet.torch as sparse  # noqa: E402
from minuet.torch import _geometry  # noqa: E402
from torch_problems import GEOMETRIES, cloud, poisoned  # noqa: E402, F401


@pytest.fixture
def coordinates(generator):
    return cloud(generator, GEOMETRIES["submanifold"], 40)


@pytest.fixture
def count_calls(monkeypatch) -> Callable[[Any, str], list[Any]]:
    """Returns a function that lists the results of the calls of a function of a module from then on."""

    def count(module: Any, name: str) -> list[Any]:
        function, results = getattr(module, name), []

        def counted(*arguments: Any, **options: Any) -> Any:
            results.append(function(*arguments, **options))
            return results[-1]

        monkeypatch.setattr(module, name, counted)
        return results

    return count


@pytest.mark.parametrize(
    ("shape", "stride", "builds", "reads"),
    [
        (None, 2, 1, 1),  # No shape limits the outputs.
        ((64, 64, 64), 2, 1, 2),  # The shape of the outputs is rounded up: the greatest coordinates are read too.
        ((128, 128, 128), 2, 1, 1),  # That of the outputs needs no rounding.
        ((6, 6, 6), 2, 2, 2),  # Outputs pass the shape: the second pyramid has the shape itself.
        (None, 1, 2, 1),  # More outputs than are tried first.
    ],
)
def test_pyramids_for_a_level(coordinates, count_calls, shape, stride, builds, reads):
    apart = coordinates * torch.tensor([1, 4, 4, 4], dtype=torch.int32) if stride == 1 else coordinates + 3
    level = sparse.Geometry(apart, shape=shape).level
    built, read = count_calls(_geometry, "pyramid"), count_calls(_geometry, "pyramid_coordinates")
    made = level.coarser(stride, kernel_size=3, padding=1)
    assert (made.rows == 27 * 40) == (stride == 1)
    assert (len(built), len(read)) == (builds, reads)
