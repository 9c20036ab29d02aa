// Implements pooling on the CPU.
#pragma once

#include "runtime/cpu/ops.h"

namespace minuet {

/// Combines the values of a row with those of a further input. A NaN replaces any value, and then no other
/// value replaces it. An average needs a division by the number of inputs at the end.
void join_inputs(Reduction reduction, const float* inputs, float* values, i64 channels);

/// Makes a pooling op. `choice` must hold a PoolChoice.
llvm::Expected<std::unique_ptr<CpuOp>> make_pooling_op(const OpChoice& choice);

}  // namespace minuet
