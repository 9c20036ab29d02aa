#include "tools/minuet/cloud/readers/pcd.h"

#include <lzf.h>

#include "tests/tools/minuet/cloud/bytes.h"

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

llvm::Expected<Cloud> read_any_pcd(llvm::StringRef bytes) { return read_pcd(bytes); }

TEST(PcdReader, Ascii) { EXPECT_EQ(points_of(read_pcd(kAsciiPcd)), kPoints); }

TEST(PcdReader, Binary) { EXPECT_EQ(points_of(read_pcd(pcd_header("binary") + interleaved())), kPoints); }

TEST(PcdReader, BinaryCompressed) {
  EXPECT_EQ(points_of(read_pcd(pcd_header("binary_compressed") + compressed(planes()))), kPoints);
}

/// All three formats give the same attributes for fields of several values.
TEST(PcdReader, FieldsOfSeveralValuesAreTheSameInEveryFormat) {
  constexpr int kRows = 5;
  for (const int count : {1, 2, 3, 7}) {
    const std::string header =
        "VERSION 0.7\nFIELDS x y z code weight ring\nSIZE 4 4 4 2 8 1\nTYPE F F F I F U\n"
        "COUNT 1 1 1 " +
        std::to_string(count) + " " + std::to_string(count) + " 1\nWIDTH " + std::to_string(kRows) +
        "\nHEIGHT 1\nDATA ";
    std::string ascii, rows, planes[6];
    for (int row = 0; row < kRows; ++row) {
      const auto add = [&](int field, const std::string& bytes, int value) {
        ascii += std::to_string(value) + " ";
        rows += bytes, planes[field] += bytes;
      };
      for (int axis = 0; axis < 3; ++axis) add(axis, single(10 * row + axis), 10 * row + axis);
      for (int i = 0; i < count; ++i) add(3, packed(static_cast<int16_t>(100 * row + i)), 100 * row + i);
      for (int i = 0; i < count; ++i) add(4, packed(static_cast<double>(1000 * row + i)), 1000 * row + i);
      add(5, packed(static_cast<uint8_t>(row)), row);
      ascii.back() = '\n';
    }
    std::string by_field;
    for (const std::string& plane : planes) by_field += plane;
    const std::pair<const char*, std::string> bodies[] = {
        {"ascii\n", ascii}, {"binary\n", rows}, {"binary_compressed\n", compressed(by_field)}};
    for (const auto& [format, body] : bodies) {
      SCOPED_TRACE(std::to_string(count) + " values, " + format);
      llvm::Expected<Cloud> cloud = read_pcd(header + format + body);
      ASSERT_TRUE(!!cloud) << llvm::toString(cloud.takeError());
      ASSERT_EQ(cloud->count(), kRows);
      EXPECT_EQ(cloud->points[3], (Point{30, 31, 32, 0}));
      ASSERT_EQ(cloud->attributes.size(), static_cast<size_t>(2 * count + 1));
      for (int i = 0; i < count; ++i) {
        std::string codes, weights;
        for (int row = 0; row < kRows; ++row) {
          codes += packed(static_cast<int16_t>(100 * row + i));
          weights += packed(static_cast<double>(1000 * row + i));
        }
        EXPECT_EQ(cloud->attributes[static_cast<size_t>(i)].values, codes) << "value " << i;
        EXPECT_EQ(cloud->attributes[static_cast<size_t>(count + i)].values, weights) << "value " << i;
      }
      EXPECT_EQ(cloud->attributes.back().values, std::string("\0\1\2\3\4", 5));
    }
  }
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

/// Whatever the form of its data is, a cloud of no points has its fields.
TEST(PcdReader, ACloudOfNoPointsHasItsFields) {
  for (const char* form : {"ascii", "binary", "binary_compressed"}) {
    SCOPED_TRACE(form);
    const std::string body = form == std::string("binary_compressed") ? std::string(8, '\0') : "";
    llvm::Expected<Cloud> cloud = read_pcd("FIELDS x y z i\nSIZE 8 4 4 4\nTYPE F F F F\nPOINTS 0\nDATA " +
                                           std::string(form) + "\n" + body);
    ASSERT_TRUE(!!cloud) << llvm::toString(cloud.takeError());
    EXPECT_EQ(cloud->count(), 0);
    EXPECT_EQ(cloud->columns, "x y z <- fields x y z, intensity <- none (0)");
    EXPECT_THAT(cloud->no_intensity, HasSubstr("--intensity-field"));
    ASSERT_EQ(cloud->attributes.size(), 1u);
    EXPECT_EQ(cloud->attributes[0].name, "i");
    EXPECT_EQ(cloud->position_types[1], Scalar::F32);
  }
}

TEST(PcdReader, SizesThatDisagreeAreToldByTheirLines) {
  const auto error = [](const std::string& lines) {
    return error_of(read_pcd("FIELDS x y z\n" + lines + "DATA ascii\n1 2 3\n4 5 6\n"));
  };
  EXPECT_EQ(error("WIDTH 0\nHEIGHT 1\nPOINTS 2\n"),
            "POINTS is 2, but WIDTH 0 times HEIGHT 1 is 0; correct one of the lines");
  EXPECT_EQ(error("WIDTH 3\nHEIGHT 2\nPOINTS 2\n"),
            "POINTS is 2, but WIDTH 3 times HEIGHT 2 is 6; correct one of the lines");
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
  EXPECT_THAT(changed("SIZE 4 2 8 4 4", "SIZE 4 2 8"), HasSubstr("as many words as FIELDS"));
  EXPECT_THAT(changed("SIZE 4 2 8 4 4", "SIZE 4 2 3 4 4"), HasSubstr("TYPE F and SIZE 3"));
  EXPECT_THAT(changed("COUNT 1 2", "COUNT 1 -2"), HasSubstr("COUNT"));
  EXPECT_THAT(changed("FIELDS x", "FIELDS a"), HasSubstr("x, y and z"));
  EXPECT_THAT(changed("POINTS 2", "POINTS 3"), HasSubstr("POINTS is 3"));
  EXPECT_THAT(changed("WIDTH 2", "WIDTH two"), HasSubstr("WIDTH"));
  EXPECT_THAT(changed("DATA ascii", "DATA morse"), HasSubstr("morse"));
  EXPECT_THAT(changed("DATA ascii", "DATA ascii binary"), HasSubstr("must have one word"));
  EXPECT_THAT(changed("VERSION", "VERSUS"), HasSubstr("not a PCD"));
  EXPECT_THAT(changed("3 0.25", "three 0.25"), HasSubstr("point 0, field 'z': 'three' is not a number"));
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
  expect_truncations_refused(read_any_pcd, whole, whole.size());
  expect_no_crash_when_mutated(read_any_pcd, whole);
}

const std::string kPlainPcd =
    "# .PCD v.7\nVERSION .7\nFIELDS x y z intensity\nSIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\nWIDTH 2\n"
    "HEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS 2\nDATA ascii\n1.5 -2 3 0.25\n4 5 -6.5 1\n";

/// Each header differs from the usual one and is read all the same.
TEST(PcdReader, HeadersAsTheLibraryTakesThem) {
  const std::pair<const char*, const char*> changes[] = {
      {"TYPE F F F F", "TYPE f f f f"},
      {"TYPE F F F F", "TYPE Float F float f"},
      {"FIELDS", "COLUMNS"},
      {"WIDTH 2\nHEIGHT 1\n", ""},
      {"WIDTH 2\nHEIGHT 1\n", "WIDTH 0\nHEIGHT 0\n"},
      {"HEIGHT 1\n", ""},
      {"HEIGHT 1\n", "HEIGHT 0\n"},
      {"POINTS 2\n", ""},
      {"WIDTH 2\nHEIGHT 1\n", "WIDTH 1\nHEIGHT 2\n"},
      {"SIZE 4 4 4 4\n", ""},
      {"TYPE F F F F\n", ""},
      {"COUNT 1 1 1 1\n", ""},
      {"SIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\n", ""},
      {"DATA ascii", "DATA ASCII"},
      {"DATA ascii", "DATA Ascii"},
      {"VERSION .7", "VERSION 0.7"},
      {"VERSION .7", "VERSION .5"},
      {"VERSION .7", "VERSION.7"},
      {"VERSION .7\n", ""},
      {"# .PCD v.7\n", ""},
      {"VIEWPOINT 0 0 0 1 0 0 0\n", ""},
      {"WIDTH", "\n \n# a comment\nWIDTH"},
      {"FIELDS x y z intensity", "FIELDS X Y Z Intensity"},
      {"POINTS 2\nDATA", "POINTS  2 \nDATA"},
      {" ", "\t"},
      {"\n", "\r\n"},
      {"\n", "\r"},
      {"\n", " \n"},
      {"# .PCD", "\xef\xbb\xbf# .PCD"},
      {"# .PCD", "\n\n# .PCD"},
  };
  for (const auto& [from, to] : changes) {
    const std::string file = replaced(kPlainPcd, from, to);
    EXPECT_NE(file, kPlainPcd) << from;
    EXPECT_EQ(points_of(read_pcd(file)), kPoints) << file;
  }
}

TEST(PcdReader, HeadersThatTheLibraryRefuses) {
  const std::pair<const char*, const char*> changes[] = {
      {"WIDTH 2\nHEIGHT 1\n", "HEIGHT 1\n"},
      {"WIDTH 2\nHEIGHT 1\n", "HEIGHT 2\n"},
      {"WIDTH 2\n", "WIDTH 0\n"},
      {"WIDTH 2\nHEIGHT 1\nPOINTS 2\n", ""},
      {"WIDTH 2\n", "WIDTH 3\n"},
      {"TYPE F F F F", "TYPE D D D D"},
      {"SIZE 4 4 4 4", "SIZE 2 2 2 2"},
      {"SIZE 4 4 4 4", "SIZE 4 4 4"},
  };
  for (const auto& [from, to] : changes) {
    const std::string file = replaced(replaced(kPlainPcd, "VIEWPOINT 0 0 0 1 0 0 0\n", ""), from, to);
    EXPECT_NE(error_of(read_pcd(file)), "") << file;
  }
}

template <class T>
void expect_type(const std::string& type, const std::string& size, T value, double expected) {
  const std::string header =
      "FIELDS x y z i\nSIZE 4 4 4 " + size + "\nTYPE F F F " + type + "\nPOINTS 1\nDATA ";
  const std::string bytes = packed(1.5f) + packed(-2.0f) + packed(3.0f) + packed(value);
  for (const std::string& file : {header + "binary\n" + bytes, header + "BINARY\n" + bytes,
                                  header + "binary_compressed\n" + compressed(bytes)}) {
    EXPECT_EQ(points_of(read_pcd(file, "i")), (std::vector<Point>{{1.5, -2, 3, expected}})) << header;
  }
}

TEST(PcdReader, EveryType) {
  expect_type<int8_t>("I", "1", -7, -7);
  expect_type<uint8_t>("u", "1", 200, 200);
  expect_type<int16_t>("i", "2", -1234, -1234);
  expect_type<uint16_t>("U", "2", 54321, 54321);
  expect_type<int32_t>("I", "4", -123456789, -123456789);
  expect_type<uint32_t>("U", "4", 3123456789u, 3123456789.0);
  expect_type<int64_t>("I", "8", -1234567890123, -1234567890123.0);
  expect_type<uint64_t>("U", "8", 0x8000000000000800u, 0x8000000000000800p0);
  expect_type<float>("f", "4", 1.25f, 1.25);
  expect_type<double>("F", "8", 0.1, 0.1);
}

TEST(PcdReader, TheIntensityByName) {
  const std::string file = replaced(kPlainPcd, "intensity", "i");
  llvm::Expected<Cloud> cloud = read_pcd(file);
  ASSERT_TRUE(!!cloud) << llvm::toString(cloud.takeError());
  EXPECT_EQ(cloud->points[0][3], 0);
  EXPECT_THAT(cloud->no_intensity, HasSubstr("Choose one of i with --intensity-field."));
  EXPECT_EQ(points_of(read_pcd(file, "I")), kPoints);
  EXPECT_THAT(error_of(read_pcd(file, "ring")), HasSubstr("there is no such field among x, y, z, i"));
  EXPECT_EQ(points_of(read_pcd(kAsciiPcd, "normal_1")),
            (std::vector<Point>{{1.5, -2, 3, 8}, {4, 5, -6.5, 8}}));
  EXPECT_THAT(error_of(read_pcd(kAsciiPcd, "normal")), HasSubstr("normal_0, normal_1"));
}

TEST(PcdReader, ErrorsNameThePointTheFieldAndTheWord) {
  const std::pair<const char*, const char*> words[] = {
      {"-6,5",
       "point 1, field 'z': '-6,5' is not a number; if this is a decimal comma, write a decimal point"},
      {"-6.5D0", "point 1, field 'z': '-6.5D0' is not a number; if this is a Fortran exponent"},
      {"-6.5,1", "point 1, field 'z': '-6.5,1' is not a number; if these are several numbers"},
      {"six", "point 1, field 'z': 'six' is not a number"}};
  for (const auto& [word, says] : words) {
    EXPECT_THAT(error_of(read_pcd(replaced(kPlainPcd, "-6.5", word))), HasSubstr(says));
  }
}

TEST(PcdReader, TruncatedAndMutated) {
  const std::string binary = pcd_header("binary") + interleaved();
  expect_truncations_refused(read_any_pcd, binary, binary.size());
  expect_no_crash_when_mutated(read_any_pcd, binary);
  expect_truncations_refused(read_any_pcd, kAsciiPcd,
                             kAsciiPcd.size() - 4);  // from there on "1", "1." and "1.0" are numbers
  expect_no_crash_when_mutated(read_any_pcd, kAsciiPcd);
}

}  // namespace
}  // namespace minuet::tool
