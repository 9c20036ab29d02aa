// Computes the gradients of parameters of convolutions and of affine steps on the CPU.
#pragma once

#include "codegen/base/thread_pool.h"
#include "runtime/engine/gradient_operations.h"
#include "runtime/vector/vector_kernels.h"

namespace minuet {

class CpuGradients final : public GradientOperations {
 public:
  CpuGradients(ThreadPool& pool, const VectorKernels& kernels) : pool_(pool), kernels_(kernels) {}
  i64 workspace_bytes(const ParameterGradientChoice& choice, i64 most_pairs, i64 most_rows) const override;
  llvm::Error compute(const ParameterGradientRequest& request) override;
  /// A CPU finds the pairs of the offsets at no cost, in each call of compute().
  i64 step_words(i64 /*volume*/) const override { return 0; }
  llvm::Error list_steps(llvm::ArrayRef<PairStepsRequest> /*requests*/) override {
    return llvm::Error::success();
  }
  i64 workspace_bytes(const AffineGradientChoice& choice, i64 most_rows) const override;
  llvm::Error compute(const AffineGradientRequest& request) override;

 private:
  void compute_weight(const ParameterGradientRequest& request);
  void compute_bias(const ParameterGradientRequest& request);

  ThreadPool& pool_;
  const VectorKernels& kernels_;
};

}  // namespace minuet
