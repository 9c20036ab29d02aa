// What the fused dataflow compiles for a convolution. Pure; no GPU is asked.
#pragma once

#include <string>
#include <vector>

#include "codegen/emit.h"
#include "codegen/problem.h"

namespace minuet {

struct FusedChoice {
  ConvolutionProblem problem;
  FusedSpec fused;
  std::vector<std::string> reasons;  // one sentence a decision
};

/// Offsets whose masks shared memory holds easily.
inline constexpr i64 kMostFusedOffsets = 4096;

/// What a choice may use of an architecture that has it. None until it was measured on one.
struct FusedMeans {
  bool warpgroups = false;    // wgmma
  bool programmatic = false;  // launches that overlap
};

/// For a valid problem of at most kMostFusedOffsets offsets and one group. The CPU, of architecture "", goes
/// by the problem alone. `rows`: about how many the output has; 0: not known.
FusedChoice choose_fused(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows,
                         FusedMeans means = {});

std::vector<KernelSource> sources_of(const FusedChoice& choice);

}  // namespace minuet
