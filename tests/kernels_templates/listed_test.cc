// The searches of kernel maps whose offsets are a list, in sorted keys and in an index, against std::map.
#include <gtest/gtest.h>

#include "tests/kernels_templates/voxel_index_runs.h"
// voxel_index_runs.h first: it brings the shim's names.
#include "kernels_templates/map/search_listed_keys.h"
#include "kernels_templates/map/search_listed_voxels.h"

namespace minuet {
namespace {

/// `count` different offsets of up to `reach` cells, in any order.
std::vector<Point> random_offsets(Random& random, i32 ndim, i64 count, i32 reach) {
  return random_points(random, count, ndim, 1, reach, true);
}

ListedOffsets part_of(const std::vector<Point>& offsets, std::size_t first) {
  ListedOffsets part{};
  part.first = static_cast<i32>(first);
  part.count = static_cast<i32>(std::min<std::size_t>(offsets.size() - first, kMostListedOffsets));
  for (i32 k = 0; k < part.count; ++k)
    std::copy_n(offsets[first + static_cast<std::size_t>(k)].begin() + 1, kMaxDim, part.at[k]);
  return part;
}

std::vector<i32> plain_rows(const std::vector<Point>& sources, const std::vector<Point>& queries,
                            const std::vector<Point>& offsets) {
  std::map<Point, i32> rows;
  for (const Point& source : sources) rows.emplace(source, static_cast<i32>(rows.size()));
  std::vector<i32> map;
  for (const Point& offset : offsets) {
    for (const Point& query : queries) {
      const auto found = rows.find(sum(query, offset));
      map.push_back(found == rows.end() ? -1 : found->second);
    }
  }
  return map;
}

template <KeyType K, i32 Ndim>
void expect_keys(u64 seed, i64 source_count, i64 query_count, i64 offset_count, i32 reach) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  using Key = typename KeyOf<K>::Type;
  Random random(seed);
  std::vector<Point> sources = random_points(random, source_count, Ndim, 3, 40, true);
  std::vector<Point> queries = random_points(random, query_count, Ndim, 4, 42, true);
  const std::vector<Point> offsets = random_offsets(random, Ndim, offset_count, reach);
  std::sort(sources.begin(), sources.end());
  std::sort(queries.begin(), queries.end());
  std::vector<Point> all = sources;
  all.insert(all.end(), queries.begin(), queries.end());
  const CloudLayout layout = layout_of(all, Ndim, reach, 1);
  ASSERT_LE(layout.keys.total_bits, key_bytes(K) * 8);
  const std::vector<Key> source_keys = keys_of<Key>(sources, layout);
  const std::vector<Key> query_keys = keys_of<Key>(queries, layout);
  const i32 source_rows = static_cast<i32>(sources.size()), query_rows = static_cast<i32>(queries.size());
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    std::vector<i32> map = poisoned<i32>(queries.size() * offsets.size() + 1);
    for (std::size_t first = 0; first < offsets.size(); first += kMostListedOffsets) {
      shim::launch(&search_listed_keys<SearchListedKeysSpec{K, Ndim, kThreads}>,
                   SearchListedKeysParams{source_keys.data(), &source_rows, query_keys.data(), &query_rows,
                                          &layout, map.data(), part_of(offsets, first)},
                   shim::small_grid(variant, kThreads));
    }
    EXPECT_EQ(map.back(), poison<i32>());
    map.pop_back();
    ASSERT_EQ(map, plain_rows(sources, queries, offsets));
  }
}

TEST(Listed, KeysOfEveryDimension) {
  for (const i64 count : {0, 1, 31, 300}) {
    expect_keys<KeyType::U32, 1>(1, std::min<i64>(count, 60), 70, 9, 12);
    expect_keys<KeyType::U32, 2>(2, count, 200, 5, 40);
    expect_keys<KeyType::U32, 3>(3, 200, count, 7, 2);
    expect_keys<KeyType::U64, 3>(4, count, 200, 150, 5);
    expect_keys<KeyType::U64, 4>(5, 200, count, 65, 3);
  }
}

