#include "runtime/cuda/view_workspace.h"

#include <gtest/gtest.h>

#include "runtime/cuda/launch_grid.h"

namespace minuet {
namespace {

std::vector<ViewRequest> requests_of(std::size_t views, i64 capacity, const OffsetOrder* offsets) {
  static const MapView map;  // of no index
  ViewRequest request;
  request.map = &map;
  request.queries.capacity = capacity;
  request.sources.capacity = 7 * capacity;
  request.offsets = offsets;
  return std::vector<ViewRequest>(views, request);
}

TEST(ViewWorkspace, ABatchFitsATableAndASort) {
  const OffsetOrder offsets;
  const auto batch = [&](std::size_t views, i64 capacity) {
    return view_batch(requests_of(views, capacity, &offsets));
  };
  EXPECT_EQ(batch(0, 1), 0u);
  EXPECT_EQ(batch(1, 1), 1u);
  EXPECT_EQ(batch(kMostViews, 100), std::size_t{kMostViews});
  EXPECT_EQ(batch(kMostViews + 1, 0), std::size_t{kMostViews});
  EXPECT_EQ(batch(5, i64{1} << 28), 3u) << "fewer than 2^30 keys";
  EXPECT_EQ(batch(5, (i64{1} << 28) - 1), 4u);
  EXPECT_EQ(batch(2, (i64{1} << 30) - 1), 1u) << "never none";
}

TEST(ViewWorkspace, ABatchLooksRowsUpInOneIndex) {
  const OffsetOrder offsets;
  VoxelIndex indexes[2];
  MapView maps[2];
  for (int i = 0; i < 2; ++i) maps[i].index.index = &indexes[i];
  std::vector<ViewRequest> requests = requests_of(5, 10, &offsets);
  requests[1].map = requests[3].map = &maps[0];
  EXPECT_EQ(view_batch(requests), 5u);
  requests[3].map = &maps[1];
  EXPECT_EQ(view_batch(requests), 3u);
}

TEST(ViewWorkspace, CountsTheQueriesThatGetAnOrder) {
  const OffsetOrder offsets;
  std::vector<ViewRequest> requests = requests_of(4, 10, &offsets);
  requests[1].transposed = true;
  requests[3].offsets = nullptr;
  EXPECT_EQ(ordered_capacity(requests), 10 + 70 + 10);
}

TEST(ViewWorkspace, TheSortsStateIsOnePart) {
  const RadixPassChoice pass = choose_map(KeyType::U32, 3).rank_pass;
  for (const i64 capacity : {i64{1}, i64{30000}, kLargeSort - 1, kLargeSort, 3 * kLargeSort}) {
    std::vector<char> memory(static_cast<std::size_t>(ViewWorkspace::place(pass, capacity, nullptr).bytes));
    const ViewWorkspace work = ViewWorkspace::place(pass, capacity, memory.data());
    const SortState state = work.sort_state();
    const i64 lookback = radix_passes(kMostRankKeyBits) * work.tiles * kRadixBins;
    EXPECT_EQ(work.tiles, most_radix_tiles(pass, capacity));
    EXPECT_EQ(state.bins, work.state_words);
    EXPECT_EQ(state.lookback, state.bins + radix_passes(kMostRankKeyBits) * kRadixBins);
    EXPECT_EQ(state.next_tile, state.lookback + lookback);
    EXPECT_EQ(state.next_tile + radix_passes(kMostRankKeyBits), work.state_words + work.state_count);
    EXPECT_LE(reinterpret_cast<char*>(work.state_words + work.state_count), memory.data() + memory.size());
    EXPECT_GE(work.keys[1], work.keys[0] + capacity);
    EXPECT_GE(work.rows[1], work.rows[0] + capacity);
  }
}

/// A sort of fewer keys may have smaller tiles, and more of them.
TEST(ViewWorkspace, HoldsThatOfFewerQueries) {
  const RadixPassChoice pass = choose_map(KeyType::U32, 3).rank_pass;
  EXPECT_GE(ViewWorkspace::place(pass, kLargeSort, nullptr).bytes,
            ViewWorkspace::place(pass, kLargeSort - 1, nullptr).bytes);
}

}  // namespace
}  // namespace minuet
