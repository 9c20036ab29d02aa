"""Enumerations, and the values that queries give."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum, IntFlag
from typing import Any, TypeVar

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
    """How convolutions are computed. Bits of results may differ between dataflows, and repeat with each."""

    AUTO = _abi.MINUET_DATAFLOW_AUTO
    GATHER_GEMM_SCATTER = _abi.MINUET_DATAFLOW_GATHER_GEMM_SCATTER
    FUSED = _abi.MINUET_DATAFLOW_FUSED


class MapMethod(IntEnum):
    """How coordinate sets and kernel maps of a network are made."""

    AUTO = _abi.MINUET_MAPS_AUTO
    SORTED = _abi.MINUET_MAPS_SORTED
    INDEXED = _abi.MINUET_MAPS_INDEXED


class Reduction(IntEnum):
    """What a pooling makes of the inputs that the kernel map leads to one output."""

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


class Activation(IntEnum):
    """What a convolution ends with: the pointwise step of the same name."""

    NONE = _abi.MINUET_ACTIVATION_NONE
    RELU = _abi.MINUET_ACTIVATION_RELU
    LEAKY_RELU = _abi.MINUET_ACTIVATION_LEAKY_RELU
    GELU = _abi.MINUET_ACTIVATION_GELU
    GELU_TANH = _abi.MINUET_ACTIVATION_GELU_TANH
    SILU = _abi.MINUET_ACTIVATION_SILU
    SIGMOID = _abi.MINUET_ACTIVATION_SIGMOID
    TANH = _abi.MINUET_ACTIVATION_TANH


class PointwiseKind(IntEnum):
    """What one step of a pointwise chain computes."""

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


class CloudStatus(IntFlag):
    """Why a cloud did not fit in capacity mode or on a pyramid; 0 where it did."""

    OUT_OF_BOUNDS = _abi.MINUET_CLOUD_OUT_OF_BOUNDS
    NEGATIVE_BATCH = _abi.MINUET_CLOUD_NEGATIVE_BATCH
    DUPLICATE = _abi.MINUET_CLOUD_DUPLICATE
    PAST_CAPACITY = _abi.MINUET_CLOUD_PAST_CAPACITY
    KEY_TOO_NARROW = _abi.MINUET_CLOUD_KEY_TOO_NARROW
    TOO_FAR = _abi.MINUET_CLOUD_TOO_FAR
    INDEX_FULL = _abi.MINUET_CLOUD_INDEX_FULL
    OUTSIDE_KEYS = _abi.MINUET_CLOUD_OUTSIDE_KEYS


class Purpose(IntFlag):
    """Which ops read a kernel map of a pyramid."""

    CONVOLUTION = _abi.MINUET_PURPOSE_CONVOLUTION
    TRANSPOSED_CONVOLUTION = _abi.MINUET_PURPOSE_TRANSPOSED_CONVOLUTION
    POOLING = _abi.MINUET_PURPOSE_POOLING
    TRANSPOSED_POOLING = _abi.MINUET_PURPOSE_TRANSPOSED_POOLING
    EXPORT = _abi.MINUET_PURPOSE_EXPORT


class SetOrder(IntFlag):
    """Which tensors of a run on a pyramid have their rows in the order of the set, and not in the caller's."""

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
    given = list(value) if index_of(value) is None else [value] * ndim  # type: ignore[arg-type]
    numbers = [checked(ctypes.c_int32, number, what) for number in given]
    if len(numbers) != ndim:
        raise ValueError(f"{what} has {len(numbers)} numbers, and there are {ndim} axes: give one number for each axis")
    return numbers


Info = TypeVar("Info")

# How fields of the library's structs become values of Python, where an int would say less.
CONVERSIONS: dict[str, Any] = {
    "dtype": DType,
    "dataflow": Dataflow,
    "map_method": MapMethod,
    "missing_head": bool,
    "has_capacities": bool,
    "prepare_capturable": bool,
    "run_capturable": bool,
    "transposed": bool,
}


def told(kind: type[Info], struct: ctypes.Structure) -> Info:
    """Makes a dataclass of the struct's fields of the same names."""
    values: dict[str, Any] = {}
    for item in fields(kind):  # type: ignore[arg-type]
        value = getattr(struct, item.name)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        elif isinstance(value, ctypes.Array):
            value = tuple(value)
        values[item.name] = CONVERSIONS[item.name](value) if item.name in CONVERSIONS else value
    return kind(**values)


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


@dataclass(frozen=True)
class KernelCounters:
    """Where a context's kernels came from so far. Times are in milliseconds, summed over threads."""

    compiled: int
    disk_hits: int
    memory_hits: int
    compile_ms: float
    bundle_hits: int
    failures: int
    waits: int
    lock_timeouts: int
    cubin_bytes: int
    wait_ms: float


@dataclass(frozen=True)
class KernelInfo:
    """One kernel that a plan needs, as compiled for one architecture."""

    name: str
    arch: str
    origin: str
    registers: int
    shared_bytes: int
    local_bytes: int
    cubin_bytes: int
    compile_ms: float


@dataclass(frozen=True)
class KernelField:
    """One field of the struct that a kernel takes: a "pointer", "int32", "uint32", "int64" or "float32", and `count` of
    them in an array, of `size` bytes together. `data` has the parameters that it points to, in the layout that the
    kernel reads; None: it points to none, or the plan has no values."""

    name: str
    offset: int
    size: int
    kind: str
    count: int
    data: bytes | None
    data_bytes: int


