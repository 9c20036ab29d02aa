// Brings the values of a plan's parameters into the forms that the kernels of a run on a pyramid read, in one
// block of the caller's memory. Nothing else is kept of them, as functional hosts need it.
#pragma once

#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/plan/parameter_layout.h"

namespace minuet {

/// Describes the block for some selected candidates. It is immutable and has no memory of a device.
class PreparedParameters {
 public:
  PreparedParameters(const LoadedPlan& loaded, std::vector<CandidateSelection> selections);

  /// Returns the size of the block.
  i64 bytes() const { return bytes_; }
  llvm::ArrayRef<PlanParameter> parameters() const { return layout_.parameters(); }

  /// Holds the work that writes a block.
  struct Jobs {
    std::vector<ParameterCopy> copies;
    std::vector<BatchNormFold> folds;
    std::vector<WeightImageJob> images;
  };
  /// `values` has an fp32 array in device memory for each parameter. Weights are in `order`.
  llvm::Expected<Jobs> jobs(llvm::ArrayRef<GivenArray> values, WeightsOrder order, char* block) const;
  /// Enqueues the jobs. Call it between Engine::begin() and Engine::end().
  llvm::Error enqueue(const Jobs& jobs, char* block, Engine& engine) const;
  /// Returns, for each selection, pointers into the block in the order of parameter_images().
  std::vector<std::vector<const void*>> pointers(const char* block) const;

 private:
  struct Image {
    LayerImage image;
    i64 offset = 0;
  };

  const std::vector<CandidateSelection> selections_;
  // These say whether a layer's weight is in the block in its own order, from which its images are then made.
  // Otherwise they are made of the caller's array.
  const std::vector<bool> stores_weight_;
  const ParameterLayout layout_;
  std::vector<Image> images_;
  i64 bytes_ = 0;
};
}  // namespace minuet
