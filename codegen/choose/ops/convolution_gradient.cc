#include "codegen/choose/ops/convolution_gradient.h"

namespace minuet {

llvm::Error validate(const ConvolutionGradientProblem& problem) {
  MINUET_TRY(validate(problem.forward));
  if (problem.gradients & kGradientInput) {
    return make_error(StatusCode::Unimplemented,
                      "the gradient of a convolution's input is not supported: use a convolution with the "
                      "transposed weights over the kernel map with input and output swapped");
  }
  if (problem.gradients & kGradientWeight) {
    return make_error(StatusCode::Unimplemented,
                      "the gradient of a convolution's weight is not supported: export the kernel map, and "
                      "multiply the rows of the pairs of each offset");
  }
  return make_error(StatusCode::Unimplemented,
                    "the gradient of a convolution's bias is not supported: sum the rows of the output's "
                    "gradient");
}

// The function make_op_kind() finds the following functions by argument-dependent lookup, which does not
// search unnamed namespaces.
static llvm::Expected<std::vector<Candidate>> candidates(const ConvolutionGradientProblem& problem,
                                                         const CandidateOptions&) {
  return validate(problem);
}

static const WindowProblem* window(const ConvolutionGradientProblem& problem) { return &problem.forward; }

static OperandShape shape(const ConvolutionGradientProblem& problem) {
  return {problem.forward.out_channels, problem.forward.in_channels};
}

static ConvolutionGradientProblem at_columns(const ConvolutionGradientProblem& problem,
                                             const OperandColumns&) {
  return problem;
}

const OpKind ConvolutionGradientProblem::kKind =
    make_op_kind<ConvolutionGradientProblem>("convolution gradient");

}  // namespace minuet
