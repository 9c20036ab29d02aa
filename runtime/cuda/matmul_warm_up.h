// When a plan is loaded, this prepares cuBLASLt for every GEMM that any cloud can need. Otherwise the first
// runs would be slow, because looking up an algorithm takes long and cuBLASLt loads a kernel when it first
// runs.
#pragma once

#include <set>

#include "runtime/cuda/cuda_device.h"

namespace minuet {

/// Looks up all keys, runs each algorithm that it finds once on a small problem, and waits. It does not run
/// algorithms that are already warm.
llvm::Error warm_up_matmuls(CudaDevice& device, Matmuls& matmuls, const std::set<MatmulKey>& keys);

}  // namespace minuet
