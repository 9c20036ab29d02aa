// Describes the gradients of a convolution. No kernel computes them yet, so validate() refuses every problem.
#pragma once

#include "codegen/choose/ops/convolution.h"

namespace minuet {

/// Names the operand with respect to which the loss is differentiated.
enum class Gradient : i32 { Input, Weight };

struct ConvolutionGradientProblem {
  static const OpKind kKind;

  Gradient gradient = Gradient::Input;
  ConvolutionProblem forward;
};

llvm::Error validate(const ConvolutionGradientProblem& problem);

}  // namespace minuet
