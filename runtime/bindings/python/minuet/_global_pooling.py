"""Poolings of all voxels of each cloud: as networks of one op.

The result depends on the batch indices of the rows and not on where the voxels are. The network therefore gets
coordinates of one axis, [batch index, number of the row]. They are unique and fit into the pyramid's keys, wherever the
coordinates of the cloud are.
"""

from __future__ import annotations

from typing import Any

from ._points import PointFeature

#: How the result of a cloud follows from its voxels, for the gradient (GroupGradient).
GLOBAL_POOLINGS = {"average": PointFeature.MEAN, "max": PointFeature.MAX, "sum": PointFeature.SUM}


def global_pooling_network(channels: int, reduction: str) -> dict[str, Any]:
    """Returns the description of a network of one axis whose only op is the pooling."""
    layer = {"op": "global_pool", "name": "pooled", "input": "input", "reduction": reduction, "output": "pooled"}
    head = {"name": "global_pooling", "ndim": 1, "in_channels": channels, "outputs": ["pooled"]}
    return {**head, "layers": [layer]}


def global_pooling_bounds(capacity: int, batch_size: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns the bounds of the coordinates of at most `capacity` rows."""
    return (0, 0), (batch_size - 1, capacity - 1)
