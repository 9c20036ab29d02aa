// Pooling on the GPU: one launch a layer.
#pragma once

#include "runtime/cuda/ops.h"

namespace minuet {

/// Ops of PoolChoice.
std::unique_ptr<CudaOps> make_pooling(Launcher& launcher, const CudaEngineOptions& options);

}  // namespace minuet
