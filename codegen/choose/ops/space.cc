#include "codegen/choose/ops/space.h"

#include <utility>

#include "codegen/choose/choice.h"

namespace minuet {

std::string children_text(i64 volume) {
  return volume > kMostOffsets ? "more than " + std::to_string(kMostOffsets) : std::to_string(volume);
}

llvm::Error validate(const SpaceProblem& problem) {
  // The kernel follows from the stride. A caller gives no kernel, so no message may be about its size.
  WindowProblem without_kernel = problem;
  without_kernel.kernel_size = {1, 1, 1, 1};
  MINUET_TRY(check_window(without_kernel, problem.channels, problem.channels));
  const i64 volume = kernel_volume(problem);
  if (volume == 1) {
    return make_error(StatusCode::InvalidArgument,
                      "the stride is 1 on every axis, so that each cell is its own only child: use a stride "
                      "of 2 or more on an axis");
  }
  if (problem.channels * volume <= kMostChannels) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "the stride gives a coarser cell {0} children of {1} channels, but at most {2} channels "
                    "side by side are supported: use a smaller stride or fewer channels",
                    children_text(volume), problem.channels, kMostChannels);
}

namespace {

template <class Spec>
Spec choose_spec(const SpaceProblem& problem) {
  Spec spec;
  spec.io = storage_type(problem.dtype);  // Nothing is multiplied, so nothing is rounded to tf32.
  spec.channels = problem.channels;
  spec.volume = static_cast<i32>(kernel_volume(problem));
  spec.vector_bytes = widest_vector(dtype_bytes(spec.io), problem.channels, {problem.input, problem.output});
  return spec;
}

template <class Choice>
std::vector<Candidate> candidates_of(const Choice& choice, const char* reason,
                                     const CandidateOptions& options) {
  Candidate candidate{choice, {reason}};
  if (!options.arch.empty()) candidate.kernel = display_name(choice.kernel);
  candidate.form = ViewForm::Rows;
  return {std::move(candidate)};
}

ViewForm form_within_capacities(llvm::StringRef) { return ViewForm::Rows; }

}  // namespace

SpaceToChannelChoice choose_space_to_channel(const SpaceToChannelProblem& problem) {
  return {problem, choose_spec<SpaceToChannelSpec>(problem)};
}
ChannelToSpaceChoice choose_channel_to_space(const ChannelToSpaceProblem& problem) {
  return {problem, choose_spec<ChannelToSpaceSpec>(problem)};
}

void add_sources(SourceList& list, const SpaceToChannelChoice& choice) { list.add(choice.kernel); }
void add_sources(SourceList& list, const ChannelToSpaceChoice& choice) { list.add(choice.kernel); }

// The functions make_op_kind() and make_op_family() find the following functions by argument-dependent
// lookup, which does not search unnamed namespaces.
static llvm::Expected<std::vector<Candidate>> candidates(const SpaceToChannelProblem& problem,
                                                         const CandidateOptions& options) {
  return candidates_of(choose_space_to_channel(problem), "one pass over the children of each output",
                       options);
}
static llvm::Expected<std::vector<Candidate>> candidates(const ChannelToSpaceProblem& problem,
                                                         const CandidateOptions& options) {
  return candidates_of(choose_channel_to_space(problem), "one pass over the output rows", options);
}

static const WindowProblem* window(const SpaceProblem& problem) { return &problem; }

static OperandShape shape(const SpaceToChannelProblem& problem) {
  return {.in_channels = problem.channels,
          .out_channels = static_cast<i32>(problem.channels * kernel_volume(problem))};
}
static OperandShape shape(const ChannelToSpaceProblem& problem) {
  return {.in_channels = static_cast<i32>(problem.channels * kernel_volume(problem)),
          .out_channels = problem.channels};
}

template <class Problem>
static Problem at_columns(Problem problem, const OperandColumns& columns) {
  problem.input = columns.input;
  problem.output = columns.output;
  return problem;
}

static bool is_same(const SpaceToChannelChoice& a, const SpaceToChannelChoice& b) {
  return a.kernel == b.kernel;
}
static bool is_same(const ChannelToSpaceChoice& a, const ChannelToSpaceChoice& b) {
  return a.kernel == b.kernel;
}

const OpFamily SpaceToChannelChoice::kKind = make_op_family<SpaceToChannelChoice>("space_to_channel");
const OpFamily ChannelToSpaceChoice::kKind = make_op_family<ChannelToSpaceChoice>("channel_to_space");
const OpKind SpaceToChannelProblem::kKind =
    make_op_kind<SpaceToChannelProblem>("space_to_channel", form_within_capacities);
const OpKind ChannelToSpaceProblem::kKind =
    make_op_kind<ChannelToSpaceProblem>("channel_to_space", form_within_capacities);

}  // namespace minuet
