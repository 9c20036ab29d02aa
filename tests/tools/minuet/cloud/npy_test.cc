#include "tools/minuet/cloud/readers/npy.h"

#include "tests/tools/minuet/cloud/bytes.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

std::string npy(const std::string& dictionary, const std::string& data, int version = 1) {
  std::string text = dictionary + "\n";
  std::string file = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
  file +=
      version == 1 ? packed(static_cast<uint16_t>(text.size())) : packed(static_cast<uint32_t>(text.size()));
  return file + text + data;
}

std::string dictionary(const std::string& type, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + type + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }";
}

template <class T>
std::string values(std::initializer_list<T> list, bool big_endian = false) {
  std::string bytes;
  for (const T value : list) bytes += packed(value, big_endian);
  return bytes;
}

TEST(NpyReader, ReadsFloatPointsOfEveryKind) {
  const std::string data = values<float>({1.5f, -2.0f, 3.0f, 0.25f, 4.0f, 5.0f, -6.5f, 1.0f});
  for (const int version : {1, 2, 3}) {
    EXPECT_EQ(points_of(read_npy(npy(dictionary("<f4", "(2, 4)"), data, version))), kPoints);
  }
  const std::string big = values<double>({1.5, -2.0, 3.0, 0.25, 4.0, 5.0, -6.5, 1.0}, true);
  EXPECT_EQ(points_of(read_npy(npy(dictionary(">f8", "(2, 4)"), big))), kPoints);
  const std::string columns = values<float>({1.5f, 4.0f, -2.0f, 5.0f, 3.0f, -6.5f, 0.25f, 1.0f});
  EXPECT_EQ(points_of(read_npy(npy(dictionary("<f4", "(2, 4)", true), columns))), kPoints);
  const std::string halves =
      values<uint16_t>({0x3e00, 0xc000, 0x4200, 0x3400, 0x4400, 0x4500, 0xc680, 0x3c00});
  EXPECT_EQ(points_of(read_npy(npy(dictionary("<f2", "(2, 4)"), halves))), kPoints);
}

template <class T>
void expect_width(const std::string& type, std::initializer_list<T> list,
                  const std::vector<double>& expected) {
  for (const bool big : {false, true}) {
    const std::string name = (big ? ">" : "<") + type;
    SCOPED_TRACE(name);
    const std::string file = npy(dictionary(name, "(1, 3)"), values<T>(list, big));
    int64_t rows = 0, columns = 0;
    llvm::Expected<std::vector<float>> matrix = read_npy_matrix(file, rows, columns);
    ASSERT_TRUE(!!matrix) << llvm::toString(matrix.takeError());
    EXPECT_EQ(*matrix, std::vector<float>(expected.begin(), expected.end()));
    llvm::Expected<Cloud> cloud = read_npy(file);
    ASSERT_TRUE(!!cloud) << llvm::toString(cloud.takeError());
    if (cloud->is_voxels) {
      EXPECT_EQ(std::vector<double>(cloud->voxels.begin() + 1, cloud->voxels.end()), expected);
    } else {
      EXPECT_EQ(cloud->points, (std::vector<Point>{{expected[0], expected[1], expected[2], 0}}));
    }
  }
}

/// No byte pattern here reads the same backwards.
TEST(NpyReader, EveryTypeInBothByteOrders) {
  expect_width<int8_t>("i1", {-7, 5, 6}, {-7, 5, 6});
  expect_width<uint8_t>("u1", {200, 5, 6}, {200, 5, 6});
  expect_width<uint8_t>("b1", {1, 0, 1}, {1, 0, 1});
  expect_width<int16_t>("i2", {-1234, 5, 6}, {-1234, 5, 6});
  expect_width<uint16_t>("u2", {54321, 5, 6}, {54321, 5, 6});
  expect_width<int32_t>("i4", {-1234567, 5, 6}, {-1234567, 5, 6});
  expect_width<uint32_t>("u4", {1234567, 5, 6}, {1234567, 5, 6});
  expect_width<int64_t>("i8", {-1234567, 5, 6}, {-1234567, 5, 6});
  expect_width<uint64_t>("u8", {1234567, 5, 6}, {1234567, 5, 6});
  expect_width<uint16_t>("f2", {0x3e00, 0xc680, 0x3401}, {1.5, -6.5, 0.250244140625});
  expect_width<float>("f4", {1.5f, -6.5f, 0.1f}, {1.5, -6.5, static_cast<double>(0.1f)});
  expect_width<double>("f8", {1.5, -6.5, 0.1}, {1.5, -6.5, 0.1});
}

