"""The C ABI of libminuet as ctypes declarations. generate_abi.py wrote this file from include/minuet; do not edit it.

Objects of the library and pointers to numbers are c_void_p, which takes an address, an array or byref(). Pointers to
structs are typed, so that ctypes refuses another struct. Integers that do not fit a field are refused (_integers.py).
"""

from __future__ import annotations

from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

from ._integers import Structure

MINUET_GREATEST_RANGE = 1e30
MINUET_LEAST_RANGE = 1e-30
MINUET_MAX_DIM = 4
MINUET_MAX_RANK = 6
MINUET_VERSION_MAJOR = 0
MINUET_VERSION_MINOR = 3
MINUET_VERSION_PATCH = 0
MINUET_VERSION_SUFFIX = ""
MINUET_KERNEL_BOX = 0
MINUET_KERNEL_CROSS = 1
MINUET_KERNEL_CUSTOM = 2
MINUET_OK = 0
MINUET_CANCELLED = 1
MINUET_INVALID_ARGUMENT = 3
MINUET_NOT_FOUND = 5
MINUET_RESOURCE_EXHAUSTED = 8
MINUET_FAILED_PRECONDITION = 9
MINUET_OUT_OF_RANGE = 11
MINUET_UNIMPLEMENTED = 12
MINUET_INTERNAL = 13
MINUET_UNAVAILABLE = 14
MINUET_F32 = 0
MINUET_TF32 = 1
MINUET_F16 = 2
MINUET_BF16 = 3
MINUET_LOG_INFO = 0
MINUET_LOG_WARNING = 1
MINUET_ELEMENT_F32 = 0
MINUET_ELEMENT_F16 = 2
MINUET_ELEMENT_BF16 = 3
MINUET_ELEMENT_F64 = 4
MINUET_ELEMENT_I8 = 5
MINUET_ELEMENT_U8 = 6
MINUET_ELEMENT_I32 = 7
MINUET_ELEMENT_I64 = 8
MINUET_ELEMENT_BOOL = 9
MINUET_JIT_DEFAULT = 0
MINUET_JIT_ON = 1
MINUET_JIT_OFF = 2
MINUET_BUNDLE_SAME_MAJOR = 0
MINUET_BUNDLE_ANY = 1
MINUET_DATAFLOW_AUTO = 0
MINUET_DATAFLOW_GATHER_GEMM_SCATTER = 1
MINUET_DATAFLOW_FUSED = 2
MINUET_ACTIVATION_NONE = 0
MINUET_ACTIVATION_RELU = 1
MINUET_ACTIVATION_LEAKY_RELU = 2
MINUET_ACTIVATION_GELU = 3
MINUET_ACTIVATION_GELU_TANH = 4
MINUET_ACTIVATION_SILU = 5
MINUET_ACTIVATION_SIGMOID = 6
MINUET_ACTIVATION_TANH = 7
MINUET_GRADIENT_INPUT = 1
MINUET_GRADIENT_WEIGHT = 2
MINUET_GRADIENT_BIAS = 4
MINUET_REDUCE_MAX = 0
MINUET_REDUCE_AVERAGE = 1
MINUET_REDUCE_SUM = 2
MINUET_WEIGHTS_AS_DESCRIBED = 0
MINUET_WEIGHTS_MINUET = 1
MINUET_WEIGHTS_MINKOWSKI = 2
MINUET_WEIGHTS_TORCHSPARSE = 3
MINUET_WEIGHTS_SPCONV = 4
MINUET_WEIGHTS_SPCONV_XYZ = 5
MINUET_WEIGHTS_SPCONV1 = 6
MINUET_WEIGHTS_SPCONV1_XYZ = 7
MINUET_WEIGHTS_SPCONV2 = 8
MINUET_WEIGHTS_SPCONV2_XYZ = 9
MINUET_WEIGHTS_SPCONV2_LINEAR = 10
MINUET_WEIGHTS_SPCONV2_XYZ_LINEAR = 11
MINUET_SERIALIZE_WITHOUT_VALUES = 1
MINUET_MAPS_AUTO = 0
MINUET_MAPS_SORTED = 1
MINUET_MAPS_INDEXED = 2
MINUET_CLOUD_OUT_OF_BOUNDS = 1
MINUET_CLOUD_NEGATIVE_BATCH = 2
MINUET_CLOUD_DUPLICATE = 4
MINUET_CLOUD_PAST_CAPACITY = 8
MINUET_CLOUD_KEY_TOO_NARROW = 16
MINUET_CLOUD_TOO_FAR = 32
MINUET_CLOUD_INDEX_FULL = 64
MINUET_CLOUD_OUTSIDE_KEYS = 128
MINUET_FIELD_POINTER = 0
MINUET_FIELD_I32 = 1
MINUET_FIELD_U32 = 2
MINUET_FIELD_I64 = 3
MINUET_FIELD_F32 = 4
MINUET_POINT_FEATURE_MEAN = 0
MINUET_POINT_FEATURE_MAX = 1
MINUET_POINT_FEATURE_SUM = 2
MINUET_POINT_FEATURE_FIRST = 3
MINUET_BLEND_NEAREST = 0
MINUET_BLEND_CENTRES = 1
MINUET_BLEND_CORNERS = 2
MINUET_VOXELIZE_VOXELS = 0
MINUET_VOXELIZE_KEPT = 1
MINUET_VOXELIZE_OUTSIDE = 2
MINUET_VOXELIZE_NOT_FINITE = 3
MINUET_VOXELIZE_PAST_POINTS = 4
MINUET_VOXELIZE_PAST_VOXELS = 5
MINUET_VOXELIZE_COUNTS = 6
MINUET_POINTWISE_RELU = 1
MINUET_POINTWISE_LEAKY_RELU = 2
MINUET_POINTWISE_GELU = 3
MINUET_POINTWISE_GELU_TANH = 4
MINUET_POINTWISE_SILU = 5
MINUET_POINTWISE_SIGMOID = 6
MINUET_POINTWISE_TANH = 7
MINUET_POINTWISE_ADD = 8
MINUET_POINTWISE_MULTIPLY = 9
MINUET_POINTWISE_AFFINE = 10
MINUET_POINTWISE_LAYER_NORM = 11
MINUET_POINTWISE_SOFTMAX = 12
MINUET_POINTWISE_ARGMAX = 13
MINUET_POINTWISE_RELU_GRADIENT = 14
MINUET_POINTWISE_LEAKY_RELU_GRADIENT = 15
MINUET_POINTWISE_GELU_GRADIENT = 16
MINUET_POINTWISE_GELU_TANH_GRADIENT = 17
MINUET_POINTWISE_SILU_GRADIENT = 18
MINUET_POINTWISE_SIGMOID_GRADIENT = 19
MINUET_POINTWISE_TANH_GRADIENT = 20
MINUET_POINTWISE_LAYER_NORM_GRADIENT = 21
MINUET_POINTWISE_SOFTMAX_GRADIENT = 22
MINUET_PURPOSE_CONVOLUTION = 1
MINUET_PURPOSE_TRANSPOSED_CONVOLUTION = 2
MINUET_PURPOSE_POOLING = 4
MINUET_PURPOSE_TRANSPOSED_POOLING = 8
MINUET_PURPOSE_EXPORT = 16
MINUET_SET_ORDER_INPUT = 1
MINUET_SET_ORDER_OUTPUT = 2
MINUET_SET_ORDER_RESIDUAL = 4
MINUET_SELECT_ROWS = 0
MINUET_SELECT_CELLS = 1
MINUET_SELECT_ALL = 0
MINUET_SELECT_MASK = 1
MINUET_SELECT_ABOVE = 2
MINUET_SELECT_BEST = 3
MINUET_SELECT_NONZERO = 4

minuet_log_callback = CFUNCTYPE(None, c_int, c_void_p, c_size_t, c_void_p)

minuet_allocate_callback = CFUNCTYPE(c_void_p, c_int64, c_void_p, c_void_p)

minuet_free_callback = CFUNCTYPE(None, c_void_p, c_int64, c_void_p, c_void_p)

minuet_job_callback = CFUNCTYPE(None, c_int, c_void_p)

minuet_floating_visitor = CFUNCTYPE(None, c_int32, c_char_p, c_void_p)


class minuet_tensor(Structure):
    data: int | None
    rows: int
    row_stride: int
    channels: int
    dtype: int
    _fields_ = [
        ("data", c_void_p),
        ("rows", c_int64),
        ("row_stride", c_int64),
        ("channels", c_int32),
        ("dtype", c_int32),
    ]


