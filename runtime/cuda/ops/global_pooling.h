// Runs ops that pool all rows of each batch item into one row.
#pragma once

#include "runtime/cuda/ops.h"

namespace minuet {

std::unique_ptr<CudaOps> make_global_pooling(Launcher& launcher, const CudaEngineOptions& options);

}  // namespace minuet
