// Runs chains of pointwise steps on the CPU.
#pragma once

#include "runtime/cpu/ops.h"

namespace minuet {

/// Makes an op that runs a chain. `choice` must hold a PointwiseChoice.
llvm::Expected<std::unique_ptr<CpuOp>> make_pointwise_op(const OpChoice& choice);

}  // namespace minuet
