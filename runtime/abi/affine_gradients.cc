#include "runtime/abi/affine_gradients.h"

#include "runtime/abi/single_op.h"

namespace minuet {
namespace {

/// Reads what the gradient of the scale needs besides the gradient of the output.
llvm::Error read_scale_arguments(const AffineGradientProblem& problem, const minuet_gradient_arguments& given,
                                 bool on_gpu, AffineGradientRequest& request,
                                 std::vector<NamedMemory>& written, std::vector<NamedMemory>& read) {
  MINUET_ASSIGN(const Tensor input, read_matrix(given.input, "input", problem.channels, problem.dtype));
  if (input.rows != request.rows) {
    return make_error(StatusCode::InvalidArgument,
                      "input has {0} rows, but out_gradient has {1}: they must have as many", input.rows,
                      request.rows);
  }
  request.input = input.data, request.input_ld = input.ld;
  read.push_back({"input", memory_of(input)});
  MINUET_TRY(check_pointer(given.weight_gradient, "weight_gradient"));
  llvm::Expected<GivenArray> array = read_array(*given.weight_gradient, ArrayUse::Parameter);
  if (!array) return annotate(array.takeError(), "weight_gradient");
  const bool fits = array->shape.size() == 1 && array->shape[0] == problem.channels;
  if (array->element != ElementType::F32 || !fits || !is_contiguous(*array)) {
    return make_error(StatusCode::InvalidArgument,
                      "weight_gradient must be a contiguous array of f32 (0) with the shape [{0}]",
                      problem.channels);
  }
  if (array->on_host && on_gpu) {
    return make_error(StatusCode::InvalidArgument, "weight_gradient is on the host: give device memory");
  }
  request.scale_gradient = static_cast<float*>(array->data);
  written.push_back({"weight_gradient", memory_of(array->data, spanned_bytes(*array))});
  return llvm::Error::success();
}

llvm::Error refuse_scale_arguments(const minuet_gradient_arguments& given) {
  MINUET_TRY(refuse_without_gradient(is_given(given.input), "input", "scale"));
  return refuse_without_gradient(given.weight_gradient != nullptr, "weight_gradient", "scale");
}

/// Refuses what only convolutions have.
llvm::Error refuse_pairs(const minuet_gradient_arguments& given) {
  if (!given.pairs && given.most_pairs == 0 && !given.pair_count && given.weights_order == 0 &&
      given.swapped == 0) {
    return llvm::Error::success();
  }
  return make_error(StatusCode::InvalidArgument,
                    "pairs, most_pairs, pair_count, weights_order or swapped is given, but the gradients of "
                    "an affine step need none: leave them null and 0");
}

}  // namespace

llvm::Expected<AffineGradientChoice> read_affine_gradient(const minuet_affine_gradient_options& given,
                                                          minuet_gradient which) {
  AffineGradientProblem problem;
  MINUET_ASSIGN(problem.dtype, read_dtype(given.dtype));
  problem.channels = given.channels;
  problem.epsilon = given.epsilon;
  MINUET_TRY(check_reserved(given.reserved));
  MINUET_TRY(check_gradients(which, "scale", "shift", "minuet_plan_create_pointwise"));
  problem.scale = (which & MINUET_GRADIENT_WEIGHT) != 0;
  problem.shift = (which & MINUET_GRADIENT_BIAS) != 0;
  MINUET_TRY(validate(problem));
  return choose_affine_gradient(problem);
}

llvm::Error compute_affine_gradient(const AffineGradientChoice& choice, const minuet_device& device,
                                    const minuet_gradient_arguments& given, void* stream) {
  const AffineGradientProblem& problem = choice.problem;
  AffineGradientRequest request;
  request.choice = &choice;
  std::vector<NamedMemory> written, read;
  const bool on_gpu = !device.open->device()->info().arch.empty();
  MINUET_TRY(check_flags({{given.accumulate, "accumulate"}}));
  MINUET_TRY(check_reserved(given.reserved));
  MINUET_TRY(refuse_pairs(given));
  MINUET_ASSIGN(const Tensor gradient,
                read_matrix(given.out_gradient, "out_gradient", problem.channels, problem.dtype));
  request.gradient = gradient.data, request.gradient_ld = gradient.ld;
  request.rows = gradient.rows;
  read.push_back({"out_gradient", memory_of(gradient)});
  if (problem.scale) {
    MINUET_TRY(read_scale_arguments(problem, given, on_gpu, request, written, read));
  } else {
    MINUET_TRY(refuse_scale_arguments(given));
  }
  if (problem.shift) {
    MINUET_TRY(check_pointer(given.bias_gradient, "bias_gradient"));
    MINUET_TRY(check_alignment(given.bias_gradient, kWordBytes, "bias_gradient"));
    written.push_back({"bias_gradient", memory_of(given.bias_gradient, problem.channels * kWordBytes)});
  } else {
    MINUET_TRY(refuse_without_gradient(given.bias_gradient != nullptr, "bias_gradient", "shift"));
  }
  request.shift_gradient = given.bias_gradient;
  MINUET_TRY(check_alignment(given.row_count, kWordBytes, "row_count"));
  read.push_back(optional_memory("row_count", given.row_count, kWordBytes));
  request.row_count = given.row_count;
  request.adds = given.accumulate != 0;
  request.workspace = given.workspace;
  return with_loaded_engine(
      device, kAffineGradientNdim, "minuet_gradient_op_load", stream, [&](Engine& engine) -> llvm::Error {
        const i64 bytes = engine.gradients().workspace_bytes(choice, gradient.rows);
        MINUET_TRY(check_block("workspace", given.workspace, given.workspace_bytes, bytes));
        written.push_back({"workspace", memory_of(given.workspace, bytes)});
        MINUET_TRY(check_apart(written, read));
        return engine.gradients().compute(request);
      });
}

}  // namespace minuet
