// Does the work of the backward pass that no op does.
#include <algorithm>
#include <utility>

#include "runtime/training/pass_steps.h"

namespace minuet {

BackwardSteps::BackwardSteps(Execution& execution, std::shared_ptr<const TrainingPasses> passes,
                             std::vector<KeptImage> kept)
    : PassSteps(execution, passes, passes->backward.layers, passes->backward.steps, std::move(kept),
                /*is_forward=*/false),
      pass_(passes_->backward),
      gradients_(passes_->parameters.size()),
      weights_(pass_.parameters.size()),
      pairs_(pass_.program.maps.size()) {
  for (const ParameterGradientUse& use : pass_.parameters) {
    if (!use.reads_pairs()) continue;
    Pairs& list = pairs_[use.map];
    list.is_needed = true;
    list.most = execution.map(use.map).queries * pass_.program.maps[use.map].volume();
  }
}

i64 BackwardSteps::parameter_bytes() const {
  const GradientOperations& gradients = execution_.engine().gradients();
  i64 bytes = 0;
  for (const ParameterGradientUse& use : pass_.parameters) {
    const i64 pairs = use.map < 0 ? 0 : pairs_[use.map].most;
    const i64 rows = use.out_gradient < 0 ? 0 : level_of(use.out_gradient).rows;
    bytes = std::max(bytes, gradients.workspace_bytes(use.choice, pairs, rows));
  }
  for (const AffineGradientUse& use : pass_.affines) {
    bytes = std::max(bytes, gradients.workspace_bytes(use.choice, level_of(use.out_gradient).rows));
  }
  return bytes;
}

i64 BackwardSteps::group_bytes() const {
  i64 bytes = 0;
  for (const GroupGradientUse& use : pass_.groups) {
    bytes = std::max(bytes, group_gradient_bytes(use.choice.problem, level_of(use.out_gradient).rows));
  }
  return bytes;
}

void BackwardSteps::place(Placement& parts, Placement& kept) {
  parameters_.place(parts, kept);
  place_norms(parts, kept, /*norms_branch=*/false);
  i64 most_channels = 0;
  if (!pass_.recomputed_norms.empty()) {
    place_moments(parts);
    for (const NormUse& norm : passes_->forward.norms) {
      most_channels = std::max<i64>(most_channels, norm.choice.problem.channels);
    }
    saved_again_ = parts.take<float>(2 * most_channels + 1);
  }
  const GradientOperations& gradients = execution_.engine().gradients();
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    Pairs& list = pairs_[i];
    if (!list.is_needed) continue;
    list.pairs = parts.take<i32>(3 * list.most);
    list.count = parts.take<i32>(1);
    list.steps = parts.take<i32>(gradients.step_words(volume_of(i)));
  }
  if (pass_.has_branches) {
    // A branch works beside the other steps, so it has a workspace of its own.
    parameter_workspace_ = parts.take<char>(parameter_bytes());
    group_workspace_ = parts.take<char>(group_bytes());
  } else {
    parameter_workspace_ = group_workspace_ = parts.take<char>(std::max(parameter_bytes(), group_bytes()));
  }
  i64 channels = 0;
  for (const AffineGradientUse& use : pass_.affines) {
    channels = std::max<i64>(channels, use.choice.problem.channels);
  }
  unwanted_ = parts.take<float>(channels);
}

/// All arrays are checked before the first of them is written, so that a call that fails adds no gradients.
llvm::Error BackwardSteps::take(const BackwardArguments& given) {
  given_ = &given;
  MINUET_TRY(take_parameters(given));
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    gradients_[i] = static_cast<float*>(given.gradients[i].data);
    if (passes_->parameters[i].role == ParameterRole::Weight || gradients_[i] == nullptr) continue;
    if (llvm::Error error = vector_in(given.gradients[i], given.order, passes_->parameters[i]).takeError()) {
      return annotate(std::move(error), "the gradient");
    }
  }
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const ParameterGradientUse& use = pass_.parameters[i];
    if (!use.choice.problem.weight || gradients_[use.parameter] == nullptr) continue;
    const PlanParameter& parameter = passes_->parameters[use.parameter];
    const auto search = [&] { return use.choice.problem.forward; };
    if (llvm::Error error =
            weights_[i].find(given.gradients[use.parameter], given.order, search, parameter)) {
      return annotate(std::move(error), "the gradient");
    }
  }
  return llvm::Error::success();
}

/// Names the argument of minuet_training_backward that an input or an output of the program is.
static std::string argument_name(const char* list, llvm::ArrayRef<i32> numbers, std::size_t number) {
  const auto found = llvm::find(numbers, static_cast<i32>(number));
  return llvm::formatv("{0}[{1}]", list, found - numbers.begin()).str();
}

