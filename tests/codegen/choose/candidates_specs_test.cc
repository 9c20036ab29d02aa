// What is refused, and what the dataflows choose: for every size of layer Specs that their kernels take.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "codegen/choose/ops/batch_norm.h"
#include "codegen/choose/ops/pooling.h"
#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

using testing::HasSubstr;

TEST(Candidates, WhatCannotBeIsRefusedWithItsReason) {
  struct Case {
    std::function<void(ConvolutionProblem&)> spoil;
    StatusCode code;
    const char* reason;
  };
  const Case cases[] = {
      {[](auto& p) { p.ndim = 0; }, StatusCode::InvalidArgument, "ndim is 0"},
      {[](auto& p) { p.ndim = kMaxDim + 1; }, StatusCode::InvalidArgument, "ndim is 5"},
      {[](auto& p) { p.in_channels = 0; }, StatusCode::InvalidArgument, "channels"},
      {[](auto& p) { p.out_channels = -1; }, StatusCode::InvalidArgument, "channels"},
      {[](auto& p) { p.kernel_size[1] = 0; }, StatusCode::InvalidArgument, "axis 1"},
      {[](auto& p) { p.dilation[2] = 0; }, StatusCode::InvalidArgument, "axis 2"},
      {[](auto& p) { p.kernel_size[3] = 3; }, StatusCode::InvalidArgument, "axis 3"},
      {[](auto& p) { p.stride[0] = 2; }, StatusCode::InvalidArgument, "stride must be 1"},
      {[](auto& p) {
         p.kernel_size = {1024, 1024, 1024, 1};
       },
       StatusCode::InvalidArgument, "offsets"},
      {[](auto& p) { p.groups = 3; }, StatusCode::InvalidArgument, "groups must divide both"},
      {[](auto& p) { p.groups = 0; }, StatusCode::InvalidArgument, "groups is 0"}};
  EXPECT_FALSE(llvm::errorToBool(validate(example_problem())));
  for (const Case& one : cases) {
    ConvolutionProblem problem = example_problem();
    one.spoil(problem);
    const StatusError status = take_status(validate(problem));
    EXPECT_EQ(status.code(), one.code) << one.reason;
    EXPECT_THAT(status.message(), HasSubstr(one.reason));
    EXPECT_EQ(take_status(choose_candidates(problem, {"", nullptr}).takeError()).message(), status.message());
  }
}

PoolingProblem make_pooling() {
  PoolingProblem pooling;
  pooling.channels = 64;
  pooling.kind = ConvolutionKind::Strided;
  pooling.kernel_size = pooling.stride = {2, 2, 2, 1};
  return pooling;
}

/// Each type of op refuses with its own reason, also where its type is not known.
TEST(Candidates, WhatIsNotBuiltIsRefusedByItsOp) {
  const auto refuse = [](const OpProblem& op, StatusCode code, const char* reason) {
    const StatusError status = take_status(validate(op));
    EXPECT_EQ(status.code(), code) << reason;
    EXPECT_THAT(status.message(), HasSubstr(reason));
    const StatusError chosen = take_status(choose_candidates(op, {"sm_90a", nullptr}).takeError());
    EXPECT_EQ(chosen.code(), code);
    EXPECT_EQ(chosen.message(), status.message());
  };
  PoolingProblem pooling = make_pooling();
  for (const Reduction reduction : {Reduction::Max, Reduction::Average, Reduction::Sum}) {
    pooling.reduction = reduction;
    EXPECT_FALSE(llvm::errorToBool(validate(OpProblem(pooling))));
  }
  for (const Reduction reduction : {Reduction::Average, Reduction::Sum}) {
    pooling.reduction = reduction;
    pooling.winners = true;
    refuse(pooling, StatusCode::InvalidArgument, "only a maximum has winners");
  }
  pooling.reduction = Reduction::Max;
  EXPECT_FALSE(llvm::errorToBool(validate(OpProblem(pooling))));
  pooling.channels = 0;
  refuse(pooling, StatusCode::InvalidArgument, "channels are 0");
  pooling = make_pooling();
  pooling.stride[1] = 0;
  refuse(pooling, StatusCode::InvalidArgument, "axis 1");
  ConvolutionProblem grouped = example_problem();
  grouped.groups = 5;
  refuse(grouped, StatusCode::InvalidArgument, "groups is 5");
  EXPECT_FALSE(llvm::errorToBool(validate(OpProblem(example_problem()))));
}

