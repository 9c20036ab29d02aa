"""Records what a module computes, op by op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .._rules import Bounds, keeps_shapes
from ._values import Coordinates, Dense, ExportError, Level, Node, Unknown, UnknownLevel, Value

#: What a rule returns: the value of the op's result, one for each result, or None for results that are constants.
Found = Value | tuple[Value | None, ...] | None
Rule = Callable[["Call"], Found]

#: Rules by the name of the op.
RULES: dict[str, Rule] = {}
#: Ops by which a module decides on numbers of its input.
_READS = {"aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero", "aten::item"}

#: Ops that make features.
_LAYERS = {"minuet::convolution", "minuet::pooling", "minuet::global_pooling", "minuet::batch_norm"}

ADVICE = (
    "export the part of the module that ends before it or begins behind it, and compute the rest in the program. "
    "README.md of minuet.torch says which ops a network can have"
)

_READ = f"the host reads numbers of its input, and a network always runs the same layers: {ADVICE}"


class DescriptionError(Exception):
    """Raised by rules: the op has no layer. The text says why, and what to do."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers a rule for ops."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name if "::" in name else f"aten::{name}"] = function
        return function

    return register


class Call:
    """One call of an op.

    Attributes:
        recorder: the recorder that has noted the call, which knows what its tensors are.
        name: of the op, such as "aten::relu". Ops that change a tensor in place have the rules of those that do not.
        full_name: with the underscore of an op that changes a tensor in place.
        arguments: by their names, with the defaults.
        results: the tensors that it returned.
    """

    def __init__(self, recorder: Recorder, func: Any, args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> None:
        schema = func._schema
        self.recorder, self.name, self.is_mutable = recorder, schema.name, schema.is_mutable
        self.full_name = self.name
        if self.is_mutable and self.name not in RULES:
            self.name = self.name.removesuffix("_")
        self.arguments: dict[str, Any] = {}
        for number, argument in enumerate(schema.arguments):
            default = argument.default_value if argument.has_default_value() else None
            value = args[number] if number < len(args) else kwargs.get(argument.name, default)
            self.arguments[argument.name] = value
        self.given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        self.results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]

    @property
    def result(self) -> torch.Tensor:
        """The first result."""
        return self.results[0]

    def value(self, name: str) -> Value | None:
        """Returns what is known of an argument; None for a constant."""
        given = self.arguments.get(name)
        return self.recorder.find(given) if isinstance(given, torch.Tensor) else None

    def constant(self, name: str) -> torch.Tensor | None:
        """Returns an optional argument that is a constant tensor."""
        given = self.arguments.get(name)
        if given is not None and self.value(name) is not None:
            raise DescriptionError(f"{name} depends on the input, and a layer's parameters are constants: {ADVICE}")
        return None if given is None else given.detach()

    def refusal(self, reason: str) -> ExportError:
        """Returns the error that says why a module with this call cannot be exported at all."""
        return Unknown(self.full_name, self.recorder.path, reason, True).error()

    def features(self, name: str) -> Node:
        """Returns an argument that must be features [rows, channels]."""
        return self.node_of(self.arguments[name])

    def node_of(self, tensor: torch.Tensor) -> Node:
        """Returns the features that a tensor [rows, channels] has."""
        node = self.recorder.find(tensor)
        if node is None:
            raise DescriptionError(
                "it reads a tensor with rows that depends on no argument of the module: give the features of all "
                "voxels as an argument, in a tuple, a list or a dict if need be"
            )
        if not isinstance(node, Node):
            raise DescriptionError(f"it combines features with a tensor that is none: {ADVICE}")
        if node.channels != tensor.shape[-1] or tensor.dim() != 2:
            raise DescriptionError(
                f"it reads features that were brought to the shape {list(tensor.shape)}, and layers read "
                f"[rows, channels]: {ADVICE}"
            )
        return node

    def node(
        self, op: str, *inputs: Node, channels: int | None = None, level: Level | None = None, **more: Any
    ) -> Node:
        """Records features that this op makes."""
        made = Node(
            op,
            list(inputs),
            inputs[0].level if level is None else level,
            inputs[0].channels if channels is None else channels,
            self.recorder.path,
            **more,
        )
        self.recorder.nodes.append(made)
        return made


