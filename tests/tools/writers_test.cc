#include "llvm/Support/FileSystem.h"
#include "tests/tools/bytes.h"
#include "tests/tools/folder.h"
#include "tools/minuet/readers/npy.h"
#include "tools/minuet/readers/ply.h"
#include "tools/minuet/writers/npy.h"
#include "tools/minuet/writers/ply.h"

namespace minuet::tool {
namespace {

TEST(NpyWriter, WritesWhatTheFormatAsks) {
  const Folder folder;
  const std::string path = folder.path("a.npy");
  ASSERT_EQ(llvm::toString(write_npy(path, std::vector<float>{1.5f, 2.0f, -3.0f, 4.0f, 5.0f, 6.0f}, {2, 3})),
            "");
  const std::string bytes = contents(path);
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
  const Folder folder;
  ASSERT_EQ(llvm::toString(write_npy(folder.path("a.npy"), std::vector<int32_t>{7, -8}, {2})), "");
  auto array = contents(folder.path("a.npy"));
  EXPECT_NE(array.find("'<i4', 'fortran_order': False, 'shape': (2,), }"), std::string::npos);
  EXPECT_EQ(array.substr(array.size() - 8), packed<int32_t>(7) + packed<int32_t>(-8));
}

TEST(PlyWriter, OurReaderReadsIt) {
  const Folder folder;
  PlyTable table;
  table.positions = {{1, 2, 3}, {-4, 5.5f, 6}};
  table.labelled = true;
  table.labels = {3, 1};
  ASSERT_EQ(llvm::toString(write_ply(folder.path("a.ply"), table)), "");
  const std::string bytes = contents(folder.path("a.ply"));
  EXPECT_EQ(points_of(read_ply(bytes)), (std::vector<Point>{{1, 2, 3, 0}, {-4, 5.5f, 6, 0}}));
  EXPECT_EQ(bytes.substr(bytes.size() - 4), packed<int32_t>(1));

  table.labelled = false;
  table.channels = 2;
  table.features = {0.5f, 1.5f, 2.5f, 3.5f};
  ASSERT_EQ(llvm::toString(write_ply(folder.path("b.ply"), table)), "");
  const std::string features = contents(folder.path("b.ply"));
  EXPECT_EQ(points_of(read_ply(features)).size(), 2u);
  EXPECT_EQ(features.substr(features.size() - 8), packed(2.5f) + packed(3.5f));
}

TEST(Writers, AFolderThatIsNotThere) {
  EXPECT_NE(
      llvm::toString(write_npy("/nowhere/at/all.npy", std::vector<float>{}, {0})).find("cannot be written"),
      std::string::npos);
}

}  // namespace
}  // namespace minuet::tool
