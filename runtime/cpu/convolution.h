// What both dataflows have in common on the CPU: a convolution that is ready to go, and its epilogue.
#pragma once

#include "codegen/base/thread_pool.h"
#include "runtime/engine/engine.h"
#include "runtime/vector/vector_kernels.h"

namespace minuet {

/// Pointers live during the call only.
struct CpuConvolution {
  ThreadPool& pool;
  const VectorKernels& kernels;
  const ConvolutionProblem& problem;
  const ConvolutionWeights& weights;
  const OpRequest& request;
  float* scratch;  // [slots][scratch_words]
  i64 scratch_words;
};

inline const char* row_at(const void* base, i64 row, i64 ld, DType type) {
  return static_cast<const char*>(base) + row * ld * dtype_bytes(type);
}

/// The epilogue of output row `row`, from its sums, and the write. `residual`: room for a row.
void finish_row(const CpuConvolution& call, i64 row, float* sum, float* residual);

}  // namespace minuet
