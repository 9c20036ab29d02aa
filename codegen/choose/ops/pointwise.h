// Describes a chain of pointwise steps on the rows of one level, for example a batch norm, the sum with
// another tensor, and a ReLU. One kernel computes the whole chain. All functions are pure.
#pragma once

#include "codegen/choose/candidates.h"

namespace minuet {

struct PointwiseStep {
  PointwiseKind kind = PointwiseKind::ReLU;
  float number = 0;  // Holds the slope of a LeakyReLU or the epsilon of a LayerNorm, or of its gradient.
  bool operator==(const PointwiseStep&) const = default;
};

/// Limits the channels of a chain with a row-wise step, whose kernel holds a whole row in the registers of a
/// block.
inline constexpr i32 kMostRowWiseChannels = 1 << 14;

/// Describes the chain. Each output row depends on the input row of the same number only, so the window has
/// one offset.
struct PointwiseProblem : WindowProblem {
  static const OpKind kKind;

  i32 channels = 0;
  std::vector<PointwiseStep> steps;  // There are 1 to kMostPointwiseSteps steps.
  Columns input, output;
  std::vector<Columns> operands;  // Has one element for each step that reads an operand, in their order.

  bool is_argmax() const { return !steps.empty() && steps.back().kind == PointwiseKind::Argmax; }
  /// Returns the number of channels of the output.
  i32 out_channels() const { return is_argmax() ? 1 : channels; }
};

struct PointwiseChoice {
  static const OpFamily kKind;

  PointwiseProblem problem;
  PointwiseSpec kernel;
};
PointwiseChoice choose_pointwise(const PointwiseProblem& problem);

/// Returns the name of a kind of step in messages and descriptions, for example "leaky_relu".
const char* pointwise_name(PointwiseKind kind);
/// Returns true if PointwiseStep::number is the epsilon of a step of this kind.
bool has_epsilon(PointwiseKind kind);

llvm::Error validate(const PointwiseProblem& problem);
void add_sources(SourceList& list, const PointwiseChoice& choice);

}  // namespace minuet
