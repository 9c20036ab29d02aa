// What `minuet run` writes: a network's output by voxel or by point, as features or labels.
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
  int64_t rows = 0;
  int32_t channels = 0;
  std::vector<float> features;       ///< [rows, channels]
  std::vector<int32_t> coordinates;  ///< [rows, 1 + ndim]
};

/// The channel of the largest feature; of equals the first; -1 where one of them is NaN or infinite.
std::vector<int32_t> labels_of(const Output& output);
int64_t count_non_finite(const Output& output);

/// Every file that a run writes, open from the beginning on.
class RunOutputs {
 public:
  /// Refuses what cannot be written, and what is a file that the run reads.
  static llvm::Expected<RunOutputs> open(const Arguments& arguments);

  /// What can only be known once the network and the cloud are.
  llvm::Error check(const Input& input, const minuet_plan_info& network) const;
  /// `tensor_stride`: of the output's level. Where there is nothing to write, does nothing.
  llvm::Error write(const Input& input, const minuet_plan_info& network, const int32_t* tensor_stride,
                    Output output);
  /// `device_layers`: of a GPU, beside what the host did.
  llvm::Error write_trace(minuet_context* context, const std::optional<DeviceTimes>& device_times);
  /// To its file, or to stdout for "-".
  llvm::Error write_report(const llvm::json::Value& report);

 private:
  explicit RunOutputs(const Arguments& arguments) : arguments_(&arguments) {}
  llvm::Error write_coordinates(const Input& input, const minuet_plan_info& network, const Output& output);
  llvm::Error write_ply(const Input& input, const minuet_plan_info& network, const int32_t* tensor_stride,
                        const Output& output);

  const Arguments* arguments_;
  Palette palette_;
  std::optional<OutputFile> output_, coordinates_, json_, trace_;
};

}  // namespace minuet::tool