class minuet_array(Structure):
    data: int | None
    shape: Any
    stride: Any
    rank: int
    element: int
    on_host: int
    has_strides: int
    _fields_ = [
        ("data", c_void_p),
        ("shape", c_int64 * 6),
        ("stride", c_int64 * 6),
        ("rank", c_int32),
        ("element", c_int32),
        ("on_host", c_int32),
        ("has_strides", c_int32),
    ]


class minuet_context_options(Structure):
    struct_size: int
    ext: int | None
    cache_directory: bytes | None
    disable_disk_cache: int
    log: Any
    log_user: int | None
    jit: int
    bundle_policy: int
    record_path: bytes | None
    cache_max_bytes: int
    trace: int
    bundle_path: bytes | None
    nvrtc_path: bytes | None
    cublaslt_path: bytes | None
    cache_shared: int
    bundle_ptx: int
    cpu_threads: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("cache_directory", c_char_p),
        ("disable_disk_cache", c_int32),
        ("log", minuet_log_callback),
        ("log_user", c_void_p),
        ("jit", c_int32),
        ("bundle_policy", c_int32),
        ("record_path", c_char_p),
        ("cache_max_bytes", c_uint64),
        ("trace", c_int64),
        ("bundle_path", c_char_p),
        ("nvrtc_path", c_char_p),
        ("cublaslt_path", c_char_p),
        ("cache_shared", c_int64),
        ("bundle_ptx", c_int64),
        ("cpu_threads", c_int64),
    ]


class minuet_kernel_info(Structure):
    struct_size: int
    name: bytes | None
    arch: bytes | None
    origin: bytes | None
    registers: int
    shared_bytes: int
    local_bytes: int
    cubin_bytes: int
    compile_ms: float
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("arch", c_char_p),
        ("origin", c_char_p),
        ("registers", c_int32),
        ("shared_bytes", c_int32),
        ("local_bytes", c_int32),
        ("cubin_bytes", c_int64),
        ("compile_ms", c_double),
    ]

minuet_kernel_visitor = CFUNCTYPE(None, POINTER(minuet_kernel_info), c_void_p)


class minuet_device_options(Structure):
    struct_size: int
    ext: int | None
    allocate: Any
    free: Any
    user: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("allocate", minuet_allocate_callback),
        ("free", minuet_free_callback),
        ("user", c_void_p),
    ]


class minuet_device_info(Structure):
    struct_size: int
    name: bytes
    description: bytes
    arch: bytes
    memory_bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char * 32),
        ("description", c_char * 256),
        ("arch", c_char * 32),
        ("memory_bytes", c_int64),
    ]


class minuet_coordinates_options(Structure):
    struct_size: int
    ext: int | None
    ndim: int
    tensor_stride: Any
    keep_first_duplicate: int
    has_bounds: int
    least: Any
    greatest: Any
    reserved: int
    queue: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("ndim", c_int32),
        ("tensor_stride", c_int32 * 4),
        ("keep_first_duplicate", c_int32),
        ("has_bounds", c_int32),
        ("least", c_int32 * 5),
        ("greatest", c_int32 * 5),
        ("reserved", c_int32),
        ("queue", c_void_p),
    ]


class minuet_reach_options(Structure):
    struct_size: int
    ext: int | None
    kernel_size: Any
    stride: Any
    dilation: Any
    padding: Any
    shape: Any
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("kernel_size", c_int32 * 4),
        ("stride", c_int32 * 4),
        ("dilation", c_int32 * 4),
        ("padding", c_int32 * 4),
        ("shape", c_int32 * 4),
    ]


class minuet_kernel_map_options(Structure):
    struct_size: int
    ext: int | None
    kernel_size: Any
    dilation: Any
    transposed: int
    dense_offsets: int
    padding: Any
    offsets: int | None
    offset_count: int
    kernel_shape: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("kernel_size", c_int32 * 4),
        ("dilation", c_int32 * 4),
        ("transposed", c_int32),
        ("dense_offsets", c_int32),
        ("padding", c_int32 * 4),
        ("offsets", c_void_p),
        ("offset_count", c_int32),
        ("kernel_shape", c_int32),
    ]


class minuet_convolution_options(Structure):
    struct_size: int
    ext: int | None
    ndim: int
    dtype: int
    in_channels: int
    out_channels: int
    kernel_size: Any
    stride: Any
    dilation: Any
    groups: int
    submanifold: int
    transposed: int
    activation: int
    residual: int
    weight: int | None
    scale: int | None
    shift: int | None
    dataflow: int
    negative_slope: float
    allow_non_finite_parameters: int
    dense_offsets: int
    weight_count: int
    scale_count: int
    shift_count: int
    without_values: int
    padding: Any
    offsets: int | None
    offset_count: int
    kernel_shape: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("ndim", c_int32),
        ("dtype", c_int32),
        ("in_channels", c_int32),
        ("out_channels", c_int32),
        ("kernel_size", c_int32 * 4),
        ("stride", c_int32 * 4),
        ("dilation", c_int32 * 4),
        ("groups", c_int32),
        ("submanifold", c_int32),
        ("transposed", c_int32),
        ("activation", c_int32),
        ("residual", c_int32),
        ("weight", c_void_p),
        ("scale", c_void_p),
        ("shift", c_void_p),
        ("dataflow", c_int32),
        ("negative_slope", c_float),
        ("allow_non_finite_parameters", c_int32),
        ("dense_offsets", c_int32),
        ("weight_count", c_int64),
        ("scale_count", c_int64),
        ("shift_count", c_int64),
        ("without_values", c_int64),
        ("padding", c_int32 * 4),
        ("offsets", c_void_p),
        ("offset_count", c_int32),
        ("kernel_shape", c_int32),
    ]


class minuet_pooling_options(Structure):
    struct_size: int
    ext: int | None
    ndim: int
    dtype: int
    channels: int
    kernel_size: Any
    stride: Any
    dilation: Any
    reduction: int
    submanifold: int
    transposed: int
    winners: int
    dense_offsets: int
    padding: Any
    reserved: int
    offsets: int | None
    offset_count: int
    kernel_shape: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("ndim", c_int32),
        ("dtype", c_int32),
        ("channels", c_int32),
        ("kernel_size", c_int32 * 4),
        ("stride", c_int32 * 4),
        ("dilation", c_int32 * 4),
        ("reduction", c_int32),
        ("submanifold", c_int32),
        ("transposed", c_int32),
        ("winners", c_int64),
        ("dense_offsets", c_int32),
        ("padding", c_int32 * 4),
        ("reserved", c_int32),
        ("offsets", c_void_p),
        ("offset_count", c_int32),
        ("kernel_shape", c_int32),
    ]


class minuet_network_options(Structure):
    struct_size: int
    ext: int | None
    name: bytes | None
    description: bytes | None
    dtype: int
    channels: int | None
    channel_count: int
    ndim: int
    weights_path: bytes | None
    seed: int
    weights_order: int
    allow_unused: int
    weights_prefix: bytes | None
    weights_map: bytes | None
    dataflow: int
    allow_non_finite_parameters: int
    without_values: int
    shape: int | None
    shape_count: int
    in_channels: int
    weights_key: bytes | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("name", c_char_p),
        ("description", c_char_p),
        ("dtype", c_int32),
        ("channels", c_void_p),
        ("channel_count", c_int32),
        ("ndim", c_int32),
        ("weights_path", c_char_p),
        ("seed", c_uint64),
        ("weights_order", c_int32),
        ("allow_unused", c_int32),
        ("weights_prefix", c_char_p),
        ("weights_map", c_char_p),
        ("dataflow", c_int32),
        ("allow_non_finite_parameters", c_int32),
        ("without_values", c_int64),
        ("shape", c_void_p),
        ("shape_count", c_int32),
        ("in_channels", c_int32),
        ("weights_key", c_char_p),
    ]


class minuet_shipped_network_info(Structure):
    struct_size: int
    name: bytes | None
    summary: bytes | None
    description: bytes | None
    weights_map: bytes | None
    range_low: Any
    range_high: Any
    voxel_size: Any
    extra_cells: Any
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("summary", c_char_p),
        ("description", c_char_p),
        ("weights_map", c_char_p),
        ("range_low", c_double * 3),
        ("range_high", c_double * 3),
        ("voxel_size", c_double * 3),
        ("extra_cells", c_int32 * 3),
        ("reserved", c_int32),
    ]


