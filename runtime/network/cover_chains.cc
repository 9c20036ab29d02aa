#include "runtime/network/cover_chains.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "codegen/choose/ops/pointwise.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/program/ops/convolution.h"

namespace minuet {
namespace {

/// Returns the steps of the layer if it is a chain, and nothing otherwise.
llvm::ArrayRef<PointwiseStep> steps_of(const ProgramLayer& layer) {
  const auto* const chain = layer.problem.get_if<PointwiseProblem>();
  return chain != nullptr ? llvm::ArrayRef<PointwiseStep>(chain->steps) : llvm::ArrayRef<PointwiseStep>();
}

/// Lets the convolution compute an Affine step. Later code folds its parameters together with the bias.
void take_affine(const AffineNames& names, ProgramLayer& convolution) {
  convolution.batch_norm = names.batch_norm;
  convolution.batch_norm_epsilon = names.epsilon;
  convolution.is_affine = names.is_affine;
  convolution.scale = names.scale;
  convolution.shift = names.shift;
}

/// Moves the leading steps of `chain` that fit into the epilogue of `convolution` from one layer to the
/// other. Returns their number.
std::size_t take_leading_steps(ProgramLayer& convolution, ProgramLayer& chain) {
  ConvolutionProblem problem = *convolution_of(convolution);
  PointwiseProblem rest = chain.problem.get<PointwiseProblem>();
  std::size_t taken = 0;
  const auto next = [&] { return taken < rest.steps.size() ? rest.steps[taken].kind : PointwiseKind::None; };
  const auto note = [&](const std::string& parameters) {
    std::string& text = convolution.covered_steps;
    text += (text.empty() ? "" : " + ") + std::string(pointwise_name(next())) + parameters;
    ++taken;
  };
  const bool may_add = problem.activation == Activation::None && !problem.residual;
  const bool may_scale = may_add && convolution.batch_norm.empty() && convolution.scale.empty();
  if (next() == PointwiseKind::Affine && may_scale) {
    const AffineNames& names = chain.affines.front();
    take_affine(names, convolution);
    problem.scale_shift = true;
    note(" \"" + (names.batch_norm.empty() ? names.scale : names.batch_norm) + "\"");
    chain.affines.erase(chain.affines.begin());
  }
  if (next() == PointwiseKind::Add && may_add) {
    convolution.residual = chain.operands.front();
    problem.residual = true;
    note("");
    chain.operands.erase(chain.operands.begin());
    rest.operands.erase(rest.operands.begin());
  }
  if (is_activation(next()) && problem.activation == Activation::None) {
    problem.set_activation(activation_of(next()), rest.steps[taken].number);
    note("");
  }
  rest.steps.erase(rest.steps.begin(), rest.steps.begin() + static_cast<std::ptrdiff_t>(taken));
  convolution.problem = problem;
  chain.problem = rest;
  // The name of a chain begins with those of its steps, with a plus sign in between.
  for (std::size_t i = 0; i < taken && !rest.steps.empty(); ++i) {
    chain.name = llvm::StringRef(chain.name).split('+').second.str();
  }
  return taken;
}

/// Returns true if a convolution could compute all of the chain as its second output.
bool fits_second_output(llvm::ArrayRef<PointwiseStep> steps) {
  return !steps.empty() && steps.front().kind == PointwiseKind::Affine &&
         (steps.size() == 1 || (steps.size() == 2 && is_activation(steps.back().kind)));
}

class ChainCovering {
 public:
  explicit ChainCovering(Program& program) : program_(program) {}

  void run() {
    for (std::size_t i = 0; i < program_.layers.size(); ++i) {
      // The chain is removed if the convolution computes all of it.
      if (take_steps(i)) --i;
    }
    for (std::size_t i = 0; i < program_.layers.size(); ++i) make_second_output(i);
  }

 private:
  /// Returns true if the tensors have a column in common.
  bool overlap(i32 a, i32 b) const {
    const TensorSpec &first = program_.tensors[a], &second = program_.tensors[b];
    return first.storage == second.storage && first.column < second.column + second.channels &&
           second.column < first.column + first.channels;
  }

