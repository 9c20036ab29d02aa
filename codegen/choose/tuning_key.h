// Defines the keys of a measurement: the environment in which it was made, and the bucket of problems to
// which it applies. Their hashes name the folder and the file of an entry. All functions are pure.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/choose/problem.h"

namespace minuet {

struct ConvolutionProblem;

/// Gives the version of the format of keys and entries. It is part of every hash and every entry, so entries
/// of another version have other file names.
inline constexpr int kTuningSchema = 3;

/// Holds the properties, other than the problem, that decide how fast a kernel is. The driver is recorded
/// with each measurement but is not part of the environment, because a new driver runs the same binaries.
struct TuningEnvironment {
  std::string gpu;                 // An example is "NVIDIA H200".
  std::string compute_capability;  // An example is "9.0".
  i64 multiprocessors = 0;
  i64 l2_bytes = 0;
  std::string toolkit;  // This is the major.minor version of NVRTC, for example "13.0".
  bool operator==(const TuningEnvironment&) const = default;

  /// Calls the visitor with the name and the value of every field, for hashing, writing and reading.
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& visitor) {
    visitor("gpu", self.gpu), visitor("compute_capability", self.compute_capability),
        visitor("multiprocessors", self.multiprocessors), visitor("l2_bytes", self.l2_bytes),
        visitor("toolkit", self.toolkit);
  }
};

/// Returns the SHA-256 of all fields in hex digits.
std::string environment_hash(const TuningEnvironment& environment);

/// Returns the version of the CUDA toolkit in a compiler id (NvrtcInfo::id). It is "13.0" for "nvrtc 13.0
/// ...". Returns an empty string if the id is empty because there is no compiler.
std::string toolkit_of(llvm::StringRef compiler_id);

/// Names what tuning chooses.
enum class Operation : i32 {
  Search,
  Gather,
  Scatter,
  Grouping,
  Fused,           // Tuning chooses the fused kernel of a whole layer.
  Dataflow,        // Tuning chooses the dataflow of a whole layer.
  Gemm,            // Tuning chooses the cuBLASLt algorithm for the GEMMs of gather-GEMM-scatter.
  Order,           // Tuning chooses the order of output rows for the fused dataflow.
  WeightGradient,  // Tuning chooses the kernel for the gradient of a layer's weight.
  InputGradient,   // Tuning chooses the fused kernel for the gradient of a layer's input.
};
const char* operation_name(Operation operation);
/// Returns true if this Operation is a choice for a whole layer. The best choice then depends on the number
/// of output rows and on the density (pairs per output row), so a result applies only to its own range of
/// rows and to the neighbouring ranges. InputGradient has no densities (layer_bucket()).
inline bool is_of_layer(Operation operation) {
  return operation == Operation::Fused || operation == Operation::Dataflow ||
         operation == Operation::WeightGradient || operation == Operation::InputGradient;
}
/// Returns true if one choice serves all layers of a network. It is the choice that was tuned for the largest
/// kernel and the most rows.
inline bool is_of_network(Operation operation) {
  return operation == Operation::Search || operation == Operation::Grouping || operation == Operation::Order;
}

/// These values mean that the number of rows or the density (pairs per output row) is unknown. Both become
/// known only with a point cloud, after the plan is made.
inline constexpr i32 kAnyRows = -1, kAnyDensity = -1;

/// Returns the number of the range that contains a density, in pairs per output row. Range 0 is below 4,
/// range 1 is below 16, and so on. For kernels of 27 offsets, the ranges separate scattered points, surfaces
/// and solids.
inline i64 log4_of(double density) {
  i64 log4 = 0;
  for (; density >= 4; density /= 4) ++log4;
  return log4;
}
/// Returns the least density of the range that log4_of() numbers `log4`. The range ends where the next one
/// begins.
inline double least_density_of(i64 log4) { return log4 > 0 ? static_cast<double>(i64{1} << 2 * log4) : 0; }

