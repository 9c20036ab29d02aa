#include "codegen/choose/ops/global_pooling.h"

#include <utility>

#include "codegen/choose/choice.h"

namespace minuet {

llvm::Error validate(const GlobalPoolingProblem& problem) {
  if (problem.ndim < 1 || problem.ndim > kMaxDim) {
    return make_error(StatusCode::InvalidArgument, "the level has {0} axes; it must have 1 to {1}",
                      problem.ndim, kMaxDim);
  }
  if (problem.channels >= 1 && problem.channels <= kMostChannels) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "the input has {0} channels; a global pooling takes 1 to {1}", problem.channels,
                    kMostChannels);
}

[[gnu::cold]] GlobalPoolChoice choose_global_pool(const GlobalPoolingProblem& problem) {
  GlobalPoolChoice choice{problem, {}, {}, {}, {}, {}};
  choice.count.ndim = choice.list.ndim = problem.ndim;
  choice.list.lists = true;
  choice.pool.io = storage_type(problem.dtype);  // Nothing is multiplied, so nothing is rounded to tf32.
  choice.pool.channels = problem.channels;
  choice.pool.reduction = problem.reduction;
  choice.pool.vector_bytes =
      widest_vector(dtype_bytes(choice.pool.io), problem.channels, {problem.input, problem.output});
  choice.join.io = choice.pool.io;
  choice.join.channels = choice.pool.channels;
  choice.join.reduction = choice.pool.reduction;
  choice.join.vector_bytes = choice.pool.vector_bytes;
  return choice;
}

[[gnu::cold]] void add_sources(SourceList& list, const GlobalPoolChoice& choice) {
  list.add(choice.count);
  list.add(choice.start);
  list.add(choice.list);
  list.add(choice.pool);
  list.add(choice.join);
}

// The functions make_op_kind() and make_op_family() find the following functions by argument-dependent
// lookup, which does not search unnamed namespaces.
[[gnu::cold]] static llvm::Expected<std::vector<Candidate>> candidates(const GlobalPoolingProblem& problem,
                                                                       const CandidateOptions& options) {
  const GlobalPoolChoice choice = choose_global_pool(problem);
  Candidate candidate{choice, {"one pass over the rows, listed by batch item"}};
  if (!options.arch.empty()) candidate.kernel = display_name(choice.pool);
  return std::vector<Candidate>{std::move(candidate)};
}

static const WindowProblem* window(const GlobalPoolingProblem&) { return nullptr; }

static OperandShape shape(const GlobalPoolingProblem& problem) {
  return {.in_channels = problem.channels, .out_channels = problem.channels};
}

static GlobalPoolingProblem at_columns(GlobalPoolingProblem problem, const OperandColumns& columns) {
  problem.input = columns.input;
  problem.output = columns.output;
  return problem;
}

static bool is_same(const GlobalPoolChoice& a, const GlobalPoolChoice& b) { return a.pool == b.pool; }

const OpFamily GlobalPoolChoice::kKind = make_op_family<GlobalPoolChoice>("global_pooling");
const OpKind GlobalPoolingProblem::kKind =
    make_op_kind<GlobalPoolingProblem>("global_pooling", [](llvm::StringRef) { return ViewForm::None; });

}  // namespace minuet
