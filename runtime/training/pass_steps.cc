#include "runtime/training/pass_steps.h"

#include <algorithm>
#include <utility>

namespace minuet {

PassSteps::PassSteps(Execution& execution, std::shared_ptr<const TrainingPasses> passes,
                     llvm::ArrayRef<LayerUse> uses, const std::vector<PassStep>& steps,
                     std::vector<KeptImage> kept, bool is_forward)
    : execution_(execution),
      passes_(std::move(passes)),
      parameters_(execution, uses, *passes_, std::move(kept), is_forward),
      saved_(passes_->forward.norms.size()),
      moments_(passes_->forward.norms.size()),
      steps_(steps),
      vectors_(passes_->parameters.size()) {}

/// Runs the steps up to the layer, which the execution runs itself.
llvm::Error PassSteps::before_layer(i32 /*layer*/) {
  while (next_ < steps_.size()) {
    const PassStep& step = steps_[next_++];
    if (step.kind == StepKind::Layer) return llvm::Error::success();
    MINUET_TRY(run(step));
  }
  return llvm::Error::success();
}

llvm::Error PassSteps::run_branch(StepKind kind) {
  Engine& engine = execution_.engine();
  is_in_branch_ = kind == StepKind::BeginBranch || kind == StepKind::ResumeBranch;
  if (kind == StepKind::BeginBranch) return engine.begin_branch();
  if (kind == StepKind::JoinBranch) return engine.join_branch();
  if (kind == StepKind::ResumeBranch) {
    engine.resume_branch();
  } else {
    engine.end_branch();
  }
  return llvm::Error::success();
}

const PlanExecution::Level& PassSteps::level_of(i32 tensor) const {
  return execution_.level(execution_.plan().program.tensors[tensor].level);
}

void PassSteps::place_norms(Placement& parts, Placement& kept, bool norms_branch) {
  const Program& program = passes_->forward.program;
  i64 bytes = 0;
  for (std::size_t i = 0; i < saved_.size(); ++i) {
    const NormUse& norm = passes_->forward.norms[i];
    const i32 channels = norm.choice.problem.channels;
    saved_[i] = kept.take<float>(2 * i64{channels} + 1);
    const i64 rows = execution_.level(program.tensors[norm.input].level).rows;
    bytes = std::max(bytes, NormWorkspace(channels, rows, nullptr).bytes);
  }
  norm_workspace_ = parts.take<char>(bytes);
  branch_workspace_ = norms_branch ? parts.take<char>(bytes) : nullptr;
  const TrainingOptions& options = passes_->options;
  if (!options.recomputes() || options.freezes_batch_norms) return;
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    moments_[i] = kept.take<float>(2 * i64{passes_->forward.norms[i].choice.problem.channels} + 1);
  }
}

void PassSteps::place_moments(Placement& parts) {
  if (!passes_->options.freezes_batch_norms) return;
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    moments_[i] = parts.take<float>(2 * i64{passes_->forward.norms[i].choice.problem.channels} + 1);
  }
}

/// Also makes the moments of constant statistics: those of one row, which have the running variance as their
/// second moment.
llvm::Error PassSteps::enqueue_parameters() {
  if (!passes_->options.freezes_batch_norms) return parameters_.enqueue();
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    const NormUse& norm = passes_->forward.norms[i];
    const i64 channels = norm.choice.problem.channels;
    parameters_.copy_floats(vector_of(norm.mean), moments_[i], channels);
    parameters_.copy_floats(vector_of(norm.variance), moments_[i] + channels, channels);
    parameters_.copy_floats(parameters_.ones(), moments_[i] + 2 * channels, 1);
  }
  return parameters_.enqueue();
}

llvm::Error PassSteps::take_parameters(const PassArguments& given) {
  next_ = 0;
  is_in_branch_ = false;  // An earlier call may have failed in a branch.
  MINUET_TRY(parameters_.take(given.parameters, given.order));
  for (const NormUse& norm : passes_->forward.norms) {
    for (const i32 number : {norm.weight, norm.bias, norm.mean, norm.variance}) {
      if (number < 0) continue;
      MINUET_ASSIGN(vectors_[number],
                    vector_in(given.parameters[number], given.order, passes_->parameters[number]));
    }
  }
  return llvm::Error::success();
}

