#include "codegen/choose/ops/pointwise.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "codegen/base/number_text.h"
#include "codegen/choose/choice.h"

namespace minuet {
namespace {

constexpr i32 kRowWiseThreads = 128, kMostHeldElements = 32, kSectorBytes = 32;
static_assert(kMostPointwiseSteps <= kMostOperands, "each step may read an operand");

[[gnu::cold]] llvm::Error check_step(const PointwiseProblem& problem, std::size_t number) {
  const PointwiseStep& step = problem.steps[number];
  const auto kind = static_cast<i32>(step.kind);
  if (kind <= 0 || kind >= kPointwiseKinds) {
    return make_error(StatusCode::InvalidArgument, "step {0} has no valid kind", number);
  }
  if (!std::isfinite(step.number)) {
    return make_error(StatusCode::InvalidArgument, "the number of step {0} ({1}) is {2}; it must be finite",
                      number, pointwise_name(step.kind), general_text(step.number, 9));
  }
  if (has_epsilon(step.kind) && step.number <= 0) {
    return make_error(StatusCode::InvalidArgument, "the epsilon of step {0} ({1}) is {2}; it must be above 0",
                      number, pointwise_name(step.kind), general_text(step.number, 9));
  }
  if (step.kind == PointwiseKind::Argmax && number + 1 < problem.steps.size()) {
    return make_error(StatusCode::InvalidArgument,
                      "step {0} is an argmax, whose results are integers, but a step follows: let the argmax "
                      "be the last step",
                      number);
  }
  return llvm::Error::success();
}

/// Returns the number of threads that process a row of `vectors` vectors of `elements` elements together. The
/// whole block does if a warp could not hold the row. Otherwise as many threads do as leave the fewest
/// without a vector. The vectors that they store at once must fill a sector, unless these are the whole row.
i32 row_lanes(i32 vectors, i32 elements, i32 vector_bytes) {
  const auto held = [&](i32 lanes) { return (vectors + lanes - 1) / lanes; };
  i32 best = 32;
  while (held(best) * elements > kMostHeldElements) best *= 2;
  if (best > 32) return std::max(best, kRowWiseThreads);
  for (i32 lanes = best / 2; lanes > 0; lanes /= 2) {
    const bool fits = held(lanes) * elements <= kMostHeldElements;
    const bool fills_sectors = held(lanes) == 1 || lanes * vector_bytes >= kSectorBytes;
    if (fits && fills_sectors && held(lanes) * lanes < held(best) * best) best = lanes;
  }
  return best;
}

}  // namespace

const char* pointwise_name(PointwiseKind kind) {
  static constexpr const char* kOthers[] = {"add",
                                            "multiply",
                                            "affine",
                                            "layer_norm",
                                            "softmax",
                                            "argmax",
                                            "relu_gradient",
                                            "leaky_relu_gradient",
                                            "gelu_gradient",
                                            "gelu_tanh_gradient",
                                            "silu_gradient",
                                            "sigmoid_gradient",
                                            "tanh_gradient",
                                            "layer_norm_gradient",
                                            "softmax_gradient"};
  static_assert(kActivations + std::size(kOthers) == kPointwiseKinds);
  const i32 number = static_cast<i32>(kind);
  return number < kActivations ? kActivationNames[number] : kOthers[number - kActivations];
}

bool has_epsilon(PointwiseKind kind) {
  return kind == PointwiseKind::LayerNorm || kind == PointwiseKind::LayerNormGradient;
}

[[gnu::cold]] llvm::Error validate(const PointwiseProblem& problem) {
  if (problem.channels < 1 || problem.channels > kMostChannels) {
    return make_error(StatusCode::InvalidArgument, "a pointwise op has {0} channels; it may have 1 to {1}",
                      problem.channels, kMostChannels);
  }
  MINUET_TRY(check_window(problem, problem.channels, problem.channels));
  if (problem.kind != ConvolutionKind::Submanifold || kernel_volume(problem) != 1 || problem.padding ||
      !problem.offsets.empty()) {
    return make_error(StatusCode::InvalidArgument,
                      "a pointwise op has a kernel of one offset without padding, from a level onto itself");
  }
  if (problem.steps.empty() || problem.steps.size() > kMostPointwiseSteps) {
    return make_error(StatusCode::InvalidArgument, "there are {0} steps; a chain has 1 to {1}",
                      problem.steps.size(), kMostPointwiseSteps);
  }
  for (std::size_t i = 0; i < problem.steps.size(); ++i) MINUET_TRY(check_step(problem, i));
  const bool has_row_wise = std::any_of(problem.steps.begin(), problem.steps.end(),
                                        [](const PointwiseStep& step) { return is_row_wise(step.kind); });
  if (!has_row_wise || problem.channels <= kMostRowWiseChannels) return llvm::Error::success();
  return make_error(StatusCode::Unimplemented,
                    "channels are {0}, but a step that combines the channels of a row (layer_norm, softmax, "
                    "their gradients, argmax) holds them in registers, which suffice for {1}",
                    problem.channels, kMostRowWiseChannels);
}

[[gnu::cold]] PointwiseChoice choose_pointwise(const PointwiseProblem& problem) {
  PointwiseChoice choice{problem, {}};
  PointwiseSpec& kernel = choice.kernel;
  kernel.io = storage_type(problem.dtype);  // Nothing is multiplied by a GEMM, so nothing is rounded to tf32.
  kernel.channels = problem.channels;
  kernel.steps = {};
  for (std::size_t i = 0; i < problem.steps.size(); ++i) kernel.steps.kinds[i] = problem.steps[i].kind;
  std::vector<Columns> matrices = problem.operands;
  matrices.push_back(problem.input);
  // An argmax writes one number for each row.
  if (!problem.is_argmax()) matrices.push_back(problem.output);
  const i32 element = dtype_bytes(kernel.io);
  kernel.vector_bytes = widest_vector(element, problem.channels, matrices);
  const i32 elements = kernel.vector_bytes / element, vectors = problem.channels / elements;
  kernel.lanes = vectors;
  if (!is_row_wise(kernel.steps)) return choice;
  kernel.lanes = row_lanes(vectors, elements, kernel.vector_bytes);
  kernel.threads = std::max(kernel.lanes, kRowWiseThreads);
  return choice;
}

void add_sources(SourceList& list, const PointwiseChoice& choice) { list.add(choice.kernel); }

// The functions make_op_kind() and make_op_family() find the following functions by argument-dependent
// lookup, which does not search unnamed namespaces.
static llvm::Expected<std::vector<Candidate>> candidates(const PointwiseProblem& problem,
                                                         const CandidateOptions& options) {
  const PointwiseChoice choice = choose_pointwise(problem);
  Candidate candidate{choice, {"one pass over the rows for the whole chain"}};
  if (!options.arch.empty()) candidate.kernel = display_name(choice.kernel);
  return std::vector<Candidate>{std::move(candidate)};
}

static const WindowProblem* window(const PointwiseProblem& problem) { return &problem; }

static OperandShape shape(const PointwiseProblem& problem) {
  OperandShape shape;
  shape.in_channels = problem.channels;
  shape.out_channels = problem.out_channels();
  shape.gives_integers = problem.is_argmax();
  for (std::size_t i = 0; i < problem.steps.size(); ++i) {
    if (problem.steps[i].kind == PointwiseKind::Affine) shape.affine_steps.push_back(static_cast<i32>(i));
    if (reads_operand(problem.steps[i].kind)) ++shape.operands;
  }
  return shape;
}

static PointwiseProblem at_columns(PointwiseProblem problem, const OperandColumns& columns) {
  problem.input = columns.input;
  problem.output = columns.output;
  problem.operands = columns.operands;
  return problem;
}

static bool is_same(const PointwiseChoice& a, const PointwiseChoice& b) { return a.kernel == b.kernel; }

const OpFamily PointwiseChoice::kKind = make_op_family<PointwiseChoice>("pointwise");
const OpKind PointwiseProblem::kKind =
    make_op_kind<PointwiseProblem>("pointwise", [](llvm::StringRef) { return ViewForm::None; });

}  // namespace minuet
