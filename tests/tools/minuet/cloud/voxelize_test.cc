#include "tools/minuet/cloud/voxelize.h"

#include <cmath>
#include <limits>
#include <map>

#include "tests/support/clouds.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tests/tools/minuet/cloud/cpu_voxelizer.h"
#include "tools/minuet/cloud/input.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

VoxelCloud voxels_of(const std::vector<Point>& points, float voxel_size, bool skip = false) {
  auto cloud = voxelize(points, cubic(static_cast<double>(voxel_size)), skip, cpu_voxelizer());
  if (cloud) return *cloud;
  ADD_FAILURE() << llvm::toString(cloud.takeError());
  return {};
}

TEST(Voxelize, FloorsAndAverages) {
  const VoxelCloud cloud =
      voxels_of({{0.5f, -0.25f, 3.0f, 1.0f}, {-0.5f, 0, 0, 0}, {0.75f, -0.75f, 3.5f, 2.0f}}, 1.0f);
  EXPECT_EQ(cloud.coordinates, (std::vector<int32_t>{0, 0, -1, 3, 0, -1, 0, 0}));
  EXPECT_EQ(cloud.features, (std::vector<float>{0.625f, -0.5f, 3.25f, 1.5f, -0.5f, 0, 0, 0}));
}

TEST(Voxelize, DividesInFloat32) {
  // 0.3f / 0.1f is exactly 3 in float32 and 3.0000001 or 2.9999998 in other arithmetic; 0.7f / 0.1f is
  // just under 7 in float64 and 7 (or not) as float32 rounds it. The definition is the float32 quotient.
  for (int i = -2000; i <= 2000; ++i) {
    const float position = 0.1f * static_cast<float>(i);
    volatile float quotient = position / 0.1f;  // kept from being widened
    const VoxelCloud cloud =
        voxels_of({{static_cast<double>(position), static_cast<double>(-position), 0, 0}}, 0.1f);
    EXPECT_EQ(cloud.coordinates[1], static_cast<int32_t>(std::floor(quotient))) << position;
    EXPECT_EQ(cloud.coordinates[2], static_cast<int32_t>(std::floor(-quotient))) << position;
  }
}

TEST(Voxelize, AgreesWithTheOtherImplementation) {
  CloudOptions options;
  options.points = 20000;
  for (const CloudKind kind : {CloudKind::Lidar, CloudKind::Room, CloudKind::Object, CloudKind::Random}) {
    options.kind = kind;
    const std::vector<float> values = make_cloud(options);
    std::vector<Point> points(values.size() / 4);
    for (size_t i = 0; i < values.size(); ++i) points[i / 4][i % 4] = static_cast<double>(values[i]);
    EXPECT_EQ(voxels_of(points, 0.07f).coordinates, voxelize_cloud(values, 0.07f));
  }
}

/// Each axis is cut by its own size, and by nothing else.
TEST(Voxelize, AnotherSizeOnEachAxis) {
  const std::vector<Point> points = {{0.26, 0.26, 0.26, 1}, {-0.26, 1.9, 0.99, 3}, {0.24, 0.49, -0.01, 5}};
  llvm::Expected<VoxelCloud> cloud = voxelize(points, {0.25, 0.5, 1}, false, cpu_voxelizer());
  ASSERT_TRUE(!!cloud);
  EXPECT_EQ(cloud->coordinates, (std::vector<int32_t>{0, 1, 0, 0, 0, -2, 3, 0, 0, 0, 0, -1}));
  for (size_t axis = 0; axis < 3; ++axis) {
    VoxelSize size = cubic(0.1);
    size[axis] = 0.07;
    std::vector<Point> line;
    for (int i = -300; i < 300; ++i) line.push_back({0.013 * i, 0.013 * i, 0.013 * i, 0});
    llvm::Expected<VoxelCloud> mixed = voxelize(line, size, false, cpu_voxelizer());
    ASSERT_TRUE(!!mixed);
    for (size_t i = 0; i < line.size(); ++i) {
      const auto row = static_cast<size_t>(mixed->row_of_point[i]);
      for (size_t a = 0; a < 3; ++a) {
        const float edge = a == axis ? 0.07f : 0.1f;
        EXPECT_EQ(mixed->coordinates[4 * row + 1 + a],
                  static_cast<int32_t>(std::floor(static_cast<float>(line[i][a]) / edge)));
      }
    }
  }
}

TEST(Voxelize, ASizeThatIsWrongOnOneAxisIsRefused) {
  for (size_t axis = 0; axis < 3; ++axis) {
    for (const double bad :
         {0.0, -0.1, static_cast<double>(NAN), static_cast<double>(INFINITY), 1e-50, 1e300}) {
      VoxelSize size = cubic(0.5);
      size[axis] = bad;
      EXPECT_THAT(error_of(voxelize({{0, 0, 0, 0}}, size, false, cpu_voxelizer())),
                  HasSubstr("positive number of metres"));
    }
  }
  EXPECT_THAT(error_of(voxelize({{0, 0, 3e9, 0}}, {1, 1, 0.5}, false, cpu_voxelizer())),
              HasSubstr("is at z = 3e+09 m, which is outside int32 in voxels of 0.5 m"));
}