/// The lanes of batch norms cover all channels, divide the threads, and leave at most half of a block idle.
TEST(BatchNormChoice, LanesCoverTheChannels) {
  for (const DType dtype : kDTypes) {
    for (i32 channels = 1; channels <= 300; ++channels) {
      BatchNormProblem problem;
      problem.dtype = dtype, problem.channels = channels;
      ASSERT_FALSE(llvm::errorToBool(validate(problem)));
      const SumMomentsSpec spec = choose_batch_norm(problem).sum;
      const i32 elements = spec.vector_bytes / dtype_bytes(dtype);
      EXPECT_EQ(channels % elements, 0);
      EXPECT_EQ(spec.threads % spec.lanes, 0);
      EXPECT_LE(elements * spec.lanes, spec.threads) << "a thread finishes a channel";
      EXPECT_EQ(spec.threads % 32, 0);
      EXPECT_LE(kLeastNormRows, kNormBatch * (spec.threads / spec.lanes))
          << "all rows of a piece are loaded at once";
      EXPECT_EQ(choose_batch_norm(problem).sum_gradients.threads, spec.threads);
      EXPECT_LT(norm_groups(spec, channels) * elements * spec.lanes, 2 * channels);
    }
  }
}

/// Every Spec that is chosen meets the static_asserts of its kernel, for all small channel counts.
TEST(GmasChoice, TilesAndVectorsDivideEveryRow) {
  for (const DType dtype : kDTypes) {
    const i32 bytes = dtype_bytes(dtype);
    for (i32 channels = 1; channels <= 160; ++channels) {
      for (const i32 column : {0, 1, 4}) {
        SCOPED_TRACE(testing::Message() << "dtype " << static_cast<int>(dtype) << " channels " << channels
                                        << " column " << column);
        ConvolutionProblem problem = example_problem(channels, channels, dtype);
        problem.input = problem.output = {channels + column, column};
        const GmasChoice choice = choose_gmas(problem);
        const auto check = [&](i32 tile, i32 vector_bytes) {
          EXPECT_EQ(channels % tile, 0);
          EXPECT_EQ(tile * bytes % vector_bytes, 0);
          EXPECT_GE(vector_bytes, bytes);
          EXPECT_EQ((channels + column) * bytes % vector_bytes, 0) << "rows start aligned";
          EXPECT_EQ(column * bytes % vector_bytes, 0);
        };
        check(choice.gather.tile, choice.gather.vector_bytes);
        check(choice.scatter.tile, choice.scatter.vector_bytes);
        const i64 slice = i64{channels} * channels * bytes;
        EXPECT_EQ(slice % choice.permute_weights.vector_bytes, 0);
      }
    }
  }
}

TEST(GmasChoice, AlignedRowsUseTheWidestAccess) {
  const GmasChoice choice = choose_gmas(example_problem());
  EXPECT_EQ(choice.gather.vector_bytes, 16);
  EXPECT_EQ(choice.scatter.vector_bytes, 16);
}

TEST(GmasChoice, TheCentreIsReadInPlaceWhereItCoversEveryRow) {
  EXPECT_TRUE(choose_gmas(example_problem()).direct_center);
  EXPECT_FALSE(choose_gmas(example_problem(64, 64, DType::TF32)).direct_center);
  ConvolutionProblem strided = example_problem();
  strided.kind = ConvolutionKind::Strided;
  strided.stride = {2, 2, 2, 1};
  EXPECT_FALSE(choose_gmas(strided).direct_center);
}

TEST(GmasChoice, EveryChoiceHasItsReasonsAndKernels) {
  const GmasChoice choice = choose_gmas(example_problem());
  EXPECT_GE(choice.reasons.size(), 2u);
  EXPECT_EQ(sources_of(OpChoice(choice)).size(), 4u);
}

// ---- fused

