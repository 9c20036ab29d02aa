#include "runtime/cuda/launch_grid.h"

#include <gtest/gtest.h>

#include "tests/support/random.h"

namespace minuet {
namespace {

TEST(LaunchGrid, StridesOverEveryItemAndIsNeverEmpty) {
  EXPECT_EQ(stride_grid(0, 256, 132), 1);
  EXPECT_EQ(stride_grid(1, 256, 132), 1);
  EXPECT_EQ(stride_grid(256, 256, 132), 1);
  EXPECT_EQ(stride_grid(257, 256, 132), 2);
  EXPECT_EQ(stride_grid(i64{1} << 40, 256, 132), 132 * kBlocksPerMultiprocessor);
  EXPECT_EQ(stride_grid(i64{27} << 31, 1, 1), kBlocksPerMultiprocessor);
}

TEST(LaunchGrid, ClustersAreWhole) {
  EXPECT_EQ(whole_clusters(7, 1), 7);
  EXPECT_EQ(whole_clusters(8, 4), 8);
  EXPECT_EQ(whole_clusters(9, 4), 12);
  EXPECT_EQ(whole_clusters(1, 8), 8);
}

TEST(LaunchGrid, RadixPassesCoverTheBits) {
  for (i32 bits = 0; bits <= 64; ++bits) {
    i32 covered = 0;
    for (i32 pass = 0; pass < radix_passes(bits); ++pass) {
      EXPECT_EQ(covered, pass * kRadixBits);
      EXPECT_GE(radix_pass_bits(bits, pass), 1);
      EXPECT_LE(radix_pass_bits(bits, pass), kRadixBits);
      covered += radix_pass_bits(bits, pass);
    }
    EXPECT_EQ(covered, bits);
    EXPECT_LE(radix_passes(bits), kMaxRadixPasses);
  }
}

TEST(LaunchGrid, TilesHoldTheCapacity) {
  RadixPassSpec spec;
  const i64 tile = spec.threads * spec.items_per_thread;
  for (i64 capacity : {i64{0}, i64{1}, tile - 1, tile, tile + 1, i64{1} << 30}) {
    const i64 tiles = radix_tiles(spec, capacity);
    EXPECT_GE(tiles, 1);
    EXPECT_GE(tiles * tile, capacity);
    if (tiles > 1) {
      EXPECT_LT((tiles - 1) * tile, capacity);
    }
  }
}

TEST(LaunchGrid, AWorkspaceHasTheTilesOfSmallerSortsToo) {
  for (KeyType key : {KeyType::U32, KeyType::U64}) {
    const RadixPassChoice pass = choose_map(key, 3).radix_pass_rows;
    for (i64 capacity : {i64{1}, kLargeSort - 1, kLargeSort, kLargeSort + 1, i64{1} << 28}) {
      for (i64 sorted : {i64{1}, capacity / 2, std::min(capacity, kLargeSort - 1), capacity}) {
        EXPECT_GE(most_radix_tiles(pass, capacity), radix_tiles(pass.of(sorted), sorted))
            << capacity << ", " << sorted;
      }
    }
  }
}

/// However the queries fall on source blocks, their pieces fit the grid's bound.
TEST(LaunchGrid, MostPiecesIsABound) {
  Random random(7);
  for (int round = 0; round < 1000; ++round) {
    const i32 source_block = static_cast<i32>(random.between(1, 64));
    const i32 query_block = static_cast<i32>(random.between(1, 64));
    const i64 sources = static_cast<i64>(random.below(400)), queries = static_cast<i64>(random.below(400));
    const i64 blocks = source_blocks(sources, source_block);
    i64 left = queries, pieces = 0;
    for (i64 block = 0; block < blocks; ++block) {
      const i64 share =
          block + 1 == blocks ? left : static_cast<i64>(random.below(static_cast<u64>(left) + 1));
      pieces += ceil_div(share, query_block);
      left -= share;
    }
    ASSERT_LE(3 * pieces, most_pieces(sources, queries, 3, source_block, query_block)) << "round " << round;
  }
}

TEST(LaunchGrid, JobsHaveBlocksInProportionToTheirItems) {
  EXPECT_EQ(blocks_of_job(0, 0, 256, 528), 1);
  EXPECT_EQ(blocks_of_job(0, 1000, 256, 528), 1);
  EXPECT_EQ(blocks_of_job(257, 257, 256, 528), 2) << "no more than there is work for";
  EXPECT_EQ(blocks_of_job(1 << 20, 1 << 20, 256, 528), 528);
  EXPECT_EQ(blocks_of_job(1 << 20, 1 << 21, 256, 528), 264);
  EXPECT_EQ(blocks_of_job(1000, i64{1} << 40, 256, 528), 1);
  EXPECT_EQ(blocks_of_job(i64{4096} << 31, i64{16 * 4096} << 31, 256, 32 * 132), 2 * 132) << "no overflow";
}

}  // namespace
}  // namespace minuet
