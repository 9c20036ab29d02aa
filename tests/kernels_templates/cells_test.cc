// Sets and kernel maps by occupancy (cell_index.h) in the shim, against the same by std::map.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/kernels_templates/twins.h"
#include "tests/support/read_together.h"
// twins.h first: it brings the shim's names.
#include "kernels_templates/map/clear_cells.h"
#include "kernels_templates/map/index_cells.h"
#include "kernels_templates/map/order_cells.h"
#include "kernels_templates/map/rank_masks.h"
#include "kernels_templates/map/search_cells.h"

namespace minuet {
namespace {

constexpr i32 kThreads = 64;
constexpr ScanSpec kScan{.input = ScanInput::Bits, .threads = kThreads, .items_per_thread = 3};

std::vector<Point> floored(const std::vector<Point>& points, const i32* stride) {
  std::set<Point> unique;
  for (Point point : points) {
    for (i32 a = 0; a < kMaxDim; ++a) {
      point[a + 1] = static_cast<i32>(floor_to_multiple(point[a + 1], stride[a]));
    }
    unique.insert(point);
  }
  return {unique.begin(), unique.end()};
}

/// An index of a cloud, with room for `most` coordinates and `words`.
template <i32 Ndim, KeyType K>
class Index {
 public:
  using Key = typename KeyOf<K>::Type;

  Index(const std::vector<Point>& points, std::vector<std::array<i32, kMaxDim>> strides, i64 guard,
        i64 period, int variant, i64 words = 1 << 16)
      : levels(static_cast<i32>(strides.size())),
        grid_(shim::small_grid(variant, kThreads)),
        coordinates_(flatten(points, Ndim)),
        layout_(layout_of(points, Ndim, guard, period)),
        points_(static_cast<i32>(points.size())),
        words_(words) {
    for (i32 l = 0; l < levels; ++l) std::copy_n(strides[l].begin(), kMaxDim, strides_.axis[l]);
  }

  /// `capacities`: rows that each level has room for; every level's, where there are none.
  void build(std::vector<i64> capacities = {}, u32 duplicate_status = 0) {
    const std::size_t most = std::max<std::size_t>(points_, 1), runs = most * levels;
    if (capacities.empty()) capacities.assign(levels, static_cast<i64>(most));
    runs_ = poisoned<BitWord>(words_ + 1);
    cells_ = poisoned<BitWord>(runs * kRunWords + 1);
    source_row = poisoned<i32>(most);
    row_of = poisoned<i32>(most);
    index_ = {&grids, runs_.data(), cells_.data()};
    const i64 rows = std::min<i64>(static_cast<i64>(most), capacities[0]);
    shim::launch(&clear_cells<ClearCellsSpec{Ndim, kThreads}>,
                 ClearCellsParams{&layout_, levels, strides_, words_, index_, source_row.data(), rows,
                                  &status, &points_},
                 grid_);
    IndexCellsParams params{};
    params.coordinates = coordinates_.data();
    params.points = &points_;
    params.layout = &layout_;
    params.index = index_;
    params.levels = levels;
    params.status = &status;
    params.duplicate_status = duplicate_status;
    params.source_row = source_row.data();
    params.row_of = row_of.data();
    keys.assign(levels, {});
    counts.assign(levels, poison<i32>());
    for (i32 l = 0; l < levels; ++l) {
      keys[l] = poisoned<Key>(capacities[l] + 1);  // one past the end stays as it is
      params.sets[l] = {keys[l].data(), &counts[l], capacities[l]};
    }
    shim::launch(&index_cells<IndexCellsSpec{IndexStep::Runs, KeyType::U32, Ndim, kThreads}>, params, grid_);
    scan(runs_, grids.words, 1, words_);
    shim::launch(&index_cells<IndexCellsSpec{IndexStep::Cells, KeyType::U32, Ndim, kThreads}>, params, grid_);
    scan(cells_, grids.runs, kRunWords, static_cast<i64>(runs) * kRunWords);
    shim::launch(&index_cells<IndexCellsSpec{IndexStep::Rows, K, Ndim, kThreads}>, params, grid_);
    for (const std::vector<Key>& level : keys) EXPECT_EQ(level.back(), poison<Key>());
  }

