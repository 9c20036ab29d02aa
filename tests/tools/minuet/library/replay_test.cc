// Inferences in capacity mode as the tool makes them: a cloud that fits, and ones that do not.
#include "tools/minuet/library/replay.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/tools/folder.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/point_input.h"

namespace minuet::tool {
namespace {

template <class T>
T take(llvm::Expected<T> value) {
  if (!value) throw std::runtime_error(llvm::toString(value.takeError()));
  return std::move(*value);
}
void take(llvm::Error error) {
  if (error) throw std::runtime_error(llvm::toString(std::move(error)));
}

/// `voxels` of a cube of `edge` around the origin, moved by `away`.
VoxelCloud cloud_of(int64_t voxels, int32_t edge, int32_t away, uint64_t seed) {
  Random random(seed);
  VoxelCloud cloud;
  for (int64_t i = 0; i < voxels; ++i) {
    const auto cell = static_cast<int32_t>(i * edge * edge * edge / voxels);  // no two are the same
    cloud.coordinates.insert(cloud.coordinates.end(),
                             {0, cell / edge / edge + away, cell / edge % edge, cell % edge});
    for (int c = 0; c < 4; ++c) cloud.features.push_back(static_cast<float>(random.uniform(-1, 1)));
  }
  return cloud;
}

/// Points in a cube of `edge` metres, and the number of voxels of 1 m that have any.
struct DrawnPoints {
  VoxelCloud cloud;
  int64_t voxels = 0;
};
DrawnPoints points_of(int64_t count, double edge, uint64_t seed) {
  Random random(seed);
  std::vector<Point> points;
  std::set<std::array<double, 3>> cells;
  for (int64_t i = 0; i < count; ++i) {
    Point point{};
    for (double& number : point) number = static_cast<double>(static_cast<float>(random.uniform(0, edge)));
    cells.insert({std::floor(point[0]), std::floor(point[1]), std::floor(point[2])});
    points.push_back(point);
  }
  return {take(point_input(points, 4, /*skip_invalid=*/false, {})), static_cast<int64_t>(cells.size())};
}

class ReplayTest : public testing::TestWithParam<const char*> {
 protected:
  /// Opens a small network of the library, or that of the description.
  void open(const std::string& description = "") {
    context_ = take(open_context({}));
    llvm::Expected<DeviceHandle> device = open_device(context_.get(), DeviceChoice{GetParam(), 0}, facts_);
    if (!device && GetParam() == std::string("cuda:0")) {
      MINUET_SKIP_OR_FAIL("gpu", llvm::toString(device.takeError()));
    }
    device_ = take(std::move(device));
    NetworkChoice choice;
    choice.channels = {4, 8, 8, 8, 8, 8, 8, 8, 8};
    if (!description.empty()) {
      choice.network = folder_.file("network.json", description);
      choice.channels.clear();
    }
    choice.dataflow = "fused";
    network_ = take(open_network(context_.get(), choice, MINUET_F16, info_));
    std::vector<KernelFacts> kernels;
    take(compile_network(network_.get(), facts_.arch, kernels));
    take(check(minuet_plan_load(network_.get(), device_.get())));
  }

