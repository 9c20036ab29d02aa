"""Batch norm of sparse tensors, as a function and as a module."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ._define import is_below_autograd, is_plain
from ._norms import normalize, normalize_tracked, tracked_by
from ._norms_of_ranks import NormOfRanks
from ._rules import norms_are_ops
from ._sparse_tensor import SparseTensor


class Statistics(NamedTuple):
    """The running statistics behind a batch, which the caller copies: mean and variance, float32 [channels], and the
    number of batches, int64 [1] or None."""

    mean: torch.Tensor
    variance: torch.Tensor
    batches: torch.Tensor | None


def batch_norm(
    x: SparseTensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    running_mean: torch.Tensor | None = None,
    running_variance: torch.Tensor | None = None,
    *,
    training: bool = True,
    momentum: float | None = 0.1,
    eps: float = 1e-5,
    batches: torch.Tensor | None = None,
    residual: SparseTensor | None = None,
    relu: bool = False,
    group: Any = None,
) -> tuple[SparseTensor, Statistics | None]:
    """Normalizes channels, adds the residual, and applies a ReLU, in one pass in training.

    Statistics are those of the voxels alone. Without any, the running statistics stay as they are. With a single one,
    its variance is 0, so that the output is the bias; a count on the device cannot raise an error.

    Args:
        weight, bias: [channels].
        running_mean, running_variance: [channels]; required without `training`.
        training: whether the statistics are those of this batch.
        momentum: the share of this batch in the running statistics; None: one divided by the batches so far.
        batches: the number of batches before this one, int64 [1]; required where momentum is None.
        residual: on the level of x.
        relu: whether negative results become 0.
        group: a process group of torch.distributed: in training, the statistics are those of all its ranks, each of
            which may have another number of voxels.

    Returns:
        The result, and the new running statistics where there are any and `training` is set.
    """
    if residual is not None and residual.level is not x.level:
        raise ValueError("the residual is on another level than x: bring both to one level first")
    added = None if residual is None else residual.features
    x.require_device(added, weight, bias, running_mean, running_variance, batches)
    if batches is not None and (batches.dtype != torch.int64 or batches.shape != (1,)):
        raise ValueError(
            f"batches is {batches.dtype} of the shape {list(batches.shape)}, and int64 [1] is needed, such as "
            "num_batches_tracked.view(1) of a module of torch"
        )
    kept: Statistics | None = None
    if training and momentum == 0.0 and running_mean is not None and running_variance is not None:
        # No share of the batch goes into the running statistics, which stay as they are.
        kept = Statistics(running_mean, running_variance, None if batches is None else batches + 1)
        running_mean = running_variance = batches = None
    if training:
        if momentum is None and running_mean is not None and batches is None:
            raise ValueError("without a momentum, the share of a batch follows from `batches`: give it")
        function = normalize if group is None else functools.partial(NormOfRanks.apply, group)
        output, _, mean, variance, count = function(
            x.features,
            added,
            weight,
            bias,
            running_mean,
            running_variance,
            batches,
            x.count,
            momentum or 0.0,
            eps,
            momentum is None and running_mean is not None,
            relu,
        )
        if running_mean is not None:
            kept = Statistics(mean, variance, None if batches is None else count)
        return x.replace(output), kept
    if running_mean is None or running_variance is None:
        raise ValueError("without `training`, running_mean and running_variance are required")
    if norms_are_ops.get():
        output = torch.nn.functional.batch_norm(x.features, running_mean, running_variance, weight, bias, eps=eps)
        output = output if added is None else output + added
        return SparseTensor(torch.relu(output) if relu else output, x.level), None
    scale = torch.rsqrt(running_variance.float() + eps)
    scale = scale if weight is None else scale * weight.float()
    shift = -running_mean.float() * scale
    shift = shift if bias is None else shift + bias.float()
    output = x.features.float() * scale + shift
    output = output if added is None else output + added.float()
    output = torch.relu(output) if relu else output
    return SparseTensor(x.level.mask(output.to(x.features.dtype)), x.level), None


def statistics_of(norm: _BatchNorm) -> tuple[torch.Tensor | None, torch.Tensor | None, bool]:
    """Returns the running statistics that a call of a module of torch reads or updates, and whether it normalizes by
    those of the batch. `track_running_stats` counts in training alone, also where it was set after the module was made,
    as in torch."""
    is_training = norm.training or norm.running_mean is None or norm.running_var is None
    if norm.training and not norm.track_running_stats:
        return None, None, is_training
    return norm.running_mean, norm.running_var, is_training


def batches_of(norm: _BatchNorm, x: SparseTensor, group: Any) -> torch.Tensor | None:
    """Returns the number of batches before this one where the op has to know it: the new statistics depend on it, or
    only the device knows whether the batch has voxels, without which it is not counted. The voxels of a group's batch
    may all be on other ranks."""
    if norm.num_batches_tracked is None or (norm.momentum is not None and x.count is None and group is None):
        return None
    return norm.num_batches_tracked.view(1)


def keep(norm: _BatchNorm, kept: Statistics | None, x: SparseTensor) -> None:
    """Copies the running statistics behind a batch, if there are any, into a module of torch, and counts the batch."""
    if kept is None:
        return
    with torch.no_grad():
        if kept.mean is not norm.running_mean:
            torch._foreach_copy_([norm.running_mean, norm.running_var], [kept.mean, kept.variance])
        if kept.batches is not None:
            norm.num_batches_tracked.copy_(kept.batches[0])
        elif norm.num_batches_tracked is not None and x.level.rows:
            norm.num_batches_tracked.add_(1)


def train_in_place(norm: _BatchNorm, x: SparseTensor, residual: SparseTensor | None, relu: bool) -> torch.Tensor | None:
    """Normalizes by the statistics of the batch in plain eager mode, and writes new running statistics to the module's
    own memory. Returns the features, or None where batch_norm() and keep() have to do it."""
    if torch.compiler.is_compiling() or not norm.training:
        return None
    statistics = tracked_by(norm)
    tensors = (x.features, None if residual is None else residual.features, norm.weight, norm.bias, *statistics)
    if not statistics or not is_plain(tensors) or is_below_autograd():
        return None
    if residual is not None and residual.level is not x.level:
        return None
    x.require_device(*tensors[1:])
    return normalize_tracked(*tensors, x.count, norm.momentum, norm.eps, False, relu)


class BatchNorm(_BatchNorm):
    """Batch norm of a sparse tensor, with the parameters and the state of torch.nn.BatchNorm1d.

    Args:
        num_features: the number of channels.
        eps, momentum, affine, track_running_stats: as of torch.nn.BatchNorm1d.
        relu: whether a ReLU follows.
        group: a process group, for statistics of all its ranks as in torch.nn.SyncBatchNorm.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        relu: bool = False,
        group: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.relu, self.group = relu, group

    def forward(self, x: SparseTensor, residual: SparseTensor | None = None) -> SparseTensor:
        """Normalizes x, adds the residual, and applies the ReLU."""
        if x.channels != self.num_features:
            raise ValueError(f"x has {x.channels} channels, and the batch norm is of {self.num_features}")
        if self.group is None:
            features = train_in_place(self, x, residual, self.relu)
            if features is not None:
                return x.replace(features)
        mean, variance, is_training = statistics_of(self)
        result, kept = batch_norm(
            x,
            self.weight,
            self.bias,
            mean,
            variance,
            training=is_training,
            momentum=self.momentum,
            eps=self.eps,
            batches=None if mean is None else batches_of(self, x, self.group),
            residual=residual,
            relu=self.relu,
            group=self.group,
        )
        keep(self, kept, x)
        return result
