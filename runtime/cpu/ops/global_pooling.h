// Makes ops that pool all rows of each batch item into one row.
#pragma once

#include "runtime/cpu/ops.h"

namespace minuet {

llvm::Expected<std::unique_ptr<CpuOp>> make_global_pooling_op(const OpChoice& choice);

}  // namespace minuet
