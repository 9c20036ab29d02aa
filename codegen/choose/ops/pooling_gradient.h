// Describes the gradient of the input of a pooling. All functions are pure.
#pragma once

#include "codegen/choose/ops/pooling.h"
#include "kernels_templates/shared/point_kernels.h"

namespace minuet {

/// Computes the gradient of a pooling's input from that of its output, which is the input of the op, over the
/// pooling's kernel map with input and output swapped. The gradient of a maximum reads the winners of the
/// pooling too.
struct PoolingGradientProblem : WindowProblem {
  static const OpKind kKind;

  i32 channels = 0;
  Reduction reduction = Reduction::Max;
  Columns input, output;
};
/// Returns the gradient of the input of a pooling.
PoolingGradientProblem input_gradient_of(const PoolingProblem& forward);

struct PoolingGradientChoice {
  static const OpFamily kKind;

  PoolingGradientProblem problem;
  PoolGradientSpec pool;
  // These two count the inputs of each output of an average.
  ClearWordsSpec clear;
  CountInputsSpec count;

  bool counts() const { return pool.reduction == Reduction::Average; }
};
PoolingGradientChoice choose_pooling_gradient(const PoolingGradientProblem& problem);

llvm::Error validate(const PoolingGradientProblem& problem);
void add_sources(SourceList& list, const PoolingGradientChoice& choice);

}  // namespace minuet
