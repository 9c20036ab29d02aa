#include "tools/minuet/cloud/grid.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "tests/tools/minuet/cloud/bytes.h"
#include "tests/tools/minuet/cloud/cpu_voxelizer.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

Grid grid_of(const Position& low, const Position& high, const VoxelSize& size) {
  auto grid = make_grid(low, high, size);
  if (grid) return *grid;
  ADD_FAILURE() << llvm::toString(grid.takeError());
  return {};
}

VoxelCloud voxels_of(const std::vector<Point>& points, const Grid& grid, const VoxelLimits& limits = {},
                     bool skip = false) {
  auto cloud = voxelize_in(points, grid, limits, skip, cpu_voxelizer());
  if (cloud) return *cloud;
  ADD_FAILURE() << llvm::toString(cloud.takeError());
  return {};
}

TEST(Grid, TheShapesOfTheDetectionSettings) {
  const std::array<int32_t, 3> kitti{1408, 1600, 40}, nuscenes{1440, 1440, 40}, waymo{1504, 1504, 40};
  EXPECT_EQ(grid_of({0, -40, -3}, {70.4, 40, 1}, {0.05, 0.05, 0.1}).cells, kitti);
  EXPECT_EQ(grid_of({-54, -54, -5}, {54, 54, 3}, {0.075, 0.075, 0.2}).cells, nuscenes);
  EXPECT_EQ(grid_of({-75.2, -75.2, -2}, {75.2, 75.2, 4}, {0.1, 0.1, 0.15}).cells, waymo);
}

