"""What fuse() learns of a module: its network, and where arguments, parameters and results of both are."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Number
from typing import Any

import torch
from torch import nn

from .._export import record, require_result, root_of
from .._export._describe import Describer, Output
from .._export._recorder import Recorder, plain_name
from .._export._values import Coordinates, Dense, ExportError, Level, Node
from .._rules import Bounds, Rule, norms_are_ops
from .._sparse_tensor import SparseTensor
from ..spconv.core import SparseConvTensor
from ._arguments import form_of

#: Where a value lies among the arguments: the number of the argument, then keys and numbers within it.
Path = tuple[Any, ...]


@dataclass(frozen=True)
class Source:
    """Where a parameter of the network is.

    Attributes:
        name: of the module's parameter or buffer in its state dict; "" for a constant.
        constant: the numbers of a constant, float32.
        shape, strides: as the network reads the memory, where it is contiguous.
        own_shape: of the parameter in the module.
    """

    name: str
    constant: torch.Tensor | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    own_shape: tuple[int, ...]

    def order(self) -> tuple[int, ...] | None:
        """Returns the strides of a weight [out, sizes..., in] whose memory has the order of the network, [offsets, in,
        out]; None for other parameters."""
        shape = self.own_shape
        if len(self.shape) != 3 or len(shape) < 2:
            return None
        offsets, inner, outer = self.shape
        if self.strides[1:] != (1, inner * offsets) or (shape[0], shape[-1]) != (outer, inner):
            return None
        strides = [outer * inner]
        for size in reversed(shape[2:-1]):
            strides.insert(0, strides[0] * size)
        return (1, *strides[: len(shape) - 2], outer)


@dataclass(frozen=True)
class Result:
    """A tensor among the results of the module.

    Attributes:
        kind: "spconv", "sparse" or "tensor", which says what holds the features; or "coordinates".
        output: the number of the network's output; -1 where `given` says which argument it is.
        given: the argument whose features are the result.
        level: the number of the level in the network; -1 for one without coordinates.
        form: of a tensor of integers, its number of axes and its dtype in the module.
    """

    kind: str
    output: int
    given: Path
    level: int
    form: tuple[int, torch.dtype] | None = None


@dataclass(frozen=True)
class Recorded:
    """A module as a network.

    Attributes:
        description: of the network.
        sources: of its parameters, by their names.
        made: for each set that the module makes, in order, the number of the one that it is made from (0 is that of the
            caller, 1 the first of this list), and the rule.
        levels: for each level of the network, the number of its set.
        inputs: where the features are.
        root: where the sparse tensor or the coordinates are.
        constants: other arguments, which are numbers or texts.
        result: the result of the module, with a Result for each tensor.
        needs_shape: whether what the network computes depends on the cells along each axis.
        shape, batch_size, bounds: of the example.
        dropouts: the modules that call a dropout.
        form: how the arguments lie in lists and dicts.
    """

    description: dict[str, Any]
    sources: dict[str, Source]
    made: tuple[tuple[int, Rule], ...]
    levels: tuple[int, ...]
    inputs: tuple[Path, ...]
    root: Path
    constants: tuple[tuple[Path, Any], ...]
    result: Any
    needs_shape: bool
    shape: tuple[int, ...] | None
    batch_size: int
    bounds: Bounds | None
    dropouts: tuple[str, ...]
    form: Any

    @functools.cached_property
    def shown(self) -> tuple[int, ...]:
        """The levels of the results, without that of the caller's coordinates. Ops behind the module, and the caller,
        may read their coordinates."""
        return tuple(sorted(set(_levels_of(self.result)) - {0}))


def recorded(module: nn.Module, example: Any, shape: Any) -> Recorded:
    """Records a module on an example.

    Raises:
        ExportError: the module does something that the layers of a network do not.
    """
    kinds = {tensor.device.type for tensor in module.state_dict().values() if isinstance(tensor, torch.Tensor)}
    token = norms_are_ops.set(True)
    try:
        with torch.autocast("cuda" if "cuda" in kinds else "cpu", enabled=False):
            recorder, given, result = record(module, example, shape)
    finally:
        norms_are_ops.reset(token)
    root = root_of(recorder)
    outputs: list[Output] = []
    _find_outputs(recorder, result, "output", "", outputs)
    if not outputs:
        raise ExportError("the module returns no features that it computes from its input")
    describer = Describer(recorder.nodes, outputs, root)
    description, _ = describer.description(type(module).__name__)
    sets = [root, *root.made]
    numbers = {id(level): number for number, level in enumerate(sets)}
    made = tuple(_made_from(level, numbers) for level in sets[1:])
    levels = tuple(numbers[id(level)] for level in describer.levels)
    arguments = _Arguments(recorder, root, given)
    missing = [node.name for node in describer.inputs if id(node) not in arguments.features]
    if missing:
        raise ExportError(f"the features {missing[0]!r} are no argument of the module: give them as one")
    needs_shape = any(level.rule is not None and level.rule.kernel_size is not None for level in describer.levels)
    needs_shape = needs_shape or any(isinstance(output.value, Dense) for output in outputs)
    if not needs_shape:
        description.pop("shape", None)
    places = _Places(recorder, levels, numbers, outputs, arguments)
    return Recorded(
        description,
        _sources(module, recorder, describer.parameters),
        made,
        levels,
        tuple(arguments.features[id(node)] for node in describer.inputs),
        arguments.root,
        tuple(arguments.constants),
        places.template(result),
        needs_shape,
        root.shape if needs_shape or not recorder.is_shape_guessed else None,
        max(1, recorder.batch),
        recorder.bounds,
        tuple(name for name, _ in module.named_modules() if plain_name(name) in recorder.dropouts),
        form_of(given),
    )


def _levels_of(template: Any) -> Iterator[int]:
    """Gives the level of each result that has coordinates."""
    if isinstance(template, Result):
        if template.kind != "tensor" and template.level >= 0:
            yield template.level
        return
    parts = template.values() if isinstance(template, Mapping) else template
    if isinstance(template, Mapping | list | tuple):
        for part in parts:
            yield from _levels_of(part)


def _made_from(level: Level, numbers: Mapping[int, int]) -> tuple[int, Rule]:
    if level.rule is None or level.parent is None or id(level.parent) not in numbers:
        raise ExportError(
            "the module has a transposed convolution that makes a new set of voxels, which a fused module does not "
            "have: fuse the parts before and behind it"
        )
    return numbers[id(level.parent)], level.rule


def _features_of(value: Any) -> Any:
    return value.features if isinstance(value, SparseConvTensor | SparseTensor) else value


def _find_outputs(recorder: Recorder, value: Any, name: str, prefix: str, outputs: list[Output]) -> None:
    """Finds the features among the results. Those that occur twice are one output."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            _find_outputs(recorder, item, f"{prefix}{key}", f"{prefix}{key}.", outputs)
        return
    if isinstance(value, list | tuple):
        for number, item in enumerate(value):
            part = f"{prefix or 'output.'}{number}"
            _find_outputs(recorder, item, part, f"{part}.", outputs)
        return
    tensor = _features_of(value)
    if not isinstance(tensor, torch.Tensor):
        return
    found = recorder.find(tensor)
    require_result(found, tensor, name)
    is_made = isinstance(found, Dense) or (isinstance(found, Node) and found.op != "input")
    if is_made and not any(output.value == found for output in outputs):
        assert isinstance(found, Node | Dense)
        outputs.append(Output(name, found))


