// These tests run the fused kernel with row numbers that each warp stages in shared memory. They compare it
// with plain loops in fp64, for all roads of the weights, units, volumes and ways to share the work.
#include "tests/kernels_templates/fused_runs.h"

namespace minuet {
namespace {

/// Returns the padding between the rows of a table that are `queries` long. Copies of 16 bytes are aligned if
/// `over` is 0, and not aligned otherwise.
constexpr i64 padding_of(i64 queries, i64 over) { return ordered_row_stride(queries) - queries + over; }

/// Tests tables whose columns are in the order of the groups, and tables whose columns are queries, with and
/// without an order. Each kind is tested with aligned and with unaligned rows.
template <FusedSpec S>
void expect_staged(i64 queries, double density = 0.3) {
  static_assert(fused_stages_rows(S));
  int variant = 0;
  for (const i64 over : {0, 3}) {
    const i64 padding = padding_of(queries, over);
    const FusedShapeOfMap ordered{.queries = queries, .density = density, .stride_padding = padding};
    FusedShapeOfMap by_query = ordered, without_order = ordered;
    by_query.ordered_views = false;
    without_order.ordered = false;
    for (FusedShapeOfMap shape : {ordered, by_query, without_order}) {
      if (S.shortcut) shape.empty_every = 5;  // the offset in the middle has pairs
      expect_fused<S>(shape, variant++);
    }
  }
}

/// Tests clouds without queries, clouds without pairs, and clouds that have one query more than their blocks
/// or groups.
template <FusedSpec S>
void expect_staged_edges() {
  int variant = 0;
  for (const i64 queries : {0, 1, 64, 65, 128, 129}) {
    expect_fused<S>({.queries = queries, .stride_padding = padding_of(queries, 0)}, variant++);
  }
  expect_fused<S>({.queries = 64, .sources = 0, .stride_padding = 0}, variant++);
  expect_fused<S>({.queries = 64, .density = 0, .stride_padding = 0}, variant++);
  expect_fused<S>({.queries = 64, .density = 1, .empty_every = 0, .stride_padding = 0}, variant++);
}

constexpr i32 kVolumes[] = {27, 2, 8, 33, 32, 125};

/// Returns a Spec whose unit is a warp. `turn` decides what the road leaves open.
constexpr FusedSpec warps_of(WeightRoad road, i32 turn) {
  FusedSpec spec;
  spec.io = turn % 4 == 0   ? DType::F16
            : turn % 4 == 1 ? DType::BF16
            : turn % 4 == 2 ? DType::TF32
                            : DType::F32;
  const i32 granule = fused_granule(spec.io);
  spec.in_channels = 3 * granule, spec.out_channels = 64;
  spec.volume = kVolumes[turn % 6];
  spec.step = turn % 2 == 0 ? 3 * granule : granule;
  spec.columns = turn % 3 == 0 ? 64 : 32;
  spec.row_tiles = 1 << turn / 2 % 4;
  spec.warps = 1 + turn % 3;
  spec.split = 1 + turn / 2 % 2;
  spec.cluster = road == WeightRoad::Cached ? 1 : 1 << turn % 2;
  spec.prefetch = 1 + turn % 4;
  spec.weights = road;
  spec.staged_rows = true;
  spec.programmatic = turn % 3 == 2;
  spec.residual = turn % 3 == 1;
  spec.shortcut = spec.volume % 2 == 1 && !spec.residual;
  return spec;
}

template <WeightRoad Road>
void expect_road() {
  expect_staged<warps_of(Road, 0)>(150);
  expect_staged<warps_of(Road, 1)>(70);
  expect_staged<warps_of(Road, 2)>(150);
  expect_staged<warps_of(Road, 3)>(140);
  expect_staged<warps_of(Road, 4)>(70);
  expect_staged<warps_of(Road, 5)>(70, 0.05);
}
TEST(FusedStagedRows, ThroughTheCache) { expect_road<WeightRoad::Cached>(); }
TEST(FusedStagedRows, ByAsynchronousCopies) { expect_road<WeightRoad::AsyncCopy>(); }
TEST(FusedStagedRows, ByAWarpThatCopies) { expect_road<WeightRoad::BulkCopy>(); }
TEST(FusedStagedRows, ByTurns) { expect_road<WeightRoad::BulkRefill>(); }

/// Returns a Spec whose unit is a warpgroup. `turn` decides what the road leaves open.
constexpr FusedSpec warpgroups_of(WeightRoad road, i32 turn) {
  FusedSpec spec;
  spec.io = turn % 2 == 0 ? DType::F16 : DType::BF16;
  spec.in_channels = 96, spec.out_channels = 64;
  spec.volume = kVolumes[turn % 6];
  spec.step = turn % 2 == 0 ? 96 : 32;
  spec.warps = turn % 2 == 0 ? 4 : 8;
  spec.cluster = turn % 3 == 0 ? 2 : 1;
  spec.prefetch = 1 + turn / 2 % 2;
  spec.stages = 3;
  spec.blocks = 1;
  spec.weights = road;
  spec.unit = MmaUnit::Warpgroup;
  spec.early_loads = turn % 3 != 1;
  spec.staged_rows = true;
  spec.programmatic = turn % 2 == 0;
  spec.residual = turn == 1 || turn == 4;
  spec.shortcut = turn == 3;
  spec.second_output = turn == 2;
  return spec;
}
TEST(FusedStagedRows, OfWarpgroups) {
  expect_staged<warpgroups_of(WeightRoad::BulkRefill, 0)>(150);
  expect_staged<warpgroups_of(WeightRoad::BulkCopy, 1)>(70);
  expect_staged<warpgroups_of(WeightRoad::BulkRefill, 2)>(70);
  expect_staged<warpgroups_of(WeightRoad::BulkCopy, 3)>(140);
  expect_staged<warpgroups_of(WeightRoad::BulkRefill, 4)>(70);
  expect_staged<warpgroups_of(WeightRoad::BulkRefill, 5)>(70, 0.05);
  expect_staged<warpgroups_of(WeightRoad::BulkCopy, 0)>(150);
}

TEST(FusedStagedRows, Edges) {
  expect_staged_edges<warps_of(WeightRoad::Cached, 0)>();
  expect_staged_edges<warps_of(WeightRoad::AsyncCopy, 5)>();
  expect_staged_edges<warps_of(WeightRoad::BulkCopy, 3)>();
  expect_staged_edges<warps_of(WeightRoad::BulkRefill, 1)>();
  expect_staged_edges<warpgroups_of(WeightRoad::BulkRefill, 0)>();
  expect_staged_edges<warpgroups_of(WeightRoad::BulkCopy, 3)>();
}

/// Layers of one offset, and those whose steps cover several, run as they do without.
TEST(FusedStagedRows, DoNotMatterWhereThereIsNothingToStage) {
  constexpr FusedSpec kOneOffset{
      .in_channels = 32, .out_channels = 48, .volume = 1, .step = 32, .columns = 48, .staged_rows = true};
  constexpr FusedSpec kFolds{
      .in_channels = 4, .out_channels = 16, .step = 64, .columns = 16, .staged_rows = true, .input_bytes = 8};
  static_assert(!fused_stages_rows(kOneOffset) && !fused_stages_rows(kFolds));
  static_assert(fused_staged_bytes(kOneOffset) == 0 && fused_staged_bytes(kFolds) == 0);
  for (int variant = 0; variant < 2; ++variant) {
    expect_fused<kOneOffset>({.queries = 70}, variant);
    expect_fused<kFolds>({.queries = 70}, variant);
  }
}

/// Memory for 27 offsets of 16 rows is 1.7 KB a warp, in front of the ring and aligned as it is.
TEST(FusedStagedRows, TakeSharedMemory) {
  FusedSpec spec;
  const i32 without = fused_shared_bytes(spec);
  EXPECT_EQ(fused_staged_bytes(spec), 0);
  spec.staged_rows = true;
  EXPECT_EQ(fused_staged_bytes(spec), 4 * 27 * 16 * 4);
  EXPECT_EQ(fused_shared_bytes(spec), without + 4 * 27 * 16 * 4);
  spec.split = 2, spec.volume = 3, spec.row_tiles = 1, spec.warps = 1;
  EXPECT_EQ(fused_staged_bytes(spec), 256);  // 2 * 3 * 8 * 4 is less than two lines
}

}  // namespace
}  // namespace minuet