class minuet_plan_info(Structure):
    struct_size: int
    name: bytes | None
    dtype: int
    ndim: int
    in_channels: int
    out_channels: int
    levels: int
    layers: int
    output_level: int
    inputs: int
    outputs: int
    maps: int
    missing_head: int
    parameter_tensors: int
    parameters: int
    convolutions: int
    int8_convolutions: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("dtype", c_int32),
        ("ndim", c_int32),
        ("in_channels", c_int32),
        ("out_channels", c_int32),
        ("levels", c_int32),
        ("layers", c_int32),
        ("output_level", c_int32),
        ("inputs", c_int32),
        ("outputs", c_int32),
        ("maps", c_int32),
        ("missing_head", c_int32),
        ("parameter_tensors", c_int32),
        ("parameters", c_int64),
        ("convolutions", c_int32),
        ("int8_convolutions", c_int32),
    ]


class minuet_tensor_info(Structure):
    struct_size: int
    name: bytes | None
    shape: Any
    tensor_stride: Any
    rank: int
    level: int
    channels: int
    element: int
    ndim: int
    axes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("shape", c_int64 * 6),
        ("tensor_stride", c_int32 * 4),
        ("rank", c_int32),
        ("level", c_int32),
        ("channels", c_int32),
        ("element", c_int32),
        ("ndim", c_int32),
        ("axes", c_int32),
    ]


class minuet_parameter_info(Structure):
    struct_size: int
    name: bytes | None
    shape: Any
    rank: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("shape", c_int64 * 6),
        ("rank", c_int32),
        ("reserved", c_int32),
    ]


class minuet_execution_options(Structure):
    struct_size: int
    ext: int | None
    max_points: int
    keep_first_duplicate: int
    has_bounds: int
    least: Any
    greatest: Any
    workspace: int | None
    workspace_bytes: int
    queue: int | None
    scratch_bytes: int
    level_capacity: int | None
    level_count: int
    key_bits: int
    map_method: int
    defer_workspace: int
    parameters: int | None
    parameter_inputs: int
    batch_size: int
    level_slots: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("max_points", c_int64),
        ("keep_first_duplicate", c_int32),
        ("has_bounds", c_int32),
        ("least", c_int32 * 5),
        ("greatest", c_int32 * 5),
        ("workspace", c_void_p),
        ("workspace_bytes", c_int64),
        ("queue", c_void_p),
        ("scratch_bytes", c_int64),
        ("level_capacity", c_void_p),
        ("level_count", c_int32),
        ("key_bits", c_int32),
        ("map_method", c_int32),
        ("defer_workspace", c_int32),
        ("parameters", c_void_p),
        ("parameter_inputs", c_int64),
        ("batch_size", c_int64),
        ("level_slots", c_void_p),
    ]


class minuet_execution_info(Structure):
    struct_size: int
    has_capacities: int
    prepare_capturable: int
    run_capturable: int
    map_method: int
    workspace_bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("has_capacities", c_int32),
        ("prepare_capturable", c_int32),
        ("run_capturable", c_int32),
        ("map_method", c_int32),
        ("workspace_bytes", c_int64),
    ]


class minuet_level_info(Structure):
    struct_size: int
    tensor_stride: Any
    voxels: int
    map_method: int
    ndim: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("tensor_stride", c_int32 * 4),
        ("voxels", c_int64),
        ("map_method", c_int32),
        ("ndim", c_int32),
    ]


class minuet_batch_norm_options(Structure):
    struct_size: int
    ext: int | None
    ndim: int
    dtype: int
    channels: int
    eps: float
    has_running_mean: int
    momentum: float
    is_cumulative: int
    has_residual: int
    has_relu: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("ndim", c_int32),
        ("dtype", c_int32),
        ("channels", c_int32),
        ("eps", c_float),
        ("has_running_mean", c_int32),
        ("momentum", c_float),
        ("is_cumulative", c_int32),
        ("has_residual", c_int32),
        ("has_relu", c_int32),
        ("reserved", c_int32),
    ]


class minuet_batch_norm_arguments(Structure):
    struct_size: int
    ext: int | None
    input: Any
    row_count: int | None
    residual: Any
    weight: int | None
    bias: int | None
    running_mean: int | None
    running_variance: int | None
    batch_count: int | None
    all_moments: int | None
    ranks: int
    moments: int | None
    output: Any
    saved: int | None
    new_running_mean: int | None
    new_running_variance: int | None
    new_batch_count: int | None
    workspace: int | None
    workspace_bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("input", minuet_tensor),
        ("row_count", c_void_p),
        ("residual", minuet_tensor),
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("running_mean", c_void_p),
        ("running_variance", c_void_p),
        ("batch_count", c_void_p),
        ("all_moments", c_void_p),
        ("ranks", c_int64),
        ("moments", c_void_p),
        ("output", minuet_tensor),
        ("saved", c_void_p),
        ("new_running_mean", c_void_p),
        ("new_running_variance", c_void_p),
        ("new_batch_count", c_void_p),
        ("workspace", c_void_p),
        ("workspace_bytes", c_int64),
    ]


class minuet_batch_norm_gradient_arguments(Structure):
    struct_size: int
    ext: int | None
    input: Any
    out_gradient: Any
    row_count: int | None
    weight: int | None
    bias: int | None
    saved: int | None
    output: Any
    accumulate: int
    reserved: int
    weight_gradient: int | None
    bias_gradient: int | None
    residual_gradient: Any
    sums: int | None
    input_gradient: Any
    workspace: int | None
    workspace_bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("input", minuet_tensor),
        ("out_gradient", minuet_tensor),
        ("row_count", c_void_p),
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("saved", c_void_p),
        ("output", minuet_tensor),
        ("accumulate", c_int32),
        ("reserved", c_int32),
        ("weight_gradient", c_void_p),
        ("bias_gradient", c_void_p),
        ("residual_gradient", minuet_tensor),
        ("sums", c_void_p),
        ("input_gradient", minuet_tensor),
        ("workspace", c_void_p),
        ("workspace_bytes", c_int64),
    ]


class minuet_system_info(Structure):
    struct_size: int
    driver: bytes
    cuda_devices: int
    nvrtc: bytes
    nvrtc_path: bytes
    cublaslt_path: bytes
    llvm: bytes
    missing: bytes
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("driver", c_char * 32),
        ("cuda_devices", c_int32),
        ("nvrtc", c_char * 32),
        ("nvrtc_path", c_char * 512),
        ("cublaslt_path", c_char * 512),
        ("llvm", c_char * 32),
        ("missing", c_char * 1024),
        ("reserved", c_int32),
    ]


class minuet_kernel_counters(Structure):
    struct_size: int
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
    _fields_ = [
        ("struct_size", c_size_t),
        ("compiled", c_int64),
        ("disk_hits", c_int64),
        ("memory_hits", c_int64),
        ("compile_ms", c_double),
        ("bundle_hits", c_int64),
        ("failures", c_int64),
        ("waits", c_int64),
        ("lock_timeouts", c_int64),
        ("cubin_bytes", c_int64),
        ("wait_ms", c_double),
    ]


class minuet_execution_counters(Structure):
    struct_size: int
    kernels: int
    copies: int
    fills: int
    matmuls: int
    host_syncs: int
    allocations: int
    workspace_bytes: int
    gemm_lookups: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("kernels", c_int64),
        ("copies", c_int64),
        ("fills", c_int64),
        ("matmuls", c_int64),
        ("host_syncs", c_int64),
        ("allocations", c_int64),
        ("workspace_bytes", c_int64),
        ("gemm_lookups", c_int64),
    ]


class minuet_stage_times(Structure):
    struct_size: int
    sort: float
    map: float
    gather: float
    gemm: float
    scatter: float
    other: float
    _fields_ = [
        ("struct_size", c_size_t),
        ("sort", c_double),
        ("map", c_double),
        ("gather", c_double),
        ("gemm", c_double),
        ("scatter", c_double),
        ("other", c_double),
    ]


class minuet_layer_info(Structure):
    struct_size: int
    name: bytes | None
    kernel_size: Any
    stride: Any
    in_channels: int
    out_channels: int
    transposed: int
    pairs: int
    padded_rows: int
    gemm_groups: int
    dataflow: int
    kernel: bytes | None
    gather: float
    gemm: float
    scatter: float
    offset_count: int
    is_int8: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("kernel_size", c_int32 * 4),
        ("stride", c_int32 * 4),
        ("in_channels", c_int32),
        ("out_channels", c_int32),
        ("transposed", c_int32),
        ("pairs", c_int64),
        ("padded_rows", c_int64),
        ("gemm_groups", c_int32),
        ("dataflow", c_int32),
        ("kernel", c_char_p),
        ("gather", c_double),
        ("gemm", c_double),
        ("scatter", c_double),
        ("offset_count", c_int64),
        ("is_int8", c_int32),
        ("reserved", c_int32),
    ]


