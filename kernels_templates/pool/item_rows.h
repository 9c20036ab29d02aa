// This file has the parts that the kernels pool_items and join_items share: the rows of an item in the list,
// and how a block combines the results of its threads and writes them.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/pool/pool.h"
#include "kernels_templates/shared/global_pool_kernels.h"

namespace minuet {

/// Finds the rows of each item in the list. The rows of item b are those from begin(b) to end(b) - 1.
class ItemList {
 public:
  MINUET_HD explicit ItemList(const PoolItemsParams& p) : p_(p), items_(*p.output_count) {}

  MINUET_HD i64 end(i64 item) const {
    return p_.rows == nullptr ? *p_.input_count : read_only(p_.places + (item + 1) * p_.splits - 1);
  }
  MINUET_HD i64 begin(i64 item) const { return item == 0 ? 0 : end(item - 1); }
  MINUET_HD i64 items() const { return items_; }
  /// Returns the number of rows of all items.
  MINUET_HD i64 rows() const { return items_ == 0 ? 0 : end(items_ - 1); }
  /// Returns the item that has the row at `position`, which must be less than rows().
  MINUET_HD i64 find(i64 position) const {
    i64 first = 0, last = items_ - 1;
    while (first < last) {
      const i64 middle = (first + last) / 2;
      if (end(middle) > position) {
        last = middle;
      } else {
        first = middle + 1;
      }
    }
    return first;
  }

 private:
  const PoolItemsParams& p_;
  const i64 items_;
};

template <Reduction R>
MINUET_HD float neutral() {
  return R == Reduction::Max ? float_of(kFloatInfinity | ~kFloatMagnitude) : 0.0f;
}

/// Returns the largest power of two that is less than `lanes`, or 0 if there is one lane.
MINUET_HD constexpr i32 half_of_lanes(i32 lanes) {
  i32 half = lanes > 1 ? 1 : 0;
  while (half > 0 && 2 * half < lanes) half *= 2;
  return half;
}

/// Combines the values of all lanes of a block in a fixed order. Lane 0 gets the result. Each lane has one
/// thread for each of `Width` vectors of `Elements` channels. All threads of the block must call it.
template <Reduction R, i32 Width, i32 Lanes, i32 Elements>
MINUET_DEVICE void combine_lanes_of_rows(i32 lane, i32 v, float (&values)[Elements]) {
  if constexpr (Lanes > 1) {
    constexpr i32 kHalf = half_of_lanes(Lanes);
    __shared__ float of_lanes[kHalf][Width][Elements];
    MINUET_UNROLL
    for (i32 half = kHalf; half > 0; half /= 2) {
      if (lane >= half && lane < 2 * half && lane < Lanes) {
        MINUET_UNROLL
        for (i32 e = 0; e < Elements; ++e) of_lanes[lane - half][v][e] = values[e];
      }
      __syncthreads();
      if (lane < half && lane + half < Lanes) {
        MINUET_UNROLL
        for (i32 e = 0; e < Elements; ++e) values[e] = combine<R>(values[e], of_lanes[lane][v][e]);
      }
      __syncthreads();  // The next round overwrites the values.
    }
  }
}

/// Stores `Count` numbers from base[first] on. `Count` is a power of two, and divides `first`.
template <i32 Count>
MINUET_HD void store_floats(float* base, i64 first, const float* values) {
  constexpr i32 kBytes = Count * 4 < 16 ? Count * 4 : 16;
  MINUET_UNROLL
  for (i32 i = 0; i < Count; i += kBytes / 4) {
    store_vector(base, (first + i) * 4, from_floats<DType::F32, kBytes>(values + i));
  }
}
/// Loads `Count` numbers from base[first] on if `present`, and zeros otherwise.
template <i32 Count>
MINUET_HD void load_floats_if(bool present, const float* base, i64 first, float* values) {
  constexpr i32 kBytes = Count * 4 < 16 ? Count * 4 : 16;
  MINUET_UNROLL
  for (i32 i = 0; i < Count; i += kBytes / 4) {
    to_floats<DType::F32>(load_vector_if<kBytes>(present, base, (first + i) * 4), values + i);
  }
}

/// Writes vector v of the result of an item of `rows` rows.
template <auto S, i32 Elements>
MINUET_HD void write_item(const PoolItemsParams& p, i64 item, i32 v, i64 rows, float (&values)[Elements]) {
  bool finite = true;
  MINUET_UNROLL
  for (i32 e = 0; e < Elements; ++e) {
    if constexpr (S.reduction == Reduction::Average) values[e] /= static_cast<float>(rows);
    finite = finite && !overflows(S.io, bits_of(values[e]));
  }
  store_vector(p.output, item * p.output_ld * dtype_bytes(S.io) + v * S.vector_bytes,
               from_floats<S.io, S.vector_bytes>(values));
  if (!finite) *p.overflow = p.overflow_mark;
}

}  // namespace minuet
