#include "codegen/choose/choice.h"

#include <gtest/gtest.h>

#include <set>

namespace minuet {
namespace {

TEST(Choice, AccessesAreAsWideAsTileAndRowsAllow) {
  EXPECT_EQ(widest_vector(2, 8, {{64, 0}, {64, 4}}), 8);
  EXPECT_EQ(widest_vector(2, 8, {{63, 0}}), 2);
  EXPECT_EQ(widest_vector(4, 1, {{16, 0}}), 4);
}

TEST(Choice, AMapUsesOneKeyAndDimensionThroughout) {
  const MapChoice choice = choose_map(KeyType::U64, 4, {128, 256, 64});
  EXPECT_EQ(choice.pack.ndim, 4);
  for (i64 capacity : {i64{1}, kLargeSort - 1, kLargeSort}) {
    EXPECT_EQ(choice.radix_pass_keys.of(capacity).key, KeyType::U64);
    EXPECT_FALSE(choice.radix_pass_keys.of(capacity).values);
    EXPECT_TRUE(choice.radix_pass_rows.of(capacity).values);
  }
  EXPECT_EQ(choice.scan_heads.input, ScanInput::Heads64);
  EXPECT_EQ(choose_map(KeyType::U32, 3).scan_heads.input, ScanInput::Heads32);
  EXPECT_EQ(choice.search_kernel_map.source_block, 128);
  EXPECT_EQ(choice.find_query_borders.query_block, 256);
}

TEST(Choice, SourcesOfAMapAreDistinct) {
  std::set<std::string> names;
  for (const KernelSource& source : sources_of(choose_map(KeyType::U32, 3))) {
    EXPECT_TRUE(names.insert(source.display_name).second) << source.display_name;
  }
  EXPECT_EQ(names.size(), 43u);
}

}  // namespace
}  // namespace minuet
