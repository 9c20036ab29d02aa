// The fused dataflow on the GPU: one launch a layer.
#pragma once

#include <vector>

#include "runtime/cuda/launcher.h"

namespace minuet {

class FusedStep {
 public:
  explicit FusedStep(Launcher& launcher) : launcher_(launcher) {}

  llvm::Expected<i32> add_convolution(const FusedChoice& choice, ConvolutionWeights weights);
  llvm::Error convolve(i32 convolution, const OpRequest& request);

 private:
  struct Layer {
    FusedSpec spec;
    Kernel<FusedParams> kernel;
    ConvolutionWeights weights;
    float slope = 0;  // of its activation
  };

  Launcher& launcher_;
  std::vector<Layer> layers_;
};

}  // namespace minuet
