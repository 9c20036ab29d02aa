// Chooses the blocks of a fused kernel that multiplies by warpgroups (wgmma).
#pragma once

#include "codegen/choose/ops/convolution.h"

namespace minuet {

/// Returns the number of registers that a thread of a warpgroup needs for sums, for two steps of input and
/// for a residual of more than 96 columns, plus a fixed number for everything else.
i32 warpgroup_registers(const FusedSpec& spec);

/// Returns the number of weight stages that fit into shared memory beside the staged row numbers. Both get
/// less shared memory if blocks read input rows in parts or if many blocks run on a multiprocessor. The
/// level-1 cache gets the rest and keeps some input rows between reads.
i32 choose_warpgroup_stages(const FusedSpec& spec);

/// Returns the number of weight stages of a persistent block. These are as many as fit into shared memory,
/// because the ring must not run empty between two tiles.
i32 choose_persistent_stages(FusedSpec spec);

/// Chooses a Spec of persistent blocks that keep all weights in shared memory (WeightRoad::Resident). Returns
/// false if that is not known to be faster.
bool choose_resident_weights(FusedChoice& choice, i64 rows);

/// Chooses a Spec that multiplies by warpgroups. Returns false if there is too little work for warpgroups;
/// the caller then chooses smaller blocks.
bool choose_warpgroups(FusedChoice& choice, i64 rows);

}  // namespace minuet
