// Declares the work on parameters of a plan that the caller sets: they are converted, folded and brought into
// the layouts that kernels read.
#pragma once

#include "codegen/base/error.h"
#include "kernels_templates/shared/parameter_kernels.h"
#include "llvm/ADT/ArrayRef.h"

namespace minuet {

/// Works on several parameters at once. The functions are called between Engine::begin() and Engine::end().
/// They only enqueue work, allocate nothing, and may be captured into a CUDA graph. The jobs are host memory,
/// which a function has read when it returns; the pointers in them are device pointers.
class ParameterOperations {
 public:
  virtual ~ParameterOperations() = default;
  /// Converts and stores parameters.
  virtual llvm::Error copy(llvm::ArrayRef<ParameterCopy> jobs) = 0;
  /// Computes scales and shifts.
  virtual llvm::Error fold(llvm::ArrayRef<BatchNormFold> jobs) = 0;
  /// Writes images of weights. All layouts of one object have elements of the same size. The CPU device has
  /// no images.
  virtual llvm::Error make_images(llvm::ArrayRef<WeightImageJob> jobs) = 0;
};

}  // namespace minuet
