// Divides the scratch memory of a Map step into parts. The same function measures the memory and places the
// parts.
#pragma once

#include "codegen/choose/choice.h"
#include "runtime/engine/engine.h"

namespace minuet {

/// Holds the state of one radix sort. One launch sets all states of a Map step to zero.
struct SortState {
  /// Holds digit counts of shape [kMaxRadixPasses][kRadixBins].
  u32* bins = nullptr;
  /// Holds the number of the next tile of each pass, in shape [kMaxRadixPasses].
  u32* next_tile = nullptr;
  /// Holds the tiles' states for the look-back of each pass, in shape [passes][tiles][kRadixBins].
  u32* lookback = nullptr;
  /// Holds the number of keys to sort, if a kernel counts them.
  u32* key_count = nullptr;
};

struct MapWorkspace {
  // A sort alternates between the two buffers of `keys` and of `rows`. Then a scan writes `positions`, which
  // number the distinct keys.
  void* keys[2] = {};
  u32* rows[2] = {};
  i32* positions = nullptr;  // Has the shape [capacity + 1].
  // The search for a kernel map uses the following three arrays of shape [max_volume][source blocks]. The
  // search for the next map uses them again.
  i32* borders = nullptr;
  i32* pieces = nullptr;
  i32* piece_starts = nullptr;  // Has one more element for the total.
  // Each coordinate set has one sort state and one scan state. Each kernel map has two scan states.
  char* sorts = nullptr;
  i64 sort_bytes = 0;  // This is the size of one sort state in bytes.
  i64 sort_tiles = 0;
  char* scans = nullptr;
  i64 scan_bytes = 0;  // This is the size of one scan state in bytes.
  i32 scan_count = 0;
  i64 bytes = 0;

  /// Places the parts at `base`. If `base` is null, this only sets the sizes. `idle` is true if no enqueued
  /// work still uses the memory (see ArenaLayout).
  static MapWorkspace place(const MapChoice& choice, const MapLimits& limits, char* base, bool idle = true);
  SortState sort_state(i32 index) const;
};

/// Returns MapOperations::workspace_bytes() of an engine with these kernels for keys of 32 and of 64 bits.
i64 map_workspace_bytes(const MapChoice& map32, const MapChoice& map64, const MapLimits& limits);

}  // namespace minuet
