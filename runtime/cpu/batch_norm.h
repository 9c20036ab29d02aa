// Runs batch norms in training on the CPU.
#pragma once

#include "codegen/base/thread_pool.h"
#include "runtime/engine/batch_norm_operations.h"
#include "runtime/vector/vector_kernels.h"

namespace minuet {

class CpuBatchNorms final : public BatchNormOperations {
 public:
  CpuBatchNorms(ThreadPool& pool, const VectorKernels& kernels) : pool_(pool), kernels_(kernels) {}
  llvm::Error forward(const BatchNormChoice& choice, NormSteps steps, const BatchNormParams& params) override;
  llvm::Error backward(const BatchNormChoice& choice, NormSteps steps,
                       const BatchNormGradientParams& params) override;

 private:
  void sum(const BatchNormProblem& problem, const BatchNormParams& params);
  void finish(const BatchNormParams& params);
  void normalize(const BatchNormProblem& problem, const BatchNormParams& params);
  void sum_gradients(const BatchNormProblem& problem, const BatchNormGradientParams& params);
  void finish_gradients(const BatchNormGradientParams& params);
  void normalize_gradients(const BatchNormProblem& problem, const BatchNormGradientParams& params);

  ThreadPool& pool_;
  const VectorKernels& kernels_;
};

}  // namespace minuet
