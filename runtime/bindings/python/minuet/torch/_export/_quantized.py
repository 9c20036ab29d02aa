"""Makes networks of 8 bits of trained modules."""

from __future__ import annotations

import json
import pathlib
import tempfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ..._device import Device
from ..._quantize import quantize as quantize_network
from ..._quantize_search import Calibration
from ..._quantized import QuantizedLayer
from .._places import context as shared_context
from . import export, record, root_of
from ._exported import Exported, safetensors
from ._recorder import Recorder
from ._values import ExportError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class QuantizedExported(Exported):
    """A network of 8 bits that was made of a module. Its weights are those of the floating network.

    Attributes:
        layers, relative_error, report: as minuet.quantize gives them.
    """

    layers: tuple[QuantizedLayer, ...] = ()
    relative_error: float | None = None
    report: dict[str, Any] | None = None


def quantize(
    module: nn.Module,
    clouds: Iterable[Any],
    path: Any = None,
    *,
    calibration: Calibration | None = None,
    percentile: float | None = None,
    floating: Collection[str] = (),
    error_budget: float = 0,
    compare: bool = False,
    name: str | None = None,
    shape: Sequence[int] | None = None,
    outputs: Sequence[str] | None = None,
    archs: Sequence[str] = (),
    dtype: Any = None,
) -> QuantizedExported:
    """Makes a network of 8 bits of a trained module, as export() makes one of floating numbers.

    The module runs on each cloud, and twice on the first, in eval mode and without gradients. The network that export()
    makes of it then runs on these clouds in floating numbers, on the CPU, and the ranges of its convolutions follow
    from these results (calibration). Convolutions compute in 8 bits where they can. Clouds should be like those that
    will be run: numbers beyond a range are limited to it. All clouds are kept in host memory.

    Args:
        module: what is quantized. Its train or eval modes are the same afterwards.
        clouds: for each one the argument of the module, or a tuple of its arguments, as the example of export(). The
            network is made of the first one.
        path: a folder. NAME.json, NAME.safetensors and the bundles are written there. None: nothing is written.
        calibration, percentile: how a range follows from numbers: as for minuet.quantize.
        floating: the names of convolutions that keep floating numbers, as `layers` of the result names them.
        error_budget: the largest relative error of the outputs, against the network that export() makes; 0: no limit.
            The convolutions with the largest errors of their own keep floating numbers, as few as needed.
        compare: the results of all convolutions, and the outputs, are compared with those of that network.
            minuet.quantize says how many times both make networks run over the clouds.
        name, shape, outputs, archs: as for export().
        dtype: in which the network runs on the clouds, and its dtype by default; None: that of the features.

    Returns:
        The network, as export() returns it, with its convolutions.

    Raises:
        ExportError: the module does something that no layer of a network does.
        TypeError: floating is a string.
        ValueError: there is no cloud, or what minuet.quantize raises it for.
    """
    if archs and path is None:
        raise ValueError("archs is given, and bundles need a folder: give path")
    examples = list(clouds)
    if not examples:
        raise ValueError("clouds is empty: give at least one")
    made = export(module, examples[0], name=name, shape=shape, outputs=outputs, dtype=dtype)
    module = getattr(module, "_orig_mod", module)  # What torch.compile made its module of.
    given, batch_size = [], 1
    for number, example in enumerate(examples):
        recorder = record(module, example, shape)[0]
        given.append(_arrays(recorder, made, number))
        batch_size = max(batch_size, recorder.batch)
        del recorder  # It holds all tensors of the run, and the next run needs the memory.
    context = shared_context()
    with tempfile.TemporaryDirectory() as folder, Device(context, "cpu") as device:
        weights = pathlib.Path(folder) / "weights.safetensors"
        weights.write_bytes(safetensors(made.weights, {"minuet.weights_order": "minuet"}))
        quantized = quantize_network(
            context,
            device,
            given,
            description=made.text(),
            weights=weights,
            dtype=made.dtype,
            calibration=calibration,
            percentile=percentile,
            floating=floating,
            error_budget=error_budget,
            compare=compare,
            batch_size=batch_size,
        )
    description = json.loads(quantized.description)
    result = QuantizedExported(
        made.name, description, made.weights, made.dtype, quantized.layers, quantized.relative_error, quantized.report
    )
    if path is not None:
        result.save(path, archs=archs)
    return result


def _arrays(recorder: Recorder, made: Exported, number: int) -> list[Array]:
    """Returns the coordinates that a network of the module takes for a cloud, and the features of its inputs."""
    root_of(recorder)
    inputs = recorder.inputs()
    missing = [name for name in made.inputs if name not in inputs]
    if len(made.inputs) == 1 and len(inputs) == 1:
        features = list(inputs.values())
    elif missing:
        raise ExportError(
            f"cloud {number} has no features {missing[0]!r}, or the module changes them in place: give all clouds the "
            "same arguments, and copies of what is changed"
        )
    else:
        features = [inputs[name] for name in made.inputs]
    return [array_of(recorder.coordinates()), *(array_of(tensor) for tensor in features)]


def array_of(tensor: torch.Tensor) -> Array:
    """Returns a tensor as the Python package takes it: bfloat16 by its bits."""
    tensor = tensor.detach().cpu().contiguous()
    array: Array = tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()
    return array
