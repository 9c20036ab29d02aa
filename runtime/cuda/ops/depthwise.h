// Implements depthwise convolutions on the GPU, with one launch per layer.
#pragma once

#include "runtime/cuda/ops.h"

namespace minuet {

/// Makes the object that runs all ops with a DepthwiseChoice.
std::unique_ptr<CudaOps> make_depthwise(Launcher& launcher, const CudaEngineOptions& options);

}  // namespace minuet
