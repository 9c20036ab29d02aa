// Computes the gradients of parameters of convolutions and of affine steps on the GPU, with the kernels of
// kernels_templates/gradient.
#pragma once

#include "runtime/cuda/found_kernels.h"
#include "runtime/cuda/launcher.h"
#include "runtime/engine/gradient_operations.h"

namespace minuet {

/// Returns GradientOperations::workspace_bytes() of GPUs of an architecture.
i64 gradient_workspace_bytes(const ParameterGradientChoice& choice, llvm::StringRef arch, i64 most_pairs,
                             i64 most_rows);
/// Returns the same of every GPU.
i64 affine_gradient_bytes(const AffineGradientChoice& choice, i64 most_rows);

/// Returns GradientOperations::step_words() of every GPU.
constexpr i64 gradient_step_words(i64 volume) { return 2 * (volume + 1); }

class GradientStep final : public GradientOperations {
 public:
  explicit GradientStep(Launcher& launcher) : launcher_(launcher) {}
  i64 workspace_bytes(const ParameterGradientChoice& choice, i64 most_pairs, i64 most_rows) const override {
    return gradient_workspace_bytes(choice, arch(), most_pairs, most_rows);
  }
  llvm::Error compute(const ParameterGradientRequest& request) override;
  i64 step_words(i64 volume) const override { return gradient_step_words(volume); }
  llvm::Error list_steps(llvm::ArrayRef<PairStepsRequest> requests) override;
  i64 workspace_bytes(const AffineGradientChoice& choice, i64 most_rows) const override {
    return affine_gradient_bytes(choice, most_rows);
  }
  llvm::Error compute(const AffineGradientRequest& request) override;

 private:
  llvm::StringRef arch() const;
  llvm::Expected<Kernel<WeightGradientParams>> find(const WeightGradientCandidate::Spec& spec);
  llvm::Error compute_weight(const ParameterGradientRequest& request);
  llvm::Error compute_bias(const ParameterGradientRequest& request);
  /// Adds the sums of all pieces to a gradient of [channels] numbers, or replaces it by them.
  llvm::Error add_sums(const AffineGradientRequest& request, float* sums, float* gradient);

  Launcher& launcher_;
  // Says whether a gradient of a weight was launched since list_steps() was called last. It has waited for
  // the lists. Other kernels may not have, because they may be on another stream than the lists
  // (begin_branch()).
  bool has_followed_ = false;
  FoundKernels<ListStepsSpec> list_;
  FoundKernels<WarpgroupGradientSpec> warpgroups_;
  FoundKernels<WeightGradientSpec> tensor_;
  FoundKernels<WeightGradientScalarSpec> scalar_;
  FoundKernels<AddPartsSpec> add_;
  FoundKernels<SumRowsSpec> rows_;
  FoundKernels<AddRowSumsSpec> row_sums_;
  FoundKernels<MeasureRowsSpec> measure_;
  FoundKernels<SumProductsSpec> products_;
};

}  // namespace minuet