class minuet_generate_options(Structure):
    struct_size: int
    ext: int | None
    kernel_size: Any
    stride: Any
    dilation: Any
    dense_offsets: int
    padding: Any
    shape: Any
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("kernel_size", c_int32 * 4),
        ("stride", c_int32 * 4),
        ("dilation", c_int32 * 4),
        ("dense_offsets", c_int32),
        ("padding", c_int32 * 4),
        ("shape", c_int32 * 4),
        ("reserved", c_int32),
    ]


class minuet_affine_gradient_options(Structure):
    struct_size: int
    ext: int | None
    dtype: int
    channels: int
    epsilon: float
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("dtype", c_int32),
        ("channels", c_int32),
        ("epsilon", c_float),
        ("reserved", c_int32),
    ]


class minuet_gradient_arguments(Structure):
    struct_size: int
    ext: int | None
    pairs: int | None
    most_pairs: int
    pair_count: int | None
    input: Any
    out_gradient: Any
    row_count: int | None
    weight_gradient: Any
    weights_order: int
    accumulate: int
    swapped: int
    reserved: int
    bias_gradient: int | None
    workspace: int | None
    workspace_bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("pairs", c_void_p),
        ("most_pairs", c_int64),
        ("pair_count", c_void_p),
        ("input", minuet_tensor),
        ("out_gradient", minuet_tensor),
        ("row_count", c_void_p),
        ("weight_gradient", POINTER(minuet_array)),
        ("weights_order", c_int32),
        ("accumulate", c_int32),
        ("swapped", c_int32),
        ("reserved", c_int32),
        ("bias_gradient", c_void_p),
        ("workspace", c_void_p),
        ("workspace_bytes", c_int64),
    ]


class minuet_index_options(Structure):
    struct_size: int
    ext: int | None
    level_capacity: int | None
    level_slots: int | None
    level_count: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("level_capacity", c_void_p),
        ("level_slots", c_void_p),
        ("level_count", c_int32),
        ("reserved", c_int32),
    ]


class minuet_index_sizes(Structure):
    struct_size: int
    slots: int
    table: int
    rows: int
    points: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("slots", c_int64),
        ("table", c_int64),
        ("rows", c_int64),
        ("points", c_int64),
    ]


class minuet_kernel_field(Structure):
    name: bytes | None
    offset: int
    bytes: int
    kind: int
    count: int
    data: int | None
    data_bytes: int
    _fields_ = [
        ("name", c_char_p),
        ("offset", c_int32),
        ("bytes", c_int32),
        ("kind", c_int32),
        ("count", c_int32),
        ("data", c_void_p),
        ("data_bytes", c_int64),
    ]


class minuet_kernel_code(Structure):
    struct_size: int
    layer_name: bytes | None
    layer: int
    candidate: int
    family: bytes | None
    kernel_count: int
    covers: int
    least_rows: int
    most_rows: int
    least_density: float
    most_density: float
    name: bytes | None
    arch: bytes | None
    symbol: bytes | None
    image: int | None
    image_bytes: int
    threads: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    cluster: int
    programmatic: int
    grid_rows: int
    grid_blocks: int
    grid_shortcut_blocks: int
    arguments_bytes: int
    field_count: int
    fields: Any
    launches: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("layer_name", c_char_p),
        ("layer", c_int32),
        ("candidate", c_int32),
        ("family", c_char_p),
        ("kernel_count", c_int32),
        ("covers", c_int32),
        ("least_rows", c_int64),
        ("most_rows", c_int64),
        ("least_density", c_double),
        ("most_density", c_double),
        ("name", c_char_p),
        ("arch", c_char_p),
        ("symbol", c_char_p),
        ("image", c_void_p),
        ("image_bytes", c_int64),
        ("threads", c_int32),
        ("static_shared_bytes", c_int32),
        ("dynamic_shared_bytes", c_int32),
        ("cluster", c_int32),
        ("programmatic", c_int32),
        ("grid_rows", c_int32),
        ("grid_blocks", c_int32),
        ("grid_shortcut_blocks", c_int32),
        ("arguments_bytes", c_int32),
        ("field_count", c_int32),
        ("fields", POINTER(minuet_kernel_field)),
        ("launches", c_int32),
        ("reserved", c_int32),
    ]

minuet_kernel_code_visitor = CFUNCTYPE(None, POINTER(minuet_kernel_code), c_void_p)


class minuet_parameters_options(Structure):
    struct_size: int
    ext: int | None
    master: int
    set_by_each_run: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("master", c_int64),
        ("set_by_each_run", c_int64),
    ]


class minuet_voxelize_options(Structure):
    struct_size: int
    ext: int | None
    ndim: int
    dtype: int
    first_column: int
    channels: int
    feature: int
    has_range: int
    low: Any
    high: Any
    voxel_size: Any
    batch_size: int
    most_points_per_voxel: int
    most_voxels: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("ndim", c_int32),
        ("dtype", c_int32),
        ("first_column", c_int32),
        ("channels", c_int32),
        ("feature", c_int32),
        ("has_range", c_int32),
        ("low", c_float * 4),
        ("high", c_float * 4),
        ("voxel_size", c_float * 4),
        ("batch_size", c_int64),
        ("most_points_per_voxel", c_int64),
        ("most_voxels", c_int64),
    ]


class minuet_devoxelize_options(Structure):
    struct_size: int
    ext: int | None
    ndim: int
    dtype: int
    channels: int
    blend: int
    low: Any
    voxel_size: Any
    tensor_stride: Any
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("ndim", c_int32),
        ("dtype", c_int32),
        ("channels", c_int32),
        ("blend", c_int32),
        ("low", c_float * 4),
        ("voxel_size", c_float * 4),
        ("tensor_stride", c_int32 * 4),
    ]


class minuet_voxelize_arguments(Structure):
    struct_size: int
    ext: int | None
    points: int | None
    points_ld: int
    most: int
    batch: int | None
    count: int | None
    workspace: int | None
    workspace_bytes: int
    capacity: int
    coordinates: int | None
    features: int | None
    voxel_points: int | None
    point_rows: int | None
    counts: int | None
    status: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("points", c_void_p),
        ("points_ld", c_int64),
        ("most", c_int64),
        ("batch", c_void_p),
        ("count", c_void_p),
        ("workspace", c_void_p),
        ("workspace_bytes", c_int64),
        ("capacity", c_int64),
        ("coordinates", c_void_p),
        ("features", c_void_p),
        ("voxel_points", c_void_p),
        ("point_rows", c_void_p),
        ("counts", c_void_p),
        ("status", c_void_p),
    ]


class minuet_devoxelize_arguments(Structure):
    struct_size: int
    ext: int | None
    points: int | None
    points_ld: int
    most: int
    batch: int | None
    count: int | None
    point_rows: int | None
    coordinates: int | None
    row_count: int | None
    most_rows: int
    features: int | None
    output: int | None
    workspace: int | None
    workspace_bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("points", c_void_p),
        ("points_ld", c_int64),
        ("most", c_int64),
        ("batch", c_void_p),
        ("count", c_void_p),
        ("point_rows", c_void_p),
        ("coordinates", c_void_p),
        ("row_count", c_void_p),
        ("most_rows", c_int64),
        ("features", c_void_p),
        ("output", c_void_p),
        ("workspace", c_void_p),
        ("workspace_bytes", c_int64),
    ]


class minuet_pointwise_step(Structure):
    kind: int
    number: float
    scale: int | None
    shift: int | None
    _fields_ = [
        ("kind", c_int32),
        ("number", c_float),
        ("scale", c_void_p),
        ("shift", c_void_p),
    ]


class minuet_pointwise_options(Structure):
    struct_size: int
    ext: int | None
    ndim: int
    dtype: int
    channels: int
    step_count: int
    steps: Any
    without_values: int
    allow_non_finite_parameters: int
    step_bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("ndim", c_int32),
        ("dtype", c_int32),
        ("channels", c_int32),
        ("step_count", c_int32),
        ("steps", POINTER(minuet_pointwise_step)),
        ("without_values", c_int32),
        ("allow_non_finite_parameters", c_int32),
        ("step_bytes", c_size_t),
    ]


