"""The values that queries give."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from ._types import CloudStatus, Dataflow, DType, MapMethod

Info = TypeVar("Info")

# How fields of the library's structs become values of Python, where an int would say less.
CONVERSIONS: dict[str, Any] = {
    "dtype": DType,
    "dataflow": Dataflow,
    "map_method": MapMethod,
    "missing_head": bool,
    "is_int8": bool,
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


@dataclass(frozen=True)
class KernelCounters:
    """Says where a context's kernels came from so far. Times are in milliseconds, summed over threads."""

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
    launches: int


@dataclass(frozen=True)
class SystemInfo:
    """Says what this machine has; texts are empty where something is absent."""

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
    """Says what a plan is: of a network, or of one op."""

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
    convolutions: int
    int8_convolutions: int


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


def is_statistic(name: str) -> bool:
    """Whether the parameter of this name is a running statistic of a batch norm, which has no gradient."""
    return name.rpartition(".")[2] in ("running_mean", "running_var")


@dataclass(frozen=True)
class ExecutionInfo:
    """Says what a caller must know of an execution before it gives it memory or captures its calls."""

    has_capacities: bool
    prepare_capturable: bool
    run_capturable: bool
    map_method: MapMethod
    workspace_bytes: int


@dataclass(frozen=True)
class ExecutionCounters:
    """Says what the calls of an execution did since the last reset."""

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
    offset_count: int
    is_int8: bool


@dataclass(frozen=True)
class Cloud:
    """Says what a prepare in capacity mode found: why the cloud did not fit (0 where it did), how many coordinates it
    took, and each level's voxels."""

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
    """Says what has become of one kernel. `error` is None where it was made."""

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
    """Says how many kernels were needed, compiled, found and not made; the bytes of all; the seconds that it took."""

    kernels: int
    compiled: int
    found: int
    failed: int
    bytes: int
    seconds: float


@dataclass(frozen=True)
class TuningProgress:
    """Says how far a tuning is: rounds of this step, and the seconds that it takes at most."""

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
    """Says what a tuning measured. The two medians, in milliseconds, are 0 where there was no time to compare."""

    tried: int
    skipped: int
    decided: int
    won: int
    untuned_ms: float
    tuned_ms: float
    seconds: float


@dataclass(frozen=True)
class TunedChoice:
    """Says what was measured for a layer at some number of rows, by which the plan was made."""

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
