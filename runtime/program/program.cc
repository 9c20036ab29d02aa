#include "runtime/program/program.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace minuet {

i64 MapSpec::volume() const {
  return std::accumulate(kernel_size.begin(), kernel_size.end(), i64{1}, std::multiplies<>());
}

bool MapSpec::is_identity() const { return fine == coarse && kernel_size == AxisArray{1, 1, 1, 1}; }

Program convolution_program(ConvolutionProblem problem) {
  problem.input = {problem.in_channels, 0};
  problem.output = problem.residual_input = {problem.out_channels, 0};
  Program program;
  program.name = "convolution";
  program.ndim = problem.ndim;
  program.dtype = problem.dtype;
  program.takes_maps = true;
  const bool onto_itself = problem.kind == ConvolutionKind::Submanifold;
  const bool transposed = problem.kind == ConvolutionKind::Transposed;
  const i32 out = onto_itself ? 0 : 1;
  program.levels.assign(out + 1, {AxisArray{}, -1});
  program.maps.push_back({transposed ? out : 0, transposed ? 0 : out, problem.kernel_size, problem.dilation});
  auto add_tensor = [&](i32 level, i32 channels) {
    const i32 number = static_cast<i32>(program.tensors.size());
    program.tensors.push_back({level, channels, number, 0});
    program.storages.push_back({level, channels, 0, 0, program.stack});
    program.stack.push_back(number);
    return number;
  };
  ProgramLayer layer;
  layer.name = program.name;
  layer.weight = "weight";
  layer.input = add_tensor(0, problem.in_channels);
  layer.output = program.output = add_tensor(out, problem.out_channels);
  program.inputs = {layer.input};
  if (problem.residual) {
    layer.residual = add_tensor(out, problem.out_channels);
    program.inputs.push_back(layer.residual);
  }
  layer.problem = problem;
  program.layers.push_back(std::move(layer));
  return program;
}

Columns columns_of(const Program& program, i32 tensor) {
  const TensorSpec& spec = program.tensors[tensor];
  return {program.storages[spec.storage].ld, spec.column};
}

void layout_needs(const Program& program, i64* guard, i64* period) {
  for (i32 a = 0; a < program.ndim; ++a) {
    guard[a] = 0;
    period[a] = program.period[a];
    for (const MapSpec& map : program.maps) {
      const i64 step = static_cast<i64>(map.dilation[a]) * program.levels[map.fine].tensor_stride[a];
      guard[a] = std::max(guard[a], axis_reach(map.kernel_size[a], static_cast<i32>(step)));
    }
  }
}

}  // namespace minuet
