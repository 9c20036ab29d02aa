// Lets batch norms of the forward pass compute the sum and the ReLU behind them, which a description may have
// as ops of their own. A batch norm adds a residual and applies a ReLU while it writes its rows, so that both
// passes write and read them less often, with fewer kernels.
//
// What is folded follows from the network alone, and not from TrainingOptions: with 16 bits a sum in a batch
// norm is rounded once less, and options such as the segments that are computed again must not change bits.
#include <algorithm>
#include <optional>

#include "codegen/choose/ops/pointwise.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/training/pass_program.h"

namespace minuet {
namespace {

class NormFolder {
 public:
  explicit NormFolder(ForwardPass& pass)
      : pass_(pass),
        program_(pass.program),
        reads_(program_.storages.size()),
        depths_(program_.storages.size()) {
    for (const PassStep& step : pass.steps) {
      i32 depth = 0;
      for (const i32 input : inputs_of(pass, step)) {
        ++reads_of(input);
        depth = std::max(depth, depths_[program_.tensors[input].storage]);
      }
      i32& own = depths_[program_.tensors[output_of(pass, step)].storage];
      own = std::max(own, depth + 1);
    }
    for (const i32 output : program_.outputs) ++reads_of(output);
  }

  void fold() {
    for (const PassStep& step : pass_.steps) {
      if (!is_folded(step)) steps_.push_back(step);
    }
    renumber();
  }

 private:
  /// Counts the steps that read any column of the tensor's storage, and the outputs of the network there.
  i32& reads_of(i32 tensor) { return reads_[program_.tensors[tensor].storage]; }

  /// Returns true if a batch norm before the step now computes it.
  bool is_folded(const PassStep& step) {
    if (step.kind != StepKind::Layer) return false;
    const ProgramLayer& layer = program_.layers[step.number];
    const auto* const chain = layer.problem.get_if<PointwiseProblem>();
    if (chain == nullptr || !has_whole_vectors(program_, layer.output)) return false;
    const bool has_add = chain->steps.front().kind == PointwiseKind::Add;
    const bool has_relu = chain->steps.back().kind == PointwiseKind::ReLU;
    if (chain->steps.size() != std::size_t{has_add} + std::size_t{has_relu}) return false;
    // Of two batch norms whose sum this is, the one with the longer chain before it takes the other one's
    // result. The other chain, such as a shortcut, is then complete, and may run beside the longer one.
    std::optional<std::size_t> best;
    for (std::size_t i = steps_.size(); i-- > 0;) {
      if (steps_[i].kind != StepKind::Norm) continue;
      const NormUse& norm = pass_.norms[steps_[i].number];
      if (norm.output != layer.input && !llvm::is_contained(layer.operands, norm.output)) continue;
      if (!can_take(norm, other_than(norm, layer, has_add))) continue;
      if (!best || depth_of(norm) > depth_of(pass_.norms[steps_[*best].number])) best = i;
    }
    if (!best) return false;
    NormUse& norm = pass_.norms[steps_[*best].number];
    take(norm, layer, other_than(norm, layer, has_add), has_relu);
    move_behind(*best, step);
    return true;
  }

  /// Returns the tensor that the batch norm would add, or -1 if it adds none.
  static i32 other_than(const NormUse& norm, const ProgramLayer& layer, bool has_add) {
    if (!has_add) return -1;
    return norm.output == layer.input ? layer.operands.front() : layer.input;
  }
  /// Counts the steps of the longest chain that ends with the batch norm.
  i32 depth_of(const NormUse& norm) const { return depths_[program_.tensors[norm.output].storage]; }

  /// Returns true if nothing else reads the result of the batch norm, and if it has no ReLU. If it is to add
  /// `other`, it must have no residual either.
  bool can_take(const NormUse& norm, i32 other) {
    if (reads_of(norm.output) > 1 || norm.choice.problem.has_relu) return false;
    return other < 0 || (!norm.choice.problem.has_residual && has_whole_vectors(program_, other));
  }

  static void take(NormUse& norm, const ProgramLayer& layer, i32 other, bool has_relu) {
    BatchNormProblem problem = norm.choice.problem;
    problem.has_relu = has_relu;
    if (other >= 0) {
      problem.has_residual = true;
      norm.residual = other;
    }
    norm.choice = choose_batch_norm(problem);
    norm.output = layer.output;
  }

  /// Moves a batch norm to the place of the step that it takes. Outside of all segments that are computed
  /// again, it stays in its own: the sum is then the result of that segment, and no more is kept than before.
  void move_behind(std::size_t number, const PassStep& taken) {
    PassStep step = steps_[number];
    steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(number));
    if (taken.segment >= 0) step.segment = taken.segment;
    steps_.push_back(step);
  }

  /// Lists layers and batch norms in the order of the steps, without those that were folded.
  void renumber() {
    std::vector<ProgramLayer> layers;
    std::vector<LayerUse> uses;
    std::vector<NormUse> norms;
    for (PassStep& step : steps_) {
      if (step.kind == StepKind::Norm) {
        norms.push_back(std::move(pass_.norms[step.number]));
        step.number = static_cast<i32>(norms.size()) - 1;
      } else {
        layers.push_back(std::move(program_.layers[step.number]));
        uses.push_back(pass_.layers[step.number]);
        step.number = static_cast<i32>(layers.size()) - 1;
      }
    }
    program_.layers = std::move(layers);
    pass_.layers = std::move(uses);
    pass_.norms = std::move(norms);
    pass_.steps = std::move(steps_);
  }

  ForwardPass& pass_;
  Program& program_;
  std::vector<i32> reads_;       // Has an element for each storage.
  std::vector<i32> depths_;      // Has the steps of the longest chain to each storage.
  std::vector<PassStep> steps_;  // Are those of the pass so far, without those that were folded.
};

}  // namespace

void fold_into_norms(ForwardPass& pass) { NormFolder(pass).fold(); }

}  // namespace minuet
