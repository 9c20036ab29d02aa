#include "runtime/cuda/view_workspace.h"

#include <algorithm>

#include "runtime/cuda/launch_grid.h"
#include "runtime/engine/arena.h"

namespace minuet {
namespace {

constexpr i64 kMostSortedKeys = (i64{1} << 30) - 1;
constexpr i32 kRankPasses = radix_passes(kMostRankKeyBits);

}  // namespace

std::size_t view_batch(llvm::ArrayRef<ViewRequest> requests) {
  std::size_t views = 0;
  const std::size_t most = std::min<std::size_t>(requests.size(), kMostViews);
  const VoxelIndex* index = nullptr;
  for (i64 keys = 0; views < most; ++views) {
    const ViewRequest& request = requests[views];
    const bool looks_up = request.row_source() != RowSource::Table;
    const VoxelIndex* const own = looks_up ? request.map->index.index : nullptr;
    keys += request.output_coords().capacity;
    if (views > 0 && keys > kMostSortedKeys) break;
    if (index && own && own != index) break;
    if (own) index = own;
  }
  return views;
}

i64 ordered_capacity(llvm::ArrayRef<ViewRequest> batch) {
  i64 queries = 0;
  for (const ViewRequest& request : batch) queries += request.offsets ? request.output_coords().capacity : 0;
  return queries;
}

ViewWorkspace ViewWorkspace::place(const RadixPassChoice& pass, i64 capacity, char* base) {
  ViewWorkspace work;
  // Work of an earlier call may still use memory that lies in the gaps between the parts, so Placement must
  // not poison the gaps for AddressSanitizer (see ArenaLayout).
  Placement parts(base, /*idle=*/false);
  for (int half = 0; half < 2; ++half) {
    work.keys[half] = parts.take<u32>(capacity);
    work.rows[half] = parts.take<u32>(capacity);
  }
  work.key_count = parts.take<i32>(1);
  work.tiles = most_radix_tiles(pass, capacity);
  work.state_count = kRankPasses * (kRadixBins + 1 + work.tiles * kRadixBins);
  work.state_words = parts.take<u32>(work.state_count);
  work.bytes = parts.bytes();
  return work;
}

SortState ViewWorkspace::sort_state() const {
  u32* const lookback = state_words + kRankPasses * kRadixBins;
  return {state_words, lookback + kRankPasses * tiles * kRadixBins, lookback};
}

i64 view_workspace_bytes(const RadixPassChoice& pass, llvm::ArrayRef<ViewRequest> requests) {
  i64 bytes = 0;
  for (std::size_t views = 0; !requests.empty(); requests = requests.drop_front(views)) {
    views = view_batch(requests);
    const i64 capacity = ordered_capacity(requests.take_front(views));
    bytes = std::max(bytes, ViewWorkspace::place(pass, capacity, nullptr).bytes);
  }
  return bytes;
}

}  // namespace minuet
