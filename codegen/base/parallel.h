// Work of a plan that all cores share: parameters are drawn, read, rounded and converted layer by layer.
#pragma once

#include "codegen/base/error.h"
#include "kernels_templates/shared/macros.h"
#include "llvm/ADT/STLExtras.h"

namespace minuet {

/// work(i) for every i in [0, count), in any order, on as many threads as cpu_count() has CPUs; returns when
/// all are done. The error of the least i that has one; exceptions come out as they would from a loop.
llvm::Error in_parallel(i64 count, llvm::function_ref<llvm::Error(i64)> work);

}  // namespace minuet
