// The layout of a Map step's scratch memory. The same arithmetic measures and places it.
#pragma once

#include "codegen/choose/choice.h"
#include "kernels_templates/shared/cell_index.h"
#include "runtime/engine/engine.h"

namespace minuet {

/// The state of one radix sort. All states of a Map step are zeroed together.
struct SortState {
  u32* bins = nullptr;       // [kMaxRadixPasses][kRadixBins]
  u32* next_tile = nullptr;  // [kMaxRadixPasses]
  u32* lookback = nullptr;   // [passes][tiles][kRadixBins]
};

struct MapWorkspace {
  // Sorting: both halves of the ping-pong buffers, and the scan of the first of equal keys.
  void* keys[2] = {};
  u32* rows[2] = {};
  i32* positions = nullptr;  // [capacity + 1]
  // Searching: [max_volume][source blocks], reused for each map.
  i32* borders = nullptr;
  i32* pieces = nullptr;
  i32* piece_starts = nullptr;  // one more
  // One sort state per set; one scan state per set and two per map.
  char* sorts = nullptr;
  i64 sort_bytes = 0;  // of one state
  i64 sort_tiles = 0;
  char* scans = nullptr;
  i64 scan_bytes = 0;  // of one state
  i32 scan_count = 0;
  i64 bytes = 0;

  /// Places the parts at `base`; with a null base only the sizes are set. `idle` is true if no enqueued work
  /// still uses the memory (ArenaLayout).
  static MapWorkspace place(const MapChoice& choice, const MapLimits& limits, char* base, bool idle = true);
  SortState sort_state(i32 index) const;
};

}  // namespace minuet
