// The fused kernel by warpgroups, and by clusters of blocks: against plain loops in fp64, and faults that the
// shim must notice in wgmma().
#include <gmock/gmock.h>

#include "tests/kernels_templates/fused_runs.h"

namespace minuet {
namespace {

using testing::HasSubstr;

/// A Spec for these channels; the rest takes turns.
constexpr FusedSpec spec_of(DType io, i32 in, i32 out, i32 columns, i32 volume, i32 turn) {
  const i32 piece = 2 * fused_granule(io);
  FusedSpec spec;
  spec.io = io;
  spec.in_channels = in;
  spec.out_channels = out;
  spec.volume = volume;
  spec.step = turn % 2 == 0 && in > piece ? 2 * piece : piece;
  spec.columns = columns;
  spec.warps = turn % 3 == 0 ? 8 : 4;
  spec.cluster = turn % 4 == 3 ? 1 : 1 << turn % 4;
  spec.prefetch = 1 + turn % 2;
  spec.stages = 2 + turn % 3;
  spec.weights = turn % 2 == 0 ? WeightRoad::BulkRefill : WeightRoad::BulkCopy;
  spec.unit = MmaUnit::Warpgroup;
  spec.early_loads = turn / 2 % 2 == 0;
  spec.programmatic = turn % 3 == 1;
  spec.input_bytes = access_of(io, in);
  spec.output_bytes = access_of(io, out);
  spec.scale_shift = turn % 4 != 3;
  spec.residual = turn % 4 == 1;
  spec.activation = static_cast<Activation>(turn % 5 % 3);
  return spec;
}

template <DType Io, i32 Turn>
void expect_all_channels() {
  expect_fused<spec_of(Io, 32, 32, 32, 27, Turn)>({.queries = 150}, 0);
  expect_fused<spec_of(Io, 64, 64, 64, 27, Turn + 1)>({.queries = 130, .ordered = false}, 1);
  expect_fused<spec_of(Io, 96, 96, 96, 8, Turn + 2)>({.queries = 70}, 2);
  expect_fused<spec_of(Io, 128, 128, 128, 8, Turn + 3)>({.queries = 70, .ordered_views = false}, 3);
  expect_fused<spec_of(Io, 64, 20, 32, 27, Turn + 4)>({.queries = 90}, 4);
  expect_fused<spec_of(Io, 40, 80, 80, 8, Turn + 5)>({.queries = 65}, 5);
  expect_fused<spec_of(Io, 33, 112, 112, 8, Turn + 6)>({.queries = 64}, 6);
  expect_fused<spec_of(Io, 64, 48, 48, 125, Turn + 7)>({.queries = 100, .density = 0.05}, 7);
  expect_fused<spec_of(Io, 64, 160, 16, 8, Turn + 8)>({.queries = 60}, 8);
}
TEST(FusedWarpgroups, F16) { expect_all_channels<DType::F16, 0>(); }
TEST(FusedWarpgroups, Bf16) { expect_all_channels<DType::BF16, 5>(); }
TEST(FusedWarpgroups, Tf32) { expect_all_channels<DType::TF32, 10>(); }

TEST(FusedWarpgroups, EdgesAndTurns) {
  expect_edges<spec_of(DType::F16, 32, 32, 32, 27, 2)>(64, {.queries = 90}, 7);
  expect_edges<spec_of(DType::F16, 32, 64, 64, 27, 5)>(64, {.queries = 90}, 7);
  expect_edges<spec_of(DType::F16, 32, 64, 64, 27, 4)>(64, {.queries = 90}, 7);
}

constexpr FusedSpec with_shortcut(FusedSpec spec) {
  spec.residual = false;
  spec.shortcut = true;
  return spec;
}
TEST(FusedWarpgroups, Shortcuts) {
  expect_edges<with_shortcut(spec_of(DType::F16, 64, 128, 64, 27, 2))>(64, {.queries = 90}, 5);
  for (int turn = 0; turn < 3; ++turn) {
    const FusedShapeOfMap shape{.queries = 150, .empty_every = 5, .ordered_views = turn % 2 == 0};
    expect_fused<with_shortcut(spec_of(DType::BF16, 96, 48, 48, 27, 1))>(shape, turn);
    expect_fused<with_shortcut(spec_of(DType::TF32, 32, 64, 64, 125, 4))>(shape, turn);
  }
}

constexpr FusedSpec with_second_output(FusedSpec spec, Activation activation) {
  spec.second_output = true;
  spec.second_activation = activation;
  return spec;
}
TEST(FusedWarpgroups, SecondOutputs) {
  expect_edges<with_second_output(spec_of(DType::F16, 64, 128, 64, 27, 2), Activation::ReLU)>(
      64, {.queries = 90}, 5);
  for (int turn = 0; turn < 3; ++turn) {
    const FusedShapeOfMap shape{.queries = 150, .empty_every = 5, .ordered_views = turn % 2 == 0};
    expect_fused<with_second_output(spec_of(DType::BF16, 96, 48, 48, 27, 1), Activation::Silu)>(shape, turn);
    expect_fused<with_second_output(spec_of(DType::TF32, 32, 64, 64, 125, 4), Activation::None)>(shape, turn);
  }
}

/// By warps.
template <WeightRoad Road, i32 Cluster, i32 Split, i32 Volume, i32 Stages = 4>
constexpr FusedSpec kClustered{.in_channels = 32,
                               .out_channels = 96,
                               .volume = Volume,
                               .step = 32,
                               .columns = 96,
                               .row_tiles = 1,
                               .warps = 2,
                               .split = Split,
                               .cluster = Cluster,
                               .stages = Stages,
                               .weights = Road,
                               .residual = true};
TEST(FusedClusters, OfWarps) {
  expect_edges<kClustered<WeightRoad::AsyncCopy, 2, 1, 27>>(64, {.queries = 90}, 7);
  expect_edges<kClustered<WeightRoad::BulkCopy, 4, 1, 8>>(64, {.queries = 90}, 7);
  expect_edges<kClustered<WeightRoad::BulkRefill, 2, 2, 8>>(64, {.queries = 90}, 7);
  expect_edges<kClustered<WeightRoad::BulkRefill, 1, 2, 8>>(64, {.queries = 90}, 7);
  expect_edges<kClustered<WeightRoad::BulkRefill, 1, 2, 27, 8>>(64, {.queries = 90}, 7);
  for (int variant = 0; variant < 3; ++variant) {
    expect_fused<kClustered<WeightRoad::BulkRefill, 8, 1, 40>>({.queries = 50}, variant);
    expect_fused<kClustered<WeightRoad::BulkRefill, 2, 1, 125>>({.queries = 70, .density = 0.05}, variant);
  }
}

// ---- wgmma() itself -------------------------------------------------------------------------------------

enum class Fault { None, NoFence, NoCommit, NoWait, OtherOperand };

struct WgmmaParams {
  const float *a, *b;  // [64][depth], [depth][columns]
  float* sums;         // [64][columns]
};

template <DType T, i32 Tiles, Fault F>
void multiply(const WgmmaParams& p) {
  constexpr i32 kDepth = mma_depth<T>(), kColumns = 8 * Tiles, kPerWord = kDepth / kMmaWords;
  const i32 thread = static_cast<i32>(threadIdx.x), warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
  const auto word_of = [](const float* values, i32 stride) {
    if constexpr (T == DType::TF32) return round_to_tf32(bits_of(values[0]));
    if constexpr (T != DType::TF32)
      return to_16_bits<T>(values[0]) | static_cast<u32>(to_16_bits<T>(values[stride])) << 16;
  };
  unsigned char* const piece = align_wgmma(dynamic_shared());
  for (i32 i = thread; i < kColumns * kMmaWords * 2; i += kWarpgroup) {
    const i32 column = i / (kMmaWords * 2),
              word = i % (kMmaWords * 2);  // the second half is b again, negative
    const u32 value = word_of(p.b + word % kMmaWords * kPerWord * kColumns + column, kColumns);
    const u32 sign = word < kMmaWords ? 0 : T == DType::TF32 ? 0x80000000u : 0x80008000u;
    *reinterpret_cast<u32*>(piece + wgmma_place(column, word * 4)) = value ^ sign;
  }
  __syncthreads();
  u32 a[4];
  for (i32 i = 0; i < 4; ++i)
    a[i] = word_of(p.a + (warp * 16 + g + i % 2 * 8) * kDepth + (t + i / 2 * 4) * kPerWord, 1);
  float sums[Tiles][4];
  for (i32 i = 0; i < Tiles * 4; ++i) sums[i / 4][i % 4] = 1;
  if (F != Fault::NoFence) wgmma_fence();
  // Twice, and once away again.
  wgmma<T>(sums, a, wgmma_operand(piece));
  wgmma<T>(sums, a, wgmma_operand(piece));
  wgmma<T>(sums, a,
           wgmma_operand_behind(wgmma_operand(piece),
                                F == Fault::OtherOperand && warp == 1 ? 0 : kWgmmaPiece / 2));
  if (F != Fault::NoCommit) wgmma_commit();
  if (F != Fault::NoWait) wgmma_wait();
  for (i32 i = 0; i < Tiles * 4; ++i)
    p.sums[(warp * 16 + g + i % 4 / 2 * 8) * kColumns + i / 4 * 8 + 2 * t + i % 2] = sums[i / 4][i % 4];
}

template <DType T, i32 Tiles, Fault F = Fault::None>
void expect_products() {
  constexpr i32 kDepth = mma_depth<T>(), kColumns = 8 * Tiles;
  Random random(Tiles);
  std::vector<float> a(64 * kDepth), b(kDepth * kColumns), sums(64 * kColumns, -1.0f);
  for (float& x : a) x = static_cast<float>(random.between(-8, 8));
  for (float& x : b) x = static_cast<float>(random.between(-8, 8));
  shim::Grid grid{1, kWarpgroup, shim::Order::Shuffled};
  grid.shared_bytes = kColumns * kWgmmaPiece + kWgmmaAtom;
  shim::launch(&multiply<T, Tiles, F>, {a.data(), b.data(), sums.data()}, grid);
  for (i32 row = 0; row < kWgmmaRows; ++row) {
    for (i32 column = 0; column < kColumns; ++column) {
      float expected = 1;
      for (i32 k = 0; k < kDepth; ++k) expected += a[row * kDepth + k] * b[k * kColumns + column];
      ASSERT_EQ(sums[row * kColumns + column], expected) << row << ", " << column;
    }
  }
}

TEST(Wgmma, MultipliesExactly) {
  expect_products<DType::F16, 2>();
  expect_products<DType::F16, 16>();
  expect_products<DType::BF16, 12>();
  expect_products<DType::TF32, 8>();
}

template <Fault F>
std::string thrown_by() {
  try {
    expect_products<DType::F16, 4, F>();
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return {};
}
TEST(Wgmma, FaultsAreFound) {
  EXPECT_THAT(thrown_by<Fault::NoFence>(), HasSubstr("since the last fence"));
  EXPECT_THAT(thrown_by<Fault::NoCommit>(), HasSubstr("were not committed"));
  EXPECT_THAT(thrown_by<Fault::NoWait>(), HasSubstr("under way"));
  EXPECT_THAT(thrown_by<Fault::OtherOperand>(), HasSubstr("different operands"));
}

}  // namespace
}  // namespace minuet
