// points.hpp: the wrapper passes on what it is given; and throws.
#include "include/minuet/points.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/abi/hpp_blocks.h"

namespace {

using minuet::abi::Block;
using minuet::abi::blocks;

TEST(HppPoints, ThereAndBack) {
  const minuet::Context context;
  const minuet::Device device(context, "cpu");
  minuet_voxelize_options options = MINUET_VOXELIZE_OPTIONS_INIT;
  options.channels = 4;
  for (int axis = 0; axis < 3; ++axis) options.voxel_size[axis] = 1;
  const minuet::PointOp voxelize(context, options);
  minuet_devoxelize_options back = MINUET_DEVOXELIZE_OPTIONS_INIT;
  back.channels = 4;
  const minuet::PointOp nearest(context, back);
  voxelize.load(device), nearest.load(device);
  EXPECT_EQ(nearest.bytes("cpu", 2, 2), 0);
  std::vector<Block> workspace = blocks(voxelize.bytes("cpu", 2));
  const float points[] = {0.5f, 0, 0, 7, -0.5f, 0, 0, 8};
  int32_t coordinates[8] = {}, rows[2] = {};
  alignas(16) float features[8] = {};
  alignas(16) float output[8] = {};
  minuet_voxelize_arguments given = MINUET_VOXELIZE_ARGUMENTS_INIT;
  given.points = points, given.points_ld = 4, given.most = given.capacity = 2;
  given.workspace = workspace.data();
  given.workspace_bytes = static_cast<int64_t>(workspace.size() * sizeof(Block));
  given.coordinates = coordinates, given.features = features, given.point_rows = rows;
  voxelize.run(device, given);
  EXPECT_EQ(coordinates[5], -1);
  minuet_devoxelize_arguments taken = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
  taken.most = taken.most_rows = 2, taken.point_rows = rows;
  taken.features = features, taken.output = output;
  nearest.run(device, taken);
  EXPECT_EQ(output[3], 7);
  EXPECT_EQ(output[7], 8);
  EXPECT_THROW(nearest.run(device, given), minuet::Exception);
  options.channels = 0;
  EXPECT_THROW(minuet::PointOp(context, options), minuet::Exception);
}

TEST(HppPoints, OfANetwork) {
  const minuet::Context context;
  const minuet::Device device(context, "cpu");
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  options.description = R"({"name": "points", "ndim": 3, "in_channels": 4, "layers": [
      {"op": "voxelize", "voxel_size": [1, 1, 1]}, {"op": "devoxelize"}]})";
  options.dtype = MINUET_F32;
  minuet::Plan plan = minuet::Plan::network(context, options);
  plan.load(device);
  const minuet::Execution execution(plan, device);
  EXPECT_THROW(minuet::read_points(execution), minuet::Exception);
  alignas(16) float points[] = {0.5f, 0, 0, 7, 0.25f, 0, 0, 9};
  alignas(16) float output[8] = {};
  const minuet_array in{points, {2, 4}, {0}, 2, MINUET_ELEMENT_F32, 0, 0};
  const minuet_array result{output, {2, 4}, {0}, 2, MINUET_ELEMENT_F32, 0, 0};
  minuet::check(minuet_execution_run_arrays(execution.get(), &in, 1, &result, 1, nullptr));
  EXPECT_EQ(output[3], 8);
  EXPECT_EQ(minuet::read_points(execution)[MINUET_VOXELIZE_VOXELS], 1);
  EXPECT_EQ(minuet::read_points(execution)[MINUET_VOXELIZE_KEPT], 2);
}

}  // namespace
