// The kernel pool_gradient computes the gradient of row q of a pooling's input: the sum over the offsets k of
// what row rows[k][q] of the gradient of the output passes on. A sum passes the gradient on as it is, an
// average divides it by the number of its inputs, and a maximum passes it on to the input that has won.
//
// Each thread owns one vector of one row, as in pool.h, and adds in ascending k, so that every device gives
// the same bits.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/pool_kernels.h"

namespace minuet {

template <PoolGradientSpec S>
struct PoolGradientShape {
  static constexpr i32 kElement = dtype_bytes(S.io), kWord = static_cast<i32>(sizeof(i32));
  static constexpr i32 kElements = S.vector_bytes / kElement;  // Gives the number of elements per vector.
  static constexpr i32 kVectors = S.channels * kElement / S.vector_bytes;  // Gives those of a row.
  static constexpr i32 kAtOnce = S.reduction == Reduction::Max ? 4 : 8;  // Counts the offsets read together.
  static constexpr i32 kWinnerBytes = kElements * kWord < 16 ? kElements * kWord : 16;
  static_assert(S.vector_bytes % kElement == 0, "a vector has whole elements");
  static_assert(S.channels * kElement % S.vector_bytes == 0, "vector_bytes must divide a row");
};

/// Holds vector v of one row of the gradient of the output, and what tells how it is passed on.
template <PoolGradientSpec S>
struct PoolGradientPart {
  using Shape = PoolGradientShape<S>;
  i32 row;  // Is -1 if there is no row.
  Vector<S.vector_bytes> data;
  Vector<Shape::kWinnerBytes> winners[Shape::kElements * Shape::kWord / Shape::kWinnerBytes];
  float count;

  MINUET_HD void load(const PoolGradientParams& p, i32 from, i32 v) {
    row = from;
    const bool present = row >= 0;
    data = load_vector_if<S.vector_bytes>(present, p.input,
                                          row * p.input_ld * Shape::kElement + v * S.vector_bytes);
    if constexpr (S.reduction == Reduction::Average) {
      count = static_cast<float>(present ? read_only(p.counts + row) : 1u);
    }
    if constexpr (S.reduction == Reduction::Max) {
      constexpr i32 kEach = Shape::kWinnerBytes / Shape::kWord;
      MINUET_UNROLL
      for (i32 e = 0; e < Shape::kElements; e += kEach) {
        const i64 word = row * p.winners_ld + v * Shape::kElements + e;
        winners[e / kEach] = load_vector_if<Shape::kWinnerBytes>(present, p.winners, word * Shape::kWord);
      }
    }
  }
  MINUET_HD i32 winner(i32 e) const {
    constexpr i32 kEach = Shape::kWinnerBytes / Shape::kWord;
    return static_cast<i32>(winners[e / kEach].words[e % kEach]);
  }
};

/// Adds to `sums` what vector v of the gradients of the outputs passes on to input row `row`, whose number in
/// `winners` is `number`.
template <PoolGradientSpec S>
MINUET_HD void add_outputs(const PoolGradientParams& p, i64 count, i64 row, i32 number, i32 v, float* sums) {
  using Shape = PoolGradientShape<S>;
  for (i32 k = 0; k < p.volume; k += Shape::kAtOnce) {
    PoolGradientPart<S> parts[Shape::kAtOnce];
    MINUET_UNROLL
    for (i32 u = 0; u < Shape::kAtOnce; ++u) {
      const bool present = k + u < p.volume;
      const i32 from = p.rows != nullptr ? load_row_if(present, p.rows + (k + u) * count + row)
                       : present         ? static_cast<i32>(row)
                                         : -1;
      parts[u].load(p, from, v);
    }
    MINUET_UNROLL
    for (i32 u = 0; u < Shape::kAtOnce; ++u) {
      if (parts[u].row < 0) continue;
      float gradients[Shape::kElements];
      to_floats<S.io>(parts[u].data, gradients);
      MINUET_UNROLL
      for (i32 e = 0; e < Shape::kElements; ++e) {
        if constexpr (S.reduction == Reduction::Average) gradients[e] /= parts[u].count;
        if constexpr (S.reduction == Reduction::Max) {
          if (parts[u].winner(e) != number) continue;
        }
        sums[e] += gradients[e];
      }
    }
  }
}

template <PoolGradientSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void pool_gradient(MINUET_PARAMS(PoolGradientParams) p) {
  using Shape = PoolGradientShape<S>;
  const i64 count = *p.output_count;
  const i64 items = (p.pads_output != 0 ? p.output_rows : count) * Shape::kVectors;
  for (i64 item = grid_thread(S.threads); item < items; item += grid_threads(S.threads)) {
    const i64 row = item / Shape::kVectors;
    const i32 v = static_cast<i32>(item % Shape::kVectors);
    float sums[Shape::kElements] = {};
    if (row < count) {
      const i32 number =
          p.output_numbers != nullptr ? read_only(p.output_numbers + row) : static_cast<i32>(row);
      add_outputs<S>(p, count, row, number, v, sums);
    }
    bool finite = true;
    MINUET_UNROLL
    for (i32 e = 0; e < Shape::kElements; ++e) finite = finite && !overflows(S.io, bits_of(sums[e]));
    store_vector(p.output, row * p.output_ld * Shape::kElement + v * S.vector_bytes,
                 from_floats<S.io, S.vector_bytes>(sums));
    if (!finite) *p.overflow = p.overflow_mark;
  }
}

}  // namespace minuet
