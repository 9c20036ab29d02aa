"""Layers under MinkowskiEngine's names that treat each voxel by itself, and norms."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import nn

from .. import functional as F  # noqa: N812
from .._clouds import apply_batch_norm, normalize_clouds
from .field import TensorField
from .tensor import SparseTensor, Tensor

Own = TypeVar("Own", bound=Tensor)


class MinkowskiNonlinearityBase(nn.Module):
    """A layer of torch, `module`, that is applied to the features.

    The arguments are those of torch's layer. `inplace` is taken, and without effect, because features may be needed for
    gradients.
    """

    MODULE: type[nn.Module]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.module = self.MODULE(*args, **kwargs)
        if getattr(self.module, "inplace", False):
            self.module.inplace = False

    def forward(self, input: Own) -> Own:
        """Applies the layer."""
        return input._map(self.module)


class MinkowskiELU(MinkowskiNonlinearityBase):
    """torch.nn.ELU."""

    MODULE = nn.ELU


class MinkowskiHardshrink(MinkowskiNonlinearityBase):
    """torch.nn.Hardshrink."""

    MODULE = nn.Hardshrink


class MinkowskiHardsigmoid(MinkowskiNonlinearityBase):
    """torch.nn.Hardsigmoid."""

    MODULE = nn.Hardsigmoid


class MinkowskiHardtanh(MinkowskiNonlinearityBase):
    """torch.nn.Hardtanh."""

    MODULE = nn.Hardtanh


class MinkowskiHardswish(MinkowskiNonlinearityBase):
    """torch.nn.Hardswish."""

    MODULE = nn.Hardswish


class MinkowskiLeakyReLU(MinkowskiNonlinearityBase):
    """torch.nn.LeakyReLU."""

    MODULE = nn.LeakyReLU


class MinkowskiLogSigmoid(MinkowskiNonlinearityBase):
    """torch.nn.LogSigmoid."""

    MODULE = nn.LogSigmoid


class MinkowskiPReLU(MinkowskiNonlinearityBase):
    """torch.nn.PReLU."""

    MODULE = nn.PReLU


class MinkowskiReLU(MinkowskiNonlinearityBase):
    """torch.nn.ReLU."""

    MODULE = nn.ReLU


class MinkowskiReLU6(MinkowskiNonlinearityBase):
    """torch.nn.ReLU6."""

    MODULE = nn.ReLU6


class MinkowskiRReLU(MinkowskiNonlinearityBase):
    """torch.nn.RReLU."""

    MODULE = nn.RReLU


class MinkowskiSELU(MinkowskiNonlinearityBase):
    """torch.nn.SELU."""

    MODULE = nn.SELU


class MinkowskiCELU(MinkowskiNonlinearityBase):
    """torch.nn.CELU."""

    MODULE = nn.CELU


class MinkowskiGELU(MinkowskiNonlinearityBase):
    """torch.nn.GELU."""

    MODULE = nn.GELU


class MinkowskiSigmoid(MinkowskiNonlinearityBase):
    """torch.nn.Sigmoid."""

    MODULE = nn.Sigmoid


class MinkowskiSiLU(MinkowskiNonlinearityBase):
    """torch.nn.SiLU."""

    MODULE = nn.SiLU


class MinkowskiSoftplus(MinkowskiNonlinearityBase):
    """torch.nn.Softplus."""

    MODULE = nn.Softplus


class MinkowskiSoftshrink(MinkowskiNonlinearityBase):
    """torch.nn.Softshrink."""

    MODULE = nn.Softshrink


class MinkowskiSoftsign(MinkowskiNonlinearityBase):
    """torch.nn.Softsign."""

    MODULE = nn.Softsign


class MinkowskiTanh(MinkowskiNonlinearityBase):
    """torch.nn.Tanh."""

    MODULE = nn.Tanh


class MinkowskiTanhshrink(MinkowskiNonlinearityBase):
    """torch.nn.Tanhshrink."""

    MODULE = nn.Tanhshrink


class MinkowskiThreshold(MinkowskiNonlinearityBase):
    """torch.nn.Threshold."""

    MODULE = nn.Threshold


class _OverChannels(MinkowskiNonlinearityBase):
    """A layer of torch over the channels of each voxel. `dim` may name their axis, 1 or -1."""

    def __init__(self, dim: int | None = None) -> None:
        if dim not in (None, 1, -1):
            raise ValueError(f"dim is {dim}, and would mix voxels: 1 is the axis of the channels")
        super().__init__(dim=1)


class MinkowskiSoftmin(_OverChannels):
    """torch.nn.Softmin over the channels."""

    MODULE = nn.Softmin


class MinkowskiSoftmax(_OverChannels):
    """torch.nn.Softmax over the channels."""

    MODULE = nn.Softmax


class MinkowskiLogSoftmax(_OverChannels):
    """torch.nn.LogSoftmax over the channels."""

    MODULE = nn.LogSoftmax


class MinkowskiDropout(MinkowskiNonlinearityBase):
    """torch.nn.Dropout."""

    MODULE = nn.Dropout


class MinkowskiAlphaDropout(MinkowskiNonlinearityBase):
    """torch.nn.AlphaDropout."""

    MODULE = nn.AlphaDropout


class MinkowskiSinusoidal(nn.Module):
    """sin(x kernel + bias) coef, with a kernel [in_channel, out_channel]."""

    def __init__(self, in_channel: int, out_channel: int) -> None:
        super().__init__()
        self.in_channel, self.out_channel = in_channel, out_channel
        self.kernel = nn.Parameter(torch.rand(in_channel, out_channel))
        self.bias = nn.Parameter(torch.rand(1, out_channel))
        self.coef = nn.Parameter(torch.rand(1, out_channel))

    def forward(self, input: Own) -> Own:
        """Applies the layer."""
        return input._map(lambda features: torch.sin(features @ self.kernel + self.bias) * self.coef)


class MinkowskiLinear(nn.Module):
    """A linear layer of torch, `linear`, for the features of each voxel."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)

    def forward(self, input: Own) -> Own:
        """Applies the layer."""
        if isinstance(input, SparseTensor):
            made = F.linear(input.rows(), self.linear.weight, self.linear.bias).features
        else:
            made = self.linear(input.F)
        return input._replace(made)


