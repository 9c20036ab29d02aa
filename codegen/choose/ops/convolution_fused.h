// Declares the functions for the choice of a FusedSpec that are used both to make candidates and to make the
// search space of the tuner (codegen/tuning/search_space.h).
#pragma once

#include "codegen/choose/ops/convolution.h"

namespace minuet {

/// Returns the size of equal parts that cover `whole` with the least padding behind it. The size is a
/// multiple of `unit` and at most `most`. Of equally good sizes the largest is returned.
i32 equal_parts(i32 whole, i32 unit, i32 most);

/// Sets the number of stages of the ring buffer of weights and the number of blocks per multiprocessor, which
/// follow from the other fields.
void fit_stages_and_blocks(FusedSpec& spec);

/// Returns the number of input channels of which FusedSpec::step must be a multiple if it covers one kernel
/// offset.
inline i32 step_granule(const FusedSpec& spec) {
  const bool is_double = spec.unit == MmaUnit::Warpgroup && !is_integer(spec.io);
  return fused_granule(spec.io) * (is_double ? 2 : 1);
}

/// Returns true if `means` allows products by warpgroups (wgmma), the architecture has them, and they were
/// faster in measurements than products by warps for such a Spec.
bool suits_warpgroups(const FusedSpec& spec, llvm::StringRef arch, FusedFeatures means);

/// Returns the Spec that multiplies by warpgroups, even where products by warps were faster in measurements.
/// Returns nothing if GPUs of `arch` have no products by warpgroups, or none for the data type or for so few
/// input channels.
std::optional<FusedSpec> by_warpgroups(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows);

}  // namespace minuet
