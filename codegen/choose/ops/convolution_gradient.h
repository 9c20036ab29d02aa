// Describes the gradients of a convolution. No kernel computes them yet, so validate() refuses every problem.
#pragma once

#include "codegen/choose/ops/convolution.h"

namespace minuet {

// These bits name the operands with respect to which the loss is differentiated.
inline constexpr i32 kGradientInput = 1, kGradientWeight = 2, kGradientBias = 4;

struct ConvolutionGradientProblem {
  static const OpKind kKind;

  i32 gradients = kGradientInput;  // Holds one bit or several, or-ed.
  ConvolutionProblem forward;
};

llvm::Error validate(const ConvolutionGradientProblem& problem);

}  // namespace minuet
