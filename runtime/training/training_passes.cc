#include "runtime/training/training_passes.h"

#include <utility>

#include "runtime/network/network_program.h"
#include "runtime/program/stages.h"
#include "runtime/training/pass_program.h"

namespace minuet {
namespace {

/// Returns the program of the plan's network in which no op is folded into another one.
llvm::Expected<Program> unfolded_program(const Plan& plan) {
  if (!plan.network) {
    return make_error(StatusCode::InvalidArgument,
                      "the plan is of a single op, but a training plan is of a network: create the plan with "
                      "minuet_plan_create_network");
  }
  MINUET_TRY(check_takes_values(plan.program));
  const NetworkRecord& record = *plan.network;
  const auto head_channels = [&](const std::string& head, i32 /*in_channels*/) -> llvm::Expected<i32> {
    const auto found = record.head_channels.find(head);
    return found == record.head_channels.end() ? 0 : found->second;
  };
  return build_program(record.problem.description, record.problem.dtype, head_channels,
                       record.problem.dataflow, /*covers_chains=*/false);
}

llvm::Error check_network(const Program& program, const TrainingOptions& options) {
  if (has_stages(program)) {
    return make_error(StatusCode::Unimplemented,
                      "an op of network {0} makes a level in each run, from points or from features; a "
                      "training plan has the levels of a pyramid only: train the network op by op",
                      program.name);
  }
  if (options.input_gradients >> program.inputs.size() != 0) {
    return make_error(StatusCode::InvalidArgument,
                      "input_gradients is {0}, which has a bit for an input that does not exist: the network "
                      "has {1}",
                      options.input_gradients, program.inputs.size());
  }
  return llvm::Error::success();
}

StepTensors tensors_of(const BackwardPass& pass, const PassStep& step) {
  StepTensors tensors;
  const auto add = [&](i32 tensor) {
    if (tensor >= 0) tensors.push_back(tensor);
  };
  switch (step.kind) {
    case StepKind::Layer:
      return tensors_of(pass.program.layers[step.number]);
    case StepKind::NormGradient: {
      const NormGradientUse& use = pass.norms[step.number];
      for (const i32 tensor :
           {use.input, use.output, use.out_gradient, use.residual_gradient, use.input_gradient}) {
        add(tensor);
      }
      break;
    }
    case StepKind::ParameterGradient:
      add(pass.parameters[step.number].input), add(pass.parameters[step.number].out_gradient);
      break;
    case StepKind::AffineGradient:
      add(pass.affines[step.number].input), add(pass.affines[step.number].out_gradient);
      break;
    case StepKind::GroupGradient: {
      const GroupGradientUse& use = pass.groups[step.number];
      for (const i32 tensor : {use.input, use.out_gradient, use.input_gradient}) add(tensor);
      break;
    }
    case StepKind::ClearTensor:
      add(step.number);
      break;
    case StepKind::Norm: {
      const RecomputedNormUse& use = pass.recomputed_norms[step.number];
      for (const i32 tensor : {use.input, use.residual, use.output}) add(tensor);
      break;
    }
    case StepKind::BeginBranch:
    case StepKind::ResumeBranch:
    case StepKind::EndBranch:
    case StepKind::JoinBranch:
      break;
  }
  return tensors;
}

/// Returns Unimplemented if the columns of a tensor do not begin where a kernel between the layers of a pass
/// can read whole vectors.
llvm::Error check_columns(const Program& program, i32 tensor) {
  if (has_whole_vectors(program, tensor)) return llvm::Error::success();
  const Columns columns = columns_of(program, tensor);
  return make_error(
      StatusCode::Unimplemented,
      "a tensor of {0} channels begins at channel {1} of a concat of {2} channels, which a "
      "training plan can do only at multiples of {3}: give the parts of concats such numbers of "
      "channels",
      program.tensors[tensor].channels, columns.column, columns.ld, channels_of_vector(program, tensor));
}

/// Lets a step that joins a branch have the tensors of the branch too, whose memory is in use up to there. If
/// the branch resumes, it also has those of the steps beside it, because they come first in the pass, but may
/// run as late.
void extend_to_joins(llvm::ArrayRef<PassStep> steps, std::vector<StepTensors>& tensors) {
  StepTensors of_branch;
  bool is_in_branch = false, resumes = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool is_empty = i + 1 < steps.size() && steps[i + 1].kind == StepKind::EndBranch;
    if (steps[i].kind == StepKind::BeginBranch) is_in_branch = true, resumes = is_empty;
    if (steps[i].kind == StepKind::EndBranch) is_in_branch = resumes;
    if (steps[i].kind == StepKind::JoinBranch) {
      is_in_branch = resumes = false;
      tensors[i] = std::exchange(of_branch, {});
    }
    if (is_in_branch) of_branch.insert(of_branch.end(), tensors[i].begin(), tensors[i].end());
  }
}

template <class Pass>
llvm::Error place(Pass& pass) {
  std::vector<StepTensors> steps;
  for (const PassStep& step : pass.steps) steps.push_back(tensors_of(pass, step));
  extend_to_joins(pass.steps, steps);
  MINUET_TRY(place_pass(pass.program, steps));
  for (const PassStep& step : pass.steps) {
    if (step.kind == StepKind::Layer) continue;
    for (const i32 tensor : tensors_of(pass, step)) MINUET_TRY(check_columns(pass.program, tensor));
  }
  return llvm::Error::success();
}

}  // namespace

StepTensors tensors_of(const ForwardPass& pass, const PassStep& step) {
  switch (step.kind) {
    case StepKind::Layer:
      return tensors_of(pass.program.layers[step.number]);
    case StepKind::Norm: {
      const NormUse& norm = pass.norms[step.number];
      StepTensors tensors{norm.input, norm.output};
      if (norm.residual >= 0) tensors.push_back(norm.residual);
      return tensors;
    }
    default:
      return {};  // The other steps of a forward pass only divide it into branches.
  }
}

llvm::Expected<TrainingPasses> make_training_passes(const Plan& plan, const TrainingOptions& options,
                                                    const TuningSnapshot* tuning) {
  MINUET_ASSIGN(const Program network, unfolded_program(plan));
  MINUET_TRY(check_network(network, options));
  TrainingPasses passes;
  passes.options = options;
  passes.parameters = plan.parameter_list();
  MINUET_ASSIGN(passes.forward, make_forward_pass(network, passes));
  MINUET_ASSIGN(passes.backward, make_backward_pass(passes, tuning));
  if (options.has_branches) {
    divide_into_branches(passes.forward);
    divide_into_branches(passes.backward);
  }
  MINUET_TRY(place(passes.forward));
  MINUET_TRY(place(passes.backward));
  return passes;
}

}  // namespace minuet