class Recorder(TorchDispatchMode):
    """Follows tensors from op to op while a module runs.

    Attributes:
        nodes: the features that were made, in order.
        root: the level of the caller's coordinates, as soon as it is known.
        dtype: of the first input.
        batch: the number of clouds, as far as it is known.
        bounds: of the caller's coordinates, where the module declares them.
        seen: the names of the module's parameters and buffers that an op has read.
        dropouts: the modules that call a dropout, which does nothing in eval mode.
    """

    def __init__(self, module: nn.Module, shape: Sequence[int] | None) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self.root: Level | None = None
        self.dtype = torch.float32
        self.batch = 0
        self.bounds: Bounds | None = None
        self.seen: set[str] = set()
        self.dropouts: set[str] = set()
        self.given_shape = None if shape is None else tuple(shape)
        #: Whether the root's shape is only that of the bounds, which do not limit what kernels reach.
        self.is_shape_guessed = False
        #: Whether a kernel reaches cells without limits.
        self.is_unlimited = False
        #: The level of the results of global poolings, which has no axes.
        self.clouds = Level(0)
        self._values: dict[int, tuple[torch.Tensor, Value]] = {}
        self._tainted: dict[int, tuple[torch.UntypedStorage, Unknown]] = {}
        self._owned: dict[int, dict[int, None]] = {}
        self._names = {id(part): plain_name(name) for name, part in reversed(list(module.named_modules()))}
        self._stack: list[str] = [""]
        self._hooks: list[Any] = []
        #: By the memory of parameters: the first and the last address of each one there, and its name.
        self._parameters: dict[int, list[tuple[int, int, str]]] = {}
        for name, tensor in module.state_dict(keep_vars=True).items():
            if isinstance(tensor, torch.Tensor) and tensor.numel():
                last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
                first = tensor.data_ptr()
                place = (first, first + last * tensor.element_size(), plain_name(name))
                self._parameters.setdefault(_storage(tensor), []).insert(0, place)

    def __enter__(self) -> Recorder:
        def enter(module: nn.Module, _: Any) -> None:
            self._stack.append(self._names.get(id(module), self.path))

        def leave(*_: Any) -> None:
            self._stack.pop()

        self._hooks.append(register_module_forward_pre_hook(enter))
        self._hooks.append(register_module_forward_hook(leave, always_call=True))
        self._token = keeps_shapes.set(True)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        keeps_shapes.reset(self._token)
        for hook in self._hooks:
            hook.remove()

    @property
    def path(self) -> str:
        """The module that runs now."""
        return self._stack[-1]

    def parameter_name(self, tensor: torch.Tensor) -> str | None:
        """Returns the name in the module's state dict of the parameter whose memory a tensor has."""
        places = self._parameters.get(_storage(tensor))
        if places is None:
            return None
        address = tensor.data_ptr()
        return next((name for first, last, name in places if first <= address <= last), None)

    def find(self, tensor: torch.Tensor) -> Value | None:
        """Returns what is known of a tensor; None for a constant."""
        found = self._values.get(id(tensor))
        if found is not None:
            return found[1]
        storage = _storage(tensor)
        tainted = self._tainted.get(storage)
        if tainted is not None:
            return tainted[1]
        for number in self._owned.get(storage, {}):
            other, value = self._values[number]
            if _layout(other) == _layout(tensor) and other.dtype == tensor.dtype:
                return value
        if storage in self._owned:
            reason = f"it looks at the memory of a tensor that depends on the input, by no op of torch: {ADVICE}"
            return Unknown("a tensor", self.path, reason, True)
        return None

    def bind(self, tensor: torch.Tensor, value: Value) -> None:
        """Says what a tensor is."""
        self._values[id(tensor)] = (tensor, value)
        self._owned.setdefault(_storage(tensor), {})[id(tensor)] = None

    def add_input(self, features: torch.Tensor, name: str, level: Level | None = None) -> None:
        """Says that a tensor is an argument of the module with features [rows, channels]."""
        level = UnknownLevel() if level is None else level
        if not self.nodes:
            self.dtype = features.dtype
        node = Node("input", [], level, features.shape[1], "", name=name)
        self.nodes.append(node)
        self.bind(features, node)

    def inputs(self) -> dict[str, torch.Tensor]:
        """Returns the arguments that are features, by their names, without those that the module has changed."""
        values = self._values.values()
        return {value.name: tensor for tensor, value in values if isinstance(value, Node) and value.op == "input"}

    def coordinates(self) -> torch.Tensor:
        """Returns the coordinates of the root, of which there must be some."""
        values = self._values.values()
        return next(tensor for tensor, value in values if isinstance(value, Coordinates) and value.level is self.root)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an op, and records it."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        call = Call(self, func, args, kwargs, result)
        for tensor in call.given:
            name = self.parameter_name(tensor)
            if name is not None:
                self.seen.add(name)
        self._record(call)
        return result

    def check_read(self, tensor: Any, name: str) -> None:
        """Raises ExportError where Python reads the numbers of features without an op."""
        value = self.find(tensor) if isinstance(tensor, torch.Tensor) else None
        if _is_of_features(value):
            raise Unknown(name, self.path, _READ, True).error()

    def _record(self, call: Call) -> None:
        values = [value for value in map(self.find, call.given) if value is not None]
        if not values and not call.name.startswith("minuet::"):
            return
        of_features = call.name in _LAYERS or any(map(_is_of_features, values))
        if call.name in _READS and of_features:
            raise call.refusal(_READ)
        unknown = next((value for value in values if isinstance(value, Unknown)), None)
        described = RULES.get(call.name)
        found: Found
        if unknown is not None and call.name != "minuet::pyramid":
            found = self._unknown_of(call, unknown, of_features)
        elif described is None:
            found = self._unknown(call, f"no layer of a network computes it; {ADVICE}", of_features)
        else:
            try:
                found = described(call)
            except DescriptionError as error:
                found = self._unknown(call, str(error), of_features)
        self._keep(call, found)

    def _unknown(self, call: Call, reason: str, of_features: bool) -> Unknown:
        return Unknown(call.full_name, self.path, reason, of_features)

    def _unknown_of(self, call: Call, unknown: Unknown, of_features: bool) -> Unknown:
        """Returns what an op makes of a tensor that cannot be described."""
        if not unknown.is_argument:
            return Unknown(unknown.op, unknown.path, unknown.reason, unknown.of_features or of_features)
        is_float = any(tensor.is_floating_point() for tensor in call.results)
        return self._unknown(call, unknown.reason, of_features or is_float)

    def _keep(self, call: Call, found: Found) -> None:
        """Binds the results of a call, and what else has their memory where the op changed it in place."""
        several = found if isinstance(found, tuple) else (found,) * len(call.results)
        for tensor, value in zip(call.results, several, strict=False):
            if call.is_mutable:
                self._change(call, tensor, value)
            elif value is not None:
                self.bind(tensor, value)
        if call.is_mutable and not call.results:
            for tensor in call.given:
                self._change(call, tensor, self._unknown(call, f"it changes tensors in place: {ADVICE}", True))

    def _change(self, call: Call, tensor: torch.Tensor, value: Value | None) -> None:
        """Notes that an op changed a tensor in place: what has the same memory is the same, or not known any more."""
        storage = _storage(tensor)
        before = self._values.get(id(tensor))
        stale = Unknown(
            call.full_name, self.path, "it changes a part of a tensor in place: write it without that", True
        )
        for number in self._owned.get(storage, {}):
            other, old = self._values[number]
            is_same = before is not None and old is before[1] and _layout(other) == _layout(tensor)
            self._values[number] = (other, value if is_same and value is not None else stale)
        if value is None:
            return
        if before is None:
            # A constant has taken in numbers of the input. Views of it have the same memory.
            value = value if isinstance(value, Unknown) else stale
            self._tainted[storage] = (tensor.untyped_storage(), value)
        self.bind(tensor, value)


