// The custom calls for voxels of points and for the gradient of groups, against loops in float64.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "minuet/points.hpp"
#include "minuet/row_gradient.hpp"
#include "tests/runtime/bindings/xla/calls_on_device.h"

namespace minuet_xla::testing {
namespace {

constexpr std::int64_t kMost = 50, kPoints = 40, kColumns = 5, kChannels = 2, kFirst = 3, kMostVoxels = 45;
constexpr float kSize = 0.5f;

class PointCalls : public CallsOnDevice {
 protected:
  // Points, NaN behind them, and the row of each in the order of first points. One is not finite.
  void SetUp() override {
    CallsOnDevice::SetUp();
    points_ = normal(kPoints * kColumns);
    points_[7 * kColumns + 1] = std::numeric_limits<float>::infinity();
    rows_.assign(kMost, -1);
    std::map<std::array<std::int32_t, 4>, std::int32_t> known;
    for (std::int64_t i = 0; i < kMost; ++i) batch_.push_back(static_cast<std::int32_t>(i % 2));
    for (std::int64_t i = 0; i < kPoints; ++i) {
      std::array<std::int32_t, 4> cell = {batch_[i], 0, 0, 0};
      if (i == 7) continue;
      for (int axis = 0; axis < 3; ++axis) {
        cell[axis + 1] = static_cast<std::int32_t>(std::floor(points_[i * kColumns + axis] / kSize));
      }
      const auto [found, is_new] = known.try_emplace(cell, static_cast<std::int32_t>(known.size()));
      if (is_new) coordinates_.insert(coordinates_.end(), cell.begin(), cell.end());
      rows_[i] = found->second;
    }
    sizes_.assign(kMostVoxels, 0);
    for (const std::int32_t row : rows_) sizes_[static_cast<std::size_t>(std::max(row, 0))] += row >= 0;
    voxels_ = static_cast<std::int32_t>(known.size());
    coordinates_.resize(kMostVoxels * 4);
    points_.resize(kMost * kColumns, std::numeric_limits<float>::quiet_NaN());
  }

  Site& describe(Site& site, minuet_point_feature feature) const {
    return site.floats("voxel_size", {kSize, kSize, kSize})
        .floats("low", {0, 0, 0})
        .integer("dtype", MINUET_F32)
        .integer("first_column", kFirst)
        .integer("channels", kChannels)
        .integer("feature", feature)
        .integer("batch_size", 2)
        .integer("most_points_per_voxel", 0)
        .integer("most_voxels", 0);
  }

  std::int64_t workspace_bytes() const {
    minuet_voxelize_options options = MINUET_VOXELIZE_OPTIONS_INIT;
    options.first_column = kFirst, options.channels = kChannels;
    std::fill_n(options.voxel_size, 3, kSize);
    return minuet::PointOp(context_, options).bytes(arch_, kMost);
  }

  // All results of a call, without a workspace.
  std::vector<Site::Array> results() {
    return {poisoned<float>({kMostVoxels, kChannels}),
            poisoned<std::int32_t>({kMostVoxels, 4}),
            poisoned<std::int32_t>({kMostVoxels}),
            poisoned<std::int32_t>({kMost}),
            poisoned<std::int32_t>({6}),
            poisoned<std::uint32_t>({1})};
  }
  std::vector<Site::Array> operands() {
    return {array(points_, {kMost, kColumns}), array<std::int32_t>({kPoints}, {1}), array(batch_, {kMost})};
  }

