// The double-traversed binary search, backward and forward, against std::map; block edges above all.
#include <gtest/gtest.h>

#include "tests/kernels_templates/testing.h"
// testing.h first: it brings the shim's names.
#include "kernels_templates/map/find_query_borders.h"
#include "kernels_templates/map/search_kernel_map.h"

namespace minuet {
namespace {

template <KeyType K, i32 Ndim, i32 B, i32 C, i32 Threads>
struct Search {
  using Key = typename KeyOf<K>::Type;
  static constexpr FindQueryBordersSpec kBorders{
      .key = K, .ndim = Ndim, .source_block = B, .query_block = C, .threads = Threads};
  static constexpr SearchKernelMapSpec kSearch{
      .key = K, .ndim = Ndim, .source_block = B, .query_block = C, .threads = Threads};

  std::vector<Point> sources, queries;  // sorted
  KernelGeometry geometry;
  CloudLayout layout;
  std::vector<Key> source_keys, query_keys;
  std::vector<i32> borders, pieces, map;

  Search(std::vector<Point> sources_, std::vector<Point> queries_, const KernelGeometry& geometry_)
      : sources(std::move(sources_)), queries(std::move(queries_)), geometry(geometry_) {
    std::sort(sources.begin(), sources.end());
    std::sort(queries.begin(), queries.end());
    std::vector<Point> all = sources;
    all.insert(all.end(), queries.begin(), queries.end());
    layout = layout_of(all, Ndim, reach_of(geometry), 1);
    EXPECT_LE(layout.keys.total_bits, key_bytes(K) * 8);
    source_keys = keys_of<Key>(sources, layout);
    query_keys = keys_of<Key>(queries, layout);
  }

  void run(int variant) {
    const i32 source_count = static_cast<i32>(sources.size()), query_count = static_cast<i32>(queries.size());
    const std::size_t blocks = static_cast<std::size_t>(source_blocks(source_count, B) * geometry.volume);
    const std::size_t entries = queries.size() * static_cast<std::size_t>(geometry.volume);
    const shim::Grid grid = shim::small_grid(variant, Threads);
    borders = poisoned<i32>(blocks + 1);
    pieces = poisoned<i32>(blocks + 1);
    map = poisoned<i32>(entries + 1);
    shim::launch(&find_query_borders<kBorders>,
                 FindQueryBordersParams{source_keys.data(), &source_count, query_keys.data(), &query_count,
                                        &layout, geometry, borders.data(), pieces.data()},
                 grid);
    EXPECT_EQ(borders.back(), poison<i32>());
    EXPECT_EQ(pieces.back(), poison<i32>());
    borders.pop_back();
    pieces.pop_back();
    const std::vector<i32> piece_starts = exclusive_sums(pieces);
    shim::launch(&search_kernel_map<kSearch>,
                 SearchKernelMapParams{source_keys.data(), &source_count, query_keys.data(), &query_count,
                                       &layout, geometry, borders.data(), piece_starts.data(), map.data()},
                 grid);
    EXPECT_EQ(map.back(), poison<i32>());
    map.pop_back();
  }

