// Runs the gradients of poolings on the GPU.
#pragma once

#include "runtime/cuda/ops.h"

namespace minuet {

/// Makes the object that runs all ops with a PoolingGradientChoice.
std::unique_ptr<CudaOps> make_pooling_gradient(Launcher& launcher, const CudaEngineOptions& options);

}  // namespace minuet
