// What the files of the C ABI share: handles, options of any age, and the one way out of an Error.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "codegen/base/arch.h"
#include "codegen/base/background_job.h"
#include "codegen/base/error.h"
#include "codegen/base/trace.h"
#include "codegen/choose/ops/convolution_gradient.h"
#include "codegen/choose/ops/pooling.h"
#include "minuet/minuet.h"
#include "minuet/tuning.h"
#include "runtime/abi/context.h"
#include "runtime/engine/alignment.h"
#include "runtime/execution/execution.h"
#include "runtime/network/weights_check.h"

struct minuet_context {
  std::shared_ptr<minuet::Context> context;
};
struct minuet_device {
  std::shared_ptr<minuet::OpenDevice> open;
};
struct minuet_queue {
  std::shared_ptr<minuet::OpenDevice> open;  // outlives what follows
  std::shared_ptr<minuet::Queue> queue;
};
struct minuet_coordinates {
  std::shared_ptr<minuet::CoordinateSet> set;
};
struct minuet_kernel_map {
  std::shared_ptr<minuet::KernelMap> map;
};
struct minuet_plan {
  std::shared_ptr<minuet::PlanStore> store;  // a job in the background may hold it longer
  std::vector<minuet::ParameterName> parameters;
};
struct minuet_job {
  std::unique_ptr<minuet::BackgroundJob> job;
};
struct minuet_execution {
  std::shared_ptr<minuet::OpenDevice> open;  // outlives what follows
  std::unique_ptr<minuet::Execution> execution;
  std::mutex in_call;
};

namespace minuet {

// The ABI's numbers are the library's own, so that both sides cast.
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
              MINUET_CLOUD_KEY_TOO_NARROW == kStatusKeyTooNarrow && MINUET_CLOUD_TOO_FAR == kStatusTooFar);
static_assert(MINUET_REDUCE_MAX == static_cast<int>(Reduction::Max) &&
              MINUET_REDUCE_AVERAGE == static_cast<int>(Reduction::Average) &&
              MINUET_REDUCE_SUM == static_cast<int>(Reduction::Sum));
static_assert(MINUET_DATAFLOW_GATHER_GEMM_SCATTER == 1 + static_cast<int>(Dataflow::GatherGemmScatter) &&
              MINUET_DATAFLOW_FUSED == 1 + static_cast<int>(Dataflow::Fused));
static_assert(MINUET_MAPS_SORTED == 1 + static_cast<int>(MapMethod::Sorted) &&
              MINUET_MAPS_INDEXED == 1 + static_cast<int>(MapMethod::Indexed));
static_assert(MINUET_GRADIENT_INPUT == static_cast<int>(Gradient::Input) &&
              MINUET_GRADIENT_WEIGHT == static_cast<int>(Gradient::Weight));
static_assert(MINUET_BUNDLE_SAME_MAJOR == static_cast<int>(BundlePolicy::SameMajor) &&
              MINUET_BUNDLE_ANY == static_cast<int>(BundlePolicy::Any));
static_assert(MINUET_CANCELLED == static_cast<int>(StatusCode::Cancelled) &&
              MINUET_INVALID_ARGUMENT == static_cast<int>(StatusCode::InvalidArgument) &&
              MINUET_NOT_FOUND == static_cast<int>(StatusCode::NotFound) &&
              MINUET_RESOURCE_EXHAUSTED == static_cast<int>(StatusCode::ResourceExhausted) &&
              MINUET_FAILED_PRECONDITION == static_cast<int>(StatusCode::FailedPrecondition) &&
              MINUET_OUT_OF_RANGE == static_cast<int>(StatusCode::OutOfRange) &&
              MINUET_UNIMPLEMENTED == static_cast<int>(StatusCode::Unimplemented) &&
              MINUET_INTERNAL == static_cast<int>(StatusCode::Internal) &&
              MINUET_UNAVAILABLE == static_cast<int>(StatusCode::Unavailable));

// New fields are appended: where a struct ended in padding, an older caller would leave garbage there.
#define MINUET_ENDS_WITH(Struct, field)                                                    \
  static_assert(sizeof(Struct) == offsetof(Struct, field) + sizeof(Struct::field), #Struct \
                " ends in "                                                                \
                "padding")
