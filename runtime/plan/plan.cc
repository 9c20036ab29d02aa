#include "runtime/plan/plan.h"

#include <algorithm>
#include <cmath>

#include "codegen/base/parallel.h"
#include "llvm/ADT/StringMap.h"
#include "runtime/network/network_program.h"
#include "runtime/program/ops/convolution.h"

namespace minuet {
namespace {

llvm::Error override_input(const NetworkProblem& problem, NetworkDescription& description) {
  if (problem.in_channels < 0 || problem.in_channels > kMostChannels) {
    return make_error(StatusCode::InvalidArgument, "the option in_channels is {0}; it must be 0 to {1}",
                      problem.in_channels, kMostChannels);
  }
  if (problem.in_channels != 0) {
    if (description.inputs.size() > 1) {
      return make_error(StatusCode::InvalidArgument,
                        "the option in_channels is for networks of one input, but {0} has {1}: leave it out",
                        description.name, description.inputs.size());
    }
    description.inputs.front().channels = problem.in_channels;
  }
  if (problem.shape.empty()) return llvm::Error::success();
  if (problem.shape.size() != static_cast<std::size_t>(description.ndim)) {
    return make_error(StatusCode::InvalidArgument,
                      "the option shape has {0} axes, but the description of {1} has {2}: give {2} numbers",
                      problem.shape.size(), description.name, description.ndim);
  }
  for (std::size_t axis = 0; axis < problem.shape.size(); ++axis) {
    if (problem.shape[axis] < 1 || problem.shape[axis] > kMostCells) {
      return make_error(StatusCode::InvalidArgument,
                        "the option shape has {0} cells on axis {1}; each axis must have 1 to {2}",
                        problem.shape[axis], axis, kMostCells);
    }
    description.shape[axis] = problem.shape[axis];
  }
  return llvm::Error::success();
}

llvm::Error override_description(NetworkProblem& problem) {
  NetworkDescription& description = problem.description;
  if (!problem.channels.empty()) {
    if (problem.channels.size() != description.channels.size()) {
      return make_error(
          StatusCode::InvalidArgument,
          "the option channels has {0} widths, but the description of {1} lists {2}: give {2} widths",
          problem.channels.size(), description.name, description.channels.size());
    }
    for (i32 width : problem.channels) {
      if (width < 1 || width > kMostChannels) {
        return make_error(StatusCode::InvalidArgument,
                          "the option channels has a width of {0}; each must be 1 to 65536", width);
      }
    }
    description.channels = problem.channels;
  }
  if (problem.ndim != 0 && problem.ndim != description.ndim) {
    return make_error(
        StatusCode::InvalidArgument,
        "the option ndim is {0}, but the description of {1} has {2} axes: set it to {2} or leave it out",
        problem.ndim, description.name, description.ndim);
  }
  return override_input(problem, description);
}

llvm::Error validate_layers(const Program& program) {
  for (const ProgramLayer& layer : program.layers) {
    if (llvm::Error error = validate(layer.problem)) return annotate(std::move(error), layer.name);
  }
  return llvm::Error::success();
}

llvm::Error check_finite(const char* name, llvm::ArrayRef<float> values) {
  const std::optional<std::size_t> bad = find_lost(DType::F32, values);
  if (!bad) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0}[{1}] is {2}; parameters must be finite{3}", name, *bad,
                    number_text(values[*bad]), kAllowNonFiniteHint);
}

/// Returns the error for weights of which at least one is not finite in the dtype.
llvm::Error refuse_weight(DType dtype, llvm::ArrayRef<float> weight) {
  MINUET_TRY(check_finite("weight", weight));
  const std::size_t lost = *find_lost(dtype, weight);
  return make_error(StatusCode::InvalidArgument, "weight[{0}] is {1}, {2}", lost, number_text(weight[lost]),
                    overflow_text(dtype, weight[lost]));
}

