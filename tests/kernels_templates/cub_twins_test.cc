// The host twins of sort and scan against std::stable_sort and running sums; and that they notice memory that
// was not made ready, as a GPU would by hanging or by garbage.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/kernels_templates/twins.h"

namespace minuet {
namespace {

constexpr RadixPassSpec kPass32{.key = KeyType::U32, .threads = 32, .items_per_thread = 3};  // tiles of 96
constexpr RadixPassSpec kPass64{
    .key = KeyType::U64, .values = false, .threads = 512, .items_per_thread = 17};  // the default's 8704

/// `count` keys of which `kinds` are distinct, in an array of `capacity`: what lies behind must stay.
template <RadixPassSpec S>
void expect_sorted(i32 count, i32 capacity, u64 kinds, i32 begin_bit, i32 end_bit, shim::Order order) {
  using Key = typename KeyOf<S.key>::Type;
  SCOPED_TRACE("count " + std::to_string(count) + " of " + std::to_string(capacity) + ", bits " +
               std::to_string(begin_bit) + " to " + std::to_string(end_bit));
  Random random(700 + static_cast<u64>(count));
  SortBuffers<Key> buffers;
  std::vector<Key> some;
  for (u64 i = 0; i < kinds; ++i) some.push_back(static_cast<Key>(random.next()));
  for (i32 i = 0; i < capacity; ++i) {
    buffers.keys[0].push_back(some[random.below(kinds)]);
    buffers.rows[0].push_back(static_cast<u32>(i));
  }
  const Key mask = static_cast<Key>((~u64{0} >> (64 - (end_bit - begin_bit))) << begin_bit);
  std::vector<u32> expected(buffers.rows[0].begin(), buffers.rows[0].begin() + count);
  const std::vector<Key> keys = buffers.keys[0];
  std::stable_sort(expected.begin(), expected.end(),
                   [&](u32 a, u32 b) { return (keys[a] & mask) < (keys[b] & mask); });
  sort_by_twins<S>(buffers, count, begin_bit, end_bit, order);
  for (i32 i = 0; i < count; ++i) {
    ASSERT_EQ(buffers.keys[buffers.half][i], keys[expected[i]]) << "key " << i;
    if (S.values) {
      ASSERT_EQ(buffers.rows[buffers.half][i], expected[i]) << "row " << i;
    }
  }
  for (i32 i = count; i < capacity; ++i) ASSERT_EQ(buffers.keys[1][i], poison<Key>()) << "past the count";
}

TEST(CubTwins, SortIsStableSort) {
  int variant = 0;
  for (const i32 count : {0, 1, 95, 96, 97, 300}) {
    for (const i32 more : {0, 1, 200}) {
      const auto order = static_cast<shim::Order>(variant++ % 3);
      expect_sorted<kPass32>(count, count + more, 40, 0, 32, order);
      expect_sorted<kPass32>(count, count + more, 1000, 0, 11, order);
      expect_sorted<kPass32>(count, count + more, 1, 5, 19, order);
    }
  }
}

TEST(CubTwins, SortOfDefaultTiles) {
  expect_sorted<kPass64>(8705, 8706, 5000, 0, 64, shim::Order::Shuffled);
  expect_sorted<kPass64>(8704, 18000, 1u << 16, 3, 19, shim::Order::Ascending);
}

template <ScanInput Input, i32 Threads, i32 Items, class T, class Count>
void expect_scanned(const std::vector<T>& input, i32 count, i64 capacity, Count&& item, i32 volume = 1,
                    i32 divisor = 1, i32 least = 0) {
  SCOPED_TRACE("count " + std::to_string(count) + " of " + std::to_string(capacity));
  constexpr ScanSpec kSpec{.input = Input, .threads = Threads, .items_per_thread = Items};
  const i32 items = volume * std::max(least, (count + divisor - 1) / divisor);
  const auto order = static_cast<shim::Order>(count % 3);
  const std::vector<i32> output =
      scan_by_twin<kSpec>(input.data(), count, capacity, order, volume, divisor, least);
  i32 sum = 0;
  for (i32 i = 0; i <= items; ++i) {
    ASSERT_EQ(output[i], sum) << "item " << i;
    if (i < items) sum += item(i);
  }
  for (i64 i = items + 1; i <= capacity; ++i) ASSERT_EQ(output[i], poison<i32>()) << "past the items";
}

template <i32 Threads, i32 Items>
void expect_scans(i32 count, i32 more) {
  Random random(710 + static_cast<u64>(count));
  std::vector<u32> keys32;
  std::vector<u64> keys64;
  std::vector<i32> values;
  for (i32 i = 0; i < count + more; ++i) {
    values.push_back(static_cast<i32>(random.between(-3, 9)));
    keys32.push_back(static_cast<u32>(random.below(2)));
    keys64.push_back(random.below(2) << 40);
  }
  const i64 capacity = count + more;
  expect_scanned<ScanInput::Values, Threads, Items>(values, count, capacity,
                                                    [&](i32 i) { return values[i]; });
  expect_scanned<ScanInput::Hits, Threads, Items>(values, count, capacity,
                                                  [&](i32 i) { return values[i] >= 0; });
  expect_scanned<ScanInput::Heads32, Threads, Items>(
      keys32, count, capacity, [&](i32 i) { return i == 0 || keys32[i] != keys32[i - 1]; });
  expect_scanned<ScanInput::Heads64, Threads, Items>(
      keys64, count, capacity, [&](i32 i) { return i == 0 || keys64[i] != keys64[i - 1]; });
}

TEST(CubTwins, ScanIsRunningSums) {
  for (const i32 count : {0, 1, 63, 64, 65, 128, 400}) {
    for (const i32 more : {0, 1, 200}) expect_scans<16, 4>(count, more);
  }
  expect_scans<128, 16>(2047, 0);
  expect_scans<128, 16>(2048, 2048);
}

TEST(CubTwins, ScanOfSegments) {
  std::vector<i32> values(27 * 40);
  std::iota(values.begin(), values.end(), -100);
  const auto item = [&](i32 i) { return values[i]; };
  expect_scanned<ScanInput::Values, 16, 4>(values, 40, 27 * 40, item, 27);
  expect_scanned<ScanInput::Values, 16, 4>(values, 100, 27 * 40, item, 27, 16);
  expect_scanned<ScanInput::Values, 16, 4>(values, 0, 27 * 40, item, 27, 16, 1);
}

TEST(CubTwins, ScanInPlace) {
  constexpr ScanSpec kSpec{.threads = 16, .items_per_thread = 4};
  std::vector<i32> values(301, 2);
  std::vector<u64> tiles(static_cast<std::size_t>(scan_state_bytes(kSpec, 300) / kScanTileBytes));
  for (std::size_t i = 0; i < tiles.size(); ++i) tiles[i] = initial_scan_tile(static_cast<i64>(i));
  const i32 count = 300;
  shim::launch(&scan<kSpec>, ScanParams{values.data(), &count, 1, 1, 0, values.data(), tiles.data()},
               {.blocks = static_cast<i32>(scan_tiles(kSpec, 300)), .threads = 16});
  for (i32 i = 0; i <= 300; ++i) ASSERT_EQ(values[i], 2 * i);
}

// ---- memory that is not ready ------------------------------------------------------------------

struct PassMemory {
  std::vector<u32> keys = std::vector<u32>(200, 7), out = keys, rows = keys, rows_out = keys;
  std::vector<u32> bins = std::vector<u32>(kRadixBins, 0), lookback = std::vector<u32>(3 * kRadixBins, 0);
  u32 next_tile = 0;

