// The kernel scatter computes out[q] = epilogue(sum over k of buffer[table[k][q]]), in ascending k, in fp32
// registers.
//
// Each thread owns one tile of one output row, which is S.tile channels, so it needs no atomics and writes
// once. The threads of a row interleave vector by vector, as in gather. The buffer is fp32 whatever the
// output type. A vector therefore is a number of elements, which take vector_bytes in the output, and four
// bytes each in the buffer.
#pragma once

#include "kernels_templates/core/epilogue.h"
#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/gmas_kernels.h"

namespace minuet {

/// Gives the number of bytes of an element of the buffer.
constexpr i32 kPartialElement = static_cast<i32>(sizeof(float));
/// Gives the number of offsets whose table entries are loaded together. For a 3x3x3 kernel, loading all 27
/// entries at once is faster than nine at a time, because reading buffer rows must wait for the last entry of
/// each batch.
constexpr i32 kScatterOffsetsAtOnce = 27;

template <ScatterSpec S>
struct ScatterShape {
  static constexpr i32 kElement = dtype_bytes(S.io);
  static constexpr i32 kThreads = S.channels / S.tile;         // Gives the number of threads per row.
  static constexpr i32 kElements = S.vector_bytes / kElement;  // Gives the number of elements per vector.
  static constexpr i32 kVectors = S.tile / kElements;          // Gives the number of vectors per tile.
  /// Gives the length of a vector's partial sums in bytes.
  static constexpr i32 kPartialBytes = kElements * kPartialElement;
  /// Gives the width in bytes of one read of partial sums.
  static constexpr i32 kAccess = kPartialBytes < 16 ? kPartialBytes : 16;
  static constexpr i32 kAccesses = kPartialBytes / kAccess;
  static constexpr i64 kBufferRowBytes = static_cast<i64>(S.channels) * kPartialElement;
  static_assert(S.channels % S.tile == 0, "tile must divide channels");
  static_assert(S.vector_bytes >= kElement && S.tile % kElements == 0, "vector_bytes must divide a tile");

  /// A thread reads kRowsAtOnce buffer rows before it adds the first. Their tiles take at most 128 bytes,
  /// unless one tile alone is larger, so that they fit in the thread's registers.
  static constexpr i32 kTileBytes = S.tile * kPartialElement;
  static constexpr i32 kRowsAtOnce = kTileBytes >= 128 ? 1 : kTileBytes > 32 ? 128 / kTileBytes : 4;

  /// Returns the first element of vector v of a row's thread t.
  MINUET_HD static constexpr i32 first_element(i32 t, i32 v) { return (v * kThreads + t) * kElements; }

