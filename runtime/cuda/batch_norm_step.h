// Runs batch norms in training on the GPU, with the kernels of kernels_templates/batch_norm.
#pragma once

#include "runtime/cuda/found_kernels.h"
#include "runtime/cuda/launcher.h"
#include "runtime/engine/batch_norm_operations.h"

namespace minuet {

class BatchNormStep final : public BatchNormOperations {
 public:
  explicit BatchNormStep(Launcher& launcher) : launcher_(launcher) {}
  llvm::Error forward(const BatchNormChoice& choice, NormSteps steps, const BatchNormParams& params) override;
  llvm::Error backward(const BatchNormChoice& choice, NormSteps steps,
                       const BatchNormGradientParams& params) override;

 private:
  Launcher& launcher_;
  FoundKernels<SumMomentsSpec> sum_;
  FoundKernels<FinishMomentsSpec> finish_;
  FoundKernels<NormalizeSpec> normalize_;
  FoundKernels<SumNormGradientsSpec> sum_gradients_;
  FoundKernels<FinishNormGradientsSpec> finish_gradients_;
  FoundKernels<NormalizeGradientsSpec> normalize_gradients_;
};

}  // namespace minuet
