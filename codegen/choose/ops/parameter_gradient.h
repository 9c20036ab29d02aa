// Describes the gradients of the weight and the bias of a convolution, which are computed from a list of the
// pairs of a kernel map. All functions are pure.
#pragma once

#include <variant>
#include <vector>

#include "codegen/choose/ops/convolution.h"
#include "kernels_templates/shared/gradient_kernels.h"

namespace minuet {

struct ParameterGradientProblem {
  ConvolutionProblem forward;  // The features and their gradients are stored in its dtype.
  bool weight = false, bias = false;
};

/// Describes one way to compute the gradient of a weight, and the lists of pairs that it serves.
struct WeightGradientCandidate {
  using Spec = std::variant<WeightGradientScalarSpec, WeightGradientSpec, WarpgroupGradientSpec>;
  Spec spec;
  i64 least_pairs = 0;  // It serves lists of at least this capacity.
  AddPartsSpec add;
  i32 tiles_in = 1, tiles_out = 1;  // See WeightGradientParams.
  i32 tiles = 1;                    // Counts the tiles of all groups.
  /// Does not depend on the GPU, and is the same for all candidates that are chosen on one architecture, so
  /// that results do not depend on the GPU or on the capacity of the list.
  i32 wanted_parts = 1;
  SlotLayout layout = {};

  bool runs_on(llvm::StringRef arch) const;
  /// Returns an upper bound of the parts of `pairs` pairs.
  i64 most_parts(i64 pairs, i64 volume) const;
};

struct ParameterGradientChoice {
  ParameterGradientProblem problem;
  /// The first candidate that runs on an architecture and serves the capacity of a list is the fastest one.
  std::vector<WeightGradientCandidate> candidates;
  SumRowsSpec rows;
  AddRowSumsSpec row_sums;

  /// Returns the fastest candidate for lists of at most `most_pairs` pairs. There always is one.
  const WeightGradientCandidate& candidate(llvm::StringRef arch, i64 most_pairs) const;
};

/// This kernel lists the steps of every list.
inline constexpr ListStepsSpec kListSteps;

/// A list has at most this many pairs.
inline constexpr i64 kMostPairs = (i64{1} << 31) - 1;

llvm::Error validate(const ParameterGradientProblem& problem);
ParameterGradientChoice choose_parameter_gradient(const ParameterGradientProblem& problem);
/// Returns a candidate with another Spec for the same problem. Benchmarks compare Specs by it.
WeightGradientCandidate make_candidate(const ConvolutionProblem& forward, const WarpgroupGradientSpec& spec);
/// Adds the sources of all kernels that the choice may need on `arch`.
void add_sources(SourceList& list, const ParameterGradientChoice& choice, llvm::StringRef arch);

}  // namespace minuet
