// The gather-GEMM-scatter step on the CPU. Paper 5.2. Both buffers are fp32 here, and 16-bit features
// are widened on the way into the first.
#pragma once

#include <vector>

#include "runtime/cpu/ops/convolution.h"

namespace minuet {

/// Rows that a gather or scatter task handles: their widened copy stays in the nearest caches.
constexpr i64 kRowsPerTask = 64;

/// Rows of one GEMM task: its operands stay in the second-level cache. Fixed by the problem alone, so
/// that results do not depend on the number of threads.
i64 gemm_task_rows(i64 in_channels, i64 out_channels);

/// fp32 words of scratch per slot of the pool that convolve needs for this problem.
i64 convolve_scratch_words(const ConvolutionProblem& problem);

/// One GEMM: rows of `a` times one offset's weights.
struct GemmTask {
  const float* a = nullptr;  // null: read `direct` and widen it first
  const void* direct = nullptr;
  const float* weight = nullptr;
  float* c = nullptr;
  i64 rows = 0;
};

/// Fills the tables of the request's map.
void make_tables_cpu(ThreadPool& pool, const GmasRequest& request);
/// These three compute the slice with number `slice`, and are called for one slice after the other.
/// `request`: that of the call.
void gather_cpu(const CpuConvolution& call, const GmasRequest& request, std::size_t slice);
/// `tasks` is storage that is used again from call to call.
void gemm_cpu(const CpuConvolution& call, const GmasRequest& request, std::size_t slice,
              std::vector<GemmTask>& tasks);
void scatter_cpu(const CpuConvolution& call, const GmasRequest& request, std::size_t slice);

}  // namespace minuet
