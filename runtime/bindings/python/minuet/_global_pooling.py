"""Poolings of all voxels of each cloud: as networks of one op."""

from __future__ import annotations

from typing import Any

from ._points import PointFeature

#: How the result of a cloud follows from its voxels, for the gradient (GroupGradient).
GLOBAL_POOLINGS = {"average": PointFeature.MEAN, "max": PointFeature.MAX, "sum": PointFeature.SUM}


def global_pooling_network(ndim: int, channels: int, reduction: str) -> dict[str, Any]:
    """Returns the description of a network whose only op is the pooling."""
    layer = {"op": "global_pool", "name": "pooled", "input": "input", "reduction": reduction, "output": "pooled"}
    head = {"name": "global_pooling", "ndim": ndim, "in_channels": channels, "outputs": ["pooled"]}
    return {**head, "layers": [layer]}
