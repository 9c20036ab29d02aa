#include "runtime/cuda/map_workspace.h"

#include <algorithm>

#include "runtime/cuda/launch_grid.h"
#include "runtime/engine/arena.h"

namespace minuet {
namespace {

constexpr i64 kBinsBytes = i64{kMaxRadixPasses} * kRadixBins * static_cast<i64>(sizeof(u32));
// Holds the padded size of SortState::next_tile and key_count in bytes.
constexpr i64 kTicketBytes = 256;
static_assert((kMaxRadixPasses + 1) * sizeof(u32) <= kTicketBytes);
constexpr i64 kTileBytes = i64{kRadixBins} * static_cast<i64>(sizeof(u32));

}  // namespace

MapWorkspace MapWorkspace::place(const MapChoice& choice, const MapLimits& limits, char* base, bool idle) {
  MapWorkspace work;
  Placement parts(base, idle);
  // Only sorted sets, and maps between them, need keys, rows, positions and borders.
  const i64 sorted = limits.sets > 0 ? limits.capacity : 0, keys = limits.sets > 0 ? limits.most_keys() : 0;
  for (int half = 0; half < 2; ++half) {
    work.keys[half] = parts.take<char>(keys * key_bytes(limits.key()));
    work.rows[half] = parts.take<u32>(sorted);
  }
  work.positions = parts.take<i32>(limits.sets > 0 ? keys + 1 : 0);

  const i64 blocks = source_blocks(sorted, choice.search_kernel_map.source_block);
  const i64 borders = limits.maps > 0 ? blocks * limits.max_volume : 0;
  work.borders = parts.take<i32>(borders);
  work.pieces = parts.take<i32>(borders);
  work.piece_starts = parts.take<i32>(borders + 1);

  // The workspace has room for both variants of the sort, with and without the caller's rows.
  work.sort_tiles = std::max(most_radix_tiles(choice.radix_pass_rows, limits.capacity),
                             most_radix_tiles(choice.radix_pass_keys, limits.most_keys()));
  const i32 passes = radix_passes(8 * key_bytes(limits.key()));
  work.sort_bytes = kBinsBytes + kTicketBytes + passes * work.sort_tiles * kTileBytes;
  work.sorts = parts.take<char>(limits.sets * work.sort_bytes);

  work.scan_count = limits.sets + 2 * limits.maps;
  work.scan_bytes = scan_state_bytes(choice.scan_heads, limits.most_keys());
  if (limits.maps > 0) {
    const i64 entries = limits.capacity * limits.max_volume;
    work.scan_bytes = std::max({work.scan_bytes, scan_state_bytes(choice.scan_hits, entries),
                                scan_state_bytes(choice.scan_values, borders)});
  }
  work.scans = parts.take<char>(work.scan_count * work.scan_bytes);
  work.bytes = parts.bytes();
  return work;
}

SortState MapWorkspace::sort_state(i32 index) const {
  char* base = sorts + index * sort_bytes;
  u32* const tickets = reinterpret_cast<u32*>(base + kBinsBytes);
  return {reinterpret_cast<u32*>(base), tickets, reinterpret_cast<u32*>(base + kBinsBytes + kTicketBytes),
          tickets + kMaxRadixPasses};
}

i64 map_workspace_bytes(const MapChoice& map32, const MapChoice& map64, const MapLimits& limits) {
  // The cloud may turn out to fit into 32-bit keys, whose kernels may have tiles of other sizes. The
  // workspace must be large enough in both cases.
  MapLimits narrow = limits;
  narrow.key_bits = 32;
  const MapChoice& wide = limits.key() == KeyType::U32 ? map32 : map64;
  return std::max(MapWorkspace::place(wide, limits, nullptr).bytes,
                  MapWorkspace::place(map32, narrow, nullptr).bytes);
}

}  // namespace minuet
