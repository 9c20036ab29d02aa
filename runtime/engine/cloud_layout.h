// Computes the layout of packed keys from the bounds of a cloud.
#pragma once

#include <algorithm>
#include <climits>

#include "codegen/base/error.h"
#include "codegen/choose/problem.h"

namespace minuet {

/// Most coordinates of one set; the radix sort counts in 30 bits.
constexpr i64 kMaxCoordinates = (i64{1} << 30) - 1;

constexpr i32 kMostKeyBits = 64;

/// Least and greatest coordinate of each field; the first field is the batch.
struct Bounds {
  i32 least[kMaxFields] = {};
  i32 greatest[kMaxFields] = {};
};
inline constexpr i64 kBoundsWords = 2 * kMaxFields;

/// Returns the key layout for coordinates inside `bounds`. Returns OutOfRange if a key needs more than 64
/// bits, or if a coordinate of a coarser level does not fit 32 bits; InvalidArgument for a negative batch
/// index.
llvm::Expected<KeyLayout> make_cloud_layout(i32 ndim, const Bounds& bounds, const i64* guard,
                                            const i64* period);

/// Reads the words of CloudState::bounds.
inline Bounds read_bounds(const i32* words) {
  Bounds bounds;
  std::copy_n(words, kMaxFields, bounds.least);
  std::copy_n(words + kMaxFields, kMaxFields, bounds.greatest);
  return bounds;
}

/// Returns the bits of the layout's keys, rounded up to whole digits of the radix sort.
i32 rounded_key_bits(const KeyLayout& layout);

/// Estimates the key bits of the next cloud, before the device knows them. The estimate grows at once, and
/// shrinks only after several clouds in a row needed less, so that alternating small and large clouds are
/// built once each.
class KeyBits {
 public:
  /// Returns 0 if no cloud has been noted yet.
  i32 bits() const { return bits_; }
  void note(i32 needed);

  static constexpr i32 kPatience = 16;  // clouds in a row

 private:
  i32 bits_ = 0;
  i32 fewer_ = 0, most_of_fewer_ = 0;  // clouds in a row that needed fewer bits, and the most bits among them
};

/// Returns the bounds that a caller declares. Returns InvalidArgument if the bounds of a field are empty.
llvm::Expected<Bounds> declared_bounds(i32 ndim, const i32* least, const i32* greatest);

llvm::Error check_coordinate_count(i64 count);

/// Returns the error that the status word of a CloudState reports, if any.
llvm::Error check_coordinate_status(u32 status);

/// Returns InvalidArgument if only `unique` of `count` coordinates are unique, unless keep_first_duplicate is
/// set.
llvm::Error check_duplicates(i64 unique, i64 count, bool keep_first_duplicate);

/// Most rows of the query side of a kernel map; its entries and one more are counted in 31 bits.
constexpr i64 most_map_rows(i64 volume) { return INT_MAX / volume - 1; }

/// Returns OutOfRange if `count` coordinates are too many for one cloud when the largest kernel has `volume`
/// offsets.
llvm::Error check_cloud_rows(i64 count, i64 volume);

}  // namespace minuet
