// A candidate is a way to run an op. It is data: the choice of the op's kernels, the reasons for this choice,
// and the properties that the execution needs in order to run the kernels without knowing what they compute.
// The functions of this file are pure. A plan calls choose_candidates() once for each op and architecture,
// before any point cloud is known.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "codegen/choose/problem.h"
#include "codegen/source/emit.h"

namespace minuet {

class TuningSnapshot;
struct OpFamily;
/// Holds the kernels that run one op. The stored type is defined in the op's own files, for example
/// FusedChoice.
using OpChoice = AnyOf<OpFamily>;

/// Describes all OpChoices that hold the same type, for example FusedChoice, and are therefore run in the
/// same way. Code that handles choices, such as runtime/cuda, has a table with one row per family
/// (find_family()).
struct OpFamily {
  const char* name;  // The name appears in reports, for example "fused".
  /// Adds the source of every kernel of `choice` to `list`, so that the kernels can be compiled ahead of
  /// time.
  void (*add_sources)(SourceList& list, const OpChoice& choice);
  /// Returns true if two choices for one problem use the same kernels.
  bool (*is_same)(const OpChoice& a, const OpChoice& b);
};

/// Returns the row of `table` whose member `family` is the given family, or null if the table has no such
/// row.
template <class Row>
const Row* find_family(llvm::ArrayRef<Row> table, const OpFamily& family) {
  for (const Row& row : table) {
    if (&row.family == &family) return &row;
  }
  return nullptr;
}

/// Returns the OpFamily of choices of type `Choice`, for which the functions add_sources() and is_same() must
/// have overloads.
template <class Choice>
constexpr OpFamily make_op_family(const char* name) {
  return {name, [](SourceList& list, const OpChoice& choice) { add_sources(list, choice.get<Choice>()); },
          [](const OpChoice& a, const OpChoice& b) { return is_same(a.get<Choice>(), b.get<Choice>()); }};
}

inline constexpr i32 kMostCovered = 4;

struct Candidate {
  OpChoice choice;
  std::vector<std::string> reasons = {};  // Gives the reason for each decision in a sentence.
  // The Candidate serves only numbers of output rows and densities within these inclusive ranges. The density
  // is the number of pairs of input and output row per output row.
  i64 least_rows = 0, most_rows = std::numeric_limits<i64>::max();
  double least_density = 0, most_density = std::numeric_limits<double>::infinity();
  /// Holds the kernel's display name if a single kernel runs the op, and is empty otherwise.
  std::string kernel = {};
  ViewForm form = ViewForm::None;
  /// Counts the ops directly after the op of this Candidate in the program that its kernel computes too, at
  /// most kMostCovered.
  i32 covers = 0;
  /// Counts the launches of each kernel, of which each computes a part of the output channels.
  i32 launches = 1;
  /// Holds the error message for capacity mode, in which the numbers of rows and pairs exist on the device
  /// only. It says why this way to run the op needs these numbers on the host, and what the user can do
  /// instead. It is empty if the numbers are not needed.
  std::string needs_counts = {};
};

/// Returns true if two choices for one problem use the same kernels.
inline bool is_same(const OpChoice& a, const OpChoice& b) {
  return &a.kind() == &b.kind() && a.kind().is_same(a, b);
}

/// Adds the source of every kernel of `choice` to `list`, so that the kernels can be compiled ahead of time.
inline void add_sources(SourceList& list, const OpChoice& choice) { choice.kind().add_sources(list, choice); }

/// Holds the inputs of choose_candidates() other than the problem.
struct CandidateOptions {
  llvm::StringRef arch;  // Names the GPU architecture, for example "sm_90a", or is empty for the CPU.
  const TuningSnapshot* tuning = nullptr;  // Points to measurements on a GPU or on the CPU, or is null.
};

/// Returns the candidates in ascending order of the row counts that they serve. Exactly one of them serves
/// each row count and density (pairs per output row). Of the candidates for one range of row counts, the one
/// at whose densities the default configuration was measured to take longest comes first, because select()
/// takes the first candidate if the density is not known.
llvm::Expected<std::vector<Candidate>> choose_candidates(const OpProblem& problem,
                                                         const CandidateOptions& options);

/// Returns true if two candidates for one problem use the same kernels for the same densities (pairs per
/// output row).
bool has_same_kernels(const Candidate& a, const Candidate& b);

/// Returns true if the result of select() depends on the density.
bool needs_density(const std::vector<Candidate>& candidates);

/// Returns the first candidate that serves this number of output rows and this density (pairs per output
/// row). Callers that do not know the pairs yet pass no density; then the number of rows alone decides.
const Candidate& select(const std::vector<Candidate>& candidates, i64 output_rows,
                        std::optional<double> density);

}  // namespace minuet
