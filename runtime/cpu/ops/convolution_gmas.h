// Implements the gather-GEMM-scatter dataflow on the CPU (paper, section 5.2). Both buffers are fp32. The
// gather widens 16-bit features.
#pragma once

#include <vector>

#include "runtime/cpu/ops/convolution.h"

namespace minuet {

/// This is the number of rows of a gather or scatter task. A task's widened rows stay in the nearest caches.
constexpr i64 kRowsPerTask = 64;

/// Returns the number of rows of one GEMM task, whose operands stay in the second-level cache. It depends on
/// the problem alone, so that results do not depend on the number of threads.
i64 gemm_task_rows(i64 in_channels, i64 out_channels);

/// Returns how many fp32 words of scratch memory gather, GEMM and scatter need for this problem per thread of
/// the pool.
i64 convolve_scratch_words(const ConvolutionProblem& problem);

/// Describes one GEMM, which multiplies rows of `a` by the weights of one offset.
struct GemmTask {
  const float* a = nullptr;  // If it is null, the rows of `direct` are widened and used instead.
  const void* direct = nullptr;
  const float* weight = nullptr;
  float* c = nullptr;
  i64 rows = 0;
};

/// Fills the tables of the request from its map.
void make_tables_cpu(ThreadPool& pool, const GmasRequest& request);
/// gather_cpu(), gemm_cpu() and scatter_cpu() compute slice number `slice`. The slices are computed in
/// ascending order. `request` is the one in `call`.
void gather_cpu(const CpuConvolution& call, const GmasRequest& request, std::size_t slice);
/// `tasks` is storage that calls reuse.
void gemm_cpu(const CpuConvolution& call, const GmasRequest& request, std::size_t slice,
              std::vector<GemmTask>& tasks);
void scatter_cpu(const CpuConvolution& call, const GmasRequest& request, std::size_t slice);

}  // namespace minuet
