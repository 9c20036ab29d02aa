"""Norms of sparse tensors: torch's batch norms over the rows in use, and norms of each cloud by itself."""

from __future__ import annotations

from typing import Any, Union

import torch
from torch import nn

from . import functional as F  # noqa: N812
from ._geometry import Level
from ._normalization import batch_norm, batches_of, keep, statistics_of, train_in_place
from ._rows import gather_rows
from ._sparse_tensor import SparseTensor

BatchNorm = Union[nn.BatchNorm1d, nn.SyncBatchNorm]  # noqa: UP007


def apply_batch_norm(norm: BatchNorm, features: torch.Tensor, level: Level, *, relu: bool = False) -> torch.Tensor:
    """Applies a batch norm of torch, and a ReLU behind it, in one pass. Statistics count the rows in use."""
    x = SparseTensor(features, level)
    if x.channels != norm.num_features:
        raise ValueError(f"features have {x.channels} channels, and the batch norm has {norm.num_features}")
    group = group_of(norm)
    if group is None:
        trained = train_in_place(norm, x, None, relu)
        if trained is not None:
            return trained
    mean, variance, is_training = statistics_of(norm)
    made, kept = batch_norm(
        x,
        norm.weight,
        norm.bias,
        mean,
        variance,
        training=is_training,
        momentum=norm.momentum,
        eps=norm.eps,
        batches=None if mean is None else batches_of(norm, x, group),
        relu=relu,
        group=group,
    )
    keep(norm, kept, x)
    return made.features


def group_of(norm: BatchNorm) -> Any:
    """Returns the process group whose ranks share statistics, or None."""
    if not isinstance(norm, nn.SyncBatchNorm) or not torch.distributed.is_initialized():
        return None
    group = torch.distributed.group.WORLD if norm.process_group is None else norm.process_group
    return group if torch.distributed.get_world_size(group) > 1 else None


def of_clouds(values: torch.Tensor, level: Level) -> torch.Tensor:
    """Returns for each voxel the row of its cloud in values, [clouds, channels]; any row for rows past the count."""
    return gather_rows(values, level.clouds)


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