/// What the kernel asserts, and what every architecture has.
void expect_possible(const FusedSpec& spec) {
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

constexpr FusedFeatures kAllMeans{.warpgroups = true, .programmatic = true};

TEST(FusedChoice, EverySizeHasASpec) {
  for (DType dtype : kDTypes) {
    for (const i32 in :
         {1, 2, 3, 4, 5, 8, 9, 16, 17, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 1000, 1024, 4096}) {
      for (const i32 out : {1, 8, 24, 32, 96, 100, 128, 160, 1024, 65536}) {
        for (const i64 rows : {0, 100, 20000, 1000000}) {
          for (const char* arch : {"sm_80", "sm_90a", "compute_120"}) {
            for (const FusedFeatures& means : {FusedFeatures{}, kAllMeans}) {
              const FusedSpec spec = choose_fused(example_problem(in, out, dtype), arch, rows, means).fused;
              expect_possible(spec);
              ASSERT_FALSE(HasFailure()) << display_name(spec);  // a name takes as long as all of the rest
            }
          }
        }
      }
    }
  }
}

TEST(FusedChoice, ChannelsAreNotPaddedWithoutNeed) {
  for (const i32 channels : {32, 48, 64, 80, 96, 128, 160, 192, 256, 320, 1024}) {
    const FusedSpec spec = choose_fused(example_problem(channels, channels, DType::F16), "sm_90", 0).fused;
    EXPECT_EQ(fused_offset_depth(spec), channels);
    EXPECT_EQ(fused_column_blocks(spec) * spec.columns, channels);
  }
}

TEST(FusedChoice, WeightsComeAsTheArchitectureCan) {
  const auto road = [](i32 channels, const char* arch) {
    return choose_fused(example_problem(channels, channels, DType::F16), arch, 20000).fused.weights;
  };
  EXPECT_EQ(road(32, "sm_90a"), WeightRoad::Cached);
  EXPECT_EQ(road(64, "sm_80"), WeightRoad::AsyncCopy);
  EXPECT_EQ(road(64, "sm_89"), WeightRoad::AsyncCopy);
  EXPECT_EQ(emit(choose_fused(example_problem(64, 64, DType::F16), "sm_80", 0).fused).least_sm, 80);
  for (const char* arch : {"sm_80", "sm_90a", "sm_120"}) {
    for (const KernelSource& source :
         sources_of(OpChoice(choose_fused(example_problem(64, 64, DType::F16), arch, 0))))
      EXPECT_EQ(missing_arch(source, arch), "");
  }
}

TEST(FusedChoice, WeightsComeFromTheCacheWhereManyBlocksReadFew) {
  const auto road = [](i32 in, i32 out, i32 edge, i64 rows, DType dtype = DType::F16) {
    ConvolutionProblem problem = example_problem(in, out, dtype);
    problem.kernel_size = {edge, edge, edge, 1};
    return choose_fused(problem, "sm_90a", rows).fused.weights;
  };
  EXPECT_EQ(road(16, 128, 3, 100000), WeightRoad::Cached);
  EXPECT_EQ(road(32, 96, 3, 0), WeightRoad::Cached);
  EXPECT_EQ(road(32, 96, 3, 1000), WeightRoad::BulkCopy);
  EXPECT_EQ(road(48, 96, 3, 100000), WeightRoad::BulkCopy);
  EXPECT_EQ(road(96, 20, 1, 100000), WeightRoad::Cached);
  EXPECT_EQ(road(96, 20, 1, 20000), WeightRoad::BulkCopy);
  EXPECT_EQ(road(96, 20, 3, 100000), WeightRoad::BulkCopy);
  EXPECT_EQ(road(1024, 20, 1, 100000), WeightRoad::BulkCopy);
  EXPECT_EQ(road(32, 512, 3, 100000), WeightRoad::BulkCopy);
  EXPECT_EQ(road(8, 128, 3, 100000), WeightRoad::BulkCopy);
  EXPECT_EQ(road(96, 20, 1, 100000, DType::F32), WeightRoad::BulkCopy);
}

TEST(FusedChoice, MeansAreUsedWhereTheyAreAndWhereTheyPay) {
  const auto chosen = [](DType dtype, i32 in, i32 out, const char* arch, i64 rows, FusedFeatures means) {
    return choose_fused(example_problem(in, out, dtype), arch, rows, means).fused;
  };
  EXPECT_EQ(chosen(DType::F16, 256, 256, "sm_90a", 8000, {.warpgroups = false}).unit, MmaUnit::Warp);
  EXPECT_EQ(chosen(DType::F16, 256, 256, "sm_90a", 8000, {}).unit, MmaUnit::Warpgroup);
  EXPECT_TRUE(chosen(DType::F16, 256, 256, "sm_90a", 8000, {}).programmatic);
  EXPECT_FALSE(chosen(DType::F16, 256, 256, "sm_90a", 8000, {.programmatic = false}).programmatic);
  for (const char* arch : {"sm_80", "sm_90", "sm_100", "sm_120"})
    EXPECT_EQ(chosen(DType::F16, 256, 256, arch, 8000, kAllMeans).unit, MmaUnit::Warp) << arch;
  EXPECT_FALSE(chosen(DType::F16, 256, 256, "sm_89", 20000, kAllMeans).programmatic);
  EXPECT_TRUE(chosen(DType::F16, 32, 32, "sm_120", 20000, kAllMeans).programmatic);
  EXPECT_EQ(chosen(DType::F32, 256, 256, "sm_90a", 8000, kAllMeans).unit, MmaUnit::Warp);
  EXPECT_EQ(chosen(DType::F16, 48, 128, "sm_90a", 20000, kAllMeans).unit, MmaUnit::Warp);
  EXPECT_EQ(chosen(DType::F16, 64, 128, "sm_90a", 20000, kAllMeans).unit, MmaUnit::Warpgroup);
  EXPECT_EQ(chosen(DType::TF32, 256, 256, "sm_90a", 20000, kAllMeans).unit, MmaUnit::Warp);
  // Few rows: blocks of a cluster share them.
  EXPECT_EQ(chosen(DType::F16, 256, 256, "sm_90a", 2900, kAllMeans).cluster, 4);
  EXPECT_EQ(chosen(DType::F16, 256, 256, "sm_90a", 8000, kAllMeans).cluster, 2);
  EXPECT_EQ(chosen(DType::F16, 256, 256, "sm_90a", 125000, kAllMeans).cluster, 1);
  EXPECT_EQ(chosen(DType::F16, 256, 256, "sm_90a", 0, kAllMeans).cluster, 1);
  // Fewer still: blocks of fewer rows run at once too, then of fewer columns, where there are many offsets.
  EXPECT_EQ(chosen(DType::F16, 256, 256, "sm_90a", 1700, kAllMeans).warps, 8);
  EXPECT_EQ(chosen(DType::F16, 256, 256, "sm_90a", 2900, kAllMeans).warps, 12);
  EXPECT_EQ(chosen(DType::F16, 256, 256, "sm_90a", 600, kAllMeans).columns, 32);
  EXPECT_EQ(chosen(DType::F16, 128, 256, "sm_90a", 600, kAllMeans).columns, 64);
  EXPECT_EQ(chosen(DType::F16, 256, 256, "sm_90a", 3000, {.warpgroups = false}).columns, 64);
  // A wave and a half: larger blocks are one.
  EXPECT_EQ(chosen(DType::F16, 256, 256, "sm_90a", 15600, kAllMeans).warps, 16);
  // So few that smaller blocks are better, and no cluster has enough to do.
  ConvolutionProblem strided = example_problem(128, 128, DType::F16);
  strided.kind = ConvolutionKind::Strided;
  strided.kernel_size = strided.stride = {2, 2, 2, 1};
  EXPECT_EQ(choose_fused(strided, "sm_90a", 2900).fused.unit, MmaUnit::Warp);
  EXPECT_EQ(choose_fused(strided, "sm_90a", 29000).fused.unit, MmaUnit::Warpgroup);
  // Of few offsets twice the blocks, or four times, where all run at once.
  EXPECT_EQ(choose_fused(strided, "sm_90a", 8000).fused.cluster, 2);
  EXPECT_EQ(choose_fused(strided, "sm_90a", 9000).fused.cluster, 1);
  ConvolutionProblem narrow = strided, wide = strided;
  narrow.in_channels = narrow.out_channels = 64;
  EXPECT_EQ(choose_fused(narrow, "sm_90a", 8000).fused.cluster, 2);
  EXPECT_EQ(choose_fused(narrow, "sm_90a", 9000).fused.cluster, 1);
  wide.in_channels = wide.out_channels = 256;
  EXPECT_EQ(choose_fused(wide, "sm_90a", 1500).fused.cluster, 4);
  EXPECT_EQ(choose_fused(wide, "sm_90a", 3000).fused.cluster, 2);
  // The smallest run three at once; of one offset there is no second wave of smaller blocks.
  ConvolutionProblem up = strided;
  up.kind = ConvolutionKind::Transposed;
  EXPECT_EQ(choose_fused(strided, "sm_90a", 15000).fused.warps, 8);
  EXPECT_EQ(choose_fused(strided, "sm_90a", 20000).fused.warps, 4);
  EXPECT_EQ(choose_fused(strided, "sm_90a", 20000).fused.blocks, 3);
  wide.out_channels = 640;
  EXPECT_EQ(choose_fused(wide, "sm_90a", 3600).fused.blocks, 3);
  EXPECT_EQ(choose_fused(wide, "sm_90a", 3600).fused.cluster, 1);
  EXPECT_EQ(choose_fused(strided, "sm_90a", 30000).fused.warps, 12);
  EXPECT_EQ(choose_fused(up, "sm_90a", 20000).fused.warps, 12);
  EXPECT_EQ(choose_fused(up, "sm_90a", 8000).fused.warps, 8);
  EXPECT_EQ(choose_fused(up, "sm_90a", 8000).fused.cluster, 1);
  const FusedSpec spec = chosen(DType::BF16, 384, 256, "sm_90a", 8000, kAllMeans);
  EXPECT_EQ(spec.unit, MmaUnit::Warpgroup);
  EXPECT_EQ(spec.columns, 128);
  EXPECT_EQ(spec.step, 128);
  EXPECT_EQ(emit(spec).exact_arch, "sm_90a");
}

/// Every number of rows has the Spec that is chosen for it.
TEST(FusedChoice, WarpgroupsHaveACandidateForEveryRange) {
  for (const i32 channels : {96, 256, 512}) {
    const ConvolutionProblem problem = example_problem(channels, channels, DType::F16);
    const std::vector<Candidate> candidates =
        llvm::cantFail(convolution_candidates(problem, "sm_90a", nullptr, Dataflow::Fused, kAllMeans));
    ASSERT_GE(candidates.size(), 2u);
    for (i64 rows = 4; rows < i64{1} << 30; rows *= 2) {
      const auto chosen_for = [&](i64 middle) {
        return display_name(choose_fused(problem, "sm_90a", middle, kAllMeans).fused);
      };
      EXPECT_EQ(select(candidates, rows, {}).kernel, chosen_for(rows + rows / 4)) << rows;
      EXPECT_EQ(select(candidates, rows + rows / 2, {}).kernel, chosen_for(rows + rows / 2 + rows / 4))
          << rows;
    }
  }
}

/// Of any channels, rows, kernel and kind.
TEST(FusedChoice, WhatIsChosenIsValid) {
  for (const auto kind :
       {ConvolutionKind::Submanifold, ConvolutionKind::Strided, ConvolutionKind::Transposed}) {
    for (const DType dtype : {DType::F16, DType::F32, DType::U8}) {
      for (const i32 in : {1, 8, 12, 16, 32, 33, 64, 120, 130, 144, 257, 1024}) {
        for (const i32 out : {3, 16, 24, 64, 80, 96, 112, 176, 512}) {
          for (const i32 edge : {1, 2, 3, 5}) {
            const bool has_integers = dtype == DType::U8;
            ConvolutionProblem problem = example_problem(in, out, has_integers ? DType::F16 : dtype);
            if (has_integers) problem.input_type = problem.output_type = problem.shortcut_type = dtype;
            problem.kind = kind;
            problem.kernel_size = {edge, edge, edge, 1};
            problem.shortcut = in != out && !problem.residual;
            problem.second_output = !problem.shortcut;
            problem.covered_output = problem.output;
            for (i64 rows = 0; rows <= i64{1} << 21; rows = rows * 7 / 3 + 1) {
              for (const char* arch : {"sm_80", "sm_90a"}) {
                const FusedSpec spec = choose_fused(problem, arch, rows).fused;
                EXPECT_EQ(take_status(validate_spec(spec)).message(), "")
                    << display_name(spec) << " " << arch;
                EXPECT_TRUE(runs_on(spec, arch)) << display_name(spec) << " " << arch;
              }
            }
          }
        }
      }
    }
  }
}

TEST(FusedChoice, AShortcutHasAnOffsetInTheMiddle) {
  ConvolutionProblem problem = example_problem(64, 96, DType::F16);
  EXPECT_FALSE(choose_fused(problem, "sm_90a", 5000).fused.shortcut);
  problem.shortcut = true;
  problem.covered_output = {100, 2};
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const FusedChoice choice = choose_fused(problem, arch, 5000);
    EXPECT_TRUE(choice.fused.shortcut) << arch;
    EXPECT_EQ(choice.fused.output_bytes, 4) << arch;
    EXPECT_FALSE(llvm::errorToBool(validate_spec(choice.fused))) << arch;
  }
  EXPECT_FALSE(choose_fused(problem, "", 5000).fused.shortcut) << "the CPU runs it by itself";
  problem.kernel_size = {3, 2, 3, 1};
  EXPECT_FALSE(choose_fused(problem, "sm_90a", 5000).fused.shortcut);
  problem.kernel_size = {3, 3, 3, 1};
  problem.in_channels = 8;
  EXPECT_FALSE(choose_fused(problem, "sm_90a", 5000).fused.shortcut) << "steps take several offsets";
  FusedSpec spec = choose_fused(example_problem(64, 96, DType::F16), "sm_90a", 5000).fused;
  spec.shortcut = spec.residual = true;
  EXPECT_TRUE(llvm::errorToBool(validate_spec(spec)));
}

