// Provides access to the problems and the dataflow of the convolutions of a program, which other ops do not
// have.
#pragma once

#include "codegen/choose/ops/convolution.h"
#include "runtime/program/program.h"

namespace minuet {

/// Returns the problem of a layer that is a convolution, or null if the layer is another op.
inline const ConvolutionProblem* convolution_of(const ProgramLayer& layer) {
  return layer.problem.get_if<ConvolutionProblem>();
}

/// Returns the program with `dataflow` as the dataflow of every convolution. If `dataflow` is empty, each
/// convolution uses the dataflow that is expected to be fastest.
Program with_dataflow(Program program, std::optional<Dataflow> dataflow);

/// Returns the dataflow that the first convolution requires, if any. All convolutions of a network require
/// the same one.
std::optional<Dataflow> wanted_dataflow(const Program& program);

}  // namespace minuet