class minuet_precompile_step(Structure):
    struct_size: int
    done: int
    total: int
    name: bytes | None
    arch: bytes | None
    kernel: Any
    error: bytes | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("done", c_int64),
        ("total", c_int64),
        ("name", c_char_p),
        ("arch", c_char_p),
        ("kernel", POINTER(minuet_kernel_info)),
        ("error", c_char_p),
    ]


class minuet_bundle_info(Structure):
    struct_size: int
    arch: bytes | None
    path: bytes | None
    sha256: bytes | None
    bytes: int
    kernels: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("arch", c_char_p),
        ("path", c_char_p),
        ("sha256", c_char_p),
        ("bytes", c_int64),
        ("kernels", c_int64),
    ]

minuet_precompile_options_step = CFUNCTYPE(None, POINTER(minuet_precompile_step), c_void_p)

minuet_precompile_options_bundle = CFUNCTYPE(None, POINTER(minuet_bundle_info), c_void_p)

minuet_precompile_options_cancelled = CFUNCTYPE(c_int32, c_void_p)


class minuet_precompile_options(Structure):
    struct_size: int
    ext: int | None
    plans: int | None
    plan_count: int
    reserved: int
    requests_path: bytes | None
    archs: int | None
    arch_count: int
    jobs: int
    output_directory: bytes | None
    step: Any
    bundle: Any
    cancelled: Any
    user: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("plans", c_void_p),
        ("plan_count", c_int32),
        ("reserved", c_int32),
        ("requests_path", c_char_p),
        ("archs", c_void_p),
        ("arch_count", c_int32),
        ("jobs", c_int32),
        ("output_directory", c_char_p),
        ("step", minuet_precompile_options_step),
        ("bundle", minuet_precompile_options_bundle),
        ("cancelled", minuet_precompile_options_cancelled),
        ("user", c_void_p),
    ]


class minuet_precompile_result(Structure):
    struct_size: int
    kernels: int
    compiled: int
    found: int
    failed: int
    bytes: int
    seconds: float
    _fields_ = [
        ("struct_size", c_size_t),
        ("kernels", c_int64),
        ("compiled", c_int64),
        ("found", c_int64),
        ("failed", c_int64),
        ("bytes", c_int64),
        ("seconds", c_double),
    ]


class minuet_pyramid_level(Structure):
    capacity: int
    parent: int
    stride: Any
    is_reached: int
    kernel_size: Any
    dilation: Any
    padding: Any
    shape: Any
    slots: int
    _fields_ = [
        ("capacity", c_int64),
        ("parent", c_int32),
        ("stride", c_int32 * 4),
        ("is_reached", c_int32),
        ("kernel_size", c_int32 * 4),
        ("dilation", c_int32 * 4),
        ("padding", c_int32 * 4),
        ("shape", c_int32 * 4),
        ("slots", c_int64),
    ]


class minuet_pyramid_map(Structure):
    fine: int
    coarse: int
    kernel_size: Any
    dilation: Any
    purposes: int
    dense_offsets: int
    padding: Any
    offsets: int | None
    offset_count: int
    kernel_shape: int
    _fields_ = [
        ("fine", c_int32),
        ("coarse", c_int32),
        ("kernel_size", c_int32 * 4),
        ("dilation", c_int32 * 4),
        ("purposes", c_uint32),
        ("dense_offsets", c_int32),
        ("padding", c_int32 * 4),
        ("offsets", c_void_p),
        ("offset_count", c_int32),
        ("kernel_shape", c_int32),
    ]


class minuet_pyramid_options(Structure):
    struct_size: int
    ext: int | None
    ndim: int
    keep_first_duplicate: int
    has_bounds: int
    least: Any
    greatest: Any
    keep_coordinates: int
    levels: Any
    maps: Any
    network: int | None
    level_capacity: int | None
    level_count: int
    map_count: int
    batch_size: int
    level_bytes: int
    map_bytes: int
    level_slots: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("ndim", c_int32),
        ("keep_first_duplicate", c_int32),
        ("has_bounds", c_int32),
        ("least", c_int32 * 5),
        ("greatest", c_int32 * 5),
        ("keep_coordinates", c_uint32),
        ("levels", POINTER(minuet_pyramid_level)),
        ("maps", POINTER(minuet_pyramid_map)),
        ("network", c_void_p),
        ("level_capacity", c_void_p),
        ("level_count", c_int32),
        ("map_count", c_int32),
        ("batch_size", c_int64),
        ("level_bytes", c_size_t),
        ("map_bytes", c_size_t),
        ("level_slots", c_void_p),
    ]


class minuet_pyramid_arguments(Structure):
    struct_size: int
    ext: int | None
    buffer: int | None
    buffer_bytes: int
    workspace: int | None
    workspace_bytes: int
    coordinates: int | None
    most: int
    count: int | None
    status: int | None
    counts: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("buffer", c_void_p),
        ("buffer_bytes", c_int64),
        ("workspace", c_void_p),
        ("workspace_bytes", c_int64),
        ("coordinates", c_void_p),
        ("most", c_int64),
        ("count", c_void_p),
        ("status", c_void_p),
        ("counts", c_void_p),
    ]


class minuet_run_arguments(Structure):
    struct_size: int
    ext: int | None
    pyramid: int | None
    map: int
    set_order: int
    buffer: int | None
    buffer_bytes: int
    workspace: int | None
    workspace_bytes: int
    inputs: Any
    outputs: Any
    input_count: int
    output_count: int
    parameters: int | None
    prepared: int | None
    prepared_bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("pyramid", c_void_p),
        ("map", c_int32),
        ("set_order", c_uint32),
        ("buffer", c_void_p),
        ("buffer_bytes", c_int64),
        ("workspace", c_void_p),
        ("workspace_bytes", c_int64),
        ("inputs", POINTER(minuet_array)),
        ("outputs", POINTER(minuet_array)),
        ("input_count", c_int32),
        ("output_count", c_int32),
        ("parameters", c_void_p),
        ("prepared", c_void_p),
        ("prepared_bytes", c_int64),
    ]


class minuet_group_gradient_options(Structure):
    struct_size: int
    ext: int | None
    ndim: int
    dtype: int
    channels: int
    feature: int
    rows_are_f32: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("ndim", c_int32),
        ("dtype", c_int32),
        ("channels", c_int32),
        ("feature", c_int32),
        ("rows_are_f32", c_int32),
        ("reserved", c_int32),
    ]


class minuet_group_gradient_arguments(Structure):
    struct_size: int
    ext: int | None
    groups: int | None
    groups_ld: int
    row_count: int | None
    most_rows: int
    group_count: int | None
    most_groups: int
    group_sizes: int | None
    input: int | None
    input_ld: int
    out_gradient: int | None
    input_gradient: int | None
    workspace: int | None
    workspace_bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("groups", c_void_p),
        ("groups_ld", c_int64),
        ("row_count", c_void_p),
        ("most_rows", c_int64),
        ("group_count", c_void_p),
        ("most_groups", c_int64),
        ("group_sizes", c_void_p),
        ("input", c_void_p),
        ("input_ld", c_int64),
        ("out_gradient", c_void_p),
        ("input_gradient", c_void_p),
        ("workspace", c_void_p),
        ("workspace_bytes", c_int64),
    ]


class minuet_select_options(Structure):
    struct_size: int
    ext: int | None
    ndim: int
    dtype: int
    source: int
    rule: int
    threshold: float
    channels: int
    best: int
    batch_size: int
    children: Any
    tensor_stride: Any
    shape: Any
    axis_order: Any
    channels_last: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("ndim", c_int32),
        ("dtype", c_int32),
        ("source", c_int32),
        ("rule", c_int32),
        ("threshold", c_float),
        ("channels", c_int32),
        ("best", c_int64),
        ("batch_size", c_int64),
        ("children", c_int32 * 4),
        ("tensor_stride", c_int32 * 4),
        ("shape", c_int32 * 4),
        ("axis_order", c_int32 * 4),
        ("channels_last", c_int32),
        ("reserved", c_int32),
    ]


