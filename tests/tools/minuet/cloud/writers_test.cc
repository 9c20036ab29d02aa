#include <gmock/gmock.h>

#include <set>

#include "tests/tools/folder.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tools/minuet/cloud/palette.h"
#include "tools/minuet/cloud/readers/npy.h"
#include "tools/minuet/cloud/readers/ply.h"
#include "tools/minuet/cloud/writers/npy.h"
#include "tools/minuet/cloud/writers/ply.h"

namespace minuet::tool {
namespace {

TEST(NpyWriter, WritesWhatTheFormatAsks) {
  const std::string bytes = npy_bytes(std::vector<float>{1.5f, 2.0f, -3.0f, 4.0f, 5.0f, 6.0f}, {2, 3});
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(bytes.substr(10, 60).find("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"), 0u);
  EXPECT_EQ((bytes.size() - 24) % 64, 0u);
  EXPECT_EQ(bytes[bytes.size() - 25], '\n');
  int64_t rows = 0, columns = 0;
  auto back = read_npy_matrix(bytes, rows, columns);
  ASSERT_TRUE(!!back) << llvm::toString(back.takeError());
  EXPECT_EQ(*back, (std::vector<float>{1.5f, 2.0f, -3.0f, 4.0f, 5.0f, 6.0f}));
}

TEST(NpyWriter, OneDimensionHasItsComma) {
  const std::string array = npy_bytes(std::vector<int32_t>{7, -8}, {2});
  EXPECT_NE(array.find("'<i4', 'fortran_order': False, 'shape': (2,), }"), std::string::npos);
  EXPECT_EQ(array.substr(array.size() - 8), packed<int32_t>(7) + packed<int32_t>(-8));
}

TEST(PlyWriter, OurReaderReadsIt) {
  const Palette palette;
  PlyTable table;
  table.positions = {{1, 2, 3}, {-4, 5.5, 6}};
  table.palette = &palette;
  table.labels = {3, -1};
  const std::string bytes = ply_bytes(table);
  EXPECT_EQ(points_of(read_ply(bytes)), (std::vector<Point>{{1, 2, 3, 0}, {-4, 5.5, 6, 0}}));
  EXPECT_EQ(bytes.substr(bytes.size() - 7), std::string(3, '\0') + packed<int32_t>(-1));

  table.palette = nullptr;
  table.channels = 2;
  table.features = {0.5f, 1.5f, 2.5f, 3.5f};
  const std::string features = ply_bytes(table);
  EXPECT_EQ(points_of(read_ply(features)).size(), 2u);
  EXPECT_EQ(features.substr(features.size() - 8), packed(2.5f) + packed(3.5f));
}

TEST(PlyWriter, KeepsThePointsOwnNumbers) {
  Attribute colour{"red", Scalar::U8, {}}, time{"time", Scalar::U64, {}},
      half{"reflectivity", Scalar::F16, {}};
  for (const double value : {200.0, 7.0}) {
    append_scalar(Scalar::U8, value, colour.values);
    append_scalar(Scalar::U64, value * 1e9, time.values);
    append_scalar(Scalar::F16, value / 8, half.values);
  }
  const Palette palette;
  PlyTable table;
  table.positions = {{450000.123, 5.4e6, 300}, {1, 2, 3}};
  table.wide = true;
  table.attributes = {colour, time, half};
  table.palette = &palette;
  table.labels = {0, 1};
  llvm::Expected<Cloud> cloud = read_ply(ply_bytes(table));
  ASSERT_TRUE(!!cloud) << llvm::toString(cloud.takeError());
  EXPECT_EQ(cloud->points, (std::vector<Point>{{450000.123, 5.4e6, 300, 25}, {1, 2, 3, 0.875}}));
  std::vector<std::string> names;
  for (const Attribute& attribute : cloud->attributes) names.push_back(attribute.name);
  EXPECT_EQ(names, (std::vector<std::string>{"original_red", "time", "reflectivity", "red", "green", "blue",
                                             "label"}));
  EXPECT_EQ(cloud->attributes[0].values, colour.values);
  EXPECT_EQ(cloud->attributes[1].values, packed(200e9) + packed(7e9));
  const Colour first = palette.colour_of(0);
  EXPECT_EQ(static_cast<uint8_t>(cloud->attributes[3].values[0]), first[0]);
}

TEST(Palette, NeighboursDifferAndFilesAreChecked) {
  const Palette fixed;
  std::set<Colour> colours;
  for (int32_t label = -1; label < 200; ++label) colours.insert(fixed.colour_of(label));
  EXPECT_EQ(colours.size(), 201u);
  const Folder folder;
  llvm::Expected<Palette> own = Palette::read(folder.file("p.json", "[[1, 2, 3], [255, 0, 0]]"));
  ASSERT_TRUE(!!own) << llvm::toString(own.takeError());
  EXPECT_EQ(own->colour_of(1), (Colour{255, 0, 0}));
  EXPECT_EQ(own->colour_of(-1), (Colour{0, 0, 0}));
  EXPECT_EQ(llvm::toString(own->check_labels(2)), "");
  EXPECT_NE(llvm::toString(own->check_labels(3)), "");
  for (const char* text :
       {"[]", "{}", "[[1, 2]]", "[[1, 2, 256]]", "[[1, 2, -1]]", "[[1, 2, 0.5]]", "[1]", "["}) {
    EXPECT_NE(error_of(Palette::read(folder.file("p.json", text))), "") << text;
  }
}

}  // namespace
}  // namespace minuet::tool
