"""A module of sparse layers as one differentiable op."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import torch
from torch import nn

from .._export import ExportError
from .._geometry import Geometry, Level
from .._places import place_of
from .._rules import keeps_shapes
from .._sparse_tensor import SparseTensor
from ..spconv.core import SparseConvTensor
from ._arguments import require_form
from ._clouds import Cloud
from ._parts import Parts, require_plain
from ._programs import Programs
from ._recorded import Path, Recorded, Result, recorded
from ._step import Runtime

__all__ = ["FusedModule", "fuse"]

#: What a fused module shares with its module, so that it has the same parameters, state dict and hooks of that.
_SHARED = (
    "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_state_dict_hooks", "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip


def fuse(
    module: nn.Module, example: Any, *, shape: Sequence[int] | None = None, recompute: Sequence[str] = ()
) -> FusedModule:
    """Returns a module that computes what this one does by one op: the whole network in one call, and all gradients in
    another.

    The module runs once on the example, as for export, and from then on its network runs, not its forward(). So it must
    run the same layers for every cloud: what forward() decides by numbers of its input, or by its attributes, stays as
    it was for the example. In training, what it does must differ from eval mode by its batch norms alone.

    Parameters and buffers are those of the module, under the same names. In training, batch norms use the statistics of
    the batch and change their running ones; all of them must be in one mode, with one momentum. Under torch.autocast,
    the network computes in its dtype, and otherwise in that of the features; parameters are float32. In eval mode
    without gradients, batch norms are folded into convolutions, which rounds otherwise.

    Sums may have another order than in single ops, so that bits differ from those of the module. They repeat from run
    to run.

    Args:
        module: what is fused. Its layers are those that export takes, but for transposed convolutions that make voxels.
        example: its argument, or a tuple of its arguments, as for export. Where these are features and coordinates, and
            no sparse tensor, all calls have the example's number of clouds.
        shape: cells of the input along each axis, where neither the example nor the module tells them.
        recompute: names of children of the module, such as "encoder.1", inside of which the backward pass computes
            again what the forward pass then does not keep. That takes less memory and more time; the bits are the same.
            A child must contain a convolution, linear layer or pooling, or be one.

    Returns:
        The module, in the mode of `module`, which it holds.

    Raises:
        ExportError: the module does something that no layer of a network does. The message names the op and the module.
        InvalidArgumentError: `recompute` names no such child.
        UnimplementedError: a layer cannot be trained in a network. The message names the layer.
    """
    module = getattr(module, "_orig_mod", module)  # What torch.compile made its module of.
    if isinstance(module, FusedModule):
        module = module.module
    require_plain(module)
    hidden = [name for own in (module._parameters, module._buffers, module._modules) for name in own]
    for name in hidden:
        if hasattr(FusedModule, name):
            raise ExportError(
                f"the module has a part of its own called {name!r}, which is an attribute of fused modules: rename it, "
                "or fuse that part"
            )
    found = recorded(module, example, shape)
    again = tuple(recompute)
    Programs(found.description, again, found.shown).require_training()
    return FusedModule(module, found, again)


class FusedModule(nn.Module):
    """A module as one op; fuse() makes it. Parameters, buffers and children are those of the module.

    Attributes:
        module: the module.
    """

    def __init__(self, module: nn.Module, found: Recorded, recompute: tuple[str, ...]) -> None:
        training = module.training
        self.__dict__["_module"] = module
        super().__init__()
        for name in _SHARED:
            self.__dict__[name] = module.__dict__[name]
        self.__dict__["_recorded"] = found
        self.__dict__["_recompute"] = recompute
        self.__dict__["_parts"] = Parts(module)
        self.__dict__["_runtimes"] = {}
        self.training = training

    @property
    def module(self) -> nn.Module:
        """The module that was fused."""
        found: nn.Module = self.__dict__["_module"]
        return found

    @property
    def training(self) -> bool:
        """Whether the module is in training mode."""
        return bool(self.module.training)

    @training.setter
    def training(self, mode: bool) -> None:
        self.module.training = mode

    def train(self, mode: bool = True) -> FusedModule:
        """Calls train() of the module, which may keep some of its parts in another mode."""
        self.module.train(mode)
        return self

    def state_dict(self, *arguments: Any, **named: Any) -> Any:
        """Returns the state dict of the module."""
        return self.module.state_dict(*arguments, **named)

    def load_state_dict(self, *arguments: Any, **named: Any) -> Any:
        """Loads a state dict of the module."""
        return self.module.load_state_dict(*arguments, **named)

    def _load_from_state_dict(self, *arguments: Any) -> None:
        """Loads the module's own part of a state dict. load_state_dict() of a module around this one calls it."""
        self.module._load_from_state_dict(*arguments)

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out what belongs to the process."""
        return {**self.__dict__, "_runtimes": {}}

    def lay_out(self) -> FusedModule:
        """Brings the memory of weights into the order in which the network's kernels read and write them, where that of
        the module is another one, as with spconv's. Their shapes and values stay, as with channels_last. Call it before
        an optimizer is made, because momentum and the like should have the same order.

        Returns:
            The module itself.
        """
        first = next(self.parameters(), None)
        if first is not None:
            self._runtime(first.device).tensors.lay_out()
        return self

    def extra_repr(self) -> str:
        """Returns the class of the module, for repr()."""
        return type(self.module).__name__

    def forward(self, *arguments: Any, **named: Any) -> Any:
        """Runs the network. Takes and returns what the module does, by position.

        Raises:
            TypeError: the arguments are not those of the example.
        """
        if named:
            raise TypeError(
                f"the argument {next(iter(named))!r} is given by its name, and a fused module takes arguments by "
                "position, as its example gave them"
            )
        if torch.compiler.is_compiling():
            return _uncompiled(self, arguments)
        return self._run(arguments)

    def _run(self, arguments: tuple[Any, ...]) -> Any:
        if keeps_shapes.get():
            return self.module(*arguments)  # fuse() or export() of a module around this one records its ops.
        found: Recorded = self.__dict__["_recorded"]
        require_form(found.form, arguments)
        self.__dict__["_parts"].require()
        for path, value in found.constants:
            given = _at(arguments, path)
            if not (given is None or isinstance(given, Number | str)) or given != value:
                raise ValueError(
                    f"the argument {_name(path)} is {given!r}, and the module was fused for {value!r}: "
                    "fuse it again for this one"
                )
        root = _at(arguments, found.root)
        level = _level_of(root, found)
        inputs = [_at(arguments, path) for path in found.inputs]
        for value in inputs:
            if value is not root and isinstance(value, SparseConvTensor | SparseTensor):
                _require_same(value, root)
        features = [_features(value) for value in inputs]
        outputs, cloud = self._runtime(features[0].device).run(level, features)
        return _filled(found.result, arguments, root, outputs, cloud)

    def _runtime(self, device: torch.device) -> Runtime:
        place = place_of(device)
        runtimes: dict[tuple[int, int], Runtime] = self.__dict__["_runtimes"]
        key = (os.getpid(), place.index)
        runtime = runtimes.get(key)
        if runtime is None:
            recompute: tuple[str, ...] = self.__dict__["_recompute"]
            runtime = runtimes[key] = Runtime(self.module, self.__dict__["_recorded"], recompute, place)
        return runtime


@torch.compiler.disable(reason="it calls a library")
def _uncompiled(fused: FusedModule, arguments: tuple[Any, ...]) -> Any:
    return fused._run(arguments)


def _name(path: Path) -> str:
    return "".join(f"[{part!r}]" for part in path)


def _at(arguments: Any, path: Path) -> Any:
    """Returns what lies at a path of the arguments."""
    found = arguments
    try:
        for part in path:
            found = found[part]
    except (KeyError, IndexError, TypeError):
        raise TypeError(f"the argument {_name(path)} is missing: give what the example of fuse() had") from None
    return found


def _features(value: Any) -> torch.Tensor:
    features = value.features if isinstance(value, SparseConvTensor | SparseTensor) else value
    if not isinstance(features, torch.Tensor):
        raise TypeError(f"an argument is {type(value).__name__}: give what the example of fuse() had")
    return features


def _require_same(value: SparseConvTensor | SparseTensor, root: Any) -> None:
    """Raises ValueError where two arguments have other voxels."""
    one, two = _coordinates_of(value), _coordinates_of(root)
    if one.data_ptr() != two.data_ptr() or one.shape != two.shape:
        raise ValueError(
            "two arguments are on other voxels: give both the same tensor of coordinates, as in the example"
        )


def _coordinates_of(value: Any) -> torch.Tensor:
    """Returns the coordinates of a sparse tensor, or the tensor of coordinates itself."""
    if isinstance(value, SparseConvTensor):
        return value.indices
    found: torch.Tensor = value.coordinates if isinstance(value, SparseTensor) else value
    return found


def _level_of(root: Any, found: Recorded) -> Level:
    """Returns the level of the caller's voxels."""
    if isinstance(root, SparseConvTensor | SparseTensor):
        return root.level
    if not isinstance(root, torch.Tensor):
        raise TypeError(f"an argument is {type(root).__name__}: give the coordinates, as the example of fuse() had")
    return Geometry(root, shape=found.shape, batch_size=found.batch_size, bounds=found.bounds).level


