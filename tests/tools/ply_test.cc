#include "tools/minuet/readers/ply.h"

#include "tests/tools/bytes.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

/// Faces before the vertices, a list and spare properties among them, doubles and shorts.
std::string ply_header(const std::string& format) {
  return "ply\nformat " + format +
         " 1.0\ncomment made by a test\nelement face 2\nproperty list uchar int vertex_indices\n"
         "element vertex 2\nproperty double x\nproperty uchar red\nproperty float y\nproperty short z\n"
         "property list uint8 float weights\nproperty float intensity\nend_header\n";
}

std::string binary(bool big) {
  std::string file = ply_header(big ? "binary_big_endian" : "binary_little_endian");
  file += packed<uint8_t>(3) + packed<int32_t>(0, big) + packed<int32_t>(1, big) + packed<int32_t>(2, big);
  file += packed<uint8_t>(0);
  file += packed(1.5, big) + packed<uint8_t>(9) + packed(-2.0f, big) + packed<int16_t>(3, big) +
          packed<uint8_t>(2) + packed(7.0f, big) + packed(8.0f, big) + packed(0.25f, big);
  file += packed(4.0, big) + packed<uint8_t>(9) + packed(5.0f, big) + packed<int16_t>(-6, big) +
          packed<uint8_t>(0) + packed(1.0f, big);
  return file;
}

const std::string kAsciiPly = ply_header("ascii") + "3 0 1 2\n0\n1.5 9 -2.0 3 2 7 8 0.25\n4 9 5 -6 0 1e0\n";

/// z is a short.
std::vector<Point> points_of_shorts() {
  std::vector<Point> points = kPoints;
  points[1][2] = -6;
  return points;
}

TEST(PlyReader, Ascii) { EXPECT_EQ(points_of(read_ply(kAsciiPly)), points_of_shorts()); }

TEST(PlyReader, AsciiWithWindowsLines) {
  std::string file;
  for (const char c : kAsciiPly) file += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(points_of(read_ply(file)), points_of_shorts());
}

TEST(PlyReader, BinaryOfBothByteOrders) {
  for (const bool big : {false, true}) EXPECT_EQ(points_of(read_ply(binary(big))), points_of_shorts());
}

TEST(PlyReader, NoIntensity) {
  EXPECT_EQ(points_of(read_ply("ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n"
                               "property float z\nend_header\n1 2 nan\n"))
                .size(),
            1u);
}

TEST(PlyReader, TheFirstOfTwoIntensitiesCounts) {
  EXPECT_EQ(points_of(read_ply("ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n"
                               "property float z\nproperty float reflectivity\nproperty float intensity\n"
                               "end_header\n1 2 3 0.5 0.75\n")),
            (std::vector<Point>{{1, 2, 3, 0.5f}}));
}

TEST(PlyReader, DoublesStayDoublesAndColoursAreNoIntensity) {
  const auto vertices = [](const char* type) {
    return std::string("ply\nformat ascii 1.0\nelement vertex 1\nproperty ") + type + " x\nproperty " + type +
           " y\nproperty " + type + " z\nproperty uchar red\nend_header\n450000.123 5400000.25 1 200\n";
  };
  llvm::Expected<Cloud> cloud = read_ply(vertices("double"));
  ASSERT_TRUE(!!cloud) << llvm::toString(cloud.takeError());
  EXPECT_EQ(cloud->points, (std::vector<Point>{{450000.123, 5400000.25, 1, 0}}));
  EXPECT_TRUE(cloud->has_double_positions());
  EXPECT_EQ(cloud->columns, "x y z <- properties x y z, intensity <- none (0)");
  ASSERT_EQ(cloud->attributes.size(), 1u);
  EXPECT_EQ(cloud->attributes[0].values, packed<uint8_t>(200));
  llvm::Expected<Cloud> narrow = read_ply(vertices("float"));
  ASSERT_TRUE(!!narrow) << llvm::toString(narrow.takeError());
  EXPECT_EQ(narrow->points[0][0], static_cast<double>(450000.123f));
  EXPECT_FALSE(narrow->has_double_positions());
}

