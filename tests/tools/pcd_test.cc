#include "tools/minuet/readers/pcd.h"

#include <lzf.h>

#include "tests/tools/bytes.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

/// A spare field of two values, a double and a float intensity.
std::string pcd_header(const std::string& data, const std::string& points = "2") {
  return "# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\nFIELDS x normal y z intensity\nSIZE 4 2 8 "
         "4 4\n"
         "TYPE F I F F F\nCOUNT 1 2 1 1 1\nWIDTH " +
         points + "\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS " + points + "\nDATA " + data + "\n";
}

std::string single(double value) { return packed(static_cast<float>(value)); }

std::string interleaved() {
  std::string bytes;
  for (const Point& point : kPoints) {
    bytes += single(point[0]) + packed<int16_t>(7) + packed<int16_t>(8) + packed<double>(point[1]) +
             single(point[2]) + single(point[3]);
  }
  return bytes;
}

/// Field after field, as binary_compressed has it.
std::string planes() {
  const Point &a = kPoints[0], &b = kPoints[1];
  std::string bytes = single(a[0]) + single(b[0]);
  for (int i = 0; i < 4; ++i) bytes += packed<int16_t>(7);
  return bytes + packed<double>(a[1]) + packed<double>(b[1]) + single(a[2]) + single(b[2]) + single(a[3]) +
         single(b[3]);
}

std::string compressed(const std::string& bytes) {
  std::string out(bytes.size() * 2, '\0');
  const unsigned size = lzf_compress(bytes.data(), static_cast<unsigned>(bytes.size()), out.data(),
                                     static_cast<unsigned>(out.size()));
  EXPECT_GT(size, 0u);
  return packed<uint32_t>(size) + packed<uint32_t>(static_cast<uint32_t>(bytes.size())) + out.substr(0, size);
}

const std::string kAsciiPcd = pcd_header("ascii") + "1.5 7 8 -2 3 0.25\n4 7 8 5 -6.5 1.0\n";

TEST(PcdReader, Ascii) { EXPECT_EQ(points_of(read_pcd(kAsciiPcd)), kPoints); }

TEST(PcdReader, Binary) { EXPECT_EQ(points_of(read_pcd(pcd_header("binary") + interleaved())), kPoints); }

TEST(PcdReader, BinaryCompressed) {
  EXPECT_EQ(points_of(read_pcd(pcd_header("binary_compressed") + compressed(planes()))), kPoints);
}

TEST(PcdReader, AFieldOfSeveralValuesIsNoIntensity) {
  EXPECT_EQ(points_of(read_pcd("FIELDS x y z intensity\nSIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 2\nWIDTH 1\n"
                               "HEIGHT 1\nDATA ascii\n1 2 3 8 9\n")),
            (std::vector<Point>{{1, 2, 3, 0}}));
}

TEST(PcdReader, ACompressedCloudThatReallyShrinks) {
  const std::string lines =
      "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 1000\nHEIGHT 10\nDATA binary_compressed\n";
  std::string bytes;
  for (int i = 0; i < 30000; ++i) bytes += packed(static_cast<float>(i / 10000));
  const std::string file = lines + compressed(bytes);
  EXPECT_LT(file.size(), 10000u);
  EXPECT_EQ(points_of(read_pcd(file)), std::vector<Point>(10000, Point{0, 1, 2, 0}));
}

TEST(PcdReader, PaddingIsNoAttribute) {
  llvm::Expected<Cloud> cloud = read_pcd(
      "VERSION 0.7\nFIELDS x y z _ ring\nSIZE 4 4 4 1 1\nTYPE F F F U U\nCOUNT 1 1 1 4 1\nWIDTH 1\nHEIGHT 1\n"
      "POINTS 1\nDATA ascii\n1 2 3 0 0 0 0 7\n");
  ASSERT_TRUE(!!cloud) << llvm::toString(cloud.takeError());
  ASSERT_EQ(cloud->attributes.size(), 1u);
  EXPECT_EQ(cloud->attributes[0].name, "ring");
  EXPECT_EQ(cloud->attributes[0].values, "\x07");
}

TEST(PcdReader, RefusesBrokenHeaders) {
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string file = kAsciiPcd;
    file.replace(file.find(from), from.size(), to);
    return error_of(read_pcd(file));
  };
  EXPECT_THAT(error_of(read_pcd("hello\n")), HasSubstr("not a PCD"));
  EXPECT_THAT(changed("SIZE 4 2 8 4 4", "SIZE 4 2 8"), HasSubstr("same length"));
  EXPECT_THAT(changed("SIZE 4 2 8 4 4", "SIZE 4 2 3 4 4"), HasSubstr("F3"));
  EXPECT_THAT(changed("COUNT 1 2", "COUNT 1 -2"), HasSubstr("COUNT"));
  EXPECT_THAT(changed("FIELDS x", "FIELDS a"), HasSubstr("x, y and z"));
  EXPECT_THAT(changed("POINTS 2", "POINTS 3"), HasSubstr("3 points"));
  EXPECT_THAT(changed("WIDTH 2", "WIDTH two"), HasSubstr("WIDTH"));
  EXPECT_THAT(changed("DATA ascii", "DATA morse"), HasSubstr("morse"));
  EXPECT_THAT(changed("VERSION", "VERSUS"), HasSubstr("not a PCD"));
  EXPECT_THAT(changed("3 0.25", "three 0.25"), HasSubstr("three"));
}

TEST(PcdReader, RefusesHugeCountsWithoutTakingMemory) {
  for (const char* points : {"1000000000000", "4611686018427387904", "99999999999999999999"}) {
    EXPECT_FALSE(error_of(read_pcd(pcd_header("ascii", points) + "1 2 3\n")).empty());
    EXPECT_FALSE(error_of(read_pcd(pcd_header("binary", points) + interleaved())).empty());
    EXPECT_FALSE(error_of(read_pcd(pcd_header("binary_compressed", points) + compressed(planes()))).empty());
  }
  const std::string lie = packed<uint32_t>(16) + packed<uint32_t>(4200000000u) + std::string(16, '\0');
  EXPECT_FALSE(error_of(read_pcd(pcd_header("binary_compressed", "175000000") + lie)).empty());
}

TEST(PcdReader, RefusesBrokenCompression) {
  std::string file = pcd_header("binary_compressed") + compressed(planes());
  const std::string whole = file;
  for (size_t i = pcd_header("binary_compressed").size() + 8; i < file.size(); ++i) file[i] = '\xff';
  EXPECT_THAT(error_of(read_pcd(file)), HasSubstr("broken"));
  expect_truncations_refused(read_pcd, whole, whole.size());
  expect_no_crash_when_mutated(read_pcd, whole);
}

TEST(PcdReader, TruncatedAndMutated) {
  const std::string binary = pcd_header("binary") + interleaved();
  expect_truncations_refused(read_pcd, binary, binary.size());
  expect_no_crash_when_mutated(read_pcd, binary);
  expect_truncations_refused(read_pcd, kAsciiPcd,
                             kAsciiPcd.size() - 4);  // from there on "1", "1." and "1.0" are numbers
  expect_no_crash_when_mutated(read_pcd, kAsciiPcd);
}

}  // namespace
}  // namespace minuet::tool