  /// Borders by their definition: the first query past the block's last source point.
  void expect_borders() const {
    const i64 blocks = source_blocks(static_cast<i64>(sources.size()), B);
    for (i64 index = 0; index < static_cast<i64>(borders.size()); ++index) {
      const i64 k = index / blocks, i = index % blocks;
      i64 border = static_cast<i64>(queries.size());
      if (i < blocks - 1) {
        const Point last = sources[static_cast<std::size_t>((i + 1) * B - 1)];
        border = 0;
        for (const Point& query : queries)
          border += sum(query, offset_of(geometry, static_cast<i32>(k))) <= last;
      }
      ASSERT_EQ(borders[index], border) << "offset " << k << " block " << i;
      const i64 size = border - (i == 0 ? 0 : borders[index - 1]);
      ASSERT_EQ(pieces[index], (size + C - 1) / C);
    }
  }
  void expect_correct() {
    const std::vector<i32> expected = plain_kernel_map(sources, queries, geometry);
    for (int variant = 0; variant < shim::kGridVariants; ++variant) {
      SCOPED_TRACE("grid variant " + std::to_string(variant));
      run(variant);
      expect_borders();
      ASSERT_EQ(map, expected);
    }
  }
};

template <KeyType K, i32 Ndim, i32 B, i32 C, i32 Threads>
void expect_search(u64 seed, i64 source_count, i64 query_count, const KernelGeometry& geometry,
                   i32 half_extent) {
  SCOPED_TRACE("seed " + std::to_string(seed) + " sources " + std::to_string(source_count) + " queries " +
               std::to_string(query_count));
  Random random(seed);
  const std::vector<Point> sources = random_points(random, source_count, Ndim, 2, half_extent, true);
  const bool same = query_count < 0;  // submanifold: the set itself
  const std::vector<Point> queries =
      same ? sources : random_points(random, query_count, Ndim, 3, half_extent + 2, true);
  Search<K, Ndim, B, C, Threads>(sources, queries, geometry).expect_correct();
}

TEST(Search, SubmanifoldMapsOfEveryDimension) {
  for (const i64 count : {0, 1, 2, 31}) {
    expect_search<KeyType::U32, 1, 4, 8, 32>(100, count, -1, geometry_of(1, {3}, 1), 40);
    expect_search<KeyType::U32, 2, 4, 8, 32>(101, count, -1, geometry_of(2, {3, 2}, 1), 6);
    expect_search<KeyType::U32, 3, 4, 8, 32>(102, count, -1, geometry_of(3, {3, 3, 3}, 1), 2);
    expect_search<KeyType::U64, 4, 8, 4, 32>(103, count, -1, geometry_of(4, {2, 3, 1, 3}, 2), 2);
    expect_search<KeyType::U64, 3, 256, 512, 128>(104, count, -1, geometry_of(3, {3, 3, 3}, 1), 2);
  }
  expect_search<KeyType::U32, 3, 256, 512, 128>(105, 1000, -1, geometry_of(3, {3, 3, 3}, 1), 6);
  expect_search<KeyType::U64, 3, 8, 4, 32>(106, 200, -1, geometry_of(3, {3, 3, 3}, 2), 6);
  expect_search<KeyType::U32, 3, 5, 7, 32>(107, 300, -1, geometry_of(3, {2, 3, 4}, 1), 4);
}

TEST(Search, DifferentSetsEmptySetsAndLopsidedSizes) {
  const KernelGeometry geometry = geometry_of(3, {3, 3, 3}, 1);
  for (const auto& [sources, queries] : std::vector<std::pair<i64, i64>>{
           {0, 0}, {0, 1}, {0, 100}, {1, 0}, {100, 0}, {1, 200}, {200, 1}, {300, 40}, {40, 300}}) {
    expect_search<KeyType::U32, 3, 4, 8, 32>(110, sources, queries, geometry, 4);
    expect_search<KeyType::U64, 3, 256, 512, 128>(111, sources, queries, geometry, 4);
  }
}

// One axis and full rows: every query of the middle offset hits, many of them a block's last key.
TEST(Search, QueriesOnBlockEdges) {
  for (const i32 count : {1, 3, 4, 5, 8, 9, 16, 17}) {
    std::vector<Point> sources, queries;
    for (i32 x = 0; x < count; ++x) sources.push_back(Point{0, 2 * x});
    for (i32 x = -3; x < 2 * count + 3; ++x) queries.push_back(Point{0, x});
    Search<KeyType::U32, 1, 4, 4, 32>(sources, queries, geometry_of(1, {3}, 1)).expect_correct();
    Search<KeyType::U64, 1, 4, 1, 2>(sources, queries, geometry_of(1, {5}, 2)).expect_correct();
    Search<KeyType::U32, 1, 1, 3, 32>(sources, queries, geometry_of(1, {4}, 1)).expect_correct();
    Search<KeyType::U32, 1, 3, 100, 32>(sources, sources, geometry_of(1, {3}, 2)).expect_correct();
  }
}

// A batch item with no sources must not be matched against its neighbour's last block.
TEST(Search, BatchItemsWithoutSources) {
  std::vector<Point> sources, queries;
  for (const i32 batch : {0, 2, 5}) {
    for (i32 x = 0; x < 9; ++x) sources.push_back(Point{batch, x, x % 2, 0});
  }
  for (i32 batch = 0; batch < 7; ++batch) {
    for (i32 x = 0; x < 9; ++x) queries.push_back(Point{batch, x, x % 2, 0});
  }
  Search<KeyType::U32, 3, 4, 8, 32>(sources, queries, geometry_of(3, {3, 3, 3}, 1)).expect_correct();
}

// The last corner with the farthest offset has a key of ones only, which is what fills up a block that is not
// full: no source is there, and none may be found.
TEST(Search, AKeyOfAllOnesIsNoPadding) {
  const std::vector<Point> narrow{Point{0, 0}, Point{255, 7}, Point{255, (1 << 24) - 3}};
  Search<KeyType::U32, 1, 4, 8, 32> search(narrow, narrow, geometry_of(1, {3}, 1));
  ASSERT_EQ(search.source_keys.back() + 1, 0xffffffffu) << "one before all ones";
  search.expect_correct();
  const i32 last = (1 << 14) - 3;
  const std::vector<Point> wide{Point{0, 0, 0, 0, 0}, Point{255, last, last, last, last}};
  Search<KeyType::U64, 4, 256, 512, 128> wider(wide, wide, geometry_of(4, {3, 3, 3, 3}, 1));
  ASSERT_EQ(wider.layout.keys.total_bits, 64);
  wider.expect_correct();
}

TEST(Search, BlocksLookForAShareTogether) {
  // Through the kernel alone it would not show if a share were found by luck: many empty ones here.
  std::vector<Point> sources, queries;
  for (i32 x = 0; x < 400; ++x) sources.push_back(Point{0, x});
  for (i32 x = 0; x < 4; ++x) queries.push_back(Point{0, 133 * x});
  Search<KeyType::U32, 1, 1, 1, 32>(sources, queries, geometry_of(1, {3}, 1)).expect_correct();
}

}  // namespace
}  // namespace minuet
