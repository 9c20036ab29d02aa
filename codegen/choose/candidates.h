// Ways to run an op: a Spec for every kernel of a dataflow, with the reasons, and the sizes that each serves.
// Pure; made once an architecture, before any cloud.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "codegen/choose/choice.h"
#include "codegen/choose/problem.h"
#include "codegen/source/emit.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {

/// cuBLASLt's algorithm of a layer's GEMMs, by its place among those that cuBLASLt lists for each of them:
/// the first is the one that it expects to be fastest, and where there are fewer the last is taken.
struct GemmChoice {
  i32 algorithm = 0;
};
inline constexpr i32 kMostGemmAlgorithms = 8;
llvm::Error validate(const GemmChoice& gemm);

/// Kernels of one convolution: the gather-GEMM-scatter dataflow.
struct GmasChoice {
  ConvolutionProblem problem;
  bool direct_center = false;  // the centre offset's GEMM reads the features in place
  GatherSpec gather;
  ScatterSpec scatter;
  PermuteWeightsSpec permute_weights;
  GemmChoice gemm;
  std::vector<std::string> reasons;  // one sentence a decision
};

/// For a valid problem. `tuning`: what was measured (tuning_snapshot.h), where it is known. `rows`: about how
/// many the layer's output has; 0: not known. Rows that are not known, or that nobody measured, are taken to
/// be the most that somebody did.
GmasChoice choose_gmas(const ConvolutionProblem& problem, const TuningSnapshot* tuning = nullptr,
                       i64 rows = 0);

struct FusedChoice {
  ConvolutionProblem problem;
  FusedSpec fused;
  std::vector<std::string> reasons;  // one sentence a decision
};

/// Offsets whose masks shared memory holds easily.
inline constexpr i64 kMostFusedOffsets = 4096;

/// What a choice may use of an architecture that has it.
struct FusedMeans {
  bool warpgroups = true;    // wgmma
  bool programmatic = true;  // launches that overlap
};

/// For a valid problem of at most kMostFusedOffsets offsets and one group. The CPU, of architecture "", goes
/// by the problem alone. `rows`: about how many the output has; 0: not known.
FusedChoice choose_fused(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows,
                         FusedMeans means = {});

/// One of each dataflow, in the order of Dataflow.
using OpChoice = std::variant<GmasChoice, FusedChoice>;
enum class Dataflow : i32 { GatherGemmScatter, Fused };

struct Candidate {
  OpChoice choice;  // with the reasons
  // Both ends included. Rows: of the op's output.
  i64 least_rows = 0, most_rows = std::numeric_limits<i64>::max();
  double least_density = 0, most_density = std::numeric_limits<double>::infinity();  // pairs an output row
  std::string kernel = {};  // display name, where one kernel does it all
};

inline Dataflow dataflow_of(const OpChoice& choice) { return static_cast<Dataflow>(choice.index()); }
/// "gather-gemm-scatter", "fused"
const char* dataflow_name(Dataflow dataflow);
const ConvolutionProblem& problem_of(const OpChoice& choice);
std::vector<std::string>& reasons_of(OpChoice& choice);
/// Whether its kernel computes the problem's shortcut too.
bool has_shortcut(const OpChoice& choice);
/// Every kernel of a choice, for compiling ahead.
void add_sources(SourceList& list, const OpChoice& choice);

/// The fused one is faster on the CPU, and on a GPU with 16-bit types: measured on an H200, where both
/// shipped networks take 0.55 to 0.9 of the time, from 6e4 to 1e6 voxels. 32-bit types were not measured
/// there.
Dataflow choose_dataflow(const ConvolutionProblem& problem, llvm::StringRef arch);

/// In order of rows; every row count and density is served by exactly one. Of one range of rows that of the
/// density comes first of which most time was measured, for where the density is not known. `tuning`: what
/// was measured, where it is known, on GPUs or on the CPU; may be null. `arch`: "" for the CPU. `wanted`: the
/// dataflow of all; else the one that was measured, or is expected, to be faster.
llvm::Expected<std::vector<Candidate>> choose_candidates(const OpProblem& op, llvm::StringRef arch,
                                                         const TuningSnapshot* tuning,
                                                         std::optional<Dataflow> wanted = {},
                                                         FusedMeans means = {});

/// `tuned` with those of `standard`, which no density decides, in the place of each that `is_missing`, for
/// its rows and densities, and with the reason.
std::vector<Candidate> replace_missing(const std::vector<Candidate>& tuned,
                                       const std::vector<Candidate>& standard,
                                       llvm::function_ref<bool(const Candidate&)> is_missing);

/// Whether select() asks for the density.
bool needs_density(const std::vector<Candidate>& candidates);

/// The first that serves so many rows, at so many pairs an output row. Where nobody knows how many pairs
/// there will be, no density is given, and rows alone decide.
const Candidate& select(const std::vector<Candidate>& candidates, i64 output_rows,
                        std::optional<double> density);

}  // namespace minuet
