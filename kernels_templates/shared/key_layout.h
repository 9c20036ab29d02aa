// This file packs coordinates (batch, x, y, z, ...) into one integer that sorts like the coordinates.
//
// Field f of a key holds coordinate - bias[f] in bits[f] bits, of which the lowest is bit shift[f] of the
// key. The batch is field 0, in the highest bits. The bias and the field's width leave `guard` free cells
// below the least and above the greatest coordinate. Adding any kernel offset therefore neither borrows from
// nor carries into a neighbouring field. The bias is a multiple of `period`, so that flooring a field to a
// stride also floors the coordinate, even a negative one.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

struct KeyLayout {
  i64 bias[kMaxFields] = {};
  i32 shift[kMaxFields] = {};
  i32 bits[kMaxFields] = {};
  /// Gives the greatest number that each field holds, including the free cells above the coordinates.
  i64 span[kMaxFields] = {};
  i32 fields = 0;      // Gives the number of fields of a key, which is 1 + ndim.
  i32 total_bits = 0;  // Keys use bits [0, total_bits). A layout of more than 64 bits is unusable.
};

/// Returns the narrower key type that holds this many bits.
MINUET_HD constexpr KeyType key_type_of(i32 bits) { return bits <= 32 ? KeyType::U32 : KeyType::U64; }

/// Returns the layout with a compile-time field count, so that loops over fields unroll.
template <i32 Ndim>
MINUET_HD constexpr KeyLayout with_ndim(KeyLayout layout) {
  layout.fields = Ndim + 1;
  return layout;
}

MINUET_HD constexpr i64 floor_to_multiple(i64 value, i64 step) {
  // Most steps are powers of two. A mask then replaces the 64-bit division, which is slow on a device.
  if ((step & (step - 1)) == 0) return value & -step;
  const i64 remainder = value % step;
  return value - (remainder < 0 ? remainder + step : remainder);
}

MINUET_HD constexpr i32 bit_width_of(u64 value) {
  i32 width = 0;
  for (; value != 0; value >>= 1) ++width;
  return width;
}

/// Returns the base-2 logarithm of a positive number, or -1 if the number is not a power of two.
MINUET_HD constexpr i32 log2_or_none(i32 number) {
  const i32 power = bit_width_of(static_cast<u64>(number)) - 1;
  return number == 1 << power ? power : -1;
}

/// Returns the narrowest layout for coordinates in [least, greatest], which have 1 + ndim fields, batch
/// first. On spatial axis a, guard[a] cells stay free on both sides, and the bias is a multiple of period[a],
/// which must be at least 1. The caller must check that total_bits is at most 64.
MINUET_HD constexpr KeyLayout make_key_layout(i32 ndim, const i32* least, const i32* greatest,
                                              const i64* guard, const i64* period) {
  KeyLayout layout;
  layout.fields = ndim + 1;
  for (i32 f = ndim; f >= 0; --f) {
    const i64 step = f == 0 ? 1 : period[f - 1];
    const i64 margin = f == 0 ? 0 : guard[f - 1];
    layout.bias[f] = f == 0 ? 0 : floor_to_multiple(floor_to_multiple(least[f], step) - margin, step);
    const i64 span = static_cast<i64>(greatest[f]) - layout.bias[f] + margin;
    layout.span[f] = span < 0 ? 0 : span;
    layout.bits[f] = bit_width_of(static_cast<u64>(layout.span[f]));
    layout.shift[f] = layout.total_bits;
    layout.total_bits += layout.bits[f];
  }
  // A field of 0 bits may begin at bit 64. Its shift becomes 0, because a shift by 64 bits is undefined.
  for (i32 f = 0; f <= ndim; ++f) {
    if (layout.bits[f] == 0) layout.shift[f] = 0;
  }
  return layout;
}

/// Holds a cloud's layout and the bounds that it was made for. The kernel make_layout writes it to device
/// memory.
struct CloudLayout {
  KeyLayout keys;
  i32 least[kMaxFields] = {};
  i32 greatest[kMaxFields] = {};
};

/// Returns the layout of make_key_layout() together with the bounds.
MINUET_HD constexpr CloudLayout make_bounded_layout(i32 ndim, const i32* least, const i32* greatest,
                                                    const i64* guard, const i64* period) {
  CloudLayout cloud;
  for (i32 f = 0; f <= ndim; ++f) {
    cloud.least[f] = least[f];
    cloud.greatest[f] = greatest[f];
  }
  cloud.keys = make_key_layout(ndim, least, greatest, guard, period);
  return cloud;
}

