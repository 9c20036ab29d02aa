// Describes the gradients of the weight and the bias of a convolution, which are computed from a list of the
// pairs of a kernel map. All functions are pure.
#pragma once

#include <optional>

#include "codegen/choose/ops/convolution.h"
#include "kernels_templates/shared/gradient_kernels.h"

namespace minuet {

struct ParameterGradientProblem {
  ConvolutionProblem forward;  // The features and their gradients are stored in its dtype.
  bool weight = false, bias = false;
};

struct ParameterGradientChoice {
  ParameterGradientProblem problem;
  ListStepsSpec list;
  // One of these two computes the sums of the parts. It is `tensor` if that has a value.
  std::optional<WeightGradientSpec> tensor;
  WeightGradientScalarSpec scalar;
  AddPartsSpec add;
  SumRowsSpec rows;
  AddRowSumsSpec row_sums;
  i32 tiles_in = 1, tiles_out = 1;  // See WeightGradientParams.
  i32 tiles = 1;                    // Counts the tiles of all groups.
  i32 wanted_parts = 1;             // Does not depend on the GPU, so that results do not either.
  SlotLayout layout = {};

  /// Returns an upper bound of the parts of `pairs` pairs.
  i64 most_parts(i64 pairs) const;
};

/// A list has at most this many pairs.
inline constexpr i64 kMostPairs = (i64{1} << 31) - 1;

llvm::Error validate(const ParameterGradientProblem& problem);
ParameterGradientChoice choose_parameter_gradient(const ParameterGradientProblem& problem);
void add_sources(SourceList& list, const ParameterGradientChoice& choice);

}  // namespace minuet