  /// Returns true if the program gives a part of the tensor, or a layer reads it other than as the input of
  /// layer `reader`.
  bool has_other_readers(i32 tensor, std::size_t reader) const {
    const auto reads = [&](i32 other) { return other >= 0 && overlap(tensor, other); };
    if (llvm::any_of(program_.outputs, reads)) return true;
    for (std::size_t i = 0; i < program_.layers.size(); ++i) {
      const ProgramLayer& layer = program_.layers[i];
      if (i != reader && reads(layer.input)) return true;
      if (reads(layer.residual) || llvm::any_of(layer.operands, reads)) return true;
    }
    return false;
  }

  /// Returns the number of the convolution that makes the input of layer `chain`, or -1 if it is made
  /// otherwise, or if the convolution makes a level or may share its launch with another convolution.
  i32 find_convolution(std::size_t chain) const {
    for (std::size_t i = 0; i < chain; ++i) {
      const ProgramLayer& layer = program_.layers[i];
      if (layer.output != program_.layers[chain].input) continue;
      const ConvolutionProblem* const problem = convolution_of(layer);
      const bool is_free = problem != nullptr && !problem->shortcut && !layer.may_join_last;
      return is_free ? static_cast<i32>(i) : -1;
    }
    return -1;
  }

  /// Moves a layer to a place behind or before it.
  void move(std::size_t from, std::size_t to) {
    const auto at = [&](std::size_t i) { return program_.layers.begin() + static_cast<std::ptrdiff_t>(i); };
    if (from < to) {
      std::rotate(at(from), at(from + 1), at(to + 1));
    } else {
      std::rotate(at(to), at(from), at(from + 1));
    }
  }

  /// Lets a convolution compute leading steps of layer `number` if that is a chain whose input nothing else
  /// reads. Returns true if it computes all steps, so that the layer is removed.
  bool take_steps(std::size_t number) {
    if (steps_of(program_.layers[number]).empty()) return false;
    const i32 producer = find_convolution(number);
    if (producer < 0 || has_other_readers(program_.layers[number].input, number)) return false;
    ProgramLayer convolution = program_.layers[producer], chain = program_.layers[number];
    if (take_leading_steps(convolution, chain) == 0) return false;
    const bool is_whole = steps_of(chain).empty();
    if (is_whole) convolution.output = chain.output;
    // A layer in between may make the residual. Without one, the convolution stays in its place, where it
    // ends the life of its input early.
    auto place = static_cast<std::size_t>(producer);
    if (convolution.residual != program_.layers[place].residual) {
      move(place, number - 1);
      place = number - 1;
    }
    program_.layers[place] = std::move(convolution);
    program_.layers[number] = std::move(chain);
    if (!is_whole) return false;
    program_.layers.erase(program_.layers.begin() + static_cast<std::ptrdiff_t>(number));
    return true;
  }

  /// Makes layer `number` the second output of the convolution whose result it reads, if that is possible.
  void make_second_output(std::size_t number) {
    const llvm::ArrayRef<PointwiseStep> steps = steps_of(program_.layers[number]);
    const i32 producer = fits_second_output(steps) ? find_convolution(number) : -1;
    if (producer < 0) return;
    ConvolutionProblem problem = *convolution_of(program_.layers[producer]);
    if (problem.second_output) return;
    problem.second_output = true;
    if (steps.size() == 2) {
      std::tie(problem.second_activation, problem.second_slope) =
          settled_activation(activation_of(steps[1].kind), steps[1].number);
    }
    program_.layers[producer].problem = problem;
    program_.layers[number].may_join_last = true;
    move(number, static_cast<std::size_t>(producer) + 1);
  }

  Program& program_;
};

}  // namespace

void cover_chains(Program& program) {
  // The numbers of the layers that make levels change. The outputs of these layers stay the same.
  std::map<i32, i32> made;
  for (std::size_t i = 0; i < program.levels.size(); ++i) {
    if (program.levels[i].is_made_in_run())
      made[program.layers[program.levels[i].made_by].output] = static_cast<i32>(i);
  }
  ChainCovering(program).run();
  for (std::size_t i = 0; i < program.layers.size(); ++i) {
    const auto found = made.find(program.layers[i].output);
    if (found != made.end()) program.levels[found->second].made_by = static_cast<i32>(i);
  }
}

}  // namespace minuet
