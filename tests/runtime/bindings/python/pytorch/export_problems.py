"""Runs of exported networks by the Python package, to be compared with the modules that they were made of."""

from __future__ import annotations

from typing import Any

import minuet
import minuet.torch
import numpy as np
import torch
from minuet.torch import spconv
from torch import nn

#: How far a float32 result may be off where the network rounds at other places than the module, in terms of its size.
BOUNDS = {torch.float32: 3e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def train_a_little(module: nn.Module) -> nn.Module:
    """Gives the vectors of a module, such as biases and the parameters and statistics of batch norms, random numbers as
    training would. Weights of layers have random numbers from the beginning."""
    generator = torch.Generator().manual_seed(5)
    for name, tensor in module.state_dict().items():
        if tensor.dim() == 1 and tensor.is_floating_point():
            if name.endswith(("running_var", "weight")):
                tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
            else:
                tensor.copy_(torch.randn(tensor.shape, generator=generator) / 4)
    return module


def array_of(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Returns features as the Python package takes them: bfloat16 by its bits."""
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.uint16).numpy()
    return tensor.numpy()


def tensor_of(array: np.ndarray[Any, Any], dtype: torch.dtype) -> torch.Tensor:
    """Returns an output as a tensor."""
    if dtype == torch.bfloat16 and array.dtype.itemsize == 2:
        return torch.from_numpy(array.view(np.uint16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array)


class Deployed:
    """An exported network on the CPU device, read from its files.

    Attributes:
        plan: the plan.
        execution: what runs it.
    """

    def __init__(self, exported: minuet.torch.Exported, folder: Any, batch_size: int, dtype: Any = None) -> None:
        exported.save(folder)
        context = minuet.Context()
        self.plan = minuet.Plan.network(
            context,
            description=(folder / f"{exported.name}.json").read_text(),
            weights=folder / f"{exported.name}.safetensors",
            dtype=dtype or exported.dtype,
        )
        device = minuet.Device(context, "cpu")
        self.plan.load(device)
        self.execution = minuet.Execution(self.plan, device, batch_size=batch_size)

    def __call__(self, coordinates: torch.Tensor, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Returns the outputs, whose memory had NaN before."""
        self.execution.prepare(coordinates.numpy())
        out = []
        for number, info in enumerate(self.plan.outputs):
            shape = self.execution.output_shape(number)
            kind = {"bfloat16": "uint16"}.get(info.dtype, info.dtype)
            out.append(
                np.frombuffer(b"\xff" * int(np.prod(shape)) * np.dtype(kind).itemsize, kind).reshape(shape).copy()
            )
        self.execution.run(*map(array_of, inputs), out=out)
        return [tensor_of(array, inputs[0].dtype) for array in out]


def features_of(result: Any) -> list[torch.Tensor]:
    """Returns the features of a module's result, in the order in which export() names them."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, spconv.SparseConvTensor | minuet.torch.SparseTensor):
        return [result.features]
    if isinstance(result, dict):
        result = list(result.values())
    return [tensor for item in result for tensor in features_of(item)]


def expect_equal(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """Compares bits."""
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    assert torch.equal(found, wanted), f"off by {(found.double() - wanted.double()).abs().max()}"


def expect_near(found: torch.Tensor, wanted: torch.Tensor, bound: float | None = None) -> None:
    """Compares with the bound of the dtype, in terms of the largest value."""
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    limit = BOUNDS[wanted.dtype] if bound is None else bound
    wanted = wanted.detach()
    worst = float((found.double() - wanted.double()).abs().max())
    assert worst <= limit * max(float(wanted.double().abs().max()), 1e-3), f"off by {worst}"
