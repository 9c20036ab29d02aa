// Runs steps of the training of a network: the maps of a cloud, a forward pass and a backward pass, in device
// memory of fixed sizes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "minuet/training.h"
#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/library/cuda_graph.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {

/// Keeps the memory of a step on clouds of at most these numbers of voxels. Parameters are drawn at random,
/// and the gradients of the outputs are all equal, because the time of a step does not depend on them.
class TrainingStep {
 public:
  /// All arguments must outlive this object. `branches` is minuet_training_options.branches.
  static llvm::Expected<std::unique_ptr<TrainingStep>> create(minuet_context* context, minuet_plan* network,
                                                              minuet_device* device, const DeviceFacts& facts,
                                                              minuet_dtype dtype,
                                                              std::vector<int64_t> capacities,
                                                              int64_t batch_size, int32_t branches);
  ~TrainingStep();

  /// Copies a cloud to the device. Rows past the capacity are left out, but the count includes them.
  llvm::Error put(const VoxelCloud& cloud);
  // The next functions only enqueue work on `stream`.

  llvm::Error build(void* stream);
  llvm::Error forward(void* stream);
  llvm::Error backward(void* stream);
  /// Runs a whole step as one CUDA graph and waits for it. The first call captures the graph.
  llvm::Error replay();
  /// Returns the bits MINUET_CLOUD_* of the last cloud, or 0 if it fits.
  llvm::Expected<uint32_t> status() const;

  const std::vector<int64_t>& capacities() const { return capacities_; }
  const minuet_training_sizes& sizes() const { return sizes_; }
  /// Returns the bytes of the pyramid's buffer.
  int64_t buffer_bytes() const { return build_.buffer_bytes; }

 private:
  TrainingStep(minuet_device* device, const DeviceFacts& facts, minuet_dtype dtype,
               std::vector<int64_t> capacities)
      : device_(device), facts_(facts), dtype_(dtype), capacities_(std::move(capacities)) {}
  llvm::Error open(minuet_context* context, minuet_plan* network, int64_t batch_size, int32_t branches);
  llvm::Error open_pyramid(int64_t batch_size);
  llvm::Error add_parameters(minuet_plan* network);
  llvm::Error add_tensors(minuet_plan* network, int64_t batch_size);
  llvm::Expected<void*> allocate(int64_t bytes);
  llvm::Expected<void*> upload(const void* data, size_t bytes);

  minuet_device* device_;
  const DeviceFacts& facts_;
  minuet_dtype dtype_;
  std::vector<int64_t> capacities_;
  std::unique_ptr<minuet_training, Release<minuet_training, minuet_training_destroy>> training_;
  std::unique_ptr<minuet_pyramid, Release<minuet_pyramid, minuet_pyramid_destroy>> pyramid_;
  std::vector<DeviceBuffer> buffers_;
  void *coordinates_ = nullptr, *count_ = nullptr, *features_ = nullptr, *status_ = nullptr;
  std::vector<minuet_array> parameters_, new_statistics_, gradients_;
  std::vector<minuet_array> inputs_, outputs_, out_gradients_;
  minuet_training_sizes sizes_ = MINUET_TRAINING_SIZES_INIT;
  minuet_pyramid_arguments build_ = MINUET_PYRAMID_ARGUMENTS_INIT;
  minuet_training_forward_arguments forward_ = MINUET_TRAINING_FORWARD_ARGUMENTS_INIT;
  minuet_training_backward_arguments backward_ = MINUET_TRAINING_BACKWARD_ARGUMENTS_INIT;
  std::unique_ptr<CudaGraph> graph_;
};

}  // namespace minuet::tool