template <class Key>
MINUET_HD constexpr Key pack_key(const KeyLayout& layout, const i32* coordinate) {
  u64 key = 0;
  MINUET_UNROLL
  for (i32 f = 0; f < layout.fields; ++f) {
    key |= static_cast<u64>(coordinate[f] - layout.bias[f]) << layout.shift[f];
  }
  return static_cast<Key>(key);
}

MINUET_HD constexpr u64 key_field(const KeyLayout& layout, u64 key, i32 f) {
  if (layout.bits[f] == 0) return 0;
  const u64 mask = layout.bits[f] >= 64 ? ~0ull : (1ull << layout.bits[f]) - 1;
  return (key >> layout.shift[f]) & mask;
}

template <class Key>
MINUET_HD constexpr void unpack_key(const KeyLayout& layout, Key key, i32* coordinate) {
  MINUET_UNROLL
  for (i32 f = 0; f < layout.fields; ++f) {
    coordinate[f] = static_cast<i32>(static_cast<i64>(key_field(layout, key, f)) + layout.bias[f]);
  }
}

/// Returns field / stride. Few fields exceed 32 bits, and a 64-bit division is several times slower on a
/// device.
MINUET_HD constexpr u64 divide_field(u64 field, i32 stride) {
  return (field >> 32) == 0 ? static_cast<u32>(field) / static_cast<u32>(stride)
                            : field / static_cast<u64>(stride);
}

/// Returns the key of the coordinate rounded down to a multiple of the stride on every spatial axis.
/// stride[a] must divide period[a] of make_key_layout().
template <class Key>
MINUET_HD constexpr Key floor_key(const KeyLayout& layout, Key key, const i32* stride) {
  u64 floored = key;
  MINUET_UNROLL
  for (i32 f = 1; f < layout.fields; ++f) {
    const u64 field = key_field(layout, key, f);
    const u64 remainder = field - divide_field(field, stride[f - 1]) * static_cast<u64>(stride[f - 1]);
    floored -= remainder << layout.shift[f];
  }
  return static_cast<Key>(floored);
}

/// Describes the offsets of one kernel. Index k runs over the axes with the last axis fastest, so that the
/// keys of the offsets ascend, and queries plus one offset are sorted (Minuet paper, section 5.1.1).
struct KernelGeometry {
  i32 kernel_size[kMaxDim] = {1, 1, 1, 1};
  /// Gives, per axis, the dilation times the tensor stride of the finer of the two coordinate sets.
  i32 step[kMaxDim] = {1, 1, 1, 1};
  /// Gives, per axis, the offset of index 0, in cells of the finest grid. make_geometry() in
  /// codegen/choose/problem.h computes it.
  i32 origin[kMaxDim] = {};
  i32 ndim = 3;
  i32 volume = 1;  // Gives the product of kernel_size over the axes.
};

/// Returns the geometry with a compile-time dimension, so that loops over axes unroll.
template <i32 Ndim>
MINUET_HD constexpr KernelGeometry with_ndim(KernelGeometry geometry) {
  geometry.ndim = Ndim;
  return geometry;
}

/// Returns the offset of index `i` on an axis, in cells of the finest grid.
MINUET_HD constexpr i64 axis_offset(const KernelGeometry& geometry, i32 axis, i32 i) {
  return geometry.origin[axis] + static_cast<i64>(i) * geometry.step[axis];
}

/// Returns the offset of index 0 on an axis, in steps, of a kernel that is centred: offsets run from
/// -(kernel_size - 1) / 2 to kernel_size / 2.
MINUET_HD constexpr i32 centred_origin(i32 kernel_size) { return -((kernel_size - 1) / 2); }

/// Returns the largest distance that an offset reaches on an axis, which is the number of free cells
/// (`guard`) that the key layout needs around the coordinates.
MINUET_HD constexpr i64 axis_reach(const KernelGeometry& geometry, i32 axis) {
  const i64 first = axis_offset(geometry, axis, 0),
            last = axis_offset(geometry, axis, geometry.kernel_size[axis] - 1);
  const i64 below = first < 0 ? -first : first, above = last < 0 ? -last : last;
  return below > above ? below : above;
}

/// Returns offset k as a number to add to a key of type Key, modulo 2^n for keys of n bits.
template <class Key>
MINUET_HD constexpr Key offset_key(const KeyLayout& layout, const KernelGeometry& geometry, i32 k) {
  u64 delta = 0;
  MINUET_UNROLL
  for (i32 a = geometry.ndim - 1; a >= 0; --a) {
    const i64 offset = axis_offset(geometry, a, k % geometry.kernel_size[a]);
    delta += static_cast<u64>(offset) << layout.shift[a + 1];
    k /= geometry.kernel_size[a];
  }
  return static_cast<Key>(delta);
}

}  // namespace minuet
