// Describes pooling over a kernel map. It computes the maximum, the average or the sum of the inputs that the
// map pairs with an output. All functions are pure.
#pragma once

#include "codegen/choose/candidates.h"

namespace minuet {

struct PoolingProblem : WindowProblem {
  static const OpKind kKind;

  i32 channels = 0;
  Reduction reduction = Reduction::Max;
  // Says whether the op has a second output, which holds the input row that each maximum comes from.
  bool winners = false;
  Columns input, output;
};

struct PoolChoice {
  static const OpFamily kKind;

  PoolingProblem problem;
  PoolSpec pool;
};
PoolChoice choose_pool(const PoolingProblem& problem);

llvm::Error validate(const PoolingProblem& problem);
void add_sources(SourceList& list, const PoolChoice& choice);

}  // namespace minuet
