// Pooling over a kernel map: the maximum, the average or the sum of the inputs that the map leads to an
// output. Pure.
#pragma once

#include "codegen/choose/candidates.h"

namespace minuet {

/// What a pooling makes, per channel, of the inputs that its kernel map leads to one output.
enum class Reduction : i32 { Max, Average, Sum };

struct PoolingProblem : WindowProblem {
  static const OpKind kKind;

  i32 channels = 0;
  Reduction reduction = Reduction::Max;
};

llvm::Error validate(const PoolingProblem& problem);

}  // namespace minuet
