"""Minuet: 3-D sparse convolution networks on NVIDIA GPUs and on the CPU.

The road: Context -> Device; Plan (of a network or of one op) -> load(device) -> Execution -> prepare(coordinates) ->
run(features). Making and loading a plan may be slow, because kernels are specialized for each layer and compiled at run
time; the next process finds them in the cache folder.

Arrays are anything with __dlpack__, __cuda_array_interface__ or the buffer protocol (numpy, torch, cupy, jax), in
memory of the device. Calls take the caller's CUDA stream (`stream=`: a handle, or a stream of torch, cupy, numba or
cuda.core; None is the device's default stream), and release the GIL. Contexts, devices, plans, coordinate sets, kernel
maps and pyramids may be used from many threads at once, an execution from one at a time.
"""

from . import _abi
from ._ahead import convert_weights, precompile, shipped_networks, system_info, tune, version
from ._arrays import bfloat16
from ._batch_norm import BatchNorm, Normalized, NormGradients
from ._compile_job import CompileJob
from ._device import Allocator, Context, Device, DeviceArray, Queue
from ._errors import (
    CancelledError,
    Error,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    ResourceExhaustedError,
    Status,
    UnavailableError,
    UnimplementedError,
)
from ._execution import Execution, prepare_maps_together, workspace_bytes
from ._gradients import ParameterGradients
from ._index import IndexSizes, index_bytes
from ._infos import (
    BundleInfo,
    Cloud,
    DeviceInfo,
    ExecutionCounters,
    ExecutionInfo,
    KernelCode,
    KernelCounters,
    KernelField,
    KernelInfo,
    LayerInfo,
    LevelInfo,
    ParameterInfo,
    PlanInfo,
    PrecompileResult,
    PrecompileStep,
    ShippedNetwork,
    StageTimes,
    SystemInfo,
    TensorInfo,
    TunedChoice,
    TuningProgress,
    TuningResult,
    TuningSkip,
)
from ._parameters import Parameters
from ._plan import Plan, Step
from ._points import Devoxelizer, PointBlend, PointFeature, Voxelizer, Voxels
from ._pyramid import Level, Map, Pyramid
from ._quantize import quantize
from ._quantized import Quantized, QuantizedLayer, observe, with_ranges
from ._row_gradients import DevoxelizeGradient, GroupGradient
from ._select import Selected, Selector, SelectRule
from ._sets import Coordinates, KernelMap
from ._training import ForwardResult, KeptTensor, StepGradients, Training, TrainingSizes
from ._types import (
    Activation,
    CloudStatus,
    Dataflow,
    DType,
    KernelShape,
    MapMethod,
    PointwiseKind,
    Purpose,
    Reduction,
    SetOrder,
    WeightsOrder,
)

#: The version in Python's form: 0.3.0-dev of the header is 0.3.0.dev0.
__version__ = (
    f"{_abi.MINUET_VERSION_MAJOR}.{_abi.MINUET_VERSION_MINOR}.{_abi.MINUET_VERSION_PATCH}"
    f"{_abi.MINUET_VERSION_SUFFIX and '.dev0'}"
)

__all__ = [
    "Activation",
    "Allocator",
    "BatchNorm",
    "BundleInfo",
    "CancelledError",
    "Cloud",
    "CloudStatus",
    "CompileJob",
    "Context",
    "Coordinates",
    "DType",
    "Dataflow",
    "Device",
    "DeviceArray",
    "DeviceInfo",
    "DevoxelizeGradient",
    "Devoxelizer",
    "Error",
    "Execution",
    "ExecutionCounters",
    "ExecutionInfo",
    "FailedPreconditionError",
    "ForwardResult",
    "GroupGradient",
    "IndexSizes",
    "InternalError",
    "InvalidArgumentError",
    "KeptTensor",
    "KernelCode",
    "KernelCounters",
    "KernelField",
    "KernelInfo",
    "KernelMap",
    "KernelShape",
    "LayerInfo",
    "Level",
    "LevelInfo",
    "Map",
    "MapMethod",
    "NormGradients",
    "Normalized",
    "NotFoundError",
    "OutOfRangeError",
    "ParameterGradients",
    "ParameterInfo",
    "Parameters",
    "Plan",
    "PlanInfo",
    "PointBlend",
    "PointFeature",
    "PointwiseKind",
    "PrecompileResult",
    "PrecompileStep",
    "Purpose",
    "Pyramid",
    "Quantized",
    "QuantizedLayer",
    "Queue",
    "Reduction",
    "ResourceExhaustedError",
    "SelectRule",
    "Selected",
    "Selector",
    "SetOrder",
    "ShippedNetwork",
    "StageTimes",
    "Status",
    "Step",
    "StepGradients",
    "SystemInfo",
    "TensorInfo",
    "Training",
    "TrainingSizes",
    "TunedChoice",
    "TuningProgress",
    "TuningResult",
    "TuningSkip",
    "UnavailableError",
    "UnimplementedError",
    "Voxelizer",
    "Voxels",
    "WeightsOrder",
    "bfloat16",
    "convert_weights",
    "index_bytes",
    "observe",
    "precompile",
    "prepare_maps_together",
    "quantize",
    "shipped_networks",
    "system_info",
    "tune",
    "version",
    "with_ranges",
    "workspace_bytes",
]