class minuet_select_arguments(Structure):
    struct_size: int
    ext: int | None
    coordinates: int | None
    row_count: int | None
    most_rows: int
    mask: int | None
    scores: int | None
    scores_ld: int
    dense: int | None
    workspace: int | None
    workspace_bytes: int
    capacity: int
    selected: int | None
    sources: int | None
    parents: int | None
    features: int | None
    places: int | None
    count: int | None
    status: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("coordinates", c_void_p),
        ("row_count", c_void_p),
        ("most_rows", c_int64),
        ("mask", c_void_p),
        ("scores", c_void_p),
        ("scores_ld", c_int64),
        ("dense", c_void_p),
        ("workspace", c_void_p),
        ("workspace_bytes", c_int64),
        ("capacity", c_int64),
        ("selected", c_void_p),
        ("sources", c_void_p),
        ("parents", c_void_p),
        ("features", c_void_p),
        ("places", c_void_p),
        ("count", c_void_p),
        ("status", c_void_p),
    ]


class minuet_space_options(Structure):
    struct_size: int
    ext: int | None
    ndim: int
    dtype: int
    channels: int
    stride: Any
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("ndim", c_int32),
        ("dtype", c_int32),
        ("channels", c_int32),
        ("stride", c_int32 * 4),
        ("reserved", c_int32),
    ]


class minuet_training_options(Structure):
    struct_size: int
    ext: int | None
    input_gradients: int
    frozen_batch_norms: int
    momentum: float
    is_cumulative: int
    recompute_blocks: int
    branches: int
    recompute: int | None
    recompute_count: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("input_gradients", c_uint32),
        ("frozen_batch_norms", c_int32),
        ("momentum", c_float),
        ("is_cumulative", c_int32),
        ("recompute_blocks", c_int32),
        ("branches", c_int32),
        ("recompute", c_void_p),
        ("recompute_count", c_int32),
        ("reserved", c_int32),
    ]


class minuet_kept_info(Structure):
    struct_size: int
    name: bytes | None
    level: int
    channels: int
    element: int
    reserved: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("level", c_int32),
        ("channels", c_int32),
        ("element", c_int32),
        ("reserved", c_int32),
    ]


class minuet_training_sizes(Structure):
    struct_size: int
    kept: int
    forward_workspace: int
    backward_workspace: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("kept", c_int64),
        ("forward_workspace", c_int64),
        ("backward_workspace", c_int64),
    ]


class minuet_training_forward_arguments(Structure):
    struct_size: int
    ext: int | None
    pyramid: int | None
    buffer: int | None
    buffer_bytes: int
    parameters: Any
    parameter_count: int
    weights_order: int
    new_statistics: Any
    batch_count: int | None
    new_batch_count: int | None
    inputs: Any
    outputs: Any
    input_count: int
    output_count: int
    kept: int | None
    kept_bytes: int
    workspace: int | None
    workspace_bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("pyramid", c_void_p),
        ("buffer", c_void_p),
        ("buffer_bytes", c_int64),
        ("parameters", POINTER(minuet_array)),
        ("parameter_count", c_int32),
        ("weights_order", c_int32),
        ("new_statistics", POINTER(minuet_array)),
        ("batch_count", c_void_p),
        ("new_batch_count", c_void_p),
        ("inputs", POINTER(minuet_array)),
        ("outputs", POINTER(minuet_array)),
        ("input_count", c_int32),
        ("output_count", c_int32),
        ("kept", c_void_p),
        ("kept_bytes", c_int64),
        ("workspace", c_void_p),
        ("workspace_bytes", c_int64),
    ]


class minuet_training_backward_arguments(Structure):
    struct_size: int
    ext: int | None
    pyramid: int | None
    buffer: int | None
    buffer_bytes: int
    parameters: Any
    parameter_count: int
    weights_order: int
    out_gradients: Any
    out_gradient_count: int
    accumulate: int
    parameter_gradients: Any
    input_gradients: Any
    kept: int | None
    kept_bytes: int
    workspace: int | None
    workspace_bytes: int
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("pyramid", c_void_p),
        ("buffer", c_void_p),
        ("buffer_bytes", c_int64),
        ("parameters", POINTER(minuet_array)),
        ("parameter_count", c_int32),
        ("weights_order", c_int32),
        ("out_gradients", POINTER(minuet_array)),
        ("out_gradient_count", c_int32),
        ("accumulate", c_int32),
        ("parameter_gradients", POINTER(minuet_array)),
        ("input_gradients", POINTER(minuet_array)),
        ("kept", c_void_p),
        ("kept_bytes", c_int64),
        ("workspace", c_void_p),
        ("workspace_bytes", c_int64),
    ]


class minuet_tuning_cloud(Structure):
    coordinates: int | None
    count: int
    _fields_ = [
        ("coordinates", c_void_p),
        ("count", c_int64),
    ]


class minuet_tuning_progress(Structure):
    struct_size: int
    step: bytes | None
    rounds: int
    most_rounds: int
    seconds_left: float
    _fields_ = [
        ("struct_size", c_size_t),
        ("step", c_char_p),
        ("rounds", c_int64),
        ("most_rounds", c_int64),
        ("seconds_left", c_double),
    ]


class minuet_tuning_skip(Structure):
    struct_size: int
    operation: bytes | None
    config: bytes | None
    reason: bytes | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("operation", c_char_p),
        ("config", c_char_p),
        ("reason", c_char_p),
    ]

minuet_tuning_options_progress = CFUNCTYPE(None, POINTER(minuet_tuning_progress), c_void_p)

minuet_tuning_options_skipped = CFUNCTYPE(None, POINTER(minuet_tuning_skip), c_void_p)

minuet_tuning_options_cancelled = CFUNCTYPE(c_int32, c_void_p)


class minuet_tuning_options(Structure):
    struct_size: int
    ext: int | None
    clouds: Any
    cloud_count: int
    repeats: int
    budget_seconds: float
    exhaustive: int
    training: int
    directory: bytes | None
    progress: Any
    skipped: Any
    cancelled: Any
    user: int | None
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("clouds", POINTER(minuet_tuning_cloud)),
        ("cloud_count", c_int32),
        ("repeats", c_int32),
        ("budget_seconds", c_double),
        ("exhaustive", c_int32),
        ("training", c_int32),
        ("directory", c_char_p),
        ("progress", minuet_tuning_options_progress),
        ("skipped", minuet_tuning_options_skipped),
        ("cancelled", minuet_tuning_options_cancelled),
        ("user", c_void_p),
    ]


class minuet_tuning_result(Structure):
    struct_size: int
    tried: int
    skipped: int
    decided: int
    won: int
    untuned_ms: float
    tuned_ms: float
    seconds: float
    _fields_ = [
        ("struct_size", c_size_t),
        ("tried", c_int64),
        ("skipped", c_int64),
        ("decided", c_int64),
        ("won", c_int64),
        ("untuned_ms", c_double),
        ("tuned_ms", c_double),
        ("seconds", c_double),
    ]


class minuet_tuned_choice(Structure):
    struct_size: int
    layer: bytes | None
    operation: bytes | None
    chosen: bytes | None
    otherwise: bytes | None
    origin: bytes | None
    least_rows: int
    most_rows: int
    chosen_ns: int
    default_ns: int
    least_density: float
    most_density: float
    _fields_ = [
        ("struct_size", c_size_t),
        ("layer", c_char_p),
        ("operation", c_char_p),
        ("chosen", c_char_p),
        ("otherwise", c_char_p),
        ("origin", c_char_p),
        ("least_rows", c_int64),
        ("most_rows", c_int64),
        ("chosen_ns", c_int64),
        ("default_ns", c_int64),
        ("least_density", c_double),
        ("most_density", c_double),
    ]

minuet_tuned_visitor = CFUNCTYPE(None, POINTER(minuet_tuned_choice), c_void_p)


