#include "codegen/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "codegen/candidates.h"

namespace minuet {
namespace {

using testing::HasSubstr;

ConvolutionProblem make_problem(i32 in = 64, i32 out = 64, DType dtype = DType::F16) {
  ConvolutionProblem problem;
  problem.dtype = dtype;
  problem.in_channels = in;
  problem.out_channels = out;
  problem.kernel_size = {3, 3, 3, 1};
  problem.input = {in, 0};
  problem.output = problem.residual_input = {out, 0};
  return problem;
}

TEST(Choice, WhatCannotBeIsRefusedWithItsReason) {
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
      {[](auto& p) { p.groups = 2; }, StatusCode::Unimplemented, "group"},
      {[](auto& p) { p.kind = ConvolutionKind::Generative; }, StatusCode::Unimplemented, "generative"}};
  EXPECT_FALSE(llvm::errorToBool(validate(make_problem())));
  for (const Case& one : cases) {
    ConvolutionProblem problem = make_problem();
    one.spoil(problem);
    const StatusError status = take_status(validate(problem));
    EXPECT_EQ(status.code(), one.code) << one.reason;
    EXPECT_THAT(status.message(), HasSubstr(one.reason));
    EXPECT_EQ(take_status(choose_candidates(problem, "", nullptr).takeError()).message(), status.message());
  }
}

PoolingProblem make_pooling() {
  PoolingProblem pooling;
  pooling.channels = 64;
  pooling.kernel_size = pooling.stride = {2, 2, 2, 1};
  return pooling;
}

/// Each type of op refuses with its own reason, also where its type is not known.
TEST(Choice, WhatIsNotBuiltIsRefusedByItsOp) {
  const auto refuse = [](const OpProblem& op, StatusCode code, const char* reason) {
    const StatusError status = take_status(validate(op));
    EXPECT_EQ(status.code(), code) << reason;
    EXPECT_THAT(status.message(), HasSubstr(reason));
    const StatusError chosen = take_status(choose_candidates(op, "sm_90a", nullptr).takeError());
    EXPECT_EQ(chosen.code(), code);
    EXPECT_EQ(chosen.message(), status.message());
  };
  PoolingProblem pooling = make_pooling();
  for (const Reduction reduction : {Reduction::Max, Reduction::Average, Reduction::Sum}) {
    pooling.reduction = reduction;
    refuse(pooling, StatusCode::Unimplemented, "pooling is not built yet");
  }
  pooling.channels = 0;
  refuse(pooling, StatusCode::InvalidArgument, "channels are 0");
  pooling = make_pooling();
  pooling.stride[1] = 0;
  refuse(pooling, StatusCode::InvalidArgument, "axis 1");
  refuse(ConvolutionGradientProblem{Gradient::Input, make_problem()}, StatusCode::Unimplemented,
         "convolution's input is not built yet");
  refuse(ConvolutionGradientProblem{Gradient::Weight, make_problem()}, StatusCode::Unimplemented,
         "convolution's weight is not built yet");
  refuse(ConvolutionGradientProblem{Gradient::Weight, make_problem(0)}, StatusCode::InvalidArgument,
         "channels are 0");
  ConvolutionProblem grouped = make_problem();
  grouped.groups = 2;
  refuse(grouped, StatusCode::Unimplemented, "group");
  EXPECT_FALSE(llvm::errorToBool(validate(OpProblem(make_problem()))));
}

/// Every Spec that is chosen meets the static_asserts of its kernel, for all small channel counts.
TEST(Choice, TilesAndVectorsDivideEveryRow) {
  for (const DType dtype : kDTypes) {
    const i32 bytes = dtype_bytes(dtype);
    for (i32 channels = 1; channels <= 160; ++channels) {
      for (const i32 column : {0, 1, 4}) {
        SCOPED_TRACE(testing::Message() << "dtype " << static_cast<int>(dtype) << " channels " << channels
                                        << " column " << column);
        ConvolutionProblem problem = make_problem(channels, channels, dtype);
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

TEST(Choice, AlignedRowsUseTheWidestAccess) {
  const GmasChoice choice = choose_gmas(make_problem());
  EXPECT_EQ(choice.gather.vector_bytes, 16);
  EXPECT_EQ(choice.scatter.vector_bytes, 16);
  EXPECT_EQ(widest_vector(2, 8, {{64, 0}, {64, 4}}), 8);
  EXPECT_EQ(widest_vector(2, 8, {{63, 0}}), 2);
  EXPECT_EQ(widest_vector(4, 1, {{16, 0}}), 4);
}

TEST(Choice, TheCentreIsReadInPlaceWhereItCoversEveryRow) {
  EXPECT_TRUE(choose_gmas(make_problem()).direct_center);
  EXPECT_FALSE(choose_gmas(make_problem(64, 64, DType::TF32)).direct_center);
  ConvolutionProblem strided = make_problem();
  strided.kind = ConvolutionKind::Strided;
  strided.stride = {2, 2, 2, 1};
  EXPECT_FALSE(choose_gmas(strided).direct_center);
}

TEST(Choice, EveryChoiceHasItsReasons) { EXPECT_GE(choose_gmas(make_problem()).reasons.size(), 2u); }

TEST(Choice, AMapUsesOneKeyAndDimensionThroughout) {
  const MapChoice choice = choose_map(KeyType::U64, 4, {{}, {128, 256, 64}});
  EXPECT_EQ(choice.pack.ndim, 4);
  for (i64 capacity : {i64{1}, kLargeSort - 1, kLargeSort}) {
    EXPECT_EQ(choice.radix_pass_keys.of(capacity).key, KeyType::U64);
    EXPECT_FALSE(choice.radix_pass_keys.of(capacity).values);
    EXPECT_TRUE(choice.radix_pass_rows.of(capacity).values);
  }
  EXPECT_EQ(choice.scan_heads.input, ScanInput::Heads64);
  EXPECT_EQ(choose_map(KeyType::U32, 3, {}).scan_heads.input, ScanInput::Heads32);
  ASSERT_EQ(choice.search_kernel_map.size(), 2u);
  EXPECT_EQ(choice.search_kernel_map[1].source_block, 128);
  EXPECT_EQ(choice.find_query_borders[1].query_block, 256);
}

TEST(Choice, SourcesOfAMapAreDistinct) {
  std::set<std::string> names;
  for (const KernelSource& source : sources_of(choose_map(KeyType::U32, 3, {{}}))) {
    EXPECT_TRUE(names.insert(source.display_name).second) << source.display_name;
  }
  EXPECT_EQ(names.size(), 35u);
  EXPECT_EQ(sources_of(choose_gmas(make_problem())).size(), 3u);
}

}  // namespace
}  // namespace minuet
