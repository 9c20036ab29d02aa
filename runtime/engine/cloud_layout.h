// Computes the layout of packed keys from the bounds of a cloud.
#pragma once

#include <algorithm>
#include <climits>

#include "codegen/base/error.h"
#include "codegen/choose/problem.h"

namespace minuet {

/// Limits the number of coordinates of one set, because the radix sort counts in 30 bits.
constexpr i64 kMaxCoordinates = (i64{1} << 30) - 1;

constexpr i32 kMostKeyBits = 64;

/// Holds the least and the greatest coordinate of each field. The first field is the batch index.
struct Bounds {
  i32 least[kMaxFields] = {};
  i32 greatest[kMaxFields] = {};
};
inline constexpr i64 kBoundsWords = 2 * kMaxFields;

/// Returns the key layout for coordinates inside `bounds`, with the guard and the period of each axis that
/// make_key_layout() describes. Returns OutOfRange if a key needs more than 64 bits, or if a coordinate of a
/// coarser level does not fit 32 bits. Returns InvalidArgument if a batch index is negative.
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

/// Estimates the key bits of the next cloud before they are known. A cloud that needs more bits than
/// estimated is built twice. The estimate therefore grows at once, but shrinks only after several clouds in a
/// row needed fewer bits, so that alternating small and large clouds are built once each.
class KeyBits {
 public:
  /// Returns 0 if no cloud has been noted yet.
  i32 bits() const { return bits_; }
  void note(i32 needed);

  /// Says after how many clouds in a row that needed fewer bits the estimate shrinks.
  static constexpr i32 kPatience = 16;

 private:
  i32 bits_ = 0;
  /// These numbers count the latest clouds in a row that needed fewer bits, and hold the most bits that one
  /// of those clouds needed.
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

/// Returns the most rows that the query side of a kernel map of `volume` offsets may have, because the number
/// of the map's entries plus one must fit into 31 bits.
constexpr i64 most_map_rows(i64 volume) { return INT_MAX / volume - 1; }

/// Returns OutOfRange if `count` coordinates are too many for one cloud when the largest kernel has `volume`
/// offsets.
llvm::Error check_cloud_rows(i64 count, i64 volume);

}  // namespace minuet