TEST(Grid, CountsFromTheCornerAndKeepsPositions) {
  const Grid grid = grid_of({-1, 2, 0}, {3, 4, 1}, {1, 0.5, 0.25});
  const VoxelCloud cloud =
      voxels_of({{-0.5, 2.25, 0.5, 4}, {2.5, 3.75, 0.99, 1}, {-0.25, 2.125, 0.625, 2}}, grid);
  EXPECT_EQ(cloud.coordinates, (std::vector<int32_t>{0, 0, 0, 2, 0, 3, 3, 3}));
  EXPECT_EQ(cloud.features, (std::vector<float>{-0.375f, 2.1875f, 0.5625f, 3, 2.5f, 3.75f, 0.99f, 1}));
  EXPECT_EQ(cloud.row_of_point, (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(cloud.outside + cloud.past_points + cloud.past_voxels + cloud.skipped, 0);
}

TEST(Grid, TheRangeIsHalfOpenAndPointsOutsideAreCounted) {
  const Grid grid = grid_of({0, 0, 0}, {2, 2, 2}, {1, 1, 1});
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  const VoxelCloud cloud = voxels_of({{0, 0, 0, 1},
                                      {2, 1, 1, 1},
                                      {-1e-30, 1, 1, 1},
                                      {1, 1, std::nextafter(2.0f, 0.0f), 1},
                                      {1, 1, 1.99999999, 1},  // 2 in float32
                                      {nan, 1, 1, 1},
                                      {1, infinite, 1, 1},
                                      {1, -infinite, 1, nan},
                                      {1e300, 1, 1, 1}},
                                     grid);
  EXPECT_EQ(cloud.coordinates, (std::vector<int32_t>{0, 0, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(cloud.outside, 7);
  EXPECT_EQ(cloud.row_of_point, (std::vector<int64_t>{0, -1, -1, 1, -1, -1, -1, -1, -1}));
}

TEST(Grid, DividesInFloat32) {
  const Grid grid = grid_of({0, -40, -3}, {70.4, 40, 1}, {0.05, 0.05, 0.1});
  for (int i = 0; i < 1600; ++i) {
    const float y = -40.0f + 0.05f * static_cast<float>(i);
    volatile float moved = y - -40.0f;
    volatile float quotient = moved / 0.05f;
    const VoxelCloud cloud = voxels_of({{1, static_cast<double>(y), 0, 0}}, grid);
    ASSERT_EQ(cloud.count(), 1) << y;
    EXPECT_EQ(cloud.coordinates[2], static_cast<int32_t>(std::floor(quotient))) << y;
  }
}

/// A limit of P points keeps the P points of lowest index of each voxel. A limit of V voxels keeps the V
/// voxels whose first points have the lowest index.
TEST(Grid, LimitsKeepTheFirst) {
  const Grid grid = grid_of({0, 0, 0}, {4, 1, 1}, {1, 1, 1});
  const std::vector<Point> points = {{2.5, 0, 0, 1}, {0.5, 0, 0, 2}, {2.5, 0, 0, 3}, {1.5, 0, 0, 4},
                                     {2.5, 0, 0, 8}, {9, 0, 0, 0},   {1.5, 0, 0, 5}, {0.5, 0, 0, 6}};
  const VoxelCloud two = voxels_of(points, grid, {2, 2});
  EXPECT_EQ(two.coordinates, (std::vector<int32_t>{0, 2, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(two.features, (std::vector<float>{2.5f, 0, 0, 2, 0.5f, 0, 0, 4}));
  EXPECT_EQ(two.past_points, 1);
  EXPECT_EQ(two.past_voxels, 2);
  EXPECT_EQ(two.outside, 1);
  EXPECT_EQ(two.row_of_point, (std::vector<int64_t>{0, 1, 0, -1, 0, -1, -1, 1}));
  const VoxelCloud one = voxels_of(points, grid, {1, 0});
  EXPECT_EQ(one.coordinates, (std::vector<int32_t>{0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(one.features, (std::vector<float>{2.5f, 0, 0, 1, 0.5f, 0, 0, 2, 1.5f, 0, 0, 4}));
  EXPECT_EQ(one.past_points, 4);
}

/// Against the definition, with sums in the order of the points.
TEST(Grid, RandomPointsAgainstTheDefinition) {
  const Grid grid = grid_of({-3, -2, -1}, {3, 2.2, 1}, {0.3, 0.5, 0.7});
  std::mt19937 random(7);
  std::uniform_real_distribution<float> place(-4, 4);
  std::vector<Point> points;
  for (int i = 0; i < 5000; ++i) {
    const auto next = [&] { return static_cast<double>(place(random)); };
    points.push_back({next(), next(), next(), next()});
  }
  const VoxelLimits limits{5, 60};
  std::map<std::array<int, 3>, int64_t> rows;
  std::vector<std::array<double, 4>> sums;
  std::vector<int64_t> counts;
  int64_t outside = 0;
  for (const Point& point : points) {
    std::array<int, 3> cell{};
    bool is_inside = true;
    for (size_t a = 0; a < 3; ++a) {
      const auto p = static_cast<float>(point[a]), low = static_cast<float>(grid.low[a]);
      cell[a] = static_cast<int>(std::floor((p - low) / static_cast<float>(grid.voxel_size[a])));
      is_inside &= p >= low && p < static_cast<float>(grid.high[a]) && cell[a] < grid.cells[a];
    }
    outside += !is_inside;
    if (!is_inside || (!rows.count(cell) && rows.size() == 60)) continue;
    const auto row = static_cast<size_t>(rows.emplace(cell, rows.size()).first->second);
    if (row == sums.size()) sums.push_back({}), counts.push_back(0);
    if (counts[row] == 5) continue;
    ++counts[row];
    for (size_t c = 0; c < 4; ++c) sums[row][c] += point[c];
  }
  std::vector<float> features;
  for (size_t row = 0; row < sums.size(); ++row)
    for (const double sum : sums[row])
      features.push_back(static_cast<float>(sum / static_cast<double>(counts[row])));
  const VoxelCloud cloud = voxels_of(points, grid, limits);
  EXPECT_EQ(cloud.count(), 60);
  EXPECT_EQ(cloud.features, features);
  EXPECT_EQ(cloud.outside, outside);
  for (const auto& [cell, row] : rows) {
    const std::vector<int32_t> at(cloud.coordinates.begin() + 4 * row,
                                  cloud.coordinates.begin() + 4 * row + 4);
    EXPECT_EQ(at, (std::vector<int32_t>{0, cell[0], cell[1], cell[2]}));
  }
}

TEST(Grid, IntensitiesMustBeFinite) {
  const Grid grid = grid_of({0, 0, 0}, {2, 2, 2}, {1, 1, 1});
  const std::vector<Point> points = {{1, 1, 1, std::nan("")}, {9, 1, 1, std::nan("")}, {1, 1, 1, 2}};
  EXPECT_THAT(llvm::toString(voxelize_in(points, grid, {}, false, cpu_voxelizer()).takeError()),
              HasSubstr("--skip-invalid"));
  const VoxelCloud cloud = voxels_of(points, grid, {}, true);
  EXPECT_EQ(cloud.features, (std::vector<float>{1, 1, 1, 2}));
  EXPECT_EQ(cloud.skipped, 1);
  EXPECT_EQ(cloud.outside, 1);
  EXPECT_THAT(llvm::toString(voxelize_in({{1, 1, 1, 1e300}}, grid, {}, true, cpu_voxelizer()).takeError()),
              HasSubstr("scale the intensities down"));
}

TEST(Grid, WrongRangesAreRefused) {
  Position low, high;
  const auto reason = [&](const char* text) { return llvm::toString(parse_range(text, low, high)); };
  EXPECT_EQ(reason("0, -1,2,3,4.5,1e1"), "");
  EXPECT_EQ(low, (Position{0, -1, 2}));
  EXPECT_EQ(high, (Position{3, 4.5, 10}));
  EXPECT_THAT(reason("0,0,0,1,1"), HasSubstr("has 5 numbers: give six"));
  EXPECT_THAT(reason("0,0,0,1,1,"), HasSubstr("'' is not a finite number"));
  EXPECT_THAT(reason("0,0,0,1,1,nan"), HasSubstr("'nan' is not a finite number"));
  EXPECT_THAT(reason("0,0,0,1,1e300,1"), HasSubstr("'1e300' is not a finite number"));
  EXPECT_THAT(reason("0,0,0,1,-1,1"), HasSubstr("goes from 0 to -1 along y"));
  EXPECT_THAT(reason("0,0,1,1,1,1.00000000001"), HasSubstr("along z"));
  EXPECT_THAT(llvm::toString(make_grid({0, 0, 0}, {1, 1, 0.01}, {0.1, 0.1, 0.1}).takeError()),
              HasSubstr("along z has 0 voxels"));
  EXPECT_THAT(llvm::toString(make_grid({0, 0, 0}, {1e9, 1, 1}, {0.1, 0.1, 0.1}).takeError()),
              HasSubstr("along x has 1e+10 voxels"));
}

TEST(Grid, ChannelsOfZeros) {
  VoxelCloud cloud =
      voxels_of({{0.5, 0.5, 0.5, 2}, {1.5, 0.5, 0.5, 3}}, grid_of({0, 0, 0}, {2, 2, 2}, {1, 1, 1}));
  add_zero_channels(cloud, 5);
  EXPECT_EQ(cloud.channels, 5);
  EXPECT_EQ(cloud.features, (std::vector<float>{0.5f, 0.5f, 0.5f, 2, 0, 1.5f, 0.5f, 0.5f, 3, 0}));
}

}  // namespace
}  // namespace minuet::tool
