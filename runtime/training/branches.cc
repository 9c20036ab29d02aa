// Divides the backward pass into the chain of the gradients of tensors and a branch beside it, which has the
// gradients of the parameters of convolutions and affine steps.
//
// Both need about the same time. Where the kernels of a cloud do not fill a GPU, they are faster side by
// side. The branch works in groups: the gradients of the parameters of a few layers begin together, when the
// chain has made all that they read. Before the next group begins, the chain waits for this one, so that the
// memory of what a group reads is used again soon.
#include "runtime/training/training_passes.h"

namespace minuet {
namespace {

/// Counts the weights whose gradients form a group. A larger group keeps the memory of more tensors, and a
/// smaller one waits more often.
constexpr i32 kGroupWeights = 4;

bool is_in_branch(const PassStep& step) {
  return step.kind == StepKind::ParameterGradient || step.kind == StepKind::AffineGradient;
}

}  // namespace

void divide_into_branches(BackwardPass& pass) {
  std::vector<PassStep> steps, group;
  i32 weights = 0;
  const auto end_group = [&] {
    if (group.empty()) return;
    if (pass.has_branches) steps.push_back({StepKind::JoinBranch});
    steps.push_back({StepKind::BeginBranch});
    steps.insert(steps.end(), group.begin(), group.end());
    steps.push_back({StepKind::EndBranch});
    pass.has_branches = true;
    group.clear();
    weights = 0;
  };
  for (const PassStep& step : pass.steps) {
    if (!is_in_branch(step)) {
      steps.push_back(step);
      continue;
    }
    group.push_back(step);
    if (step.kind == StepKind::ParameterGradient && pass.parameters[step.number].choice.problem.weight) {
      ++weights;
    }
    if (weights == kGroupWeights) end_group();
  }
  end_group();
  if (pass.has_branches) steps.push_back({StepKind::JoinBranch});
  pass.steps = std::move(steps);
}

}  // namespace minuet
