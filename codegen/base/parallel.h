// Runs independent items of work on all cores. An example is reading and converting the parameters of a
// network's layers.
#pragma once

#include "codegen/base/error.h"
#include "kernels_templates/shared/macros.h"
#include "llvm/ADT/STLExtras.h"

namespace minuet {

/// Calls work(i) for every i in [0, count), in any order, on up to cpu_count() threads, and returns when all
/// calls have returned. Returns the error of the smallest i that failed. If `work` throws, rethrows one
/// of its exceptions after all calls have returned.
llvm::Error in_parallel(i64 count, llvm::function_ref<llvm::Error(i64)> work);

}  // namespace minuet
