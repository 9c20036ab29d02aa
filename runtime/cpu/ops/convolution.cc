#include "runtime/cpu/ops/convolution.h"

#include "runtime/cpu/activate_row.h"
#include "runtime/cpu/ops/convolution_fused.h"
#include "runtime/cpu/ops/convolution_gmas.h"

namespace minuet {
namespace {

/// Computes the second output (SecondOutput) of a row. `stored` is the row of the first output, and `values`
/// is temporary memory.
void finish_second(const CpuConvolution& call, i64 row, const char* stored, float* values) {
  const SecondOutput second = second_output_of(call.problem, call.weights, call.request);
  const DType type = storage_type(call.problem.dtype);
  const i64 channels = call.problem.out_channels;
  call.kernels.widen(type, stored, values, channels);
  call.kernels.scale_shift(second.scale, second.shift, values, channels);
  activate_row(call.kernels, call.problem.second_activation, second.slope, values, channels);
  char* const target = static_cast<char*>(second.output) + row * second.output_ld * dtype_bytes(type);
  if (call.kernels.narrow(type, values, target, channels)) return;
  __atomic_store_n(second.overflow, call.request.overflow_mark, __ATOMIC_RELAXED);
}

}  // namespace

void finish_row(const CpuConvolution& call, i64 row, float* sum, float* residual) {
  const ConvolutionProblem& problem = call.problem;
  const OpRequest& request = call.request;
  const i64 channels = problem.out_channels;
  // The sums are checked before the activation, because a ReLU would hide a sum of minus infinity.
  bool finite = problem.activation == Activation::None || call.kernels.all_finite(sum, channels);
  if (problem.scale_shift) call.kernels.scale_shift(call.weights.scale, call.weights.shift, sum, channels);
  if (problem.residual) {
    // TF32 rounds only the operands of a GEMM, so the residual is read in its storage type.
    const DType type = storage_type(problem.dtype);
    call.kernels.widen(type, row_at(request.residual, row, request.residual_ld, type), residual, channels);
    call.kernels.add(residual, sum, channels);
  }
  activate_row(call.kernels, problem.activation, problem.slope, sum, channels);
  char* target = static_cast<char*>(request.output) + row * request.output_ld * dtype_bytes(problem.dtype);
  finite = call.kernels.narrow(problem.dtype, sum, target, channels) && finite;
  if (!finite) __atomic_store_n(request.overflow, request.overflow_mark, __ATOMIC_RELAXED);
  if (problem.second_output) finish_second(call, row, target, sum);
}

namespace {

llvm::Error check_row_lengths(const ConvolutionProblem& problem) {
  if (problem.input.ld < problem.in_channels || problem.output.ld < problem.out_channels ||
      (problem.residual && problem.residual_input.ld < problem.out_channels) ||
      (problem.second_output && problem.covered_output.ld < problem.out_channels)) {
    return make_error(StatusCode::InvalidArgument,
                      "input rows of {0} and output rows of {1} elements are too short for {2} input and {3} "
                      "output channels",
                      problem.input.ld, problem.output.ld, problem.in_channels, problem.out_channels);
  }
  return llvm::Error::success();
}

llvm::Error check_parameters(const ConvolutionProblem& problem, const ConvolutionWeights& weights) {
  if (weights.weight == nullptr ||
      (problem.scale_shift && (weights.scale == nullptr || weights.shift == nullptr)) ||
      (problem.second_output && (weights.second_scale == nullptr || weights.second_shift == nullptr))) {
    return make_error(StatusCode::InvalidArgument, "the convolution's weights are missing");
  }
  return llvm::Error::success();
}

class ConvolutionOp : public CpuOp {
 public:
  explicit ConvolutionOp(const ConvolutionProblem& problem) : problem_(problem) {}

 protected:
  llvm::Expected<CpuConvolution> ready(const CpuCall& call, const OpRequest& request) const {
    const ConvolutionWeights weights(problem_, request.parameters);
    MINUET_TRY(check_parameters(problem_, weights));
    return CpuConvolution{call.pool, call.kernels, problem_,          weights,
                          request,   call.scratch, call.scratch_words};
  }

  const ConvolutionProblem problem_;
};

/// Runs a convolution by gather-GEMM-scatter. It reads the weights of each offset in place, so it needs no
/// copy of them in the order of the GEMM groups.
class GmasOp final : public ConvolutionOp {
 public:
  using ConvolutionOp::ConvolutionOp;
  i64 scratch_words() const override { return convolve_scratch_words(problem_); }

  llvm::Error prepare(const CpuCall& call, const OpRequest& given) override {
    const auto& request = static_cast<const GmasRequest&>(given);
    if (request.fills_tables) {
      call.timed(&StageTimes::map, [&] { make_tables_cpu(call.pool, request); });
    }
    return llvm::Error::success();
  }

  llvm::Error run(const CpuCall& call, const OpRequest& given) override {
    const auto& request = static_cast<const GmasRequest&>(given);
    if (request.transposed && request.groups->direct_offset >= 0) {
      return make_error(StatusCode::Internal, "a transposed convolution cannot read input rows in place");
    }
    MINUET_ASSIGN(const CpuConvolution convolution, ready(call, request));
    for (std::size_t slice = 0; slice < request.slices->slices.size(); ++slice) {
      call.timed(&StageTimes::gather, [&] { gather_cpu(convolution, request, slice); });
      call.timed(&StageTimes::gemm, [&] { gemm_cpu(convolution, request, slice, tasks_); });
      call.timed(&StageTimes::scatter, [&] { scatter_cpu(convolution, request, slice); });
    }
    return llvm::Error::success();
  }

 private:
  std::vector<GemmTask> tasks_;
};

class FusedOp final : public ConvolutionOp {
 public:
  using ConvolutionOp::ConvolutionOp;
  i64 scratch_words() const override { return fused_scratch_words(problem_); }

  llvm::Error run(const CpuCall& call, const OpRequest& given) override {
    const auto& request = static_cast<const NeighbourRequest&>(given);
    MINUET_ASSIGN(const CpuConvolution convolution, ready(call, request));
    call.timed(&StageTimes::gemm, [&] { fused_cpu(convolution, request.view.rows); });
    return llvm::Error::success();
  }
};

template <class Op>
llvm::Expected<std::unique_ptr<CpuOp>> make_op(const ConvolutionProblem& problem) {
  MINUET_TRY(check_row_lengths(problem));
  return std::make_unique<Op>(problem);
}

}  // namespace

llvm::Expected<std::unique_ptr<CpuOp>> make_gmas_op(const OpChoice& choice) {
  return make_op<GmasOp>(choice.get<GmasChoice>().problem);
}

llvm::Expected<std::unique_ptr<CpuOp>> make_fused_op(const OpChoice& choice) {
  return make_op<FusedOp>(choice.get<FusedChoice>().problem);
}

}  // namespace minuet
