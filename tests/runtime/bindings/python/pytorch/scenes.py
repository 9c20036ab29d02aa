"""Generated rooms with a label for each voxel: floor, wall, box, ball and column."""

from __future__ import annotations

import torch

#: Cells along z, y and x, and how many labels there are.
SHAPE = [16, 32, 32]
CLASSES = 5


def draw_room(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the cells of one room's surfaces, int64 [voxels, 3], and their labels, int64 [voxels]."""

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    depth, height, width = SHAPE
    labels = torch.full(SHAPE, -1)
    labels[0] = 0
    labels[:, 0], labels[:, :, 0] = 1, 1
    z, y, x = torch.meshgrid(*[torch.arange(extent) for extent in SHAPE], indexing="ij")
    for _ in range(4):
        low = [1, draw(2, height - 8), draw(2, width - 8)]
        size = [draw(2, 6), draw(3, 7), draw(3, 7)]
        inside = torch.ones(SHAPE, dtype=torch.bool)
        shell = torch.zeros(SHAPE, dtype=torch.bool)
        for axis, begin, extent in zip((z, y, x), low, size, strict=True):
            inside &= (axis >= begin) & (axis < begin + extent)
            shell |= (axis == begin) | (axis == begin + extent - 1)
        labels[inside & shell] = 2
    for _ in range(3):
        radius = draw(2, 4)
        centre = (draw(4, depth - 4), draw(5, height - 5), draw(5, width - 5))
        distance = sum((axis - place) ** 2 for axis, place in zip((z, y, x), centre, strict=True))
        labels[(distance <= radius**2) & (distance > (radius - 1) ** 2)] = 3
    place = (draw(3, height - 3), draw(3, width - 3))
    labels[((y - place[0]).abs() + (x - place[1]).abs() <= 1) & (z > 0)] = 4
    # A sensor misses some of the voxels.
    labels[torch.rand(SHAPE, generator=generator) < 0.1] = -1
    cells = (labels >= 0).nonzero()
    return cells, labels[tuple(cells.T)]


def draw_batch(rooms: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns features [voxels, 4], indices int32 [voxels, 4] in ascending order, and labels int64 [voxels]."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [draw_room(generator) for _ in range(rooms)]
    indices = torch.cat([with_batch(cells, number) for number, (cells, _) in enumerate(drawn)]).int()
    labels = torch.cat([label for _, label in drawn])
    # A colour that says little about the label, and the height.
    colour = 0.3 * labels[:, None] + torch.randn(len(labels), 3, generator=generator)
    return torch.cat([colour, indices[:, 1:2] / SHAPE[0]], 1), indices, labels


def with_batch(cells: torch.Tensor, number: int) -> torch.Tensor:
    """Puts the batch index before the cells."""
    return torch.nn.functional.pad(cells, (1, 0), value=number)
