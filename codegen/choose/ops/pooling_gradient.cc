#include "codegen/choose/ops/pooling_gradient.h"

#include <utility>

#include "codegen/choose/choice.h"

namespace minuet {

PoolingGradientProblem input_gradient_of(const PoolingProblem& forward) {
  PoolingGradientProblem gradient;
  static_cast<WindowProblem&>(gradient) = forward;
  gradient.kind = swapped_kind(forward);
  gradient.channels = forward.channels;
  gradient.reduction = forward.reduction;
  return gradient;
}

llvm::Error validate(const PoolingGradientProblem& problem) {
  return check_window(problem, problem.channels, problem.channels);
}

PoolingGradientChoice choose_pooling_gradient(const PoolingGradientProblem& problem) {
  PoolingGradientChoice choice{problem, {}, {}, {}};
  choice.pool.io = storage_type(problem.dtype);  // Nothing is multiplied, so nothing is rounded to tf32.
  choice.pool.channels = problem.channels;
  // With one offset, each output of an average has at most one input.
  const bool is_copy = problem.reduction == Reduction::Average && kernel_volume(problem) == 1;
  choice.pool.reduction = is_copy ? Reduction::Sum : problem.reduction;
  choice.pool.vector_bytes =
      widest_vector(dtype_bytes(choice.pool.io), problem.channels, {problem.input, problem.output});
  return choice;
}

void add_sources(SourceList& list, const PoolingGradientChoice& choice) {
  list.add(choice.pool);
  if (!choice.counts()) return;
  list.add(choice.clear);
  list.add(choice.count);
}

// The functions make_op_kind() and make_op_family() find the following functions by argument-dependent
// lookup, which does not search unnamed namespaces.
static llvm::Expected<std::vector<Candidate>> candidates(const PoolingGradientProblem& problem,
                                                         const CandidateOptions& options) {
  const PoolingGradientChoice choice = choose_pooling_gradient(problem);
  Candidate candidate{choice, {"one pass over the outputs that read each input"}};
  // An average has further kernels.
  if (!options.arch.empty() && !choice.counts()) candidate.kernel = display_name(choice.pool);
  candidate.form = ViewForm::Rows;
  return std::vector<Candidate>{std::move(candidate)};
}

static const WindowProblem* window(const PoolingGradientProblem& problem) { return &problem; }

static OperandShape shape(const PoolingGradientProblem& problem) {
  return {.in_channels = problem.channels,
          .out_channels = problem.channels,
          .reads_winners = problem.reduction == Reduction::Max,
          .refuses_duplicates = true};
}

static PoolingGradientProblem at_columns(PoolingGradientProblem problem, const OperandColumns& columns) {
  problem.input = columns.input;
  problem.output = columns.output;
  return problem;
}

static bool is_same(const PoolingGradientChoice& a, const PoolingGradientChoice& b) {
  return a.pool == b.pool;
}

const OpFamily PoolingGradientChoice::kKind = make_op_family<PoolingGradientChoice>("pooling_gradient");
const OpKind PoolingGradientProblem::kKind =
    make_op_kind<PoolingGradientProblem>("pooling_gradient", [](llvm::StringRef) { return ViewForm::Rows; });

}  // namespace minuet
