// Words of a text are read as numbers of every type.
#include "tools/minuet/cloud/readers/scalar.h"

#include <cmath>
#include <limits>

#include "tests/tools/minuet/cloud/bytes.h"
#include "tests/tools/minuet/cloud/ply_headers.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/readers/pcd.h"
#include "tools/minuet/cloud/readers/ply.h"

namespace minuet::tool {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Expects that the word is read as the number.
template <class T>
void expect_number(const char* word, Scalar type, T expected) {
  SCOPED_TRACE(word);
  llvm::Expected<ScalarBytes> bytes = parse_value(word, type);
  ASSERT_TRUE(!!bytes) << llvm::toString(bytes.takeError());
  EXPECT_EQ(std::string(bytes->data(), sizeof(T)), packed(expected));
}

TEST(ScalarText, IntegersAreExact) {
  expect_number<int64_t>("9223372036854775807", Scalar::I64, std::numeric_limits<int64_t>::max());
  expect_number<int64_t>("-9223372036854775808", Scalar::I64, std::numeric_limits<int64_t>::min());
  expect_number<int64_t>("1700000000123456789", Scalar::I64, 1700000000123456789);
  expect_number<uint64_t>("18446744073709551615", Scalar::U64, std::numeric_limits<uint64_t>::max());
  expect_number<uint64_t>("+9007199254740993", Scalar::U64, 9007199254740993u);
  expect_number<uint64_t>("1e3", Scalar::U64, 1000u);
  expect_number<uint32_t>("4.2108e+06", Scalar::U32, 4210800u);
  expect_number<uint8_t>("-0", Scalar::U8, 0);
  expect_number<uint8_t>("255.0", Scalar::U8, 255);
  expect_number<int8_t>("-128", Scalar::I8, -128);
}

TEST(ScalarText, IntegersOutsideOfTheirTypeAreRefused) {
  const std::pair<const char*, Scalar> cases[] = {{"9223372036854775808", Scalar::I64},
                                                  {"-9223372036854775809", Scalar::I64},
                                                  {"-9223372036854777856", Scalar::I64},
                                                  {"1e19", Scalar::I64},
                                                  {"18446744073709551616", Scalar::U64},
                                                  {"18446744073709551616.0", Scalar::U64},
                                                  {"-1", Scalar::U64},
                                                  {"256", Scalar::U8},
                                                  {"-129", Scalar::I8},
                                                  {"32768", Scalar::I16},
                                                  {"65536", Scalar::U16},
                                                  {"2147483648", Scalar::I32},
                                                  {"4294967296", Scalar::U32},
                                                  {"1.5", Scalar::I32},
                                                  {"nan", Scalar::I32},
                                                  {"inf", Scalar::U64}};
  for (const auto& [word, type] : cases) {
    EXPECT_THAT(error_of(parse_value(word, type)), AllOf(HasSubstr(word), HasSubstr(scalar_name(type)),
                                                         HasSubstr("is not a number of the type")))
        << word;
  }
}

TEST(ScalarText, FloatsAreRoundedToTheirType) {
  expect_number<uint16_t>("0.1", Scalar::F16, 0x2e66);
  expect_number<uint16_t>("65519", Scalar::F16, 0x7bff);  // Larger numbers are rounded past 65504.
  expect_number<float>("0.1", Scalar::F32, 0.1f);
  expect_number<float>("3.40282356e+38", Scalar::F32, std::numeric_limits<float>::max());
  expect_number<double>("0.1", Scalar::F64, 0.1);
  expect_number<float>("1e-400", Scalar::F32, 0.0f);
  for (const Scalar type : {Scalar::F16, Scalar::F32, Scalar::F64}) {
    for (const char* word : {"inf", "-Infinity", "+inf", "nan"})
      EXPECT_EQ(error_of(parse_value(word, type)), "");
  }
}

TEST(ScalarText, FloatsPastTheirTypeAreRefused) {
  const std::tuple<const char*, Scalar, const char*> cases[] = {
      {"70000", Scalar::F16, "beyond the largest float16 number, 65504"},
      {"-65520", Scalar::F16, "beyond the largest float16 number, 65504"},
      {"1e39", Scalar::F32, "beyond the largest float32 number, 3.40282347e+38"},
      {"-1e400", Scalar::F32, "beyond the largest float32 number"},
      {"1e400", Scalar::F64, "beyond the largest float64 number, 1.79769313e+308"}};
  for (const auto& [word, type, says] : cases) {
    EXPECT_THAT(error_of(parse_value(word, type)), AllOf(HasSubstr(word), HasSubstr(says))) << word;
  }
}

TEST(ScalarText, OneSignAtMost) {
  for (const Scalar type : {Scalar::I32, Scalar::U64, Scalar::F32, Scalar::F64}) {
    for (const char* word : {"+-5", "-+5", "++5", "--5", "+", "-", ""}) {
      EXPECT_THAT(error_of(parse_value(word, type)), HasSubstr("is not a number")) << word;
      EXPECT_FALSE(parse_double(word)) << word;
    }
    EXPECT_EQ(error_of(parse_value("+5", type)), "");
  }
}

TEST(ScalarText, WholeNumbersOfBytesAreWrittenWithAllDigits) {
  EXPECT_EQ(scalar_text(Scalar::U64, packed(~uint64_t{0}, true).data(), true), "18446744073709551615");
  EXPECT_EQ(scalar_text(Scalar::I64, packed(std::numeric_limits<int64_t>::min()).data(), false),
            "-9223372036854775808");
  EXPECT_EQ(scalar_text(Scalar::U8, "\xff", false), "255");
  EXPECT_EQ(scalar_text(Scalar::F32, packed(0.5f).data(), false), "0.5");
}

/// Expects that both readers of text keep the word's number in a column of the type.
void expect_attribute(const char* ply_type, const char* pcd_size, const char* word,
                      const std::string& bytes) {
  SCOPED_TRACE(word);
  llvm::Expected<Cloud> clouds[] = {
      read_ply(vertex_header(1, kXyz + "property " + ply_type + " t\n") + "1 2 3 " + word + "\n"),
      read_pcd("FIELDS x y z t\nSIZE 4 4 4 " + std::string(pcd_size).substr(1) + "\nTYPE F F F " +
               std::string(pcd_size).substr(0, 1) + "\nPOINTS 1\nDATA ascii\n1 2 3 " + word + "\n")};
  for (llvm::Expected<Cloud>& cloud : clouds) {
    ASSERT_TRUE(!!cloud) << llvm::toString(cloud.takeError());
    ASSERT_EQ(cloud->attributes.size(), 1u);
    EXPECT_EQ(cloud->attributes[0].values, bytes);
  }
}

TEST(ScalarText, ReadersOfTextKeepEveryBit) {
  expect_attribute("int64", "I8", "1700000000123456789", packed(int64_t{1700000000123456789}));
  expect_attribute("uint64", "U8", "18446744073709551615", packed(~uint64_t{0}));
  expect_attribute("uchar", "U1", "200", packed(uint8_t{200}));
  expect_attribute("float", "F4", "0.1", packed(0.1f));
  expect_attribute("double", "F8", "0.1", packed(0.1));
}

/// The error has the row, the name and the word, for a position, the intensity and a number that is not used.
TEST(ScalarText, ReadersOfTextTellOfNumbersPastFloat32) {
  for (const char* row : {"1e39 2 3 4 5", "1 2 -1e39 4 5", "1 2 3 1e39 5", "1 2 3 4 1e39"}) {
    const std::string rows = "1 2 3 4 5\n" + std::string(row) + "\n";
    EXPECT_THAT(error_of(read_ply(vertex_header(2, kXyzi + "property float w\n") + rows)),
                AllOf(HasSubstr("row 1 of 2 of element 'vertex', property '"), HasSubstr("1e39'"),
                      HasSubstr("beyond the largest float32 number")));
    EXPECT_THAT(error_of(read_pcd("FIELDS x y z intensity w\nPOINTS 2\nDATA ascii\n" + rows)),
                AllOf(HasSubstr("point 1, field '"), HasSubstr("1e39'"),
                      HasSubstr("beyond the largest float32 number")));
  }
  EXPECT_EQ(points_of(read_ply(vertex_header(1, "property half x\n" + kXyz.substr(17)) + "0.1 2 3\n")),
            (std::vector<Point>{{0.0999755859375, 2, 3, 0}}));
}

}  // namespace
}  // namespace minuet::tool
