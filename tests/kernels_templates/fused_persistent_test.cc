// These tests run the fused kernel with persistent blocks, on grids of fewer and of more blocks than tiles.
// They compare it with plain loops in fp64, and bit by bit with the kernel whose blocks have one tile each.
#include "tests/kernels_templates/fused_runs.h"

namespace minuet {
namespace {

/// Returns a Spec of persistent blocks. `turn` decides what the road leaves open.
constexpr FusedSpec persistent_of(WeightRoad road, i32 turn) {
  FusedSpec spec;
  spec.io = turn % 4 == 0   ? DType::F16
            : turn % 4 == 1 ? DType::BF16
            : turn % 4 == 2 ? DType::TF32
                            : DType::F16;
  spec.volume = turn % 3 == 0 ? 27 : turn % 3 == 1 ? 8 : 32;
  const bool is_resident = road == WeightRoad::Resident;
  const i32 piece = 2 * fused_granule(spec.io), pieces = is_resident && spec.volume > 8 ? 1 : 3;
  spec.in_channels = pieces * piece;
  spec.out_channels = is_resident || turn % 3 != 0 ? 48 : 96;
  spec.step = turn % 2 == 0 ? pieces * piece : piece;
  spec.columns = 48;
  spec.warps = !is_resident || turn % 2 == 0 ? 4 : turn % 3 == 0 ? 12 : 8;
  spec.prefetch = 1 + turn % 3;
  spec.stages = is_resident ? 1 : 2 + turn;
  spec.weights = road;
  spec.unit = MmaUnit::Warpgroup;
  spec.early_loads = turn % 3 != 1;
  spec.staged_rows = spec.persistent = true;
  spec.programmatic = turn % 2 == 0;
  spec.residual = turn % 3 == 1;
  spec.shortcut = turn == 3 && !is_resident;
  spec.second_output = turn == 2;
  return spec;
}
/// Returns the Spec that computes the same sums without persistent blocks.
constexpr FusedSpec usual_of(FusedSpec spec) {
  spec.persistent = false;
  if (spec.weights == WeightRoad::Resident) spec.weights = WeightRoad::BulkRefill, spec.stages = 3;
  return spec;
}

template <FusedSpec S>
void expect_equal_bits(FusedShapeOfMap shape, int variant) {
  constexpr FusedSpec kUsual = usual_of(S);
  static const FusedParameters parameters(S, 410), usual(kUsual, 410);
  const i64 padded = variant % 2 == 0 ? 0 : 50;
  FusedProblem problem(parameters, shape, 510), other(usual, shape, 510);
  FusedRun run = run_fused(problem, &run_kernel<S>, padded, variant);
  const FusedRun expected = run_fused(other, &run_kernel<kUsual>, padded, variant);
  EXPECT_EQ(run.output.bytes, expected.output.bytes) << "variant " << variant;
  EXPECT_EQ(run.second.bytes, expected.second.bytes) << "variant " << variant;
  EXPECT_EQ(run.shortcut.bytes, expected.shortcut.bytes) << "variant " << variant;
}

/// Tests all kinds of views, with and without aligned rows, on several grids.
template <FusedSpec S>
void expect_persistent(i64 queries, double density = 0.3) {
  static_assert(fused_stages_rows(S));
  int variant = 0;
  for (const i64 over : {0, 3}) {
    FusedShapeOfMap ordered{.queries = queries, .density = density};
    ordered.stride_padding = ordered_row_stride(queries) - queries + over;
    if (S.shortcut) ordered.empty_every = 5;  // the offset in the middle has pairs
    FusedShapeOfMap by_query = ordered, without_order = ordered;
    by_query.ordered_views = false;
    without_order.ordered = false;
    for (const FusedShapeOfMap& shape : {ordered, by_query, without_order}) {
      expect_fused<S>(shape, variant);
      expect_equal_bits<S>(shape, variant++);
    }
  }
}

template <WeightRoad Road>
void expect_road() {
  expect_persistent<persistent_of(Road, 0)>(500);
  expect_persistent<persistent_of(Road, 1)>(600, 0.1);
  expect_persistent<persistent_of(Road, 2)>(300, 0.05);
  expect_persistent<persistent_of(Road, 3)>(900);
  expect_persistent<persistent_of(Road, 4)>(400, 0.02);
  expect_persistent<persistent_of(Road, 5)>(700, 0.05);
}
TEST(FusedPersistent, WithARingOfWeights) { expect_road<WeightRoad::BulkRefill>(); }
TEST(FusedPersistent, WithResidentWeights) { expect_road<WeightRoad::Resident>(); }

template <WeightRoad Road>
void expect_edges_of() {
  expect_edges<persistent_of(Road, 0)>(64, {.queries = 300}, 9);
  expect_edges<persistent_of(Road, 3)>(128, {.queries = 700}, 9);
  expect_edges<persistent_of(Road, 5)>(128, {.queries = 500, .density = 0.02}, 9);
}
TEST(FusedPersistent, Edges) {
  expect_edges_of<WeightRoad::BulkRefill>();
  expect_edges_of<WeightRoad::Resident>();
}

}  // namespace
}  // namespace minuet
