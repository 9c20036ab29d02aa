// Declares what the gather-GEMM-scatter and the fused dataflow of a convolution share on the CPU, and the
// functions that make their ops.
#pragma once

#include "runtime/cpu/ops.h"
#include "runtime/engine/ops/convolution.h"

namespace minuet {

/// Holds a convolution's operands during one call.
struct CpuConvolution {
  ThreadPool& pool;
  const VectorKernels& kernels;
  const ConvolutionProblem& problem;
  const ConvolutionWeights weights;
  const OpRequest& request;
  float* scratch;  // Has the shape [threads of the pool][scratch_words].
  i64 scratch_words;
};

inline const char* row_at(const void* base, i64 row, i64 ld, DType type) {
  return static_cast<const char*>(base) + row * ld * dtype_bytes(type);
}

/// Applies scale, shift, residual and activation to the sums of output row `row` and writes the row.
/// `residual` is temporary memory for one row.
void finish_row(const CpuConvolution& call, i64 row, float* sum, float* residual);

/// Does the same for the sums of a convolution with 8-bit inputs. The results are those of the fused kernel
/// bit by bit if the activations are none, ReLU or leaky ReLU. A device computes the other activations with
/// approximate functions, so that an 8-bit result may differ by 1. `values` is temporary memory for one row.
void finish_integer_row(const CpuConvolution& call, i64 row, const i32* sums, float* values);

llvm::Expected<std::unique_ptr<CpuOp>> make_gmas_op(const OpChoice& choice);
llvm::Expected<std::unique_ptr<CpuOp>> make_fused_op(const OpChoice& choice);

}  // namespace minuet
