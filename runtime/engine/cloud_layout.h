// Computes the layout of packed coordinate keys (key_layout.h) from the bounds of a point cloud.
#pragma once

#include <algorithm>
#include <climits>

#include "codegen/base/error.h"
#include "codegen/choose/problem.h"

namespace minuet {

/// Limits the number of coordinates of one set, because the radix sort counts in 30 bits.
constexpr i64 kMaxCoordinates = (i64{1} << 30) - 1;

constexpr i32 kMostKeyBits = 64;

/// Holds the least and the greatest coordinate of each field. The first field is the batch index, and the
/// others are the spatial axes.
struct Bounds {
  i32 least[kMaxFields] = {};
  i32 greatest[kMaxFields] = {};
};
inline constexpr i64 kBoundsWords = 2 * kMaxFields;

/// Returns InvalidArgument if a batch index is negative, and OutOfRange if a coordinate of an axis, rounded
/// down to a multiple of `multiple[axis]`, does not fit into 32 bits.
llvm::Error check_least(i32 ndim, const Bounds& bounds, const i64* multiple);
/// Returns OutOfRange if keys with bits[f] bits for field f, which the error lists, have more than
/// kMostKeyBits in all.
llvm::Error check_key_bits(i32 ndim, const Bounds& bounds, const i32* bits);

/// Returns the key layout for coordinates inside `bounds`. `guard` and `period` have one element per axis and
/// are explained in key_layout.h. Returns OutOfRange if a key needs more than 64 bits, or if a coordinate
/// that is rounded down to a multiple of its period does not fit into 32 bits. Returns InvalidArgument if a
/// batch index is negative.
llvm::Expected<KeyLayout> make_cloud_layout(i32 ndim, const Bounds& bounds, const i64* guard,
                                            const i64* period);

/// Reads the bounds from the words of CloudState::bounds.
inline Bounds read_bounds(const i32* words) {
  Bounds bounds;
  std::copy_n(words, kMaxFields, bounds.least);
  std::copy_n(words + kMaxFields, kMaxFields, bounds.greatest);
  return bounds;
}

/// Returns the number of bits of the layout's keys, rounded up to whole digits of the radix sort.
i32 rounded_key_bits(const KeyLayout& layout);

/// Estimates how many key bits the next cloud needs, before its bounds are known. The coordinate sets of a
/// cloud that needs more bits than estimated are built twice. The estimate therefore grows at once, but
/// shrinks only after several clouds in a row needed fewer bits, so that the sets are not built twice
/// whenever a large cloud follows a small one.
class KeyBits {
 public:
  /// Returns the estimate, or 0 before the first call of note().
  i32 bits() const { return bits_; }
  void note(i32 needed);

  /// Says after how many clouds in a row that needed fewer bits the estimate shrinks.
  static constexpr i32 kPatience = 16;

 private:
  i32 bits_ = 0;
  /// `fewer_` counts the latest clouds in a row that needed fewer bits than the estimate. `most_of_fewer_` is
  /// the largest number of bits that one of these clouds needed.
  i32 fewer_ = 0, most_of_fewer_ = 0;
};

/// Returns the bounds that a caller declares. Returns InvalidArgument if the least coordinate of a field is
/// greater than the greatest one.
llvm::Expected<Bounds> declared_bounds(i32 ndim, const i32* least, const i32* greatest);

llvm::Error check_coordinate_count(i64 count);

/// Returns the error that the status word of a CloudState reports, if any.
llvm::Error check_coordinate_status(u32 status);

/// Returns InvalidArgument if only `unique` of `count` coordinates are unique, unless keep_first_duplicate is
/// set.
llvm::Error check_duplicates(i64 unique, i64 count, bool keep_first_duplicate);

/// Returns the maximum number of rows on the coarser side of a kernel map with `volume` offsets. The map has
/// volume * rows entries, and their number plus one must fit into 31 bits.
constexpr i64 most_map_rows(i64 volume) { return INT_MAX / volume - 1; }

/// Returns OutOfRange if `count` coordinates are too many for one cloud when the largest kernel has `volume`
/// offsets.
llvm::Error check_cloud_rows(i64 count, i64 volume);

}  // namespace minuet
