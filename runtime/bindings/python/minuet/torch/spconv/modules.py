"""Containers and pointwise layers under spconv's names."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from .._clouds import BatchNorm, apply_batch_norm
from .._levels import Level
from .core import IndiceData, Kind, SparseConvTensor

#: Layers of torch that treat each row by itself.
_ROWWISE = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh,
    nn.Hardswish, nn.Softsign, nn.Identity, nn.Dropout, nn.AlphaDropout, nn.Linear, nn.LayerNorm, nn.Sigmoid,
    nn.Hardsigmoid, nn.Softplus, nn.Softmax, nn.LogSoftmax, nn.RMSNorm,
)  # fmt: skip


_RECORDED = "max_num_voxels_during_training"


class SparseModule(nn.Module):
    """A layer that takes and gives sparse tensors. SparseSequential gives other layers the features only."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self.name = name
        self._sparse_unique_name = ""

    def require_tensor(self, input: Any) -> None:
        """Raises unless the layer was given a sparse tensor of as many axes as it has."""
        if not isinstance(input, SparseConvTensor):
            raise TypeError(f"{type(self).__name__} takes a SparseConvTensor, and {type(input).__name__} is given")
        ndim = getattr(self, "ndim", None)
        if ndim is not None and len(input.spatial_shape) != ndim:
            raise ValueError(f"the layer has {ndim} axes, and the tensor {len(input.spatial_shape)}")

    def record_voxels(self, device: Any = None) -> None:
        """Adds the buffer of a layer with record_voxel_count. A state without it can be loaded, as in spconv."""
        self.register_buffer(_RECORDED, torch.zeros(1, dtype=torch.int32, device=device))
        self._register_load_state_dict_pre_hook(_complete)

    def note_voxels(self, level: Level) -> None:
        """Keeps the largest number of output voxels, where the layer records it."""
        recorded = getattr(self, _RECORDED, None)
        if recorded is not None:
            count = level.count
            recorded.copy_(recorded.clamp(min=level.rows) if count is None else torch.maximum(recorded, count))

    def _with_norm(self, input: SparseConvTensor, norm: BatchNorm, relu: bool) -> SparseConvTensor | None:
        """Applies the layer, a batch norm and a ReLU in one step of autograd. Returns None where that cannot be."""
        return None

    def get_max_num_voxels(self) -> torch.Tensor | None:
        """Returns the most output voxels so far, int32 [1], of a layer with record_voxel_count, else None."""
        found: torch.Tensor | None = getattr(self, _RECORDED, None)
        return found


class KernelModule(SparseModule):
    """A layer with a kernel: a convolution or a pooling.

    Attributes:
        kernel_size, stride, padding, dilation: one number for each axis.
        indice_key: the name of the kernel and its two sets of voxels in the tensors behind the layer, or None.
    """

    kernel_size: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    indice_key: str | None

    def _data(self, kind: Kind, input: SparseConvTensor, level: Level, shape: list[int]) -> dict[str, IndiceData]:
        """Returns what the layer's key stands for, to be added to the keys of the result."""
        if self.indice_key is None:
            return {}
        sizes = (self.kernel_size, self.stride, self.padding, self.dilation)
        return {self.indice_key: IndiceData(kind, *sizes, input.level, level, input.spatial_shape, shape)}


def _complete(state: dict[str, Any], prefix: str, *_: Any) -> None:
    state.setdefault(prefix + _RECORDED, torch.zeros(1, dtype=torch.int32))


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


def normalize(norm: BatchNorm, input: SparseConvTensor, *, relu: bool = False) -> SparseConvTensor:
    """Applies a batch norm of torch, and a ReLU behind it, in one pass. Statistics count the rows in use."""
    return input._replaced(apply_batch_norm(norm, input.features, input.level, relu=relu))


def apply_rowwise(module: nn.Module, input: SparseConvTensor) -> SparseConvTensor:
    """Applies a layer of torch to the features.

    Raises:
        ValueError: in capacity mode, for a layer that may mix rows.
    """
    if not input._voxels.has_unused_rows or isinstance(module, _ROWWISE):
        return input.replace_feature(module(input.features))
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

    def __getitem__(self, index: int | slice) -> nn.Module:
        """Returns the layer of this number, or a part of the layers."""
        modules = list(self._modules.items())
        if isinstance(index, slice):
            return SparseSequential(OrderedDict(modules[index]))
        if not -len(modules) <= index < len(modules):
            raise IndexError(f"there are {len(modules)} layers, and number {index} is asked for")
        found = modules[index][1]
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
            if isinstance(module, SparseModule) or not isinstance(input, SparseConvTensor):
                made, taken = _apply_with_norm(module, modules, number, input)
                input = module(input) if made is None else made
                number += taken
            elif _is_norm(module) and not _is_watched(module):
                relu = number < len(modules) and _is_relu(modules[number])
                input = normalize(module, input, relu=relu)
                number += int(relu)
            elif _is_norm(module) and input._voxels.has_unused_rows:
                raise ValueError(
                    "a batch norm with hooks is not possible in capacity mode, because it would be called with rows "
                    "that are not in use: remove the hooks, or use exact mode"
                )
            else:
                input = apply_rowwise(module, input)
        return input


def _apply_with_norm(
    module: nn.Module, modules: list[nn.Module], number: int, input: Any
) -> tuple[SparseConvTensor | None, int]:
    """Applies a layer, and the batch norm and the ReLU that come next, in one step of autograd. Returns the result and
    how many layers it took behind the first one, or None where there are not these layers."""
    if number == len(modules) or torch.compiler.is_compiling():
        return None, 0
    norm = modules[number]
    if not _is_norm(norm) or not isinstance(module, SparseModule) or not isinstance(input, SparseConvTensor):
        return None, 0
    if _is_watched(module) or _is_watched(norm):
        return None, 0
    relu = number + 1 < len(modules) and _is_relu(modules[number + 1])
    made = module._with_norm(input, norm, relu)
    return made, 0 if made is None else 1 + int(relu)


def _is_norm(module: nn.Module) -> bool:
    """Whether a layer computes what the batch norms of torch compute."""
    known = (nn.BatchNorm1d.forward, nn.SyncBatchNorm.forward, SparseBatchNorm.forward, SparseSyncBatchNorm.forward)
    return isinstance(module, (nn.BatchNorm1d, nn.SyncBatchNorm)) and type(module).forward in known


def _is_relu(module: nn.Module) -> bool:
    return type(module) in (nn.ReLU, SparseReLU) and not _is_watched(module)


def has_hooks(module: nn.Module) -> bool:
    """Whether a module has hooks that run with its passes."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def _is_watched(module: nn.Module) -> bool:
    """Whether a layer has hooks or a forward() of its own: one pass for several layers would leave them out."""
    every = nn.modules.module
    return bool(
        has_hooks(module)
        or every._global_forward_hooks
        or every._global_forward_pre_hooks
        or every._global_backward_hooks
        or every._global_backward_pre_hooks
        or "forward" in module.__dict__
    )


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
