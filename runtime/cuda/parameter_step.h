// Stores parameters on the GPU, with the kernels of kernels_templates/parameters.
#pragma once

#include <optional>

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
  /// Launches the kernel of `spec`, which the first call stores in `kernel`, for as many jobs at a time as
  /// its Params hold. items_of() returns the number of items of a job.
  template <class Params, class Spec, class Job, class ItemsOf>
  llvm::Error launch(std::optional<Kernel<Params>>& kernel, const Spec& spec, llvm::ArrayRef<Job> jobs,
                     const ItemsOf& items_of);

  Launcher& launcher_;
  std::optional<Kernel<CopyParametersParams>> copy_;
  std::optional<Kernel<FoldBatchNormsParams>> fold_;
  std::optional<Kernel<MakeWeightImagesParams>> images_;
};

}  // namespace minuet
