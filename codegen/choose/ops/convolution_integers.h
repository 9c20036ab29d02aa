// Declares what the choice of the kernels of a convolution does for tensors with 8-bit elements.
#pragma once

#include "codegen/choose/ops/convolution.h"

namespace minuet {

/// Returns an error with the reason if the types of the problem's tensors do not suit each other or the
/// problem.
llvm::Error check_integers(const ConvolutionProblem& problem);

/// Sets the types of the outputs and of the residual, and the width of accesses to them, from the problem and
/// from the other fields of the Spec.
void set_output_types(FusedSpec& spec, const ConvolutionProblem& problem);

}  // namespace minuet