TEST(FusedChoice, AShortcutIsAtTheCentreInTheMiddleOfAList) {
  ConvolutionProblem problem = example_problem(64, 96, DType::F16);
  problem.kernel_size = {1, 1, 1, 1};
  problem.shortcut = true;
  problem.covered_output = {100, 2};
  const auto takes = [&](OffsetList offsets) {
    problem.offsets = std::move(offsets);
    return choose_fused(problem, "sm_90a", 5000).fused.shortcut;
  };
  EXPECT_TRUE(takes({{0, 1, 0, 0}, {0, 0, 0, 0}, {5, 0, 0, 0}}));
  EXPECT_FALSE(takes({{0, 0, 0, 0}, {0, 1, 0, 0}, {5, 0, 0, 0}})) << "the centre is not in the middle";
  EXPECT_FALSE(takes({{0, 1, 0, 0}, {0, 2, 0, 0}, {5, 0, 0, 0}})) << "there is no centre";
  EXPECT_FALSE(takes({{0, 1, 0, 0}, {0, 0, 0, 0}})) << "two offsets have no middle";
  problem.kind = ConvolutionKind::Strided;
  EXPECT_FALSE(takes({{0, 1, 0, 0}, {0, 0, 0, 0}, {5, 0, 0, 0}}));
}

