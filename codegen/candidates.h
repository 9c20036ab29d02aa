// Ways to run an op, each with the sizes that it serves. Pure; made once an architecture, before any cloud.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "codegen/choice.h"
#include "codegen/fused_choice.h"

namespace minuet {

/// One of each dataflow, in the order of Dataflow.
using OpChoice = std::variant<GmasChoice, FusedChoice>;
enum class Dataflow : i32 { GatherGemmScatter, Fused };

struct Candidate {
  OpChoice choice;  // with the reasons
  // Both ends included. Rows: of the op's input; of a fused candidate, of its output.
  i64 least_rows = 0, most_rows = std::numeric_limits<i64>::max();
  double least_density = 0, most_density = std::numeric_limits<double>::infinity();  // pairs an output row
  std::string kernel = {};  // display name, where one kernel does it all
};

inline Dataflow dataflow_of(const OpChoice& choice) { return static_cast<Dataflow>(choice.index()); }
/// "gather-gemm-scatter", "fused"
const char* dataflow_name(Dataflow dataflow);
const ConvolutionProblem& problem_of(const OpChoice& choice);
std::vector<std::string>& reasons_of(OpChoice& choice);
/// Every kernel of a choice, for compiling ahead.
std::vector<KernelSource> sources_of(const OpChoice& choice);

/// In order of rows; every row count and density is served by exactly one. Rows whose bucket `tuning`, which
/// may be null, does not know are served as those of unknown number (choose_gmas). `arch`: "" for the
/// CPU, for which nothing is tuned. `wanted`: the dataflow of all; else the one that is expected to be
/// faster.
llvm::Expected<std::vector<Candidate>> choose_candidates(const OpProblem& op, llvm::StringRef arch,
                                                         const TuningSnapshot* tuning,
                                                         std::optional<Dataflow> wanted = {});

/// Whether select() asks for the density.
bool needs_density(const std::vector<Candidate>& candidates);

/// The first that serves so many rows, at so many pairs an output row. Where nobody knows how many pairs
/// there will be, no density is given, and rows alone decide.
const Candidate& select(const std::vector<Candidate>& candidates, i64 input_rows, i64 output_rows,
                        std::optional<double> density);

}  // namespace minuet