class _Arguments:
    """Finds what the module reads among its arguments.

    Attributes:
        features: where each input is, by the identity of its node.
        root: where the sparse tensor or the coordinates are.
        constants: numbers and texts.
    """

    def __init__(self, recorder: Recorder, root: Level, given: tuple[Any, ...]) -> None:
        self._recorder, self._level = recorder, root
        self.features: dict[int, Path] = {}
        self.constants: list[tuple[Path, Any]] = []
        sparse: list[Path] = []
        plain: list[Path] = []
        self._walk(given, (), sparse, plain)
        if not sparse and not plain:
            raise ExportError(
                "the module computes the coordinates that its first layer reads: compute them before, and give it a "
                "SparseConvTensor, a SparseTensor or these coordinates"
            )
        self.root = (sparse or plain)[0]

    def _walk(self, value: Any, path: Path, sparse: list[Path], plain: list[Path]) -> None:
        if isinstance(value, SparseConvTensor | SparseTensor):
            sparse.append(path)
            self._note(value.features, path)
        elif isinstance(value, torch.Tensor):
            known = self._recorder.find(value)
            if isinstance(known, Coordinates) and known.level is self._level:
                plain.append(path)
            self._note(value, path)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                self._walk(item, (*path, key), sparse, plain)
        elif isinstance(value, list | tuple):
            for number, item in enumerate(value):
                self._walk(item, (*path, number), sparse, plain)
        elif value is None or isinstance(value, Number | str):
            self.constants.append((path, value))

    def _note(self, features: torch.Tensor, path: Path) -> None:
        node = self._recorder.find(features)
        if isinstance(node, Node) and node.op == "input":
            if id(node) in self.features:
                raise ExportError(
                    "two arguments of the example are the same tensor of features, so that they cannot be told apart: "
                    "give each a tensor of its own"
                )
            self.features[id(node)] = path


