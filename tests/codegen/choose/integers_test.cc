// What is chosen for convolutions with 8-bit tensors, and which of them are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

using testing::HasSubstr;

ConvolutionProblem integer_problem(i32 in, i32 out, DType type = DType::U8) {
  ConvolutionProblem problem = example_problem(in, out, DType::F16);
  problem.covered_output = problem.output;
  problem.input_type = problem.output_type = type;
  problem.residual = in == out;
  if (problem.residual) problem.residual_type = type;
  return problem;
}

TEST(Integers, EverySizeHasASpec) {
  for (const DType type : {DType::U8, DType::S8}) {
    for (const i32 in : {1, 3, 4, 16, 17, 32, 48, 64, 80, 96, 128, 160, 192, 256, 1000, 4096}) {
      for (const i32 out : {1, 8, 24, 32, 96, 100, 128, 1024, 65536}) {
        for (const i64 rows : {0, 100, 5000, 20000, 100000, 1000000}) {
          for (const char* arch : {"sm_80", "sm_90a", "compute_120"}) {
            for (const int turn : {0, 1, 2}) {
              ConvolutionProblem problem = integer_problem(in, out, type);
              if (turn == 1) problem.output_type.reset();
              problem.second_output = turn == 2, problem.shortcut = false;
              const FusedSpec spec = choose_fused(problem, arch, rows).fused;
              ASSERT_EQ(take_status(validate_spec(spec)).message(), "") << in << " to " << out;
              ASSERT_EQ(spec.io, type);
              ASSERT_EQ(fused_output_type(spec), output_type_of(problem));
              ASSERT_EQ(fused_residual_type(spec), type);
              ASSERT_EQ(fused_second_type(spec), problem.second_output ? DType::F16 : type);
              ASSERT_TRUE(spec.scale_shift);
              ASSERT_FALSE(spec.shortcut);
            }
          }
        }
      }
    }
  }
}

/// Specs on both sides of the numbers of rows that the rules name.
TEST(Integers, BlocksGoByTheRows) {
  struct Case {
    i32 in, out;
    i64 rows;
    i32 warps, blocks, cluster;
    WeightRoad weights;
    bool staged_rows;
  };
  constexpr WeightRoad kCached = WeightRoad::Cached, kCopied = WeightRoad::BulkCopy,
                       kRefilled = WeightRoad::BulkRefill;
  for (const Case& one : {Case{32, 32, 20000, 4, 5, 1, kCached, true},
                          {32, 32, 80000, 4, 4, 1, kCached, false},
                          {32, 32, 1000000, 4, 5, 1, kCached, true},
                          {8, 32, 1000000, 4, 4, 1, kCached, false},
                          {96, 96, 50000, 4, 3, 1, kCopied, true},
                          {96, 96, 80000, 4, 4, 1, kRefilled, false},
                          {128, 96, 400000, 4, 3, 1, kCopied, true},
                          {128, 96, 1000000, 4, 4, 1, kRefilled, false},
                          {128, 128, 8000, 8, 1, 2, kRefilled, true},
                          {128, 128, 20000, 8, 1, 1, kRefilled, true},
                          {128, 128, 40000, 12, 1, 1, kRefilled, true},
                          {128, 128, 80000, 16, 1, 1, kRefilled, true},
                          {256, 256, 1500, 8, 1, 4, kRefilled, true},
                          {256, 256, 2900, 8, 1, 2, kRefilled, true},
                          {128, 256, 2900, 4, 3, 2, kCopied, true},
                          {128, 256, 20000, 4, 3, 1, kCopied, true}}) {
    ConvolutionProblem problem = integer_problem(one.in, one.out);
    problem.residual = false, problem.residual_type.reset();
    const FusedSpec spec = choose_fused(problem, "sm_90a", one.rows).fused;
    EXPECT_EQ(std::tuple(spec.warps, spec.blocks, spec.cluster, spec.weights, spec.staged_rows),
              std::tuple(one.warps, one.blocks, one.cluster, one.weights, one.staged_rows))
        << one.in << " " << one.out << " " << one.rows << " " << display_name(spec);
  }
}

TEST(Integers, WidePartsOfRowsAreReadAtOnce) {
  ConvolutionProblem problem = integer_problem(64, 64);
  FusedSpec spec = choose_fused(problem, "sm_90a", 20000).fused;
  EXPECT_EQ(spec.input_bytes, 16);
  EXPECT_EQ(spec.output_bytes, 16);
  problem.second_output = true;  // of fp16, of which 16 bytes hold eight
  spec = choose_fused(problem, "sm_90a", 20000).fused;
  EXPECT_EQ(spec.output_bytes, 8);
  problem.covered_output = {66, 0};
  spec = choose_fused(problem, "sm_90a", 20000).fused;
  EXPECT_EQ(spec.output_bytes, 2) << "two elements of fp16 are 4 bytes, and two of u8 are 2";
  problem.input = {66, 1};
  EXPECT_EQ(choose_fused(problem, "sm_90a", 20000).fused.input_bytes, 1);
}

