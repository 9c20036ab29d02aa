// Warm-up of cuBLASLt. It loads a kernel at its first run, and a look-up is slow. Both are done when a plan
// is loaded, for every GEMM that any cloud can need.
#pragma once

#include <set>

#include "runtime/cuda/cuda_device.h"

namespace minuet {

/// Looks all keys up, runs each algorithm that was found once on a small problem, and waits. Keys that are
/// already warm cost nothing.
llvm::Error warm_up_matmuls(CudaDevice& device, Matmuls& matmuls, const std::set<MatmulKey>& keys);

}  // namespace minuet
