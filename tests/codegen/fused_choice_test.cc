// What the fused dataflow chooses: for every size of layer a Spec that its kernel takes.
#include "codegen/fused_choice.h"

#include <gtest/gtest.h>

namespace minuet {
namespace {

ConvolutionProblem layer(DType dtype, i32 in, i32 out, i32 kernel_size = 3) {
  ConvolutionProblem problem;
  problem.dtype = dtype;
  problem.in_channels = in;
  problem.out_channels = out;
  problem.kernel_size = {kernel_size, kernel_size, kernel_size, 1};
  problem.input = {in, 0};
  problem.output = problem.residual_input = {out, 0};
  return problem;
}

/// What the kernel asserts, and what every architecture has.
void expect_possible(const FusedSpec& spec) {
  SCOPED_TRACE(display_name(spec));
  const i32 granule = fused_granule(spec.io);
  EXPECT_EQ(spec.step % granule, 0);
  if (folds_offsets(spec.io, spec.in_channels)) {
    EXPECT_EQ(spec.step % (2 * granule), 0);
  }
  EXPECT_EQ(spec.columns % 16, 0);
  EXPECT_GE(fused_offset_depth(spec), spec.in_channels);
  EXPECT_GE(fused_column_blocks(spec) * spec.columns, spec.out_channels);
  if (spec.weights != WeightRoad::Cached) {
    EXPECT_GE(spec.stages, 2 * spec.split);
    EXPECT_EQ(spec.stages % spec.split, 0);
  }
  EXPECT_LE(fused_threads(spec), 1024);
  // A lane's sums and steps of input, and of a warpgroup its operands, with some registers for all else.
  const bool of_warpgroup = spec.unit == MmaUnit::Warpgroup;
  const i32 sums = spec.columns / 4 * spec.row_tiles;
  const i32 a_step = spec.row_tiles * ((spec.step / granule + 1) / 2) * 4;
  const i32 inputs = a_step * (spec.prefetch + (of_warpgroup ? 1 : 0));
  const i32 registers = of_warpgroup ? 65536 / fused_threads(spec) / spec.blocks / 8 * 8 : 255;
  EXPECT_LE(sums + inputs, registers - (of_warpgroup ? 32 : 60));
  EXPECT_LE(fused_shared_bytes(spec) * (of_warpgroup ? spec.blocks : 1), of_warpgroup ? 227 << 10 : 99 << 10);
  if (!of_warpgroup) return;
  EXPECT_EQ(spec.step * dtype_bytes(spec.io) % 64, 0);
  EXPECT_EQ(spec.warps % 4, 0);
  EXPECT_EQ(spec.row_tiles, 2);
  EXPECT_LE(spec.columns, 128);
  EXPECT_NE(spec.io, DType::F32);
}

constexpr FusedMeans kAllMeans{.warpgroups = true, .programmatic = true};

TEST(FusedChoice, EverySizeHasASpec) {
  for (DType dtype : kDTypes) {
    for (const i32 in :
         {1, 2, 3, 4, 5, 8, 9, 16, 17, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 1000, 1024, 4096}) {
      for (const i32 out : {1, 8, 24, 32, 96, 100, 128, 160, 1024, 65536}) {
        for (const i64 rows : {0, 100, 20000, 1000000}) {
          for (const char* arch : {"sm_80", "sm_90a", "compute_120"}) {
            expect_possible(choose_fused(layer(dtype, in, out), arch, rows).fused);
            expect_possible(choose_fused(layer(dtype, in, out), arch, rows, kAllMeans).fused);
          }
        }
      }
    }
  }
}

TEST(FusedChoice, ChannelsAreNotPaddedWithoutNeed) {
  for (const i32 channels : {32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 1024}) {
    const FusedSpec spec = choose_fused(layer(DType::F16, channels, channels), "sm_90", 0).fused;
    EXPECT_EQ(fused_offset_depth(spec), channels);
    EXPECT_EQ(fused_column_blocks(spec) * spec.columns, channels);
  }
}

TEST(FusedChoice, WeightsComeAsTheArchitectureCan) {
  const auto road = [](i32 channels, const char* arch) {
    return choose_fused(layer(DType::F16, channels, channels), arch, 20000).fused.weights;
  };
  EXPECT_EQ(road(32, "sm_90a"), WeightRoad::Cached);
  EXPECT_EQ(road(64, "sm_80"), WeightRoad::AsyncCopy);
  EXPECT_EQ(road(64, "sm_89"), WeightRoad::AsyncCopy);
  EXPECT_EQ(emit(choose_fused(layer(DType::F16, 64, 64), "sm_80", 0).fused).least_sm, 80);
  for (const char* arch : {"sm_80", "sm_90a", "sm_120"}) {
    for (const KernelSource& source : sources_of(choose_fused(layer(DType::F16, 64, 64), arch, 0)))
      EXPECT_EQ(missing_arch(source, arch), "");
  }
}

TEST(FusedChoice, MeansAreUsedWhereTheyAreAndWhereTheyPay) {
  const auto chosen = [](DType dtype, i32 in, i32 out, const char* arch, i64 rows, FusedMeans means) {
    return choose_fused(layer(dtype, in, out), arch, rows, means).fused;
  };
  EXPECT_EQ(chosen(DType::F16, 128, 128, "sm_90a", 20000, {}).unit, MmaUnit::Warp);
  EXPECT_FALSE(chosen(DType::F16, 128, 128, "sm_90a", 20000, {}).programmatic);
  for (const char* arch : {"sm_80", "sm_90", "sm_100", "sm_120"})
    EXPECT_EQ(chosen(DType::F16, 128, 128, arch, 20000, kAllMeans).unit, MmaUnit::Warp) << arch;
  EXPECT_FALSE(chosen(DType::F16, 128, 128, "sm_89", 20000, kAllMeans).programmatic);
  EXPECT_TRUE(chosen(DType::F16, 32, 32, "sm_120", 20000, kAllMeans).programmatic);
  EXPECT_EQ(chosen(DType::F32, 128, 128, "sm_90a", 20000, kAllMeans).unit, MmaUnit::Warp);
  EXPECT_EQ(chosen(DType::F16, 32, 64, "sm_90a", 20000, kAllMeans).unit, MmaUnit::Warp);
  // Few rows: blocks of a cluster share them.
  EXPECT_EQ(chosen(DType::F16, 256, 256, "sm_90a", 2900, kAllMeans).cluster, 4);
  EXPECT_EQ(chosen(DType::F16, 256, 256, "sm_90a", 8000, kAllMeans).cluster, 2);
  EXPECT_EQ(chosen(DType::F16, 256, 256, "sm_90a", 125000, kAllMeans).cluster, 1);
  const FusedSpec spec = chosen(DType::F16, 96, 96, "sm_90a", 77000, kAllMeans);
  EXPECT_EQ(spec.unit, MmaUnit::Warpgroup);
  EXPECT_EQ(spec.columns, 96);
  EXPECT_EQ(spec.step, 96);
  EXPECT_EQ(emit(spec).exact_arch, "sm_90a");
}

TEST(FusedChoice, AccessesFitTheColumnsOfOperands) {
  ConvolutionProblem problem = layer(DType::F16, 64, 64);
  problem.input = {96, 4};
  problem.output = {70, 2};
  const FusedChoice choice = choose_fused(problem, "sm_90", 0);
  EXPECT_EQ(choice.fused.input_bytes, 8);
  EXPECT_EQ(choice.fused.output_bytes, 4);
  EXPECT_FALSE(choice.reasons.empty());
}

}  // namespace
}  // namespace minuet