/// Also where a measurement, which there is none of, names the other dataflow.
TEST(Integers, HaveTheFusedDataflowAndNoMeasuredOne) {
  const ConvolutionProblem problem = integer_problem(64, 64);
  const TuningSnapshot snapshot(example_environment(), {{layer_bucket(Operation::Dataflow, problem, 1000),
                                                         config_of(Dataflow::GatherGemmScatter)}});
  EXPECT_TRUE(is_tunable(problem));
  EXPECT_FALSE(has_tunable_dataflow(problem));
  for (const char* arch : {"", "sm_80", "sm_90a"}) {
    for (const Candidate& candidate : llvm::cantFail(choose_candidates(problem, {arch, &snapshot}))) {
      EXPECT_EQ(dataflow_of(candidate.choice), Dataflow::Fused);
      EXPECT_EQ(candidate.covers, 0);
    }
  }
  ConvolutionProblem first = example_problem(4, 32, DType::F32);
  first.output_type = DType::U8;
  EXPECT_EQ(choose_dataflow(first, "sm_80"), Dataflow::Fused);
  EXPECT_EQ(choose_dataflow(example_problem(4, 32, DType::F32), "sm_80"), Dataflow::GatherGemmScatter);
}

std::string refusal(const ConvolutionProblem& problem) { return take_status(validate(problem)).message(); }

TEST(Integers, RefuseWhatNoKernelDoes) {
  ConvolutionProblem problem = integer_problem(64, 64);
  problem.residual = true, problem.residual_type = DType::S8;
  EXPECT_EQ(refusal(problem), "");
  const auto changed = [&](const auto& change) {
    ConvolutionProblem other = problem;
    change(other);
    return refusal(other);
  };
  EXPECT_THAT(changed([](auto& p) { p.input_type = DType::F32; }), HasSubstr("the type fp32"));
  EXPECT_THAT(changed([](auto& p) { p.residual = false; }), HasSubstr("does not have"));
  EXPECT_THAT(changed([](auto& p) { p.second_type = DType::S8; }), HasSubstr("does not have"));
  EXPECT_THAT(changed([](auto& p) { p.residual_type.reset(); }),
              HasSubstr("the input has the type u8 and the residual fp16"));
  EXPECT_THAT(changed([](auto& p) { p.input_type.reset(); }), HasSubstr("the input has the type fp16"));
  EXPECT_THAT(changed([](auto& p) { p.output_factor = 0; }), HasSubstr("above 0"));
  EXPECT_THAT(changed([](auto& p) { p.second_factor = -1; }), HasSubstr("above 0"));
  EXPECT_THAT(changed([](auto& p) { p.groups = 2; }), HasSubstr("have groups"));
  EXPECT_THAT(changed([](auto& p) { p.gradient_of = ConvolutionKind::Submanifold; }), HasSubstr("gradient"));
  EXPECT_THAT(changed([](auto& p) { p.dataflow = Dataflow::GatherGemmScatter; }),
              HasSubstr("gather-gemm-scatter"));
  EXPECT_THAT(take_status(check_dataflow(problem, Dataflow::GatherGemmScatter)).message(),
              HasSubstr("8-bit"));
  problem.kernel_size = {17, 17, 17, 1};
  EXPECT_THAT(take_status(check_dataflow(problem, Dataflow::Fused)).message(),
              HasSubstr("no other dataflow has 8-bit"));
}

TEST(Integers, ShortcutsHaveEightBits) {
  ConvolutionProblem problem = integer_problem(64, 64);
  problem.residual = false, problem.residual_type.reset();
  problem.shortcut = true, problem.shortcut_type = DType::S8;
  EXPECT_EQ(take_status(validate(problem)).message(), "");
  const FusedSpec spec = choose_fused(problem, "sm_90a", 20000).fused;
  EXPECT_TRUE(spec.shortcut);
  EXPECT_EQ(fused_shortcut_type(spec), DType::S8);
  problem.shortcut_type.reset();
  EXPECT_FALSE(choose_fused(problem, "sm_90a", 20000).fused.shortcut);
  ConvolutionProblem first = example_problem(64, 64, DType::F16);
  first.residual = false, first.shortcut = true, first.output_type = DType::U8;
  EXPECT_FALSE(choose_fused(first, "sm_90a", 20000).fused.shortcut);
}

/// A factor behind an activation that is not proportional to its input is no part of the parameters.
TEST(Integers, FactorsOfOutputs) {
  ConvolutionProblem problem = integer_problem(64, 64);
  problem.activation = Activation::ReLU;
  EXPECT_FALSE(scales_output(problem));
  for (const Activation activation : {Activation::LeakyReLU, Activation::Silu}) {
    problem.activation = activation;
    EXPECT_TRUE(scales_output(problem));
    EXPECT_TRUE(scales_output(choose_fused(problem, "sm_90a", 0).fused));
  }
  problem.output_type.reset();
  EXPECT_FALSE(scales_output(problem));
  ConvolutionProblem first = example_problem(4, 32, DType::F16);
  first.output_type = DType::U8, first.activation = Activation::ReLU;
  EXPECT_TRUE(scales_output(first));
  EXPECT_TRUE(scales_output(choose_fused(first, "sm_80", 0).fused));
}

}  // namespace
}  // namespace minuet
