// A program's convolutions, for what only convolutions have: weights, and dataflows to choose from.
#pragma once

#include "codegen/choose/ops/convolution.h"
#include "runtime/program/program.h"

namespace minuet {

/// Null where the layer is another op.
inline const ConvolutionProblem* convolution_of(const ProgramLayer& layer) {
  return layer.problem.get_if<ConvolutionProblem>();
}

/// The program with every convolution asking for `dataflow`; none: each for the one that is expected to be
/// fastest.
Program with_dataflow(Program program, std::optional<Dataflow> dataflow);

/// What the first convolution asks for, as all of a network do.
std::optional<Dataflow> wanted_dataflow(const Program& program);

}  // namespace minuet
