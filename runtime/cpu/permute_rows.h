// Reorders rows of features from the caller's order into the order of a coordinate set, and back.
#pragma once

#include "codegen/base/thread_pool.h"
#include "runtime/engine/engine.h"

namespace minuet {

void permute_rows_cpu(ThreadPool& pool, const PermuteRowsSpec& spec, const PermuteRequest& request);

}  // namespace minuet
