// Pooling on the GPU: one launch per layer.
#pragma once

#include "runtime/cuda/ops.h"

namespace minuet {

/// Makes the ops of PoolChoice.
std::unique_ptr<CudaOps> make_pooling(Launcher& launcher, const CudaEngineOptions& options);

}  // namespace minuet
