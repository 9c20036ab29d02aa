#include "codegen/choose/ops/pooling.h"

#include <utility>

#include "codegen/choose/choice.h"

namespace minuet {

llvm::Error validate(const PoolingProblem& problem) {
  MINUET_TRY(check_window(problem, problem.channels, problem.channels));
  if (is_integer(problem.dtype) && problem.reduction != Reduction::Max) {
    return make_error(StatusCode::Unimplemented,
                      "only a maximum pools 8-bit elements: pool elements of the type of the plan");
  }
  if (!problem.winners || problem.reduction == Reduction::Max) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "winners is set, but only a maximum has winners: use the reduction max, or leave it 0");
}

PoolChoice choose_pool(const PoolingProblem& problem) {
  PoolChoice choice{problem, {}};
  choice.pool.io = storage_type(problem.dtype);  // Nothing is multiplied, so nothing is rounded to tf32.
  choice.pool.channels = problem.channels;
  choice.pool.reduction = problem.reduction;
  choice.pool.winners = problem.winners;
  choice.pool.vector_bytes =
      widest_vector(dtype_bytes(choice.pool.io), problem.channels, {problem.input, problem.output});
  return choice;
}

void add_sources(SourceList& list, const PoolChoice& choice) { list.add(choice.pool); }

// The functions make_op_kind() and make_op_family() find the following functions by argument-dependent
// lookup, which does not search unnamed namespaces.
static llvm::Expected<std::vector<Candidate>> candidates(const PoolingProblem& problem,
                                                         const CandidateOptions& options) {
  const PoolChoice choice = choose_pool(problem);
  std::string kernel = options.arch.empty() ? "" : display_name(choice.pool);
  Candidate candidate{choice, {"one pass over the input rows of each output"}};
  candidate.kernel = std::move(kernel);
  candidate.form = ViewForm::Rows;
  return std::vector<Candidate>{std::move(candidate)};
}

static const WindowProblem* window(const PoolingProblem& problem) { return &problem; }

static OperandShape shape(const PoolingProblem& problem) {
  return {.in_channels = problem.channels, .out_channels = problem.channels, .has_winners = problem.winners};
}

static PoolingProblem at_columns(PoolingProblem problem, const OperandColumns& columns) {
  problem.input = columns.input;
  problem.output = columns.output;
  return problem;
}

static bool is_same(const PoolChoice& a, const PoolChoice& b) { return a.pool == b.pool; }

const OpFamily PoolChoice::kKind = make_op_family<PoolChoice>("pooling");
const OpKind PoolingProblem::kKind =
    make_op_kind<PoolingProblem>("pooling", [](llvm::StringRef) { return ViewForm::Rows; });

}  // namespace minuet