  std::vector<Point> points_of(i32 level) const {
    std::vector<Point> points;
    for (i32 row = 0; row < counts[level]; ++row) {
      Point point{};
      unpack_key(layout_.keys, keys[level][row], point.data());
      points.push_back(point);
    }
    return points;
  }

  struct Maps {
    std::vector<std::vector<i32>> rows;
    std::vector<std::vector<u32>> masks, counts;
  };
  struct Wanted {
    i32 sources, queries;
    KernelGeometry geometry;
    bool wants_rows = true;
  };
  /// In one launch.
  Maps search(const std::vector<Wanted>& wanted) const {
    Maps maps;
    SearchCellsParams params{};
    params.layout = &layout_;
    params.index = index_;
    for (const Wanted& map : wanted) {
      const std::size_t queries = counts[map.queries], volume = map.geometry.volume;
      maps.rows.push_back(poisoned<i32>(map.wants_rows ? volume * queries : 0));
      maps.masks.push_back(poisoned<u32>(mask_words(map.geometry.volume) * queries));
      maps.counts.emplace_back(volume, 5);  // added to
    }
    shim::Grid grid = grid_;
    grid.blocks = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      grid.blocks += grid_.blocks + static_cast<i32>(i % 3);
      params.searches[i] = {keys[wanted[i].queries].data(),
                            &counts[wanted[i].queries],
                            wanted[i].geometry,
                            wanted[i].sources,
                            static_cast<u32>(grid.blocks),
                            wanted[i].wants_rows ? maps.rows[i].data() : nullptr,
                            maps.masks[i].data(),
                            maps.counts[i].data()};
    }
    shim::launch(&search_cells<SearchCellsSpec{K, Ndim, kThreads}>, params, grid);
    return maps;
  }

  struct Ordered {
    std::vector<i32> order, rows;  // names; [volume][stride]
    std::vector<u32> masks, block_masks;
    i64 stride = 0;
  };
  /// Views whose rows are looked up, their places the queries backwards; of `parents` the finer side asks,
  /// and masks are made. Every other one has names: of a row, 1000 more.
  std::vector<Ordered> order(const std::vector<Wanted>& wanted, const std::vector<bool>& parents) {
    const Maps maps = search(wanted);
    std::vector<Ordered> ordered(wanted.size());
    std::vector<std::vector<u32>> masks(maps.masks);
    std::vector<i32> names(row_of.size() + 1000);
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = static_cast<i32>(i) + 1000;
    ViewsParams params{};
    params.index = index_, params.layout = &layout_;
    std::vector<u32> sorted;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Wanted& map = wanted[i];
      const i32 asks = parents[i] ? map.sources : map.queries, queries = counts[asks];
      const i32 words = mask_words(map.geometry.volume);
      Ordered& to = ordered[i];
      to.stride = queries + 5;
      to.order = poisoned<i32>(to.stride);
      to.rows = poisoned<i32>(map.geometry.volume * to.stride);
      to.masks = poisoned<u32>(words * to.stride);
      to.block_masks = poisoned<u32>(words * blocks_of_height(to.stride, kLeastBlockHeight));
      ViewJob& job = params.jobs[params.job_count++];
      job.geometry = map.geometry;
      job.query_count = &counts[asks], job.query_keys = keys[asks].data();
      job.source = parents[i] ? RowSource::Parents : RowSource::Cells;
      job.source_level = parents[i] ? map.queries : map.sources;
      job.has_masks = parents[i] ? 0 : 1;
      job.ranked = 1;
      if (parents[i]) masks[i] = poisoned<u32>(queries);
      job.masks = masks[i].data(), job.order = to.order.data();
      job.ordered_rows = to.rows.data(), job.ordered_masks = to.masks.data();
      job.ordered_stride = to.stride, job.block_masks = to.block_masks.data();
      if (i % 2) job.query_ids = job.row_ids = names.data();
      for (i32 q = queries; q > 0; --q) sorted.push_back(static_cast<u32>(q - 1));
    }
    std::vector<u32> ranks(sorted.size()), numbers(sorted.size());
    i32 count = 0;
    params.keys = ranks.data(), params.queries = numbers.data(), params.key_count = &count;
    shim::launch(&rank_masks<RankMasksSpec{K, Ndim, kThreads}>, params, grid_);
    EXPECT_EQ(count, static_cast<i32>(sorted.size()));
    params.sorted = sorted.data();
    shim::launch(&order_cells<OrderCellsSpec{K, Ndim, kThreads}>, params, grid_);
    return ordered;
  }