def _filled(template: Any, arguments: Any, root: Any, outputs: Sequence[torch.Tensor], cloud: Cloud) -> Any:
    """Returns the results of the module."""
    if isinstance(template, Result):
        return _result(template, arguments, root, outputs, cloud)
    if isinstance(template, Mapping):
        return {key: _filled(item, arguments, root, outputs, cloud) for key, item in template.items()}
    if isinstance(template, list | tuple):
        parts = [_filled(item, arguments, root, outputs, cloud) for item in template]
        return type(template)(*parts) if hasattr(template, "_fields") else type(template)(parts)
    return template


def _result(result: Result, arguments: Any, root: Any, outputs: Sequence[torch.Tensor], cloud: Cloud) -> Any:
    if result.kind == "coordinates":
        return cloud.level_of(result.level).coordinates
    features = outputs[result.output] if result.output >= 0 else _features(_at(arguments, result.given))
    if result.form is not None:
        axes, dtype = result.form
        features = (features if axes == 2 else features[:, 0]).to(dtype)
    if result.kind == "tensor":
        return features
    level = cloud.level_of(result.level)
    if result.kind == "sparse":
        return SparseTensor(features, level)
    if isinstance(root, SparseConvTensor) and level is root.level:
        return root._replaced(features)
    keys = root.indice_dict if isinstance(root, SparseConvTensor) else {}
    return SparseConvTensor._on(level, features, list(level.shape or ()), level.geometry.batch_size, keys)