/// Returns the weight of the gradient `problem` (ConvolutionProblem::gradient_of) from that of its
/// convolution.
std::vector<float> transposed_weight(const ConvolutionProblem& problem, llvm::ArrayRef<float> weight) {
  const i64 inputs = group_inputs(problem), outputs = problem.out_channels;
  const i64 group_outputs = outputs / problem.groups;
  std::vector<float> result;
  result.reserve(weight.size());
  for (i64 k = 0; k < kernel_volume(problem); ++k) {
    for (i64 i = 0; i < inputs; ++i) {
      for (i64 o = 0; o < outputs; ++o) {
        const i64 group = o / group_outputs, row = k * group_outputs + o % group_outputs;
        result.push_back(weight[row * problem.in_channels + group * inputs + i]);
      }
    }
  }
  return result;
}

}  // namespace

llvm::Expected<Program> rebuild_program(NetworkRecord& record) {
  NetworkProblem& problem = record.problem;
  MINUET_TRY(override_description(problem));
  const auto head_channels = [&](const std::string& head, i32 /*in_channels*/) -> llvm::Expected<i32> {
    const auto found = record.head_channels.find(head);
    if (found != record.head_channels.end()) return found->second;
    return make_error(StatusCode::InvalidArgument, "it does not say how many channels the head {0} has",
                      head);
  };
  MINUET_ASSIGN(Program program,
                build_program(problem.description, problem.dtype, head_channels, problem.dataflow));
  MINUET_TRY(validate_layers(program));
  return program;
}

llvm::Expected<std::shared_ptr<const Plan>> Plan::create(NetworkProblem problem,
                                                         const ParameterSource& source,
                                                         std::shared_ptr<const TuningSnapshot> tuning) {
  MINUET_TRY(override_description(problem));
  std::map<std::string, i32> recorded;
  const auto head_channels = [&](const std::string& head, i32 in_channels) -> llvm::Expected<i32> {
    MINUET_ASSIGN(const i32 channels, source.head_channels(head, in_channels));
    recorded[head] = channels;
    return channels;
  };
  auto plan = std::make_shared<Plan>();
  MINUET_ASSIGN(plan->program,
                build_program(problem.description, problem.dtype, head_channels, problem.dataflow));
  MINUET_TRY(source.check(plan->program));
  MINUET_TRY(validate_layers(plan->program));
  plan->parameters.resize(plan->program.layers.size());
  plan->tuning = std::move(tuning);
  plan->network = {std::move(problem), std::move(recorded)};
  // Values of no parameters need not be given.
  plan->has_values = source.has_values() || plan->parameter_list().empty();
  if (!plan->has_values) MINUET_TRY(check_takes_values(plan->program));
  if (!plan->has_values) return plan;
  MINUET_TRY(in_parallel(static_cast<i64>(plan->parameters.size()), [&](i64 i) -> llvm::Error {
    MINUET_ASSIGN(plan->parameters[i], source.layer(plan->program.layers[i]));
    return llvm::Error::success();
  }));
  return plan;
}

llvm::Expected<std::shared_ptr<const Plan>> Plan::create(const OpProblem& op,
                                                         const GivenParameters& parameters,
                                                         std::shared_ptr<const TuningSnapshot> tuning,
                                                         bool allow_non_finite) {
  MINUET_TRY(validate(op));
  const DType dtype = window_of(op)->dtype;
  LayerParameters layer;
  bool is_finite = true;
  const auto* const convolution = op.get_if<ConvolutionProblem>();
  if (convolution != nullptr && convolution->gradient_of) {
    layer.weight = rounded_copy(dtype, transposed_weight(*convolution, parameters.weight), is_finite);
  } else {
    layer.weight = rounded_copy(dtype, parameters.weight, is_finite);
  }
  if (!allow_non_finite) {
    if (!is_finite) return refuse_weight(dtype, parameters.weight);
    MINUET_TRY(check_finite("scale", parameters.scale));
    MINUET_TRY(check_finite("shift", parameters.shift));
  }
  layer.scale = parameters.scale.vec();
  layer.shift = parameters.shift.vec();
  auto plan = std::make_shared<Plan>();
  plan->program = op_program(op);
  plan->parameters.push_back(std::move(layer));
  plan->tuning = std::move(tuning);
  return plan;
}

