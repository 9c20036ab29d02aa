// Ways to run an op, each with the sizes that it serves. Pure; made once an architecture, before any cloud.
#pragma once

#include <limits>
#include <vector>

#include "codegen/choice.h"

namespace minuet {

struct Candidate {
  ConvolutionChoice choice;  // with the reasons
  // Both ends included.
  i64 least_rows = 0, most_rows = std::numeric_limits<i64>::max();                   // of the op's input
  double least_density = 0, most_density = std::numeric_limits<double>::infinity();  // pairs an output row
};

/// In order of rows; every row count and density is served by exactly one. Rows whose bucket `tuning`, which
/// may be null, does not know are served as those of unknown number (choose_convolution). `arch`: "" for the
/// CPU, for which nothing is tuned.
llvm::Expected<std::vector<Candidate>> choose_candidates(const OpProblem& op, llvm::StringRef arch,
                                                         const TuningSnapshot* tuning);

/// The one that serves so many rows, at so many pairs an output row.
const Candidate& select(const std::vector<Candidate>& candidates, i64 rows, double density);

}  // namespace minuet
