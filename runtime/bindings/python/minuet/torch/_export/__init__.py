"""Exports a trained module as a description of a network and its weights."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import torch
from torch import nn

from .._sparse_tensor import SparseTensor
from ..spconv.core import SparseConvTensor
from . import _dense_rules, _row_rules, _sparse_rules
from ._describe import Describer, Output
from ._exported import Exported
from ._recorder import Reads, Recorder
from ._values import Coordinates, Dense, ExportError, Level, Node, Unknown, Value

__all__ = ["ExportError", "Exported", "export"]

assert _dense_rules and _row_rules and _sparse_rules  # They register their rules.


def export(
    module: nn.Module,
    example: Any,
    path: Any = None,
    *,
    name: str | None = None,
    shape: Sequence[int] | None = None,
    outputs: Sequence[str] | None = None,
    archs: Sequence[str] = (),
    dtype: Any = None,
) -> Exported:
    """Makes a network of a module: its description, and its parameters in Minuet's order.

    The module runs once on the example, in eval mode and without gradients, and its ops are recorded. A batch norm
    behind a convolution becomes the norm of that layer, and what no result needs is left out.

    Plan.network runs the network. Its rows have the order of the module's: that of the caller on the level of the
    input, and that of the library on other levels. On the CPU, in float32:

    - Convolutions, inverse convolutions, poolings, ReLUs, sums, products and concats have the bits of the module, and
      so has minuet.torch.BatchNorm behind a convolution without a bias.
    - Some roundings differ in batch norms of torch, which a network folds into its convolutions; in transposed
      convolutions, which add in another order; and in linear layers, other norms and functions such as the sigmoid,
      for which torch has other kernels.

    In float16 and bfloat16, a network that computes several ops in one kernel rounds once, and the module after each
    op. On a GPU, a network may choose other kernels than the module's single ops, which add in another order.

    Args:
        module: what is exported. Its train or eval modes are the same afterwards.
        example: its argument, or a tuple of its arguments, with two voxels or more. The input of the network is the
            SparseConvTensor or the SparseTensor in it, or else the features [rows, channels] and the coordinates of
            which the module makes one. They may lie in lists, tuples and dicts.
        path: a folder. NAME.json, NAME.safetensors and the bundles are written there. None: nothing is written.
        name: of the network and of the files; None: that of the module's class.
        shape: cells of the input along each axis, where neither the example nor the module tells them.
        outputs: names of those results that the network is to give; None: all.
        archs: architectures such as "sm_90a", for each of which a bundle of kernels is compiled into the folder.
        dtype: of the bundles; None: that of the example's features.

    Returns:
        The network. A single result is called "output", those in a tuple or a list "output.0" and so on, and those in a
        dict by their keys. Results that are no features, and features of the example, are left out.

    Raises:
        ExportError: the module does something that no layer of a network does. The message names the op and the module.
    """
    module = getattr(module, "_orig_mod", module)  # What torch.compile made its module of.
    if archs and path is None:
        raise ValueError("archs is given, and bundles need a folder: give path")
    title = type(module).__name__ if name is None else name
    if not title or set(title) & set("/\\"):
        raise ValueError(f"name is {title!r}, and files are called by it: give a name without slashes")
    recorder, _, result = record(module, example, shape)
    found = _results(recorder, result, outputs)
    description, weights = Describer(recorder.nodes, found, root_of(recorder)).description(title)
    made = Exported(title, description, weights, dtype or str(recorder.dtype).removeprefix("torch."))
    if path is not None:
        made.save(path, archs=archs)
    return made


def record(module: nn.Module, example: Any, shape: Sequence[int] | None) -> tuple[Recorder, tuple[Any, ...], Any]:
    """Runs a module on an example, in eval mode and without gradients.

    Returns:
        What was recorded, the arguments that the module was given, with new sparse tensors, and its result.
    """
    recorder = Recorder(module, shape)
    arguments = example if isinstance(example, tuple) else (example,)
    given = tuple(_fresh(argument, recorder, f"input.{number}") for number, argument in enumerate(arguments))
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        # Parts that torch.compile made run op by op, so that the recorder sees their ops.
        # In inference mode, torch would not tell the recorder of the ops that an op consists of.
        with (
            torch.inference_mode(False),
            torch.no_grad(),
            torch.compiler.set_stance("force_eager"),
            Reads(recorder),
            recorder,
        ):
            result = module(*given)
    finally:
        for part, training in modes:
            part.training = training
    return recorder, given, result


def root_of(recorder: Recorder) -> Level:
    """Returns the level of the caller's coordinates.

    Raises:
        ExportError: no sparse layer told them.
    """
    if recorder.root is None:
        raise ExportError(
            "the module runs no sparse layer, so that its coordinates are not known: give a SparseConvTensor or a "
            "SparseTensor in the example"
        )
    return recorder.root


def _fresh(value: Any, recorder: Recorder, name: str) -> Any:
    """Returns an argument with new sparse tensors, which have no levels and maps yet, and tells the recorder of it."""
    if isinstance(value, SparseConvTensor):
        _check_rows(value.features, name)
        made = SparseConvTensor(value.features, value.indices, value.spatial_shape, value.batch_size)
        if value.count is not None:
            raise ExportError(_CAPACITY)
        _note(recorder, made.features, made.indices, made.level.shape, value.batch_size, name)
        return made
    if isinstance(value, SparseTensor):
        _check_rows(value.features, name)
        if value.count is not None:
            raise ExportError(_CAPACITY)
        level = value.level
        batch = level.geometry.batch_size
        fresh = SparseTensor.of(value.features, level.coordinates, shape=level.shape, batch_size=batch)
        _note(recorder, fresh.features, fresh.coordinates, level.shape, batch, name)
        return fresh
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() and value.dim() == 2 and value.shape[0] > 1:
            recorder.add_input(value, name)
        else:
            recorder.bind(value, _argument(name, value))
        return value
    if isinstance(value, Mapping):
        items = {key: _fresh(item, recorder, str(key)) for key, item in value.items()}
        if not isinstance(value, MutableMapping):
            return items
        same = copy.copy(value)  # A module may ask more of its argument than of a dict.
        same.update(items)
        return same
    if isinstance(value, list | tuple):
        parts = [_fresh(item, recorder, f"{name}.{number}") for number, item in enumerate(value)]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


_CAPACITY = (
    "the example is in capacity mode: make its sparse tensor without count and capacities. The exported network has "
    "both modes"
)


def _check_rows(features: torch.Tensor, name: str) -> None:
    if features.shape[0] < 2:
        raise ExportError(
            f"{name} has {features.shape[0]} rows: give an example of two voxels or more, so that rows can be told "
            "from constants"
        )


def _argument(name: str, value: torch.Tensor) -> Unknown:
    text = (
        f"the argument {name!r} is {value.dtype} of the shape {list(value.shape)}, and layers read features "
        "[rows, channels] of two rows or more: compute the rest in the program, and export the part of the module "
        "behind it"
    )
    return Unknown("an argument", "", text, value.is_floating_point(), is_argument=True)


def _note(recorder: Recorder, features: Any, coordinates: Any, shape: Any, batch: int, name: str) -> None:
    known = recorder.find(coordinates)
    if recorder.root is None:
        if shape is not None and recorder.given_shape not in (None, tuple(shape)):
            raise ExportError(f"shape is {recorder.given_shape}, and the example has {tuple(shape)}: leave shape out")
        recorder.given_shape = recorder.given_shape or shape
        root = _sparse_rules.new_root(recorder, coordinates.shape[1] - 1)
        recorder.bind(coordinates, Coordinates(root))
        recorder.batch = max(batch, int(coordinates[:, 0].max()) + 1)
        recorder.add_input(features, name, root)
    elif isinstance(known, Coordinates):
        recorder.add_input(features, name, known.level)
    else:
        text = f"the argument {name!r} is on other coordinates than the first sparse tensor: give both the same indices"
        recorder.bind(features, Unknown("an argument", "", text, True, is_argument=True))


def _results(recorder: Recorder, result: Any, wanted: Sequence[str] | None) -> list[Output]:
    """Finds the features among what the module returned."""
    found: dict[str, Output] = {}

    def walk(value: Any, name: str, prefix: str) -> None:
        if isinstance(value, Mapping):
            for key, item in value.items():
                walk(item, f"{prefix}{key}", f"{prefix}{key}.")
        elif isinstance(value, list | tuple):
            for number, item in enumerate(value):
                walk(item, f"{prefix or 'output.'}{number}", f"{prefix or 'output.'}{number}.")
        else:
            tensor = value.features if isinstance(value, SparseConvTensor | SparseTensor) else value
            if isinstance(tensor, torch.Tensor) and (wanted is None or name in wanted):
                _keep(recorder, tensor, name, found)

    walk(result, "output", "")
    missing = [name for name in wanted or () if name not in found]
    if missing:
        raise ExportError(f"the module has no result {missing[0]!r} of features: it has {', '.join(found) or 'none'}")
    if not found:
        raise ExportError("the module returns no features that it computes from its input")
    return list(found.values())


def _keep(recorder: Recorder, tensor: torch.Tensor, name: str, found: dict[str, Output]) -> None:
    value = recorder.find(tensor)
    require_result(value, tensor, name)
    if isinstance(value, Dense) or (isinstance(value, Node) and value.op != "input"):
        if any(output.value == value for output in found.values()):
            raise ExportError(f"the result {name!r} is the same as another one: name one of them in `outputs`")
        found[name] = Output(name, value)


def require_result(value: Value | None, tensor: torch.Tensor, name: str) -> None:
    """Raises ExportError where a network cannot give what a result of the module is."""
    if isinstance(value, Unknown) and value.of_features and not value.is_argument:
        raise value.error()
    if isinstance(value, Dense) and not value.axes:
        raise ExportError(
            f"the result {name!r} is a dense tensor without axes: bring it to [batch, cells..., channels]"
        )
    has_channels = isinstance(value, Node) and value.op not in ("input", "argmax")
    if isinstance(value, Node) and has_channels and tensor.shape[1:] != (value.channels,):
        raise ExportError(
            f"the result {name!r} has the shape {list(tensor.shape)}, and a network gives [rows, channels]: return it "
            "so"
        )
