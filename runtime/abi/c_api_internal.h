// Declares what the files of the C ABI share: handles, the reading of versioned option structs, and the
// conversion of errors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <variant>

#include "codegen/base/arch.h"
#include "codegen/base/background_job.h"
#include "codegen/base/error.h"
#include "codegen/base/trace.h"
#include "codegen/choose/ops/affine_gradient.h"
#include "codegen/choose/ops/batch_norm.h"
#include "codegen/choose/ops/parameter_gradient.h"
#include "codegen/choose/ops/points.h"
#include "codegen/choose/ops/pooling_gradient.h"
#include "codegen/choose/ops/row_gradient.h"
#include "codegen/choose/ops/select.h"
#include "minuet/batch_norm.h"
#include "minuet/diagnostics.h"
#include "minuet/generate.h"
#include "minuet/gradient.h"
#include "minuet/index.h"
#include "minuet/kernels.h"
#include "minuet/minuet.h"
#include "minuet/parameters.h"
#include "minuet/points.h"
#include "minuet/pointwise.h"
#include "minuet/precompile.h"
#include "minuet/pyramid.h"
#include "minuet/row_gradient.h"
#include "minuet/select.h"
#include "minuet/space.h"
#include "minuet/training.h"
#include "minuet/tuning.h"
#include "runtime/abi/context.h"
#include "runtime/engine/alignment.h"
#include "runtime/execution/execution.h"
#include "runtime/execution/run_pool.h"
#include "runtime/network/weights_check.h"
#include "runtime/training/training.h"

struct minuet_context {
  std::shared_ptr<minuet::Context> context;
};
struct minuet_device {
  std::shared_ptr<minuet::OpenDevice> open;
};
struct minuet_queue {
  std::shared_ptr<minuet::OpenDevice> open;  // The device must outlive the queue, so it comes first.
  std::shared_ptr<minuet::Queue> queue;
};
struct minuet_coordinates {
  std::shared_ptr<minuet::CoordinateSet> set;
};
struct minuet_kernel_map {
  std::shared_ptr<minuet::KernelMap> map;
};
struct minuet_plan {
  std::shared_ptr<minuet::PlanStore> store;  // A background job may share the store and outlive the plan.
  std::vector<minuet::PlanParameter> parameters;
  // Holds Context::cpu_threads() of the context in which the plan was created.
  minuet::i32 cpu_threads = 0;
  std::mutex mutex;  // Guards the following members.
  // Holds the bytes of which minuet_plan_serialize() has told the size for these architectures and flags,
  // until a call takes them, so that the usual two calls do the work once. It is empty otherwise.
  std::string serialized;
  std::vector<std::string> serialized_archs;
  uint32_t serialized_flags = 0;
  // Keeps the executions of runs on pyramids.
  const std::shared_ptr<minuet::RunPool> runs = std::make_shared<minuet::RunPool>();
};
struct minuet_parameters {
  std::shared_ptr<minuet::OpenDevice> open;  // The device must outlive the parameters, so it comes first.
  std::shared_ptr<minuet::ParameterSet> set;
};
struct minuet_pyramid {
  std::shared_ptr<minuet::Context> context;
  std::shared_ptr<const minuet::Pyramid> pyramid;
  std::mutex mutex;  // Guards the following members.
  // List the pools of plans that have run on the pyramid, and the parameters that these runs have used.
  std::vector<std::weak_ptr<minuet::RunPool>> runs;
  std::vector<std::weak_ptr<minuet::ParameterSet>> parameters;
};
struct minuet_point_op {
  std::shared_ptr<minuet::Context> context;
  std::variant<minuet::VoxelizeChoice, minuet::DevoxelizeChoice, minuet::DevoxelizeGradientChoice,
               minuet::GroupGradientChoice>
      choice;
  minuet::i32 ndim() const {
    return std::visit([](const auto& one) { return one.problem.ndim; }, choice);
  }
};
struct minuet_gradient_op {
  std::shared_ptr<minuet::Context> context;
  std::variant<minuet::ParameterGradientChoice, minuet::AffineGradientChoice> choice;
};

