// Implements pooling on the CPU.
#pragma once

#include "runtime/cpu/ops.h"

namespace minuet {

/// Makes a pooling op. `choice` must hold a PoolChoice.
llvm::Expected<std::unique_ptr<CpuOp>> make_pooling_op(const OpChoice& choice);

}  // namespace minuet