TEST(Choices, ASecondOutputIsOfBothDataflows) {
  ConvolutionProblem problem = example_problem(64, 64, DType::F16);
  problem.second_output = true;
  problem.second_activation = Activation::Silu;
  problem.covered_output = {100, 2};
  for (const char* arch : {"", "sm_80", "sm_90a"}) {
    for (const Dataflow dataflow : {Dataflow::GatherGemmScatter, Dataflow::Fused}) {
      for (const Candidate& candidate :
           llvm::cantFail(convolution_candidates(problem, arch, nullptr, dataflow))) {
        EXPECT_EQ(candidate.covers, 1) << arch;
        EXPECT_THAT(candidate.reasons, testing::Contains(kSecondOutputReason)) << arch;
      }
    }
    const FusedSpec fused = choose_fused(problem, arch, 5000).fused;
    const ScatterSpec scatter = choose_gmas(problem).scatter;
    EXPECT_TRUE(fused.second_output && scatter.second_output) << arch;
    EXPECT_EQ(fused.second_activation, Activation::Silu);
    EXPECT_EQ(scatter.second_activation, Activation::Silu);
    EXPECT_EQ(fused.output_bytes, 4);
    EXPECT_EQ(scatter.vector_bytes, 4);
    EXPECT_EQ(take_status(validate_spec(fused)).message(), "");
  }
  problem.shortcut = true;
  EXPECT_THAT(take_status(validate(problem)).message(), testing::HasSubstr("has no second output"));
  FusedSpec both = choose_fused(example_problem(64, 96, DType::F16), "sm_90a", 5000).fused;
  both.residual = false;
  both.shortcut = both.second_output = true;
  EXPECT_TRUE(llvm::errorToBool(validate_spec(both)));
}

TEST(FusedChoice, AccessesFitTheColumnsOfOperands) {
  ConvolutionProblem problem = example_problem(64, 64, DType::F16);
  problem.input = {96, 4};
  problem.output = {70, 2};
  const FusedChoice choice = choose_fused(problem, "sm_90", 0);
  EXPECT_EQ(choice.fused.input_bytes, 8);
  EXPECT_EQ(choice.fused.output_bytes, 4);
  EXPECT_FALSE(choice.reasons.empty());
}

}  // namespace
}  // namespace minuet
