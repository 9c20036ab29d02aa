// When a plan is loaded, this prepares cuBLASLt for every GEMM that any cloud can need. Otherwise the first
// runs would be slow, because looking up an algorithm takes long and cuBLASLt loads a kernel when it first
// runs.
#pragma once

#include <set>

#include "runtime/cuda/cuda_device.h"

namespace minuet {

/// Looks up the algorithms of all keys, runs each one that has not run before on a small problem, and waits
/// until these GEMMs have finished.
llvm::Error warm_up_matmuls(CudaDevice& device, Matmuls& matmuls, const std::set<MatmulKey>& keys);

}  // namespace minuet
