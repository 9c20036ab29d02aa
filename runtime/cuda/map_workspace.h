// Where the scratch memory of a Map step lies: measured, and placed, by the same arithmetic.
#pragma once

#include "codegen/choose/choice.h"
#include "kernels_templates/shared/cell_index.h"
#include "runtime/engine/engine.h"

namespace minuet {

/// The state of one radix sort; all of them together are zeroed by one fill.
struct SortState {
  u32* bins = nullptr;       // [kMaxRadixPasses][kRadixBins]
  u32* next_tile = nullptr;  // [kMaxRadixPasses]
  u32* lookback = nullptr;   // [passes][tiles][kRadixBins]
};

struct MapWorkspace {
  // Sorting: two halves of the ping-pong, and what the scan of the heads gives.
  void* keys[2] = {};
  u32* rows[2] = {};
  i32* positions = nullptr;  // [capacity + 1]
  // Searching: [max_volume][source blocks], reused by each map.
  i32* borders = nullptr;
  i32* pieces = nullptr;
  i32* piece_starts = nullptr;  // one more
  // One sort state a set, one scan state a set and two a map.
  char* sorts = nullptr;
  i64 sort_bytes = 0;  // of one state
  i64 sort_tiles = 0;
  char* scans = nullptr;
  i64 scan_bytes = 0;  // of one state
  i32 scan_count = 0;
  i64 bytes = 0;

  /// Parts at `base`, or, with a null base, only sizes. `idle`: nothing works there any more (ArenaLayout).
  static MapWorkspace place(const MapChoice& choice, const MapLimits& limits, char* base, bool idle = true);
  SortState sort_state(i32 index) const;
};

}  // namespace minuet
