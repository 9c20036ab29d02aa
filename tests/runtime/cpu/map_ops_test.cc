#include "runtime/cpu/map_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <map>
#include <set>

#include "tests/support/clouds.h"
#include "tests/support/oracle.h"
#include "tests/support/random.h"

namespace minuet {
namespace {

/// Rows as numbers, which compare as they do: their fields are a few tens.
std::vector<i64> rows_of(const std::vector<i32>& coordinates, int ndim) {
  std::vector<i64> rows(coordinates.size() / (1 + ndim));
  for (size_t i = 0; i < coordinates.size(); ++i) {
    i64& row = rows[i / (1 + ndim)];
    row = row * 1000 + coordinates[i];
  }
  return rows;
}

template <class Key>
class MapOpsTest : public testing::Test {
 protected:
  static constexpr KeyType kKey = sizeof(Key) == 8 ? KeyType::U64 : KeyType::U32;

  void begin(i64 capacity, i32 max_volume = 1) {
    MapLimits limits;
    limits.key_bits = 8 * static_cast<i32>(sizeof(Key));
    limits.capacity = capacity;
    limits.max_volume = max_volume;
    // Exactly as many bytes as asked for, so that a write past the end is found under ASan.
    workspace_.reset(static_cast<char*>(std::aligned_alloc(256, place_map_scratch(limits, nullptr).bytes)),
                     std::free);
    std::fill_n(workspace_.get(), place_map_scratch(limits, nullptr).bytes, static_cast<char>(0xdb));
    scratch_ = place_map_scratch(limits, workspace_.get());
  }

  CloudLayout layout(int ndim, const std::vector<i32>& coordinates, i64 guard, i64 period) {
    i32 least[kMaxFields] = {}, greatest[kMaxFields] = {};
    for (size_t i = 0; i < coordinates.size(); ++i) {
      const size_t f = i % (1 + ndim);
      least[f] = i <= f ? coordinates[i] : std::min(least[f], coordinates[i]);
      greatest[f] = i <= f ? coordinates[i] : std::max(greatest[f], coordinates[i]);
    }
    const i64 guards[] = {guard, guard, guard, guard}, periods[] = {period, period, period, period};
    return make_bounded_layout(ndim, least, greatest, guards, periods);
  }

  struct Set {
    explicit Set(i64 capacity)
        : keys(capacity, Key(0xabababab)), source_row(capacity, -7), row_of(capacity, -7) {}
    Coords coords() { return {keys.data(), &count, static_cast<i64>(keys.size()), kKey}; }
    std::vector<Key> keys;
    std::vector<i32> source_row, row_of;
    i32 count = -7;
  };

  u32 build(const std::vector<i32>& coordinates, const CloudLayout& layout, Set& set) {
    BuildCoordsRequest request;
    request.coordinates = coordinates.data();
    const i32 count = static_cast<i32>(set.row_of.size());
    request.count = &count;
    request.most = count;
    request.layout = &layout;
    request.coords = set.coords();
    request.source_row = set.source_row.data();
    request.row_of = set.row_of.data();
    u32 status = 0;
    request.status = &status;
    build_coords_cpu<Key>(pool_, scratch_, request);
    return status;
  }

