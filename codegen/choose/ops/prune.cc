#include "codegen/choose/ops/prune.h"

namespace minuet {

i32 PruneProblem::out_channels() const {
  return divides_channels ? static_cast<i32>(in_channels / select.children_of_row()) : in_channels;
}

bool PruneProblem::is_same_level(const PruneProblem& other) const {
  const SelectProblem &a = select, &b = other.select;
  return a.source == b.source && a.rule == b.rule && a.threshold == b.threshold && a.best == b.best &&
         a.children == b.children && a.child_step == b.child_step;
}

llvm::Error validate(const PruneProblem& problem) {
  MINUET_TRY(validate(problem.select));
  if (problem.in_channels < 1 || problem.in_channels > kMostChannels) {
    return make_error(StatusCode::InvalidArgument, "the rows have {0} channels; they must have 1 to {1}",
                      problem.in_channels, kMostChannels);
  }
  const i64 children = problem.select.children_of_row();
  if (!problem.divides_channels || problem.in_channels % children == 0) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "the layer's input has {0} channels, which cannot be divided among {1} children",
                    problem.in_channels, children);
}

PruneChoice choose_prune(const PruneProblem& problem) {
  PruneChoice choice{problem, choose_select(problem.select), std::nullopt};
  if (problem.select.rule == SelectRule::NonZero) return choice;
  const i32 channels = problem.out_channels();
  const Columns columns{channels, 0};
  choice.gather = choose_permute_rows(problem.select.dtype, channels, columns, columns);
  return choice;
}

void add_sources(SourceList& list, const PruneChoice& choice) {
  if (choice.problem.makes_level) add_sources(list, choice.select);
  if (choice.gather) list.add(*choice.gather);
}

// The functions make_op_kind() and make_op_family() find the following functions by argument-dependent
// lookup, which does not search unnamed namespaces.
static llvm::Expected<std::vector<Candidate>> candidates(const PruneProblem& problem,
                                                         const CandidateOptions& /*options*/) {
  const char* const reason = !problem.makes_level ? "one pass over the rows, which another layer lists"
                             : problem.select.rule == SelectRule::Best ? "a sort of scores and one scan"
                                                                       : "one scan of the candidates";
  return std::vector<Candidate>{{choose_prune(problem), {reason}}};
}

static const WindowProblem* window(const PruneProblem&) { return nullptr; }

static OperandShape shape(const PruneProblem& problem) {
  return {.in_channels = problem.in_channels, .out_channels = problem.out_channels()};
}

// The op reads and writes matrices of its own, whatever the columns of the program's matrices are.
static PruneProblem at_columns(PruneProblem problem, const OperandColumns&) { return problem; }

static bool is_same(const PruneChoice& a, const PruneChoice& b) { return a.select.list == b.select.list; }

const OpFamily PruneChoice::kKind = make_op_family<PruneChoice>("prune");
const OpKind PruneProblem::kKind = make_op_kind<PruneProblem>("prune");

}  // namespace minuet
