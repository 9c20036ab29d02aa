// cuBLASLt loads a kernel when it runs it first, and a look-up takes tens of microseconds: both are done when
// a plan is loaded, for every GEMM that any cloud can ask for.
#pragma once

#include <set>

#include "runtime/cuda/cuda_device.h"

namespace minuet {

/// Looks all keys up and runs each algorithm that was found, once and small. Waits. Again is free.
llvm::Error warm_up_matmuls(CudaDevice& device, Matmuls& matmuls, const std::set<MatmulKey>& keys);

}  // namespace minuet
