// The gather-GEMM-scatter dataflow on the CPU (paper, section 5.2). Both buffers are fp32; 16-bit features
// are widened when they are gathered.
#pragma once

#include <vector>

#include "runtime/cpu/ops/convolution.h"

namespace minuet {

/// Rows of a gather or scatter task. A task's widened rows stay in the nearest caches.
constexpr i64 kRowsPerTask = 64;

/// Returns the rows of one GEMM task. Its operands stay in the second-level cache. The rows depend on the
/// problem alone, so that results do not depend on the number of threads.
i64 gemm_task_rows(i64 in_channels, i64 out_channels);

/// Returns the fp32 words of scratch per slot of the pool that gather, GEMM and scatter need for this
/// problem.
i64 convolve_scratch_words(const ConvolutionProblem& problem);

/// One GEMM: rows of `a` times the weights of one offset.
struct GemmTask {
  const float* a = nullptr;  // null: `direct` is widened first
  const void* direct = nullptr;
  const float* weight = nullptr;
  float* c = nullptr;
  i64 rows = 0;
};

/// Fills the tables of the request's map.
void make_tables_cpu(ThreadPool& pool, const GmasRequest& request);
/// gather_cpu, gemm_cpu and scatter_cpu compute slice number `slice`. The slices are computed in ascending
/// order. `request` is the one in `call`.
void gather_cpu(const CpuConvolution& call, const GmasRequest& request, std::size_t slice);
/// `tasks` is storage that calls reuse.
void gemm_cpu(const CpuConvolution& call, const GmasRequest& request, std::size_t slice,
              std::vector<GemmTask>& tasks);
void scatter_cpu(const CpuConvolution& call, const GmasRequest& request, std::size_t slice);

}  // namespace minuet
