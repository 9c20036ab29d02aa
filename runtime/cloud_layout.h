// From the bounds of a cloud to its packed keys.
#pragma once

#include "codegen/error.h"
#include "codegen/problem.h"

namespace minuet {

/// Most coordinates of one set: the radix sort counts in 30 bits.
constexpr i64 kMaxCoordinates = (i64{1} << 30) - 1;

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

inline KeyType key_type_of(const KeyLayout& layout) {
  return layout.total_bits <= 32 ? KeyType::U32 : KeyType::U64;
}

/// Bounds as a caller declares them, checked.
llvm::Expected<Bounds> declared_bounds(i32 ndim, const i32* least, const i32* greatest);

llvm::Error check_coordinate_count(i64 count);

}  // namespace minuet