NormShape PassSteps::shape_of(i32 tensor) const {
  const PlanExecution::Level& level = level_of(tensor);
  return {level.rows, level.count, execution_.plan().program.tensors[tensor].channels};
}

NormRows PassSteps::rows_of(i32 tensor) const {
  if (tensor < 0) return {};
  const Tensor at = execution_.tensor_at(tensor);
  return {at.data, at.ld};
}

NormWorkspace PassSteps::norm_workspace(const NormShape& shape) const {
  return {shape.channels, shape.rows, is_in_branch_ ? branch_workspace_ : norm_workspace_};
}

ForwardSteps::ForwardSteps(Execution& execution, std::shared_ptr<const TrainingPasses> passes,
                           std::vector<KeptImage> kept)
    : PassSteps(execution, passes, passes->forward.layers, passes->forward.steps, std::move(kept),
                /*is_forward=*/true),
      new_vectors_(passes->parameters.size()) {}

void ForwardSteps::place(Placement& parts, Placement& kept) {
  parameters_.place(parts, kept);
  place_norms(parts, kept, passes_->forward.has_branches);
  place_moments(parts);
}

/// All arrays are checked before the first of them is written.
llvm::Error ForwardSteps::take(const ForwardArguments& given) {
  given_ = &given;
  MINUET_TRY(take_parameters(given));
  return take_statistics();
}

std::string ForwardSteps::input_name(std::size_t number) const {
  return "inputs[" + std::to_string(number) + "]";
}
std::string ForwardSteps::output_name(std::size_t number) const {
  return "outputs[" + std::to_string(number) + "]";
}

llvm::Error ForwardSteps::start() { return enqueue_parameters(); }

llvm::Error ForwardSteps::run(const PassStep& step) {
  if (step.kind != StepKind::Norm) return run_branch(step.kind);
  return run_norm(passes_->forward.norms[step.number], static_cast<std::size_t>(step.number));
}

llvm::Error ForwardSteps::take_statistics() {
  if (given_->new_statistics.empty()) return llvm::Error::success();
  for (const NormUse& norm : passes_->forward.norms) {
    for (const i32 number : {norm.mean, norm.variance}) {
      MINUET_ASSIGN(new_vectors_[number],
                    vector_in(given_->new_statistics[number], given_->order, passes_->parameters[number]));
    }
  }
  return llvm::Error::success();
}

/// Returns the running statistics that the batch norm changes, unless the caller wants none.
RunningStatistics ForwardSteps::statistics_of(const NormUse& norm) const {
  const BatchNormProblem& problem = norm.choice.problem;
  RunningStatistics running = {};
  running.momentum = problem.momentum;
  running.is_cumulative = problem.is_cumulative ? 1 : 0;
  if (given_->new_statistics.empty()) return running;
  running.mean = vector_of(norm.mean), running.variance = vector_of(norm.variance);
  running.batches = given_->batches;
  running.new_mean = new_vectors_[norm.mean], running.new_variance = new_vectors_[norm.variance];
  // All batch norms read the number of batches, which may be replaced in place, so the last one counts.
  if (&norm == &passes_->forward.norms.back()) running.new_batches = given_->new_batches;
  return running;
}

llvm::Error ForwardSteps::run_norm(const NormUse& norm, std::size_t number) {
  BatchNormOperations& operations = execution_.engine().batch_norms();
  BatchNormParams params = {};
  params.shape = shape_of(norm.input);
  params.input = rows_of(norm.input);
  params.residual = rows_of(norm.residual);
  params.output = rows_of(norm.output);
  params.saved = saved_[number];
  params.weight = vector_of(norm.weight), params.bias = vector_of(norm.bias);
  params.eps = norm.choice.problem.eps;
  if (passes_->options.freezes_batch_norms) {
    params.moments = moments_[number];
    params.ranks = 1;
    MINUET_TRY(operations.forward(norm.choice, NormSteps::Apply, params));
    // Constant statistics do not depend on the rows. The gradients see it by the count of rows, which is 0.
    const i64 channels = norm.choice.problem.channels;
    return execution_.engine().fill_words(saved_[number] + 2 * channels, 0, 1);
  }
  params.running = statistics_of(norm);
  params.merged = moments_[number];
  const NormWorkspace workspace = norm_workspace(params.shape);
  params.pieces = workspace.pieces, params.shift = workspace.sums;
  return operations.forward(norm.choice, NormSteps::Both, params);
}

}  // namespace minuet
