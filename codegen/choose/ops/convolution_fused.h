// Parts of choosing a Spec of the fused dataflow. The candidates and the tuner's search space use them.
#pragma once

#include "codegen/choose/ops/convolution.h"

namespace minuet {

/// Returns the size of equal parts of `whole`, a multiple of `unit` and at most `most`, that needs the least
/// padding behind `whole`; of equally good sizes the largest.
i32 equal_parts(i32 whole, i32 unit, i32 most);

/// Sets the stages of the ring and the blocks per multiprocessor, which follow from the other fields.
void fit_stages_and_blocks(FusedSpec& spec);

/// Returns true if the architecture has products by warpgroups (wgmma) and they measured faster for such a
/// Spec.
bool suits_warpgroups(const FusedSpec& spec, llvm::StringRef arch, FusedFeatures means);

/// Returns the Spec that multiplies by warpgroups, even where another unit measured faster. Returns nothing
/// if GPUs of `arch` or the data type have no such products.
std::optional<FusedSpec> by_warpgroups(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows);

}  // namespace minuet
