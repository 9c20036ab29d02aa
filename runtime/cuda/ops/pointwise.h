// Runs chains of pointwise steps on the GPU, with one launch per chain.
#pragma once

#include "runtime/cuda/ops.h"

namespace minuet {

/// Makes the object that runs all ops with a PointwiseChoice.
std::unique_ptr<CudaOps> make_pointwise(Launcher& launcher, const CudaEngineOptions& options);

}  // namespace minuet