class Reads(TorchFunctionMode):
    """Sees calls that a Recorder would not see: those by which Python reads the numbers of a tensor without an op, and
    dropouts, which in eval mode are none."""

    _NAMES = ("tolist", "numpy", "__array__", "__dlpack__")

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls a function of torch."""
        name = getattr(func, "__name__", "")
        if name in self._NAMES and args:
            self._recorder.check_read(args[0], name)
        if name.rstrip("123d_").endswith("dropout") and _rate(args, kwargs or {}) != 0:
            self._recorder.dropouts.add(self._recorder.path)
        return func(*args, **(kwargs or {}))


def _rate(args: Any, kwargs: Any) -> Any:
    """Returns what share of the numbers a call of a dropout sets to 0."""
    return kwargs.get("p", args[1] if len(args) > 1 else None)


def plain_name(name: str) -> str:
    """Returns a name without what torch.compile puts into it."""
    return name.replace("_orig_mod.", "").removesuffix("._orig_mod")


def _storage(tensor: torch.Tensor) -> int:
    """Returns what tells the memory of a tensor from that of others."""
    address = int(tensor.untyped_storage().data_ptr()) if tensor.layout is torch.strided else 0
    return address or id(tensor)


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset()


def _is_of_features(value: Value | None) -> bool:
    """Whether a tensor has features, or depends on them."""
    return isinstance(value, Node | Dense) or (isinstance(value, Unknown) and value.of_features)