TEST(PlyReader, AListHasAWholeLength) {
  for (const char* length : {"nan", "inf", "1.5", "-1"}) {
    EXPECT_THAT(
        error_of(read_ply(std::string("ply\nformat ascii 1.0\nelement face 1\nproperty list uchar int i\n"
                                      "element vertex 1\nproperty float x\nproperty float y\n"
                                      "property float z\nend_header\n") +
                          length + " 7 1 2 3\n")),
        HasSubstr("row 0"))
        << length;
  }
}

TEST(PlyReader, RefusesBrokenHeaders) {
  const std::string start = "ply\nformat ascii 1.0\n";
  const std::string xyz = "property float x\nproperty float y\nproperty float z\nend_header\n";
  EXPECT_THAT(error_of(read_ply("plywood")), HasSubstr("not a PLY"));
  EXPECT_THAT(error_of(read_ply("ply\nend_header\n")), HasSubstr("format"));
  EXPECT_THAT(error_of(read_ply("ply\nformat base64 1.0\nend_header\n")), HasSubstr("base64"));
  EXPECT_THAT(error_of(read_ply(start + "property float x\nend_header\n")), HasSubstr("before any element"));
  EXPECT_THAT(error_of(read_ply(start + "element vertex -1\n" + xyz)), HasSubstr("count"));
  EXPECT_THAT(error_of(read_ply(start + "element vertex 1\nproperty float128 x\nend_header\n")),
              HasSubstr("float128"));
  EXPECT_THAT(error_of(read_ply(start + "element vertex 1\nproperty list float int x\nend_header\n")),
              HasSubstr("list"));
  EXPECT_THAT(
      error_of(read_ply(start + "element vertex 1\nproperty float x\nproperty float y\nend_header\n1 2\n")),
      HasSubstr("x, y and z"));
  EXPECT_THAT(error_of(read_ply(start + "element vertex 1\nproperty float x\n" + xyz + "1 1 2 3\n")),
              HasSubstr("twice"));
  EXPECT_THAT(error_of(read_ply(start + "element edge 0\nproperty int a\nend_header\n")),
              HasSubstr("vertex"));
  EXPECT_THAT(error_of(read_ply(start + "element vertex 1\n" + xyz + "1 two 3\n")), HasSubstr("row 0"));
}

TEST(PlyReader, RefusesHugeCountsWithoutTakingMemory) {
  for (const char* format : {"ascii", "binary_little_endian", "binary_big_endian"}) {
    const std::string start = std::string("ply\nformat ") + format + " 1.0\n";
    for (const char* count : {"1000000000000", "4611686018427387904", "99999999999999999999999"}) {
      EXPECT_FALSE(
          error_of(read_ply(start + "element vertex " + count +
                            "\nproperty float x\nproperty float y\nproperty float z\nend_header\n1 2 3\n"))
              .empty());
    }
    EXPECT_FALSE(error_of(read_ply(start + "element face 4611686018427387904\nelement vertex 9\n"
                                           "property list uint float w\nproperty float x\nproperty float y\n"
                                           "property float z\nend_header\n\xff\xff\xff\xff"
                                           "4294967295 1 2 3\n"))
                     .empty());
  }
}

TEST(PlyReader, TruncatedAndMutated) {
  for (const bool big : {false, true}) {
    expect_truncations_refused(read_ply, binary(big), binary(big).size());
    expect_no_crash_when_mutated(read_ply, binary(big));
  }
  expect_truncations_refused(read_ply, kAsciiPly,
                             kAsciiPly.size() - 4);  // "1", "1e" and "1e0" are numbers or not
  expect_no_crash_when_mutated(read_ply, kAsciiPly);
}

}  // namespace
}  // namespace minuet::tool
