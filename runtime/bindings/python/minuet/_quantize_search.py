"""Runs a network on clouds in floating numbers and in 8 bits: the ranges of its results, and the errors of 8 bits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

from . import _abi
from ._arrays import host_floats
from ._device import Device
from ._errors import FailedPreconditionError, InvalidArgumentError
from ._execution import Execution
from ._magnitudes import Difference, Floats, Magnitudes
from ._plan import Plan
from ._quantized import LAYER_OUTPUT, Quantized, observe, with_ranges

Calibration = Literal["max", "percentile", "mse"]
Cloud = Sequence[Any]
Results = dict[str, Floats]


class Network:
    """A network that is ready to run on clouds."""

    def __init__(self, plan: Plan, device: Device, batch_size: int) -> None:
        plan.load(device)
        self._device, self._outputs = device, plan.outputs
        self._execution = Execution(plan, device, batch_size=batch_size)
        #: The rows that outputs had so far on levels that ops make in a run.
        self._room = [0] * len(self._outputs)

    def run(self, cloud: Cloud) -> Results:
        """Returns the outputs by their names, without those of integers, which have no error."""
        coordinates, *features = cloud
        self._execution.prepare(self._device.to_device(coordinates))
        results = self._run([self._device.to_device(each) for each in features], len(coordinates))
        return {
            info.name: host_floats(self._device.to_host(result)[: self._execution.output_shape(number)[0]], info.name)
            for number, (info, result) in enumerate(zip(self._outputs, results, strict=True))
            if info.dtype != "int32"
        }

    def _run(self, features: list[Any], rows: int) -> list[Any]:
        """Runs what is prepared. Where ops make levels in a run, the numbers of their rows are known only after it: a
        run whose outputs have too few rows fails, and is repeated with larger outputs."""
        shapes = [self._shape(number) for number in range(len(self._outputs))]
        made = [number for number, shape in enumerate(shapes) if shape is None]
        for number in made:
            self._room[number] = max(self._room[number], rows)
        while True:
            results = [
                self._device.empty(shape or (room, info.channels), info.dtype)
                for shape, room, info in zip(shapes, self._room, self._outputs, strict=True)
            ]
            try:
                self._execution.run(*features, out=results)
                return results
            except InvalidArgumentError:
                needed = {number: shape[0] for number in made if (shape := self._shape(number))}
                if all(self._room[number] >= count for number, count in needed.items()):
                    raise
                for number, count in needed.items():
                    self._room[number] = max(self._room[number], count)

    def _shape(self, output: int) -> tuple[int, ...] | None:
        try:
            return self._execution.output_shape(output)
        except FailedPreconditionError:
            return None  # An op makes its level in a run.


class Errors:
    """Compares the outputs of a network with those of another one."""

    def __init__(self) -> None:
        self.all, self.outputs = Difference(), dict[str, Difference]()
        #: Says for each output that has another number of rows why it has no error.
        self.notes: list[str] = []

    def add(self, references: Results, given: Results) -> None:
        for name, reference in references.items():
            output = self.outputs.setdefault(name, Difference())
            one, other = len(reference), len(given[name])
            if one != other and output.has_same_size:
                self.notes.append(
                    f"'{name}' has {one} row{'s' * (one != 1)} in floating numbers and {other} in 8 bits, because the "
                    "network chooses voxels by scores: no error"
                )
            for difference in (self.all, output):
                difference.add(reference, given[name])


class Search:
    """Runs a network on clouds, in floating numbers and in 8 bits, and finds the convolutions to leave floating."""

    def __init__(self, plan: Plan, device: Device, batch_size: int, options: dict[str, Any]) -> None:
        self._plan, self._device, self._batch_size, self._options = plan, device, batch_size, options
        self._observed = observe(plan)
        self._clouds: list[Cloud] = []
        self._references: list[Results] = []
        self._ranges: dict[str, float] = {}
        #: How many networks were run over the clouds.
        self.runs = 0
        #: The numbers of voxels of the clouds.
        self.voxels: list[int] = []

    def _open(self, description: str) -> Network:
        self.runs += 1
        plan = Plan.network(self._plan.context, description=description, **self._options)
        return Network(plan, self._device, self._batch_size)

    def calibrate(self, clouds: Iterable[Cloud], calibration: Calibration, percentile: float, keep: bool) -> None:
        """Runs the floating network, and finds the ranges of all convolutions. `keep`: the clouds and the outputs are
        kept for measure() and compare()."""
        network = self._open(self._observed)
        own = [info.name for info in self._plan.outputs]
        magnitudes: dict[str, Magnitudes] = {}
        for number, cloud in enumerate(clouds):
            results = network.run(cloud)
            # The layers come first, because an output follows from them.
            for name in sorted(results, key=lambda name: not _is_layer(name)):
                if not magnitudes.setdefault(name, Magnitudes()).add(results[name]):
                    what = f"the result of {name.removeprefix(LAYER_OUTPUT)}" if _is_layer(name) else f"output {name!r}"
                    raise ValueError(f"{what} is infinite or NaN on cloud {number}: use another dtype")
            self.voxels.append(len(cloud[0]))
            if keep:
                self._clouds.append(cloud)
                self._references.append({name: results[name] for name in own if name in results})
        if not self.voxels:
            raise ValueError("clouds is empty: give at least one")
        if not any(self.voxels):
            raise ValueError("no cloud has a voxel, so that there are no ranges: give clouds with voxels")
        for name in filter(_is_layer, magnitudes):
            layer = name.removeprefix(LAYER_OUTPUT)
            self._ranges[layer] = _checked(layer, magnitudes[name].range(calibration, percentile), calibration)

    def describe(self, floating: Collection[str]) -> Quantized:
        """Describes the network in which all convolutions that can, except those in `floating`, compute in 8 bits."""
        return with_ranges(self._plan, self._ranges, floating)

    def measure(self, quantized: Quantized) -> Errors:
        """Compares the outputs of the quantized network with those of the floating one."""
        network, errors = self._open(quantized.description), Errors()
        for cloud, references in zip(self._clouds, self._references, strict=True):
            errors.add(references, network.run(cloud))
        return errors

    def own_errors(self, able: Collection[str]) -> dict[str, float]:
        """Measures the error of each convolution of `able`, with all others in floating numbers."""
        errors = {}
        for name in able:
            alone = self.describe([other for other in self._ranges if other != name])
            if any(layer.is_int8 for layer in alone.layers):
                errors[name] = self.measure(alone).all.relative
        return errors

    def leave_out(self, order: Sequence[str], floating: Collection[str], budget: float) -> tuple[Quantized, Errors]:
        """Leaves the fewest convolutions at the start of `order` floating with which the error is within the budget.
        More of them left out are taken to mean a smaller error.

        Returns:
            The network and its errors, which may be above the budget where all of them are left out.
        """
        # Without `fails` of them the error is too large. Without `fits` of them it is not: then all are left out.
        fails, fits, found = 0, len(order), None
        while fits - fails > 1:
            middle = (fails + fits) // 2
            quantized = self.describe([*floating, *order[:middle]])
            errors = self.measure(quantized)
            if errors.all.relative <= budget:
                fits, found = middle, (quantized, errors)
            else:
                fails = middle
        if found is None:
            quantized = self.describe([*floating, *order])
            found = quantized, self.measure(quantized)
        return found

    def compare(self, quantized: Quantized) -> dict[str, Difference]:
        """Compares the results of all convolutions with those of the floating network."""
        floating = self._open(self._observed)
        plan = Plan.network(self._plan.context, description=quantized.description, **self._options)
        network = self._open(observe(plan))
        differences = {layer.name: Difference() for layer in quantized.layers}
        for cloud in self._clouds:
            references, given = floating.run(cloud), network.run(cloud)
            for name, difference in differences.items():
                difference.add(references[LAYER_OUTPUT + name], given[LAYER_OUTPUT + name])
        return differences


def _is_layer(output: str) -> bool:
    return output.startswith(LAYER_OUTPUT)


def _checked(layer: str, found: float, calibration: Calibration) -> float:
    """Returns the range for a description. Results whose magnitudes are all below the least range count as zeros."""
    if found > _abi.MINUET_GREATEST_RANGE:
        hint = ", or give calibration='percentile', which leaves the largest numbers out"
        raise ValueError(
            f"the result of {layer} has the range {found:g}, but ranges are at most {_abi.MINUET_GREATEST_RANGE:g}: "
            f"check the weights and the clouds{hint if calibration == 'max' else ''}"
        )
    return 0.0 if found < _abi.MINUET_LEAST_RANGE else found
