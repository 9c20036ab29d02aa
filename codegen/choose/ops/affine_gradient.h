// Describes the gradients of the parameters of an affine step of a pointwise chain (ops/pointwise.h), which
// may read the result of a layer norm. All functions are pure.
#pragma once

#include "codegen/choose/problem.h"
#include "codegen/source/emit.h"
#include "kernels_templates/shared/gradient_kernels.h"

namespace minuet {

struct AffineGradientProblem {
  DType dtype = DType::F16;  // The rows and their gradients are stored in it.
  i32 channels = 0;
  /// The step reads its input as it is if this is 0, and otherwise the layer norm of it with this epsilon.
  float epsilon = 0;
  bool scale = false, shift = false;

  bool normalizes() const { return epsilon != 0; }
};

struct AffineGradientChoice {
  AffineGradientProblem problem;
  MeasureRowsSpec measure;
  SumProductsSpec products;
  SumRowsSpec rows;
  AddRowSumsSpec row_sums;
};

llvm::Error validate(const AffineGradientProblem& problem);
AffineGradientChoice choose_affine_gradient(const AffineGradientProblem& problem);
void add_sources(SourceList& list, const AffineGradientChoice& choice);

}  // namespace minuet
