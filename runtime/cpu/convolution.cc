#include "runtime/cpu/convolution.h"

namespace minuet {

void finish_row(const CpuConvolution& call, i64 row, float* sum, float* residual) {
  const ConvolutionProblem& problem = call.problem;
  const OpRequest& request = call.request;
  const i64 channels = problem.out_channels;
  // A ReLU would hide a sum that is minus infinity already.
  bool finite = problem.activation == Activation::None || call.kernels.all_finite(sum, channels);
  if (problem.scale_shift) call.kernels.scale_shift(call.weights.scale, call.weights.shift, sum, channels);
  if (problem.residual) {
    // TF32 is how operands of a GEMM are rounded; a residual is not one.
    const DType type = storage_type(problem.dtype);
    call.kernels.widen(type, row_at(request.residual, row, request.residual_ld, type), residual, channels);
    call.kernels.add(residual, sum, channels);
  }
  if (problem.activation == Activation::ReLU) call.kernels.relu(sum, channels);
  if (problem.activation == Activation::LeakyReLU) call.kernels.leaky_relu(problem.slope, sum, channels);
  char* target = static_cast<char*>(request.output) + row * request.output_ld * dtype_bytes(problem.dtype);
  finite = call.kernels.narrow(problem.dtype, sum, target, channels) && finite;
  if (!finite) __atomic_store_n(request.overflow, request.overflow_mark, __ATOMIC_RELAXED);
}

}  // namespace minuet
