#include "tools/minuet/frame.h"

#include <cmath>

#include "tests/support/clouds.h"
#include "tests/tools/bytes.h"
#include "tools/minuet/voxelize.h"

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
  llvm::Expected<Frame> frame = choose_frame(points, {type, type, type}, std::nullopt, voxel_size);
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
        voxelize(points, static_cast<float>(frame.voxel_size), false, frame.origin);
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
  EXPECT_THAT(error_of(choose_frame(lidar(kUtm), {Scalar::F32, Scalar::F32, Scalar::F32}, std::nullopt, 0.1)),
              HasSubstr("store them as float64"));
  EXPECT_THAT(error_of(choose_frame(lidar({}), {Scalar::F16, Scalar::F16, Scalar::F16}, std::nullopt, 0.1)),
              HasSubstr("float16 numbers"));
  EXPECT_THAT(error_of(choose_frame(lidar(kUtm), {Scalar::F64, Scalar::F64, Scalar::F64}, Position{}, 0.1)),
              HasSubstr("another --origin"));
  EXPECT_THAT(error_of(choose_frame({{-4e6, 0, 0, 0}, {4e6, 0, 0, 0}},
                                    {Scalar::F64, Scalar::F64, Scalar::F64}, std::nullopt, 0.1)),
              HasSubstr("a larger --voxel-size"));
}

TEST(Frame, EachAxisHasItsOwnType) {
  const std::vector<Point> points = {{450000, 5.4e6, 3, 0}, {450001, 5.4e6, 4, 0}};
  llvm::Expected<Frame> frame =
      choose_frame(points, {Scalar::F64, Scalar::F64, Scalar::F32}, std::nullopt, 0.1);
  ASSERT_TRUE(!!frame) << llvm::toString(frame.takeError());
  EXPECT_FALSE(frame->is_coarse());
  EXPECT_THAT(error_of(choose_frame(points, {Scalar::F64, Scalar::F32, Scalar::F64}, std::nullopt, 0.1)),
              HasSubstr("float32 numbers are 0.5 m apart"));
  llvm::Expected<Frame> coarse =
      choose_frame({{1e5, 0, 0, 0}}, {Scalar::F32, Scalar::F32, Scalar::F32}, std::nullopt, 0.1);
  ASSERT_TRUE(!!coarse) << llvm::toString(coarse.takeError());
  EXPECT_TRUE(coarse->is_coarse());
  EXPECT_EQ(coarse->step, 0.0078125);
}

TEST(Frame, FeaturesAreRelativeToTheOrigin) {
  const std::vector<Point> points = {{450000.25, 5400000.5, 300.75, 0.5}};
  llvm::Expected<VoxelCloud> cloud = voxelize(points, 0.1f, false, kUtm);
  ASSERT_TRUE(!!cloud) << llvm::toString(cloud.takeError());
  EXPECT_EQ(cloud->features, (std::vector<float>{0.25f, 0.5f, 0.75f, 0.5f}));
  EXPECT_EQ(cloud->coordinates, (std::vector<int32_t>{0, 2, 5, 7}));
  EXPECT_EQ(cloud->row_of_point, (std::vector<int64_t>{0}));
}

}  // namespace
}  // namespace minuet::tool
