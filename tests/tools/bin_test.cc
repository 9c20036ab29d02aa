#include "tools/minuet/readers/bin.h"

#include "tests/tools/bytes.h"

namespace minuet::tool {
namespace {

std::string rows(int count, int columns) {
  std::string bytes;
  for (int i = 0; i < count * columns; ++i) bytes += packed(0.5f * static_cast<float>(i) - 3.0f);
  return bytes;
}

TEST(BinReader, TakesTheFirstFourColumns) {
  EXPECT_EQ(points_of(read_bin(rows(2, 3), 3)),
            (std::vector<Point>{{-3.0f, -2.5f, -2.0f, 0.0f}, {-1.5f, -1.0f, -0.5f, 0.0f}}));
  EXPECT_EQ(points_of(read_bin(rows(2, 4), 4)),
            (std::vector<Point>{{-3.0f, -2.5f, -2.0f, -1.5f}, {-1.0f, -0.5f, 0.0f, 0.5f}}));
  EXPECT_EQ(points_of(read_bin(rows(2, 5), 5)),
            (std::vector<Point>{{-3.0f, -2.5f, -2.0f, -1.5f}, {-0.5f, 0.0f, 0.5f, 1.0f}}));
}

TEST(BinReader, RefusesPartsOfRows) {
  const std::string file = rows(3, 5);
  for (size_t length = 1; length < file.size(); ++length) {
    const std::string error = error_of(read_bin(file.substr(0, length), 5));
    EXPECT_EQ(error.empty(), length % 20 == 0) << length;
    if (!error.empty()) {
      EXPECT_THAT(error, testing::HasSubstr("--columns"));
    }
  }
}

}  // namespace
}  // namespace minuet::tool
