// Specs and Params of the two kernels that only tests launch: small matrix products that use every part of
// the fused kernels to come. Both compute out[row][column] = sum over k of a[row][k] b[k][column], fp32 sums.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// What one of them leaves out or does wrong, for tests that the shim notices.
enum class GemmFault : i32 {
  None,
  NoFullWait,
  NoEmptyWait,
  WrongParity,
  NoInitBarrier,
  NoInitFence,
  TooManyBytes,
  NoArrival,
  UnalignedCopy,
  DivergentMma,
  NoBarrierBeforeExchange,
  NoBarrierAfterExchange,
  NoCopyWait,
  NoBlockBarrier,
  DivergentLdmatrix,
};

/// The blocks of a cluster share a tile of rows and take turns with the steps along k.
struct ClusterGemmSpec {
  DType io = DType::F16;
  i32 warps = 2;     // of a block, 16 rows each
  i32 columns = 32;  // all of the output's; each block of the cluster ends with as many whole eights of them
  i32 step_words = 16;  // along k, 32 bits each
  i32 stages = 3;
  i32 cluster = 2;
  GemmFault fault = GemmFault::None;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("warps", warps), visitor("columns", columns),
        visitor("step_words", step_words), visitor("stages", stages), visitor("cluster", cluster),
        visitor("fault", fault);
  }
};

/// One block a tile of rows.
struct StagedGemmSpec {
  DType io = DType::F16;
  i32 warps = 2;
  i32 columns = 32;
  i32 step_words = 16;
  i32 stages = 3;
  GemmFault fault = GemmFault::None;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("warps", warps), visitor("columns", columns),
        visitor("step_words", step_words), visitor("stages", stages), visitor("fault", fault);
  }
};

struct GemmParams {
  const u32* a;  // [rows][steps * step_words]
  const u32* b;  // [steps][columns][step_words]
  float* out;    // [rows][columns]
  i32 rows;
  i32 steps;
};

/// In front of the ring, where the mbarriers are.
constexpr i32 kGemmHeadBytes = 128;

template <class Spec>
MINUET_HD constexpr i32 gemm_threads(Spec spec) {
  return 32 * spec.warps;
}
template <class Spec>
MINUET_HD constexpr i32 gemm_tile_rows(Spec spec) {
  return 16 * spec.warps;
}

MINUET_HD constexpr i32 gemm_stage_bytes(ClusterGemmSpec spec) { return spec.columns * spec.step_words * 4; }
/// The ring, and in its place at the end the sums of all blocks for this one's columns.
MINUET_HD constexpr i32 gemm_shared_bytes(ClusterGemmSpec spec) {
  const i32 ring = spec.stages * gemm_stage_bytes(spec), sums = gemm_tile_rows(spec) * spec.columns * 4;
  return kGemmHeadBytes + (ring > sums ? ring : sums);
}

/// Rows of a stage are a word of 16 bytes longer than their data, so that eight of them lie in different
/// banks.
MINUET_HD constexpr i32 gemm_row_words(StagedGemmSpec spec) { return spec.step_words + 4; }
MINUET_HD constexpr i32 gemm_stage_words(StagedGemmSpec spec) {
  return (gemm_tile_rows(spec) + spec.columns) * gemm_row_words(spec);
}
MINUET_HD constexpr i32 gemm_shared_bytes(StagedGemmSpec spec) {
  return spec.stages * gemm_stage_words(spec) * 4;
}

}  // namespace minuet
