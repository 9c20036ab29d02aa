// Declares the work of batch norms in training.
#pragma once

#include "codegen/base/error.h"
#include "codegen/choose/ops/batch_norm.h"

namespace minuet {

/// Says which steps of a pass run. Over several ranks, the caller shares the sums between the two.
enum class NormSteps : i32 { Sum, Apply, Both };

/// Divides the workspace of a step that sums. A forward step stores the first row in `sums`.
struct NormWorkspace {
  PieceSums* pieces = nullptr;
  float* sums = nullptr;
  i64 bytes = 0;

  NormWorkspace(i32 channels, i64 most_rows, void* base);
};

/// The functions are called between Engine::begin() and Engine::end(). They only enqueue work, allocate
/// nothing, and may be captured into a CUDA graph. Their results repeat bit by bit.
class BatchNormOperations {
 public:
  virtual ~BatchNormOperations() = default;
  /// Sum makes params.merged, Apply reads params.moments, and Both lets them be null.
  virtual llvm::Error forward(const BatchNormChoice& choice, NormSteps steps,
                              const BatchNormParams& params) = 0;
  /// Sum makes params.sums, and Apply reads it. If the problem has a residual and a ReLU, Apply reads
  /// params.residual_gradient in place of params.out_gradient.
  virtual llvm::Error backward(const BatchNormChoice& choice, NormSteps steps,
                               const BatchNormGradientParams& params) = 0;
};

}  // namespace minuet