  i32 levels;
  u32 status = 0;
  CellGrids grids;
  std::vector<std::vector<Key>> keys;
  std::vector<i32> counts, source_row, row_of;

 private:
  void scan(std::vector<BitWord>& words, i32 count, i32 volume, i64 capacity) const {
    scan_to<kScan>(words.data(), words.data(), count, capacity, grid_.order, volume);
  }

  shim::Grid grid_;
  std::vector<i32> coordinates_;
  CloudLayout layout_;
  i32 points_;
  i64 words_;
  LevelStrides strides_{};
  std::vector<BitWord> runs_, cells_;
  CellIndex index_;
};

/// Against a map's rows; where `outputs` of the finer side ask, against these transposed.
template <class Ordered>
void expect_order(const Ordered& view, std::vector<i32> rows, i64 outputs, i32 volume, i32 name) {
  i64 queries = static_cast<i64>(rows.size()) / volume;
  if (outputs > 0) {
    std::vector<i32> transposed(static_cast<std::size_t>(volume * outputs), -1);
    for (i64 i = 0; i < volume * queries; ++i) {
      if (rows[i] >= 0) transposed[i / queries * outputs + rows[i]] = static_cast<i32>(i % queries);
    }
    rows = transposed, queries = outputs;
  }
  auto expected_rows = poisoned<i32>(view.rows.size()), expected_order = poisoned<i32>(view.order.size());
  auto expected_masks = poisoned<u32>(view.masks.size()),
       expected_blocks = poisoned<u32>(view.block_masks.size());
  const i64 blocks = blocks_of_height(view.stride, kLeastBlockHeight);
  for (i64 place = 0; place < queries; ++place) {
    const i64 query = queries - 1 - place;
    expected_order[place] = static_cast<i32>(query) + name;
    for (i32 k = 0; k < volume; ++k) {
      const i32 row = rows[k * queries + query];
      const auto has = [&](i64 other) { return rows[k * queries + queries - 1 - other] >= 0; };
      if (any_together(place, queries, has))
        expected_rows[k * view.stride + place] = row < 0 ? -1 : row + name;
      u32 &mask = expected_masks[k / 32 * view.stride + place],
          &block = expected_blocks[k / 32 * blocks + place / kLeastBlockHeight];
      if (k % 32 == 0) mask = 0;
      if (k % 32 == 0 && place % kLeastBlockHeight == 0) block = 0;
      mask |= static_cast<u32>(row >= 0) << k % 32;
      block |= static_cast<u32>(row >= 0) << k % 32;
    }
  }
  EXPECT_EQ(view.order, expected_order);
  EXPECT_EQ(view.rows, expected_rows);
  EXPECT_EQ(view.masks, expected_masks);
  EXPECT_EQ(view.block_masks, expected_blocks);
}

