// Writes the files of `minuet run`, which are a network's outputs: the first by voxel or by point, as
// features or labels, the report, and the trace.
#pragma once

#include <optional>
#include <vector>

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "minuet/minuet.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/cloud/input.h"
#include "tools/minuet/cloud/palette.h"
#include "tools/minuet/commands/named_outputs.h"
#include "tools/minuet/commands/output.h"
#include "tools/minuet/flags/arguments.h"
#include "tools/minuet/pages/trace_layers.h"

namespace minuet::tool {

/// Owns all files that `minuet run` writes. They are opened before the inference, so that an unwritable path
/// fails early.
class RunOutputs {
 public:
  /// Opens all files. Fails if one cannot be written, or is also an input file.
  static llvm::Expected<RunOutputs> open(const Arguments& arguments);

  /// Finds the outputs of --output-of and --coordinates-of. Returns an error if a name is wrong.
  llvm::Error find(const std::vector<minuet_tensor_info>& outputs) { return named_->find(outputs); }
  /// Returns true if a file needs the coordinates of this output.
  bool needs_coordinates(size_t output) const {
    return (output == 0 && (output_ || coordinates_)) || named_->needs_coordinates(output);
  }
  /// Returns an error if --output, --labels, --palette, --output-coordinates, --per-point or
  /// --coordinates-of does not fit the network or the cloud. `first` describes the network's first output.
  llvm::Error check(const Input& input, const minuet_plan_info& network,
                    const minuet_tensor_info& first) const;
  /// Writes the files of --output-of and --coordinates-of for the network's output of this index.
  llvm::Error write_named(size_t index, const Output& output, const Input& input);
  /// Writes the first output and its coordinates to the files that the flags name. `tensor_stride` is the
  /// tensor stride of the output's voxels.
  llvm::Error write(const Input& input, const minuet_plan_info& network, const int32_t* tensor_stride,
                    Output output);
  /// Writes the trace of the host. `device_times`, if given, adds the times that the GPU took.
  llvm::Error write_trace(minuet_context* context, const std::optional<DeviceTimes>& device_times);
  /// Writes the report to its file, or to stdout if the path is "-".
  llvm::Error write_report(const llvm::json::Value& report);

 private:
  explicit RunOutputs(const Arguments& arguments) : arguments_(&arguments) {}
  /// Returns true if the first output is written with a row for each point of the cloud.
  bool has_points(const Output& output) const { return arguments_->per_point || output.is_of_points; }
  llvm::Error check_dense(const minuet_plan_info& network) const;
  llvm::Error write_ply(const Input& input, const minuet_plan_info& network, const int32_t* tensor_stride,
                        const Output& output);

  const Arguments* arguments_;
  Palette palette_;
  std::optional<NamedOutputs> named_;  ///< Is set by open().
  std::optional<OutputFile> output_, coordinates_, json_, trace_;
};

}  // namespace minuet::tool