MINUET_ENDS_WITH(minuet_context_options, cpu_threads);
MINUET_ENDS_WITH(minuet_kernel_counters, wait_ms);
MINUET_ENDS_WITH(minuet_precompile_step, error);
MINUET_ENDS_WITH(minuet_bundle_info, kernels);
// NOLINTNEXTLINE(bugprone-sizeof-expression): the size of a pointer is meant
MINUET_ENDS_WITH(minuet_precompile_options, user);
MINUET_ENDS_WITH(minuet_precompile_result, seconds);
// NOLINTNEXTLINE(bugprone-sizeof-expression): the size of a pointer is meant
MINUET_ENDS_WITH(minuet_coordinates_options, queue);
MINUET_ENDS_WITH(minuet_kernel_map_options, reserved);
MINUET_ENDS_WITH(minuet_convolution_options, shift_count);
MINUET_ENDS_WITH(minuet_pooling_options, transposed);
MINUET_ENDS_WITH(minuet_network_options, allow_non_finite_parameters);
// NOLINTNEXTLINE(bugprone-sizeof-expression): the size of a pointer is meant
MINUET_ENDS_WITH(minuet_execution_options, reserved);
MINUET_ENDS_WITH(minuet_system_info, reserved);
MINUET_ENDS_WITH(minuet_device_info, memory_bytes);
MINUET_ENDS_WITH(minuet_plan_info, parameters);
MINUET_ENDS_WITH(minuet_parameter_info, reserved);
MINUET_ENDS_WITH(minuet_tensor, dtype);
MINUET_ENDS_WITH(minuet_level_info, reserved);
// NOLINTNEXTLINE(bugprone-sizeof-expression): the size of a pointer is meant
MINUET_ENDS_WITH(minuet_layer_info, scatter);
MINUET_ENDS_WITH(minuet_tuning_progress, seconds_left);
MINUET_ENDS_WITH(minuet_tuning_skip, reason);
// NOLINTNEXTLINE(bugprone-sizeof-expression): the size of a pointer is meant
MINUET_ENDS_WITH(minuet_tuning_options, user);
MINUET_ENDS_WITH(minuet_tuning_result, seconds);
MINUET_ENDS_WITH(minuet_tuned_choice, most_density);
#undef MINUET_ENDS_WITH

/// Keeps the message for minuet_last_error of this thread. Consumes the error.
minuet_status set_last_error(llvm::Error error);
minuet_status set_last_error(StatusCode code, const char* message) noexcept;

/// Runs `body` and turns what comes out, exceptions included, into a status.
minuet_status guarded(const char* function, llvm::function_ref<llvm::Error()> body) noexcept;

llvm::Error check_pointer(const void* pointer, const char* name);
/// InvalidArgument for a count of what is null, for a pointer to none, and for less than none.
llvm::Error check_list(const void* list, const char* name, i64 count, const char* count_name);

/// A queue of the caller's, on this device; null for none.
llvm::Expected<std::shared_ptr<Queue>> read_queue(const minuet_queue* queue, const Device& device);
/// The number of axes that options ask for: 3 where they leave it 0. InvalidArgument for more than 4.
llvm::Expected<i32> read_ndim(int32_t ndim);
/// What the library calls the architecture: empty for "cpu". InvalidArgument, which calls the argument
/// `name`, for null and for an empty string.
llvm::Expected<std::string> read_arch(const char* arch, const std::string& name = "arch");

/// One call at a time: the queue, which may be null, is the caller's until the lock goes.
llvm::Expected<QueueCall> lock_queue(const std::shared_ptr<Queue>& queue);

/// Of options, which begin with struct_size and ext; of info structs, which begin with struct_size. Both are
/// for read_options and write_info.
llvm::Error check_options(const void* given, std::size_t known_bytes);
llvm::Error check_info(const void* target);

/// Options of a caller built against this or an older minor version: fields it does not know keep
/// their defaults.
template <class Options>
llvm::Expected<Options> read_options(const Options* given, Options defaults) {
  if (!given) return defaults;
  MINUET_TRY(check_options(given, sizeof(Options)));
  std::memcpy(&defaults, given, std::min(given->struct_size, sizeof(Options)));
  if constexpr (requires { defaults.reserved; }) {
    if (defaults.reserved != 0) {
      return make_error(StatusCode::InvalidArgument, "reserved is {0}; it must be 0", defaults.reserved);
    }
  }
  return defaults;
}

/// Writes an answer into a struct of the caller's age.
template <class Info>
llvm::Error write_info(Info answer, Info* target) {
  MINUET_TRY(check_info(target));
  answer.struct_size = std::min(target->struct_size, sizeof(Info));  // says how much was filled in
  std::memcpy(target, &answer, answer.struct_size);
  return llvm::Error::success();
}

template <std::size_t N>
void copy_text(char (&target)[N], llvm::StringRef text) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::memcpy(target, text.data(), length);
  target[length] = '\0';
}

/// Text by size query: returns the bytes needed, terminator included.
std::size_t give_text(llvm::StringRef text, char* buffer, std::size_t size);

/// Axis values where 0 counts as 1; axes past ndim must be 0 or 1.
llvm::Expected<AxisArray> read_axes(const int32_t* values, i32 ndim, const char* name);
llvm::Expected<DType> read_dtype(minuet_dtype dtype);
/// Nothing for MINUET_DATAFLOW_AUTO.
llvm::Expected<std::optional<Dataflow>> read_dataflow(minuet_dataflow dataflow);
/// Empty for null; InvalidArgument for a path that is not absolute.
llvm::Expected<std::string> read_tuning_directory(const char* directory);
/// There, or for null in the context's cache folder.
llvm::Expected<TuningStore> open_tuning_store(Context& context, const char* directory);
/// Its strings are the binary's.
minuet_kernel_info kernel_info(const Binary& binary, BinaryOrigin origin);
/// Origins are those of the events from `first_event` on; a kernel without one was in memory.
void visit_kernels(const BinaryList& binaries, const std::vector<CacheEvent>& events, std::size_t first_event,
                   minuet_kernel_visitor visit, void* user);

}  // namespace minuet
