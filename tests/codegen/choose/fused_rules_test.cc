// How the Spec of a fused kernel follows from the rows and the channels.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

TEST(FusedChoice, RowNumbersAreStagedWhereNothingElseHidesTheWaits) {
  const auto chosen = [](i32 channels, i64 rows, i32 edge = 3, const char* arch = "sm_90a") {
    ConvolutionProblem problem = example_problem(channels, channels, DType::F16);
    problem.kernel_size = {edge, edge, edge, 1};
    return choose_fused(problem, arch, rows).fused;
  };
  EXPECT_TRUE(chosen(32, 40000).staged_rows);
  EXPECT_TRUE(chosen(32, 40000, 3, "sm_80").staged_rows);
  EXPECT_FALSE(chosen(32, 1000000).staged_rows) << "there are many warps";
  EXPECT_FALSE(chosen(4, 40000).staged_rows) << "steps cover several offsets";
  EXPECT_FALSE(chosen(64, 1000000).staged_rows) << "there are many blocks";
  EXPECT_TRUE(chosen(128, 20000).staged_rows);
  EXPECT_TRUE(chosen(128, 1000000).staged_rows) << "blocks are alone on a multiprocessor";
  EXPECT_FALSE(chosen(128, 20000, 2).staged_rows) << "there are few offsets";
  EXPECT_FALSE(chosen(128, 20000, 5).staged_rows) << "there are too many offsets";
  const FusedSpec narrow = chosen(96, 30000);
  EXPECT_TRUE(narrow.staged_rows);
  EXPECT_EQ(narrow.weights, WeightRoad::BulkCopy);
  EXPECT_EQ(narrow.warps, 4);
  EXPECT_EQ(narrow.blocks, 3);
  EXPECT_EQ(chosen(96, 1000000).weights, WeightRoad::BulkRefill);
  EXPECT_FALSE(chosen(96, 45000).staged_rows) << "other blocks of the multiprocessor hide the waits";
  EXPECT_FALSE(chosen(32, 70000).staged_rows) << "other warps hide the waits";
  EXPECT_TRUE(chosen(16, 70000).staged_rows) << "steps are short";
}

/// One row on each side of what a rule names.
TEST(FusedChoice, ManyRowsHaveOtherBlocks) {
  struct Case {
    i32 in, out;
    i64 rows;
    i32 warps, blocks;
    bool staged_rows;
  };
  for (const Case& one : {Case{96, 96, 500000, 8, 2, false},
                          {96, 96, 1000000, 4, 4, false},
                          {128, 96, 500000, 4, 3, false},
                          {128, 96, 1000000, 4, 3, false},
                          {128, 192, 1000000, 12, 1, false},
                          {256, 256, 500000, 12, 1, true},
                          {256, 256, 1000000, 4, 3, false},
                          {32, 64, 500000, 2, 12, false},
                          {32, 64, 1000000, 16, 1, true},
                          {32, 48, 1000000, 4, 7, true}}) {
    const FusedSpec spec =
        choose_fused(example_problem(one.in, one.out, DType::F16), "sm_90a", one.rows).fused;
    EXPECT_EQ(std::tuple(spec.warps, spec.blocks, spec.staged_rows),
              std::tuple(one.warps, one.blocks, one.staged_rows))
        << one.in << " " << one.out << " " << one.rows;
  }
  const auto stages_of = [](i32 in, i64 rows) {
    ConvolutionProblem problem = example_problem(in, 96, DType::F16);
    problem.input_type = problem.output_type = DType::U8;
    const FusedSpec spec = choose_fused(problem, "sm_90a", rows).fused;
    return std::pair(spec.blocks, spec.stages);
  };
  EXPECT_EQ(stages_of(96, 500000), std::pair(4, 5));
  EXPECT_EQ(stages_of(96, 1000000), std::pair(4, 2));
  EXPECT_EQ(stages_of(128, 1000000), std::pair(4, 2));
  // Blocks share rows only if they leave many multiprocessors idle, and fewer if they have more columns.
  EXPECT_EQ(choose_fused(example_problem(128, 128, DType::F16), "sm_90a", 16000).fused.cluster, 2);
  EXPECT_EQ(choose_fused(example_problem(128, 192, DType::F16), "sm_90a", 16000).fused.cluster, 1);
}

