// This file finds the kernel offset that leads from a cell of a coarser level to a coordinate of the finer
// level inside the cell.
#pragma once

#include "kernels_templates/shared/key_layout.h"

namespace minuet {

static_assert(1 << kMaxDim <= 32, "one word has all places of a cell");

/// Returns the index of the kernel offset that leads from the coarser cell that contains a coordinate to the
/// coordinate, whose key is `key`. On each axis, the kernel must have the offsets 0 to n - 1, where the cell
/// has n steps of the finer level, and n is 1 or 2.
template <i32 Ndim, class Key>
MINUET_HD constexpr i32 parent_offset(const KeyLayout& layout, const KernelGeometry& geometry, Key key) {
  i32 offset = 0;
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a) {
    const u64 steps = divide_field(key_field(layout, key, a + 1), geometry.step[a]);
    const i32 size = geometry.kernel_size[a];
    offset = offset * size + static_cast<i32>(static_cast<u32>(steps) % static_cast<u32>(size));
  }
  return offset;
}

}  // namespace minuet
