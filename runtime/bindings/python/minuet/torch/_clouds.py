"""Norms of sparse tensors: torch's batch norms over the rows in use, and norms of each cloud by itself."""

from __future__ import annotations

import torch
from torch import nn

from . import functional as F  # noqa: N812
from ._geometry import Level
from ._norms import batch_norm
from ._sparse_tensor import SparseTensor


def apply_batch_norm(
    norm: nn.BatchNorm1d | nn.SyncBatchNorm, features: torch.Tensor, level: Level, *, relu: bool = False
) -> torch.Tensor:
    """Applies a batch norm of torch, and a ReLU behind it, in one pass. Statistics count the rows in use."""
    if not norm.training and norm.track_running_stats:
        made = norm(features)
        return level.mask(torch.relu(made) if relu else made)
    if isinstance(norm, nn.SyncBatchNorm) and torch.distributed.is_initialized():
        if level.count is not None and torch.distributed.get_world_size(norm.process_group) > 1:
            raise ValueError(
                "SyncBatchNorm over several ranks is not possible in capacity mode: use BatchNorm1d, or exact mode"
            )
        made = norm(features)
        return torch.relu(made) if relu else made
    if features.shape[1] != norm.num_features:
        raise ValueError(f"features have {features.shape[1]} channels, and the batch norm has {norm.num_features}")
    # A momentum of 0 leaves the running statistics as they are, and None averages over all batches.
    tracks = norm.track_running_stats and norm.momentum != 0
    is_cumulative = tracks and norm.momentum is None
    made, _, mean, variance, batches = batch_norm(
        features,
        None,
        norm.weight,
        norm.bias,
        norm.running_mean if tracks else None,
        norm.running_var if tracks else None,
        norm.num_batches_tracked if is_cumulative else None,
        level.count,
        norm.momentum if tracks and norm.momentum is not None else 0.0,
        norm.eps,
        is_cumulative,
        relu,
    )
    with torch.no_grad():
        if tracks:
            norm.running_mean.copy_(mean)
            norm.running_var.copy_(variance)
        if is_cumulative:
            norm.num_batches_tracked.copy_(batches.view(()))
        elif norm.track_running_stats:
            norm.num_batches_tracked.add_(1)
    return made


def of_clouds(values: torch.Tensor, level: Level) -> torch.Tensor:
    """Returns for each voxel the row of its cloud in values, [clouds, channels]; any row for rows past the count."""
    return F.gather_rows(values, level.mask(level.coordinates[:, 0]).contiguous())


def normalize_clouds(features: torch.Tensor, level: Level, batch_size: int, groups: int, eps: float) -> torch.Tensor:
    """Returns features with mean 0 and variance 1 in each group of channels of each cloud. Sums are float32."""
    rows = features.float()

    def average(values: torch.Tensor) -> torch.Tensor:
        channels = values.shape[1]
        means = F.global_pooling(SparseTensor(values, level), "average", batch_size)
        grouped = means.view(batch_size, groups, channels // groups).mean(2, keepdim=True)
        return of_clouds(grouped.expand(-1, -1, channels // groups).reshape(batch_size, channels), level)

    centred = level.mask(rows - average(rows))
    made = centred * torch.rsqrt(average(centred.square()) + eps)
    return made.to(features.dtype)
