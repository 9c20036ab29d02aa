"""Plans of single ops as bytes, which programs carry as attributes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._plan import Plan
from .._pyramid import Map
from .._types import DTYPES, DType
from ._calls import ParameterForm, Result, call
from ._cloud import Array, Cloud
from ._geometry import FORMAT, Geometry, four, int_array, kernel_numbers, pyramid_of
from ._target import Target, context, current


def dtype_of(features: Any) -> DType:
    """Returns how features of this dtype are computed."""
    found = DTYPES.get(str(features.dtype))
    if found is None:
        raise ValueError(f"features are {features.dtype}, and float32, float16 or bfloat16 is needed: convert them")
    return found


def require_floats(values: Any, what: str) -> Array:
    """Returns parameters as an array.

    Raises:
        ValueError: they have a dtype that the library does not read.
    """
    array = jnp.asarray(values)
    if str(array.dtype) not in ("float32", "float16", "bfloat16", "float64"):
        raise ValueError(f"{what} is {array.dtype}, and float32, float16, bfloat16 or float64 is needed: convert it")
    return array


@dataclass(frozen=True)
class Op:
    """A convolution or a pooling on one map of a geometry.

    Args:
        reduction: of a pooling; nothing for a convolution.
        others: as of Plan.convolution.
    """

    geometry: Geometry
    map: str
    dtype: DType
    in_channels: int
    out_channels: int
    groups: int = 1
    transposed: bool = False
    has_bias: bool = False
    reduction: str = ""

    @property
    def item(self) -> Map:
        """The map."""
        return self.geometry.map(self.map)[1]

    @property
    def levels(self) -> tuple[int, int]:
        """The levels of the input and of the output."""
        item = self.item
        return (item.coarse, item.fine) if self.transposed else (item.fine, item.coarse)

    @property
    def rows(self) -> tuple[int, int]:
        """The capacities of both."""
        source, target = self.levels
        return self.geometry.levels[source].capacity, self.geometry.levels[target].capacity

    @property
    def is_submanifold(self) -> bool:
        """Whether input and output are one set, and offsets are around the output."""
        return self.item.fine == self.item.coarse and not self.transposed and self.item.padding is None

    @property
    def stride(self) -> tuple[int, ...]:
        """The quotient of the levels' tensor strides."""
        fine, coarse = (self.geometry.tensor_stride(level) for level in (self.item.fine, self.item.coarse))
        return tuple(two // one for one, two in zip(fine, coarse, strict=True))

    @property
    def options(self) -> dict[str, Any]:
        """The arguments that plans of the op and of its gradients share."""
        item = self.item
        made: dict[str, Any] = {
            "ndim": self.geometry.ndim,
            "dtype": self.dtype,
            "stride": self.stride,
            "submanifold": self.is_submanifold,
            "transposed": self.transposed,
        }
        if item.offsets is not None:
            return made | {"offsets": item.offsets}
        return made | {
            "kernel_size": item.kernel_size,
            "dilation": item.dilation,
            "padding": item.padding,
            "kernel_shape": item.kernel_shape,
        }

    def plan(self, *, of_input: bool) -> Plan:
        """Makes the plan of the op, or of the gradient of its input."""
        common = {**self.options, "input_gradient": of_input}
        if self.reduction:
            winners = self.reduction == "max" and not of_input
            return Plan.pooling(context(), self.in_channels, self.reduction, winners=winners, **common)
        return Plan.convolution(
            context(),
            in_channels=self.in_channels,
            out_channels=self.out_channels,
            groups=self.groups,
            dataflow="fused",
            with_scale_and_shift=self.has_bias and not of_input,
            **common,
        )

    @property
    def convolution(self) -> Any:
        """The attribute `convolution` of custom calls."""
        item, ndim = self.item, self.geometry.ndim
        flags, offsets = kernel_numbers(item, ndim)
        head = [FORMAT, ndim, int(self.dtype), self.in_channels, self.out_channels, self.groups]
        return int_array(
            [
                *head,
                int(self.is_submanifold),
                int(self.transposed),
                *flags,
                *four(item.kernel_size, ndim, "kernel_size"),
                *four(self.stride, ndim, "stride"),
                *four(item.dilation, ndim, "dilation"),
                *four(0 if item.padding is None else item.padding, ndim, "padding"),
                self.geometry.volume(self.map),
                *offsets,
            ]
        )


def bytes_of(plan: Plan, target: Target) -> bytes:
    """Returns a plan as bytes without values. A plan that has no parameters counts as having all of its values."""
    return plan.serialize(target.archs, with_values=plan.info.parameter_tensors == 0)


@functools.lru_cache(maxsize=4096)
def _plan_bytes(op: Op, of_input: bool, target: Target) -> tuple[bytes, int]:
    """Returns the bytes of a plan, and the workspace of its runs on the target."""
    plan = op.plan(of_input=of_input)
    data = bytes_of(plan, target)
    if target.arch == "cpu":
        return data, 0
    plan.compile(target.arch)
    number = op.geometry.map(op.map)[0]
    return data, max(1, pyramid_of(op.geometry).run_bytes(plan, target.arch, kernel_map=number))


def run(
    op: Op, buffer: Any, inputs: Sequence[Any], results: Sequence[Result], values: Sequence[Any], *, of_input: bool
) -> Any:
    """Runs the plan of an op on a pyramid."""
    data, workspace = _plan_bytes(op, of_input, current())
    attributes = {**op.geometry.form.attributes, "plan": np.frombuffer(data, np.uint8)}
    return call(
        "minuet_run",
        results,
        [buffer, *inputs, *values],
        workspace=workspace,
        map=np.int64(op.geometry.map(op.map)[0]),
        parameters=np.int64(ParameterForm.EACH if values else ParameterForm.NONE),
        **attributes,
    )


def require_features(cloud: Cloud, op_name: str, x: Any, level: int) -> Array:
    """Returns features of a level, which have as many rows as its capacity."""
    x = jnp.asarray(x)
    rows = cloud.capacity(level)
    if x.ndim != 2 or x.shape[0] != rows:
        raise ValueError(
            f"the features of {op_name} have the shape {list(x.shape)}, and [{rows}, channels] is needed: the capacity "
            f"of level {level} (minuet.jax.padded)"
        )
    return x


def require_geometry(cloud: Cloud) -> Geometry:
    """Returns the geometry of a cloud that single ops can run on."""
    if not isinstance(cloud.geometry, Geometry):
        raise ValueError("the cloud belongs to a Network, and single ops need one of minuet.jax.pyramid")
    return cloud.geometry