/// Describes the problems that share one measurement. Make buckets with the functions below, so that fields
/// that do not matter to an operation keep their defaults.
struct TuningBucket {
  Operation operation = Operation::Gather;
  /// Is the type of a layer's input, or the type of the plan for what is not of a layer.
  DType dtype = DType::F32;
  /// Counts the channels of gathered or scattered rows, or of the input of a layer or a GEMM. For the
  /// gradient of a weight, these are the channels of one group.
  i64 channels = 0;
  /// Counts the output channels of a whole layer or a GEMM, or those of one group for the gradient of a
  /// weight.
  i64 out_channels = 0;
  /// Holds the convolution kind of a whole layer.
  ConvolutionKind kind = ConvolutionKind::Submanifold;
  /// Counts the offsets of the kernel.
  i64 volume = 0;
  KeyType key = KeyType::U32;
  i64 ndim = 0;
  /// Holds the base-2 logarithm of the number of output rows of the layer, or of sources of a search, rounded
  /// down.
  i64 log2_rows = kAnyRows;
  /// Holds the number of the range of a whole layer's density (log4_of()).
  i64 log4_density = kAnyDensity;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 of a comparison for a null pointer.
  auto operator<=>(const TuningBucket&) const = default;

  /// Calls the visitor with the name and the value of every field that matters to the operation.
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& visitor) {
    const bool multiplies = is_of_layer(self.operation) || self.operation == Operation::Gemm;
    const bool rows_move = self.operation == Operation::Gather || self.operation == Operation::Scatter;
    if (self.operation != Operation::Search) visitor("dtype", self.dtype);
    if (rows_move || multiplies) visitor("channels", self.channels);
    if (multiplies) visitor("out_channels", self.out_channels);
    if (is_of_layer(self.operation)) visitor("kind", self.kind);
    if (self.operation == Operation::Search) visitor("key", self.key), visitor("ndim", self.ndim);
    visitor("volume", self.volume), visitor("log2_rows", self.log2_rows);
    // The density is visited only if it was measured, because results without a density apply to every
    // density.
    if (is_of_layer(self.operation) && self.log4_density != kAnyDensity)
      visitor("log4_density", self.log4_density);
  }
};

/// In the following functions, `rows` is the approximate number of output rows of the layer, or of sources of
/// a search. 0 means that it is unknown.
TuningBucket gather_bucket(DType dtype, i64 in_channels, i64 volume, i64 rows);
TuningBucket scatter_bucket(DType dtype, i64 out_channels, i64 volume, i64 rows);
TuningBucket gemm_bucket(DType dtype, i64 in_channels, i64 out_channels, i64 volume, i64 rows);
TuningBucket search_bucket(KeyType key, i32 ndim, i64 volume, i64 rows);
TuningBucket grouping_bucket(DType dtype, i64 volume, i64 rows);
TuningBucket order_bucket(DType dtype, i64 volume, i64 rows);
/// Returns the bucket of a whole layer. `operation` is Fused or Dataflow. `density` is in pairs per output
/// row, and is empty if it is unknown. If the problem is the gradient of another one, InputGradient takes the
/// place of Fused, and `density` is not used, because the host never knows it when such a gradient is
/// computed.
TuningBucket layer_bucket(Operation operation, const ConvolutionProblem& problem, i64 rows,
                          std::optional<double> density = {});
/// Returns the bucket of the gradient of a convolution's weight. `rows` counts the output rows of the
/// convolution, and `density` is in pairs per output row.
TuningBucket weight_gradient_bucket(const ConvolutionProblem& forward, i64 rows,
                                    std::optional<double> density = {});

/// Returns every bucket in which a part of the layer may be tuned.
std::vector<TuningBucket> buckets_of_layer(const ConvolutionProblem& problem, i64 rows,
                                           std::optional<double> density = {});

std::string bucket_hash(const TuningBucket& bucket);

/// The following functions convert strings, numbers and enumerators to the text that hashes and files use.
std::string tuning_text(const std::string& value);
std::string tuning_text(i64 value);
std::string tuning_text(DType value);            // Returns, for example, "fp16".
std::string tuning_text(KeyType value);          // Returns, for example, "u32".
std::string tuning_text(ConvolutionKind value);  // Returns, for example, "submanifold".
/// The following functions read the enumerator that `text` names, or return InvalidArgument.
llvm::Error read_tuning_text(llvm::StringRef text, DType& value);
llvm::Error read_tuning_text(llvm::StringRef text, KeyType& value);
llvm::Error read_tuning_text(llvm::StringRef text, ConvolutionKind& value);
llvm::Error read_tuning_text(llvm::StringRef text, Operation& value);

}  // namespace minuet
