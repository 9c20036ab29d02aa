"""Containers and pointwise layers under spconv's names."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from .._clouds import apply_batch_norm
from .core import SparseConvTensor

#: Layers of torch that treat each row by itself and give 0 for 0, so that rows past the count stay zero.
_ROWWISE = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh,
    nn.Hardswish, nn.Softsign, nn.Identity, nn.Dropout, nn.AlphaDropout,
)  # fmt: skip
#: Layers of torch that treat each row by itself, and change zeros.
_CHANGING = (nn.Linear, nn.LayerNorm, nn.Sigmoid, nn.Hardsigmoid, nn.Softplus, nn.Softmax, nn.LogSoftmax, nn.RMSNorm)


class SparseModule(nn.Module):
    """A layer that takes and gives sparse tensors. SparseSequential gives other layers the features only."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self.name = name
        self._sparse_unique_name = ""


def is_spconv_module(module: nn.Module) -> bool:
    """Whether a layer takes sparse tensors."""
    return isinstance(module, SparseModule)


def is_sparse_conv(module: nn.Module) -> bool:
    """Whether a layer is a sparse convolution."""
    from .conv import SparseConvolution

    return isinstance(module, SparseConvolution)


def assign_name_for_sparse_modules(module: nn.Module) -> None:
    """Tells each sparse layer its name in the network."""
    for name, part in module.named_modules():
        if isinstance(part, SparseModule):
            part._sparse_unique_name = name


def normalize(
    norm: nn.BatchNorm1d | nn.SyncBatchNorm, input: SparseConvTensor, *, relu: bool = False
) -> SparseConvTensor:
    """Applies a batch norm of torch, and a ReLU behind it, in one pass. Statistics count the rows in use."""
    return input.replace_feature(apply_batch_norm(norm, input.features, input.level, relu=relu))


def apply_rowwise(module: nn.Module, input: SparseConvTensor) -> SparseConvTensor:
    """Applies a layer of torch to the features.

    Raises:
        ValueError: in capacity mode, for a layer that may mix rows.
    """
    result = module(input.features)
    if input.count is None or isinstance(module, _ROWWISE):
        return input.replace_feature(result)
    if isinstance(module, _CHANGING):
        return input.replace_feature(input.level.mask(result))
    raise ValueError(
        f"{type(module).__name__} may mix rows, and in capacity mode some of them are not in use: use a layer of "
        "minuet.torch, or exact mode"
    )


class SparseSequential(SparseModule):
    """Layers one behind the other; the arguments are those of torch.nn.Sequential, or named layers.

    A BatchNorm1d, a SyncBatchNorm and a ReLU behind one of them run as one pass over the rows in use; their parameters
    keep their names. Other layers of torch get the features. In capacity mode, layers that may mix rows are refused.
    """

    def __init__(self, *args: Any, **kwargs: nn.Module) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            modules = list(args[0].items())
        else:
            modules = [(str(number), module) for number, module in enumerate(args)]
        for name, module in [*modules, *kwargs.items()]:
            if name in self._modules:
                raise ValueError(f"two layers have the name {name!r}")
            self.add_module(name, module)

    def __getitem__(self, index: int) -> nn.Module:
        modules = list(self._modules.values())
        if not -len(modules) <= index < len(modules):
            raise IndexError(f"there are {len(modules)} layers, and number {index} is asked for")
        found = modules[index]
        assert found is not None
        return found

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(module for module in self._modules.values() if module is not None)

    def add(self, module: nn.Module, name: str | None = None) -> None:
        """Appends a layer."""
        name = str(len(self._modules)) if name is None else name
        if name in self._modules:
            raise KeyError(f"there is a layer {name!r} already")
        self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        """Applies the layers to a sparse tensor, a list of them, or what the layers before have made of it."""
        modules = list(self)
        number = 0
        while number < len(modules):
            module = modules[number]
            number += 1
            if is_spconv_module(module) or not isinstance(input, SparseConvTensor):
                input = module(input)
            elif type(module) in (nn.BatchNorm1d, nn.SyncBatchNorm):
                relu = number < len(modules) and type(modules[number]) is nn.ReLU and not _has_hooks(module)
                input = normalize(module, input, relu=relu)
                number += int(relu)
            else:
                input = apply_rowwise(module, input)
        return input


def _has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


class SparseBatchNorm(nn.BatchNorm1d):
    """A batch norm of sparse tensors, and of features."""

    def forward(self, input: Any) -> Any:
        """Normalizes over the rows in use."""
        if isinstance(input, SparseConvTensor):
            return normalize(self, input)
        return super().forward(input)


class SparseSyncBatchNorm(nn.SyncBatchNorm):
    """A batch norm whose statistics all ranks share, of sparse tensors and of features."""

    def forward(self, input: Any) -> Any:
        """Normalizes over the rows in use of all ranks."""
        if isinstance(input, SparseConvTensor):
            return normalize(self, input)
        return super().forward(input)


class SparseReLU(nn.ReLU):
    """A ReLU of sparse tensors, and of features."""

    def forward(self, input: Any) -> Any:
        """Replaces negative features by 0."""
        if isinstance(input, SparseConvTensor):
            return input.replace_feature(super().forward(input.features))
        return super().forward(input)


class SparseIdentity(nn.Identity):
    """Gives what it takes."""


class ToDense(SparseModule):
    """Makes a dense tensor, [batch, channels, axes...]."""

    def forward(self, x: SparseConvTensor) -> torch.Tensor:
        """Returns x.dense()."""
        return x.dense()


class RemoveGrid(SparseModule):
    """Gives what it takes: there is no grid."""

    def forward(self, x: SparseConvTensor) -> SparseConvTensor:
        """Returns x."""
        return x