  void run() {
    const i32 count = 200;
    const RadixPassParams params{&count,     bins.data(), lookback.data(), &next_tile,      keys.data(),
                                 out.data(), rows.data(), rows_out.data(), 0 /* of bits */, 8};
    shim::launch(&radix_pass<kPass32>, params, {.blocks = 3, .threads = kPass32.threads});
  }
};

TEST(CubTwinsDeathTest, APassWantsItsMemoryPreset) {
  PassMemory ready;
  ready.run();
  EXPECT_DEATH(
      {
        PassMemory memory;
        memory.lookback[2 * kRadixBins + 7] = 0xcdcdcdcd;
        memory.run();
      },
      "lookback is not preset to 0");
  EXPECT_DEATH(
      {
        PassMemory memory;
        memory.next_tile = 1;
        memory.run();
      },
      "left no sum in lookback");
  EXPECT_DEATH(
      {
        PassMemory memory;
        memory.next_tile = 0xcdcdcdcd;
        memory.run();
      },
      "next_tile is not preset to 0");
}

void run_scan(i64 unready_tile, u64 state) {
  constexpr ScanSpec kSpec{.threads = 16, .items_per_thread = 4};
  const std::vector<i32> values(200, 1);
  std::vector<i32> output(201);
  std::vector<u64> tiles(static_cast<std::size_t>(scan_state_bytes(kSpec, 200) / kScanTileBytes));
  for (std::size_t i = 0; i < tiles.size(); ++i) tiles[i] = initial_scan_tile(static_cast<i64>(i));
  tiles[static_cast<std::size_t>(kScanPaddingTiles + unready_tile)] = state;
  const i32 count = 200;
  shim::launch(&scan<kSpec>, ScanParams{values.data(), &count, 1, 1, 0, output.data(), tiles.data()},
               {.blocks = 4, .threads = 16});
}

TEST(CubTwinsDeathTest, AScanWantsItsStatePrepared) {
  run_scan(3, kScanTileInvalid);
  EXPECT_DEATH(run_scan(3, 0), "the state of a tile is not what prepare_scans leaves");
  EXPECT_DEATH(run_scan(-1, kScanTileInvalid), "the padding of the state is not what prepare_scans leaves");
}

}  // namespace
}  // namespace minuet
