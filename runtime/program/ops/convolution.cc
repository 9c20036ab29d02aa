#include "runtime/program/ops/convolution.h"

namespace minuet {

Program with_dataflow(Program program, std::optional<Dataflow> dataflow) {
  for (ProgramLayer& layer : program.layers) {
    if (convolution_of(layer) == nullptr) continue;
    ConvolutionProblem problem = *convolution_of(layer);
    problem.dataflow = dataflow;
    layer.problem = problem;
  }
  return program;
}

std::optional<Dataflow> wanted_dataflow(const Program& program) {
  for (const ProgramLayer& layer : program.layers) {
    if (const ConvolutionProblem* const problem = convolution_of(layer)) return problem->dataflow;
  }
  return std::nullopt;
}

}  // namespace minuet