class _Places:
    """Says for each tensor of the results what it is."""

    def __init__(
        self,
        recorder: Recorder,
        levels: tuple[int, ...],
        numbers: Mapping[int, int],
        outputs: list[Output],
        arguments: _Arguments,
    ) -> None:
        self._recorder, self._arguments, self._outputs = recorder, arguments, outputs
        self._levels = {identity: levels.index(number) for identity, number in numbers.items() if number in levels}

    def template(self, value: Any) -> Any:
        """Returns the results of the module with a Result in the place of each tensor."""
        if isinstance(value, Mapping):
            items = {key: self.template(item) for key, item in value.items()}
            return items
        if isinstance(value, list | tuple):
            parts = [self.template(item) for item in value]
            return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
        tensor = _features_of(value)
        if not isinstance(tensor, torch.Tensor):
            if value is None or isinstance(value, Number | str):
                return value
            raise ExportError(
                f"the module returns {type(value).__name__}: return features, sparse tensors, dense tensors or lists, "
                "tuples and dicts of these"
            )
        kind = "spconv" if isinstance(value, SparseConvTensor) else "sparse" if tensor is not value else "tensor"
        found = self._recorder.find(tensor)
        if isinstance(found, Coordinates):
            return Result("coordinates", -1, (), self._level(found.level))
        if isinstance(found, Dense):
            return Result(kind, self._number(found), (), -1)
        if not isinstance(found, Node):
            raise ExportError(
                "the module returns a tensor that is neither features nor coordinates of its voxels: return those only"
            )
        level = self._level(found.level.resolve()) if found.level.resolve().ndim else -1
        if found.op == "input":
            return Result(kind, -1, self._arguments.features[id(found)], level)
        form = None if tensor.is_floating_point() else (tensor.dim(), tensor.dtype)
        return Result(kind, self._number(found), (), level, form)

    def _number(self, value: Node | Dense) -> int:
        return next(number for number, output in enumerate(self._outputs) if output.value == value)

    def _level(self, level: Level) -> int:
        found = self._levels.get(id(level))
        if found is None:
            raise ExportError("the module returns coordinates of a level on which it computes no features it returns")
        return found


def _sources(module: nn.Module, recorder: Recorder, parameters: Mapping[str, torch.Tensor]) -> dict[str, Source]:
    """Finds the module's own parameters among those of the network."""
    own: dict[int, list[tuple[str, torch.Tensor]]] = {}
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        own.setdefault(tensor.data_ptr(), []).append((name, tensor))
    made = {}
    for name, value in parameters.items():
        known = own.get(value.data_ptr(), [])
        sources = [_source(found, tensor, value) for found, tensor in known]
        source = next((each for each in sources if each is not None), None)
        if source is None and known:
            raise ExportError(
                f"the module reads a part of {known[0][0]!r}, or its numbers do not lie one behind the other in "
                "memory, so that it could not be trained: read it as a whole, and make it contiguous "
                "(parameter.data = parameter.data.contiguous()) before it is fused"
            )
        if source is None:
            constant = value.detach().to("cpu", torch.float32).contiguous().clone()
            shape = tuple(constant.shape)
            source = Source("", constant, shape, tuple(constant.stride()), shape)
        made[name] = source
    _require_all(module, recorder, {source.name for source in made.values()})
    return made


def _source(name: str, tensor: torch.Tensor, value: torch.Tensor) -> Source | None:
    """Returns how a network reads a parameter of the module; None where it reads not exactly its memory.

    Args:
        value: the parameter of the network, at the same address.
    """
    if tensor.numel() != value.numel() or tensor.dtype != value.dtype:
        return None
    shape, own_shape = tuple(value.shape), tuple(tensor.shape)
    if tensor.is_contiguous():
        return Source(name, None, shape, tuple(value.stride()), own_shape)
    if len(shape) == 3 and value.is_contiguous():  # A weight that lay_out() has brought into the network's order.
        offsets, inner, _ = shape
        source = Source(name, None, shape, (inner, 1, inner * offsets), own_shape)
        return source if source.order() == tensor.stride() else None
    return None


def _require_all(module: nn.Module, recorder: Recorder, mapped: set[str]) -> None:
    """Raises ExportError where the module computes with a parameter in a way that cannot be trained."""
    tensors = {plain_name(name): tensor for name, tensor in module.state_dict(keep_vars=True).items()}
    addresses = {tensors[name].data_ptr() for name in map(plain_name, mapped) if name in tensors}
    addresses |= {value.data_ptr() for node in recorder.nodes for value in node.parameters.values()}
    for name in sorted(recorder.seen):
        tensor = tensors.get(name)
        if tensor is not None and tensor.is_floating_point() and tensor.data_ptr() not in addresses:
            raise ExportError(
                f"the module computes other numbers from {name!r}, which a network would not compute again when it "
                "changes: use it as a parameter of a layer as it is, or fuse the part of the module without it"
            )
