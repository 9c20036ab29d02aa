"""Enumerations, and the types and axes that callers name."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum, IntFlag
from typing import TypeVar

from . import _abi
from ._integers import checked, index_of

Axes = int | Sequence[int]


class DType(IntEnum):
    """Storage of features and weights. Accumulation is fp32 in all of them. TF32 is float32 storage whose GEMM
    operands are rounded to tf32. Functions also take a name such as "float16" or "fp16", or the dtype of a framework.
    """

    FLOAT32 = _abi.MINUET_F32
    TF32 = _abi.MINUET_TF32
    FLOAT16 = _abi.MINUET_F16
    BFLOAT16 = _abi.MINUET_BF16


class Dataflow(IntEnum):
    """Says how convolutions are computed. Bits of results may differ between dataflows, and repeat with each."""

    AUTO = _abi.MINUET_DATAFLOW_AUTO
    GATHER_GEMM_SCATTER = _abi.MINUET_DATAFLOW_GATHER_GEMM_SCATTER
    FUSED = _abi.MINUET_DATAFLOW_FUSED


class MapMethod(IntEnum):
    """Says how coordinate sets and kernel maps of a network are made."""

    AUTO = _abi.MINUET_MAPS_AUTO
    SORTED = _abi.MINUET_MAPS_SORTED
    INDEXED = _abi.MINUET_MAPS_INDEXED


class Reduction(IntEnum):
    """Says what a pooling makes of the inputs that the kernel map leads to one output."""

    MAX = _abi.MINUET_REDUCE_MAX
    AVERAGE = _abi.MINUET_REDUCE_AVERAGE
    SUM = _abi.MINUET_REDUCE_SUM


class WeightsOrder(IntEnum):
    """Whose layout of weights a file or an array has."""

    AS_DESCRIBED = _abi.MINUET_WEIGHTS_AS_DESCRIBED
    MINUET = _abi.MINUET_WEIGHTS_MINUET
    MINKOWSKI = _abi.MINUET_WEIGHTS_MINKOWSKI
    TORCHSPARSE = _abi.MINUET_WEIGHTS_TORCHSPARSE
    SPCONV = _abi.MINUET_WEIGHTS_SPCONV
    SPCONV_XYZ = _abi.MINUET_WEIGHTS_SPCONV_XYZ
    SPCONV1 = _abi.MINUET_WEIGHTS_SPCONV1
    SPCONV1_XYZ = _abi.MINUET_WEIGHTS_SPCONV1_XYZ
    SPCONV2 = _abi.MINUET_WEIGHTS_SPCONV2
    SPCONV2_XYZ = _abi.MINUET_WEIGHTS_SPCONV2_XYZ
    SPCONV2_LINEAR = _abi.MINUET_WEIGHTS_SPCONV2_LINEAR
    SPCONV2_XYZ_LINEAR = _abi.MINUET_WEIGHTS_SPCONV2_XYZ_LINEAR


class KernelShape(IntEnum):
    """The offsets of a kernel: those of a box; of these, the ones along the axes; or a list of the caller's."""

    BOX = _abi.MINUET_KERNEL_BOX
    CROSS = _abi.MINUET_KERNEL_CROSS
    CUSTOM = _abi.MINUET_KERNEL_CUSTOM


class Activation(IntEnum):
    """Says what a convolution ends with: the pointwise step of the same name."""

    NONE = _abi.MINUET_ACTIVATION_NONE
    RELU = _abi.MINUET_ACTIVATION_RELU
    LEAKY_RELU = _abi.MINUET_ACTIVATION_LEAKY_RELU
    GELU = _abi.MINUET_ACTIVATION_GELU
    GELU_TANH = _abi.MINUET_ACTIVATION_GELU_TANH
    SILU = _abi.MINUET_ACTIVATION_SILU
    SIGMOID = _abi.MINUET_ACTIVATION_SIGMOID
    TANH = _abi.MINUET_ACTIVATION_TANH


class PointwiseKind(IntEnum):
    """Says what one step of a pointwise chain computes."""

    RELU = _abi.MINUET_POINTWISE_RELU
    LEAKY_RELU = _abi.MINUET_POINTWISE_LEAKY_RELU
    GELU = _abi.MINUET_POINTWISE_GELU
    GELU_TANH = _abi.MINUET_POINTWISE_GELU_TANH
    SILU = _abi.MINUET_POINTWISE_SILU
    SIGMOID = _abi.MINUET_POINTWISE_SIGMOID
    TANH = _abi.MINUET_POINTWISE_TANH
    ADD = _abi.MINUET_POINTWISE_ADD
    MULTIPLY = _abi.MINUET_POINTWISE_MULTIPLY
    AFFINE = _abi.MINUET_POINTWISE_AFFINE
    LAYER_NORM = _abi.MINUET_POINTWISE_LAYER_NORM
    SOFTMAX = _abi.MINUET_POINTWISE_SOFTMAX
    ARGMAX = _abi.MINUET_POINTWISE_ARGMAX
    RELU_GRADIENT = _abi.MINUET_POINTWISE_RELU_GRADIENT
    LEAKY_RELU_GRADIENT = _abi.MINUET_POINTWISE_LEAKY_RELU_GRADIENT
    GELU_GRADIENT = _abi.MINUET_POINTWISE_GELU_GRADIENT
    GELU_TANH_GRADIENT = _abi.MINUET_POINTWISE_GELU_TANH_GRADIENT
    SILU_GRADIENT = _abi.MINUET_POINTWISE_SILU_GRADIENT
    SIGMOID_GRADIENT = _abi.MINUET_POINTWISE_SIGMOID_GRADIENT
    TANH_GRADIENT = _abi.MINUET_POINTWISE_TANH_GRADIENT
    LAYER_NORM_GRADIENT = _abi.MINUET_POINTWISE_LAYER_NORM_GRADIENT
    SOFTMAX_GRADIENT = _abi.MINUET_POINTWISE_SOFTMAX_GRADIENT


