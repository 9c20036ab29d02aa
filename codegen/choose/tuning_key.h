// Where a measurement holds (R33): the environment it was made in and the bucket of problems it is for.
// Their hashes name the folder and the file of an entry. Pure.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/choose/problem.h"

namespace minuet {

struct ConvolutionProblem;

/// Part of every hash and every entry: another schema has other file names.
inline constexpr int kTuningSchema = 2;

/// What decides how fast a kernel is, beside the problem. The driver is recorded with a measurement and
/// is no part of this: a new driver runs the same binaries.
struct TuningEnvironment {
  std::string gpu;                 // "NVIDIA H200"
  std::string compute_capability;  // "9.0"
  i64 multiprocessors = 0;
  i64 l2_bytes = 0;
  std::string kernels;  // digest of what there is to choose among (codegen/tuning/tuned_kernels.h)
  std::string toolkit;  // major.minor of the compiler: "13.0"
  bool operator==(const TuningEnvironment&) const = default;

  /// Names every field once: for the hash, for JSON, and for reading it.
  template <class Self, class Visitor>
  static void visit(Self& self, Visitor&& visitor) {
    visitor("gpu", self.gpu), visitor("compute_capability", self.compute_capability),
        visitor("multiprocessors", self.multiprocessors), visitor("l2_bytes", self.l2_bytes),
        visitor("kernels", self.kernels), visitor("toolkit", self.toolkit);
  }
};

/// 64 hex digits; another value in any field gives others.
std::string environment_hash(const TuningEnvironment& environment);

/// "13.0" of the compiler's id "nvrtc 13.0 ...", empty where there is no compiler.
std::string toolkit_of(llvm::StringRef compiler_id);

/// What is tuned.
enum class Operation : i32 {
  Search,
  Gather,
  Scatter,
  Grouping,
  Fused,     // the kernel of a whole layer
  Dataflow,  // which of them a layer runs by
  Gemm,      // of gather-GEMM-scatter
  Order,     // of rows, for the fused dataflow
};
const char* operation_name(Operation operation);
/// Whether it is a layer as a whole: its best moves with the rows, and no farther than to their neighbours,
/// and with the density.
inline bool is_of_layer(Operation operation) {
  return operation == Operation::Fused || operation == Operation::Dataflow;
}
/// Whether one serves all layers of a network: that of the largest kernel, and of most rows.
inline bool serves_all_layers(Operation operation) {
  return operation == Operation::Search || operation == Operation::Grouping || operation == Operation::Order;
}

/// Rows and density are known when a cloud is there, and not yet when a plan is made.
inline constexpr i32 kAnyRows = -1, kAnyDensity = -1;

/// Pairs an output row in ranges: of kernels of 27 offsets scattered points, surfaces, and what is filled.
inline i64 log4_of(double density) {
  i64 log4 = 0;
  for (; density >= 4; density /= 4) ++log4;
  return log4;
}
/// Where such a range begins; the next one's beginning is its end.
inline double least_density_of(i64 log4) { return log4 > 0 ? static_cast<double>(i64{1} << 2 * log4) : 0; }

/// Problems that share one measurement. Made by the functions below, so that fields which do not matter
/// to an operation keep their defaults.
struct TuningBucket {
  Operation operation = Operation::Gather;
  DType dtype = DType::F32;
  i64 channels = 0;      // of the rows that are gathered or scattered; of a whole layer or GEMM, of its input
  i64 out_channels = 0;  // of a whole layer or GEMM
  ConvolutionKind kind = ConvolutionKind::Submanifold;  // of a whole layer
  i64 volume = 0;                                       // offsets of the kernel
  KeyType key = KeyType::U32;
  i64 ndim = 0;
  i64 log2_rows = kAnyRows;        // of the layer's output, of a search of its sources; rounded down
  i64 log4_density = kAnyDensity;  // of a whole layer; rounded down
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 that it compares with for one
  auto operator<=>(const TuningBucket&) const = default;

  /// Names every field that matters to the operation.
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
    // Where it was measured: results without it are of any.
    if (is_of_layer(self.operation) && self.log4_density != kAnyDensity)
      visitor("log4_density", self.log4_density);
  }
};

/// rows: about how many the layer's output has, a search's sources; 0: not known.
TuningBucket gather_bucket(DType dtype, i64 in_channels, i64 volume, i64 rows);
TuningBucket scatter_bucket(DType dtype, i64 out_channels, i64 volume, i64 rows);
TuningBucket gemm_bucket(DType dtype, i64 in_channels, i64 out_channels, i64 volume, i64 rows);
TuningBucket search_bucket(KeyType key, i32 ndim, i64 volume, i64 rows);
TuningBucket grouping_bucket(DType dtype, i64 volume, i64 rows);
TuningBucket order_bucket(DType dtype, i64 volume, i64 rows);
/// operation: Fused or Dataflow. `density`: pairs an output row, where they are known.
TuningBucket layer_bucket(Operation operation, const ConvolutionProblem& problem, i64 rows,
                          std::optional<double> density = {});

/// Every bucket that something of a layer may be tuned in, with its dataflow's first.
std::vector<TuningBucket> buckets_of_layer(const ConvolutionProblem& problem, i64 rows,
                                           std::optional<double> density = {});

std::string bucket_hash(const TuningBucket& bucket);

/// Enumerators and numbers as the text of hashes and files.
std::string tuning_text(const std::string& value);
std::string tuning_text(i64 value);
std::string tuning_text(DType value);            // "fp16"
std::string tuning_text(KeyType value);          // "u32"
std::string tuning_text(ConvolutionKind value);  // "submanifold"
/// The enumerator of that name; InvalidArgument where there is none.
llvm::Error read_tuning_text(llvm::StringRef text, DType& value);
llvm::Error read_tuning_text(llvm::StringRef text, KeyType& value);
llvm::Error read_tuning_text(llvm::StringRef text, ConvolutionKind& value);
llvm::Error read_tuning_text(llvm::StringRef text, Operation& value);

}  // namespace minuet
