// Candidates are ways to run an op, each as data: the choice of its kernels, the reasons for it, and the
// properties that the execution needs in order to run it without knowing what it computes. These functions
// are pure. They are called once for each architecture, before any point cloud is known.
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
/// Holds the kernels that run one op, in a type of the op's own files.
using OpChoice = AnyOf<OpFamily>;

/// Describes the choices of one type, which are all run in the same way. Each room above has a table with one
/// row per family.
struct OpFamily {
  const char* name;  // used in reports, for example "fused"
  /// Adds every kernel of a choice, so that it can be compiled ahead of time.
  void (*add_sources)(SourceList& list, const OpChoice& choice);
  /// Returns true if two choices for one problem use the same kernels.
  bool (*is_same)(const OpChoice& a, const OpChoice& b);
};

/// Returns the row of a room's table that belongs to the family; null if there is none. A row has a member
/// `family`.
template <class Row>
const Row* find_family(llvm::ArrayRef<Row> table, const OpFamily& family) {
  for (const Row& row : table) {
    if (&row.family == &family) return &row;
  }
  return nullptr;
}

/// Returns the table entry of a family. `Choice` must have overloads of the functions of OpFamily:
/// add_sources and is_same.
template <class Choice>
constexpr OpFamily make_op_family(const char* name) {
  return {name, [](SourceList& list, const OpChoice& choice) { add_sources(list, choice.get<Choice>()); },
          [](const OpChoice& a, const OpChoice& b) { return is_same(a.get<Choice>(), b.get<Choice>()); }};
}

/// Names the form in which a candidate reads the kernel map of its op, in the op's direction.
enum class ViewForm : i32 {
  None,    // the candidate reads no map
  Pairs,   // the pairs of each offset; their counts are on the host
  Rows,    // for each output row the input row of each offset, or -1
  Masked,  // Rows with a mask of the present offsets, in the order of the plan's OrderChoice
};

inline constexpr i32 kMostCovered = 4;

struct Candidate {
  OpChoice choice;
  std::vector<std::string> reasons = {};  // one sentence per decision
  // Inclusive ranges of the op's output rows and of the density.
  i64 least_rows = 0, most_rows = std::numeric_limits<i64>::max();
  double least_density = 0, most_density = std::numeric_limits<double>::infinity();  // pairs per output row
  std::string kernel = {};  // display name if a single kernel runs the op, else empty
  ViewForm form = ViewForm::None;
  /// The number of following ops that the same kernel computes too; at most kMostCovered.
  i32 covers = 0;
  /// The message for capacity mode, in which counts exist on the device only: why the candidate needs the
  /// map's counts on the host, and what to do instead. Empty if it does not need them.
  std::string needs_counts = {};
};

/// Returns true if two choices for one problem use the same kernels.
inline bool is_same(const OpChoice& a, const OpChoice& b) {
  return &a.kind() == &b.kind() && a.kind().is_same(a, b);
}

/// Adds every kernel of a choice, so that it can be compiled ahead of time.
inline void add_sources(SourceList& list, const OpChoice& choice) { choice.kind().add_sources(list, choice); }

/// The inputs of choose_candidates() beside the problem.
struct CandidateOptions {
  llvm::StringRef arch;                    // empty for the CPU
  const TuningSnapshot* tuning = nullptr;  // measurements on a GPU or on the CPU; may be null
};

/// Returns the candidates in order of rows; exactly one of them serves each pair of row count and density.
/// Within one range of rows, the density with the most measured time comes first, because select() takes the
/// first candidate if the density is not known.
llvm::Expected<std::vector<Candidate>> choose_candidates(const OpProblem& problem,
                                                         const CandidateOptions& options);

/// Returns true if two candidates for one problem use the same kernels for the same densities.
bool has_same_kernels(const Candidate& a, const Candidate& b);

/// Returns true if select() depends on the density.
bool needs_density(const std::vector<Candidate>& candidates);

/// Returns the first candidate that serves this number of output rows and this density (pairs per output
/// row). Callers that do not know the pairs yet pass no density; then the rows alone decide.
const Candidate& select(const std::vector<Candidate>& candidates, i64 output_rows,
                        std::optional<double> density);

}  // namespace minuet
