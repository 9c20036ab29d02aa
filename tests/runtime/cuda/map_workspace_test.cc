#include "runtime/cuda/map_workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "runtime/cuda/launch_grid.h"

namespace minuet {
namespace {

struct Part {
  const void* start;
  i64 bytes;
};

std::vector<Part> parts_of(const MapWorkspace& work, const MapLimits& limits, i64 borders) {
  const i64 key = key_bytes(limits.key());
  std::vector<Part> parts{{work.keys[0], limits.capacity * key},
                          {work.keys[1], limits.capacity * key},
                          {work.rows[0], limits.capacity * 4},
                          {work.rows[1], limits.capacity * 4},
                          {work.positions, (limits.capacity + 1) * 4},
                          {work.borders, borders * 4},
                          {work.pieces, borders * 4},
                          {work.piece_starts, (borders + 1) * 4},
                          {work.scans, work.scan_count * work.scan_bytes}};
  const i32 passes = radix_passes(8 * key_bytes(limits.key()));
  for (i32 i = 0; i < limits.sets; ++i) {
    const SortState state = work.sort_state(i);
    parts.push_back({state.bins, i64{kMaxRadixPasses} * kRadixBins * 4});
    parts.push_back({state.next_tile, kMaxRadixPasses * 4});
    parts.push_back({state.lookback, passes * work.sort_tiles * kRadixBins * 4});
  }
  return parts;
}

void check(const MapLimits& limits) {
  const MapChoice choice = choose_map(limits.key(), 3, {64, 128, 64});
  std::vector<char> memory(MapWorkspace::place(choice, limits, nullptr).bytes);
  const MapWorkspace work = MapWorkspace::place(choice, limits, memory.data());
  const i64 borders = limits.maps > 0 ? source_blocks(limits.capacity, 64) * limits.max_volume : 0;
  std::vector<Part> parts = parts_of(work, limits, borders);
  // Empty parts share their address with the next one.
  parts.erase(std::remove_if(parts.begin(), parts.end(), [](const Part& part) { return part.bytes == 0; }),
              parts.end());
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.start < b.start; });
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const char* start = static_cast<const char*>(parts[i].start);
    EXPECT_GE(start, memory.data());
    const char* end =
        i + 1 < parts.size() ? static_cast<const char*>(parts[i + 1].start) : memory.data() + memory.size();
    EXPECT_LE(start + parts[i].bytes, end) << "part " << i;
  }
  // One fill zeroes all sort states: they are one range of words.
  EXPECT_EQ(work.sort_bytes % 4, 0);
  EXPECT_GE(work.scan_bytes, scan_state_bytes(choice.scan_heads, limits.capacity));
  if (limits.maps > 0) {
    EXPECT_GE(work.scan_bytes, scan_state_bytes(choice.scan_hits, limits.capacity * limits.max_volume));
    EXPECT_GE(work.scan_bytes, scan_state_bytes(choice.scan_values, borders));
  }
}

TEST(MapWorkspace, PartsDoNotOverlap) {
  for (KeyType key : {KeyType::U32, KeyType::U64}) {
    for (i64 capacity : {0, 1, 31, 3072, 3073, 20000}) {
      check({8 * key_bytes(key), capacity, 1, 0, 1});
      check({8 * key_bytes(key), capacity, 2, 1, 27});
      check({8 * key_bytes(key), capacity, 5, 9, 125});
    }
  }
}

}  // namespace
}  // namespace minuet