struct minuet_batch_norm_op {
  std::shared_ptr<minuet::Context> context;
  minuet::BatchNormChoice choice;
};
struct minuet_select_op {
  struct Selection {
    minuet::SelectChoice choice;
    minuet::i64 batch_size = 0;
  };
  std::shared_ptr<minuet::Context> context;
  Selection selection;
};
struct minuet_training {
  std::shared_ptr<minuet::Context> context;
  std::shared_ptr<minuet::Training> training;
  minuet::WeightsOrder described_order;  // Is the order of weights that the network's description names.
};
struct minuet_job {
  std::unique_ptr<minuet::BackgroundJob> job;
};
struct minuet_execution {
  std::shared_ptr<minuet::OpenDevice> open;  // The device must outlive the execution, so it comes first.
  std::unique_ptr<minuet::PlanExecution> execution;
  std::mutex in_call;
};

namespace minuet {

// The code casts between enum values of the ABI and of the library. These assertions check that they are
// equal, or that those of the ABI are larger by 1 where 0 means a default.
static_assert(MINUET_MAX_DIM == kMaxDim);
#define MINUET_DTYPE_ROW(type, ...) static_assert(MINUET_##type == static_cast<int>(DType::type));
MINUET_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
static_assert(MINUET_WEIGHTS_MINUET == static_cast<int>(WeightsOrder::Minuet) &&
              MINUET_WEIGHTS_MINKOWSKI == static_cast<int>(WeightsOrder::Minkowski) &&
              MINUET_WEIGHTS_TORCHSPARSE == static_cast<int>(WeightsOrder::TorchSparse) &&
              MINUET_WEIGHTS_SPCONV == static_cast<int>(WeightsOrder::Spconv) &&
              MINUET_WEIGHTS_SPCONV_XYZ == static_cast<int>(WeightsOrder::SpconvXyz));
static_assert(MINUET_CLOUD_OUT_OF_BOUNDS == kStatusOutOfBounds &&
              MINUET_CLOUD_NEGATIVE_BATCH == kStatusNegativeBatch &&
              MINUET_CLOUD_DUPLICATE == kStatusDuplicate &&
              MINUET_CLOUD_PAST_CAPACITY == kStatusPastCapacity &&
              MINUET_CLOUD_KEY_TOO_NARROW == kStatusKeyTooNarrow && MINUET_CLOUD_TOO_FAR == kStatusTooFar &&
              MINUET_CLOUD_INDEX_FULL == kStatusIndexFull && MINUET_CLOUD_OUTSIDE_KEYS == kStatusOutsideKeys);
static_assert(MINUET_REDUCE_MAX == static_cast<int>(Reduction::Max) &&
              MINUET_REDUCE_AVERAGE == static_cast<int>(Reduction::Average) &&
              MINUET_REDUCE_SUM == static_cast<int>(Reduction::Sum));
static_assert(MINUET_ACTIVATION_RELU == static_cast<int>(Activation::ReLU) &&
              MINUET_ACTIVATION_LEAKY_RELU == static_cast<int>(Activation::LeakyReLU) &&
              MINUET_ACTIVATION_TANH == static_cast<int>(Activation::Tanh) &&
              MINUET_ACTIVATION_TANH == static_cast<int>(MINUET_POINTWISE_TANH));
static_assert(MINUET_DATAFLOW_GATHER_GEMM_SCATTER == 1 + static_cast<int>(Dataflow::GatherGemmScatter) &&
              MINUET_DATAFLOW_FUSED == 1 + static_cast<int>(Dataflow::Fused));
static_assert(MINUET_MAPS_SORTED == 1 + static_cast<int>(MapMethod::Sorted) &&
              MINUET_MAPS_INDEXED == 1 + static_cast<int>(MapMethod::Indexed));
static_assert(MINUET_ELEMENT_F32 == static_cast<int>(ElementType::F32) &&
              MINUET_ELEMENT_F16 == static_cast<int>(ElementType::F16) &&
              MINUET_ELEMENT_BF16 == static_cast<int>(ElementType::BF16) &&
              MINUET_ELEMENT_F64 == static_cast<int>(ElementType::F64) &&
              MINUET_ELEMENT_U8 == static_cast<int>(ElementType::U8) &&
              MINUET_ELEMENT_I32 == static_cast<int>(ElementType::I32) &&
              MINUET_ELEMENT_BOOL == static_cast<int>(ElementType::Bool) && MINUET_MAX_RANK == kMaxArrayAxes);
static_assert(static_cast<int>(ElementType::F32) == static_cast<int>(ArrayElement::F32) &&
              static_cast<int>(ElementType::F16) == static_cast<int>(ArrayElement::F16) &&
              static_cast<int>(ElementType::BF16) == static_cast<int>(ArrayElement::BF16) &&
              static_cast<int>(ElementType::F64) == static_cast<int>(ArrayElement::F64));
static_assert(static_cast<int>(ElementType::F32) == static_cast<int>(DType::F32) &&
              static_cast<int>(ElementType::F16) == static_cast<int>(DType::F16) &&
              static_cast<int>(ElementType::BF16) == static_cast<int>(DType::BF16));
static_assert(MINUET_SET_ORDER_INPUT == PyramidUse::kInput &&
              MINUET_SET_ORDER_OUTPUT == PyramidUse::kOutput &&
              MINUET_SET_ORDER_RESIDUAL == PyramidUse::kResidual);
static_assert(MINUET_FIELD_POINTER == static_cast<int>(FieldKind::Pointer) &&
              MINUET_FIELD_I32 == static_cast<int>(FieldKind::I32) &&
              MINUET_FIELD_U32 == static_cast<int>(FieldKind::U32) &&
              MINUET_FIELD_I64 == static_cast<int>(FieldKind::I64) &&
              MINUET_FIELD_F32 == static_cast<int>(FieldKind::F32));
static_assert(MINUET_BUNDLE_SAME_MAJOR == static_cast<int>(BundlePolicy::SameMajor) &&
              MINUET_BUNDLE_ANY == static_cast<int>(BundlePolicy::Any));
static_assert(MINUET_KERNEL_BOX == static_cast<int>(KernelShape::Box) &&
              MINUET_KERNEL_CROSS == static_cast<int>(KernelShape::Cross) &&
              MINUET_KERNEL_CUSTOM == static_cast<int>(KernelShape::Custom));
static_assert(MINUET_CANCELLED == static_cast<int>(StatusCode::Cancelled) &&
              MINUET_INVALID_ARGUMENT == static_cast<int>(StatusCode::InvalidArgument) &&
              MINUET_NOT_FOUND == static_cast<int>(StatusCode::NotFound) &&
              MINUET_RESOURCE_EXHAUSTED == static_cast<int>(StatusCode::ResourceExhausted) &&
              MINUET_FAILED_PRECONDITION == static_cast<int>(StatusCode::FailedPrecondition) &&
              MINUET_OUT_OF_RANGE == static_cast<int>(StatusCode::OutOfRange) &&
              MINUET_UNIMPLEMENTED == static_cast<int>(StatusCode::Unimplemented) &&
              MINUET_INTERNAL == static_cast<int>(StatusCode::Internal) &&
              MINUET_UNAVAILABLE == static_cast<int>(StatusCode::Unavailable));

// New fields are appended to these structs. A struct must not end in padding, because an older caller would
// leave garbage where a newer library reads the appended field.
#define MINUET_ENDS_WITH(Struct, field)                                                    \
  static_assert(sizeof(Struct) == offsetof(Struct, field) + sizeof(Struct::field), #Struct \
                " ends in "                                                                \
                "padding")
MINUET_ENDS_WITH(minuet_context_options, cpu_threads);
MINUET_ENDS_WITH(minuet_device_options, user);
MINUET_ENDS_WITH(minuet_kernel_counters, wait_ms);
MINUET_ENDS_WITH(minuet_kernel_info, compile_ms);
MINUET_ENDS_WITH(minuet_precompile_step, error);
MINUET_ENDS_WITH(minuet_bundle_info, kernels);
MINUET_ENDS_WITH(minuet_precompile_options, user);
MINUET_ENDS_WITH(minuet_precompile_result, seconds);
// NOLINTNEXTLINE(bugprone-sizeof-expression): The size of the pointer is meant, not that of the queue.
MINUET_ENDS_WITH(minuet_coordinates_options, queue);
MINUET_ENDS_WITH(minuet_reach_options, shape);
MINUET_ENDS_WITH(minuet_generate_options, reserved);
MINUET_ENDS_WITH(minuet_kernel_map_options, kernel_shape);
MINUET_ENDS_WITH(minuet_convolution_options, kernel_shape);
MINUET_ENDS_WITH(minuet_pooling_options, kernel_shape);
MINUET_ENDS_WITH(minuet_space_options, reserved);
MINUET_ENDS_WITH(minuet_pointwise_step, shift);
MINUET_ENDS_WITH(minuet_pointwise_options, step_bytes);
MINUET_ENDS_WITH(minuet_network_options, weights_key);
MINUET_ENDS_WITH(minuet_shipped_network_info, reserved);
// NOLINTNEXTLINE(bugprone-sizeof-expression): The size of the pointer is meant, not that of the number.
MINUET_ENDS_WITH(minuet_execution_options, level_slots);
MINUET_ENDS_WITH(minuet_parameters_options, set_by_each_run);
MINUET_ENDS_WITH(minuet_array, has_strides);
MINUET_ENDS_WITH(minuet_execution_info, workspace_bytes);
MINUET_ENDS_WITH(minuet_execution_counters, gemm_lookups);
MINUET_ENDS_WITH(minuet_stage_times, other);
MINUET_ENDS_WITH(minuet_pyramid_level, slots);
MINUET_ENDS_WITH(minuet_pyramid_map, kernel_shape);
// NOLINTNEXTLINE(bugprone-sizeof-expression): The size of the pointer is meant, not that of the number.
MINUET_ENDS_WITH(minuet_pyramid_options, level_slots);
MINUET_ENDS_WITH(minuet_index_options, reserved);
MINUET_ENDS_WITH(minuet_index_sizes, points);
MINUET_ENDS_WITH(minuet_pyramid_arguments, counts);
// NOLINTNEXTLINE(bugprone-sizeof-expression): The size of the pointer is meant, not that of the parameters.
MINUET_ENDS_WITH(minuet_run_arguments, prepared_bytes);
MINUET_ENDS_WITH(minuet_voxelize_options, most_voxels);
MINUET_ENDS_WITH(minuet_devoxelize_options, tensor_stride);
// NOLINTNEXTLINE(bugprone-sizeof-expression): The size of the pointer is meant, not that of the word.
MINUET_ENDS_WITH(minuet_voxelize_arguments, status);
MINUET_ENDS_WITH(minuet_devoxelize_arguments, workspace_bytes);
MINUET_ENDS_WITH(minuet_affine_gradient_options, reserved);
MINUET_ENDS_WITH(minuet_gradient_arguments, workspace_bytes);
MINUET_ENDS_WITH(minuet_batch_norm_options, reserved);
MINUET_ENDS_WITH(minuet_batch_norm_arguments, workspace_bytes);
MINUET_ENDS_WITH(minuet_batch_norm_gradient_arguments, workspace_bytes);
MINUET_ENDS_WITH(minuet_training_options, reserved);
MINUET_ENDS_WITH(minuet_kept_info, reserved);
MINUET_ENDS_WITH(minuet_training_sizes, backward_workspace);
MINUET_ENDS_WITH(minuet_training_forward_arguments, workspace_bytes);
MINUET_ENDS_WITH(minuet_training_backward_arguments, workspace_bytes);
MINUET_ENDS_WITH(minuet_select_options, reserved);
// NOLINTNEXTLINE(bugprone-sizeof-expression): The size of the pointer is meant, not that of the word.
MINUET_ENDS_WITH(minuet_select_arguments, status);
MINUET_ENDS_WITH(minuet_system_info, reserved);
MINUET_ENDS_WITH(minuet_device_info, memory_bytes);
MINUET_ENDS_WITH(minuet_plan_info, int8_convolutions);
MINUET_ENDS_WITH(minuet_parameter_info, reserved);
MINUET_ENDS_WITH(minuet_tensor, dtype);
MINUET_ENDS_WITH(minuet_tensor_info, axes);
MINUET_ENDS_WITH(minuet_level_info, ndim);
MINUET_ENDS_WITH(minuet_layer_info, reserved);
MINUET_ENDS_WITH(minuet_tuning_progress, seconds_left);
MINUET_ENDS_WITH(minuet_tuning_skip, reason);
MINUET_ENDS_WITH(minuet_tuning_options, user);
MINUET_ENDS_WITH(minuet_tuning_result, seconds);
MINUET_ENDS_WITH(minuet_tuned_choice, most_density);
MINUET_ENDS_WITH(minuet_kernel_field, data_bytes);
MINUET_ENDS_WITH(minuet_kernel_code, reserved);
#undef MINUET_ENDS_WITH

/// Stores the error's message for minuet_last_error() of this thread and returns the status. Consumes the
/// error.
minuet_status set_last_error(llvm::Error error);
minuet_status set_last_error(StatusCode code, const char* message) noexcept;

/// Runs `body` and converts its error or exception into a status.
minuet_status guarded(const char* function, llvm::function_ref<llvm::Error()> body) noexcept;

/// Runs `body` with the execution and its queue locked. If another thread is using the execution, the call
/// fails with FailedPrecondition and changes nothing.
minuet_status in_execution(const char* function, minuet_execution* execution,
                           llvm::function_ref<llvm::Error(PlanExecution&)> body);

llvm::Error check_pointer(const void* pointer, const char* name);
/// Returns InvalidArgument if `count` is negative, if `list` is null and `count` is not 0, or if `list` is
/// not null and `count` is 0.
llvm::Error check_list(const void* list, const char* name, i64 count, const char* count_name);

/// Returns the queue, or null if `queue` is null. Returns InvalidArgument if the queue belongs to another
/// device.
llvm::Expected<std::shared_ptr<Queue>> read_queue(const minuet_queue* queue, const Device& device);
/// Returns the batch size that a caller declares, or InvalidArgument if it is negative or too large. The
/// value 0 means that none is declared.
llvm::Expected<i32> read_batch_size(int64_t batch_size);
/// Returns InvalidArgument if a caller does not give one capacity for each of the plan's levels.
llvm::Error check_level_count(int32_t level_count, i32 levels);
/// Returns InvalidArgument if an index cannot have this number of levels.
llvm::Error check_indexed_levels(int32_t level_count);
/// Reads the option level_slots. Returns an empty list if it is null.
llvm::Expected<std::vector<i64>> read_slots(const int64_t* level_slots, i32 levels);
/// Returns a device for this architecture, which may be empty, whose engines tell how much memory they need.
/// `cpu_threads` is Context::cpu_threads().
llvm::Expected<std::shared_ptr<Device>> measured_device(const std::string& arch, i32 cpu_threads);
/// Reads the options of an execution on which the size of its memory depends, and parameter_inputs. Returns
/// InvalidArgument if an execution of `program` does not take them. The result has no queue, no workspace and
/// no parameters.
llvm::Expected<ExecutionOptions> read_size_options(const minuet_execution_options& given,
                                                   const Program& program);
/// Returns the number of axes, which is 3 if `ndim` is 0. Returns InvalidArgument unless `ndim` is 0 to 4.
llvm::Expected<i32> read_ndim(int32_t ndim);
/// Returns the library's name of the architecture, which is empty for "cpu". Returns InvalidArgument for null
/// and for an empty string. The message calls the argument `name`.
llvm::Expected<std::string> read_arch(const char* arch, const std::string& name = "arch");

/// Locks `queue`, which may be null, until the returned lock is destroyed. Returns FailedPrecondition if
/// another call has locked the queue.
llvm::Expected<QueueLock> lock_queue(const std::shared_ptr<Queue>& queue);

/// check_options() checks the first members of an option struct, which are struct_size and ext, and that
/// fields of a newer version are 0. check_info() checks the struct_size of an info struct, which its messages
/// call `name`. read_options() and write_info() call them.
llvm::Error check_options(const void* given, std::size_t known_bytes);
/// Returns InvalidArgument if a field for later versions is not 0.
llvm::Error check_reserved(int64_t reserved);
llvm::Error check_info(const void* target, const char* name);

/// Reads the options of a caller that was built against this version of minuet.h or another minor version.
/// Fields that the caller's version does not have keep their defaults.
template <class Options>
llvm::Expected<Options> read_options(const Options* given, Options defaults) {
  if (!given) return defaults;
  MINUET_TRY(check_options(given, sizeof(Options)));
  std::memcpy(&defaults, given, std::min(given->struct_size, sizeof(Options)));
  if constexpr (requires { defaults.reserved; }) {
    MINUET_TRY(check_reserved(defaults.reserved));
  }
  return defaults;
}

/// Writes an answer into an info struct of the caller, which may be an older and shorter version of the
/// struct. Messages call the struct `name`.
template <class Info>
llvm::Error write_info(Info answer, Info* target, const char* name) {
  MINUET_TRY(check_info(target, name));
  // The caller learns from struct_size how many bytes are filled in.
  answer.struct_size = std::min(target->struct_size, sizeof(Info));
  std::memcpy(target, &answer, answer.struct_size);
  return llvm::Error::success();
}

template <std::size_t N>
void copy_text(char (&target)[N], llvm::StringRef text) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::memcpy(target, text.data(), length);
  target[length] = '\0';
}