/// Layers that differ in their channels, rows or shortcut from those that were measured keep blocks of one
/// tile.
TEST(FusedChoice, BlocksArePersistentWhereThatWasFaster) {
  const auto chosen = [](i32 in, i32 out, i64 rows, bool shortcut, std::optional<DType> integers = {}) {
    ConvolutionProblem problem = example_problem(in, out, DType::F16);
    problem.shortcut = shortcut;
    problem.covered_output = problem.output;
    problem.input_type = problem.output_type = integers;
    if (shortcut) problem.shortcut_type = integers;
    return choose_fused(problem, "sm_90a", rows).fused;
  };
  for (const std::optional<DType> integers : {std::optional<DType>(), std::optional(DType::U8)}) {
    const FusedSpec spec = chosen(128, 96, 1000000, true, integers);
    EXPECT_TRUE(spec.persistent);
    EXPECT_FALSE(llvm::errorToBool(validate_spec(spec)));
    EXPECT_EQ(std::tuple(spec.warps, spec.blocks, spec.stages, spec.staged_rows),
              integers ? std::tuple(4, 4, 3, true) : std::tuple(4, 3, 2, true));
    EXPECT_EQ(spec.weights, WeightRoad::BulkRefill);
    EXPECT_FALSE(chosen(128, 96, 1000000, false, integers).persistent);
    EXPECT_FALSE(chosen(128, 96, 500000, true, integers).persistent);
    EXPECT_FALSE(chosen(96, 96, 1000000, true, integers).persistent);
    EXPECT_FALSE(chosen(128, 128, 1000000, true, integers).persistent);
    EXPECT_FALSE(chosen(256, 96, 1000000, true, integers).persistent);
    EXPECT_FALSE(chosen(32, 64, 1000000, true, integers).persistent);
  }
  const FusedSpec resident = chosen(32, 64, 1000000, false);
  EXPECT_EQ(resident.weights, WeightRoad::Resident);
  EXPECT_FALSE(llvm::errorToBool(validate_spec(resident)));
  EXPECT_EQ(chosen(32, 64, 500000, false).weights, WeightRoad::Cached);
  EXPECT_EQ(chosen(32, 64, 1000000, false, DType::U8).weights, WeightRoad::Cached);
  EXPECT_EQ(chosen(32, 96, 1000000, false).weights, WeightRoad::Cached);
}

TEST(FusedChoice, PersistentBlocksNeedWhatTheKernelAssumes) {
  FusedSpec ring = choose_fused(example_problem(96, 96, DType::F16), "sm_90a", 1000000).fused;
  ring.staged_rows = ring.persistent = true, ring.residual = false;
  const auto is_valid = [](const FusedSpec& base, auto change) {
    FusedSpec spec = base;
    change(spec);
    return !llvm::errorToBool(validate_spec(spec));
  };
  const auto none = [](FusedSpec&) {};
  EXPECT_TRUE(is_valid(ring, none));
  EXPECT_FALSE(is_valid(ring, [](FusedSpec& spec) { spec.warps = 8, spec.blocks = 2; })) << "one warpgroup";
  EXPECT_FALSE(is_valid(ring, [](FusedSpec& spec) { spec.weights = WeightRoad::BulkCopy; }));
  EXPECT_FALSE(is_valid(ring, [](FusedSpec& spec) { spec.staged_rows = false; }));
  EXPECT_FALSE(is_valid(ring, [](FusedSpec& spec) { spec.volume = 33; })) << "masks of one word";
  EXPECT_FALSE(is_valid(ring, [](FusedSpec& spec) { spec.stages = 8; })) << "four blocks do not fit";
  EXPECT_FALSE(is_valid(ring, [](FusedSpec& spec) { spec.residual = true; })) << "too few registers";
  const FusedSpec resident = choose_fused(example_problem(32, 64, DType::F16), "sm_90a", 1000000).fused;
  EXPECT_TRUE(is_valid(resident, none));
  EXPECT_FALSE(is_valid(resident, [](FusedSpec& spec) { spec.persistent = false; }));
  EXPECT_FALSE(is_valid(resident, [](FusedSpec& spec) { spec.columns = 32; }));
  EXPECT_FALSE(is_valid(resident, [](FusedSpec& spec) { spec.shortcut = true; }));
}

TEST(FusedChoice, StepsMultiplyWholeRowsWhereBlocksOfEightWarpsAreEnough) {
  const auto chosen = [](i32 in, i32 out, i64 rows) {
    return choose_fused(example_problem(in, out, DType::F16), "sm_90a", rows).fused;
  };
  // Two waves of twelve warps are two waves of eight, which have registers for whole rows.
  EXPECT_EQ(chosen(256, 256, 7900).step, 256);
  EXPECT_EQ(chosen(256, 256, 7900).warps, 8);
  EXPECT_EQ(chosen(192, 128, 6400).step, 192);
  EXPECT_EQ(chosen(144, 112, 2000).step, 160) << "a multiple of what a product takes";
  // One wave of twelve warps stays.
  EXPECT_EQ(chosen(256, 256, 2900).step, 128);
  EXPECT_EQ(chosen(256, 256, 2900).warps, 12);
  EXPECT_EQ(chosen(384, 256, 7900).step, 128) << "the registers do not suffice";
}

}  // namespace
}  // namespace minuet
