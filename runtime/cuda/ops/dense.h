// Runs the ops that convert between the features of a level and a dense tensor.
#pragma once

#include "runtime/cuda/ops.h"

namespace minuet {

std::unique_ptr<CudaOps> make_to_dense(Launcher& launcher, const CudaEngineOptions& options);
std::unique_ptr<CudaOps> make_from_dense(Launcher& launcher, const CudaEngineOptions& options);

}  // namespace minuet
