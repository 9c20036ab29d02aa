// The gradients of a convolution. No kernel computes them yet, so validate() refuses each.
#pragma once

#include "codegen/choose/ops/convolution.h"

namespace minuet {

/// By what a loss is differentiated through a convolution.
enum class Gradient : i32 { Input, Weight };

struct ConvolutionGradientProblem {
  static const OpKind kKind;

  Gradient gradient = Gradient::Input;
  ConvolutionProblem forward;
};

llvm::Error validate(const ConvolutionGradientProblem& problem);

}  // namespace minuet
