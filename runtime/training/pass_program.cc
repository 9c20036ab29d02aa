#include "runtime/training/pass_program.h"

#include <algorithm>
#include <numeric>

#include "runtime/engine/alignment.h"
#include "runtime/program/program_memory.h"

namespace minuet {

PointwiseProblem chain_of(const Program& program, i32 channels, std::vector<PointwiseStep> steps) {
  PointwiseProblem problem;
  problem.ndim = program.ndim;
  problem.dtype = program.dtype;
  problem.channels = channels;
  for (const PointwiseStep& step : steps) {
    if (reads_operand(step.kind)) problem.operands.emplace_back();
  }
  problem.steps = std::move(steps);
  return problem;
}

i32 add_tensor(Program& program, i32 level, i32 channels, bool holds_integers) {
  StorageSpec storage;
  storage.level = level;
  storage.ld = channels;
  storage.holds_integers = holds_integers;
  program.tensors.push_back({level, channels, static_cast<i32>(program.storages.size()), 0});
  program.storages.push_back(std::move(storage));
  return static_cast<i32>(program.tensors.size()) - 1;
}

ProgramLayer& append_layer(Program& program, std::string name, const OpProblem& problem, i32 map, i32 input,
                           i32 output) {
  ProgramLayer& layer = program.layers.emplace_back(problem);
  layer.name = std::move(name);
  layer.map = map;
  layer.input = input;
  layer.output = output;
  return layer;
}

StepTensors tensors_of(const ProgramLayer& layer) {
  StepTensors tensors{layer.input, layer.output};
  if (layer.residual >= 0) tensors.push_back(layer.residual);
  if (layer.winners >= 0) tensors.push_back(layer.winners);
  tensors.insert(tensors.end(), layer.operands.begin(), layer.operands.end());
  return tensors;
}

i32 output_of(const ForwardPass& pass, const PassStep& step) {
  return step.kind == StepKind::Norm ? pass.norms[step.number].output
                                     : pass.program.layers[step.number].output;
}

StepTensors inputs_of(const ForwardPass& pass, const PassStep& step) {
  if (step.kind == StepKind::Norm) {
    const NormUse& norm = pass.norms[step.number];
    return norm.residual < 0 ? StepTensors{norm.input} : StepTensors{norm.input, norm.residual};
  }
  const ProgramLayer& layer = pass.program.layers[step.number];
  StepTensors inputs{layer.input};
  inputs.insert(inputs.end(), layer.operands.begin(), layer.operands.end());
  return inputs;
}

i64 channels_of_vector(const Program& program, i32 tensor) {
  const i64 element = dtype_bytes(storage_type(program.dtype));
  return std::gcd(program.tensors[tensor].channels * element, i64{kVectorAlignment}) / element;
}

bool has_whole_vectors(const Program& program, i32 tensor) {
  const Columns columns = columns_of(program, tensor);
  const i64 vector = channels_of_vector(program, tensor);
  return columns.column % vector == 0 && columns.ld % vector == 0;
}

llvm::Error place_pass(Program& program, llvm::ArrayRef<StepTensors> steps) {
  const auto end = static_cast<i32>(steps.size());
  for (StorageSpec& storage : program.storages) {
    storage.first = end;
    storage.last = -1;
    storage.below.clear();
  }
  const auto touch = [&](i32 tensor, i32 time) {
    StorageSpec& storage = program.storages[program.tensors[tensor].storage];
    storage.first = std::min(storage.first, time);
    storage.last = std::max(storage.last, time);
  };
  for (const i32 input : program.inputs) touch(input, -1);
  for (i32 i = 0; i < end; ++i) {
    for (const i32 tensor : steps[i]) touch(tensor, i);
  }
  for (const i32 output : program.outputs) touch(output, end);
  program.stack.clear();
  assign_columns(program);
  stack_by_lives(program);
  for (const ProgramLayer& layer : program.layers) {
    MINUET_TRY(annotate(validate(layer.problem), layer.name));
  }
  return llvm::Error::success();
}

}  // namespace minuet
