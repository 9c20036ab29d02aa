// Implements the gather-GEMM-scatter dataflow on the CPU (Minuet paper, section 5.2). The buffers between the
// gather, the GEMMs and the scatter are fp32, so the gather widens 16-bit features.
#pragma once

#include <vector>

#include "runtime/cpu/ops/convolution.h"

namespace minuet {

/// One task of a gather or a scatter processes this many rows. The widened rows of a task stay in the nearest
/// caches.
constexpr i64 kRowsPerTask = 64;

/// Returns the number of rows of one GEMM task, whose input and output rows stay in the second-level cache.
/// The number depends on the problem alone, so that results do not depend on the number of threads.
i64 gemm_task_rows(i64 in_channels, i64 out_channels);

/// Returns how many fp32 words of scratch memory gather, GEMM and scatter need for this problem per thread of
/// the pool.
i64 convolve_scratch_words(const ConvolutionProblem& problem);

/// Describes one GEMM, which multiplies `rows` rows of `a` by the weights of one kernel offset.
struct GemmTask {
  /// Points to fp32 rows. If it is null, the rows of `direct` are widened to fp32 and used instead.
  const float* a = nullptr;
  const void* direct = nullptr;
  const float* weight = nullptr;
  float* c = nullptr;
  i64 rows = 0;
};

/// Fills the gather and scatter tables request.tables from the kernel map request.map.
void make_tables_cpu(ThreadPool& pool, const GmasRequest& request);
/// The next three functions compute slice number `slice` of request.slices. They are called in this order for
/// each slice, in ascending order of slices. `request` must be `call.request`.
void gather_cpu(const CpuConvolution& call, const GmasRequest& request, std::size_t slice);
/// `tasks` is temporary storage. Passing it again to the next call saves allocations.
void gemm_cpu(const CpuConvolution& call, const GmasRequest& request, std::size_t slice,
              std::vector<GemmTask>& tasks);
void scatter_cpu(const CpuConvolution& call, const GmasRequest& request, std::size_t slice);

}  // namespace minuet
