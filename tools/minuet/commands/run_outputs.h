// Writes the files of `minuet run`, which are a network's output by voxel or by point, as features or labels,
// the report, and the trace.
#pragma once

#include <optional>
#include <vector>

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "minuet/minuet.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/cloud/input.h"
#include "tools/minuet/cloud/palette.h"
#include "tools/minuet/flags/arguments.h"
#include "tools/minuet/pages/trace_layers.h"

namespace minuet::tool {

struct Output {
  /// Holds [rows, channels], or the extents of a dense tensor's axes, which are more than two.
  std::vector<int64_t> shape;
  std::vector<float> features;       ///< These features have `shape`.
  std::vector<int32_t> coordinates;  ///< These coordinates have the shape [rows, 1 + ndim], or none if dense.

  bool is_dense() const { return shape.size() > 2; }
  // The next two functions are for outputs that are not dense.
  int64_t rows() const { return shape[0]; }
  int64_t channels() const { return shape[1]; }
};

/// Returns each row's channel with the largest feature, or -1 if a feature of the row is NaN or infinite.
/// Among equally large features, the first one decides.
std::vector<int32_t> labels_of(const Output& output);
int64_t count_non_finite(const Output& output);

/// Owns all files that `minuet run` writes. They are opened before the inference, so that an unwritable path
/// fails early.
class RunOutputs {
 public:
  /// Opens all files. Fails if one cannot be written, or is also an input file.
  static llvm::Expected<RunOutputs> open(const Arguments& arguments);

  /// Returns an error if --output, --labels, --palette, --output-coordinates or --per-point does not fit the
  /// network or the cloud. `is_dense` tells whether the network's output is a dense tensor.
  llvm::Error check(const Input& input, const minuet_plan_info& network, bool is_dense) const;
  /// Writes the output and its coordinates to the files that the flags name. `tensor_stride` is the tensor
  /// stride of the output's voxels.
  llvm::Error write(const Input& input, const minuet_plan_info& network, const int32_t* tensor_stride,
                    Output output);
  /// Writes the trace of the host. `device_times`, if given, adds the times that the GPU took.
  llvm::Error write_trace(minuet_context* context, const std::optional<DeviceTimes>& device_times);
  /// Writes the report to its file, or to stdout if the path is "-".
  llvm::Error write_report(const llvm::json::Value& report);

 private:
  explicit RunOutputs(const Arguments& arguments) : arguments_(&arguments) {}
  llvm::Error check_dense(const minuet_plan_info& network) const;
  llvm::Error write_coordinates(const Input& input, const minuet_plan_info& network, const Output& output);
  llvm::Error write_ply(const Input& input, const minuet_plan_info& network, const int32_t* tensor_stride,
                        const Output& output);

  const Arguments* arguments_;
  Palette palette_;
  std::optional<OutputFile> output_, coordinates_, json_, trace_;
};

}  // namespace minuet::tool