std::string BackwardSteps::input_name(std::size_t number) const {
  return argument_name("out_gradients", pass_.out_gradients, number);
}
std::string BackwardSteps::output_name(std::size_t number) const {
  return argument_name("input_gradients", pass_.input_gradients, number);
}

llvm::Error BackwardSteps::start() {
  // Only the gradients of weights read the lists, so the branch makes them while the chain begins.
  if (pass_.has_branches) MINUET_TRY(execution_.engine().begin_branch());
  MINUET_TRY(list_pairs());
  MINUET_TRY(list_steps());
  execution_.engine().end_branch();
  MINUET_TRY(pass_.recomputed_norms.empty() ? parameters_.enqueue() : enqueue_parameters());
  for (const i32 parameter : pass_.without_gradient) MINUET_TRY(clear(parameter));
  return llvm::Error::success();
}

/// Lists the pairs of all maps, for all layers that read them. Rows have the numbers of their sets.
llvm::Error BackwardSteps::list_pairs() {
  std::vector<PairsRequest> requests;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    if (pairs_[i].is_needed) requests.push_back(pairs_request(static_cast<i32>(i)));
  }
  return execution_.engine().maps().compact_pairs(requests);
}

PairsRequest BackwardSteps::pairs_request(i32 map) {
  const Pairs& list = pairs_[map];
  const i32 number = execution_.pyramid_map(map);
  if (number >= 0 && !pass_.program.maps[map].is_identity()) {
    return execution_.placed_pyramid().pairs_request(number, list.pairs, list.most, list.count,
                                                     /*in_set_order=*/true);
  }
  PairsRequest request = PairsRequest::side_by_side(list.pairs, list.most, list.count);
  request.query_count = execution_.level(pass_.program.maps[map].coarse).count;
  request.most_queries = list.most;
  return request;
}

/// Lists the steps of all lists at once, for the gradients of the weights of all layers.
llvm::Error BackwardSteps::list_steps() {
  std::vector<PairStepsRequest> requests;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const Pairs& list = pairs_[i];
    if (list.is_needed) requests.push_back({{list.pairs, list.count, list.most}, volume_of(i), list.steps});
  }
  return requests.empty() ? llvm::Error::success() : execution_.engine().gradients().list_steps(requests);
}

/// Sets the gradient of a vector to 0, unless it is added to what is there.
llvm::Error BackwardSteps::clear(i32 parameter) {
  float* const gradient = gradient_of(parameter);
  if (gradient == nullptr || given_->adds) return llvm::Error::success();
  return execution_.engine().fill_words(gradient, 0, passes_->parameters[parameter].shape.front());
}

llvm::Error BackwardSteps::run(const PassStep& step) {
  switch (step.kind) {
    case StepKind::NormGradient:
      return run_norm(pass_.norms[step.number]);
    case StepKind::ParameterGradient:
      return run_parameter(step.number);
    case StepKind::AffineGradient:
      return run_affine(pass_.affines[step.number]);
    case StepKind::GroupGradient:
      return run_groups(pass_.groups[step.number]);
    case StepKind::ClearTensor: {
      const Tensor tensor = execution_.tensor_at(step.number);
      const i64 bytes = tensor.rows * tensor.ld * dtype_bytes(storage_type(tensor.dtype));
      constexpr i64 kWord = sizeof(u32);
      // A storage is a whole number of words (Execution::storage_bytes()).
      return execution_.engine().fill_words(tensor.data, 0, (bytes + kWord - 1) / kWord);
    }
    case StepKind::Norm:
      return run_again(pass_.recomputed_norms[step.number]);
    case StepKind::BeginBranch:
    case StepKind::ResumeBranch:
    case StepKind::EndBranch:
    case StepKind::JoinBranch:
      return run_branch(step.kind);
    case StepKind::Layer:
      break;
  }
  return llvm::Error::success();
}

llvm::Error BackwardSteps::run_norm(const NormGradientUse& use) {
  const NormUse& norm = passes_->forward.norms[use.norm];
  BatchNormGradientParams params = {};
  params.shape = shape_of(use.input);
  params.input = rows_of(use.input);
  params.output = rows_of(use.output);
  params.out_gradient = rows_of(use.out_gradient);
  params.residual_gradient = rows_of(use.residual_gradient);
  params.input_gradient = rows_of(use.input_gradient);
  params.weight = vector_of(norm.weight), params.bias = vector_of(norm.bias);
  params.saved = saved_[use.norm];
  const NormWorkspace workspace = norm_workspace(params.shape);
  params.pieces = workspace.pieces, params.sums = workspace.sums;
  params.weight_gradient = gradient_of(norm.weight), params.bias_gradient = gradient_of(norm.bias);
  params.adds = given_->adds ? 1 : 0;
  return execution_.engine().batch_norms().backward(norm.choice, NormSteps::Both, params);
}

