"""What export() makes, and the files of it."""

from __future__ import annotations

import json
import pathlib
import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._ahead import precompile
from ..._device import Context
from ..._plan import Plan
from .._places import context as shared_context

Arrays = Mapping[str, np.ndarray[Any, Any]]


def safetensors(arrays: Arrays, metadata: Mapping[str, str]) -> bytes:
    """Returns a file of the format safetensors with float32 tensors."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    parts, begin = [], 0
    for name, array in arrays.items():
        data = np.ascontiguousarray(array, dtype="<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [begin, begin + len(data)]}
        parts.append(data)
        begin += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # Readers that map the file find aligned numbers.
    return b"".join([struct.pack("<Q", len(text)), text, *parts])


@dataclass(frozen=True)
class Exported:
    """A network that was made of a module.

    Attributes:
        name: of the network and of its files.
        description: as runtime/network/networks/README.md says; Plan.network takes it.
        weights: the parameters by their names, float32 in Minuet's order.
        dtype: that of plans by default: the one that export() was given, or that of the example's features.
    """

    name: str
    description: dict[str, Any]
    weights: dict[str, np.ndarray[Any, Any]]
    dtype: Any

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs, in the order in which a run takes them."""
        return [item["name"] for item in self.description.get("inputs", [{"name": "input"}])]

    @property
    def outputs(self) -> list[str]:
        """The names of the results, in the order in which a run gives them."""
        return list(self.description["outputs"])

    def text(self) -> str:
        """Returns the description as JSON, with a line for each layer."""
        fields = dict(self.description)
        layers = ",\n".join(f"    {json.dumps(layer)}" for layer in fields.pop("layers"))
        lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in fields.items()]
        return "{\n" + ",\n".join([*lines, f'  "layers": [\n{layers}\n  ]']) + "\n}\n"

    def save(self, path: Any, *, archs: Sequence[str] = (), dtype: Any = None) -> None:
        """Writes NAME.json and NAME.safetensors to a folder, which is made where it is not there, and
        minuet-ARCH.bundle for each architecture.

        Raises:
            UnavailableError: bundles need NVRTC, which is not there.
        """
        folder = pathlib.Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.json").write_text(self.text(), encoding="utf-8")
        (folder / f"{self.name}.safetensors").write_bytes(safetensors(self.weights, {"minuet.weights_order": "minuet"}))
        if archs:
            plan = self.plan(dtype=dtype)
            precompile(plan.context, [plan], archs, output_directory=folder)

    def plan(self, context: Context | None = None, *, dtype: Any = None) -> Plan:
        """Makes a plan of the network with its weights.

        Args:
            context: None: the one that the ops of minuet.torch share.
            dtype: of features and weights; None: that of the exported network.
        """
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "weights.safetensors"
            file.write_bytes(safetensors(self.weights, {"minuet.weights_order": "minuet"}))
            return Plan.network(
                context or shared_context(), description=self.text(), dtype=dtype or self.dtype, weights=file
            )