TEST(NpyReader, ShapesOfPython2) {
  const std::string data = values<float>({1, 2, 3, 4, 5, 6});
  for (const char* shape : {"(2L, 3L)", "(2L, 3)", "(2, 3L,)", "( 2L , 3L )"}) {
    EXPECT_EQ(points_of(read_npy(npy(dictionary("<f4", shape), data))),
              (std::vector<Point>{{1, 2, 3, 0}, {4, 5, 6, 0}}))
        << shape;
  }
  for (const char* shape : {"(2LL, 3L)", "(L, 3)", "(2M, 3)", "(2 L, 3)"}) {
    EXPECT_THAT(error_of(read_npy(npy(dictionary("<f4", shape), data))), HasSubstr("header")) << shape;
  }
}

TEST(NpyReader, ThreeColumnsHaveNoIntensityAndFiveASpareOne) {
  EXPECT_EQ(points_of(read_npy(npy(dictionary("<f4", "(1, 3)"), values<float>({1, 2, 3})))),
            (std::vector<Point>{{1, 2, 3, 0}}));
  EXPECT_EQ(points_of(read_npy(npy(dictionary("<f4", "(1, 5)"), values<float>({1, 2, 3, 4, 5})))),
            (std::vector<Point>{{1, 2, 3, 4}}));
}

TEST(NpyReader, IntegersAreVoxels) {
  for (const bool big : {false, true}) {
    const char* type = big ? ">i8" : "<i8";
    auto three = read_npy(npy(dictionary(type, "(2, 3)"), values<int64_t>({1, -2, 3, -4, 5, 6}, big)));
    ASSERT_TRUE(!!three) << llvm::toString(three.takeError());
    EXPECT_TRUE(three->is_voxels);
    EXPECT_EQ(three->voxels, (std::vector<int32_t>{0, 1, -2, 3, 0, -4, 5, 6}));
  }
  auto four = read_npy(npy(dictionary("<i4", "(1, 4)"), values<int32_t>({7, -1, -2, 2147483647})));
  ASSERT_TRUE(!!four) << llvm::toString(four.takeError());
  EXPECT_EQ(four->voxels, (std::vector<int32_t>{7, -1, -2, 2147483647}));
}

TEST(NpyReader, RefusesVoxelsThatDoNotFit) {
  EXPECT_THAT(error_of(read_npy(npy(dictionary("<i8", "(1, 3)"), values<int64_t>({0, 2147483648, 0})))),
              HasSubstr("outside int32"));
  EXPECT_THAT(error_of(read_npy(npy(dictionary("<u8", "(1, 3)"), values<uint64_t>({0, ~uint64_t{0}, 0})))),
              HasSubstr("outside int32"));
  EXPECT_THAT(error_of(read_npy(npy(dictionary("<i4", "(1, 4)"), values<int32_t>({-1, 0, 0, 0})))),
              HasSubstr("batch index"));
  EXPECT_THAT(error_of(read_npy(npy(dictionary("<i4", "(1, 5)"), values<int32_t>({0, 0, 0, 0, 0})))),
              HasSubstr("[N, 3]"));
  EXPECT_THAT(error_of(read_npy_coordinates(npy(dictionary("<f4", "(1, 3)"), values<float>({0, 0, 0})), 3)),
              HasSubstr("integers"));
}

TEST(NpyReader, OtherDimensions) {
  auto flat = read_npy_coordinates(npy(dictionary("<i4", "(1, 3)"), values<int32_t>({1, 2, 3})), 2);
  ASSERT_TRUE(!!flat) << llvm::toString(flat.takeError());
  EXPECT_EQ(flat->ndim, 2);
  EXPECT_EQ(flat->voxels, (std::vector<int32_t>{1, 2, 3}));
}

TEST(NpyReader, ReadsAMatrix) {
  int64_t rows = 0, columns = 0;
  auto matrix = read_npy_matrix(npy(dictionary("<f4", "(2, 1)"), values<float>({1.5f, 2.5f})), rows, columns);
  ASSERT_TRUE(!!matrix) << llvm::toString(matrix.takeError());
  EXPECT_EQ(*matrix, (std::vector<float>{1.5f, 2.5f}));
  EXPECT_EQ(rows, 2);
  EXPECT_EQ(columns, 1);
}

