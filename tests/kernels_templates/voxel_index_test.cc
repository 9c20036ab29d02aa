// Sets and kernel maps by an index of voxels (voxel_index.h) in the shim, against std::map.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "tests/kernels_templates/voxel_index_runs.h"
#include "tests/support/read_together.h"

namespace minuet {
namespace {

/// Compares a view with a map's rows, or if `outputs` is not 0, with these transposed.
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
  const i32* const given = rows.data();  // An access to a vector takes long without optimization.
  for (i64 place = 0; place < queries; ++place) {
    const i64 query = queries - 1 - place;
    expected_order[place] = static_cast<i32>(query) + name;
    for (i32 k = 0; k < volume; ++k) {
      const i32 row = given[k * queries + query];
      const auto has = [&](i64 other) { return given[k * queries + queries - 1 - other] >= 0; };
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

template <i32 Ndim>
KernelGeometry with_steps(KernelGeometry geometry, const Stride& stride, i32 dilation) {
  for (i32 a = 0; a < Ndim; ++a) {
    geometry.step[a] = stride[a] * dilation;
    geometry.origin[a] = centred_origin(geometry.kernel_size[a]) * geometry.step[a];
  }
  return geometry;
}

/// Checks masks, counts and rows of maps against the definition.
template <class Maps, class Wanted>
void expect_maps(const Maps& maps, const std::vector<Wanted>& wanted,
                 const std::vector<std::vector<Point>>& levels) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "map " << i);
    const std::vector<Point>& queries = levels[wanted[i].queries];
    const std::vector<i32> rows = plain_kernel_map(levels[wanted[i].sources], queries, wanted[i].geometry);
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
}

template <i32 Ndim>
void expect_sets_and_maps(const std::vector<Point>& points, int variant, const Bounds& bounds,
                          const std::vector<Stride>& strides = {{1, 1, 1, 1}, {2, 2, 1, 2}, {6, 2, 3, 4}}) {
  SCOPED_TRACE(testing::Message() << Ndim << " axes, " << points.size() << " points, variant " << variant);
  const std::size_t levels = strides.size();
  Index<Ndim> index(strides, capacities_for(points, levels), variant, bounds);
  index.build(points);
  ASSERT_EQ(index.status, 0u);
  std::vector<std::vector<Point>> expected;
  for (std::size_t l = 0; l < levels; ++l) {
    expected.push_back(rows_of_level<Ndim>(points, strides[l]));
    ASSERT_EQ(index.points_of(static_cast<i32>(l)), expected[l]) << "level " << l;
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    const i32 row = index.row_of[i];
    ASSERT_EQ(expected[0][row], points[i]);
    const auto first = std::find(points.begin(), points.end(), points[i]) - points.begin();
    ASSERT_EQ(index.source_row[row], first);
  }

  const KernelGeometry cube = geometry_of(Ndim, {3, 3, 3, 3}, 1), even = geometry_of(Ndim, {2, 2, 2, 2}, 1),
                       line = geometry_of(Ndim, {5, 1, 2, 1}, 1), wide = geometry_of(Ndim, {1, 7, 6, 1}, 1);
  const auto step = [&](const KernelGeometry& geometry, i32 level, i32 dilation) {
    return with_steps<Ndim>(geometry, strides[level], dilation);
  };
  const std::vector<typename Index<Ndim>::Wanted> wanted{
      {0, 0, step(cube, 0, 1)},        {1, 1, step(cube, 1, 2)},        {0, 1, step(even, 0, 1)},
      {1, 2, step(line, 1, 1)},        {2, 2, step(even, 2, 1)},        {0, 0, step(cube, 0, 9)},
      {0, 1, step(even, 0, 1), false}, {1, 2, step(cube, 1, 1), false}, {0, 0, step(wide, 0, 1)},
      {1, 1, step(cube, 0, 1)},        {1, 0, step(cube, 1, 1)},        {2, 1, step(even, 2, 1)}};
  expect_maps(index.search(wanted), wanted, expected);
  // The same in an order. Views of a kernel whose offsets fill a voxel are also made from the finer side.
  KernelGeometry whole = even;
  whole.volume = 1;
  for (i32 a = 0; a < Ndim; ++a) {
    whole.step[a] = strides[0][a], whole.kernel_size[a] = strides[1][a], whole.origin[a] = 0;
    whole.volume *= whole.kernel_size[a];
  }
  std::vector<typename Index<Ndim>::Wanted> asked(4, {0, 1, whole, false, nullptr, true});
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

template <i32 Ndim>
void expect_random(i64 count, i32 extent, bool distinct, int variant) {
  Random random(static_cast<std::uint64_t>(variant) + 17);
  std::vector<Point> points = random_points(random, count, Ndim, 3, extent, distinct);
  for (i64 i = 1; i < count && !distinct; i += 5) points[i] = points[i - 1];  // twice in turn
  expect_sets_and_maps<Ndim>(points, variant, default_index_bounds(Ndim));
  if (count > 0) {
    const auto own = bounds_of(points);
    Bounds tight;
    std::copy(own.least.begin(), own.least.end(), tight.least);
    std::copy(own.greatest.begin(), own.greatest.end(), tight.greatest);
    expect_sets_and_maps<Ndim>(points, variant, tight);
  }
}

TEST(VoxelIndex, SetsAndMapsAreThoseOfTheDefinition) {
  for (int variant = 0; variant < 3; ++variant) {
    expect_random<1>(200, 300, true, variant);
    expect_random<2>(300, 20, false, variant);
    expect_random<3>(400, 6, true, variant);
    expect_random<3>(300, 40, false, variant);
    expect_random<4>(150, 3, true, variant);
    expect_random<3>(1, 5, true, variant);
    expect_random<3>(0, 5, true, variant);
  }
}

TEST(VoxelIndex, CloudsAtTheEdgeOfTheRange) {
  const Bounds range = default_index_bounds(3);
  std::vector<Point> points;
  for (i32 corner = 0; corner < 8; ++corner) {
    for (i32 step = 0; step < 20; ++step) {
      Point point{corner % 2 ? range.greatest[0] : 0};
      for (i32 a = 0; a < 3; ++a)
        point[a + 1] =
            corner >> a & 1 ? range.greatest[a + 1] - step * (a + 1) : range.least[a + 1] + step * (a + 1);
      points.push_back(point);
    }
  }
  expect_sets_and_maps<3>(points, 2, range);
}

TEST(VoxelIndex, RowsDependOnTheSetAlone) {
  Random random(5);
  const std::vector<Point> points = random_points(random, 900, 3, 2, 400, true);
  const std::vector<Stride> strides{{1, 1, 1, 1}, {2, 2, 2, 2}};
  Index<3> plain(strides, capacities_for(points, 2), 0), roomy(strides, {4000, 3700}, 1);
  plain.build(points);
  std::vector<Point> shuffled = points;
  for (std::size_t i = shuffled.size(); i > 1; --i) std::swap(shuffled[i - 1], shuffled[random.below(i)]);
  roomy.build(random_points(random, 3500, 3, 2, 3000, true));  // an earlier cloud
  roomy.build(shuffled);
  ASSERT_EQ(plain.status | roomy.status, 0u);
  for (i32 l = 0; l < 2; ++l) EXPECT_EQ(plain.points_of(l), roomy.points_of(l));
  roomy.build({});
  EXPECT_EQ(roomy.counts, (std::vector<i32>{0, 0}));
  roomy.build(points);
  for (i32 l = 0; l < 2; ++l) EXPECT_EQ(plain.points_of(l), roomy.points_of(l));
}

/// Superblocks that share their first slot form long runs, whose order the prefix sum has to correct.
TEST(VoxelIndex, SuperblocksOfOneRunAreOrderedByHashThenCoordinates) {
  std::map<u32, std::vector<Point>> by_slot;
  std::vector<Point> points;
  for (i32 x = -40; x < 40; ++x) {
    for (i32 y = -40; y < 40; ++y) {
      const i32 superblock[] = {0, x, y, 0};
      const u32 slot = static_cast<u32>(static_cast<u64>(hash_of<3>(superblock)) * 3072 >> 32);
      by_slot[slot / 8].push_back({0, x * 16 + 3, y * 16 + 5, 1, 0});
    }
  }
  for (const auto& [slot, crowded] : by_slot) {
    if (slot % 3 == 0) points.insert(points.end(), crowded.begin(), crowded.end());
  }
  points.resize(std::min<std::size_t>(points.size(), 1500));  // 4096 slots in all, in runs of dozens
  for (int variant = 0; variant < 3; ++variant) {
    Index<3> index({{1, 1, 1, 1}}, {1500}, variant);
    std::rotate(points.begin(), points.begin() + 400, points.end());
    index.build(points);
    ASSERT_EQ(index.status, 0u);
    EXPECT_EQ(index.points_of(0), rows_of_level<3>(points, {1, 1, 1, 1}));
  }
}

/// Superblocks of one hash are told apart by their keys, and ordered by their coordinates.
TEST(VoxelIndex, SuperblocksOfOneHash) {
  std::unordered_map<u32, Point> first;
  std::vector<Point> points;
  for (i32 x = 0, pairs = 0; pairs < 20; ++x) {
    for (i32 y = 0; y < 1000 && pairs < 20; ++y) {
      const i32 superblock[] = {0, x, y, 0};
      const auto [other, is_new] = first.insert({hash_of<3>(superblock), {0, x, y, 0, 0}});
      if (is_new) continue;
      ++pairs;
      for (const Point& at : {Point{0, x, y, 0, 0}, other->second}) {
        for (i32 i = 1; i < 4; ++i) points.push_back({0, at[1] * 16 + 5 * i, at[2] * 16 + 1, i, 0});
      }
    }
  }
  expect_sets_and_maps<3>(points, 1, default_index_bounds(3));
}

/// Superblocks whose search begins near the end of the table fill it to its end. A search for another one
/// ends at the last slot.
TEST(VoxelIndex, TheLastSlotStaysEmpty) {
  constexpr u32 kSlots = kSlotTile, kHashSlots = kSlotTile - kSlotTile / 4;
  std::vector<Point> points;
  for (i32 x = -1000; points.size() <= kSlots - kHashSlots; ++x) {
    for (i32 y = -1000; y < 1000; ++y) {
      const i32 superblock[] = {0, x, y, 0};
      if (static_cast<u64>(hash_of<3>(superblock)) * kHashSlots >> 32 != kHashSlots - 1) continue;
      points.push_back({0, x * 16 + 3, y * 16 + 15, 1, 0});
    }
  }
  points.resize(kSlots - kHashSlots + 1);  // from slot kHashSlots - 1 on
  Index<3> index({{1, 1, 1, 1}}, {static_cast<i64>(points.size())}, 1);
  index.build(points);
  EXPECT_EQ(index.status, kStatusIndexFull);
  const Point left_out = points.back();
  points.pop_back();
  index.build(points);
  ASSERT_EQ(index.status, 0u);
  const std::vector<Point> rows = rows_of_level<3>(points, {1, 1, 1, 1});
  EXPECT_EQ(index.points_of(0), rows);
  Index<3> queries({{1, 1, 1, 1}}, {1}, 0);
  queries.build({left_out});
  const KernelGeometry cube = geometry_of(3, {3, 3, 3, 1}, 1);
  const auto maps = queries.search({{0, 0, cube, true, &index}});
  EXPECT_EQ(maps.rows[0], plain_kernel_map(rows, {left_out}, cube));
}

/// Superblocks whose first slots are the first three of the table, so that they fill one run of slots.
TEST(VoxelIndex, AnInsertionPassesALimitedNumberOfSlots) {
  constexpr std::size_t kMost = kMostProbes - 8, kTooMany = kMostProbes + 8;
  constexpr u64 kHashSlots = kSlotTile - kSlotTile / 4;
  ASSERT_EQ(level_slots(kTooMany), kSlotTile);
  std::vector<Point> points;
  for (i32 x = 0; points.size() < kTooMany; ++x) {
    for (i32 y = 0; y < 1000 && points.size() < kTooMany; ++y) {
      const i32 superblock[] = {0, x, y, 0};
      if (hash_of<3>(superblock) * kHashSlots >> 32 < 3) points.push_back({0, x * 16, y * 16, 0, 0});
    }
  }
  Index<3> index({{1, 1, 1, 1}}, {static_cast<i64>(kTooMany)}, 1);
  index.build(points);
  EXPECT_EQ(index.status, kStatusIndexFull);
  points.resize(kMost);
  index.build(points);
  ASSERT_EQ(index.status, 0u);
  EXPECT_EQ(index.points_of(0), rows_of_level<3>(points, {1, 1, 1, 1}));
}

TEST(VoxelIndex, LevelsWhoseBlocksAreNotNested) {
  Random random(11);
  expect_sets_and_maps<3>(random_points(random, 300, 3, 1, 20, true), 1, default_index_bounds(3),
                          {{1, 1, 1, 1}, {2, 2, 2, 2}, {6, 3, 5, 1}});
  std::vector<Point> pairs;  // Both are in one voxel of stride 2, and alone in two of stride 3.
  for (i32 i = 0; i < 20; ++i) {
    for (const i32 x : {2, 3}) pairs.push_back({0, 60 * i + x, 7 * i, -i, 0});
  }
  expect_sets_and_maps<3>(pairs, 0, default_index_bounds(3), {{1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}});
  expect_sets_and_maps<3>(pairs, 0, default_index_bounds(3),
                          {{1, 1, 1, 1}, {2, 2, 2, 2}, {4, 4, 4, 4}, {3, 3, 3, 3}});
}

TEST(VoxelIndex, MapsBetweenTwoIndexes) {
  Random random(21);
  const std::vector<Point> fine = random_points(random, 200, 3, 2, 8, true),
                           coarse = random_points(random, 150, 3, 3, 12, true);
  Index<3> sources({{1, 1, 1, 1}}, {200}, 0), queries({{1, 1, 1, 1}, {2, 2, 2, 2}}, {150, 150}, 1);
  sources.build(fine);
  queries.build(coarse);
  const KernelGeometry cube = geometry_of(3, {3, 3, 3, 1}, 1);
  const auto maps = queries.search({{0, 0, cube, true, &sources}, {0, 1, cube, true, &sources}});
  const auto fine_rows = rows_of_level<3>(fine, {1, 1, 1, 1});
  EXPECT_EQ(maps.rows[0], plain_kernel_map(fine_rows, rows_of_level<3>(coarse, {1, 1, 1, 1}), cube));
  EXPECT_EQ(maps.rows[1], plain_kernel_map(fine_rows, rows_of_level<3>(coarse, {2, 2, 2, 2}), cube));
}

/// A window may begin at any voxel of a block, and its blocks may have any voxels.
TEST(VoxelIndex, MasksOfWindowsJoinEightBlocks) {
  Random random(5);
  for (i32 begin = 0; begin < 64; ++begin) {
    const i32 place[3] = {begin / 16, begin / 4 % 4, begin % 4};
    for (i32 repeat = 0; repeat < 20; ++repeat) {
      u64 blocks[8];
      for (u64& block : blocks) block = random.next();
      u32 expected = 0;
      for (i32 k = 0; k < 27; ++k) {
        const i32 at[3] = {place[0] + k / 9, place[1] + k / 3 % 3, place[2] + k % 3};
        const i32 corner = at[0] / 4 | at[1] / 4 << 1 | at[2] / 4 << 2;
        const i32 voxel = at[0] % 4 * 16 + at[1] % 4 * 4 + at[2] % 4;
        expected |= static_cast<u32>(blocks[corner] >> voxel & 1u) << k;
      }
      ASSERT_EQ(cube_mask(blocks, place), expected) << begin;
    }
  }
}

TEST(VoxelIndex, MasksOfManyOffsetsTakeSeveralWords) {
  Random random(3);
  const std::vector<Point> points = random_points(random, 120, 3, 2, 5, true);
  Index<3> index({{1, 1, 1, 1}}, {120}, 0);
  index.build(points);
  const std::vector<std::vector<Point>> levels{rows_of_level<3>(points, {1, 1, 1, 1})};
  // A window; offsets that are looked up one by one; and more of them than have counts in shared memory.
  const KernelGeometry kernels[] = {geometry_of(3, {5, 5, 5, 1}, 1), geometry_of(3, {5, 3, 7, 1}, 1),
                                    geometry_of(3, {10, 10, 7, 1}, 1)};
  for (const KernelGeometry& kernel : kernels) {
    SCOPED_TRACE(kernel.volume);
    const std::vector<Index<3>::Wanted> wanted{{0, 0, kernel}};
    expect_maps(index.search(wanted), wanted, levels);
    const auto ordered = index.order({{0, 0, kernel}, {0, 0, kernel}}, {false, false});
    const std::vector<i32> rows = plain_kernel_map(levels[0], levels[0], kernel);
    expect_order(ordered[0], rows, 0, kernel.volume, 0);
    expect_order(ordered[1], rows, 0, kernel.volume, 1000);
  }
}

TEST(VoxelIndex, WhatDoesNotFitSetsTheStatusAndWritesNothingElse) {
  Random random(9);
  const std::vector<Point> points = random_points(random, 700, 3, 1, 300, true);
  const std::vector<Stride> strides{{1, 1, 1, 1}, {64, 64, 64, 64}};
  Index<3> exact(strides, capacities_for(points, 2), 0);
  exact.build(points);
  ASSERT_EQ(exact.status, 0u);
  const i32 coarse = exact.counts[1];
  {  // a level with a row too few, and with as many as it takes
    Index<3> few(strides, {700, coarse - 1}, 0), enough(strides, {700, coarse}, 0);
    few.build(points);
    EXPECT_EQ(few.status, kStatusPastCapacity);
    enough.build(points);
    EXPECT_EQ(enough.status, 0u);
    EXPECT_EQ(enough.counts, exact.counts);
  }
  {  // fewer blocks than the cloud has
    Index<3> few({strides[0]}, {600}, 1);
    few.build(points);
    EXPECT_EQ(few.status, kStatusPastCapacity);
  }
  {  // far fewer slots than the cloud has superblocks; the next cloud fits again
    const std::vector<Point> strewn = random_points(random, 6000, 3, 1, 100000, true);
    Index<3> few({strides[0]}, {1000}, 2);
    few.build(strewn);
    EXPECT_EQ(few.status & kStatusIndexFull, kStatusIndexFull);
    EXPECT_EQ(few.counts[0], 0);
    few.build(points);
    EXPECT_EQ(few.status, 0u);
    EXPECT_EQ(few.points_of(0), exact.points_of(0));
  }
  const Bounds range = default_index_bounds(3);
  for (i32 f = 0; f < 4; ++f) {  // a coordinate one past the range
    for (const bool past : {false, true}) {
      std::vector<Point> far = points;
      far[77][f] = past ? range.greatest[f] + 1 : range.least[f] - 1;
      Index<3> index(strides, capacities_for(points, 2), f % 3);
      index.build(far);
      EXPECT_EQ(index.status, f == 0 && !past ? kStatusNegativeBatch : kStatusOutsideKeys);
      EXPECT_EQ(index.counts, (std::vector<i32>{0, 0}));
    }
  }
  std::vector<Point> twice = points;
  twice[5] = points[7];
  exact.build(twice, kStatusDuplicate);
  EXPECT_EQ(exact.status, kStatusDuplicate);
  exact.build(points, 0, 701);  // more than there are
  EXPECT_EQ(exact.status, kStatusPastCapacity);
  exact.build(points, kStatusDuplicate, 350);
  EXPECT_EQ(exact.status, 0u);
  EXPECT_EQ(exact.points_of(0), rows_of_level<3>({points.begin(), points.begin() + 350}, strides[0]));
}

}  // namespace
}  // namespace minuet
