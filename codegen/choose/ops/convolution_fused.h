// Parts of choosing a Spec of the fused dataflow, for the lists of its candidates and for who tries others.
#pragma once

#include "codegen/choose/ops/convolution.h"

namespace minuet {

/// The size of equal parts of at most `most`, whole units, that need the fewest zeros behind `whole`; of
/// these the largest.
i32 equal_parts(i32 whole, i32 unit, i32 most);

/// Stages of the ring, and blocks that may run on a multiprocessor at once, as they follow from the rest.
void fit_stages_and_blocks(FusedSpec& spec);

/// Whether there are products by warpgroups, and they were seen to win.
bool suits_warpgroups(const FusedSpec& spec, llvm::StringRef arch, FusedMeans means);

/// The chosen Spec's products by warpgroups, whatever was seen to win, where GPUs of `arch` and the types
/// have them.
std::optional<FusedSpec> by_warpgroups(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows);

}  // namespace minuet
