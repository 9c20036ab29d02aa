#include "tools/minuet/cloud/readers/ply.h"

#include "llvm/ADT/SmallVector.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tests/tools/minuet/cloud/ply_headers.h"

namespace minuet::tool {
namespace {

using testing::AllOf;
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

llvm::Expected<Cloud> read_any_ply(llvm::StringRef bytes) { return read_ply(bytes); }

const std::string kPointsAsRows = "1.5 -2 3 0.25\n4 5 -6.5 1\n";

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
  EXPECT_EQ(points_of(read_ply(vertex_header(1, kXyz) + "1 2 nan\n")).size(), 1u);
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
  EXPECT_THAT(error_of(read_ply(start + "property float x\nend_header\n")),
              HasSubstr("before the first element"));
  EXPECT_THAT(error_of(read_ply(start + "element vertex 1\nproperty float x y\nend_header\n")),
              HasSubstr("has the line 'property float x y'"));
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

TEST(PlyReader, NumbersAreWordsWhereverLinesEnd) {
  for (const char* body : {"1.5 -2 3\n0.25\n4 5 -6.5\n1\n", "1.5 -2 3 0.25 4 5 -6.5 1",
                           "1.5\n-2\n3\n0.25\n4\n5\n-6.5\n1\n", "\n\n  1.5 -2\t3 0.25  \n\n4 5 -6.5 1\n\n",
                           "1.5 -2 3 0.25\r4 5 -6.5 1\r", "1.5 -2\v3 0.25\f4 5 -6.5 1"}) {
    EXPECT_EQ(points_of(read_ply(vertex_header(2, kXyzi) + body)), kPoints) << body;
  }
  for (const char* body :
       {"1.5 -2 3 0.25\n4 5 -6.5\n", "1.5 -2 3 0.25\n", "", "1.5 -2 3 0.25 4 5 -6.5 1 8"}) {
    EXPECT_NE(error_of(read_ply(vertex_header(2, kXyzi) + body)), "") << body;
  }
}

TEST(PlyReader, ByteOrderMarksBlanksAndLineEnds) {
  const std::string text = vertex_header(2, kXyzi) + kPointsAsRows;
  const std::string variants[] = {"\xef\xbb\xbf" + text,
                                  "\n \n" + text,
                                  replaced(text, "ply\n", "ply \t\n"),
                                  replaced(text, "\n", " \n"),
                                  replaced(text, "\n", "\r\n"),
                                  replaced(text, "\n", "\r"),
                                  replaced(text, "\n", "\r\r\n"),
                                  "\xef\xbb\xbf" + replaced(text, "\n", "\r"),
                                  replaced(text, "element", "\nelement"),
                                  replaced(text, " ", "\t")};
  for (const std::string& variant : variants) EXPECT_EQ(points_of(read_ply(variant)), kPoints) << variant;
}

/// The first byte of the data is a line end: it belongs to the header's last line or to the data.
TEST(PlyReader, LineEndsBeforeBinaryData) {
  for (const char* end : {"\n", "\r\n", "\r"}) {
    const std::string header =
        replaced(vertex_header(1, "property int x\nproperty int y\nproperty int z\n", "binary_little_endian"),
                 "\n", end);
    for (const int32_t first : {0x0a, 0x0d, 0x0a0d, 0x0d0a, 0x0a0a0a0a}) {
      EXPECT_EQ(points_of(read_ply(header + packed(first) + packed(2) + packed(3))),
                (std::vector<Point>{{static_cast<double>(first), 2, 3, 0}}))
          << end << first;
    }
  }
}

template <class T>
void expect_type(const std::string& type, T value, double expected) {
  for (const bool big : {false, true}) {
    SCOPED_TRACE(type + (big ? ", big-endian" : ""));
    const std::string format = big ? "binary_big_endian" : "binary_little_endian";
    const std::string xyz = packed(1.5f, big) + packed(-2.0f, big) + packed(3.0f, big);
    const std::string spare = "property " + type + " spare\n",
                      intensity = "property " + type + " intensity\n";
    // As a position, as the intensity, skipped among the vertices, and in a list in front of them.
    EXPECT_EQ(points_of(read_ply(vertex_header(1, "property " + type + " x\n" + kXyz.substr(17), format) +
                                 packed(value, big) + xyz.substr(4))),
              (std::vector<Point>{{expected, -2, 3, 0}}));
    EXPECT_EQ(points_of(read_ply(vertex_header(1, intensity + kXyz, format) + packed(value, big) + xyz)),
              (std::vector<Point>{{1.5, -2, 3, expected}}));
    EXPECT_EQ(points_of(read_ply(vertex_header(1, spare + kXyz, format) + packed(value, big) + xyz)),
              (std::vector<Point>{{1.5, -2, 3, 0}}));
    const std::string list = "element face 1\nproperty list uchar " + type + " i\nelement vertex 1\n";
    EXPECT_EQ(points_of(read_ply(replaced(vertex_header(1, kXyz, format), "element vertex 1\n", list) + '\2' +
                                 packed(value, big) + packed(value, big) + xyz)),
              (std::vector<Point>{{1.5, -2, 3, 0}}));
  }
}

TEST(PlyReader, EveryTypeInBothByteOrders) {
  for (const char* name : {"char", "int8", "Char"}) expect_type<int8_t>(name, -7, -7);
  for (const char* name : {"uchar", "uint8", "UInt8"}) expect_type<uint8_t>(name, 200, 200);
  expect_type<uint8_t>("bool", 1, 1);
  for (const char* name : {"short", "int16"}) expect_type<int16_t>(name, -1234, -1234);
  for (const char* name : {"ushort", "uint16"}) expect_type<uint16_t>(name, 54321, 54321);
  for (const char* name : {"int", "int32"}) expect_type<int32_t>(name, -123456789, -123456789);
  for (const char* name : {"uint", "uint32"}) expect_type<uint32_t>(name, 3123456789u, 3123456789.0);
  expect_type<int64_t>("int64", -1234567890123, -1234567890123.0);
  expect_type<uint64_t>("uint64", 0x8000000000000800u, 0x8000000000000800p0);
  for (const char* name : {"half", "float16"}) expect_type<uint16_t>(name, 0xc680, -6.5);
  for (const char* name : {"float", "float32", "Float"}) expect_type<float>(name, 1.25f, 1.25);
  for (const char* name : {"double", "float64"}) expect_type<double>(name, 0.1, 0.1);
}

TEST(PlyReader, TheLengthsOfListsInBothByteOrders) {
  const auto read = [](const char* type, const std::string& length, bool big) {
    return points_of(read_ply(vertex_header(1, std::string("property list ") + type + " short i\n" + kXyz,
                                            big ? "binary_big_endian" : "binary_little_endian") +
                              length + std::string(4, '\7') + packed(1.5f, big) + packed(-2.0f, big) +
                              packed(3.0f, big)));
  };
  const std::vector<Point> expected = {{1.5, -2, 3, 0}};
  for (const bool big : {false, true}) {
    EXPECT_EQ(read("uchar", packed<uint8_t>(2), big), expected);
    EXPECT_EQ(read("short", packed<int16_t>(2, big), big), expected);
    EXPECT_EQ(read("uint", packed<uint32_t>(2, big), big), expected);
    EXPECT_EQ(read("uint64", packed<uint64_t>(2, big), big), expected);
  }
}

TEST(PlyReader, TextOfTheFurtherTypes) {
  EXPECT_EQ(points_of(read_ply(vertex_header(1, kXyz + "property bool keep\nproperty half intensity\n") +
                               "1 2 3 1 0.5\n")),
            (std::vector<Point>{{1, 2, 3, 0.5}}));
  EXPECT_THAT(error_of(read_ply(vertex_header(1, kXyz + "property float128 w\n") + "1 2 3 4\n")),
              HasSubstr("the PLY type 'float128' of the property 'w' is not known"));
}

struct NameCase {
  const char* names;
  std::optional<std::string> field;
  Point point;
};

/// The columns hold 1, 2, 3, ...
TEST(PlyReader, NamesInAnyCase) {
  const NameCase cases[] = {
      {"X Y Z Intensity", {}, {1, 2, 3, 4}},
      {"Z Y X INTENSITY", {}, {3, 2, 1, 4}},
      {"x Y z scalar_Intensity", {}, {1, 2, 3, 4}},
      {"X Y Z Reflectivity", {}, {1, 2, 3, 4}},
      {"X Y Z x y z", {}, {4, 5, 6, 0}},                   // exactly so goes before another case
      {"x y z Intensity intensity", {}, {1, 2, 3, 5}},     // the same
      {"x y z Intensity Reflectivity", {}, {1, 2, 3, 4}},  // of equal ones the first
      {"x y z i", {}, {1, 2, 3, 0}},
      {"x y z i", "i", {1, 2, 3, 4}},
      {"x y z i intensity", "I", {1, 2, 3, 4}},
      {"x y z I i", "i", {1, 2, 3, 5}},
  };
  for (const NameCase& one : cases) {
    std::string properties, row;
    int number = 0;
    llvm::SmallVector<llvm::StringRef, 8> names;
    llvm::StringRef(one.names).split(names, ' ');
    for (const llvm::StringRef name : names) {
      properties += "property float " + name.str() + "\n";
      row += std::to_string(++number) + " ";
    }
    EXPECT_EQ(points_of(read_ply(vertex_header(1, properties) + row, one.field)),
              std::vector<Point>{one.point})
        << one.names;
  }
}

TEST(PlyReader, FieldsThatCannotBeTheIntensity) {
  const auto error = [](const char* name, const std::string& properties = "") {
    return error_of(
        read_ply(vertex_header(1, kXyz + "property float Ring\nproperty float RING\n" + properties) +
                     "1 2 3 4 5 1 6\n",
                 std::string(name)));
  };
  EXPECT_THAT(error("time"), HasSubstr("there is no such property among x, y, z, Ring, RING"));
  EXPECT_THAT(error("ring"), HasSubstr("may mean Ring, RING"));
  EXPECT_THAT(error("Z"), HasSubstr("is a position"));
  EXPECT_THAT(error("list", "property list uchar float list\n"), HasSubstr("no such property"));
}

std::string no_intensity_of(const std::string& properties, const std::string& row,
                            const std::optional<std::string>& field = {}) {
  llvm::Expected<Cloud> cloud = read_ply(vertex_header(1, properties) + row, field);
  if (cloud) return cloud->no_intensity;
  ADD_FAILURE() << llvm::toString(cloud.takeError());
  return "";
}

TEST(PlyReader, SaysThatNoIntensityIsTaken) {
  EXPECT_EQ(no_intensity_of(kXyz, "1 2 3"), "");
  EXPECT_EQ(no_intensity_of(kXyzi + "property float ring\n", "1 2 3 4 5"), "");
  EXPECT_EQ(no_intensity_of(kXyz + "property float i\n", "1 2 3 4", "i"), "");
  EXPECT_THAT(no_intensity_of(kXyz + "property float i\nproperty float ring\n", "1 2 3 4 5"),
              AllOf(HasSubstr("i, ring"), HasSubstr("with --intensity-field.")));
}

/// What is wrong with the second row of three numbers, and what the error has to have.
TEST(PlyReader, ErrorsNameTheRowThePropertyAndTheWord) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"4 0,5 6", "property 'y': '0,5' is not a number; if this is a decimal comma, write a decimal point",
       "row 1 of 2"},
      {"4 5 -1,25",
       "property 'z': '-1,25' is not a number; if this is a decimal comma, write a decimal point",
       "row 1 of 2"},
      {"4 5 1.0D+00", "property 'z': '1.0D+00' is not a number; if this is a Fortran exponent", "row 1 of 2"},
      {"4d2 5 6", "property 'x': '4d2' is not a number; if this is a Fortran exponent", "row 1 of 2"},
      {"4,5,6 5 6", "property 'x': '4,5,6' is not a number; if these are several numbers", "row 1 of 2"},
      {"4 five 6", "property 'y': 'five' is not a number", "row 1 of 2"},
      {"4 5", "property 'z': the file ends here", "row 1 of 2"},
  };
  for (const auto& [row, says, place] : cases) {
    const std::string error = error_of(read_ply(vertex_header(2, kXyz) + "1 2 3\n" + row + "\n"));
    EXPECT_THAT(error, AllOf(HasSubstr(says), HasSubstr(place), HasSubstr("element 'vertex'"))) << row;
  }
  EXPECT_THAT(error_of(read_ply(vertex_header(1, kXyz + "property uchar ring\n") + "1 2 3 300\n")),
              HasSubstr("property 'ring': '300' is not a number of the type uint8 that the header gives"));
  EXPECT_THAT(error_of(read_ply(vertex_header(1, kXyz) + "1 2 -")),
              HasSubstr("; the file ends here, so it may be truncated"));
  EXPECT_THAT(error_of(read_ply(vertex_header(1, kXyz) + "1 2 -\n")), testing::Not(HasSubstr("truncated")));
  EXPECT_THAT(error_of(read_ply(vertex_header(1, kXyz) + "1 2 " + std::string(60, 'a'))),
              HasSubstr("'" + std::string(40, 'a') + "...'"));
}

TEST(PlyReader, TruncatedAndMutated) {
  for (const bool big : {false, true}) {
    expect_truncations_refused(read_any_ply, binary(big), binary(big).size());
    expect_no_crash_when_mutated(read_any_ply, binary(big));
  }
  expect_truncations_refused(read_any_ply, kAsciiPly,
                             kAsciiPly.size() - 4);  // "1", "1e" and "1e0" are numbers or not
  expect_no_crash_when_mutated(read_any_ply, kAsciiPly);
}

}  // namespace
}  // namespace minuet::tool
