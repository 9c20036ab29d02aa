// This file finds the offset of a kernel that leads from a cell of a coarser level to a coordinate inside the
// cell.
#pragma once

#include "kernels_templates/shared/key_layout.h"

namespace minuet {

static_assert(1 << kMaxDim <= 32, "one word has all places of a cell");

/// Returns the offset of a key in its parent's cell. The kernel's offsets must be the places in the cell,
/// counted from 0. On each axis there are one or two, as many as the cell has steps of the finer level.
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