@dataclass(frozen=True)
class KernelCode:
    """One kernel of a candidate of a layer, for programs that launch it by the driver API (minuet/kernels.h). All of it
    is of this very version of the library."""

    layer_name: str
    layer: int
    candidate: int
    family: str
    kernel_count: int
    covers: int
    least_rows: int
    most_rows: int
    least_density: float
    most_density: float
    name: str
    arch: str
    symbol: str
    image: bytes
    threads: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    cluster: int
    programmatic: bool
    grid_rows: int
    grid_blocks: int
    grid_shortcut_blocks: int
    arguments_bytes: int
    fields: tuple[KernelField, ...]


@dataclass(frozen=True)
class SystemInfo:
    """What this machine has; texts are empty where something is absent."""

    driver: str
    cuda_devices: int
    nvrtc: str
    nvrtc_path: str
    cublaslt_path: str
    llvm: str
    missing: str


@dataclass(frozen=True)
class DeviceInfo:
    """A device: its name ("cuda:0", "cpu"), what it is, its arch for Plan.compile, and its memory in bytes."""

    name: str
    description: str
    arch: str
    memory_bytes: int


@dataclass(frozen=True)
class PlanInfo:
    """What a plan is: of a network, or of one op."""

    name: str
    dtype: DType
    ndim: int
    in_channels: int
    out_channels: int
    levels: int
    layers: int
    output_level: int
    inputs: int
    outputs: int
    maps: int
    missing_head: bool
    parameter_tensors: int
    parameters: int


@dataclass(frozen=True)
class TensorInfo:
    """One input or output of a run. In `shape`, -1 stands for what the plan does not decide: rows, and the batch.
    `axes` are the axes of the plan that its level has, of which `tensor_stride` has the first numbers."""

    name: str
    shape: tuple[int, ...]
    tensor_stride: tuple[int, ...]
    level: int
    channels: int
    dtype: str
    axes: tuple[int, ...]


@dataclass(frozen=True)
class ParameterInfo:
    """One parameter tensor: its name and its shape in a weights file."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ExecutionInfo:
    """What a caller must know of an execution before it gives it memory or captures its calls."""

    has_capacities: bool
    prepare_capturable: bool
    run_capturable: bool
    map_method: MapMethod
    workspace_bytes: int


@dataclass(frozen=True)
class ExecutionCounters:
    """What the calls of an execution did since the last reset."""

    kernels: int
    copies: int
    fills: int
    matmuls: int
    host_syncs: int
    allocations: int
    workspace_bytes: int
    gemm_lookups: int


@dataclass(frozen=True)
class StageTimes:
    """Milliseconds of the last prepare and run, by stage."""

    sort: float
    map: float
    gather: float
    gemm: float
    scatter: float
    other: float


@dataclass(frozen=True)
class LevelInfo:
    """One coordinate set of what is prepared. It has `ndim` axes, of which `tensor_stride` has the first numbers."""

    tensor_stride: tuple[int, ...]
    voxels: int
    map_method: MapMethod
    ndim: int


@dataclass(frozen=True)
class LayerInfo:
    """One layer of what is prepared. The three times are in milliseconds, and 0 without profiling."""

    name: str
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    in_channels: int
    out_channels: int
    transposed: bool
    pairs: int
    padded_rows: int
    gemm_groups: int
    dataflow: Dataflow
    kernel: str
    gather: float
    gemm: float
    scatter: float


@dataclass(frozen=True)
class Cloud:
    """What a prepare in capacity mode found: why the cloud did not fit (0 where it did), how many coordinates it took,
    and each level's voxels."""

    status: CloudStatus
    coordinates: int
    voxels: tuple[int, ...]


@dataclass(frozen=True)
class ShippedNetwork:
    """A network that is built into the library. Ranges and voxel sizes are in metres; a voxel_size of 0 says that the
    input has no shape."""

    name: str
    summary: str
    description: str
    weights_map: str | None
    range_low: tuple[float, ...]
    range_high: tuple[float, ...]
    voxel_size: tuple[float, ...]
    extra_cells: tuple[int, ...]


@dataclass(frozen=True)
class PrecompileStep:
    """What has become of one kernel. `error` is None where it was made."""

    done: int
    total: int
    name: str
    arch: str
    kernel: KernelInfo | None
    error: str | None


@dataclass(frozen=True)
class BundleInfo:
    """A bundle that was written: one file of kernels for one architecture."""

    arch: str
    path: str
    sha256: str
    bytes: int
    kernels: int


@dataclass(frozen=True)
class PrecompileResult:
    """How many kernels were needed, compiled, found and not made; the bytes of all; the seconds that it took."""

    kernels: int
    compiled: int
    found: int
    failed: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class TuningProgress:
    """How far a tuning is: rounds of this step, and the seconds that it takes at most."""

    step: str
    rounds: int
    most_rounds: int
    seconds_left: float


@dataclass(frozen=True)
class TuningSkip:
    """A candidate that does not run, and the reason."""

    operation: str
    config: str
    reason: str


@dataclass(frozen=True)
class TuningResult:
    """What a tuning measured. The two medians, in milliseconds, are 0 where there was no time to compare."""

    tried: int
    skipped: int
    decided: int
    won: int
    untuned_ms: float
    tuned_ms: float
    seconds: float


@dataclass(frozen=True)
class TunedChoice:
    """What was measured for a layer at some number of rows, by which the plan was made."""

    layer: str
    operation: str
    chosen: str
    otherwise: str
    origin: str
    least_rows: int
    most_rows: int
    chosen_ns: int
    default_ns: int
    least_density: float
    most_density: float
