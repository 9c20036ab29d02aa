// The kernel prepare_scans initialises the look-back states of scans. It sets tiles[scan][entry] to "out of
// bounds" for the padding before the first tile, and to "invalid" for the tiles. It also clears `zeros`, the
// state of the sorts. Each thread handles one word at a time.
//
// An entry is CUB's ScanTileState<i32> descriptor, with the status in the low word and the value in the high
// word. scan.h asserts that the constants here equal CUB's, so that this kernel compiles without CUB.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

constexpr u64 kScanTileOutOfBounds = 0;
constexpr u64 kScanTileInvalid = 99;

MINUET_HD constexpr u64 initial_scan_tile(i64 entry) {
  return entry < kScanPaddingTiles ? kScanTileOutOfBounds : kScanTileInvalid;
}

template <PrepareScansSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void prepare_scans(MINUET_PARAMS(PrepareScansParams) p) {
  follow_last_launch();
  static_assert(kScanTileBytes == sizeof(u64), "one word an entry");
  const i64 entries = p.stride_bytes / kScanTileBytes;
  const i64 stride = grid_threads(S.threads);
  RowIterator walk(grid_thread(S.threads), stride, entries);
  for (i64 i = grid_thread(S.threads); i < entries * p.scans; i += stride, walk.advance()) {
    static_cast<u64*>(p.tiles)[i] = initial_scan_tile(walk.inner());
  }
  for (i64 i = grid_thread(S.threads); i < p.zero_words; i += stride) p.zeros[i] = 0;
}

}  // namespace minuet
