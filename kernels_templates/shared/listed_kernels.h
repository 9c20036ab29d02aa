// This file has the Specs and Params of the kernels that search kernel maps whose offsets are not those of a
// box but a list (WindowProblem::offsets). One launch searches a part of the list, which is one of its
// Params, so that the list needs no memory on the device.
#pragma once

#include "kernels_templates/shared/key_layout.h"
#include "kernels_templates/shared/map_kernels.h"
#include "kernels_templates/shared/voxel_index.h"

namespace minuet {

/// Limits the number of offsets per launch. It is a multiple of 32, the number of offsets of a mask's word.
constexpr i32 kMostListedOffsets = 64;

/// Holds the part of a list of offsets that one launch searches.
struct ListedOffsets {
  i32 first;  // Gives the number of the part's first offset in the list, a multiple of kMostListedOffsets.
  i32 count;
  i32 at[kMostListedOffsets][kMaxDim];  // Gives the offsets in cells of the finest grid.
};

/// Returns an offset as a number to add to a key of type Key, modulo 2^n for keys of n bits.
template <class Key>
MINUET_HD constexpr Key listed_key(const KeyLayout& layout, const i32* offset) {
  u64 delta = 0;
  MINUET_UNROLL
  for (i32 f = 1; f < layout.fields; ++f)
    delta += static_cast<u64>(static_cast<i64>(offset[f - 1])) << layout.shift[f];
  return static_cast<Key>(delta);
}

/// The kernel search_listed_keys finds, in sorted keys, the source row of each query at each offset.
struct SearchListedKeysSpec {
  KeyType key = KeyType::U32;
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("key", key), visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct SearchListedKeysParams {
  const void* source_keys;
  const i32* source_count;
  const void* query_keys;
  const i32* query_count;
  const CloudLayout* layout;
  /// Has the shape [volume][queries]. Every entry of the offsets of this launch becomes the source row or -1.
  i32* map;
  ListedOffsets offsets;
};

/// The kernel search_listed_voxels finds, in an index, the source row of each query at each offset. It also
/// makes the masks of the queries and, optionally, counts the pairs.
struct SearchListedVoxelsSpec {
  i32 ndim = 3;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct SearchListedVoxelsParams {
  VoxelSearch search;  // Has neither children nor parents, and its geometry is that of make_geometry().
  ListedOffsets offsets;
};

}  // namespace minuet