/// Copies as much of the text as fits. Returns the number of bytes that the whole text needs, including the
/// terminator.
std::size_t give_text(llvm::StringRef text, char* buffer, std::size_t size);

/// Returns InvalidArgument if there is no buffer although its size is not 0.
llvm::Error check_buffer(const void* buffer, std::size_t size);

/// Says what a call does with an array. Only arrays of a run may have no elements, and may be of i32.
enum class ArrayUse : i32 { Parameter, RunInput, RunOutput };
/// Reads an array, and checks all that can be checked without what it is compared with.
llvm::Expected<GivenArray> read_array(const minuet_array& given, ArrayUse use);

/// Reads an order of weights, of which 0 means the one that the plan's description names, or else Minuet's.
llvm::Expected<WeightsOrder> read_weights_order(minuet_weights_order order, const Plan& plan);

/// Returns InvalidArgument if a number of arrays is negative. `name` appears in the message.
llvm::Error check_count(int32_t count, const std::string& name);
/// Reads the input or output arrays of a call. `name` is "input" or "output".
llvm::Expected<std::vector<GivenArray>> read_arrays(const std::string& name, const minuet_array* arrays,
                                                    int32_t count, ArrayUse use);

/// Returns numbers of cells, which may be 0, of each axis. Axes from ndim on must have 0. `name` appears in
/// error messages.
llvm::Expected<AxisArray> read_cells(const int32_t* values, i32 ndim, const char* name);
/// Returns the padding of a kernel map or an op, which is empty unless `dense_offsets` is 1.
llvm::Expected<std::optional<AxisArray>> read_padding(int32_t dense_offsets, const int32_t* padding,
                                                      i32 ndim);