TEST(NpyReader, AnEmptyArrayIsACloudOfNoPoints) {
  EXPECT_TRUE(points_of(read_npy(npy(dictionary("<f4", "(0, 3)"), ""))).empty());
}

TEST(NpyReader, RefusesHostileHeaders) {
  const std::string one = values<float>({1, 2, 3});
  EXPECT_THAT(error_of(read_npy(npy(dictionary("<f4", "(4611686018427387904, 3)"), one))),
              HasSubstr("too large"));
  EXPECT_THAT(error_of(read_npy(npy(dictionary("<f4", "(1000000000000, 3)"), one))), HasSubstr("truncated"));
  EXPECT_THAT(error_of(read_npy(npy(dictionary("<f4", "(99999999999999999999, 3)"), one))),
              HasSubstr("header"));
  EXPECT_THAT(error_of(read_npy(npy(dictionary("<f4", "(-1, 3)"), one))), HasSubstr("header"));
  EXPECT_THAT(error_of(read_npy(npy(dictionary("<f4", "(3,)"), one))), HasSubstr("dimension"));
  EXPECT_THAT(error_of(read_npy(npy(dictionary("<c8", "(1, 3)"), one))), HasSubstr("type"));
  EXPECT_THAT(
      error_of(read_npy(npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,), }", one))),
      HasSubstr("structured"));
  EXPECT_THAT(error_of(read_npy(npy("{'descr': '<f4', 'shape': (1, 3), }", one))), HasSubstr("header"));
  EXPECT_THAT(error_of(read_npy(npy("{", one))), HasSubstr("header"));
  EXPECT_THAT(error_of(read_npy("not numpy at all")), HasSubstr("not an NPY"));
  int64_t rows = 0, columns = 0;
  EXPECT_FALSE(
      error_of(read_npy_matrix(npy(dictionary("<f4", "(1152921504606846976, 0)"), one), rows, columns))
          .empty());
}

TEST(NpyReader, ATypeHasOneMarkOfItsByteOrder) {
  for (const char* type : {"><f4", "<>f4", "|<f4", "==f4", "!f4", "> f4", ">", ""}) {
    EXPECT_THAT(error_of(read_npy(npy(dictionary(type, "(1, 3)"), values<float>({1, 2, 3})))),
                HasSubstr("elements of type '" + std::string(type) + "' cannot be read"));
  }
  for (const char* type : {"<f4", "=f4", "|f4", "f4"}) {
    EXPECT_EQ(points_of(read_npy(npy(dictionary(type, "(1, 3)"), values<float>({1, 2, 3})))),
              (std::vector<Point>{{1, 2, 3, 0}}));
  }
}

TEST(NpyReader, ErrorsNameTheNumberOfTheFile) {
  const auto error = [](const char* type, const std::string& number) {
    return error_of(read_npy(npy(dictionary(type, "(1, 3)"), number + std::string(16, '\0'))));
  };
  EXPECT_THAT(error("<u8", packed(~uint64_t{0})), HasSubstr("coordinate 18446744073709551615 in row 0"));
  EXPECT_THAT(error("<u8", packed(uint64_t{1} << 63)), HasSubstr("coordinate 9223372036854775808 in row 0"));
  EXPECT_THAT(error("<i8", packed(int64_t{-5000000000})), HasSubstr("coordinate -5000000000 in row 0"));
}

TEST(NpyReader, TruncatedAndMutated) {
  const std::string file = npy(dictionary("<f4", "(2, 3)"), values<float>({1, 2, 3, 4, 5, 6}));
  expect_truncations_refused([](llvm::StringRef bytes) { return read_npy(bytes); }, file, file.size());
  expect_no_crash_when_mutated([](llvm::StringRef bytes) { return read_npy(bytes); }, file);
}

TEST(NpyReader, AKeyThatIsThereTwiceIsRefused) {
  EXPECT_THAT(
      error_of(read_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), 'shape': (1, 3), }",
                            values<float>({1, 2, 3})))),
      HasSubstr("header"));
}

}  // namespace
}  // namespace minuet::tool
