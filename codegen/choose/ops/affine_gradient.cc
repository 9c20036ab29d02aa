#include "codegen/choose/ops/affine_gradient.h"

#include <cmath>

#include "codegen/base/number_text.h"

namespace minuet {

[[gnu::cold]] llvm::Error validate(const AffineGradientProblem& problem) {
  if (problem.channels < 1 || problem.channels > kMostChannels) {
    return make_error(StatusCode::InvalidArgument, "the affine step has {0} channels; it may have 1 to {1}",
                      problem.channels, kMostChannels);
  }
  if (std::isfinite(problem.epsilon) && problem.epsilon >= 0) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "epsilon is {0}; it must be 0, or that of the layer norm, which is finite and above 0",
                    general_text(problem.epsilon, 9));
}

[[gnu::cold]] AffineGradientChoice choose_affine_gradient(const AffineGradientProblem& problem) {
  AffineGradientChoice choice;
  choice.problem = problem;
  // Nothing is multiplied by a GEMM, so nothing is rounded to tf32.
  choice.measure.io = choice.products.io = choice.rows.io = storage_type(problem.dtype);
  choice.products.normalizes = problem.normalizes();
  return choice;
}

[[gnu::cold]] void add_sources(SourceList& list, const AffineGradientChoice& choice) {
  if (choice.problem.scale && choice.problem.normalizes()) list.add(choice.measure);
  if (choice.problem.scale) {
    list.add(choice.products);
  } else {
    list.add(choice.rows);
  }
  list.add(choice.row_sums);
}

}  // namespace minuet