class CloudStatus(IntFlag):
    """Says why a cloud did not fit in capacity mode or on a pyramid; 0 where it did."""

    OUT_OF_BOUNDS = _abi.MINUET_CLOUD_OUT_OF_BOUNDS
    NEGATIVE_BATCH = _abi.MINUET_CLOUD_NEGATIVE_BATCH
    DUPLICATE = _abi.MINUET_CLOUD_DUPLICATE
    PAST_CAPACITY = _abi.MINUET_CLOUD_PAST_CAPACITY
    KEY_TOO_NARROW = _abi.MINUET_CLOUD_KEY_TOO_NARROW
    TOO_FAR = _abi.MINUET_CLOUD_TOO_FAR
    INDEX_FULL = _abi.MINUET_CLOUD_INDEX_FULL
    OUTSIDE_KEYS = _abi.MINUET_CLOUD_OUTSIDE_KEYS


class Purpose(IntFlag):
    """Says which ops read a kernel map of a pyramid."""

    CONVOLUTION = _abi.MINUET_PURPOSE_CONVOLUTION
    TRANSPOSED_CONVOLUTION = _abi.MINUET_PURPOSE_TRANSPOSED_CONVOLUTION
    POOLING = _abi.MINUET_PURPOSE_POOLING
    TRANSPOSED_POOLING = _abi.MINUET_PURPOSE_TRANSPOSED_POOLING
    EXPORT = _abi.MINUET_PURPOSE_EXPORT


class SetOrder(IntFlag):
    """Says which tensors of a run on a pyramid have their rows in the order of the set, and not in the caller's."""

    INPUT = _abi.MINUET_SET_ORDER_INPUT
    OUTPUT = _abi.MINUET_SET_ORDER_OUTPUT
    RESIDUAL = _abi.MINUET_SET_ORDER_RESIDUAL


Member = TypeVar("Member", bound=IntEnum)


def choose(kind: type[Member], value: Member | str, what: str) -> Member:
    """Returns the member of an enumeration that a caller names."""
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        name = value.upper().replace("-", "_")
        if name in kind.__members__:
            return kind[name]
    names = ", ".join(member.name.lower() for member in kind)
    raise ValueError(f"{what} {value!r} is not known: use one of {names}")


DTYPES = {
    "float32": DType.FLOAT32,
    "fp32": DType.FLOAT32,
    "tf32": DType.TF32,
    "float16": DType.FLOAT16,
    "fp16": DType.FLOAT16,
    "bfloat16": DType.BFLOAT16,
    "bf16": DType.BFLOAT16,
}
STORAGE = {DType.FLOAT32: "float32", DType.TF32: "float32", DType.FLOAT16: "float16", DType.BFLOAT16: "bfloat16"}


def _name_of(dtype: object) -> str:
    """Returns the name of a dtype of numpy (an object or a class) or of a framework ("torch.float16")."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).split(".")[-1]


def dtype_of(value: object) -> DType:
    """Returns the dtype that a caller names: a DType, a name, or the dtype of numpy or of a framework."""
    if isinstance(value, DType):
        return value
    name = _name_of(value)
    if name not in DTYPES:
        raise ValueError(f"dtype {value!r} is not known: use one of {', '.join(DTYPES)}")
    return DTYPES[name]


def axes(value: Axes, ndim: int, what: str) -> list[int]:
    """Returns one number for each axis: the same for all, or the given ones."""
    try:
        given = list(value) if index_of(value) is None else [value] * ndim  # type: ignore[arg-type]
        numbers = [checked(ctypes.c_int32, number, what) for number in given]
    except TypeError:
        raise TypeError(f"{what} is {value!r}: give an integer, or one for each of the {ndim} axes") from None
    if len(numbers) != ndim:
        raise ValueError(f"{what} has {len(numbers)} numbers, and there are {ndim} axes: give one number for each axis")
    return numbers


ELEMENT_NAMES = {
    _abi.MINUET_ELEMENT_F32: "float32",
    _abi.MINUET_ELEMENT_F16: "float16",
    _abi.MINUET_ELEMENT_BF16: "bfloat16",
    _abi.MINUET_ELEMENT_F64: "float64",
    _abi.MINUET_ELEMENT_I8: "int8",
    _abi.MINUET_ELEMENT_U8: "uint8",
    _abi.MINUET_ELEMENT_I32: "int32",
    _abi.MINUET_ELEMENT_I64: "int64",
    _abi.MINUET_ELEMENT_BOOL: "bool",
}
ELEMENTS = {name: element for element, name in ELEMENT_NAMES.items()}


def element_of(value: object) -> str:
    """Returns the name of the elements that a caller asks for in a new array. uint16 is for bits of bfloat16."""
    if isinstance(value, DType):
        return STORAGE[value]
    name = _name_of(value)
    if name in DTYPES:
        return STORAGE[DTYPES[name]]
    if name not in ELEMENTS and name != "uint16":
        raise ValueError(f"dtype {value!r} is not known: use one of {', '.join(ELEMENTS)}")
    return name