# Maps each function to its result and its parameters.
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "minuet_last_error": (c_size_t, (c_void_p, c_size_t)),
    "minuet_last_error_detail": (c_size_t, (c_void_p, c_size_t)),
    "minuet_status_name": (c_char_p, (c_int,)),
    "minuet_version": (c_uint32, ()),
    "minuet_context_create": (c_int, (POINTER(minuet_context_options), c_void_p)),
    "minuet_context_destroy": (None, (c_void_p,)),
    "minuet_context_add_bundle": (c_int, (c_void_p, c_char_p, c_char_p)),
    "minuet_context_add_bundle_memory": (c_int, (c_void_p, c_void_p, c_size_t, c_char_p)),
    "minuet_context_cache_directory": (c_size_t, (c_void_p, c_void_p, c_size_t)),
    "minuet_device_open": (c_int, (c_void_p, c_char_p, POINTER(minuet_device_options), c_void_p)),
    "minuet_device_destroy": (None, (c_void_p,)),
    "minuet_device_query": (c_int, (c_void_p, POINTER(minuet_device_info))),
    "minuet_device_allocate": (c_int, (c_void_p, c_int64, c_void_p)),
    "minuet_device_free": (c_int, (c_void_p, c_void_p)),
    "minuet_device_copy": (c_int, (c_void_p, c_void_p, c_void_p, c_int64, c_int32)),
    "minuet_device_synchronize": (c_int, (c_void_p, c_void_p)),
    "minuet_queue_create": (c_int, (c_void_p, c_void_p, c_void_p)),
    "minuet_queue_destroy": (None, (c_void_p,)),
    "minuet_coordinates_create": (c_int, (c_void_p, POINTER(minuet_coordinates_options), c_void_p, c_int64, c_void_p, c_void_p)),
    "minuet_coordinates_downsample": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "minuet_coordinates_reach": (c_int, (c_void_p, POINTER(minuet_reach_options), c_void_p, c_void_p)),
    "minuet_coordinates_destroy": (None, (c_void_p,)),
    "minuet_coordinates_count": (c_int64, (c_void_p,)),
    "minuet_coordinates_rows": (c_int64, (c_void_p,)),
    "minuet_coordinates_export": (c_int, (c_void_p, c_void_p, c_void_p)),
    "minuet_kernel_map_create": (c_int, (c_void_p, c_void_p, POINTER(minuet_kernel_map_options), c_void_p, c_void_p)),
    "minuet_kernel_map_transpose": (c_int, (c_void_p, c_void_p)),
    "minuet_kernel_map_destroy": (None, (c_void_p,)),
    "minuet_kernel_map_volume": (c_int32, (c_void_p,)),
    "minuet_kernel_map_query_pairs": (c_int, (c_void_p, c_void_p)),
    "minuet_kernel_map_export": (c_int, (c_void_p, c_void_p, c_void_p)),
    "minuet_plan_create_convolution": (c_int, (c_void_p, POINTER(minuet_convolution_options), c_void_p)),
    "minuet_plan_create_convolution_gradient": (c_int, (c_void_p, POINTER(minuet_convolution_options), c_int32, c_void_p)),
    "minuet_plan_create_pooling": (c_int, (c_void_p, POINTER(minuet_pooling_options), c_void_p)),
    "minuet_query_shipped_network": (c_int, (c_int32, POINTER(minuet_shipped_network_info))),
    "minuet_plan_create_network": (c_int, (c_void_p, POINTER(minuet_network_options), c_void_p)),
    "minuet_weights_convert": (c_int, (POINTER(minuet_network_options), c_char_p)),
    "minuet_plan_destroy": (None, (c_void_p,)),
    "minuet_plan_compile": (c_int, (c_void_p, c_char_p, minuet_kernel_visitor, c_void_p)),
    "minuet_plan_load": (c_int, (c_void_p, c_void_p)),
    "minuet_plan_query": (c_int, (c_void_p, POINTER(minuet_plan_info))),
    "minuet_plan_query_input": (c_int, (c_void_p, c_int32, POINTER(minuet_tensor_info))),
    "minuet_plan_query_output": (c_int, (c_void_p, c_int32, POINTER(minuet_tensor_info))),
    "minuet_plan_description": (c_size_t, (c_void_p, c_void_p, c_size_t)),
    "minuet_plan_query_parameter": (c_int, (c_void_p, c_int32, POINTER(minuet_parameter_info))),
    "minuet_plan_serialize": (c_int, (c_void_p, c_void_p, c_int32, c_uint32, c_void_p, c_size_t, c_void_p)),
    "minuet_plan_deserialize": (c_int, (c_void_p, c_void_p, c_size_t, c_void_p)),
    "minuet_plan_workspace_bytes": (c_int, (c_void_p, c_char_p, POINTER(minuet_execution_options), c_int64, c_double, c_void_p)),
    "minuet_execution_create": (c_int, (c_void_p, c_void_p, POINTER(minuet_execution_options), c_void_p)),
    "minuet_execution_destroy": (None, (c_void_p,)),
    "minuet_execution_prepare": (c_int, (c_void_p, c_void_p, c_int64, c_void_p)),
    "minuet_execution_prepare_on_device": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "minuet_execution_query_cloud": (c_int, (c_void_p, c_void_p, c_void_p)),
    "minuet_execution_copy_cloud": (c_int, (c_void_p, c_void_p, c_void_p, c_int32, c_void_p)),
    "minuet_execution_read_cloud": (c_int, (c_void_p, c_void_p, c_void_p, c_int32, c_void_p)),
    "minuet_execution_suggest_capacities": (c_int, (c_void_p, c_double, c_void_p, c_int32)),
    "minuet_execution_prepare_maps": (c_int, (c_void_p, c_void_p, c_int32, c_void_p)),
    "minuet_executions_prepare_maps": (c_int, (c_void_p, c_void_p, c_int32, c_void_p)),
    "minuet_execution_output_shape": (c_int, (c_void_p, c_void_p, c_void_p)),
    "minuet_execution_output_shape_of": (c_int, (c_void_p, c_int32, c_void_p, c_void_p)),
    "minuet_execution_run": (c_int, (c_void_p, POINTER(minuet_tensor), c_int32, POINTER(minuet_tensor), c_int32, c_void_p)),
    "minuet_execution_run_arrays": (c_int, (c_void_p, POINTER(minuet_array), c_int32, POINTER(minuet_array), c_int32, c_void_p)),
    "minuet_execution_output_coordinates": (c_int, (c_void_p, c_void_p, c_void_p)),
    "minuet_execution_output_coordinates_of": (c_int, (c_void_p, c_int32, c_void_p, c_void_p)),
    "minuet_execution_query": (c_int, (c_void_p, POINTER(minuet_execution_info))),
    "minuet_execution_set_workspace": (c_int, (c_void_p, c_void_p, c_int64, c_void_p)),
    "minuet_execution_release_captures": (c_int, (c_void_p,)),
    "minuet_execution_query_level": (c_int, (c_void_p, c_int32, POINTER(minuet_level_info))),
    "minuet_batch_norm_create": (c_int, (c_void_p, POINTER(minuet_batch_norm_options), c_void_p)),
    "minuet_batch_norm_destroy": (None, (c_void_p,)),
    "minuet_batch_norm_load": (c_int, (c_void_p, c_void_p)),
    "minuet_batch_norm_bytes": (c_int, (c_void_p, c_char_p, c_int64, c_void_p)),
    "minuet_batch_norm_sum": (c_int, (c_void_p, c_void_p, POINTER(minuet_batch_norm_arguments), c_void_p)),
    "minuet_batch_norm_apply": (c_int, (c_void_p, c_void_p, POINTER(minuet_batch_norm_arguments), c_void_p)),
    "minuet_batch_norm_forward": (c_int, (c_void_p, c_void_p, POINTER(minuet_batch_norm_arguments), c_void_p)),
    "minuet_batch_norm_sum_gradients": (c_int, (c_void_p, c_void_p, POINTER(minuet_batch_norm_gradient_arguments), c_void_p)),
    "minuet_batch_norm_apply_gradients": (c_int, (c_void_p, c_void_p, POINTER(minuet_batch_norm_gradient_arguments), c_void_p)),
    "minuet_batch_norm_backward": (c_int, (c_void_p, c_void_p, POINTER(minuet_batch_norm_gradient_arguments), c_void_p)),
    "minuet_query_system": (c_int, (POINTER(minuet_system_info),)),
    "minuet_context_kernel_counters": (c_int, (c_void_p, POINTER(minuet_kernel_counters))),
    "minuet_context_write_trace": (c_int, (c_void_p, c_char_p)),
    "minuet_execution_query_counters": (c_int, (c_void_p, POINTER(minuet_execution_counters))),
    "minuet_execution_reset_counters": (c_int, (c_void_p,)),
    "minuet_execution_set_profiling": (c_int, (c_void_p, c_int32)),
    "minuet_execution_query_stages": (c_int, (c_void_p, POINTER(minuet_stage_times))),
    "minuet_execution_query_layer": (c_int, (c_void_p, c_int32, POINTER(minuet_layer_info))),
    "minuet_execution_find_overflow": (c_int, (c_void_p, c_void_p, c_void_p)),
    "minuet_coordinates_generate": (c_int, (c_void_p, POINTER(minuet_generate_options), c_void_p, c_void_p)),
    "minuet_plan_create_pooling_gradient": (c_int, (c_void_p, POINTER(minuet_pooling_options), c_void_p)),
    "minuet_kernel_map_list_pairs": (c_int, (c_void_p, c_void_p, c_int64, c_void_p, c_void_p)),
    "minuet_gradient_create": (c_int, (c_void_p, POINTER(minuet_convolution_options), c_int32, c_void_p)),
    "minuet_gradient_create_affine": (c_int, (c_void_p, POINTER(minuet_affine_gradient_options), c_int32, c_void_p)),
    "minuet_gradient_op_destroy": (None, (c_void_p,)),
    "minuet_gradient_op_load": (c_int, (c_void_p, c_void_p)),
    "minuet_gradient_bytes": (c_int, (c_void_p, c_char_p, c_int64, c_int64, c_void_p)),
    "minuet_gradient_compute": (c_int, (c_void_p, c_void_p, POINTER(minuet_gradient_arguments), c_void_p)),
    "minuet_index_bytes": (c_int, (POINTER(minuet_index_options), POINTER(minuet_index_sizes))),
    "minuet_execution_suggest_slots": (c_int, (c_void_p, c_double, c_void_p, c_int32, c_void_p)),
    "minuet_plan_visit_kernels": (c_int, (c_void_p, c_char_p, minuet_kernel_code_visitor, c_void_p)),
    "minuet_parameters_create": (c_int, (c_void_p, c_void_p, POINTER(minuet_parameters_options), c_void_p)),
    "minuet_parameters_destroy": (None, (c_void_p,)),
    "minuet_parameters_set": (c_int, (c_void_p, c_void_p, POINTER(minuet_array), c_int32, c_int32, c_void_p)),
    "minuet_parameters_get": (c_int, (c_void_p, c_int32, POINTER(minuet_array), c_void_p)),
    "minuet_parameters_release_captures": (c_int, (c_void_p,)),
    "minuet_voxelize_create": (c_int, (c_void_p, POINTER(minuet_voxelize_options), c_void_p)),
    "minuet_devoxelize_create": (c_int, (c_void_p, POINTER(minuet_devoxelize_options), c_void_p)),
    "minuet_point_op_destroy": (None, (c_void_p,)),
    "minuet_point_op_load": (c_int, (c_void_p, c_void_p)),
    "minuet_voxelize_bytes": (c_int, (c_void_p, c_char_p, c_int64, c_void_p)),
    "minuet_devoxelize_bytes": (c_int, (c_void_p, c_char_p, c_int64, c_int64, c_void_p)),
    "minuet_voxelize": (c_int, (c_void_p, c_void_p, POINTER(minuet_voxelize_arguments), c_void_p)),
    "minuet_devoxelize": (c_int, (c_void_p, c_void_p, POINTER(minuet_devoxelize_arguments), c_void_p)),
    "minuet_execution_read_points": (c_int, (c_void_p, c_void_p, c_int32, c_void_p)),
    "minuet_plan_create_pointwise": (c_int, (c_void_p, POINTER(minuet_pointwise_options), c_void_p)),
    "minuet_plan_compile_async": (c_int, (c_void_p, c_char_p, minuet_job_callback, c_void_p, c_void_p)),
    "minuet_job_cancel": (None, (c_void_p,)),
    "minuet_job_done": (c_int32, (c_void_p,)),
    "minuet_job_wait": (c_int, (c_void_p,)),
    "minuet_job_destroy": (None, (c_void_p,)),
    "minuet_precompile": (c_int, (c_void_p, POINTER(minuet_precompile_options), POINTER(minuet_precompile_result))),
    "minuet_pyramid_create": (c_int, (c_void_p, POINTER(minuet_pyramid_options), c_void_p)),
    "minuet_pyramid_destroy": (None, (c_void_p,)),
    "minuet_pyramid_bytes": (c_int, (c_void_p, c_char_p, c_void_p, c_void_p)),
    "minuet_pyramid_load": (c_int, (c_void_p, c_void_p)),
    "minuet_pyramid_build": (c_int, (c_void_p, c_void_p, POINTER(minuet_pyramid_arguments), c_void_p)),
    "minuet_pyramid_coordinates": (c_int, (c_void_p, c_void_p, c_void_p, c_int64, c_int32, c_void_p, c_void_p)),
    "minuet_pyramid_rows": (c_int, (c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_void_p)),
    "minuet_pyramid_export_pairs": (c_int, (c_void_p, c_void_p, c_void_p, c_int64, c_int32, c_void_p, c_int64, c_void_p, c_void_p)),
    "minuet_plan_run_bytes": (c_int, (c_void_p, c_char_p, POINTER(minuet_run_arguments), c_void_p)),
    "minuet_plan_prepared_bytes": (c_int, (c_void_p, c_char_p, POINTER(minuet_run_arguments), c_void_p)),
    "minuet_plan_prepare_parameters": (c_int, (c_void_p, c_void_p, POINTER(minuet_run_arguments), POINTER(minuet_array), c_int32, c_int32, c_void_p, c_int64, c_void_p)),
    "minuet_plan_run_load": (c_int, (c_void_p, c_void_p, POINTER(minuet_run_arguments))),
    "minuet_plan_run": (c_int, (c_void_p, c_void_p, POINTER(minuet_run_arguments), c_void_p)),
    "minuet_plan_observe": (c_int, (c_void_p, c_void_p, c_size_t, c_void_p)),
    "minuet_plan_quantize": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_int32, minuet_floating_visitor, c_void_p, c_void_p, c_size_t, c_void_p)),
    "minuet_devoxelize_gradient_create": (c_int, (c_void_p, POINTER(minuet_devoxelize_options), c_void_p)),
    "minuet_devoxelize_gradient_bytes": (c_int, (c_void_p, c_char_p, c_int64, c_int64, c_void_p)),
    "minuet_devoxelize_gradient": (c_int, (c_void_p, c_void_p, POINTER(minuet_devoxelize_arguments), c_void_p)),
    "minuet_group_gradient_create": (c_int, (c_void_p, POINTER(minuet_group_gradient_options), c_void_p)),
    "minuet_group_gradient_bytes": (c_int, (c_void_p, c_char_p, c_int64, c_void_p)),
    "minuet_group_gradient": (c_int, (c_void_p, c_void_p, POINTER(minuet_group_gradient_arguments), c_void_p)),
    "minuet_select_create": (c_int, (c_void_p, POINTER(minuet_select_options), c_void_p)),
    "minuet_select_op_destroy": (None, (c_void_p,)),
    "minuet_select_op_load": (c_int, (c_void_p, c_void_p)),
    "minuet_select_bytes": (c_int, (c_void_p, c_char_p, c_int64, c_void_p)),
    "minuet_select": (c_int, (c_void_p, c_void_p, POINTER(minuet_select_arguments), c_void_p)),
    "minuet_plan_create_space_to_channel": (c_int, (c_void_p, POINTER(minuet_space_options), c_void_p)),
    "minuet_plan_create_channel_to_space": (c_int, (c_void_p, POINTER(minuet_space_options), c_void_p)),
    "minuet_training_create": (c_int, (c_void_p, c_void_p, POINTER(minuet_training_options), c_void_p)),
    "minuet_training_destroy": (None, (c_void_p,)),
    "minuet_training_query_kept": (c_int, (c_void_p, c_int32, POINTER(minuet_kept_info))),
    "minuet_training_create_pyramid": (c_int, (c_void_p, POINTER(minuet_pyramid_options), c_void_p)),
    "minuet_training_bytes": (c_int, (c_void_p, c_char_p, c_void_p, POINTER(minuet_training_sizes))),
    "minuet_training_load": (c_int, (c_void_p, c_void_p)),
    "minuet_training_forward": (c_int, (c_void_p, c_void_p, POINTER(minuet_training_forward_arguments), c_void_p)),
    "minuet_training_backward": (c_int, (c_void_p, c_void_p, POINTER(minuet_training_backward_arguments), c_void_p)),
    "minuet_tune": (c_int, (c_void_p, c_void_p, c_void_p, POINTER(minuet_tuning_options), POINTER(minuet_tuning_result))),
    "minuet_context_load_tuning": (c_int, (c_void_p, c_void_p, c_char_p, c_void_p)),
    "minuet_plan_visit_tuning": (c_int, (c_void_p, minuet_tuned_visitor, c_void_p)),
    "minuet_precompile_tuned": (c_int, (c_void_p, POINTER(minuet_precompile_options), c_char_p, POINTER(minuet_precompile_result))),
}
