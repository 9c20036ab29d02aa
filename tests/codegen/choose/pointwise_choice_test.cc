// Every Spec that is chosen for a chain of pointwise steps meets the static_asserts of its kernel and leaves
// a thread few enough elements; and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/choose/ops/pointwise.h"

namespace minuet {
namespace {

using testing::HasSubstr;
using Kind = PointwiseKind;

PointwiseProblem chain_of(const std::vector<Kind>& kinds, i32 channels, DType dtype, i32 column = 0) {
  PointwiseProblem problem;
  problem.dtype = dtype;
  problem.channels = channels;
  for (const Kind kind : kinds) problem.steps.push_back({kind, has_epsilon(kind) ? 1.0f : 0.0f});
  problem.input = problem.output = {channels + column, column};
  return problem;
}

void expect_fits(const PointwiseProblem& problem) {
  const PointwiseSpec spec = choose_pointwise(problem).kernel;
  SCOPED_TRACE(display_name(spec) + " " + std::to_string(problem.input.column));
  const i32 element = dtype_bytes(spec.io), elements = spec.vector_bytes / element;
  ASSERT_EQ(spec.vector_bytes % element, 0);
  ASSERT_EQ(spec.channels % elements, 0);
  for (const i32 start : {problem.input.ld, problem.input.column})
    EXPECT_EQ(start * element % spec.vector_bytes, 0) << "rows start aligned";
  const i32 vectors = spec.channels / elements;
  if (!is_row_wise(spec.steps)) {
    EXPECT_EQ(spec.lanes, vectors);
    return;
  }
  EXPECT_EQ(spec.lanes & (spec.lanes - 1), 0);
  EXPECT_TRUE(spec.lanes <= 32 || spec.lanes == spec.threads);
  EXPECT_EQ(spec.threads % spec.lanes, 0);
  EXPECT_LE(spec.threads, 512);
  EXPECT_LE((vectors + spec.lanes - 1) / spec.lanes * elements, 32) << "elements of a thread";
}

TEST(PointwiseChoice, EverySpecFitsItsKernel) {
  for (const DType dtype : kDTypes) {
    for (const i32 column : {0, 1, 4}) {
      for (i32 channels = 1; channels <= 700; ++channels) {
        expect_fits(chain_of({Kind::ReLU, Kind::Tanh}, channels, dtype, column));
        expect_fits(chain_of({Kind::LayerNorm, Kind::Gelu}, channels, dtype, column));
        expect_fits(chain_of({Kind::GeluGradient}, channels, dtype, column));
        expect_fits(chain_of({Kind::SoftmaxGradient}, channels, dtype, column));
      }
      for (const i32 channels : {1023, 1024, 4096, 5001, 12000, 16383, 16384}) {
        expect_fits(chain_of({Kind::Softmax}, channels, dtype, column));
      }
      expect_fits(chain_of({Kind::Silu}, kMostChannels, dtype, column));
    }
  }
}

/// Twelve vectors leave no thread of four idle, but four of sixteen.
TEST(PointwiseChoice, FewThreadsAreIdle) {
  const auto lanes_of = [](i32 channels) {
    return choose_pointwise(chain_of({Kind::Softmax}, channels, DType::F16)).kernel.lanes;
  };
  EXPECT_EQ(lanes_of(64), 8);
  EXPECT_EQ(lanes_of(96), 4);
  EXPECT_EQ(lanes_of(256), 32);
  EXPECT_EQ(lanes_of(20), 8) << "one thread would store 8 bytes of each row at once";
  EXPECT_EQ(lanes_of(1024), 32);
  EXPECT_EQ(lanes_of(2048), 128);
}

/// An argmax writes one number a row, whose alignment does not matter.
TEST(PointwiseChoice, OperandsAndOutputsNarrowTheAccess) {
  PointwiseProblem problem = chain_of({Kind::Add, Kind::Argmax}, 64, DType::F16);
  problem.operands = {{64, 0}};
  problem.output = {1, 0};
  EXPECT_EQ(choose_pointwise(problem).kernel.vector_bytes, 16);
  problem.operands = {{66, 2}};
  EXPECT_EQ(choose_pointwise(problem).kernel.vector_bytes, 4);
  problem = chain_of({Kind::Silu}, 64, DType::TF32);
  EXPECT_EQ(choose_pointwise(problem).kernel.io, DType::F32);
  problem.output = {65, 1};
  EXPECT_EQ(choose_pointwise(problem).kernel.vector_bytes, 4);
}

TEST(PointwiseChoice, WhatCannotBeIsRefusedWithItsReason) {
  const auto refuse = [](const PointwiseProblem& problem, StatusCode code, const char* reason) {
    const StatusError status = take_status(validate(OpProblem(problem)));
    EXPECT_EQ(status.code(), code) << reason;
    EXPECT_THAT(status.message(), HasSubstr(reason));
  };
  constexpr StatusCode kWrong = StatusCode::InvalidArgument;
  const DType dtype = DType::F16;
  refuse(chain_of({}, 4, dtype), kWrong, "there are 0 steps");
  refuse(chain_of(std::vector<Kind>(9, Kind::ReLU), 4, dtype), kWrong, "there are 9 steps");
  refuse(chain_of({Kind::None}, 4, dtype), kWrong, "step 0 has no valid kind");
  refuse(chain_of({Kind::Argmax, Kind::ReLU}, 4, dtype), kWrong, "let the argmax be the last step");
  refuse(chain_of({Kind::ReLU}, 0, dtype), kWrong, "has 0 channels; it may have 1 to 65536");
  refuse(chain_of({Kind::ReLU, Kind::LayerNorm}, 16385, dtype), StatusCode::Unimplemented, "16384");
  refuse(chain_of({Kind::SoftmaxGradient}, 16385, dtype), StatusCode::Unimplemented, "16384");
  PointwiseProblem flat = chain_of({Kind::LayerNormGradient}, 4, dtype);
  flat.steps[0].number = 0;
  refuse(flat, kWrong, "the epsilon of step 0 (layer_norm_gradient) is 0; it must be above 0");
  PointwiseProblem wide = chain_of({Kind::ReLU}, 4, dtype);
  wide.kernel_size = {3, 1, 1, 1};
  refuse(wide, kWrong, "kernel of one offset");
}

}  // namespace
}  // namespace minuet