TEST(Input, VoxelSizesAsTheyAreWritten) {
  const auto size_of = [](const std::string& text) { return llvm::cantFail(parse_voxel_size(text)); };
  EXPECT_EQ(size_of("0.1"), cubic(0.1));
  EXPECT_EQ(size_of("0.05,0.05,0.1"), (VoxelSize{0.05, 0.05, 0.1}));
  EXPECT_EQ(size_of(" 1, 2 ,3"), (VoxelSize{1, 2, 3}));
  EXPECT_THAT(error_of(parse_voxel_size("0,5")),
              HasSubstr("has 2 numbers: give one, or one each for x, y and z"));
  EXPECT_THAT(error_of(parse_voxel_size("1,2,3,4")), HasSubstr("has 4 numbers"));
  EXPECT_THAT(error_of(parse_voxel_size("1,,3")), HasSubstr("'' is not a number"));
  EXPECT_THAT(error_of(parse_voxel_size("1,2,big")), HasSubstr("'big' is not a number"));
  EXPECT_THAT(error_of(parse_voxel_size("1,2,0")), HasSubstr("positive"));
  EXPECT_EQ(size_text(cubic(0.1)), "0.1");
  EXPECT_EQ(size_text({0.05, 0.05, 0.1}), "0.05 x 0.05 x 0.1");
  EXPECT_EQ(size_json(cubic(0.1)), llvm::json::Value(0.1));
  EXPECT_EQ(size_json({0.05, 0.05, 0.1}), llvm::json::Value(llvm::json::Array{0.05, 0.05, 0.1}));
}

TEST(Voxelize, NegativeZeroAndTinyNumbers) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(voxels_of({{-0.0f, tiny, -tiny, 0}}, 0.5f).coordinates, (std::vector<int32_t>{0, 0, 0, -1}));
}

TEST(Voxelize, Int32IsTheLimit) {
  EXPECT_EQ(voxels_of({{-2147483648.0f, 2147483520.0f, 0, 0}}, 1.0f).coordinates,
            (std::vector<int32_t>{0, -2147483647 - 1, 2147483520, 0}));
  for (const float far : {2147483648.0f, -2147483904.0f, 3e38f}) {
    EXPECT_THAT(error_of(voxelize({{0, far, 0, 0}}, cubic(1), false, cpu_voxelizer())),
                HasSubstr("outside int32"));
  }
  EXPECT_THAT(error_of(voxelize({{1e30f, 0, 0, 0}}, cubic(1e-30), false, cpu_voxelizer())),
              HasSubstr("outside int32"));
}

TEST(Voxelize, InvalidPointsAreAnErrorOrCounted) {
  for (int column = 0; column < 4; ++column) {
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      std::vector<Point> points = {{1, 2, 3, 0.5f}, {1, 2, 3, 0.5f}};
      points[1][static_cast<size_t>(column)] = bad;
      EXPECT_THAT(error_of(voxelize(points, cubic(1), false, cpu_voxelizer())), HasSubstr("point 1"));
      const VoxelCloud cloud = voxels_of(points, 1.0f, true);
      EXPECT_EQ(cloud.skipped, 1);
      EXPECT_EQ(cloud.points, 2);
      EXPECT_EQ(cloud.features, (std::vector<float>{1, 2, 3, 0.5f}));
    }
  }
}

TEST(Voxelize, RefusesBadVoxelSizes) {
  for (const float size : {0.0f, -0.0f, -0.1f, NAN, INFINITY}) {
    EXPECT_THAT(error_of(voxelize({{0, 0, 0, 0}}, cubic(size), false, cpu_voxelizer())),
                HasSubstr("voxel size"));
  }
}

TEST(Voxelize, ManyPointsInOneVoxelAverageExactly) {
  // A float32 sum would stop growing at 2^24.
  const std::vector<Point> points(1 << 20, Point{0.1f, 1000.03f, -0.7f, 1.0f});
  EXPECT_EQ(voxels_of(points, 5000.0f).features, (std::vector<float>{0.1f, 1000.03f, -0.7f, 1.0f}));
}

TEST(Voxelize, NoPoints) { EXPECT_EQ(voxels_of({}, 1.0f).count(), 0); }

TEST(Input, CentresOfVoxels) {
  Cloud cloud;
  cloud.is_voxels = true;
  cloud.voxels = {0, -1, 0, 4};
  const VoxelCloud voxels = features_from_centres(cloud, cubic(0.5));
  EXPECT_EQ(voxels.features, (std::vector<float>{-0.25f, 0.25f, 2.25f, 0}));
  EXPECT_EQ(voxels.coordinates, cloud.voxels);
  EXPECT_EQ(features_from_centres(cloud, {0.5, 1, 2}).features, (std::vector<float>{-0.25f, 0.5f, 9, 0}));
}

TEST(Input, FeaturesBeyondTheTypeAreRefused) {
  VoxelCloud voxels;
  voxels.coordinates = {0, 0, 0, 0};
  voxels.features = {0, 0, 70000.0f, 0};
  EXPECT_THAT(error_of(encode_features(voxels, MINUET_F16)), HasSubstr("fp16"));
  EXPECT_EQ(error_of(encode_features(voxels, MINUET_BF16)), "");
}

}  // namespace
}  // namespace minuet::tool
