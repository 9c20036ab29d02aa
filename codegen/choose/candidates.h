// Ways to run an op, each as data: its kernels, the reasons for them, and what the rooms above need to know
// of them to run it without knowing what it computes. These functions are pure. They are called once for each
// architecture, before there is any cloud.
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
/// The kernels that run one op, as a type of the op's own files.
using OpChoice = AnyOf<OpFamily>;

/// Choices of one type, which are run alike. The rooms above have a table each of what they do for a family.
struct OpFamily {
  const char* name;  // "fused", in reports
  /// Adds every kernel of a choice, for compiling ahead.
  void (*add_sources)(SourceList& list, const OpChoice& choice);
  /// Whether two choices for one problem are the same kernels.
  bool (*is_same)(const OpChoice& a, const OpChoice& b);
};

/// The entry of a family whose functions are overloads for its choice, in the order of OpFamily: add_sources
/// and is_same.
template <class Choice>
constexpr OpFamily make_op_family(const char* name) {
  return {name, [](SourceList& list, const OpChoice& choice) { add_sources(list, choice.get<Choice>()); },
          [](const OpChoice& a, const OpChoice& b) { return is_same(a.get<Choice>(), b.get<Choice>()); }};
}

/// The form in which a candidate reads the kernel map of its op, in the op's direction.
enum class ViewForm : i32 {
  None,    // it reads none
  Pairs,   // the pairs of each offset, and their number on the host
  Rows,    // for each output row the input row of each offset, or -1
  Masked,  // the same with a mask of the offsets that are there, ordered as the plan's OrderChoice says
};

inline constexpr i32 kMostCovered = 4;

struct Candidate {
  OpChoice choice;
  std::vector<std::string> reasons = {};  // one sentence a decision
  // Both ends included. Rows: of the op's output.
  i64 least_rows = 0, most_rows = std::numeric_limits<i64>::max();
  double least_density = 0, most_density = std::numeric_limits<double>::infinity();  // pairs an output row
  std::string kernel = {};  // display name, where one kernel does it all
  ViewForm form = ViewForm::None;
  /// How many of the ops behind its own the same kernel computes too; kMostCovered at most.
  i32 covers = 0;
  /// Why it needs the map's counts on the host, and what to do in capacity mode, where they are on the device
  /// alone; empty where it does not need them.
  std::string needs_counts = {};
};

/// Whether two choices for one problem are the same kernels.
inline bool is_same(const OpChoice& a, const OpChoice& b) {
  return &a.kind() == &b.kind() && a.kind().is_same(a, b);
}

/// Every kernel of a choice, for compiling ahead.
inline void add_sources(SourceList& list, const OpChoice& choice) { choice.kind().add_sources(list, choice); }

/// Candidates are chosen by these and by the problem.
struct CandidateOptions {
  llvm::StringRef arch;  // "" for the CPU
  const TuningSnapshot* tuning =
      nullptr;  // what was measured, where it is known, on GPUs or on the CPU; may be null
};

/// In order of rows; every row count and density is served by exactly one. Of one range of rows that of the
/// density comes first of which most time was measured, for where the density is not known.
llvm::Expected<std::vector<Candidate>> choose_candidates(const OpProblem& problem,
                                                         const CandidateOptions& options);

/// Whether two candidates for one problem are the same kernels for the same densities.
bool is_alike(const Candidate& a, const Candidate& b);

/// Whether select() asks for the density.
bool needs_density(const std::vector<Candidate>& candidates);

/// Returns the first candidate that serves this number of output rows and this density (pairs for each output
/// row). Without a density the rows alone decide: that is for callers who do not know the pairs yet.
const Candidate& select(const std::vector<Candidate>& candidates, i64 output_rows,
                        std::optional<double> density);

}  // namespace minuet
