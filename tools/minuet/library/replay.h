// Whole inferences in capacity mode, from coordinates and features in device memory to the output. On a GPU
// they are one CUDA graph, on the CPU the same calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/library/cuda_graph.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {

/// The result of one inference.
struct ReplayResult {
  double ms = 0;        ///< host clock; includes the exact inference if the cloud did not fit
  uint32_t status = 0;  ///< bits MINUET_CLOUD_*; 0 if the cloud fits
};

/// Runs inferences in capacity mode. A cloud that does not fit is inferred again in exact mode, and
/// capacities and bounds grow to fit it.
class Replay {
 public:
  /// All arguments must outlive this object. The network must be loaded on the device.
  Replay(minuet_plan* network, const minuet_plan_info& info, minuet_device* device, const DeviceFacts& facts,
         minuet_dtype dtype, const ExecutionChoice& choice);
  ~Replay();

  /// Runs an inference in exact mode and widens capacities and bounds so that the cloud fits.
  llvm::Error learn(const VoxelCloud& cloud);
  /// Runs one timed inference. Requires an earlier learn().
  llvm::Expected<ReplayResult> infer(const VoxelCloud& cloud);

  /// Returns the capacity of each level in voxels.
  const std::vector<int64_t>& capacities() const { return capacities_; }

 private:
  struct CapacityExecution;  ///< an execution in capacity mode, its memory and its graph
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
  std::vector<int32_t> least_, greatest_;  ///< bounds of each coordinate, batch first, with a margin
  std::unique_ptr<CapacityExecution> fitted_;
};

/// Describes a status, for example "past the bounds, past the capacity".
std::string status_text(uint32_t status);

}  // namespace minuet::tool
