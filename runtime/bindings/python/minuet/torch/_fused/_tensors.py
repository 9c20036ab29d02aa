"""The parameters and running statistics of a module, as the calls of a training plan take them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ... import _abi
from ..._infos import is_statistic
from .._places import ELEMENTS, Place, array_struct
from ._recorded import Recorded

_WORDS = ctypes.sizeof(_abi.minuet_array) // 8
_F32 = ELEMENTS[torch.float32]


def addresses_of(arrays: Any, count: int) -> Any:
    """Returns the addresses of the first arrays of a list, which may be written together."""
    return np.frombuffer(arrays, dtype=np.int64).reshape(-1, _WORDS)[:count, 0]


def forms_of(tensors: Sequence[torch.Tensor]) -> list[tuple[Any, ...]]:
    """Returns address, shape, strides and dtype of tensors."""
    return [(tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype) for tensor in tensors]


class Table:
    """Where all parameters lie. It does not change, so that any thread may give it to calls.

    Args:
        template: one array for each parameter, without its address.
        forms: of all parameters, as forms_of() tells them.
        statistics: whether each is a running statistic.
        trained: the numbers of those that may have a gradient.

    Attributes:
        forms, trained_forms: of all, and of those that may have a gradient.
        parameters: one array for each.
        statistics: the same with those of running statistics alone.
    """

    def __init__(self, template: Any, forms: list[tuple[Any, ...]], statistics: Any, trained: Sequence[int]) -> None:
        kind = type(template)
        self.forms, self.trained_forms = forms, [forms[number] for number in trained]
        self.parameters = kind.from_buffer_copy(template)
        self.statistics = kind.from_buffer_copy(template)
        found = np.array([form[0] for form in forms], dtype=np.int64)
        addresses_of(self.parameters, len(found))[:] = found
        addresses_of(self.statistics, len(found))[:] = np.where(statistics, found, 0)
        self._template, self._forms = template, {number: forms[number][1:3] for number in trained}
        self._gradients: dict[tuple[bool, ...], Gradients] = {}

    def gradients(self, wanted: tuple[bool, ...]) -> Gradients:
        """Returns how gradients lie in memory.

        Args:
            wanted: which of those that may have a gradient have one.
        """
        found = self._gradients.get(wanted)
        if found is None:
            found = self._gradients[wanted] = Gradients(self._template, self._forms, wanted)
        return found


class Gradients:
    """Gradients of some parameters, in one tensor.

    Args:
        template: one array for each parameter.
        forms: shape and strides of parameters of the module, by their numbers. Gradients have the same.
        wanted: which of them have a gradient.
    """

    def __init__(self, template: Any, forms: Mapping[int, tuple[Any, Any]], wanted: Sequence[bool]) -> None:
        self._template = template
        self._entries = np.array([entry for entry, is_one in zip(forms, wanted, strict=True) if is_one], np.intp)
        self._views: list[tuple[Any, ...] | None] = []
        offsets, count = [], 0
        for (shape, strides), is_wanted in zip(forms.values(), wanted, strict=True):
            if not is_wanted:
                self._views.append(None)
                continue
            offsets.append(4 * count)
            self._views.append((shape, strides, count))
            count += -(-shape.numel() // 4) * 4  # Optimizers read four numbers at a time where they may.
        self._offsets = np.array(offsets, dtype=np.int64)
        self.count = count

    def arrays(self, base: int) -> Any:
        """Returns the library's list of gradients whose first one is at an address."""
        made = type(self._template).from_buffer_copy(self._template)
        addresses_of(made, len(made))[self._entries] = self._offsets + base
        return made

    def views(self, flat: torch.Tensor) -> list[torch.Tensor | None]:
        """Returns the gradients in the shapes of the module, and None for those that are not wanted."""
        as_strided = torch.as_strided
        return [None if view is None else as_strided(flat, *view) for view in self._views]


