// The fused dataflow on the CPU. A task gathers, multiplies and sums its output rows offset by offset, in
// scratch that stays in the nearest caches.
#pragma once

#include "runtime/cpu/ops/convolution.h"

namespace minuet {

/// Returns the fp32 words of scratch per slot of the pool that fused_cpu needs for this problem.
i64 fused_scratch_words(const ConvolutionProblem& problem);

/// `rows` [volume][output_count] holds the input row of each output row, or -1. It is null if each row is its
/// own neighbour.
void fused_cpu(const CpuConvolution& call, const i32* rows);

}  // namespace minuet
