// Runs the gradients of poolings on the CPU.
#pragma once

#include "runtime/cpu/ops.h"

namespace minuet {

/// Makes an op that runs the gradient of a pooling. `choice` must hold a PoolingGradientChoice.
llvm::Expected<std::unique_ptr<CpuOp>> make_pooling_gradient_op(const OpChoice& choice);

}  // namespace minuet
