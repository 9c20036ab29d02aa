// Implements pooling on the GPU, with one launch per layer.
#pragma once

#include "runtime/cuda/ops.h"

namespace minuet {

/// Makes the object that runs all ops with a PoolChoice.
std::unique_ptr<CudaOps> make_pooling(Launcher& launcher, const CudaEngineOptions& options);

}  // namespace minuet