/// Normalizes rows once more. With the same moments, the results have the same bits.
llvm::Error BackwardSteps::run_again(const RecomputedNormUse& use) {
  const NormUse& norm = passes_->forward.norms[use.norm];
  BatchNormParams params = {};
  params.shape = shape_of(use.input);
  params.input = rows_of(use.input);
  params.residual = rows_of(use.residual);
  params.output = rows_of(use.output);
  params.moments = moments_[use.norm];
  params.ranks = 1;
  params.saved = saved_again_;
  params.weight = vector_of(norm.weight), params.bias = vector_of(norm.bias);
  params.eps = norm.choice.problem.eps;
  return execution_.engine().batch_norms().forward(norm.choice, NormSteps::Apply, params);
}

llvm::Error BackwardSteps::run_parameter(i32 number) {
  const ParameterGradientUse& use = pass_.parameters[number];
  const GivenWeight& weight = weights_[number].place;
  float* const result = gradient_of(use.parameter);
  if (result == nullptr) return llvm::Error::success();
  const ConvolutionProblem& forward = use.choice.problem.forward;
  ParameterGradientRequest request;
  request.choice = &use.choice;
  request.timed_op = execution_.timed_step(number);
  if (use.out_gradient >= 0) {
    const Tensor gradient = execution_.tensor_at(use.out_gradient);
    request.gradient = gradient.data;
    request.gradient_rows = gradient.rows, request.gradient_ld = gradient.ld;
    request.gradient_count = level_of(use.out_gradient).count;
  }
  request.adds = given_->adds;
  request.workspace = parameter_workspace_;
  if (!use.choice.problem.weight) {
    request.bias_gradient = result;
    return execution_.engine().gradients().compute(request);
  }
  if (use.out_gradient >= 0) {
    const Pairs& list = pairs_[use.map];
    request.list = {list.pairs, list.count, list.most};
    request.steps = list.steps;
    const Tensor input = execution_.tensor_at(use.input);
    request.input = input.data;
    request.input_rows = input.rows, request.input_ld = input.ld;
  }
  request.is_swapped = use.is_swapped;
  request.weight_gradient = result;
  std::copy_n(weight.strides.begin(), forward.ndim, request.offset_strides);
  request.input_stride = weight.strides[forward.ndim];
  request.output_stride = weight.strides[forward.ndim + 1];
  return execution_.engine().gradients().compute(request);
}

llvm::Error BackwardSteps::run_affine(const AffineGradientUse& use) {
  float *const scale = gradient_of(use.scale), *const shift = gradient_of(use.shift);
  if (scale == nullptr && shift == nullptr) return llvm::Error::success();
  AffineGradientRequest request;
  request.choice = &use.choice;
  const Tensor input = execution_.tensor_at(use.input), gradient = execution_.tensor_at(use.out_gradient);
  request.input = input.data, request.input_ld = input.ld;
  request.gradient = gradient.data, request.gradient_ld = gradient.ld;
  request.rows = gradient.rows;
  request.row_count = level_of(use.out_gradient).count;
  request.scale_gradient = scale ? scale : unwanted_;
  request.shift_gradient = shift ? shift : unwanted_;
  request.adds = given_->adds;
  request.workspace = parameter_workspace_;
  return execution_.engine().gradients().compute(request);
}

llvm::Error BackwardSteps::run_groups(const GroupGradientUse& use) {
  GroupGradientRequest request;
  request.choice = &use.choice;
  request.workspace = group_workspace_;
  const Tensor gradient = execution_.tensor_at(use.out_gradient);
  const Tensor result = execution_.tensor_at(use.input_gradient);
  const i32 level = pass_.program.tensors[use.input_gradient].level;
  GroupsParams& params = request.params;
  // The batch index comes first in the coordinates.
  params.groups = execution_.coordinates_on(level);
  params.groups_ld = 1 + pass_.program.ndim;
  params.row_count = execution_.level(level).count;
  params.most_rows = result.rows;
  params.group_count = level_of(use.out_gradient).count;
  params.most_groups = gradient.rows;
  if (use.input >= 0) {
    const Tensor input = execution_.tensor_at(use.input);
    params.input = input.data, params.input_ld = input.ld;
  }
  params.channels = result.channels;
  params.out_gradient = gradient.data;
  params.output = result.data;
  return execution_.engine().points().group_gradient(request);
}

}  // namespace minuet
