// Kernels that make and change coordinate sets, against plain loops over coordinates.
#include <gtest/gtest.h>

#include "tests/kernels_templates/testing.h"
// testing.h first: it brings the shim's names.
#include "kernels_templates/map/begin_cloud.h"
#include "kernels_templates/map/downsample.h"
#include "kernels_templates/map/find_bounds.h"
#include "kernels_templates/map/make_layout.h"
#include "kernels_templates/map/pack.h"
#include "kernels_templates/map/prepare_scans.h"
#include "kernels_templates/map/unique.h"
#include "kernels_templates/map/unpack.h"

namespace minuet {
namespace {

constexpr i64 kCounts[] = {0, 1, 2, 31, 1000};
constexpr i64 kSlack = 40;  // how far a capacity lies above the count

template <i32 Ndim>
void expect_bounds(i64 count, int variant) {
  Random random(20 + static_cast<u64>(count));
  const std::vector<Point> points = random_points(random, count, Ndim, 3, 5000, false);
  const std::vector<i32> coordinates = flatten(points, Ndim);
  std::vector<i32> found(kMaxFields, INT_MAX);
  found.resize(2 * kMaxFields, INT_MIN);
  const i32 device_count = static_cast<i32>(count);
  constexpr FindBoundsSpec kSpec{.ndim = Ndim, .threads = 64};
  shim::launch(&find_bounds<kSpec>, FindBoundsParams{coordinates.data(), &device_count, found.data()},
               shim::small_grid(variant, kSpec.threads));
  const PointBounds bounds = bounds_of(points);
  for (i32 f = 0; f < kMaxFields; ++f) {
    const bool touched = count > 0 && f <= Ndim;
    EXPECT_EQ(found[f], touched ? bounds.least[f] : INT_MAX);
    EXPECT_EQ(found[kMaxFields + f], touched ? bounds.greatest[f] : INT_MIN);
  }
}
TEST(FindBounds, EqualsPlainMinimumAndMaximum) {
  for (const i64 count : kCounts) {
    for (int variant = 0; variant < shim::kGridVariants; ++variant) {
      expect_bounds<1>(count, variant);
      expect_bounds<2>(count, variant);
      expect_bounds<3>(count, variant);
      expect_bounds<4>(count, variant);
    }
  }
}

template <KeyType K, i32 Ndim>
void expect_pack_and_unpack(i64 count, int variant) {
  using Key = typename KeyOf<K>::Type;
  Random random(30 + static_cast<u64>(count));
  const std::vector<Point> points =
      random_points(random, count, Ndim, 3, K == KeyType::U32 ? 20 : 2000, false);
  const std::vector<i32> coordinates = flatten(points, Ndim);
  const CloudLayout layout = layout_of(points, Ndim, 2, 4);
  ASSERT_LE(layout.keys.total_bits, key_bytes(K) * 8);
  const i32 device_count = static_cast<i32>(count);
  PackParams params{};
  params.coordinates = coordinates.data();
  params.count = &device_count;
  params.layout = &layout;
  std::vector<Key> keys = poisoned<Key>(count + kSlack);
  std::vector<u32> rows = poisoned<u32>(count + kSlack);
  u32 status = 0;
  params.keys = keys.data();
  params.rows = variant == 1 ? nullptr : rows.data();
  params.status = &status;
  constexpr PackSpec kPack{.key = K, .ndim = Ndim, .threads = 64};
  shim::launch(&pack<kPack>, params, shim::small_grid(variant, kPack.threads));
  EXPECT_EQ(status, 0u);

  std::vector<i32> back = poisoned<i32>((count + kSlack) * (Ndim + 1));
  constexpr UnpackSpec kUnpack{.key = K, .ndim = Ndim, .threads = 32};
  shim::launch(&unpack<kUnpack>, UnpackParams{keys.data(), &device_count, &layout, back.data()},
               shim::small_grid(variant, kUnpack.threads));
  for (i64 i = 0; i < count + kSlack; ++i) {
    EXPECT_EQ(rows[i], i < count && variant != 1 ? static_cast<u32>(i) : poison<u32>());
    if (i >= count) {
      EXPECT_EQ(keys[i], poison<Key>());
    }
  }
  std::vector<i32> expected = coordinates;
  expected.resize(back.size(), poison<i32>());
  EXPECT_EQ(back, expected);
}
TEST(PackUnpack, RoundTripOfEveryRow) {
  for (const i64 count : kCounts) {
    for (int variant = 0; variant < shim::kGridVariants; ++variant) {
      expect_pack_and_unpack<KeyType::U32, 1>(count, variant);
      expect_pack_and_unpack<KeyType::U32, 3>(count, variant);
      expect_pack_and_unpack<KeyType::U64, 2>(count, variant);
      expect_pack_and_unpack<KeyType::U64, 3>(count, variant);
      expect_pack_and_unpack<KeyType::U64, 4>(count, variant);
    }
  }
}

TEST(Pack, OutsideTheBoundsIsReportedAndStaysInTheLayout) {
  const std::vector<Point> corners{Point{0, -8, -8, -8}, Point{3, 7, 7, 7}};
  const CloudLayout layout = layout_of(corners, 3, 1, 1);
  const i32 count = 1;
  struct Case {
    Point point;
    u32 status;
  };
  const Case cases[] = {
      {{0, -8, 7, 0, 0}, 0},
      {{1, 8, 0, 0, 0}, kStatusOutOfBounds},
      {{1, 0, 0, -9, 0}, kStatusOutOfBounds},
      {{4, 0, 0, 0, 0}, kStatusOutOfBounds},
      {{-1, 0, 0, 0, 0}, kStatusOutOfBounds | kStatusNegativeBatch},
      {{0, INT_MIN, INT_MAX, 0, 0}, kStatusOutOfBounds},
  };
  for (const Case& one : cases) {
    const std::vector<i32> coordinates = flatten({one.point}, 3);
    PackParams params{};
    params.coordinates = coordinates.data();
    params.count = &count;
    params.layout = &layout;
    u64 key = poison<u64>();
    u32 status = 0;
    params.keys = &key;
    params.status = &status;
    constexpr PackSpec kSpec{.key = KeyType::U64, .threads = 32};
    shim::launch(&pack<kSpec>, params, {.blocks = 2, .threads = 32});
    EXPECT_EQ(status, one.status);
    Point back{};
    unpack_key<u64>(layout.keys, key, back.data());
    for (i32 f = 0; f < 4; ++f) EXPECT_EQ(back[f], std::clamp(one.point[f], corners[0][f], corners[1][f]));
  }
}

TEST(PrepareScans, PaddingThenNotYetInEveryState) {
  const ScanSpec scan;
  for (const i64 items : {0, 2047, 2048, 100000}) {
    const i64 stride = scan_state_bytes(scan, items);
    EXPECT_EQ(stride % 256, 0);
    EXPECT_GE(stride, (scan_tiles(scan, items) + kScanPaddingTiles) * kScanTileBytes);
    EXPECT_GE(scan_tiles(scan, items) * scan.threads * scan.items_per_thread, items + 1);
    for (int variant = 0; variant < shim::kGridVariants; ++variant) {
      constexpr i32 kScans = 3;
      constexpr i64 kZeros = 1000;
      std::vector<u32> zeros = poisoned<u32>(kZeros + 1);
      std::vector<u64> tiles = poisoned<u64>(static_cast<std::size_t>(stride / 8 * kScans + 1));
      shim::launch(&prepare_scans<PrepareScansSpec{64}>,
                   PrepareScansParams{tiles.data(), stride, kScans, zeros.data(), kZeros},
                   shim::small_grid(variant, 64));
      for (i64 i = 0; i < stride / 8 * kScans; ++i) {
        ASSERT_EQ(tiles[i], i % (stride / 8) < kScanPaddingTiles ? 0u : 99u);
      }
      EXPECT_EQ(tiles.back(), poison<u64>());
      EXPECT_EQ(std::count(zeros.begin(), zeros.end(), 0u), kZeros);
      EXPECT_EQ(zeros.back(), poison<u32>());
    }
  }
}

TEST(ScanItems, SegmentsAreNeverShorterThanAsked) {
  ScanParams params{};
  params.volume = 27;
  params.divisor = 256;
  params.least_items = 1;
  EXPECT_EQ(scan_items(params, 0), 27);
  EXPECT_EQ(scan_items(params, 256), 27);
  EXPECT_EQ(scan_items(params, 257), 54);
  params.divisor = 1;
  params.least_items = 0;
  EXPECT_EQ(scan_items(params, 0), 0);
  EXPECT_EQ(scan_items(params, INT_MAX), 27ll * INT_MAX);
}

template <KeyType K, bool Rows>
void expect_unique(i64 count, int variant, bool with_outputs, i64 capacity = 1 << 20) {
  using Key = typename KeyOf<K>::Type;
  Random random(50 + static_cast<u64>(count));
  // Keys with duplicates, sorted with the caller's rows, stably.
  std::vector<std::pair<Key, u32>> pairs;
  for (i64 i = 0; i < count; ++i) {
    pairs.emplace_back(static_cast<Key>(random.below(static_cast<u64>(count) / 2 + 1)), static_cast<u32>(i));
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Key> keys;
  std::vector<u32> rows;
  std::vector<i32> heads;
  for (const auto& [key, row] : pairs) {
    heads.push_back(keys.empty() || keys.back() != key);
    keys.push_back(key);
    rows.push_back(row);
  }
  std::map<Key, std::vector<u32>> groups;
  for (const auto& [key, row] : pairs) groups[key].push_back(row);

  const std::vector<i32> positions = exclusive_sums(heads);
  std::vector<Key> unique_keys = poisoned<Key>(count + 1);
  std::vector<i32> source_row = poisoned<i32>(count + 1), row_of = poisoned<i32>(count + 1);
  i32 unique_count = poison<i32>();
  const i32 device_count = static_cast<i32>(count);
  UniqueParams params{};
  params.keys = keys.data();
  params.rows = Rows ? rows.data() : nullptr;
  params.count = &device_count;
  params.positions = positions.data();
  params.unique_keys = unique_keys.data();
  params.unique_count = &unique_count;
  params.capacity = capacity;
  params.duplicate_status = kStatusDuplicate;
  u32 status = 0;
  params.status = &status;
  params.source_row = with_outputs ? source_row.data() : nullptr;
  params.row_of = with_outputs ? row_of.data() : nullptr;
  constexpr UniqueSpec kSpec{.key = K, .rows = Rows, .threads = 32};
  shim::launch(&unique<kSpec>, params, shim::small_grid(variant, kSpec.threads));

  const i64 groups_found = static_cast<i64>(groups.size());
  EXPECT_EQ(status, (groups_found < count ? kStatusDuplicate : 0) |
                        (groups_found > capacity ? kStatusPastCapacity : 0));
  ASSERT_EQ(unique_count, static_cast<i32>(std::min(groups_found, capacity)));
  std::vector<i32> expected_source = poisoned<i32>(count + 1), expected_row = poisoned<i32>(count + 1);
  i32 row = 0;
  for (const auto& [key, members] : groups) {
    if (row >= capacity) {
      EXPECT_EQ(unique_keys[static_cast<std::size_t>(row)], poison<Key>()) << "past the capacity";
      for (const u32 member : members) expected_row[member] = row;
      ++row;
      continue;
    }
    EXPECT_EQ(unique_keys[row], key);
    expected_source[row] = static_cast<i32>(*std::min_element(members.begin(), members.end()));
    for (const u32 member : members) expected_row[member] = row;
    ++row;
  }
  EXPECT_EQ(unique_keys[row], poison<Key>());
  const bool written = Rows && with_outputs;
  EXPECT_EQ(source_row, written ? expected_source : poisoned<i32>(count + 1));
  EXPECT_EQ(row_of, written ? expected_row : poisoned<i32>(count + 1));
}
TEST(Unique, KeepsTheFirstOfEqualKeys) {
  for (const i64 count : kCounts) {
    for (int variant = 0; variant < shim::kGridVariants; ++variant) {
      expect_unique<KeyType::U32, true>(count, variant, true);
      expect_unique<KeyType::U64, true>(count, variant, true);
      expect_unique<KeyType::U64, true>(count, variant, false);
      expect_unique<KeyType::U32, false>(count, variant, true);
      expect_unique<KeyType::U64, false>(count, variant, false);
    }
  }
}

TEST(Unique, WritesNothingPastTheCapacity) {
  for (const i64 capacity : {1, 2, 100, 5000}) {
    expect_unique<KeyType::U32, true>(1000, 0, true, capacity);
    expect_unique<KeyType::U64, false>(1000, 1, true, capacity);
  }
}

TEST(BeginCloud, TakesCountsThatFit) {
  for (const i64 given : {i64{-1}, i64{0}, i64{1}, i64{100}, i64{101}, i64{INT_MAX}}) {
    const i32 device_count = static_cast<i32>(given);
    u32 status = poison<u32>();
    i32 points = poison<i32>();
    std::vector<i32> bounds = poisoned<i32>(2 * kMaxFields + 1);
    constexpr BeginCloudSpec kSpec{.threads = 32};
    shim::launch(&begin_cloud<kSpec>, BeginCloudParams{&device_count, 100, &status, &points, bounds.data()},
                 {.blocks = 1, .threads = 32});
    const bool fits = given >= 0 && given <= 100;
    EXPECT_EQ(points, fits ? given : 0);
    EXPECT_EQ(status, fits ? 0 : kStatusPastCapacity);
    std::vector<i32> expected(kMaxFields, INT_MAX);
    expected.resize(2 * kMaxFields, INT_MIN);
    expected.push_back(poison<i32>());
    EXPECT_EQ(bounds, expected);
  }
  u32 status = 1;
  i32 points = 0;
  std::vector<i32> bounds(2 * kMaxFields);
  shim::launch(&begin_cloud<BeginCloudSpec{}>, BeginCloudParams{nullptr, 77, &status, &points, bounds.data()},
               {.blocks = 1, .threads = BeginCloudSpec{}.threads});
  EXPECT_EQ(points, 77);
  EXPECT_EQ(status, 0u);
}

/// What make_layout says of bounds, and the layout that it makes.
u32 layout_status_of(const std::array<i32, kMaxFields>& least, const std::array<i32, kMaxFields>& greatest,
                     i32 key_bits, bool found, i32 points, i32& points_left, CloudLayout& layout) {
  std::vector<i32> bounds(least.begin(), least.end());
  bounds.insert(bounds.end(), greatest.begin(), greatest.end());
  u32 status = found ? 0 : poison<u32>();
  points_left = found ? points : poison<i32>();
  MakeLayoutParams params{};
  params.cloud = {&points, 100, &status, &points_left, found ? bounds.data() : nullptr};
  if (!found) std::copy_n(least.begin(), kMaxFields, params.least);
  if (!found) std::copy_n(greatest.begin(), kMaxFields, params.greatest);
  std::fill_n(params.guard, kMaxDim, 3);
  std::fill_n(params.period, kMaxDim, 16);
  params.key_bits = key_bits;
  params.layout = &layout;
  shim::launch(&make_layout<MakeLayoutSpec{}>, params, {.blocks = 2, .threads = MakeLayoutSpec{}.threads});
  return status;
}

/// Limits are compared with the bounds that were found, where there are points.
TEST(MakeLayout, LimitsOfTheBounds) {
  const auto status_with = [](i32 field, i32 least, i32 greatest, i32 points) {
    std::vector<i32> bounds(2 * kMaxFields);
    bounds[static_cast<std::size_t>(field)] = least;
    bounds[static_cast<std::size_t>(kMaxFields + field)] = greatest;
    u32 status = 0;
    CloudLayout layout;
    MakeLayoutParams params{};
    params.cloud = {&points, 100, &status, &points, bounds.data()};
    params.has_limits = 1;
    for (i32 f = 0; f < kMaxFields; ++f) params.least[f] = f == 2 ? INT_MIN : 0, params.greatest[f] = 10 * f;
    std::fill_n(params.period, kMaxDim, 1);
    params.key_bits = 64;
    params.layout = &layout;
    shim::launch(&make_layout<MakeLayoutSpec{}>, params, {.blocks = 1, .threads = MakeLayoutSpec{}.threads});
    return status;
  };
  for (const i32 field : {0, 1, 2, 3}) {
    EXPECT_EQ(status_with(field, 0, 10 * field, 5), 0u);
    EXPECT_EQ(status_with(field, 0, 10 * field + 1, 5), kStatusOutOfBounds);
    EXPECT_EQ(status_with(field, 0, 10 * field + 1, 0), 0u);
  }
  EXPECT_EQ(status_with(1, -1, 0, 5), kStatusOutOfBounds);
  EXPECT_EQ(status_with(2, -1000, 0, 5), 0u);
}

TEST(MakeLayout, IsTheHostsWhereKeysHoldIt) {
  const std::array<i32, kMaxFields> least{0, -100, -7, 5}, greatest{3, 900, 80, 60};
  const i64 guard[] = {3, 3, 3, 3}, period[] = {16, 16, 16, 16};
  const CloudLayout expected = make_bounded_layout(3, least.data(), greatest.data(), guard, period);
  for (const bool found : {false, true}) {
    i32 points = 0;
    CloudLayout layout;
    EXPECT_EQ(layout_status_of(least, greatest, expected.keys.total_bits, found, 9, points, layout), 0u);
    EXPECT_EQ(points, 9);
    for (i32 f = 0; f < 4; ++f) {
      EXPECT_EQ(layout.keys.bias[f], expected.keys.bias[f]);
      EXPECT_EQ(layout.keys.shift[f], expected.keys.shift[f]);
      EXPECT_EQ(layout.keys.bits[f], expected.keys.bits[f]);
      EXPECT_EQ(layout.least[f], least[f]);
      EXPECT_EQ(layout.greatest[f], greatest[f]);
    }
    EXPECT_EQ(layout.keys.fields, 4);
    EXPECT_EQ(layout.keys.total_bits, expected.keys.total_bits);
    EXPECT_EQ(layout_status_of(least, greatest, expected.keys.total_bits - 1, found, 9, points, layout),
              kStatusKeyTooNarrow);
    EXPECT_EQ(points, 0) << "no later kernel packs";
    EXPECT_EQ(layout.keys.total_bits, 0);
  }
}

TEST(MakeLayout, SaysWhatTheCloudCannotHave) {
  i32 points = 0;
  CloudLayout layout;
  EXPECT_EQ(layout_status_of({-1, 0, 0, 0}, {0, 1, 1, 1}, 64, true, 9, points, layout), kStatusNegativeBatch);
  EXPECT_EQ(layout_status_of({0, INT_MIN, 0, 0}, {0, INT_MIN + 1, 1, 1}, 64, true, 9, points, layout), 0u);
  EXPECT_EQ(layout_status_of({0, INT_MAX, INT_MAX, INT_MAX}, {0, INT_MIN, INT_MIN, INT_MIN}, 32, true, 0,
                             points, layout),
            0u)
      << "a cloud of no points has no bounds";
  EXPECT_EQ(layout_status_of({}, {9, 9, 9, 9}, 64, false, 101, points, layout), kStatusPastCapacity);
  EXPECT_EQ(points, 0) << "more than there is room for";
}

template <KeyType K, i32 Ndim>
void expect_downsampled(i64 count, i32 stride, int variant) {
  using Key = typename KeyOf<K>::Type;
  Random random(60 + static_cast<u64>(count));
  const std::vector<Point> points =
      random_points(random, count, Ndim, 2, K == KeyType::U32 ? 17 : 900, false);
  const CloudLayout layout = layout_of(points, Ndim, 3, 12);
  const std::vector<Key> keys = keys_of<Key>(points, layout);
  std::vector<Key> floored = poisoned<Key>(count + kSlack);
  const i32 device_count = static_cast<i32>(count);
  DownsampleParams params{keys.data(), &device_count, &layout, {1, 1, 1, 1}, floored.data()};
  for (i32 a = 0; a < Ndim; ++a) params.stride[a] = a == 1 ? 1 : stride;  // a stride per axis
  constexpr DownsampleSpec kSpec{.key = K, .ndim = Ndim, .threads = 32};
  shim::launch(&downsample<kSpec>, params, shim::small_grid(variant, kSpec.threads));
  for (i64 i = 0; i < count; ++i) {
    Point back{};
    unpack_key<Key>(layout.keys, floored[i], back.data());
    EXPECT_EQ(back[0], points[i][0]);
    for (i32 a = 0; a < Ndim; ++a) {
      i32 expected = points[i][a + 1];
      while (expected % params.stride[a] != 0) --expected;
      EXPECT_EQ(back[a + 1], expected);
    }
  }
  for (i64 i = count; i < count + kSlack; ++i) EXPECT_EQ(floored[i], poison<Key>());
}
TEST(Downsample, FloorsEveryAxisByItsStride) {
  for (const i64 count : kCounts) {
    for (int variant = 0; variant < shim::kGridVariants; ++variant) {
      for (const i32 stride : {1, 2, 3, 4}) {
        expect_downsampled<KeyType::U32, 3>(count, stride, variant);
        expect_downsampled<KeyType::U64, 1>(count, stride, variant);
        expect_downsampled<KeyType::U64, 4>(count, stride, variant);
      }
    }
  }
}

}  // namespace
}  // namespace minuet
