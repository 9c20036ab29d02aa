// Weights of convolutions with groups, and with lists of offsets, as files of each engine hold them.
#include <gmock/gmock.h>

#include "runtime/weights/weights_order.h"

namespace minuet {
namespace {

using testing::HasSubstr;

ConvolutionProblem grouped(i32 in, i32 out, i32 groups) {
  ConvolutionProblem problem;
  problem.in_channels = in, problem.out_channels = out, problem.groups = groups;
  problem.kernel_size = {3, 1, 5, 1};
  return problem;
}

TEST(WeightsOfGroups, HaveTheInputsOfAGroup) {
  const ConvolutionProblem problem = grouped(6, 4, 2);
  const std::vector<WeightLayout> layouts = weight_layouts(WeightsOrder::Minuet, problem, "a.weight");
  ASSERT_EQ(layouts.size(), 1u);
  EXPECT_EQ(layouts[0].shape, (std::vector<i64>{15, 3, 4}));
  std::vector<float> stored;
  for (int i = 0; i < 15 * 3 * 4; ++i) stored.push_back(static_cast<float>(i));
  EXPECT_EQ(to_minuet_order(layouts[0], problem, stored), stored);
}

/// MinkowskiEngine's channelwise convolutions: [K, C], whose offsets have the first axis fastest.
TEST(WeightsOfGroups, OfMinkowskiEngineAreChannelwise) {
  const ConvolutionProblem problem = grouped(2, 2, 2);
  EXPECT_FALSE(llvm::errorToBool(check_carries_over(WeightsOrder::Minkowski, problem)));
  const std::vector<WeightLayout> layouts = weight_layouts(WeightsOrder::Minkowski, problem, "a.kernel");
  ASSERT_EQ(layouts.size(), 1u);
  EXPECT_EQ(layouts[0].shape, (std::vector<i64>{15, 2}));
  std::vector<float> stored, expected;
  for (int z = 0; z < 5; ++z)
    for (int x = 0; x < 3; ++x)
      for (int c = 0; c < 2; ++c) stored.push_back(static_cast<float>(100 * x + 10 * z + c));
  for (int x = 0; x < 3; ++x)
    for (int z = 0; z < 5; ++z)
      for (int c = 0; c < 2; ++c) expected.push_back(static_cast<float>(100 * x + 10 * z + c));
  EXPECT_EQ(to_minuet_order(layouts[0], problem, stored), expected);
}

TEST(WeightsOfGroups, AreRefusedWhereTheEngineHasNone) {
  const auto refusal = [](WeightsOrder order, const ConvolutionProblem& problem) {
    return take_status(check_carries_over(order, problem)).message();
  };
  EXPECT_THAT(refusal(WeightsOrder::TorchSparse, grouped(4, 4, 2)),
              HasSubstr("TorchSparse has no convolutions"));
  EXPECT_THAT(refusal(WeightsOrder::Spconv2Xyz, grouped(4, 4, 4)), HasSubstr("spconv has no convolutions"));
  EXPECT_THAT(refusal(WeightsOrder::Minkowski, grouped(4, 4, 2)), HasSubstr("channelwise convolutions only"));
  EXPECT_THAT(refusal(WeightsOrder::Minkowski, grouped(4, 8, 4)), HasSubstr("channelwise convolutions only"));
}

TEST(WeightsOfLists, AreReadInTheOrderOfTheListAndOfNoOtherEngine) {
  ConvolutionProblem problem;
  problem.in_channels = 2, problem.out_channels = 3;
  problem.offsets = {{0, 1, 0, 0}, {0, 0, 0, 0}, {5, 0, 0, 0}, {0, -1, 0, 0}};
  for (i32 number = 1; number <= static_cast<i32>(kLastWeightsOrder); ++number) {
    const auto order = static_cast<WeightsOrder>(number);
    SCOPED_TRACE(weights_order_name(order));
    if (order == WeightsOrder::Minuet) continue;
    EXPECT_THAT(take_status(check_carries_over(order, problem)).message(), HasSubstr("a list of 4 offsets"));
  }
  EXPECT_FALSE(llvm::errorToBool(check_carries_over(WeightsOrder::Minuet, problem)));
  const std::vector<WeightLayout> layouts = weight_layouts(WeightsOrder::Minuet, problem, "a.weight");
  ASSERT_EQ(layouts.size(), 1u);
  EXPECT_EQ(layouts[0].shape, (std::vector<i64>{4, 2, 3}));
  std::vector<float> stored;
  for (int i = 0; i < 4 * 2 * 3; ++i) stored.push_back(static_cast<float>(i));
  EXPECT_EQ(to_minuet_order(layouts[0], problem, stored), stored);
}

}  // namespace
}  // namespace minuet
