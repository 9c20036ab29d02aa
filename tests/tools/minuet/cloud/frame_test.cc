#include "tools/minuet/cloud/frame.h"

#include <cmath>

#include "tests/support/clouds.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tests/tools/minuet/cloud/cpu_voxelizer.h"
#include "tools/minuet/cloud/voxelize.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

constexpr Position kUtm = {450000, 5.4e6, 300};

std::vector<Point> lidar(const Position& shift) {
  static const std::vector<float> values = make_cloud({CloudKind::Lidar, 40000, 0, 7});
  std::vector<Point> points(values.size() / 4);
  for (size_t i = 0; i < values.size(); ++i) {
    points[i / 4][i % 4] = static_cast<double>(values[i]) + (i % 4 < 3 ? shift[i % 4] : 0);
  }
  return points;
}

Frame frame_of(const std::vector<Point>& points, Scalar type, double voxel_size) {
  llvm::Expected<Frame> frame = choose_frame(points, {type, type, type}, std::nullopt, cubic(voxel_size));
  if (frame) return *frame;
  ADD_FAILURE() << llvm::toString(frame.takeError());
  return {};
}

TEST(Frame, StepsAreThoseOfTheTypes) {
  for (const double value : {0.75, 1.0, 1.5, 100.0, 4096.0, 450000.0, 5.4e6}) {
    const auto narrow = static_cast<float>(value);
    EXPECT_EQ(step_of(Scalar::F32, value), static_cast<double>(std::nextafter(narrow, INFINITY) - narrow))
        << value;
    EXPECT_EQ(step_of(Scalar::F64, value), std::nextafter(value, INFINITY) - value) << value;
  }
  EXPECT_EQ(step_of(Scalar::F16, 2048), 2);
  EXPECT_EQ(step_of(Scalar::F16, 2047), 1);
  EXPECT_GT(step_of(Scalar::F32, 0), 0);
}

TEST(Frame, NearCloudsCountFromZero) {
  EXPECT_FALSE(frame_of(lidar({}), Scalar::F32, 0.1).is_moved());
  EXPECT_FALSE(frame_of({}, Scalar::F32, 0.1).is_moved());
  EXPECT_FALSE(frame_of({{NAN, 1e9, 0, 0}, {1, 2, 3, 0}}, Scalar::F64, 0.1).is_moved());
}

TEST(Frame, FarCloudsGetAnOriginOfWholeVoxels) {
  const Frame frame = frame_of(lidar(kUtm), Scalar::F64, 0.1);
  EXPECT_NEAR(frame.origin[0], 450000, 200);
  EXPECT_NEAR(frame.origin[1], 5.4e6, 200);
  const auto voxels = frame.whole_voxels();
  ASSERT_TRUE(voxels);
  EXPECT_EQ(static_cast<double>((*voxels)[0]) * 0.1, frame.origin[0]);
  Frame other = frame;
  other.origin[2] += 0.03;
  EXPECT_FALSE(other.whole_voxels());
}

TEST(Frame, AShiftedCloudHasTheSameVoxels) {
  const auto count = [](const std::vector<Point>& points, const Frame& frame) {
    llvm::Expected<VoxelCloud> cloud =
        voxelize(points, frame.voxel_size, false, cpu_voxelizer(), frame.origin);
    if (cloud) return static_cast<double>(cloud->count());
    ADD_FAILURE() << llvm::toString(cloud.takeError());
    return 0.0;
  };
  for (const double voxel_size : {0.05, 0.1, 0.2}) {
    const std::vector<Point> near = lidar({}), far = lidar(kUtm);
    const double expected = count(near, frame_of(near, Scalar::F32, voxel_size));
    EXPECT_GT(expected, 5000);
    EXPECT_NEAR(count(far, frame_of(far, Scalar::F64, voxel_size)), expected, 1e-3 * expected) << voxel_size;
  }
}

TEST(Frame, WhatDoesNotResolveIsRefused) {
  EXPECT_THAT(
      error_of(choose_frame(lidar(kUtm), {Scalar::F32, Scalar::F32, Scalar::F32}, std::nullopt, cubic(0.1))),
      HasSubstr("store the points as float64"));
  EXPECT_THAT(
      error_of(choose_frame(lidar({}), {Scalar::F16, Scalar::F16, Scalar::F16}, std::nullopt, cubic(0.1))),
      HasSubstr("float16 numbers"));
  EXPECT_THAT(
      error_of(choose_frame(lidar(kUtm), {Scalar::F64, Scalar::F64, Scalar::F64}, Position{}, cubic(0.1))),
      HasSubstr("another --origin"));
  EXPECT_THAT(error_of(choose_frame({{-4e6, 0, 0, 0}, {4e6, 0, 0, 0}},
                                    {Scalar::F64, Scalar::F64, Scalar::F64}, std::nullopt, cubic(0.1))),
              HasSubstr("a larger --voxel-size"));
}

