#include "runtime/training/kept_tensors.h"

#include "codegen/choose/ops/pooling.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/training/pass_program.h"

namespace minuet {

KeptTensors::KeptTensors(TrainingPasses& passes, BackwardPass& pass)
    : passes_(passes),
      forward_(passes.forward),
      pass_(pass),
      storages_(forward_.program.storages.size(), -1),
      steps_(forward_.program.tensors.size(), -1),
      computed_(forward_.program.tensors.size(), -1) {
  for (std::size_t i = 0; i < forward_.steps.size(); ++i) {
    const PassStep& step = forward_.steps[i];
    const i32 output = step.kind == StepKind::Norm ? forward_.norms[step.number].output
                                                   : forward_.program.layers[step.number].output;
    steps_[output] = static_cast<i32>(i);
  }
}

/// The result of a segment is kept, because the next layer reads it.
bool KeptTensors::is_computed_again(i32 tensor) const {
  const i32 number = steps_[tensor];
  if (number < 0 || forward_.steps[number].segment < 0) return false;
  const PassStep& step = forward_.steps[number];
  const auto is_behind = [&](const PassStep& other) { return other.segment == step.segment; };
  return llvm::any_of(llvm::ArrayRef<PassStep>(forward_.steps).drop_front(number + 1), is_behind);
}

i32 KeptTensors::get(i32 tensor) {
  if (!is_computed_again(tensor)) return keep(tensor);
  if (computed_[tensor] < 0) {
    const i32 made = compute_again(tensor);
    computed_[tensor] = made;
  }
  return computed_[tensor];
}

i32 KeptTensors::keep(i32 tensor) {
  Program& source = forward_.program;
  const TensorSpec spec = source.tensors[tensor];
  i32& storage = storages_[spec.storage];
  if (storage < 0) {
    storage = static_cast<i32>(pass_.program.storages.size());
    pass_.program.storages.push_back(source.storages[spec.storage]);
    pass_.program.kept.push_back(storage);
    source.kept.push_back(spec.storage);
  }
  const auto is_same = [&](const KeptTensor& known) { return known.tensor == tensor; };
  if (llvm::none_of(passes_.kept, is_same)) passes_.kept.push_back({name_of(tensor), tensor});
  pass_.program.tensors.push_back({spec.level, spec.channels, storage, spec.column});
  return static_cast<i32>(pass_.program.tensors.size()) - 1;
}

/// Appends the step that computes the tensor, behind those that compute what it reads.
i32 KeptTensors::compute_again(i32 tensor) {
  const PassStep step = forward_.steps[steps_[tensor]];
  return step.kind == StepKind::Norm ? add_norm(step.number) : add_layer(step.number);
}

i32 KeptTensors::add_norm(i32 number) {
  const NormUse& norm = forward_.norms[number];
  RecomputedNormUse use{number, get(norm.input)};
  if (norm.residual >= 0) use.residual = get(norm.residual);
  const TensorSpec spec = forward_.program.tensors[norm.output];
  use.output = add_tensor(pass_.program, spec.level, spec.channels);
  pass_.steps.push_back({StepKind::Norm, static_cast<i32>(pass_.recomputed_norms.size())});
  pass_.recomputed_norms.push_back(use);
  return use.output;
}

i32 KeptTensors::add_layer(i32 number) {
  const ProgramLayer layer = forward_.program.layers[number];
  const i32 input = get(layer.input);
  std::vector<i32> operands;
  for (const i32 operand : layer.operands) operands.push_back(get(operand));
  const TensorSpec spec = forward_.program.tensors[layer.output];
  const i32 output = add_tensor(pass_.program, spec.level, spec.channels);
  pass_.steps.push_back({StepKind::Layer, static_cast<i32>(pass_.program.layers.size())});
  pass_.layers.push_back(forward_.layers[number]);
  OpProblem problem = layer.problem;
  if (layer.winners >= 0) {
    // The winners are kept.
    PoolingProblem pooling = problem.get<PoolingProblem>();
    pooling.winners = false;
    problem = pooling;
  }
  ProgramLayer& added = append_layer(pass_.program, layer.name + " again", problem, layer.map, input, output);
  added.coordinates_level = layer.coordinates_level;
  added.operands = std::move(operands);
  added.affines = layer.affines;
  return output;
}

std::string KeptTensors::name_of(i32 tensor) const {
  const Program& source = forward_.program;
  for (std::size_t i = 0; i < source.inputs.size(); ++i) {
    if (source.inputs[i] == tensor) return source.input_names[i];
  }
  for (const ProgramLayer& layer : source.layers) {
    if (layer.output == tensor) return layer.name;
    if (layer.winners == tensor) return layer.name + " winners";
  }
  for (const NormUse& norm : forward_.norms) {
    if (norm.output == tensor) return norm.name;
  }
  return "concat";
}

}  // namespace minuet