TEST(Listed, KeysOfListsAroundTheSizeOfALaunch) {
  for (const i64 offsets : {1, 2, 31, 32, 33, 63, 64, 65, 128, 129})
    expect_keys<KeyType::U64, 3>(static_cast<u64>(offsets), 100, 100, offsets, 3);
}

/// Sources are level 0 of an index, and queries are level 1, whose stride is 2, or level 0 too.
template <i32 Ndim>
void expect_voxels(u64 seed, i64 points, i64 offset_count, i32 reach, i32 query_level) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const std::vector<Point> cloud = random_points(random, points, Ndim, 3, 12, true);
  const std::vector<Point> offsets = random_offsets(random, Ndim, offset_count, reach);
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    Index<Ndim> index({{1, 1, 1, 1}, {2, 2, 2, 2}}, {points + 3, points + 3}, variant);
    index.build(cloud);
    const std::vector<Point> sources = index.points_of(0), queries = index.points_of(query_level);
    std::vector<i32> rows = poisoned<i32>(queries.size() * offsets.size() + 1);
    const auto words = static_cast<std::size_t>(mask_words(static_cast<i32>(offsets.size())));
    std::vector<u32> masks = poisoned<u32>(words * queries.size() + 1);
    std::vector<u32> counts(offsets.size(), 5);  // added to
    SearchListedVoxelsParams params{};
    params.search.queries = {&index.index, query_level};
    params.search.sources = {&index.index, 0};
    params.search.query_count = &index.counts[static_cast<std::size_t>(query_level)];
    params.search.geometry.ndim = Ndim;
    params.search.geometry.volume = static_cast<i32>(offsets.size());
    params.search.rows = rows.data(), params.search.masks = masks.data();
    params.search.counts = variant == 0 ? nullptr : counts.data();
    for (std::size_t first = 0; first < offsets.size(); first += kMostListedOffsets) {
      params.offsets = part_of(offsets, first);
      shim::launch(&search_listed_voxels<SearchListedVoxelsSpec{Ndim, kThreads}>, params,
                   shim::small_grid(variant, kThreads));
    }
    const std::vector<i32> expected = plain_rows(sources, queries, offsets);
    EXPECT_EQ(rows.back(), poison<i32>());
    EXPECT_EQ(masks.back(), poison<u32>());
    rows.pop_back();
    ASSERT_EQ(rows, expected);
    std::vector<u32> expected_masks(words * queries.size(), 0), expected_counts(offsets.size(), 5);
    for (std::size_t k = 0; k < offsets.size(); ++k) {
      for (std::size_t q = 0; q < queries.size(); ++q) {
        if (expected[k * queries.size() + q] < 0) continue;
        expected_masks[k / 32 * queries.size() + q] |= 1u << k % 32;
        if (variant != 0) ++expected_counts[k];
      }
    }
    masks.pop_back();
    ASSERT_EQ(masks, expected_masks);
    ASSERT_EQ(counts, expected_counts);
  }
}

TEST(Listed, VoxelsOfEveryDimension) {
  for (const i32 level : {0, 1}) {
    for (const i64 points : {0, 1, 300}) {
      expect_voxels<1>(11, std::min<i64>(points, 40), 8, 30, level);
      expect_voxels<2>(12, points, 7, 3, level);
      expect_voxels<3>(13, points, 5, 70, level);
      expect_voxels<4>(14, points, 40, 2, level);
    }
  }
}

TEST(Listed, VoxelsOfListsAroundTheSizeOfALaunch) {
  for (const i64 offsets : {1, 31, 32, 33, 63, 64, 65, 129})
    expect_voxels<3>(static_cast<u64>(offsets), 100, offsets, 3, 0);
}

}  // namespace
}  // namespace minuet