  std::vector<float> points_;
  std::vector<std::int32_t> batch_, rows_, coordinates_, sizes_;
  std::int32_t voxels_ = 0;
};

TEST_P(PointCalls, MeansOfVoxels) {
  Site site(handlers("minuet_voxelize"));
  ASSERT_EQ(describe(site, MINUET_POINT_FEATURE_MEAN).instantiate().message, "");
  ASSERT_EQ(site.initialize().message, "");
  const std::vector<Site::Array> found = results();
  ASSERT_EQ(site.execute(operands(), with_workspace(found, workspace_bytes())).message, "");
  std::vector<double> means(kMostVoxels * kChannels);
  for (std::int64_t i = 0; i < kPoints; ++i) {
    for (std::int64_t c = 0; c < kChannels && rows_[i] >= 0; ++c) {
      means[rows_[i] * kChannels + c] += double{points_[i * kColumns + kFirst + c]} / sizes_[rows_[i]];
    }
  }
  expect_close(read<float>(found[0]), means);
  EXPECT_EQ(read<std::int32_t>(found[1]), coordinates_);
  EXPECT_EQ(read<std::int32_t>(found[2]), sizes_);
  EXPECT_EQ(read<std::int32_t>(found[3]), rows_);
  EXPECT_EQ(read<std::int32_t>(found[4]), (std::vector<std::int32_t>{voxels_, kPoints - 1, 0, 1, 0, 0}));
  EXPECT_EQ(read<std::uint32_t>(found[5])[0], 0u);
}

TEST_P(PointCalls, GradientsOfGroups) {
  const std::vector<float> gradient = normal(kMostVoxels * kChannels), rows = normal(kMost * kChannels);
  for (const minuet_point_feature feature :
       {MINUET_POINT_FEATURE_MEAN, MINUET_POINT_FEATURE_MAX, MINUET_POINT_FEATURE_SUM}) {
    for (const bool has_sizes : {false, true}) {
      if (has_sizes && feature != MINUET_POINT_FEATURE_MEAN) continue;
      Site site(handlers("minuet_group_gradient"));
      site.integer("dtype", MINUET_F32).integer("channels", kChannels).integer("feature", feature);
      ASSERT_EQ(site.instantiate().message, "");
      ASSERT_EQ(site.initialize().message, "");
      std::vector<Site::Array> given = {array(gradient, {kMostVoxels, kChannels}), array(rows_, {kMost, 1}),
                                        array<std::int32_t>({kPoints}, {1})};
      if (feature == MINUET_POINT_FEATURE_MAX) given.push_back(array(rows, {kMost, kChannels}));
      if (has_sizes) given.push_back(array(sizes_, {kMostVoxels}));
      minuet_group_gradient_options options = MINUET_GROUP_GRADIENT_OPTIONS_INIT;
      options.channels = kChannels, options.feature = feature;
      const std::int64_t bytes = minuet::RowGradientOp(context_, options).bytes(arch_, kMostVoxels);
      const Site::Array found = poisoned<float>({kMost, kChannels});
      ASSERT_EQ(site.execute(given, with_workspace({found}, bytes)).message, "");
      std::vector<double> expected(kMost * kChannels);
      for (std::int64_t i = 0; i < kPoints * kChannels; ++i) {
        const std::int64_t row = i / kChannels, c = i % kChannels, group = rows_[row];
        if (group < 0) continue;
        bool is_winner = true;
        for (std::int64_t other = 0; other < kPoints; ++other) {
          is_winner &= rows_[other] != group || rows[other * kChannels + c] <= rows[i];
        }
        if (feature == MINUET_POINT_FEATURE_MAX && !is_winner) continue;
        const double share = feature == MINUET_POINT_FEATURE_MEAN ? sizes_[group] : 1;
        expected[i] = double{gradient[group * kChannels + c]} / share;
      }
      expect_close(read<float>(found), expected);
    }
  }
}

TEST_P(PointCalls, WrongCallsAreRefused) {
  const auto refused = [](const Outcome& outcome, const std::string& reason) {
    EXPECT_EQ(outcome.code, XLA_FFI_Error_Code_INVALID_ARGUMENT);
    EXPECT_NE(outcome.message.find(reason), std::string::npos) << outcome.message;
  };
  const auto voxelize = [&](const std::string& reason, auto change) {
    Site site(handlers("minuet_voxelize"));
    change(describe(site, MINUET_POINT_FEATURE_MEAN));
    refused(site.instantiate(), reason);
  };
  voxelize("voxel_size has 5 numbers", [](Site& site) { site.floats("voxel_size", {1, 1, 1, 1, 1}); });
  voxelize("low has 2 numbers, and voxel_size has 3", [](Site& site) { site.floats("low", {0, 0}); });
  voxelize("high has 1 numbers", [](Site& site) { site.floats("high", {9}); });
  voxelize("elements of the attribute low", [](Site& site) { site.integers("low", {0, 0, 0}); });
  voxelize("feature is 4294967296, which does not fit",
           [](Site& site) { site.integer("feature", std::int64_t{1} << 32); });
  voxelize("channels", [](Site& site) { site.integer("channels", 0); });

  Site site(handlers("minuet_voxelize"));
  ASSERT_EQ(describe(site, MINUET_POINT_FEATURE_MEAN).instantiate().message, "");
  const auto execute = [&](const std::string& reason, auto change) {
    std::vector<Site::Array> given = operands(), found = results();
    change(given, found);
    refused(site.execute(given, with_workspace(found, workspace_bytes())), reason);
  };
  execute("points have 4 columns, and 5 are needed", [](auto& given, auto&) { given[0].shape = {kMost, 4}; });
  execute("operand 2 has 49 elements", [](auto& given, auto&) { given[2].shape = {kMost - 1}; });
  execute("with 1 channels", [](auto&, auto& found) { found[0].shape = {2 * kMostVoxels, 1}; });
  execute("result 1 has", [](auto&, auto& found) { found[1].shape = {kMostVoxels - 1, 4}; });
  execute("result 2 has", [](auto&, auto& found) { found[2].shape = {kMostVoxels - 1}; });
  execute("result 3 has", [](auto&, auto& found) { found[3].shape = {kMost - 1}; });
  execute("operands and", [](auto& given, auto&) { given.push_back(given[2]); });

  Site groups(handlers("minuet_group_gradient"));
  groups.integer("dtype", MINUET_F32)
      .integer("channels", kChannels)
      .integer("feature", MINUET_POINT_FEATURE_SUM);
  ASSERT_EQ(groups.instantiate().message, "");
  const Site::Array gradient = poisoned<float>({kMostVoxels, kChannels}), rows = array(rows_, {kMost, 1});
  const Site::Array count = array<std::int32_t>({kPoints}, {1});
  refused(
      groups.execute({gradient, rows, count}, with_workspace({poisoned<float>({kMost - 1, kChannels})}, 0)),
      "a matrix has 49 rows, and groups are given for 50");
  refused(groups.execute({poisoned<float>({kMostVoxels, 3}), rows, count},
                         with_workspace({poisoned<float>({kMost, kChannels})}, 0)),
          "with 3 channels, and the attributes say 0 with 2");
}

INSTANTIATE_TEST_SUITE_P(On, PointCalls, ::testing::Values("cpu", "cuda:0"), name_of);

}  // namespace
}  // namespace minuet_xla::testing
