#include "runtime/cpu/ops/convolution.h"

#include "kernels_templates/shared/integer_functions.h"
#include "runtime/cpu/activate_row.h"
#include "runtime/cpu/ops/convolution_fused.h"
#include "runtime/cpu/ops/convolution_gmas.h"

namespace minuet {
namespace {

/// Returns element i of a row of U8 or S8.
float integer_at(DType type, const char* row, i64 i) {
  return type == DType::U8 ? static_cast<float>(static_cast<unsigned char>(row[i]))
                           : static_cast<float>(static_cast<signed char>(row[i]));
}

/// Loads a row of any type.
void load_row(const VectorKernels& kernels, DType type, const char* row, float* values, i64 channels) {
  if (!is_integer(type)) return kernels.widen(storage_type(type), row, values, channels);
  for (i64 c = 0; c < channels; ++c) values[c] = integer_at(type, row, c);
}

/// Stores a row of any type. Returns true if all numbers are finite in the type, or in fp32 if it is an
/// integer type. Numbers of an integer type are multiplied by `factor` before they are rounded and limited.
bool store_row(const VectorKernels& kernels, DType type, const float* values, float factor, char* row,
               i64 channels) {
  if (!is_integer(type)) return kernels.narrow(type, values, row, channels);
  kernels.store_integers(type, values, factor, row, channels);
  return kernels.all_finite(values, channels);
}

/// Computes the second output (SecondOutput) of a row. `stored` is the row of the first output, and `values`
/// is temporary memory.
void finish_second(const CpuConvolution& call, i64 row, const char* stored, float* values) {
  const ConvolutionProblem& problem = call.problem;
  const SecondOutput second = second_output_of(problem, call.weights, call.request);
  const DType type = second_type_of(problem);
  const i64 channels = problem.out_channels;
  load_row(call.kernels, output_type_of(problem), stored, values, channels);
  if (has_integers(problem)) {
    for (i64 c = 0; c < channels; ++c)
      values[c] = fused_multiply_add(values[c], second.scale[c], second.shift[c]);
  } else {
    call.kernels.scale_shift(second.scale, second.shift, values, channels);
  }
  activate_row(call.kernels, problem.second_activation, second.slope, values, channels);
  const float factor = scales_second(problem) ? problem.second_factor : 1;
  char* const target = static_cast<char*>(second.output) + row * second.output_ld * dtype_bytes(type);
  if (store_row(call.kernels, type, values, factor, target, channels) || is_integer(type)) return;
  __atomic_store_n(second.overflow, call.request.overflow_mark, __ATOMIC_RELAXED);
}

/// Applies the activation to the values of an output row, and writes the row. `finite` says whether all sums
/// are finite.
void finish_values(const CpuConvolution& call, i64 row, float* values, bool finite) {
  const ConvolutionProblem& problem = call.problem;
  const OpRequest& request = call.request;
  const i64 channels = problem.out_channels;
  const DType type = output_type_of(problem);
  activate_row(call.kernels, problem.activation, problem.slope, values, channels);
  char* const target = static_cast<char*>(request.output) + row * request.output_ld * dtype_bytes(type);
  const float factor = scales_output(problem) ? problem.output_factor : 1;
  finite = store_row(call.kernels, type, values, factor, target, channels) && finite;
  const bool hides_overflow = problem.input_type && problem.output_type;  // Integers do not overflow.
  if (!finite && !hides_overflow) __atomic_store_n(request.overflow, request.overflow_mark, __ATOMIC_RELAXED);
  if (problem.second_output) finish_second(call, row, target, values);
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
  finish_values(call, row, sum, finite);
}

void finish_integer_row(const CpuConvolution& call, i64 row, const i32* sums, float* values) {
  const ConvolutionProblem& problem = call.problem;
  const OpRequest& request = call.request;
  const DType type = residual_type_of(problem);
  const char* const residual =
      problem.residual ? row_at(request.residual, row, request.residual_ld, type) : nullptr;
  const IntegerStart start{call.weights.shift, type, residual, call.weights.residual_factor};
  call.kernels.finish_integers(sums, start, call.weights.scale, values, problem.out_channels);
  finish_values(call, row, values, true);
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
      ((problem.scale_shift || problem.input_type) &&
       (weights.scale == nullptr || weights.shift == nullptr)) ||
      (problem.residual_type && weights.residual_factor == nullptr) ||
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
