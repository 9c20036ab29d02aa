// From the bounds of a cloud to its packed keys.
#pragma once

#include <algorithm>
#include <climits>

#include "codegen/base/error.h"
#include "codegen/choose/problem.h"

namespace minuet {

/// Most coordinates of one set: the radix sort counts in 30 bits.
constexpr i64 kMaxCoordinates = (i64{1} << 30) - 1;

constexpr i32 kMostKeyBits = 64;

/// Least and greatest coordinate per field, batch first.
struct Bounds {
  i32 least[kMaxFields] = {};
  i32 greatest[kMaxFields] = {};
};
inline constexpr i64 kBoundsWords = 2 * kMaxFields;

/// The layout for coordinates inside `bounds`. OutOfRange where it does not fit 64 bits, or where a
/// coarser level's coordinates would leave 32 bits; InvalidArgument for a negative batch index.
llvm::Expected<KeyLayout> make_cloud_layout(i32 ndim, const Bounds& bounds, const i64* guard,
                                            const i64* period);

/// From the words of a CloudState.
inline Bounds read_bounds(const i32* words) {
  Bounds bounds;
  std::copy_n(words, kMaxFields, bounds.least);
  std::copy_n(words + kMaxFields, kMaxFields, bounds.greatest);
  return bounds;
}

/// What keys of such layouts may take: whole digits of the radix sort.
i32 rounded_key_bits(const KeyLayout& layout);

/// How many bits the next cloud's keys are taken to have, before the device knows: more as soon as a cloud
/// needs them, fewer only once some in a row did without, so that a large cloud after a small one is built
/// once.
class KeyBits {
 public:
  /// 0: no cloud was seen.
  i32 bits() const { return bits_; }
  void note(i32 needed);

  static constexpr i32 kPatience = 16;  // clouds in a row

 private:
  i32 bits_ = 0;
  i32 fewer_ = 0, most_of_fewer_ = 0;  // clouds in a row that needed fewer, and the most that one of them did
};

/// Bounds as a caller declares them, checked.
llvm::Expected<Bounds> declared_bounds(i32 ndim, const i32* least, const i32* greatest);

llvm::Error check_coordinate_count(i64 count);

/// What the status word of a CloudState says of the coordinates.
llvm::Error check_coordinate_status(u32 status);

/// Of `count` coordinates so many are unique: an error where that is not all, unless the caller keeps firsts.
llvm::Error check_duplicates(i64 unique, i64 count, bool keep_first_duplicate);

/// Most rows on the query side of a kernel map: the entries and one more are counted in 31 bits.
constexpr i64 most_map_rows(i64 volume) { return INT_MAX / volume - 1; }

/// OutOfRange for more coordinates than one cloud may have where the largest kernel has `volume` offsets.
llvm::Error check_cloud_rows(i64 count, i64 volume);

}  // namespace minuet
