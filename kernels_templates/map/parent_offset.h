// Which offset of a kernel leads from the cell of a coarser level to a coordinate that lies in it.
#pragma once

#include "kernels_templates/shared/key_layout.h"

namespace minuet {

static_assert(1 << kMaxDim <= 32, "one word has all places of a cell");

/// Of a kernel whose offsets are the places of a cell, from 0 on: one or two along an axis, as many as the
/// level's steps are in it.
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
