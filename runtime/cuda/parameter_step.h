// Stores parameters on the GPU, with the kernels of kernels_templates/parameters.
#pragma once

#include "runtime/cuda/launcher.h"
#include "runtime/engine/parameter_operations.h"

namespace minuet {

class ParameterStep final : public ParameterOperations {
 public:
  explicit ParameterStep(Launcher& launcher) : launcher_(launcher) {}
  llvm::Error copy(llvm::ArrayRef<ParameterCopy> jobs) override;
  llvm::Error fold(llvm::ArrayRef<BatchNormFold> jobs) override;
  llvm::Error make_images(llvm::ArrayRef<WeightImageJob> jobs) override;

 private:
  /// Launches the kernel of `spec` for as many jobs at a time as its Params hold. items_of() returns the
  /// number of items of a job.
  template <class Params, class Spec, class Job, class ItemsOf>
  llvm::Error launch(const Spec& spec, llvm::ArrayRef<Job> jobs, const ItemsOf& items_of);

  Launcher& launcher_;
};

}  // namespace minuet
