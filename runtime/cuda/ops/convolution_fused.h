// Implements the fused dataflow of convolutions on the GPU, in which one kernel per layer gathers, multiplies
// and sums the features.
#pragma once

#include <vector>

#include "runtime/cuda/ops.h"
#include "runtime/engine/ops/convolution.h"

namespace minuet {

class FusedStep final : public CudaOps {
 public:
  FusedStep(Launcher& launcher, const CudaEngineOptions&) : launcher_(launcher) {}

  llvm::Expected<i32> add(const OpChoice& choice) override;
  /// `request` must be a NeighbourRequest.
  llvm::Error run(i32 op, const OpRequest& request) override;

 private:
  struct Layer {
    ConvolutionProblem problem;
    FusedSpec spec;
    i32 launches = 1;
    Kernel<FusedParams> kernel;
  };

  Launcher& launcher_;
  std::vector<Layer> layers_;
};

}  // namespace minuet