  ThreadPool pool_{3};
  std::shared_ptr<char> workspace_;
  MapScratch scratch_;
};

using Keys = testing::Types<u32, u64>;
TYPED_TEST_SUITE(MapOpsTest, Keys);

std::vector<i32> with_duplicates(i64 count, int ndim, uint64_t seed) {
  Random random(seed);
  std::vector<i32> coordinates;
  for (i64 i = 0; i < count; ++i) {
    coordinates.push_back(static_cast<i32>(random.below(2)) * 2);  // item 1 is empty
    for (int a = 0; a < ndim; ++a) coordinates.push_back(static_cast<i32>(random.between(-9, 8)));
  }
  return coordinates;
}

TYPED_TEST(MapOpsTest, BuildsSortedUniqueSets) {
  for (int ndim = 1; ndim <= 4; ++ndim) {
    for (i64 count : {0, 1, 2, 31, 1000, 50000}) {
      const std::vector<i32> coordinates = with_duplicates(count, ndim, 21 + count);
      const CloudLayout layout = this->layout(ndim, coordinates, 3, 2);
      typename TestFixture::Set set(count);
      this->begin(count);
      EXPECT_EQ(this->build(coordinates, layout, set), 0u);
      std::map<i64, std::pair<i32, std::vector<i32>>> expected;  // first row, all rows
      const std::vector<i64> rows = rows_of(coordinates, ndim);
      for (size_t i = 0; i < rows.size(); ++i) {
        auto& entry = expected.try_emplace(rows[i], static_cast<i32>(i), std::vector<i32>{}).first->second;
        entry.second.push_back(static_cast<i32>(i));
      }
      ASSERT_EQ(set.count, static_cast<i32>(expected.size())) << ndim << " axes, " << count << " points";
      std::vector<i32> unpacked(set.count * (1 + ndim), INT_MAX);
      unpack_cpu<TypeParam>(this->pool_, set.coords(), layout.keys, unpacked.data());
      i32 row = 0;
      for (const auto& [number, entry] : expected) {
        ASSERT_EQ(set.source_row[row], entry.first);
        const auto fields = coordinates.begin() + entry.first * (1 + ndim);
        ASSERT_TRUE(std::equal(fields, fields + 1 + ndim, unpacked.begin() + row * (1 + ndim))) << row;
        for (i32 caller : entry.second) ASSERT_EQ(set.row_of[caller], row);
        ++row;
      }
    }
  }
}

TYPED_TEST(MapOpsTest, ReportsWhatLiesOutside) {
  const std::vector<i32> good{0, -4, 5, 1, 2, 3};
  CloudLayout layout = this->layout(2, good, 1, 1);
  this->begin(2);
  typename TestFixture::Set set(2);
  EXPECT_EQ(this->build(good, layout, set), 0u);
  EXPECT_EQ(this->build({0, -5, 5, 1, 2, 3}, layout, set), kStatusOutOfBounds);
  EXPECT_EQ(this->build({0, -4, 5, 1, 2, 6}, layout, set), kStatusOutOfBounds);
  EXPECT_EQ(this->build({0, INT_MIN, INT_MAX, 1, 2, 3}, layout, set), kStatusOutOfBounds);
  EXPECT_EQ(this->build({-1, -4, 5, 1, 2, 3}, layout, set), kStatusOutOfBounds | kStatusNegativeBatch);
  layout.least[0] = -1;
  EXPECT_EQ(this->build({-1, -4, 5, 1, 2, 3}, layout, set), kStatusNegativeBatch);
}

TYPED_TEST(MapOpsTest, FindsLayouts) {
  for (i64 count : {0, 1, 31, 40000}) {
    const std::vector<i32> coordinates = with_duplicates(count, 3, 5 + count);
    const CloudLayout expected = this->layout(3, coordinates, 1, 2);
    u32 status = 77;
    i32 points = -7, bounds[2 * kMaxFields];
    CloudLayout found;
    LayoutRequest request;
    request.coordinates = coordinates.data();
    request.most = count;
    std::fill_n(request.guard, kMaxDim, 1), std::fill_n(request.period, kMaxDim, 2);
    request.key_bits = expected.keys.total_bits;
    request.cloud = {&status, &points, bounds, &found};
    find_layout_cpu(this->pool_, 3, request);
    EXPECT_EQ(status, 0u);
    EXPECT_EQ(points, count);
    EXPECT_EQ(found.keys.total_bits, expected.keys.total_bits);
    for (int f = 0; f < 4; ++f) {
      EXPECT_EQ(found.least[f], expected.least[f]);
      EXPECT_EQ(found.greatest[f], expected.greatest[f]);
      EXPECT_EQ(found.keys.bias[f], expected.keys.bias[f]);
      EXPECT_EQ(found.keys.shift[f], expected.keys.shift[f]);
    }
    if (count == 0) continue;
    Bounds limits = read_bounds(bounds);
    request.limits = &limits;
    find_layout_cpu(this->pool_, 3, request);
    EXPECT_EQ(status, 0u);
    ++limits.least[3];
    find_layout_cpu(this->pool_, 3, request);
    EXPECT_EQ(status, kStatusOutOfBounds);
    EXPECT_EQ(points, 0);
    request.limits = nullptr;
    request.key_bits -= 1;
    find_layout_cpu(this->pool_, 3, request);
    EXPECT_EQ(status, kStatusKeyTooNarrow);
    EXPECT_EQ(points, 0);
    const i32 given = static_cast<i32>(count) + 1;
    request.given_count = &given;
    find_layout_cpu(this->pool_, 3, request);
    EXPECT_EQ(status, kStatusPastCapacity);
  }
}

TYPED_TEST(MapOpsTest, KeepsTheCapacityAndSaysSo) {
  const std::vector<i32> coordinates = with_duplicates(1000, 3, 8);
  const CloudLayout layout = this->layout(3, coordinates, 0, 1);
  typename TestFixture::Set set(1000);
  this->begin(1000);
  ASSERT_EQ(this->build(coordinates, layout, set), 0u);
  const i32 unique = set.count;
  for (const i32 capacity : {1, unique - 1, unique}) {
    typename TestFixture::Set small(1000);
    const i32 count = 1000;
    u32 status = 0;
    BuildCoordsRequest request;
    request.coordinates = coordinates.data();
    request.count = &count;
    request.most = count;
    request.layout = &layout;
    request.refuses_duplicates = true;
    request.coords = small.coords();
    request.coords.capacity = capacity;
    request.source_row = small.source_row.data();
    request.row_of = small.row_of.data();
    request.status = &status;
    build_coords_cpu<TypeParam>(this->pool_, this->scratch_, request);
    EXPECT_EQ(status, kStatusDuplicate | (capacity < unique ? kStatusPastCapacity : 0));
    EXPECT_EQ(small.count, capacity);
    EXPECT_EQ(small.keys[static_cast<size_t>(capacity)], TypeParam(0xabababab));
    EXPECT_EQ(small.source_row[static_cast<size_t>(capacity)], -7);
  }
}

TYPED_TEST(MapOpsTest, DownsamplesWithFloor) {
  for (i64 count : {0, 1, 300, 40000}) {
    const std::vector<i32> coordinates = with_duplicates(count, 3, 31 + count);
    const CloudLayout layout = this->layout(3, coordinates, 1, 12);
    typename TestFixture::Set fine(count), coarse(count);
    this->begin(count);
    ASSERT_EQ(this->build(coordinates, layout, fine), 0u);
    DownsampleRequest request;
    request.fine = fine.coords();
    request.layout = &layout;
    request.stride = {2, 3, 4, 1};
    request.coarse = coarse.coords();
    downsample_cpu<TypeParam>(this->pool_, this->scratch_, request);
    std::vector<i32> unpacked(coarse.count * 4);
    unpack_cpu<TypeParam>(this->pool_, coarse.coords(), layout.keys, unpacked.data());
    EXPECT_EQ(unpacked, oracle::downsample(3, coordinates, {2, 3, 4, 1}));
  }
}

TYPED_TEST(MapOpsTest, SearchesEveryOffset) {
  for (i64 count : {0, 1, 2, 31, 1000, 40000}) {
    VoxelOptions voxels;
    voxels.count = count;
    voxels.extent = extent_for_neighbours(3, count / 2 + 1, 6);
    voxels.least = -voxels.extent / 2;
    voxels.batches = 3, voxels.empty_batch = 1;
    voxels.seed = 41 + count;
    const std::vector<i32> sources = make_voxels(voxels);
    voxels.seed += 1, voxels.count = count / 2;
    const std::vector<i32> queries = make_voxels(voxels);
    std::vector<i32> both = sources;
    both.insert(both.end(), queries.begin(), queries.end());
    const CloudLayout layout = this->layout(3, both, 4, 1);
    MapView map;
    map.geometry = make_geometry(3, {5, 2, 3, 1}, {1, 1, 3, 1}, {1, 1, 1, 1});
    this->begin(count, map.geometry.volume);
    typename TestFixture::Set source_set(count), query_set(count / 2);
    ASSERT_EQ(this->build(sources, layout, source_set), 0u);
    ASSERT_EQ(this->build(queries, layout, query_set), 0u);
    std::vector<i32> table(map.geometry.volume * (count / 2), 12345), positions(table.size() + 1, -5),
        counts(map.geometry.volume, -5);
    map.rows = table.data(), map.positions = positions.data(), map.counts = counts.data();
    map.sources = count, map.queries = count / 2;
    search_cpu<TypeParam>(this->pool_, {source_set.coords(), query_set.coords(), &layout, &map});
    ASSERT_EQ(counts.front(), -5) << "pairs are a view of their own";
    count_pairs_cpu(this->pool_, this->scratch_, count / 2, map);

    oracle::Geometry geometry;
    geometry.kernel_size = {5, 2, 3, 1};
    geometry.dilation = {1, 1, 3, 1};
    const auto expected = oracle::find_pairs(geometry, sources, queries);
    ASSERT_EQ(positions.back(), static_cast<i32>(expected.size()));
    std::vector<i32> from(expected.size(), -1), to(expected.size(), -1);
    PairsRequest list;
    list.map = &map;
    list.most_queries = map.queries;
    list.sources = from.data(), list.targets = to.data();
    list.capacity = static_cast<i64>(from.size());
    compact_pairs_cpu(this->pool_, list);
    std::vector<oracle::Pair> pairs;
    size_t i = 0;
    for (i32 k = 0; k < map.geometry.volume; ++k) {
      for (i32 n = 0; n < counts[k]; ++n, ++i) {
        ASSERT_TRUE(n == 0 || to[i] > to[i - 1]) << "pairs of one offset ascend";
        pairs.push_back({k, source_set.source_row[from[i]], query_set.source_row[to[i]]});
      }
    }
    oracle::sort(pairs);
    EXPECT_EQ(pairs, expected) << count << " sources";
  }
}

}  // namespace
}  // namespace minuet