  struct Partial {  // Holds one tile of one buffer row.
    Vector<kAccess> data[kVectors * kAccesses];
  };
};

template <ScatterSpec S>
MINUET_HD void load_partial(const void* buffer, i64 row, i32 t, typename ScatterShape<S>::Partial& partial) {
  using Shape = ScatterShape<S>;
  MINUET_UNROLL
  for (i32 v = 0; v < Shape::kVectors; ++v) {
    MINUET_UNROLL
    for (i32 a = 0; a < Shape::kAccesses; ++a) {
      const i64 byte = row * Shape::kBufferRowBytes + Shape::first_element(t, v) * kPartialElement;
      Vector<Shape::kAccess>& data = partial.data[v * Shape::kAccesses + a];
      data = load_vector_if<Shape::kAccess>(row >= 0, buffer, byte + a * Shape::kAccess);
    }
  }
}

template <ScatterSpec S>
MINUET_HD void add_partial(const typename ScatterShape<S>::Partial& partial, float* sums) {
  using Shape = ScatterShape<S>;
  constexpr i32 kEach = Shape::kAccess / kPartialElement;
  MINUET_UNROLL
  for (i32 d = 0; d < Shape::kVectors * Shape::kAccesses; ++d) {
    float values[kEach];
    to_floats<DType::F32>(partial.data[d], values);
    MINUET_UNROLL
    for (i32 e = 0; e < kEach; ++e) sums[d * kEach + e] += values[e];
  }
}

/// Returns a mask whose bit u is set if output row `row` has a buffer row for offset k + u, and this row is
/// in the launch's slice [first_row, last_row) of the buffer.
MINUET_HD u32 find_hits(const ScatterParams& p, i64 row, i32 k) {
  i32 rows[kScatterOffsetsAtOnce];
  MINUET_UNROLL
  for (i32 u = 0; u < kScatterOffsetsAtOnce; ++u) {
    rows[u] = load_row_if(k + u < p.volume, p.table + (k + u) * p.rows + row);
  }
  u32 hits = 0;
  MINUET_UNROLL
  for (i32 u = 0; u < kScatterOffsetsAtOnce; ++u)
    hits |= static_cast<u32>(is_in_slice(rows[u], p.first_row, p.last_row)) << u;
  return hits;
}

/// Adds up thread t's tile of output row `row`. Most offsets of most rows have no neighbour. The offsets that
/// have one are therefore found first, and then their buffer rows are added a few at a time. By then, the
/// table entries of these offsets are in the cache.
template <ScatterSpec S>
MINUET_HD void sum_offsets(const ScatterParams& p, i64 row, i32 t, float* sums) {
  using Shape = ScatterShape<S>;
  for (i32 k = 0; k < p.volume; k += kScatterOffsetsAtOnce) {
    for (u32 hits = find_hits(p, row, k); hits != 0;) {
      i32 rows[Shape::kRowsAtOnce];
      MINUET_UNROLL
      for (i32 r = 0; r < Shape::kRowsAtOnce; ++r) {
        rows[r] = load_row_if(hits != 0, p.table + (k + lowest_bit(hits)) * p.rows + row);
        if (hits != 0) rows[r] -= p.first_row;
        hits &= hits - 1;
      }
      typename Shape::Partial partial[Shape::kRowsAtOnce];
      MINUET_UNROLL
      for (i32 r = 0; r < Shape::kRowsAtOnce; ++r) load_partial<S>(p.buffer, rows[r], t, partial[r]);
      MINUET_UNROLL
      for (i32 r = 0; r < Shape::kRowsAtOnce; ++r) add_partial<S>(partial[r], sums);
    }
  }
}

/// Stores the sums without the epilogue. The launch for the next slice of the buffer reads them.
template <ScatterSpec S>
MINUET_HD void store_sums(float* target, i64 row, i32 t, const float* sums) {
  using Shape = ScatterShape<S>;
  constexpr i32 kEach = Shape::kAccess / kPartialElement;
  MINUET_UNROLL
  for (i32 v = 0; v < Shape::kVectors; ++v) {
    MINUET_UNROLL
    for (i32 a = 0; a < Shape::kAccesses; ++a) {
      const i64 byte = row * Shape::kBufferRowBytes + Shape::first_element(t, v) * kPartialElement;
      store_vector(target, byte + a * Shape::kAccess,
                   from_floats<DType::F32, Shape::kAccess>(sums + v * Shape::kElements + a * kEach));
    }
  }
}

/// Writes one vector of the second output (SecondOutput), whose first output is `stored`. Returns true if all
/// results are finite in the output's type.
template <ScatterSpec S>
MINUET_HD bool finish_second(const ScatterParams& p, i64 row, i32 first,
                             const Vector<S.vector_bytes>& stored) {
  using Shape = ScatterShape<S>;
  float values[Shape::kElements];
  to_floats<S.io>(stored, values);
  bool finite = true;
  MINUET_UNROLL
  for (i32 e = 0; e < Shape::kElements; ++e) {
    const float scale = read_only(p.second.scale + first + e), shift = read_only(p.second.shift + first + e);
    values[e] = epilogue<true, false, S.second_activation>(values[e], scale, shift, 0.0f, p.second.slope);
    finite = finite && !overflows(S.io, bits_of(values[e]));
  }
  store_vector(p.second.output, (row * p.second.output_ld + first) * Shape::kElement,
               from_floats<S.io, S.vector_bytes>(values));
  return finite;
}

/// Applies the epilogue to one vector, elements [first, first + kElements) of output row `row`, and writes
/// it. Returns true if all sums are finite in fp32 and all results are finite in the output's type.
template <ScatterSpec S>
MINUET_HD bool finish_vector(const ScatterParams& p, i64 row, i32 first, const float* sums) {
  using Shape = ScatterShape<S>;
  float residual[Shape::kElements] = {};
  float values[Shape::kElements];
  if constexpr (S.residual) {
    to_floats<S.io>(load_vector<S.vector_bytes>(p.residual, (row * p.residual_ld + first) * Shape::kElement),
                    residual);
  }
  bool finite = true;
  MINUET_UNROLL
  for (i32 e = 0; e < Shape::kElements; ++e) {
    float scale = 1.0f, shift = 0.0f;
    if constexpr (S.scale_shift) {
      scale = read_only(p.scale + first + e);
      shift = read_only(p.shift + first + e);
    }
    values[e] =
        epilogue<S.scale_shift, S.residual, S.activation>(sums[e], scale, shift, residual[e], p.slope);
    // The sum is tested too, because a ReLU would hide a sum of minus infinity.
    finite = finite && !overflows(DType::F32, bits_of(sums[e])) && !overflows(S.io, bits_of(values[e]));
  }
  const Vector<S.vector_bytes> stored = from_floats<S.io, S.vector_bytes>(values);
  store_vector(p.output, (row * p.output_ld + first) * Shape::kElement, stored);
  if constexpr (S.second_output) {
    if (!finish_second<S>(p, row, first, stored)) *p.second.overflow = p.overflow_mark;
  }
  return finite;
}

template <ScatterSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void scatter(MINUET_PARAMS(ScatterParams) p) {
  using Shape = ScatterShape<S>;
  const i64 items = tile_count(p.rows, S.channels, S.tile);
  for (i64 item = grid_thread(S.threads); item < items; item += grid_threads(S.threads)) {
    const i64 row = item / Shape::kThreads;
    const i32 t = static_cast<i32>(item % Shape::kThreads);
    float sums[S.tile] = {};
    if (p.sums_in) {
      typename Shape::Partial before;
      load_partial<S>(p.sums_in, row, t, before);
      add_partial<S>(before, sums);
    }
    sum_offsets<S>(p, row, t, sums);
    if (p.sums_out) {
      store_sums<S>(p.sums_out, row, t, sums);
      continue;
    }
    MINUET_UNROLL
    for (i32 v = 0; v < Shape::kVectors; ++v) {
      if (!finish_vector<S>(p, row, Shape::first_element(t, v), sums + v * Shape::kElements)) {
        *p.overflow = p.overflow_mark;
      }
    }
  }
}

}  // namespace minuet
