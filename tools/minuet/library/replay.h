// Runs whole inferences in capacity mode, in which all buffers have fixed sizes. On a GPU, the library's
// calls are captured once, and an inference is one launch of this CUDA graph. On the CPU, every
// inference makes these calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/library/cuda_graph.h"
#include "tools/minuet/library/library.h"
#include "tools/minuet/library/outputs.h"

namespace minuet::tool {

/// The capacity of a network level is this multiple of the largest number of voxels that the level had in
/// inferences without fixed capacities.
constexpr double kCapacityFactor = 1.25;

/// Holds the result of one inference.
struct ReplayResult {
  /// Holds the time in milliseconds by the host's clock. If the cloud did not fit the fixed buffer sizes,
  /// this includes the time of its second inference, with exact sizes.
  double ms = 0;
  uint32_t status = 0;  ///< Holds bits MINUET_CLOUD_*, or is 0 if the cloud fits.
  /// Counts the voxels of the cloud, which a network that takes points has made.
  int64_t voxels = 0;
};

/// Runs inferences in capacity mode, in which a cloud must fit fixed numbers of voxels on the network's
/// levels (capacities) and fixed bounds of the coordinates. For a cloud that does not fit, the inference is
/// repeated with exact sizes, and the capacities and bounds grow to fit the cloud.
class Replay {
 public:
  /// All arguments must outlive this object. The network must be loaded on the device.
  Replay(minuet_plan* network, const minuet_plan_info& info, minuet_device* device, const DeviceFacts& facts,
         minuet_dtype dtype, const ExecutionChoice& choice);
  ~Replay();

  /// Runs an inference with exact buffer sizes, and then increases the fixed capacities and bounds so that
  /// the cloud fits them.
  llvm::Error learn(const VoxelCloud& cloud);
  /// Runs one inference and measures its time. learn() must have been called before.
  llvm::Expected<ReplayResult> infer(const VoxelCloud& cloud);

  /// Returns the capacity of each level of the network in voxels.
  const std::vector<int64_t>& capacities() const { return capacities_; }

 private:
  struct CapacityExecution;  ///< Holds an execution with fixed capacities, its memory and its graph.
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

  std::vector<minuet_tensor_info> inputs_;  ///< Is set by learn().
  ExecutionHandle exact_;
  std::vector<int64_t> capacities_;
  /// These are the bounds of each coordinate, with a margin. The batch comes first.
  std::vector<int32_t> least_, greatest_;
  std::unique_ptr<CapacityExecution> fitted_;
};

/// Returns the meanings of the status's bits, for example "voxels outside the bounds, too many voxels".
std::string status_text(uint32_t status);

}  // namespace minuet::tool
