// What is chosen for convolutions with groups of channels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/choose/ops/depthwise.h"
#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

using testing::HasSubstr;

ConvolutionProblem grouped_problem(i32 in, i32 out, i32 groups, DType dtype = DType::F16) {
  ConvolutionProblem problem = example_problem(in, out, dtype);
  problem.groups = groups;
  problem.covered_output = problem.output;
  return problem;
}

TEST(Groups, LaunchesHaveWholeGroupsThatFillTheTiles) {
  struct Row {
    i32 in, out, groups, launches;
  };
  for (const Row& row :
       {Row{64, 64, 2, 2}, Row{128, 64, 4, 4}, Row{64, 64, 8, 2}, Row{64, 64, 32, 2}, Row{24, 48, 2, 1},
        Row{16, 16, 4, 1}, Row{96, 96, 3, 3}, Row{256, 16, 4, 1}, Row{256, 256, 64, 8}, Row{72, 72, 6, 2}}) {
    for (const char* arch : {"sm_80", "sm_90a"}) {
      const FusedChoice choice = choose_fused(grouped_problem(row.in, row.out, row.groups), arch, 20000);
      EXPECT_EQ(launches_of(choice), row.launches) << row.in << " " << row.groups;
      EXPECT_EQ(choice.fused.in_channels * row.launches, row.in);
      EXPECT_EQ(row.groups % row.launches, 0);
      EXPECT_EQ(take_status(validate_spec(choice.fused)).message(), "");
      EXPECT_THAT(choice.reasons.front(), HasSubstr(row.launches == row.groups ? "its own launch" : "zeros"));
    }
  }
  EXPECT_EQ(launches_of(choose_fused(example_problem(), "sm_90a", 20000)), 1);
}

TEST(Groups, AccessesFitTheChannelsOfALaunch) {
  const ConvolutionProblem problem = grouped_problem(108, 108, 3);
  const FusedChoice choice = choose_fused(problem, "sm_90a", 20000);
  ASSERT_EQ(launches_of(choice), 3);
  EXPECT_EQ(choice.fused.input_bytes, 8) << "each launch begins at a multiple of 36 channels";
  EXPECT_EQ(choice.fused.output_bytes, 8);
}

std::vector<Candidate> grouped_candidates(const ConvolutionProblem& problem, const char* arch) {
  const TuningSnapshot snapshot = example_snapshot();
  return llvm::cantFail(choose_candidates(problem, {arch, &snapshot}));
}

TEST(Groups, AutoPicksWhatExists) {
  for (const DType dtype : {DType::F32, DType::TF32, DType::F16, DType::BF16}) {
    for (const char* arch : {"", "sm_80", "sm_90a"}) {
      for (const auto& [in, groups] : {std::pair{64, 2}, {64, 64}}) {
        for (const Candidate& candidate : grouped_candidates(grouped_problem(in, 128, groups, dtype), arch)) {
          EXPECT_EQ(dataflow_of(candidate.choice), Dataflow::Fused);
          EXPECT_EQ(candidate.needs_counts, "");
          const bool is_depthwise = groups == 64 && *arch != '\0';
          EXPECT_EQ(candidate.choice.get_if<DepthwiseChoice>() != nullptr, is_depthwise);
          EXPECT_EQ(candidate.kernel.empty(), !is_depthwise) << "several launches are not one kernel";
        }
      }
    }
  }
}

TEST(Groups, WhatCannotRunThemSaysWhatCan) {
  ConvolutionProblem problem = grouped_problem(64, 64, 4);
  const auto refusal = [&] {
    llvm::Expected<std::vector<Candidate>> candidates = choose_candidates(problem, {"sm_90a"});
    EXPECT_FALSE(candidates);
    const StatusError error = take_status(candidates.takeError());
    EXPECT_EQ(error.code(), StatusCode::Unimplemented);
    return error.message();
  };
  problem.dataflow = Dataflow::GatherGemmScatter;
  EXPECT_THAT(refusal(), HasSubstr("use the fused dataflow"));
  problem.dataflow = {};
  problem.kernel_size = {17, 17, 17, 1};
  EXPECT_THAT(refusal(), HasSubstr("no other dataflow has groups"));
}

TEST(Depthwise, VectorsFitRowsAndMultiplier) {
  const auto bytes_of = [](i32 in, i32 multiplier, DType dtype, Columns input = {}) {
    ConvolutionProblem problem = grouped_problem(in, in * multiplier, in, dtype);
    if (input.ld != 0) problem.input = input;
    return choose_depthwise(problem).kernel.vector_bytes;
  };
  EXPECT_EQ(bytes_of(64, 1, DType::F16), 16);
  EXPECT_EQ(bytes_of(64, 1, DType::TF32), 16);
  EXPECT_EQ(bytes_of(64, 4, DType::F16), 16);
  EXPECT_EQ(bytes_of(3, 16, DType::F16), 16);
  EXPECT_EQ(bytes_of(64, 3, DType::F16), 2) << "8 outputs are not of whole inputs";
  EXPECT_EQ(bytes_of(12, 1, DType::F16), 8);
  EXPECT_EQ(bytes_of(5, 1, DType::BF16), 2);
  EXPECT_EQ(bytes_of(64, 1, DType::F16, {66, 2}), 4) << "input rows begin at multiples of 4 bytes";
  EXPECT_EQ(bytes_of(64, 4, DType::F16, {66, 2}), 16);
}

/// Every row and vector has one thread, whatever the widths.
TEST(Depthwise, ItemsCoverRows) {
  for (const i32 channels : {1, 5, 8, 40, 64, 256, 264, 2048}) {
    DepthwiseSpec spec = choose_depthwise(grouped_problem(channels, channels, channels)).kernel;
    for (const i64 rows : {0, 1, 3, 4, 17, 1000}) {
      const i64 tile = i64{depthwise_slots(spec)} * spec.rows * depthwise_vectors(spec);
      EXPECT_GE(depthwise_items(spec, rows) * spec.rows, rows * depthwise_vectors(spec));
      EXPECT_LT(depthwise_items(spec, rows) * spec.rows, rows * depthwise_vectors(spec) + tile);
    }
  }
}

}  // namespace
}  // namespace minuet
