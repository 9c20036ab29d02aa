"""Problems for the ops of minuet.torch, and what they compute, in float64 and plain loops over dictionaries."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import oracle
import pytest
import torch

Numbers = tuple[int, ...]


@pytest.fixture(autouse=True)
def poisoned() -> Iterator[None]:
    """Fills new memory of torch with NaN, or the largest integer."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@dataclass(frozen=True)
class Geometry:
    """A kind of map: `padding` of a dense convolution's, None for that of cells; `shape` of the input."""

    kernel_size: Numbers
    stride: Numbers
    dilation: Numbers
    padding: Numbers | None = None
    shape: Numbers | None = None
    transposed: bool = False
    cross: bool = False

    @property
    def ndim(self) -> int:
        return len(self.kernel_size)

    @property
    def is_within(self) -> bool:
        return self.padding is None and max(self.stride) == 1

    @property
    def arguments(self) -> dict[str, Any]:
        return {
            "kernel_size": self.kernel_size,
            "stride": self.stride,
            "dilation": self.dilation,
            "padding": self.padding,
            "kernel_shape": "cross" if self.cross else "box",
        }

    def offsets(self) -> list[Numbers]:
        """The offsets from the first fine cell of a coarse one."""
        if self.padding is not None:
            steps = itertools.product(*[range(size) for size in self.kernel_size])
            return [
                tuple(k * d - p for k, d, p in zip(step, self.dilation, self.padding, strict=True)) for step in steps
            ]
        centred = oracle.offsets_of(self.kernel_size)
        if self.cross:
            centred = [offset for offset in centred if sum(step != 0 for step in offset) < 2]
        return [tuple(k * d for k, d in zip(step, self.dilation, strict=True)) for step in centred]

    def coarse(self, fine: list[Numbers]) -> set[Numbers]:
        """The coarser coordinates, in cells of their own."""
        if self.is_within:
            return set(fine)
        if self.padding is None:
            return {(b, *(p // s for p, s in zip(point, self.stride, strict=True))) for b, *point in fine}
        found = set()
        for b, *point in fine:
            for offset in self.offsets():
                at = [p - o for p, o in zip(point, offset, strict=True)]
                if any(a % s for a, s in zip(at, self.stride, strict=True)):
                    continue
                cell = tuple(a // s for a, s in zip(at, self.stride, strict=True))
                if self.out_shape is None or all(
                    0 <= c < length for c, length in zip(cell, self.out_shape, strict=True)
                ):
                    found.add((b, *cell))
        return found

    @property
    def out_shape(self) -> Numbers | None:
        if self.shape is None or self.padding is None:
            return None
        return tuple(
            (length + 2 * p - d * (k - 1) - 1) // s + 1
            for length, p, d, k, s in zip(
                self.shape,
                self.padding,
                self.dilation,
                self.kernel_size,
                self.stride,
                strict=True,
            )
        )

    def pairs(self, fine: list[Numbers], coarse: list[Numbers]) -> list[Numbers]:
        """(offset, input row, output row), ascending."""
        rows = {point: row for row, point in enumerate(fine)}
        found = []
        for number, offset in enumerate(self.offsets()):
            for row, (b, *point) in enumerate(coarse):
                at = (
                    b,
                    *(p * s + o for p, s, o in zip(point, self.stride, offset, strict=True)),
                )
                if at in rows:
                    found.append((number, row, rows[at]) if self.transposed else (number, rows[at], row))
        return found


GEOMETRIES = {
    "submanifold": Geometry((3, 3, 3), (1, 1, 1), (1, 1, 1)),
    "even": Geometry((2, 2, 2), (1, 1, 1), (1, 1, 1)),
    "dilated": Geometry((3, 1, 3), (1, 1, 1), (2, 1, 3)),
    "cross": Geometry((3, 3, 3), (1, 1, 1), (1, 1, 1), cross=True),
    "point": Geometry((1, 1, 1), (1, 1, 1), (1, 1, 1)),
    "line": Geometry((5,), (1,), (1,)),
    "plane": Geometry((3, 3), (1, 1), (1, 1)),
    "four": Geometry((3, 1, 3, 2), (1, 1, 1, 1), (1, 1, 1, 1)),
    "down": Geometry((2, 2, 2), (2, 2, 2), (1, 1, 1)),
    "wide": Geometry((3, 3, 3), (2, 2, 2), (1, 1, 1)),
    "mixed": Geometry((1, 2, 3), (1, 2, 3), (1, 1, 1)),
    "up": Geometry((2, 2, 2), (2, 2, 2), (1, 1, 1), transposed=True),
    "wide up": Geometry((3, 3, 3), (2, 2, 2), (1, 1, 1), transposed=True),
    "reached": Geometry((3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
    "reached within": Geometry((3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 0, 1), (9, 8, 7)),
    "reached all": Geometry((3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), (9, 8, 7)),
    "reached far": Geometry((3, 3, 2), (2, 1, 2), (2, 1, 1), (1, 1, 0)),
    "reached plane": Geometry((3, 3), (2, 2), (1, 1), (1, 1)),
    "inverse": Geometry((3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), (9, 8, 7), transposed=True),
}


def cloud(
    generator: np.random.Generator,
    geometry: Geometry,
    count: int = 60,
    batches: int = 2,
) -> torch.Tensor:
    """Unique coordinates int32 [count, 1 + ndim] in random order; negative ones too, where there is no shape."""
    ranges = [range(-3, 3)] * geometry.ndim if geometry.shape is None else [range(n) for n in geometry.shape]
    if geometry.ndim == 1:
        ranges = [range(-30, 30)]
    cells = np.array(list(itertools.product(range(batches), *ranges)), np.int32)
    return torch.from_numpy(np.ascontiguousarray(generator.permutation(cells)[:count]))


def rows(coordinates: torch.Tensor) -> list[Numbers]:
    """The coordinates as tuples."""
    return [tuple(row) for row in coordinates.tolist()]


def normal(generator: np.random.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers."""
    return torch.from_numpy(generator.normal(size=shape)).to(dtype)


def padded(tensor: torch.Tensor, more: int, value: float = 0) -> torch.Tensor:
    """The rows, and more rows of the same number."""
    return torch.cat([tensor, torch.full((more, *tensor.shape[1:]), value, dtype=tensor.dtype)])


def double_of(pairs: list[Numbers], x: torch.Tensor, weight: torch.Tensor, out_rows: int) -> torch.Tensor:
    """The convolution of x with a weight [offsets, in, out], which torch differentiates."""
    out = torch.zeros(out_rows, weight.shape[2], dtype=torch.float64)
    if not pairs:
        return out + 0 * x.sum() + 0 * weight.sum()
    k, source, target = (torch.tensor(column) for column in zip(*pairs, strict=True))
    products = torch.einsum("pi,pio->po", x[source], weight[k])
    return out.index_add(0, target, products)


def spread(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """The weight [offsets, in / groups, out] without groups, which torch differentiates."""
    volume, inner, outer = weight.shape
    columns = []
    for group in range(groups):
        part = weight[:, :, group * outer // groups : (group + 1) * outer // groups]
        columns.append(torch.nn.functional.pad(part, (0, 0, group * inner, (groups - 1 - group) * inner)))
    assert volume == columns[0].shape[0]
    return torch.cat(columns, 2)


BOUNDS = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def expect_close(
    actual: torch.Tensor,
    expected: torch.Tensor,
    dtype: torch.dtype,
    scale: float | None = None,
) -> None:
    """Compares with float64. `scale`: the size of the terms of a sum, which errors are relative to."""
    actual, expected = actual.detach().double(), expected.detach().double()
    assert actual.shape == expected.shape
    size = float(expected.abs().max()) if scale is None else scale
    worst = float((actual - expected).abs().max()) if actual.numel() else 0.0
    assert worst <= BOUNDS[dtype] * max(size, 1e-3), f"off by {worst}, and the values are up to {size}"


def gradients_of(function: Callable[[], torch.Tensor], *inputs: torch.Tensor, out: torch.Tensor) -> list[torch.Tensor]:
    """The gradients of a function's result for the inputs, where `out` is the gradient of the result."""
    return list(torch.autograd.grad(function(), inputs, out))
