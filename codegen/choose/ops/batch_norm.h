// Describes a batch norm in training, with an optional residual and ReLU behind it. All functions are pure.
#pragma once

#include "codegen/choose/choice.h"
#include "kernels_templates/shared/batch_norm_kernels.h"

namespace minuet {

struct BatchNormProblem {
  i32 ndim = 3;  // Selects the engines that run the op. The results do not depend on it.
  DType dtype = DType::F32;
  i32 channels = 0;
  float eps = 1e-5f;
  bool has_running_mean = false;
  float momentum = 0;          // Is the share of a batch in the running statistics.
  bool is_cumulative = false;  // Gives all batches the same share instead.
  bool has_residual = false, has_relu = false;

  /// Says how the first kernel of the gradients finds what the ReLU has passed on.
  ReluMask mask() const {
    if (!has_relu) return ReluMask::None;
    return has_residual ? ReluMask::Output : ReluMask::Input;
  }
};

struct BatchNormChoice {
  BatchNormProblem problem;
  SumMomentsSpec sum;
  FinishMomentsSpec finish;
  NormalizeSpec normalize;
  SumNormGradientsSpec sum_gradients;
  FinishNormGradientsSpec finish_gradients;
  NormalizeGradientsSpec normalize_gradients;
};

llvm::Error validate(const BatchNormProblem& problem);
BatchNormChoice choose_batch_norm(const BatchNormProblem& problem);
void add_sources(SourceList& list, const BatchNormChoice& choice);

}  // namespace minuet
