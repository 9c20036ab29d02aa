#include "tools/minuet/cloud/readers/bin.h"

#include "tests/tools/minuet/cloud/bytes.h"

namespace minuet::tool {
namespace {

std::string rows(int count, int columns) {
  std::string bytes;
  for (int i = 0; i < count * columns; ++i) bytes += packed(0.5f * static_cast<float>(i) - 3.0f);
  return bytes;
}

TEST(BinReader, TakesTheFirstFourColumns) {
  EXPECT_EQ(points_of(read_bin(rows(2, 3), {3, {}})),
            (std::vector<Point>{{-3.0f, -2.5f, -2.0f, 0.0f}, {-1.5f, -1.0f, -0.5f, 0.0f}}));
  EXPECT_EQ(points_of(read_bin(rows(2, 4), {4, {}})),
            (std::vector<Point>{{-3.0f, -2.5f, -2.0f, -1.5f}, {-1.0f, -0.5f, 0.0f, 0.5f}}));
  EXPECT_EQ(points_of(read_bin(rows(2, 5), {5, {}})),
            (std::vector<Point>{{-3.0f, -2.5f, -2.0f, -1.5f}, {-0.5f, 0.0f, 0.5f, 1.0f}}));
}

TEST(BinReader, RefusesPartsOfRows) {
  const std::string file = rows(3, 5);
  for (size_t length = 1; length < file.size(); ++length) {
    const std::string error = error_of(read_bin(file.substr(0, length), {5, {}}));
    EXPECT_EQ(error.empty(), length % 20 == 0) << length;
    if (!error.empty()) {
      EXPECT_THAT(error, testing::HasSubstr("--columns"));
    }
  }
}

Cloud cloud_of(llvm::Expected<Cloud> cloud) {
  if (cloud) return *cloud;
  ADD_FAILURE() << llvm::toString(cloud.takeError());
  return {};
}

TEST(BinReader, SaysWhatWasReadAsWhat) {
  EXPECT_EQ(cloud_of(read_bin(rows(2, 3), {3, {}})).columns, "x y z <- columns 0 1 2, intensity <- none (0)");
  EXPECT_EQ(cloud_of(read_bin(rows(1, 4), {{}, {}})).columns,
            "x y z <- columns 0 1 2, intensity <- column 3");
  EXPECT_EQ(cloud_of(read_bin(rows(15, 4), {{}, {}})).columns,
            "x y z <- columns 0 1 2, intensity <- column 3; read as rows of 4 float32 numbers, but the size "
            "also fits rows of 3, 5 or 6 (--columns)");
}

TEST(BinReader, ColoursAreNoIntensity) {
  const Cloud cloud = cloud_of(read_bin(rows(2, 6), {6, {}}));
  EXPECT_EQ(cloud.points[1], (Point{0, 0.5, 1, 0}));
  EXPECT_EQ(cloud.columns,
            "x y z <- columns 0 1 2, intensity <- none (0): columns 3 to 5 may be colours; "
            "--intensity-column selects one as the intensity");
  ASSERT_EQ(cloud.attributes.size(), 3u);
  EXPECT_EQ(cloud.attributes[2].name, "column_5");
  EXPECT_EQ(cloud.attributes[2].values, packed(-0.5f) + packed(2.5f));
  const Cloud named = cloud_of(read_bin(rows(2, 6), {6, 5}));
  EXPECT_EQ(named.points[1], (Point{0, 0.5, 1, 2.5}));
  EXPECT_EQ(named.columns, "x y z <- columns 0 1 2, intensity <- column 5");
  EXPECT_THAT(error_of(read_bin(rows(2, 6), {6, 6})), testing::HasSubstr("columns 0 to 5"));
}

}  // namespace
}  // namespace minuet::tool