class Tensors:
    """What the calls read and write of a module.

    Args:
        module: the module.
        recorded: of it.
        names: of the network's parameters.
        place: where it is.

    Attributes:
        trained: the numbers of parameters that may have a gradient.
        norms: the batch norms of the module.
    """

    def __init__(self, module: nn.Module, recorded: Recorded, names: Sequence[str], place: Place) -> None:
        self._place = place
        sources = [recorded.sources[name] for name in names]
        self._names = [source.name or name for source, name in zip(sources, names, strict=True)]
        self._places: list[tuple[dict[str, Any], str]] = []
        self.trained: list[int] = []
        norms: dict[str, _BatchNorm] = {}
        statistics = []
        self._constants: dict[str, Any] = {}
        for number, (source, name) in enumerate(zip(sources, names, strict=True)):
            statistics.append(is_statistic(name))
            if source.constant is not None:
                self._constants[name] = source.constant.to(place.device)
                self._places.append((self._constants, name))
                continue
            owner_name, _, leaf = source.name.rpartition(".")
            owner = module.get_submodule(owner_name)
            is_parameter = leaf in owner._parameters
            self._places.append((owner._parameters if is_parameter else owner._buffers, leaf))
            if is_parameter:
                self.trained.append(number)
            if statistics[-1]:
                if not isinstance(owner, _BatchNorm) or leaf not in ("running_mean", "running_var"):
                    raise ValueError(f"the running statistics {source.name!r} belong to no batch norm of torch")
                norms[owner_name] = owner
        self.norms = list(norms.values())
        self.norm_names = list(norms)
        used = [self._names[number] for number, is_one in enumerate(statistics) if is_one]
        #: A batch norm that the module calls twice, whose statistics would change twice in a step; "" for none.
        self.shared_norm = next((name.rpartition(".")[0] for name in used if used.count(name) > 1), "")
        self._is_statistic = np.array(statistics, dtype=bool)
        kind = _abi.minuet_array * max(1, len(sources))
        self._template = kind()
        for number, source in enumerate(sources):
            self._template[number] = array_struct(source.shape, _F32, source.strides)
        self._shapes = [source.shape for source in sources]
        self._own_shapes = [source.own_shape for source in sources]
        #: The strides of weights in the network's order; None of other parameters.
        self._orders = [source.order() for source in sources]
        self._table: Table | None = None

    def current(self) -> list[Any]:
        """Returns all tensors.

        Raises:
            ValueError: the module does not have one of them any more.
        """
        try:
            return [tensors[name] for tensors, name in self._places]
        except KeyError:
            missing = (name for name, (own, leaf) in zip(self._names, self._places, strict=True) if leaf not in own)
            raise ValueError(
                f"{next(missing)} is no parameter or buffer of the module any more, as behind pruning and "
                "parametrizations: undo that, or fuse the module as it is now"
            ) from None

    def table(self, tensors: list[Any]) -> Table:
        """Returns where the tensors are.

        Raises:
            TypeError, ValueError: one of them is not as the network reads it.
        """
        try:
            # One address may have another form later: `parameter.data` may be set to a view, and memory is used again.
            forms = forms_of(tensors)
        except AttributeError:
            missing = next(name for name, tensor in zip(self._names, tensors, strict=True) if tensor is None)
            raise ValueError(f"{missing} is None, and the module was fused with one: fuse it again") from None
        known = self._table
        if known is not None and known.forms == forms:
            return known
        template = type(self._template).from_buffer_copy(self._template)
        for number, (name, tensor) in enumerate(zip(self._names, tensors, strict=True)):
            if tensor.shape != self._own_shapes[number]:
                raise ValueError(
                    f"{name} has the shape {list(tensor.shape)}, and the module was fused with "
                    f"{list(self._own_shapes[number])}: give it one of that shape, or fuse the module again"
                )
            if tensor.dtype != torch.float32:
                raise TypeError(
                    f"{name} is {tensor.dtype}, and a fused module keeps its parameters in float32: leave out half(), "
                    "and run it under torch.autocast"
                )
            if tensor.device != self._place.device:
                raise ValueError(
                    f"{name} is on {tensor.device}, and the features are on {self._place.device}: move the module"
                )
            if not tensor.is_contiguous() and tensor.stride() != self._orders[number]:
                raise ValueError(
                    f"{name} has the strides {list(tensor.stride())}: give the module a contiguous parameter, or one "
                    "as lay_out() makes it"
                )
            if not tensor.is_contiguous():
                own = array_struct(self._shapes[number], _F32)
                template[number] = own
        made = self._table = Table(template, forms, self._is_statistic, self.trained)
        return made

    def lay_out(self) -> None:
        """Brings the weights of layers into the network's order of memory. Their shapes and values stay."""
        for number, tensor in enumerate(self.current()):
            order = self._orders[number]
            if order is not None and tensor.stride() != order:
                with torch.no_grad():
                    tensor.data = torch.empty_strided(tensor.shape, order, device=tensor.device).copy_(tensor)