class MinkowskiBatchNorm(nn.Module):
    """A batch norm of torch, `bn`, over the voxels in use of all clouds. The arguments are those of BatchNorm1d."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__()
        self.bn: nn.Module = nn.BatchNorm1d(num_features, eps, momentum, affine, track_running_stats)

    def forward(self, input: Own) -> Own:
        """Normalizes a tensor."""
        if isinstance(input, TensorField):
            return input._replace(self.bn(input.F))
        assert isinstance(input, SparseTensor)
        return input._replace(apply_batch_norm(self.bn, input.F, input.level))


class MinkowskiSyncBatchNorm(MinkowskiBatchNorm):
    """A batch norm whose statistics all ranks share. The arguments are those of torch.nn.SyncBatchNorm."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.bn = nn.SyncBatchNorm(num_features, eps, momentum, affine, track_running_stats, process_group)

    @classmethod
    def convert_sync_batchnorm(cls, module: nn.Module, process_group: Any = None) -> nn.Module:
        """Returns a network in which each MinkowskiBatchNorm shares its statistics; it keeps its parameters."""
        if isinstance(module, MinkowskiBatchNorm) and not isinstance(module, MinkowskiSyncBatchNorm):
            own = module.bn
            made = cls(own.num_features, own.eps, own.momentum, own.affine, own.track_running_stats, process_group)
            made.bn.load_state_dict(own.state_dict())
            if own.affine:
                made.bn.weight, made.bn.bias = own.weight, own.bias
            return made.to(next((value.device for value in own.state_dict().values()), "cpu")).train(module.training)
        for name, child in module.named_children():
            setattr(module, name, cls.convert_sync_batchnorm(child, process_group))
        return module


class MinkowskiInstanceNorm(nn.Module):
    """Normalizes each channel of each cloud. `weight` and `bias` are [1, num_features]."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features
        self.weight = nn.Parameter(torch.empty(1, num_features))
        self.bias = nn.Parameter(torch.empty(1, num_features))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to 1, and the bias to 0."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, input: SparseTensor) -> SparseTensor:
        """Normalizes a tensor."""
        clouds = input.coordinate_manager.number_of_unique_batch_indices()
        if not clouds:
            return input
        made = normalize_clouds(input.F, input.level, clouds, self.num_features, 1e-8)
        return input._replace(input.level.mask(made * self.weight.to(made.dtype) + self.bias.to(made.dtype)))

    def extra_repr(self) -> str:
        """Returns the arguments, for repr()."""
        return f"nchannels={self.num_features}"