llvm::Expected<std::shared_ptr<const Plan>> Plan::create_without_values(
    const OpProblem& op, std::shared_ptr<const TuningSnapshot> tuning) {
  MINUET_TRY(validate(op));
  auto plan = std::make_shared<Plan>();
  plan->program = op_program(op);
  plan->parameters.resize(1);
  plan->has_values = false;
  plan->tuning = std::move(tuning);
  return plan;
}

llvm::Expected<std::vector<PrecisionFault>> find_weight_faults(const Plan& plan, const Program& quantized) {
  if (!plan.has_values) return std::vector<PrecisionFault>();
  llvm::StringMap<std::size_t> places;
  for (std::size_t i = 0; i < plan.program.layers.size(); ++i) places[plan.program.layers[i].name] = i;
  std::vector<std::optional<std::string>> reasons(quantized.layers.size());
  MINUET_TRY(in_parallel(static_cast<i64>(reasons.size()), [&](i64 i) -> llvm::Error {
    const ProgramLayer& layer = quantized.layers[i];
    const ConvolutionProblem* const problem = convolution_of(layer);
    const auto place = places.find(layer.name);
    if (problem == nullptr || !problem->input_type || place == places.end()) return llvm::Error::success();
    if (convolution_of(plan.program.layers[place->second])->input_type) return llvm::Error::success();
    llvm::Expected<std::optional<std::string>> reason =
        keep_floating_reason(layer, plan.parameters[place->second]);
    if (!reason) return annotate(reason.takeError(), layer.name);
    reasons[i] = std::move(*reason);
    return llvm::Error::success();
  }));
  std::vector<PrecisionFault> faults;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    if (reasons[i]) faults.push_back({quantized.layers[i].name, std::move(*reasons[i]), ""});
  }
  return faults;
}

llvm::Error check_takes_values(const Program& program) {
  for (const ProgramLayer& layer : program.layers) {
    if (!layer.is_int8) continue;
    return make_error(StatusCode::Unimplemented,
                      "the convolution {0} computes in 8 bits, and its weights are quantized when a plan is "
                      "created with values: create the plan with a weights file or a seed, or take the "
                      "description of the floating network",
                      layer.name);
  }
  return llvm::Error::success();
}

llvm::Error check_parameter_number(i32 number, std::size_t count) {
  if (number >= 0 && static_cast<std::size_t>(number) < count) return llvm::Error::success();
  return make_error(StatusCode::OutOfRange,
                    "there is no parameter {0}; the plan has {1} parameters, numbered from 0", number, count);
}

i64 Plan::parameter_count() const {
  i64 count = 0;
  for (const ProgramLayer& layer : program.layers) {
    const ParameterCounts counts = parameter_counts(layer);
    count += counts.weight + counts.scale + counts.shift;
  }
  return count;
}

std::vector<PlanParameter> Plan::parameter_list() const {
  std::vector<PlanParameter> list;
  for (i32 i = 0; i < static_cast<i32>(program.layers.size()); ++i) {
    const ProgramLayer& layer = program.layers[i];
    for (ParameterName& name : parameter_names(layer)) list.push_back({std::move(name), i});
    const ConvolutionProblem* const problem = convolution_of(layer);
    if (!program.takes_maps || problem == nullptr || !problem->scale_shift) continue;
    list.push_back({{"scale", ParameterRole::Scale, {problem->out_channels}}, i});
    list.push_back({{"shift", ParameterRole::Shift, {problem->out_channels}}, i});
  }
  return list;
}

}  // namespace minuet
