// Runs the ops that convert between the features of a level and a dense tensor.
#pragma once

#include "runtime/cpu/ops.h"

namespace minuet {

llvm::Expected<std::unique_ptr<CpuOp>> make_to_dense_op(const OpChoice& choice);
llvm::Expected<std::unique_ptr<CpuOp>> make_from_dense_op(const OpChoice& choice);

}  // namespace minuet
