// Describes the gradients of the weight and the bias of a convolution, which are computed from a list of the
// pairs of a kernel map. All functions are pure.
#pragma once

#include <limits>
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
  // Only candidates that tuning has chosen have the following limits. The numbers of output rows include both
  // ends, and the density is the least capacity of a list for each output row. `capability` is the compute
  // capability of the GPUs on which the candidate was measured, such as 90. It is 0 if the candidate serves
  // all GPUs.
  i64 least_rows = 0, most_rows = std::numeric_limits<i64>::max();
  double least_density = 0;
  i32 capability = 0;
  AddPartsSpec add;
  i32 tiles_in = 1, tiles_out = 1;  // See WeightGradientParams.
  i32 tiles = 1;                    // Counts the tiles of all groups.
  /// Without tuning, it does not depend on the GPU, and is the same for all candidates that are chosen on one
  /// architecture, so that results do not depend on the GPU or on the capacity of the list. Candidates that
  /// tuning has chosen have other numbers of parts.
  i32 wanted_parts = 1;
  SlotLayout layout = {};

  bool runs_on(llvm::StringRef arch) const;
  /// Returns true if it serves lists of this capacity for outputs of so many rows.
  bool serves(i64 most_pairs, i64 rows) const;
  /// Returns true if it serves a list of at most this capacity for an output of at most so many rows.
  bool may_serve(i64 most_pairs, i64 most_rows) const;
  /// Returns true if no list is left for candidates behind this one.
  bool is_last() const { return least_pairs == 0 && least_rows == 0; }
  /// Returns an upper bound of the parts of `pairs` pairs.
  i64 most_parts(i64 pairs, i64 volume) const;
};

struct ParameterGradientChoice {
  ParameterGradientProblem problem;
  /// The first candidate that runs on an architecture and serves a list is the fastest one there. Candidates
  /// that tuning has chosen come first.
  std::vector<WeightGradientCandidate> candidates;
  SumRowsSpec rows;
  AddRowSumsSpec row_sums;

  /// Returns the fastest candidate for lists with room for `most_pairs` pairs and outputs with room for
  /// `rows` rows. There always is one. With 0 rows, it is the one without tuning.
  const WeightGradientCandidate& candidate(llvm::StringRef arch, i64 most_pairs, i64 rows = 0) const;
};

/// This kernel lists the steps of every list.
inline constexpr ListStepsSpec kListSteps;

/// A list has at most this many pairs.
inline constexpr i64 kMostPairs = (i64{1} << 31) - 1;

llvm::Error validate(const ParameterGradientProblem& problem);
/// Chooses the kernels. `tuning` may be null.
ParameterGradientChoice choose_parameter_gradient(const ParameterGradientProblem& problem,
                                                  const TuningSnapshot* tuning = nullptr);
/// Return a candidate with another Spec for the same problem. Tuning compares Specs by it.
WeightGradientCandidate make_candidate(const ConvolutionProblem& forward, const WarpgroupGradientSpec& spec);
WeightGradientCandidate make_candidate(const ConvolutionProblem& forward, const WeightGradientSpec& spec);

/// Returns the width of one copy of channels of this type, for groups of these numbers of channels.
i32 gradient_vector_bytes(DType dtype, i32 group_inputs, i32 group_outputs);
/// Returns true if tensor cores compute the gradient of the weight. Only then is there a choice to measure.
bool is_gradient_tunable(const ConvolutionProblem& forward);
/// Returns true if warpgroups can compute gradients of groups of these numbers of channels.
bool suits_warpgroups(DType dtype, i32 group_inputs, i32 group_outputs);
/// Returns the Spec without warpgroups for a tile, with as many stages as fit, but at most 4.
WeightGradientSpec tensor_gradient_spec(DType dtype, i32 tile_in, i32 tile_out, i32 vector_bytes);
/// Returns the fastest Spec of each tile of warpgroups, as measured on an H200.
std::vector<WarpgroupGradientSpec> warpgroup_gradient_specs(DType dtype);

// The next functions are in ops/tuned_gradient.cc.

/// Return an error if a Spec violates an assert of its kernel, or needs more than a GPU has.
llvm::Error validate_spec(const WeightGradientSpec& spec);
llvm::Error validate_spec(const WarpgroupGradientSpec& spec);
/// Adds the candidates that were measured to be fastest in front of the others.
void add_tuned_candidates(ParameterGradientChoice& choice, const TuningSnapshot& tuning);
/// Adds the sources of all kernels that the choice may need on `arch`.
void add_sources(SourceList& list, const ParameterGradientChoice& choice, llvm::StringRef arch);

}  // namespace minuet
