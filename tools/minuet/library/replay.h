// Runs whole inferences in capacity mode, from coordinates and features in device memory to the output. On a
// GPU, an inference is the launch of one CUDA graph. On the CPU, it consists of the same calls of the
// library.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/library/cuda_graph.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {

/// Holds the result of one inference.
struct ReplayResult {
  /// Holds the time in milliseconds by the host's clock. It includes the inference in exact mode if the cloud
  /// did not fit.
  double ms = 0;
  uint32_t status = 0;  ///< Holds bits MINUET_CLOUD_*, or is 0 if the cloud fits.
};

/// Runs inferences in capacity mode, in which a cloud must fit the levels' capacities and the coordinates'
/// bounds. For a cloud that does not fit, the inference is repeated in exact mode, and capacities and bounds
/// grow to fit the cloud.
class Replay {
 public:
  /// All arguments must outlive this object. The network must be loaded on the device.
  Replay(minuet_plan* network, const minuet_plan_info& info, minuet_device* device, const DeviceFacts& facts,
         minuet_dtype dtype, const ExecutionChoice& choice);
  ~Replay();

  /// Runs an inference in exact mode and widens capacities and bounds so that the cloud fits.
  llvm::Error learn(const VoxelCloud& cloud);
  /// Runs one inference and measures its time. learn() must have been called before.
  llvm::Expected<ReplayResult> infer(const VoxelCloud& cloud);

  /// Returns the capacity of each level in voxels.
  const std::vector<int64_t>& capacities() const { return capacities_; }

 private:
  struct CapacityExecution;  ///< Holds an execution in capacity mode, its memory and its graph.
  llvm::Expected<double> infer_exactly(const VoxelCloud& cloud);
  llvm::Error learn_from_last(const VoxelCloud& cloud);
  llvm::Error fit();
  llvm::Error put(const VoxelCloud& cloud);

  minuet_plan* network_;
  const minuet_plan_info& info_;
  minuet_device* device_;
  const DeviceFacts& facts_;
  minuet_dtype dtype_;
  const ExecutionChoice& choice_;

  ExecutionHandle exact_;
  std::vector<int64_t> capacities_;
  /// These are the bounds of each coordinate, with a margin. The batch comes first.
  std::vector<int32_t> least_, greatest_;
  std::unique_ptr<CapacityExecution> fitted_;
};

/// Returns the meanings of the status's bits, for example "voxels outside the bounds, too many voxels".
std::string status_text(uint32_t status);

}  // namespace minuet::tool