template <i32 Ndim, KeyType K>
void expect_sets_and_maps(i64 count, i32 extent, bool distinct, int variant) {
  SCOPED_TRACE(testing::Message() << Ndim << " axes, " << count << " points, variant " << variant);
  Random random(static_cast<std::uint64_t>(variant) + 17);
  std::vector<Point> points = random_points(random, count, Ndim, 3, extent, distinct);
  for (i64 i = 1; i < count && !distinct; i += 5) points[i] = points[i - 1];  // twice in turn
  // Strides of 2 and 3 on the same axes: no powers of two alone.
  const std::vector<std::array<i32, kMaxDim>> strides{{1, 1, 1, 1}, {2, 2, 1, 2}, {6, 2, 3, 4}};
  Index<Ndim, K> index(points, strides, /*guard=*/12, /*period=*/12, variant);
  index.build();
  ASSERT_EQ(index.status, 0u);
  std::vector<std::vector<Point>> expected;
  for (i32 l = 0; l < 3; ++l) {
    expected.push_back(floored(points, strides[l].data()));
    EXPECT_EQ(index.points_of(l), expected[l]) << "level " << l;
  }
  for (i64 i = 0; i < count; ++i) {
    const i32 row = index.row_of[i];
    ASSERT_EQ(expected[0][row], points[i]);
    // The caller's first of them.
    const auto first = std::find(points.begin(), points.end(), points[i]) - points.begin();
    ASSERT_EQ(index.source_row[row], first);
  }

  const auto step = [&](KernelGeometry geometry, i32 level, i32 dilation) {
    for (i32 a = 0; a < Ndim; ++a) geometry.step[a] = strides[level][a] * dilation;
    return geometry;
  };
  const KernelGeometry cube = geometry_of(Ndim, {3, 3, 3, 3}, 1), even = geometry_of(Ndim, {2, 2, 2, 2}, 1),
                       line = geometry_of(Ndim, {5, 1, 2, 1}, 1);
  const std::vector<typename Index<Ndim, K>::Wanted> wanted{
      {0, 0, step(cube, 0, 1)},        {1, 1, step(cube, 1, 2)},       {0, 1, step(even, 0, 1)},
      {1, 2, step(line, 1, 1)},        {2, 2, step(even, 2, 1)},       {0, 0, step(cube, 0, 2)},
      {0, 1, step(even, 0, 1), false}, {1, 2, step(line, 1, 1), false}};
  const auto maps = index.search(wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "map " << i);
    const std::vector<Point>& queries = expected[wanted[i].queries];
    const std::vector<i32> rows = plain_kernel_map(expected[wanted[i].sources], queries, wanted[i].geometry);
    if (wanted[i].wants_rows) {
      EXPECT_EQ(maps.rows[i], rows);
    }
    for (i32 k = 0; k < wanted[i].geometry.volume; ++k) {
      u32 pairs = 5;
      for (std::size_t q = 0; q < queries.size(); ++q) {
        const bool hit = rows[k * queries.size() + q] >= 0;
        pairs += hit;
        ASSERT_EQ(maps.masks[i][k / 32 * queries.size() + q] >> k % 32 & 1u, hit ? 1u : 0u) << k << " " << q;
      }
      ASSERT_EQ(maps.counts[i][k], pairs) << "offset " << k;
    }
  }
  // The same in an order. A kernel whose offsets fill a cell, from the finer side, too.
  KernelGeometry whole = even;
  whole.volume = 1;
  for (i32 a = 0; a < Ndim; ++a) {
    whole.step[a] = strides[0][a], whole.kernel_size[a] = strides[1][a];
    whole.volume *= whole.kernel_size[a];
  }
  std::vector<typename Index<Ndim, K>::Wanted> asked{{0, 1, whole, false}, {0, 1, whole, false}};
  asked.insert(asked.end(), wanted.begin(), wanted.end());
  std::vector<bool> parents(asked.size());
  parents[0] = parents[1] = true;
  const auto ordered = index.order(asked, parents);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "view " << i);
    const std::vector<Point>&sources = expected[asked[i].sources], &queries = expected[asked[i].queries];
    expect_order(ordered[i], plain_kernel_map(sources, queries, asked[i].geometry),
                 parents[i] ? static_cast<i64>(sources.size()) : 0, asked[i].geometry.volume,
                 i % 2 ? 1000 : 0);
  }
}

TEST(Cells, SetsAndMapsAreThoseOfTheDefinition) {
  for (int variant = 0; variant < 3; ++variant) {
    expect_sets_and_maps<1, KeyType::U32>(200, 300, true, variant);
    expect_sets_and_maps<2, KeyType::U64>(300, 20, false, variant);
    expect_sets_and_maps<3, KeyType::U32>(400, 6, true, variant);
    expect_sets_and_maps<3, KeyType::U64>(300, 40, false, variant);
    expect_sets_and_maps<4, KeyType::U64>(150, 3, true, variant);
    expect_sets_and_maps<3, KeyType::U32>(1, 5, true, variant);
    expect_sets_and_maps<3, KeyType::U32>(0, 5, true, variant);
  }
}

