// Divides a pass into parts that run side by side.
//
// The forward pass has such parts where two chains end in one step, as those of a residual block and of its
// shortcut do. Many of their kernels are too short to fill a GPU.
//
// The backward pass is divided into the chain of the gradients of tensors and a branch beside it, which has
// the gradients of the parameters of convolutions and affine steps. The chain and the branch need about the
// same time. Where the kernels of a cloud do not fill a GPU, they are faster side by side. The branch works
// in groups: the gradients of the parameters of a few layers begin together, when the chain has made all that
// they read. Before the next group begins, the chain waits for this one, so that the memory of what a group
// reads is used again soon.
#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "runtime/program/ops/convolution.h"
#include "runtime/training/pass_program.h"

namespace minuet {
namespace {

/// Finds two chains of the forward pass that do not need each other.
class ChainSearch {
 public:
  explicit ChainSearch(const ForwardPass& pass) : pass_(pass) {
    for (const PassStep& step : pass.steps) {
      Use& use = uses_.emplace_back();
      for (const i32 tensor : tensors_of(pass, step)) use.touched.push_back(storage_of(tensor));
      use.written = storage_of(output_of(pass, step));
      if (step.kind == StepKind::Norm) {
        // The last batch norm counts the batch, and no other one may read the count later.
        use.may_branch = step.number + 1 < static_cast<i32>(pass.norms.size());
        continue;
      }
      const ProgramLayer& layer = pass.program.layers[step.number];
      use.is_convolution = convolution_of(layer) != nullptr;
      use.may_branch = use.is_convolution || layer.problem.get_if<PointwiseProblem>() != nullptr;
    }
  }

  /// Describes the steps [begin, middle) and [middle, end), which need nothing of each other. Both are empty
  /// if there are no such chains.
  struct Chains {
    i32 begin = 0, middle = 0, end = 0;
    bool is_empty() const { return begin == middle; }
  };

  /// Finds the chains from step `first` on whose results step `end` reads.
  Chains find(i32 first, i32 end) const {
    const Use& reader = uses_[end];
    i32 middle = end;  // Is behind the earliest step that computes an operand of the reader.
    for (const i32 storage : reader.touched) {
      if (storage == reader.written) continue;
      i32 producer = end;
      while (--producer >= 0 && uses_[producer].written != storage) continue;
      middle = std::min(middle, producer + 1);
    }
    Chains chains{middle, middle, end};
    if (middle <= first || middle == end) return {};
    while (chains.begin > first && may_precede({chains.begin - 1, middle, end})) --chains.begin;
    const bool both_multiply = has_convolution(chains.begin, middle) && has_convolution(middle, end);
    return both_multiply && may_branch(chains.begin, end) ? chains : Chains();
  }

 private:
  struct Use {
    std::vector<i32> touched;  // Holds the storages that the step reads or writes.
    i32 written = 0;
    bool may_branch = true, is_convolution = false;
  };

  i32 storage_of(i32 tensor) const { return pass_.program.tensors[tensor].storage; }
  llvm::ArrayRef<Use> uses(i32 begin, i32 end) const {
    return llvm::ArrayRef<Use>(uses_).slice(begin, end - begin);
  }
  bool has_convolution(i32 begin, i32 end) const {
    return llvm::any_of(uses(begin, end), [](const Use& use) { return use.is_convolution; });
  }
  bool may_branch(i32 begin, i32 end) const {
    return llvm::all_of(uses(begin, end), [](const Use& use) { return use.may_branch; });
  }
  /// Returns true if no step outside of the first chain and in front of the reader needs what the first step
  /// of this chain writes.
  bool may_precede(const Chains& chains) const {
    const i32 written = uses_[chains.begin].written;
    const auto touches = [&](const Use& use) { return llvm::is_contained(use.touched, written); };
    return llvm::none_of(uses(0, chains.begin), touches) &&
           llvm::none_of(uses(chains.middle, chains.end), touches);
  }

  const ForwardPass& pass_;
  std::vector<Use> uses_;
};

/// Limits the weights whose gradients form a group. A larger group keeps the memory of more tensors, and a
/// smaller one waits more often.
constexpr i32 kLeastGroupWeights = 2, kMostGroupWeights = 8;

bool is_in_branch(const PassStep& step) {
  return step.kind == StepKind::ParameterGradient || step.kind == StepKind::AffineGradient;
}

}  // namespace

i32 group_weights(i32 done, i32 all) {
  return std::clamp(std::min(done, (all - done) / 2), kLeastGroupWeights, kMostGroupWeights);
}

void divide_into_branches(ForwardPass& pass) {
  const ChainSearch search(pass);
  std::vector<PassStep> steps;
  i32 done = 0;  // Counts the steps of the pass that `steps` has.
  const auto take_until = [&](i32 end) {
    steps.insert(steps.end(), pass.steps.begin() + done, pass.steps.begin() + end);
    done = end;
  };
  for (i32 reader = 0; reader < static_cast<i32>(pass.steps.size()); ++reader) {
    const ChainSearch::Chains chains = search.find(done, reader);
    if (chains.is_empty()) continue;
    pass.has_branches = true;
    take_until(chains.begin);
    steps.push_back({StepKind::BeginBranch});
    // The shorter chain becomes the branch, because a kernel of a branch does not begin early.
    const bool is_first = chains.middle - chains.begin <= chains.end - chains.middle;
    if (is_first) take_until(chains.middle);
    steps.push_back({StepKind::EndBranch});
    if (!is_first) {
      take_until(chains.middle);
      steps.push_back({StepKind::ResumeBranch});
      take_until(chains.end);
      steps.push_back({StepKind::EndBranch});
    }
    take_until(chains.end);
    steps.push_back({StepKind::JoinBranch});
  }
  take_until(static_cast<i32>(pass.steps.size()));
  pass.steps = std::move(steps);
}

void divide_into_branches(BackwardPass& pass) {
  const auto is_weight = [&](const PassStep& step) {
    return step.kind == StepKind::ParameterGradient && pass.parameters[step.number].choice.problem.weight;
  };
  const i32 all = static_cast<i32>(llvm::count_if(pass.steps, is_weight));
  std::vector<PassStep> steps, group;
  i32 done = 0, weights = 0;
  const auto end_group = [&] {
    if (group.empty()) return;
    if (pass.has_branches) steps.push_back({StepKind::JoinBranch});
    steps.push_back({StepKind::BeginBranch});
    steps.insert(steps.end(), group.begin(), group.end());
    steps.push_back({StepKind::EndBranch});
    pass.has_branches = true;
    group.clear();
    done += weights;
    weights = 0;
  };
  for (const PassStep& step : pass.steps) {
    if (!is_in_branch(step)) {
      steps.push_back(step);
      continue;
    }
    group.push_back(step);
    if (is_weight(step)) ++weights;
    if (weights == group_weights(done, all)) end_group();
  }
  end_group();
  if (pass.has_branches) steps.push_back({StepKind::JoinBranch});
  pass.steps = std::move(steps);
}

}  // namespace minuet
