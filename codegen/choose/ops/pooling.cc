#include "codegen/choose/ops/pooling.h"

namespace minuet {

llvm::Error validate(const PoolingProblem& problem) {
  MINUET_TRY(check_window(problem, problem.channels, problem.channels));
  return make_error(StatusCode::Unimplemented,
                    "pooling is not built yet: no kernel reduces without weights; use a strided convolution");
}

// make_op_kind() finds these by their arguments, so no unnamed namespace holds them.
static llvm::Expected<std::vector<Candidate>> candidates(const PoolingProblem& problem,
                                                         const CandidateOptions&) {
  return validate(problem);
}

static const WindowProblem* window(const PoolingProblem& problem) { return &problem; }

static OperandShape shape(const PoolingProblem& problem) { return {problem.channels, problem.channels}; }

static PoolingProblem at_columns(const PoolingProblem& problem, const OperandColumns&) { return problem; }

const OpKind PoolingProblem::kKind = make_op_kind<PoolingProblem>("pooling");

}  // namespace minuet