TEST(Cells, MasksOfManyOffsetsTakeSeveralWords) {
  Random random(3);
  const std::vector<Point> points = random_points(random, 120, 3, 2, 5, true);
  Index<3, KeyType::U32> index(points, {{1, 1, 1, 1}}, 5, 1, 0);
  index.build();
  const std::vector<Point> sorted = index.points_of(0);
  // Lines of five; of seven, which are taken one by one; and more lines than a block has at hand.
  const KernelGeometry kernels[] = {geometry_of(3, {7, 5, 5, 1}, 1), geometry_of(3, {5, 3, 7, 1}, 1),
                                    geometry_of(3, {10, 10, 3, 1}, 1)};
  for (const KernelGeometry& kernel : kernels) {
    SCOPED_TRACE(kernel.volume);
    const auto maps = index.search({{0, 0, kernel}});
    const std::vector<i32> rows = plain_kernel_map(sorted, sorted, kernel);
    EXPECT_EQ(maps.rows[0], rows);
    for (i32 k = 0; k < kernel.volume; ++k) {
      u32 pairs = 5;
      for (std::size_t q = 0; q < sorted.size(); ++q) {
        const bool hit = rows[k * sorted.size() + q] >= 0;
        pairs += hit;
        ASSERT_EQ(maps.masks[0][k / 32 * sorted.size() + q] >> k % 32 & 1u, hit ? 1u : 0u);
      }
      ASSERT_EQ(maps.counts[0][k], pairs) << "offset " << k;
    }
    const auto ordered = index.order({{0, 0, kernel}, {0, 0, kernel}}, {false, false});
    expect_order(ordered[0], rows, 0, kernel.volume, 0);
    expect_order(ordered[1], rows, 0, kernel.volume, 1000);
  }
}

TEST(Cells, WhatDoesNotFitSaysSo) {
  Random random(9);
  const std::vector<Point> points = random_points(random, 100, 3, 1, 30, true);
  const std::vector<std::array<i32, kMaxDim>> strides{{1, 1, 1, 1}, {2, 2, 2, 2}};
  Index<3, KeyType::U32> exact(points, strides, 2, 2, 0);
  exact.build();
  ASSERT_EQ(exact.status, 0u);
  {  // one word too few
    Index<3, KeyType::U32> index(points, strides, 2, 2, 0, exact.grids.words - 1);
    index.build();
    EXPECT_EQ(index.status, kStatusTooManyCells);
    EXPECT_EQ(index.counts, (std::vector<i32>{0, 0}));
  }
  {  // as many as it takes
    Index<3, KeyType::U32> index(points, strides, 2, 2, 0, exact.grids.words);
    index.build();
    EXPECT_EQ(index.status, 0u);
    EXPECT_EQ(index.counts, exact.counts);
  }
  {  // a level with a row too few
    Index<3, KeyType::U32> index(points, strides, 2, 2, 0);
    index.build({100, exact.counts[1] - 1});
    EXPECT_EQ(index.status, kStatusPastCapacity);
    EXPECT_EQ(index.counts[1], exact.counts[1] - 1);
  }
  {  // an extent past what an index can have
    std::vector<Point> far = points;
    far[0] = {0, INT_MAX / 2, INT_MAX / 2, 0, 0};
    const CloudLayout layout = layout_of(far, 3, 2, 2);
    EXPECT_EQ(make_cell_grid(layout.keys, strides[0].data()).words, kMostIndexWords + 1);
  }
  {
    std::vector<Point> twice = points;
    twice.push_back(points[7]);
    Index<3, KeyType::U32> index(twice, strides, 2, 2, 0);
    index.build({}, kStatusDuplicate);
    EXPECT_EQ(index.status, kStatusDuplicate);
  }
}

}  // namespace
}  // namespace minuet
