"""Makes networks of 8 bits, with ranges from clouds of the caller, and says how far their results are from those in
floating numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from ._ahead import version
from ._device import Context, Device
from ._magnitudes import Difference
from ._plan import Plan
from ._quantize_search import Calibration, Cloud, Errors, Search
from ._quantized import NAMED, Quantized, QuantizedLayer, check_names, with_ranges
from ._types import DTYPES, DType

#: Per cent of the numbers that are within a range of "percentile", unless the caller says another number.
_USUAL_PERCENTILE = 99.99


def _checked_calibration(calibration: Calibration | None, percentile: float | None) -> tuple[Calibration, float]:
    if calibration is None:
        calibration = "max" if percentile is None else "percentile"
    if calibration not in get_args(Calibration):
        raise ValueError(f"calibration is {calibration!r}: use one of {', '.join(get_args(Calibration))}")
    if percentile is None:
        percentile = _USUAL_PERCENTILE
    elif calibration != "percentile":
        raise ValueError(f"percentile is given, and calibration is {calibration!r}: leave one of them out")
    if not 50 <= percentile <= 100:
        raise ValueError(f"percentile is {percentile}: give one from 50 to 100")
    return calibration, percentile


def quantize(
    context: Context,
    device: Device,
    clouds: Iterable[Cloud],
    name: str | None = None,
    *,
    calibration: Calibration | None = None,
    percentile: float | None = None,
    floating: Collection[str] = (),
    error_budget: float = 0,
    compare: bool = False,
    batch_size: int = 0,
    **network: Any,
) -> Quantized:
    """Runs a network in floating numbers over clouds, takes the range of each convolution's result, and describes the
    network that computes in 8 bits with these ranges. `Plan.network(context, description=result.description, ...)` with
    the same weights is the quantized network. Clouds should be like those that will be run: numbers beyond a range are
    limited to it. `minuet quantize` finds the same ranges and the same convolutions.

    The floating network runs over the clouds once. error_budget takes one run more, and if the error is then above the
    budget, about n + log2(n) more, where n convolutions can compute in 8 bits. compare takes two runs more, or three
    without error_budget. Both keep the clouds, and the outputs for all of them, in host memory.

    Args:
        context, device: where the network runs.
        clouds: for each one its coordinates, and the features of each input, on the host, as Execution.prepare and
            Execution.run take them.
        name: of a shipped network; else give a description.
        calibration: how a range follows from a result's numbers on all clouds. "max": the largest magnitude;
            "percentile": a magnitude that `percentile` per cent of them do not exceed; "mse": the range whose 8-bit
            numbers have the least mean squared error. None: "percentile" if percentile is given, else "max".
        percentile: for "percentile", from 50 to 100; None: 99.99.
        floating: the names of convolutions that keep floating numbers.
        error_budget: the largest relative L2 error of all outputs over the clouds, against the floating network. The
            convolutions with the largest errors of their own keep floating numbers, as few as needed. Outputs with
            another number of rows, because the network chooses voxels by scores, have an infinite error, and those of
            integers have none. 0: no limit.
        compare: the results of all convolutions, and the outputs, are compared with those of the floating network.
        batch_size: as for Execution.
        network: all else that Plan.network takes: description, weights, dtype and so on.

    Returns:
        The network. Its relative_error is measured with error_budget or compare; own_error of the layers where the
        first network of 8 bits was above the budget; relative_error and cosine of the layers, and the report, with
        compare.

    Raises:
        TypeError: floating is a string.
        ValueError: no cloud has a voxel; a result or an output is infinite or NaN, or a result is beyond all ranges;
            the error is above the budget even if all convolutions stay floating; or an argument is wrong.
    """
    check_names(floating)
    calibration, percentile = _checked_calibration(calibration, percentile)
    if not 0 <= error_budget < math.inf:
        raise ValueError(f"error_budget is {error_budget}: it must be finite and at least 0")
    given = Plan.network(context, name, **network)
    kept = ("dtype", "weights", "seed", "weights_order", "allow_unused", "weights_prefix", "weights_map", "weights_key",
            "dataflow", "allow_non_finite_parameters")  # fmt: skip
    # The description has the other options.
    options = {key: network[key] for key in kept if key in network}
    # A network that computes in 8 bits already is taken without its precisions.
    plan = Plan.network(context, description=with_ranges(given, {}).description, **{**options, "dtype": "float32"})
    search = Search(plan, device, batch_size, options)
    search.calibrate(clouds, calibration, percentile, keep=compare or error_budget > 0)
    quantized = search.describe(floating)
    able = [layer.name for layer in quantized.layers if layer.is_int8]
    errors = search.measure(quantized) if compare or error_budget > 0 else None
    own: dict[str, float] = {}
    if errors and error_budget > 0 and not errors.all.relative <= error_budget:
        own = search.own_errors(able)
        order = sorted(able, key=lambda each: -own.get(each, -1.0))
        quantized, errors = search.leave_out(order, floating, error_budget)
        if not errors.all.relative <= error_budget:
            raise ValueError(
                f"the relative error of the outputs is {errors.all.relative:.3g}, which is above error_budget "
                f"{error_budget:g} even if all convolutions stay floating: give a larger budget, or another dtype"
            )
    differences = search.compare(quantized) if compare else {}
    quantized = replace(
        quantized,
        layers=tuple(_with_errors(layer, floating, own, differences.get(layer.name)) for layer in quantized.layers),
        relative_error=errors.all.relative if errors else None,
    )
    if errors is None or not compare:
        return quantized
    facts = {
        "network": json.loads(quantized.description)["name"],
        "clouds": [f"{count} voxels" for count in search.voxels],
        "dtype": {dtype: short for short, dtype in DTYPES.items()}[DType(given.info.dtype)],
        "device": device.name,
        "description": device.info.description,
        "version": version(),
        "calibration": calibration,
        **({"percentile": percentile} if calibration == "percentile" else {}),
        **({"error_budget": error_budget} if error_budget > 0 else {}),
        "networks_run": search.runs,
    }
    return replace(quantized, report={**facts, **_table(quantized.layers, able, errors)})


def _with_errors(
    layer: QuantizedLayer, floating: Collection[str], own: Mapping[str, float], difference: Difference | None
) -> QuantizedLayer:
    """Adds to a layer the reason why it stays floating, and its errors."""
    reason = layer.reason
    if reason == NAMED and layer.name not in floating:
        reason = "its own error is among the largest, and error_budget leaves such convolutions floating"
    layer = replace(layer, reason=reason, own_error=own.get(layer.name))
    if difference is None:
        return layer
    return replace(layer, relative_error=difference.relative, cosine=difference.cosine)


def _errors_json(relative_error: float | None, cosine: float | None) -> dict[str, float | None]:
    """Returns errors for JSON, which has neither infinite numbers nor NaN."""
    numbers = {"relative_error": relative_error, "cosine": cosine}
    return {name: number if number is not None and math.isfinite(number) else None for name, number in numbers.items()}


def _table(layers: Sequence[QuantizedLayer], able: Collection[str], errors: Errors) -> dict[str, Any]:
    """Returns the errors as `minuet quantize --json` writes them. `able`: the layers that can compute in 8 bits."""
    rows = []
    for layer in layers:
        row: dict[str, Any] = {
            "name": layer.name,
            "precision": "int8" if layer.is_int8 else "float",
            "can_be_int8": layer.name in able,
            "range": layer.range,
            **_errors_json(layer.relative_error, layer.cosine),
        }
        if layer.own_error is not None:
            row["own_error"] = layer.own_error if math.isfinite(layer.own_error) else None
        if layer.reason:
            row["reason"] = layer.reason
        rows.append(row)
    outputs = [{"name": name, **_errors_json(each.relative, each.cosine)} for name, each in errors.outputs.items()]
    return {
        **_errors_json(errors.all.relative, errors.all.cosine),
        "int8_convolutions": sum(layer.is_int8 for layer in layers),
        "layers": rows,
        "outputs": outputs,
        **({"notes": errors.notes} if errors.notes else {}),
    }
