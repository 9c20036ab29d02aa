// Implements the fused dataflow of a convolution on the CPU. A task gathers, multiplies and sums its output
// rows offset by offset, in scratch memory that stays in the nearest caches.
#pragma once

#include "runtime/cpu/ops/convolution.h"

namespace minuet {

/// Returns how many fp32 words of scratch memory fused_cpu() needs for this problem per thread of the pool.
i64 fused_scratch_words(const ConvolutionProblem& problem);

/// Runs a convolution. `rows` [volume][output_count] holds the input row of each output row at each kernel
/// offset, or -1 if there is none. It is null if each row is its own neighbour.
void fused_cpu(const CpuConvolution& call, const i32* rows);

}  // namespace minuet