  const Folder folder_;
  ContextHandle context_;
  DeviceFacts facts_;
  DeviceHandle device_;
  PlanHandle network_;
  minuet_plan_info info_ = {};
};

TEST_P(ReplayTest, WhatDoesNotFitIsInferredAgainAndFitsThen) {
  open();
  if (IsSkipped() || HasFailure()) return;
  const ExecutionChoice choice;
  Replay replay(network_.get(), info_, device_.get(), facts_, MINUET_F16, choice);
  const VoxelCloud small = cloud_of(60, 6, 0, 1), large = cloud_of(700, 9, 0, 2),
                   far = cloud_of(60, 6, 500, 3);
  take(replay.learn(small));
  const std::vector<int64_t> first = replay.capacities();
  ASSERT_EQ(first.size(), 5u);
  EXPECT_EQ(take(replay.infer(small)).status, 0u);
  EXPECT_EQ(take(replay.infer(cloud_of(50, 5, 0, 4))).status, 0u);
  EXPECT_EQ(replay.capacities(), first);

  EXPECT_NE(take(replay.infer(large)).status & MINUET_CLOUD_PAST_CAPACITY, 0u);
  EXPECT_GE(replay.capacities()[0], 700);
  EXPECT_EQ(take(replay.infer(large)).status, 0u);
  EXPECT_NE(take(replay.infer(far)).status & MINUET_CLOUD_OUT_OF_BOUNDS, 0u);
  EXPECT_EQ(take(replay.infer(far)).status, 0u);
  EXPECT_EQ(take(replay.infer(small)).status, 0u);
}

/// The voxels that a network makes are counted whether they fit or not.
TEST_P(ReplayTest, VoxelsOfPointsAreCountedWhetherTheyFitOrNot) {
  open(R"({"name": "points", "ndim": 3, "inputs": [{"name": "points", "channels": 4}], "channels": [8],
      "layers": [{"op": "voxelize", "voxel_size": [1, 1, 1]},
                 {"op": "block", "name": "a", "width": 0, "kernel_size": 1}, {"op": "devoxelize"}]})");
  if (IsSkipped() || HasFailure()) return;
  const ExecutionChoice choice;
  Replay replay(network_.get(), info_, device_.get(), facts_, MINUET_F16, choice);
  const DrawnPoints few = points_of(100, 6, 1), many = points_of(900, 12, 2);
  ASSERT_NE(few.voxels, many.voxels);
  take(replay.learn(few.cloud));
  ReplayResult result = take(replay.infer(few.cloud));
  EXPECT_EQ(result.status, 0u);
  EXPECT_EQ(result.voxels, few.voxels);
  result = take(replay.infer(many.cloud));
  EXPECT_NE(result.status & MINUET_CLOUD_PAST_CAPACITY, 0u);
  EXPECT_EQ(result.voxels, many.voxels);
  result = take(replay.infer(many.cloud));
  EXPECT_EQ(result.status, 0u);
  EXPECT_EQ(result.voxels, many.voxels);
}

/// The ops prune and subdivide make levels in each run, whose capacities are learned too.
TEST_P(ReplayTest, NetworksThatPruneAndSubdivide) {
  open(R"({"name": "grow", "ndim": 3, "in_channels": 4, "channels": [8], "outputs": ["kept"],
      "layers": [{"op": "block", "name": "a", "width": 0, "kernel_size": 2, "stride": 2, "output": "x"},
                 {"op": "linear", "name": "s", "out_channels": 8, "output": "scores"},
                 {"op": "subdivide", "input": "x", "by": "scores", "threshold": -1000, "output": "children"},
                 {"op": "linear", "name": "t", "out_channels": 1, "output": "t"},
                 {"op": "prune", "input": "children", "by": "t", "threshold": -1000, "output": "kept"}]})");
  if (IsSkipped() || HasFailure()) return;
  const ExecutionChoice choice;
  Replay replay(network_.get(), info_, device_.get(), facts_, MINUET_F16, choice);
  const VoxelCloud small = cloud_of(60, 6, 0, 1), large = cloud_of(2500, 16, 0, 2);
  take(replay.learn(small));
  const std::vector<int64_t> first = replay.capacities();
  EXPECT_EQ(take(replay.infer(small)).status, 0u);
  EXPECT_NE(take(replay.infer(large)).status & MINUET_CLOUD_PAST_CAPACITY, 0u);
  for (size_t level = 0; level < first.size(); ++level)
    EXPECT_GT(replay.capacities()[level], first[level]) << "level " << level;
  EXPECT_EQ(take(replay.infer(large)).status, 0u);
  EXPECT_EQ(take(replay.infer(small)).status, 0u);
}

/// Capacities and bounds only grow: whatever clouds came in between, a cloud that was inferred fits again.
TEST_P(ReplayTest, EveryCloudThatWasInferredFitsAgain) {
  open();
  if (IsSkipped() || HasFailure()) return;
  const VoxelCloud few = cloud_of(60, 6, 0, 1), many = cloud_of(700, 9, 0, 2), far = cloud_of(60, 6, 500, 3),
                   behind = cloud_of(60, 6, -500, 4);
  const VoxelCloud* const orders[][4] = {
      {&few, &many, &far, &behind}, {&many, &far, &behind, &few}, {&far, &few, &behind, &many}};
  for (const auto& order : orders) {
    const ExecutionChoice choice;
    Replay replay(network_.get(), info_, device_.get(), facts_, MINUET_F16, choice);
    take(replay.learn(*order[0]));
    for (size_t count = 1; count <= std::size(order); ++count) {
      const std::vector<int64_t> before = replay.capacities();
      take(replay.infer(*order[count - 1]));
      for (size_t level = 0; level < before.size(); ++level)
        EXPECT_GE(replay.capacities()[level], before[level]) << "level " << level;
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(take(replay.infer(*order[i])).status, 0u) << i;
    }
  }
}

TEST_P(ReplayTest, AnErrorOfTheCloudIsTheExactModes) {
  open();
  if (IsSkipped() || HasFailure()) return;
  const ExecutionChoice choice;
  Replay replay(network_.get(), info_, device_.get(), facts_, MINUET_F16, choice);
  take(replay.learn(cloud_of(60, 6, 0, 1)));
  VoxelCloud twice = cloud_of(40, 6, 0, 1);
  std::copy_n(twice.coordinates.begin(), 4, twice.coordinates.begin() + 4);
  llvm::Expected<ReplayResult> replayed = replay.infer(twice);
  ASSERT_FALSE(!!replayed);
  EXPECT_NE(llvm::toString(replayed.takeError()).find("duplicates"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Device, ReplayTest, testing::Values("cpu", "cuda:0"), [](const auto& tested) {
  return std::string(tested.param).substr(0, 4) == "cuda" ? "cuda" : "cpu";
});

TEST(ReplayStatus, EveryBitHasItsWords) {
  EXPECT_EQ(status_text(0), "");
  EXPECT_EQ(status_text(MINUET_CLOUD_OUT_OF_BOUNDS | MINUET_CLOUD_PAST_CAPACITY),
            "voxels outside the bounds, too many voxels");
}

}  // namespace
}  // namespace minuet::tool
