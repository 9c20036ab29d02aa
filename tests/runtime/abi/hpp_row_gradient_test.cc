// row_gradient.hpp: the wrapper passes on what it is given; and throws.
#include "include/minuet/row_gradient.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

struct alignas(16) Aligned {
  char bytes[16];
};
std::vector<Aligned> blocks(std::int64_t bytes) {
  return std::vector<Aligned>(static_cast<size_t>(bytes) / sizeof(Aligned) + 1);
}

TEST(HppRowGradient, OfTwoPointsInAVoxel) {
  const minuet::Context context;
  const minuet::Device device(context, "cpu");
  minuet_devoxelize_options options = MINUET_DEVOXELIZE_OPTIONS_INIT;
  options.channels = 4;
  const minuet::RowGradientOp nearest(context, options);
  minuet_group_gradient_options groups = MINUET_GROUP_GRADIENT_OPTIONS_INIT;
  groups.channels = 4;
  const minuet::RowGradientOp mean(context, groups);
  nearest.load(device), mean.load(device);
  const std::int32_t rows[] = {0, 0};
  alignas(16) const float gradient[] = {1, 2, 3, 4, 5, 6, 7, 8};
  alignas(16) float voxel[4] = {};
  std::vector<Aligned> workspace = blocks(nearest.bytes("cpu", 2, 1));
  minuet_devoxelize_arguments given = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
  given.most = 2, given.most_rows = 1, given.point_rows = rows;
  given.features = gradient, given.output = voxel;
  given.workspace = workspace.data();
  given.workspace_bytes = static_cast<int64_t>(workspace.size() * sizeof(Aligned));
  nearest.run(device, given);
  EXPECT_EQ(voxel[3], 12);

  alignas(16) float points[8] = {};
  std::vector<Aligned> counts = blocks(mean.bytes("cpu", 1));
  minuet_group_gradient_arguments spread = MINUET_GROUP_GRADIENT_ARGUMENTS_INIT;
  spread.groups = rows, spread.groups_ld = 1, spread.most_rows = 2, spread.most_groups = 1;
  spread.out_gradient = voxel, spread.input_gradient = points;
  spread.workspace = counts.data();
  spread.workspace_bytes = static_cast<int64_t>(counts.size() * sizeof(Aligned));
  mean.run(device, spread);
  EXPECT_EQ(points[7], 6);
  EXPECT_THROW(mean.run(device, given), minuet::Exception);
  EXPECT_THROW(nearest.run(device, spread), minuet::Exception);
  options.channels = groups.channels = 0;
  EXPECT_THROW(minuet::RowGradientOp(context, options), minuet::Exception);
  EXPECT_THROW(minuet::RowGradientOp(context, groups), minuet::Exception);
}

}  // namespace
