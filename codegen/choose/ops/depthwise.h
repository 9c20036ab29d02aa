// Describes the kernel of a depthwise convolution, whose groups have one input channel each. The problem is a
// ConvolutionProblem. All functions are pure.
#pragma once

#include "codegen/choose/ops/convolution.h"
#include "kernels_templates/shared/depthwise_kernels.h"

namespace minuet {

struct DepthwiseChoice {
  static const OpFamily kKind;

  ConvolutionProblem problem;
  DepthwiseSpec kernel;
};

/// Returns true if each group of the convolution has one input channel, and there are several groups.
inline bool is_depthwise(const ConvolutionProblem& problem) {
  return problem.groups > 1 && problem.groups == problem.in_channels;
}

/// Chooses the kernel of a valid problem for which is_depthwise() is true.
DepthwiseChoice choose_depthwise(const ConvolutionProblem& problem);

void add_sources(SourceList& list, const DepthwiseChoice& choice);

}  // namespace minuet
