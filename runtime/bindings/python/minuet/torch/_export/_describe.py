"""Writes the record of a module as a description of a network, with the values of its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ._sparse_rules import kernel_fields
from ._values import BATCH, CHANNELS, Dense, ExportError, Level, Node, UnknownLevel, compact

_CONVOLUTIONS = ("block", "transposed", "generative_up")
_ACTIVATIONS = ("relu", "leaky_relu", "gelu", "silu", "sigmoid", "tanh")
#: Layers that have a name. The others are functions of one or two results.
_NAMED = (
    "block", "up", "inverse", "generative_up", "linear", "batch_norm", "layer_norm", "scale_shift", "max_pool",
    "average_pool", "sum_pool", "unpool", "global_pool",
)  # fmt: skip
_COMMUTES = ("add", "multiply")
#: Ops that lead from a coarser level back to the finer one.
_LEADS_BACK = ("transposed", "unpool")
#: What a network calls its input where it has only one.
_INPUT = "input"
#: The epsilon of a norm that a description need not name.
_EPSILON = 1e-5


@dataclass
class Output:
    """One result of the module.

    Attributes:
        name: in the description.
        value: the features or the dense tensor.
    """

    name: str
    value: Node | Dense


@dataclass(eq=False)
class _Unit:
    """One layer of the description.

    Attributes:
        node: whose op it has.
        last: whose result it gives: a batch norm and an activation behind a convolution belong to its layer.
        fields, parameters: of the layer.
    """

    node: Node
    last: Node
    fields: dict[str, Any]
    parameters: dict[str, Any]
    reads: list[Node] = field(default_factory=list)
    name: str = ""
    result: str = ""


class Describer:
    """Makes a description of recorded features.

    Args:
        nodes: all that was recorded, in order.
        outputs: what the network gives.
        root: the level of the caller's coordinates.

    Attributes:
        inputs: features that the network reads, in its order; known when description() has run, as all of these.
        levels: with coordinates, in the order of their numbers in the network.
        parameters: by their names in the network, as the nodes have them.
    """

    inputs: list[Node]
    levels: list[Level]
    parameters: dict[str, torch.Tensor]

    def __init__(self, nodes: Sequence[Node], outputs: Sequence[Output], root: Level) -> None:
        self._nodes, self._outputs, self._root = nodes, outputs, root
        self._order = {id(node): number for number, node in enumerate(nodes)}
        for node in nodes:
            if isinstance(node.level.resolve(), UnknownLevel):
                node.level.resolve().become(root)
        self._live: dict[int, Node] = {}
        #: The layer or the result that a layer names beside those that it reads.
        self._named_by: dict[int, Node] = {}
        self._find_live()
        self._readers: dict[int, list[Node]] = {}
        for node in self._live.values():
            for read in node.inputs:
                self._readers.setdefault(id(read), []).append(node)
        self._given = {id(_node_of(output)) for output in outputs}

    def _find_live(self) -> None:
        """Finds what the outputs need. Layers that lead back need a layer, or a result, to name."""
        waiting = [_node_of(output) for output in self._outputs]
        while waiting:
            while waiting:
                node = waiting.pop()
                if id(node) not in self._live:
                    self._live[id(node)] = node
                    waiting += node.inputs
            for node in list(self._live.values()):
                if node.op in _LEADS_BACK and id(node) not in self._named_by:
                    found = self._way_back(node)
                    self._named_by[id(node)] = found
                    waiting.append(found)

    def _way_back(self, node: Node) -> Node:
        assert node.window is not None
        before = self._nodes[: self._order[id(node)]]
        if _is_up(node):
            fine = node.window[0]
            found = [other for other in before if other.level.resolve() is fine and other.op != "argmax"]
        else:
            found = [other for other in before if other.window == node.window and other.op not in _LEADS_BACK]
        live = [other for other in found if id(other) in self._live]
        if not found:
            raise ExportError(
                f"the layer {node.path!r} leads back over a kernel map that no earlier layer has: give it the kernel "
                "of the layer that made its coarser level"
            )
        return (live or found)[0]

    # ---- layers ---------------------------------------------------------------------------------------------------

    def _only_reader(self, node: Node) -> Node | None:
        """Returns the one that reads a result, where there is one alone and the network does not give the result."""
        readers = self._readers.get(id(node), [])
        return readers[0] if len(readers) == 1 and id(node) not in self._given else None

    def _units(self) -> list[_Unit]:
        """Puts batch norms and activations into the layers before them. Each layer has the place of its first op, which
        is the only one that reads results of others."""
        taken: set[int] = set()
        units = []
        for node in sorted(self._live.values(), key=lambda node: self._order[id(node)]):
            if id(node) in taken or node.op == "input":
                continue
            unit = _Unit(node, node, dict(node.fields), dict(node.parameters), list(node.inputs))
            if node.op in _CONVOLUTIONS:
                self._take_norm(unit)
            if node.op in (*_CONVOLUTIONS, "linear"):
                self._take_activation(unit)
            if node.op == "scale_shift":
                self._take_shift(unit)
            _leave_out_defaults(unit.fields)
            taken.update(id(node) for node in _chain(unit))
            units.append(unit)
        return units

    def _take_norm(self, unit: _Unit) -> None:
        reader = self._only_reader(unit.last)
        if reader is None or reader.op != "batch_norm":
            unit.fields["norm"] = "none"
            return
        unit.fields.update(reader.fields)
        unit.parameters.update({f"bn.{name}": value for name, value in reader.parameters.items()})
        unit.last = reader

    def _take_activation(self, unit: _Unit) -> None:
        reader = self._only_reader(unit.last)
        if reader is None or reader.op not in _ACTIVATIONS:
            if unit.node.op != "linear":
                unit.fields["activation"] = "none"
            return
        name = "gelu_tanh" if reader.fields.get("approximate") == "tanh" else reader.op
        if name != "relu" or unit.node.op == "linear":
            unit.fields["activation"] = name
        if "slope" in reader.fields:
            unit.fields["slope"] = reader.fields["slope"]
        unit.last = reader

    def _take_shift(self, unit: _Unit) -> None:
        """Puts a shift into the scale before it, so that both are one layer."""
        reader = self._only_reader(unit.last)
        if "bias" in unit.node.absent and reader is not None and "weight" in reader.absent:
            unit.parameters["bias"] = reader.parameters["bias"]
            unit.last = reader

    # ---- names ----------------------------------------------------------------------------------------------------

    def description(self, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """Returns the description and the values of its parameters."""
        inputs = [node for node in self._nodes if node.op == "input" and id(node) in self._live]
        if not inputs:
            raise ExportError("no result of the module depends on features that it is given")
        inputs.sort(key=lambda node: node.level.resolve() is not self._root)
        if inputs[0].level.resolve() is not self._root:
            raise ExportError("the module reads no features on the coordinates that it is given")
        units = self._units()
        names = _Names([output.name for output in self._outputs])
        self._results = {id(node): names.unique(_INPUT if len(inputs) == 1 else node.name) for node in inputs}
        for unit in units:
            unit.name = names.unique(unit.node.name or unit.node.path or unit.node.op)
        self._unit_of = {id(node): unit for unit in units for node in _chain(unit)}
        for output in self._outputs:
            node = _node_of(output)
            if isinstance(output.value, Node):
                self._results.setdefault(id(self._unit_of[id(node)].last), output.name)
        layers, before = [], None
        for unit in units:
            layers.append(self._layer(unit, before, inputs[0]))
            before = unit
        layers += self._dense_layers()
        for layer, unit in zip(layers, units, strict=False):
            if id(unit.last) in self._results:
                layer["output"] = self._results[id(unit.last)]
        description: dict[str, Any] = {"name": name, "ndim": self._root.ndim}
        if len(inputs) == 1 and self._results[id(inputs[0])] == _INPUT:
            description["in_channels"] = inputs[0].channels
        else:
            description["inputs"] = [self._input(node) for node in inputs]
        if self._root.shape is not None:
            description["shape"] = list(self._root.shape)
        description["outputs"] = [output.name for output in self._outputs]
        description["layers"] = layers
        self.inputs, self.levels = inputs, self._levels(units)
        self.parameters = {f"{unit.name}.{key}": value for unit in units for key, value in unit.parameters.items()}
        weights = {
            name: np.array(value.to("cpu", torch.float32).numpy(), order="C") for name, value in self.parameters.items()
        }
        return description, weights

    def _levels(self, units: Iterable[_Unit]) -> list[Level]:
        """Returns the levels with coordinates in the order of their numbers in the network."""
        levels = [self._root]
        for unit in units:
            level = unit.node.level.resolve()
            if level.ndim and level not in levels:
                levels.append(level)
        return levels

    def _input(self, node: Node) -> dict[str, Any]:
        made: dict[str, Any] = {"name": self._results[id(node)], "channels": node.channels}
        first = next(iter(self._results.values()))
        if made["name"] != first:
            level = node.level.resolve()
            if level is not self._root:
                raise ExportError(
                    f"the argument {node.name!r} has features on another level than that of the caller's coordinates: "
                    "export the part of the module that ends before it"
                )
            made["level"] = first
        return made

    def _result(self, node: Node) -> str:
        """Returns the name of a result, which it gets if it has none."""
        last = self._unit_of[id(node)].last if id(node) in self._unit_of else node
        found = self._results.get(id(last))
        if found is None:
            unit = self._unit_of[id(node)]
            found = self._results[id(last)] = self._free_name(unit.name)
        return found

    def _free_name(self, name: str) -> str:
        return _Names(self._results.values(), [output.name for output in self._outputs]).unique(name)

    def _layer(self, unit: _Unit, before: _Unit | None, first: Node) -> dict[str, Any]:
        node = unit.node
        op = node.op
        more: dict[str, Any] = {}
        if op in _LEADS_BACK:
            named = self._named_by[id(node)]
            if _is_up(node):
                op, more = "up", {**_up_fields(node), "onto": self._result(named)}
            else:
                op = "inverse" if op == "transposed" else op
                more = {"of": self._unit_of[id(named)].name}
        layer: dict[str, Any] = {"op": op}
        if op in _NAMED:
            layer["name"] = unit.name
        reads = list(unit.reads)
        is_before = [_is_result_of(read, before, first) for read in reads]
        if op in _COMMUTES and is_before == [False, True]:
            reads.reverse()
            is_before.reverse()
        if not is_before[0]:
            layer["input"] = self._result(reads[0])
        if len(reads) > 1:
            layer["with"] = self._result(reads[1])
        layer.update(unit.fields)
        layer.update(more)
        return layer

    def _dense_layers(self) -> Iterable[dict[str, Any]]:
        for output in self._outputs:
            if isinstance(output.value, Dense):
                op, fields = _dense_op(output, output.value)
                yield {"op": op, "input": self._result(output.value.node), **fields, "output": output.name}


def _leave_out_defaults(fields: dict[str, Any]) -> None:
    for name, default in (("epsilon", _EPSILON), ("approximate", "none")):
        if fields.get(name) == default:
            del fields[name]


class _Names:
    """Names of which each occurs once."""

    def __init__(self, *taken: Iterable[str]) -> None:
        self._taken = {name for names in taken for name in names}

    def unique(self, name: str) -> str:
        """Returns the name, with a number behind it where it is taken."""
        found, number = name, 2
        while found in self._taken:
            found, number = f"{name}.{number}", number + 1
        self._taken.add(found)
        return found


def _chain(unit: _Unit) -> list[Node]:
    """Returns all nodes of a layer, from the last one to the first."""
    nodes = [unit.last]
    while nodes[-1] is not unit.node:
        nodes.append(nodes[-1].inputs[0])
    return nodes


def _is_result_of(node: Node, unit: _Unit | None, first: Node) -> bool:
    """Whether a layer reads this by default: the result of the layer before, and the first input at the beginning."""
    return node is first if unit is None else node is unit.last


def _node_of(output: Output) -> Node:
    return output.value.node if isinstance(output.value, Dense) else output.value


def _is_up(node: Node) -> bool:
    """Whether the op is an `up` in the description: it leads from the cells of a stride back to their voxels, whichever
    layer made these."""
    rule = None if node.window is None else node.window[1].rule
    return node.op == "transposed" and rule is not None and rule.kernel_size is None


def _up_fields(node: Node) -> dict[str, Any]:
    """Returns the fields of an `up` that say its kernel and stride."""
    assert node.window is not None
    _, coarse, kernel = node.window
    assert coarse.rule is not None
    fields = kernel_fields(kernel)
    if max(coarse.rule.stride) > 1:
        fields["stride"] = compact(coarse.rule.stride)
    return fields


def _dense_op(output: Output, dense: Dense) -> tuple[str, dict[str, Any]]:
    """Returns the op of the layer that makes a dense tensor, and the fields that say the order of its axes."""
    axes, ndim = dense.axes, dense.node.level.resolve().ndim
    cells = [(axis,) for axis in range(ndim)]
    if list(axes) == [(BATCH,), (CHANNELS,), *cells]:
        return "to_dense", {}
    if list(axes) == [(BATCH,), *cells, (CHANNELS,)]:
        return "to_dense", {"format": "channels_last"}
    if ndim == 3 and len(axes) == 4 and axes[0] == (BATCH,) and len(axes[1]) == 2 and axes[1][0] == CHANNELS:
        image = [axis for each in axes[2:] for axis in each]
        if sorted([axes[1][1], *image]) == [0, 1, 2]:
            return "birds_eye", {"image_axes": image}
    raise ExportError(
        f"the result {output.name!r} is a dense tensor with its axes in an order that no layer has: give "
        "[batch, channels, cells...], [batch, cells..., channels] or, of three axes, [batch, channels * Z, image axes]"
    )
