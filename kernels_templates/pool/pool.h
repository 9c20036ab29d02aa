// The kernel pool computes out[q], the maximum, average or sum over k of in[rows[k][q]].
//
// Each thread owns one vector of one output row, so it needs no atomics and writes once. It reads the rows of
// several offsets together, so that their loads overlap. It combines them in ascending k, so that every
// device gives the same bits.
//
// Elements of an integer type stay as they are: a maximum of such elements is the maximum of their integers.
//
// With PoolSpec::winners, it also writes the number of the input row that each maximum comes from.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/integers.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/pool_kernels.h"

namespace minuet {

template <PoolSpec S>
struct PoolShape {
  static constexpr i32 kElement = dtype_bytes(S.io);
  static constexpr i32 kElements = S.vector_bytes / kElement;  // Gives the number of elements per vector.
  /// Gives the number of vectors per row.
  static constexpr i32 kVectors = S.channels * kElement / S.vector_bytes;
  static constexpr i32 kAtOnce = 8;  // Gives the number of offsets whose rows are read together.
  static_assert(S.vector_bytes % kElement == 0, "a vector has whole elements");
  static_assert(S.channels * kElement % S.vector_bytes == 0, "vector_bytes must divide a row");
};

/// Combines `value` with the earlier inputs. A maximum keeps NaN, which is tested explicitly because
/// comparisons with it are false.
template <Reduction R>
MINUET_HD float combine(float before, float value) {
  if constexpr (R != Reduction::Max) return before + value;
  return value > before || value != value ? value : before;
}

/// Returns true if `value` replaces the maximum `before` of inputs at lower offsets. The first of several
/// equal inputs, or of several NaN, stays.
MINUET_HD bool wins(float value, float before) {
  return value > before || (value != value && before == before);
}

/// Combines the inputs of vector v of output row `row` in `values`, and returns the number of inputs. With
/// S.winners, stores in `winners` the input row that each value comes from.
template <PoolSpec S>
MINUET_HD i32 pool_offsets(const PoolParams& p, i64 count, i64 row, i32 v, float* values, i32* winners) {
  using Shape = PoolShape<S>;
  i32 found = 0;
  for (i32 k = 0; k < p.volume; k += Shape::kAtOnce) {
    i32 sources[Shape::kAtOnce];
    Vector<S.vector_bytes> data[Shape::kAtOnce];
    MINUET_UNROLL
    for (i32 u = 0; u < Shape::kAtOnce; ++u) {
      const bool present = k + u < p.volume;
      sources[u] = p.rows != nullptr ? load_row_if(present, p.rows + (k + u) * count + row)
                   : present         ? static_cast<i32>(row)
                                     : -1;
    }
    MINUET_UNROLL
    for (i32 u = 0; u < Shape::kAtOnce; ++u) {
      const i64 byte = sources[u] * p.input_ld * Shape::kElement + v * S.vector_bytes;
      data[u] = load_vector_if<S.vector_bytes>(sources[u] >= 0, p.input, byte);
    }
    MINUET_UNROLL
    for (i32 u = 0; u < Shape::kAtOnce; ++u) {
      if (sources[u] < 0) continue;
      float inputs[Shape::kElements];
      to_numbers<S.io>(data[u], inputs);
      MINUET_UNROLL
      for (i32 e = 0; e < Shape::kElements; ++e) {
        if constexpr (S.winners) {
          const bool replaces = found == 0 || wins(inputs[e], values[e]);
          values[e] = replaces ? inputs[e] : values[e];
          winners[e] = replaces ? sources[u] : winners[e];
        } else {
          values[e] = found == 0 ? inputs[e] : combine<S.reduction>(values[e], inputs[e]);
        }
      }
      ++found;
    }
  }
  return found;
}

/// Writes the winners of vector v of output row `row`, each of which is an input row or -1.
template <PoolSpec S>
MINUET_HD void store_winners(const PoolParams& p, i64 row, i32 v, const i32* winners) {
  constexpr i32 kWord = static_cast<i32>(sizeof(i32)), kElements = PoolShape<S>::kElements;
  constexpr i32 kBytes = kElements * kWord < 16 ? kElements * kWord : 16;
  MINUET_UNROLL
  for (i32 e = 0; e < kElements; e += kBytes / kWord) {
    Vector<kBytes> words;
    MINUET_UNROLL
    for (i32 w = 0; w < kBytes / kWord; ++w) {
      const i32 source = winners[e + w];
      const bool has_number = source >= 0 && p.input_numbers != nullptr;
      words.words[w] = static_cast<u32>(has_number ? read_only(p.input_numbers + source) : source);
    }
    store_vector(p.winners, (row * p.winners_ld + v * kElements + e) * kWord, words);
  }
}

template <PoolSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void pool(MINUET_PARAMS(PoolParams) p) {
  using Shape = PoolShape<S>;
  static_assert(!S.winners || S.reduction == Reduction::Max, "only a maximum has winners");
  static_assert(!is_integer(S.io) || S.reduction == Reduction::Max, "integers have no scale here");
  const i64 count = *p.output_count;
  const i64 items = (p.pads_output != 0 ? p.output_rows : count) * Shape::kVectors;
  for (i64 item = grid_thread(S.threads); item < items; item += grid_threads(S.threads)) {
    const i64 row = item / Shape::kVectors;
    const i32 v = static_cast<i32>(item % Shape::kVectors);
    float values[Shape::kElements] = {};
    i32 winners[Shape::kElements];
    if constexpr (S.winners) {
      MINUET_UNROLL
      for (i32 e = 0; e < Shape::kElements; ++e) winners[e] = -1;
    }
    const i32 found = row < count ? pool_offsets<S>(p, count, row, v, values, winners) : 0;
    bool finite = true;
    MINUET_UNROLL
    for (i32 e = 0; e < Shape::kElements; ++e) {
      if constexpr (S.reduction == Reduction::Average) {
        if (found > 1) values[e] /= static_cast<float>(found);
      }
      finite = finite && !overflows(S.io, bits_of(values[e]));
    }
    store_vector(p.output, row * p.output_ld * Shape::kElement + v * S.vector_bytes,
                 from_numbers<S.io, S.vector_bytes>(values));
    if constexpr (S.winners) store_winners<S>(p, row, v, winners);
    if (!finite) *p.overflow = p.overflow_mark;
  }
}

}  // namespace minuet
