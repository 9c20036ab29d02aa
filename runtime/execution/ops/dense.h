// Keeps the tables with which ops write dense tensors.
#pragma once

#include "runtime/execution/op_work.h"

namespace minuet {

/// Returns an OpWork for ops that write or read a dense tensor (codegen/choose/ops/dense.h).
std::unique_ptr<OpWork> make_dense_work(const OpWorkContext& context);

}  // namespace minuet