TEST(Frame, EachAxisHasItsOwnType) {
  const std::vector<Point> points = {{450000, 5.4e6, 3, 0}, {450001, 5.4e6, 4, 0}};
  llvm::Expected<Frame> frame =
      choose_frame(points, {Scalar::F64, Scalar::F64, Scalar::F32}, std::nullopt, cubic(0.1));
  ASSERT_TRUE(!!frame) << llvm::toString(frame.takeError());
  EXPECT_FALSE(frame->is_coarse());
  EXPECT_THAT(
      error_of(choose_frame(points, {Scalar::F64, Scalar::F32, Scalar::F64}, std::nullopt, cubic(0.1))),
      HasSubstr("float32 numbers are 0.5 m apart"));
  llvm::Expected<Frame> coarse =
      choose_frame({{1e5, 0, 0, 0}}, {Scalar::F32, Scalar::F32, Scalar::F32}, std::nullopt, cubic(0.1));
  ASSERT_TRUE(!!coarse) << llvm::toString(coarse.takeError());
  EXPECT_TRUE(coarse->is_coarse());
  EXPECT_EQ(coarse->step, 0.0078125);
}

constexpr std::array<Scalar, 3> kFloats = {Scalar::F32, Scalar::F32, Scalar::F32};
constexpr std::array<Scalar, 3> kDoubles = {Scalar::F64, Scalar::F64, Scalar::F64};

/// 1000 m are fine for voxels of 0.1 m, and too far out for voxels of 0.01 m, on the axis that has those
/// alone.
TEST(Frame, EachAxisIsMeasuredByItsOwnVoxels) {
  for (size_t axis = 0; axis < 3; ++axis) {
    Point point = {1, 1, 1, 0};
    point[axis] = 1000;
    for (size_t fine = 0; fine < 3; ++fine) {
      VoxelSize size = cubic(0.1);
      size[fine] = 0.01;
      llvm::Expected<Frame> frame = choose_frame({point, {1, 1, 1, 0}}, kDoubles, std::nullopt, size);
      ASSERT_TRUE(!!frame) << llvm::toString(frame.takeError());
      EXPECT_EQ(frame->is_moved(), fine == axis) << axis << fine;
      EXPECT_TRUE(frame->whole_voxels());
      size[fine] = 0.0001;
      const std::string error = error_of(choose_frame({point}, kFloats, std::nullopt, size));
      if (fine == axis) {
        EXPECT_THAT(error,
                    HasSubstr("1000 m from 0, where float32 numbers are 6.10351562e-05 m apart: too coarse "
                              "for voxels of 0.0001 m"));
      } else {
        EXPECT_EQ(error, "");
      }
    }
  }
}

TEST(Frame, TheCoarsestAxisIsTold) {
  llvm::Expected<Frame> frame = choose_frame({{1000, 100, 10, 0}}, kFloats, Position{}, {1, 0.001, 1});
  ASSERT_TRUE(!!frame) << llvm::toString(frame.takeError());
  EXPECT_EQ(frame->step, 0x1p-17);
  EXPECT_EQ(frame->step_voxels, 0x1p-17 / 0.001);
  EXPECT_TRUE(frame->is_coarse());
  EXPECT_THAT(error_of(choose_frame({{-4e6, 0, 0, 0}, {4e6, 0, 0, 0}}, kDoubles, std::nullopt, {0.1, 9, 9})),
              HasSubstr("too coarse for voxels of 0.1 m"));
}

/// An origin is a whole number of voxels only where it is one on every axis.
TEST(Frame, WholeVoxelsOnEachAxis) {
  Frame frame;
  frame.voxel_size = {0.25, 0.5, 2};
  frame.origin = {1, 1, 2};
  EXPECT_EQ(frame.whole_voxels(), (std::array<int64_t, 3>{4, 2, 1}));
  frame.origin = {1, 1, 1};
  EXPECT_FALSE(frame.whole_voxels());
  frame.origin = {0.25, 0.25, 2};
  EXPECT_FALSE(frame.whole_voxels());
}

TEST(Frame, FeaturesAreRelativeToTheOrigin) {
  const std::vector<Point> points = {{450000.25, 5400000.5, 300.75, 0.5}};
  llvm::Expected<VoxelCloud> cloud = voxelize(points, cubic(0.1), false, cpu_voxelizer(), kUtm);
  ASSERT_TRUE(!!cloud) << llvm::toString(cloud.takeError());
  EXPECT_EQ(cloud->features, (std::vector<float>{0.25f, 0.5f, 0.75f, 0.5f}));
  EXPECT_EQ(cloud->coordinates, (std::vector<int32_t>{0, 2, 5, 7}));
  EXPECT_EQ(cloud->row_of_point, (std::vector<int64_t>{0}));
}

}  // namespace
}  // namespace minuet::tool