/// Holds the fields of options that list the offsets of a kernel.
struct GivenOffsets {
  const int32_t* offsets;
  int32_t count;
  int32_t shape;
};
/// Sets WindowProblem::offsets. The other fields that describe the kernel are already read.
llvm::Error read_offsets(const GivenOffsets& given, WindowProblem& problem);
/// Returns the shape of a set (SetSpec), which is given for all of the first `ndim` axes or for none.
llvm::Expected<AxisArray> read_set_shape(const int32_t* shape, i32 ndim);
/// A flag of options and its name.
using NamedFlag = std::pair<int64_t, const char*>;
/// Returns InvalidArgument unless each flag is 0 or 1. Other numbers are free for later versions.
llvm::Error check_flags(std::initializer_list<NamedFlag> flags);
/// Reads one value per axis, where 0 means 1. The values of the axes from number `ndim` on must be 0 or 1.
llvm::Expected<AxisArray> read_axes(const int32_t* values, i32 ndim, const char* name);
/// Reads the kernel of a map or an op (WindowProblem). `Options` has the fields kernel_size, dilation,
/// dense_offsets, padding, offsets, offset_count and kernel_shape.
template <class Options>
llvm::Error read_kernel(const Options& given, i32 ndim, WindowProblem& problem) {
  problem.ndim = ndim;
  MINUET_ASSIGN(problem.kernel_size, read_axes(given.kernel_size, ndim, "kernel_size"));
  MINUET_ASSIGN(problem.dilation, read_axes(given.dilation, ndim, "dilation"));
  MINUET_ASSIGN(problem.padding, read_padding(given.dense_offsets, given.padding, ndim));
  return read_offsets({given.offsets, given.offset_count, given.kernel_shape}, problem);
}
llvm::Expected<DType> read_dtype(minuet_dtype dtype);
/// Reads the options of a convolution except its parameters and its dataflow.
llvm::Expected<ConvolutionProblem> read_convolution_problem(const minuet_convolution_options& given);
llvm::Expected<PoolingProblem> read_pooling_problem(const minuet_pooling_options& given);
/// Returns InvalidArgument if the convolution does more than to multiply and to add a bias. The gradients of
/// its other steps are ops of their own.
llvm::Error check_differentiable(const ConvolutionProblem& problem);
/// Returns the dataflow, or nullopt for MINUET_DATAFLOW_AUTO.
llvm::Expected<std::optional<Dataflow>> read_dataflow(minuet_dataflow dataflow);
/// Returns the path of the directory of tuning results. Returns an empty string for null, and InvalidArgument
/// for a path that is not absolute.
llvm::Expected<std::string> read_tuning_directory(const char* directory);
/// Opens the store of tuning results in `directory`, or in the context's cache folder if `directory` is null.
llvm::Expected<TuningStore> open_tuning_store(Context& context, const char* directory);
/// Returns the handle of a plan.
minuet_plan* make_plan(std::shared_ptr<const Plan> plan, const Context& context);
/// Describes a compiled kernel. The strings of the result point into `binary`.
minuet_kernel_info kernel_info(const Binary& binary, BinaryOrigin origin);
/// Calls `visit` for every compiled kernel. The cache's events from `first_event` on tell where a kernel came
/// from. A kernel without such an event was already in memory.
void visit_kernels(const BinaryList& binaries, const std::vector<CacheEvent>& events, std::size_t first_event,
                   minuet_kernel_visitor visit, void* user);

}  // namespace minuet
