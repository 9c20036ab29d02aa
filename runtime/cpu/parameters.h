// Stores parameters on the CPU.
#pragma once

#include "codegen/base/thread_pool.h"
#include "runtime/engine/parameter_operations.h"

namespace minuet {

class CpuParameters final : public ParameterOperations {
 public:
  explicit CpuParameters(ThreadPool& pool) : pool_(pool) {}
  llvm::Error copy(llvm::ArrayRef<ParameterCopy> jobs) override;
  llvm::Error fold(llvm::ArrayRef<BatchNormFold> jobs) override;
  llvm::Error make_images(llvm::ArrayRef<WeightImageJob> jobs) override;

 private:
  ThreadPool& pool_;
};

}  // namespace minuet
