// Whole inferences in capacity mode, from coordinates and features in device memory to the output: on a GPU
// one CUDA graph, on the CPU the same calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/library/cuda_graph.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {

/// How one cloud fared.
struct Replayed {
  double ms = 0;        ///< host clock; of both inferences where it did not fit
  uint32_t status = 0;  ///< MINUET_CLOUD_*; 0: it fits
};

/// Serves a cloud that does not fit in exact mode, and takes capacities and bounds that it fits.
class Replay {
 public:
  /// Everything named lives as long. The network is loaded on the device.
  Replay(minuet_plan* network, const minuet_plan_info& info, minuet_device* device, const DeviceFacts& facts,
         minuet_dtype dtype, const ExecutionChoice& choice);
  ~Replay();

  /// The cloud's shape, by an inference in exact mode, becomes part of what fits.
  llvm::Error learn(const VoxelCloud& cloud);
  /// After learn().
  llvm::Expected<Replayed> infer(const VoxelCloud& cloud);

  /// Voxels of each level that fit.
  const std::vector<int64_t>& capacities() const { return capacities_; }

 private:
  struct Fitted;  // an execution in capacity mode, its memory, and its graph
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
  std::vector<int32_t> least_, greatest_;  // of every field, batch first; with some room
  std::unique_ptr<Fitted> fitted_;
};

/// "past the bounds, past the capacity" of a status.
std::string status_text(uint32_t status);

}  // namespace minuet::tool
