// The kernel depthwise computes a convolution in which each output channel c reads one input channel, c / m:
// output[q][c] = epilogue(sum over offsets k of input[rows[k][q]][c / m] * weights[k][c]).
//
// Each thread owns one vector of the channels of S.rows output rows, whose sums it keeps in fp32 registers,
// and writes each output once. It needs no atomics, so results repeat bit by bit. The work is bound by
// memory, so there are no tensor cores. The masks of a thread's rows tell which offsets it must read. A
// weight is loaded and converted once for all rows of a thread; all warps of a multiprocessor read the same
// few weights, which stay in the L1 cache. Threads with few rows and one offset at a time need few registers,
// so that many of them hide the latency of their loads from each other.
#pragma once

#include "kernels_templates/core/epilogue.h"
#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/depthwise_kernels.h"

namespace minuet {

template <DepthwiseSpec S>
struct DepthwiseShape {
  static constexpr i32 kElement = dtype_bytes(S.io);
  static constexpr i32 kElements = depthwise_elements(S), kVectors = depthwise_vectors(S);
  static constexpr i32 kMultiplier = S.out_channels / S.in_channels;
  /// Gives the number of input channels that the channels of a vector read.
  static constexpr i32 kInputs = kElements > kMultiplier ? kElements / kMultiplier : 1;
  static constexpr i32 kInputBytes = kInputs * kElement;
  static constexpr i32 kMaskWords = (S.volume + 31) / 32;
  static_assert(S.out_channels % S.in_channels == 0, "each input channel has equally many outputs");
  static_assert(S.vector_bytes % kElement == 0 && S.out_channels % kElements == 0,
                "vectors have whole elements and cover a row");
  static_assert(kElements % kMultiplier == 0 || kMultiplier % kElements == 0,
                "the inputs of a vector are consecutive");
};

/// Describes the rows of one thread.
template <DepthwiseSpec S>
struct DepthwiseRows {
  i64 positions[S.rows];  // Holds the places in DepthwiseParams::order.
  i64 columns[S.rows];    // Holds the columns of the tables of rows and masks.
  i64 numbers[S.rows];    // Holds the rows of output and residual.
  i32 vector;             // Gives the thread's vector of channels.

  MINUET_HD DepthwiseRows(const DepthwiseParams& p, i64 item, i64 count) {
    constexpr i32 kVectors = depthwise_vectors(S), kSlots = depthwise_slots(S);
    vector = static_cast<i32>(item % kVectors);
    const i64 slot = item / kVectors % kSlots, tile = item / kVectors / kSlots;
    MINUET_UNROLL
    for (i32 r = 0; r < S.rows; ++r) {
      positions[r] = (tile * S.rows + r) * kSlots + slot;
      const bool in_order = p.order != nullptr && positions[r] < count;
      numbers[r] = in_order ? load_row_if(true, p.order + positions[r]) : positions[r];
      columns[r] = p.ordered_views != 0 ? positions[r] : numbers[r];
    }
  }
};

/// Loads word `word` of the masks of the rows, and returns their union.
template <DepthwiseSpec S>
MINUET_HD u32 load_masks(const DepthwiseParams& p, const DepthwiseRows<S>& rows, i64 count, i32 word,
                         u32 (&masks)[S.rows]) {
  u32 any = 0;
  MINUET_UNROLL
  for (i32 r = 0; r < S.rows; ++r) {
    const bool is_there = rows.positions[r] < count;
    masks[r] =
        is_there ? 1u : 0u;  // Without masks, there is one offset, at which each row is its own source.
    if (p.masks != nullptr) {
      const i32* const address = reinterpret_cast<const i32*>(p.masks) + word * p.row_stride;
      masks[r] = is_there ? static_cast<u32>(load_row_if(true, address + rows.columns[r])) : 0u;
    }
    any |= masks[r];
  }
  return any;
}

/// Adds the products of the offsets [32 * word, 32 * word + 32) in ascending order.
///
/// Instructions bound the loop, so each address takes one multiplication of 32-bit numbers: tables have less
/// than 2^30 columns, and rows less than 2^32 bytes (kMostRowStride).
template <DepthwiseSpec S>
MINUET_HD void add_offsets(const DepthwiseParams& p, const DepthwiseRows<S>& rows, i64 count, i32 word,
                           float (&sums)[S.rows][DepthwiseShape<S>::kElements]) {
  using Shape = DepthwiseShape<S>;
  constexpr u64 kWeightBytes = static_cast<u64>(S.out_channels * Shape::kElement);  // The bytes of an offset.
  const u64 table_bytes = static_cast<u32>(p.row_stride * 4);
  const u64 row_bytes = static_cast<u32>(p.input_ld * Shape::kElement);
  const char* const input = static_cast<const char*>(p.input) +
                            i64{rows.vector} * Shape::kElements / Shape::kMultiplier * Shape::kElement;
  const char* const weights = static_cast<const char*>(p.weights) + rows.vector * S.vector_bytes;
  // Only a kernel of one offset may lack a table. Each row is its own source then.
  const bool has_table = S.volume > 1 || p.rows != nullptr;
  const i32* columns[S.rows];
  MINUET_UNROLL
  for (i32 r = 0; r < S.rows; ++r) columns[r] = has_table ? p.rows + rows.columns[r] : nullptr;
  u32 masks[S.rows];
  u32 left = load_masks<S>(p, rows, count, word, masks);
  i32 next[S.rows] = {};
  // Loads the row numbers of the lowest offset of `left`.
  const auto find_sources = [&] {
    const i32 bit = lowest_bit(left);
    const u64 k = static_cast<u32>(32 * word + bit);
    MINUET_UNROLL
    for (i32 r = 0; r < S.rows; ++r) {
      const bool present = (masks[r] >> bit & 1) != 0;
      if (has_table) {
        const char* const entry = reinterpret_cast<const char*>(columns[r]) + k * table_bytes;
        next[r] = load_row_if(present, reinterpret_cast<const i32*>(entry));
      } else {
        next[r] = present ? static_cast<i32>(rows.numbers[r]) : -1;
      }
    }
  };
  if (left != 0) find_sources();
  while (left != 0) {
    const u64 k = static_cast<u32>(32 * word + lowest_bit(left));
    left &= left - 1;
    i32 sources[S.rows];
    Vector<Shape::kInputBytes> inputs[S.rows];
    MINUET_UNROLL
    for (i32 r = 0; r < S.rows; ++r) sources[r] = next[r];
    MINUET_UNROLL
    for (i32 r = 0; r < S.rows; ++r) {
      const u64 source = static_cast<u32>(sources[r]);
      inputs[r] = load_vector_if<Shape::kInputBytes>(sources[r] >= 0, input + source * row_bytes, 0);
    }
    if (left != 0) find_sources();
    float factors[Shape::kElements];
    to_floats<S.io>(load_vector_if<S.vector_bytes>(true, weights + k * kWeightBytes, 0), factors);
    MINUET_UNROLL
    for (i32 r = 0; r < S.rows; ++r) {
      // Without this branch, an infinite weight would make NaN of a row that is not there.
      if (sources[r] < 0) continue;
      float values[Shape::kInputs];
      to_floats<S.io>(to_operand<S.io>(inputs[r]), values);
      MINUET_UNROLL
      for (i32 e = 0; e < Shape::kElements; ++e)
        sums[r][e] += values[e * Shape::kInputs / Shape::kElements] * factors[e];
    }
  }
}

/// Returns the larger one of `most` and the bits of the magnitude of `value`. NaN is larger than infinity,
/// and infinity is larger than all other numbers.
MINUET_HD u32 larger_magnitude(u32 most, float value) {
  const u32 magnitude = bits_of(value) & 0x7fffffffu;
  return magnitude > most ? magnitude : most;
}

/// Applies the epilogue to the sums of one row, and writes them. With S.second_output, also writes the second
/// output. Returns false if a sum or a result of the first output is infinite or NaN.
template <DepthwiseSpec S>
MINUET_HD bool finish_depthwise_row(const DepthwiseParams& p, i64 number, i32 vector,
                                    const float (&sums)[DepthwiseShape<S>::kElements]) {
  using Shape = DepthwiseShape<S>;
  constexpr i32 kElements = Shape::kElements;
  const i64 channel = i64{vector} * kElements, byte = channel * Shape::kElement;
  float residual[kElements] = {}, values[kElements] = {};
  if constexpr (S.residual) {
    to_floats<S.io>(
        load_vector_if<S.vector_bytes>(true, p.residual, number * p.residual_ld * Shape::kElement + byte),
        residual);
  }
  u32 most_sum = 0, most_value = 0;
  MINUET_UNROLL
  for (i32 e = 0; e < kElements; ++e) {
    const float scale = S.scale_shift ? read_only(p.scale + channel + e) : 1.0f;
    const float shift = S.scale_shift ? read_only(p.shift + channel + e) : 0.0f;
    values[e] =
        epilogue<S.scale_shift, S.residual, S.activation>(sums[e], scale, shift, residual[e], p.slope);
    // The sum is tested too, because a ReLU would hide a sum of minus infinity.
    most_sum = larger_magnitude(most_sum, sums[e]);
    most_value = larger_magnitude(most_value, values[e]);
  }
  const Vector<S.vector_bytes> stored = from_floats<S.io, S.vector_bytes>(values);
  store_vector(p.output, number * p.output_ld * Shape::kElement + byte, stored);
  if constexpr (S.second_output) {
    u32 most_second = 0;
    to_floats<S.io>(stored, values);
    MINUET_UNROLL
    for (i32 e = 0; e < kElements; ++e) {
      values[e] = epilogue<true, false, S.second_activation>(
          values[e], read_only(p.second.scale + channel + e), read_only(p.second.shift + channel + e), 0.0f,
          p.second.slope);
      most_second = larger_magnitude(most_second, values[e]);
    }
    store_vector(p.second.output, number * p.second.output_ld * Shape::kElement + byte,
                 from_floats<S.io, S.vector_bytes>(values));
    if (overflows(S.io, most_second)) *p.second.overflow = p.overflow_mark;
  }
  return !overflows(DType::F32, most_sum) && !overflows(S.io, most_value);
}

/// Writes zeros to a row of padding.
template <DepthwiseSpec S>
MINUET_HD void clear_depthwise_row(const DepthwiseParams& p, i64 number, i32 vector) {
  constexpr i32 kElement = DepthwiseShape<S>::kElement;
  const Vector<S.vector_bytes> zeros = zero_vector<S.vector_bytes>();
  const i64 byte = i64{vector} * S.vector_bytes;
  store_vector(p.output, number * p.output_ld * kElement + byte, zeros);
  if constexpr (S.second_output) {
    store_vector(p.second.output, number * p.second.output_ld * kElement + byte, zeros);
  }
}

template <DepthwiseSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void depthwise(MINUET_PARAMS(DepthwiseParams) p) {
  using Shape = DepthwiseShape<S>;
  const i64 count = *p.query_count, end = p.padded_rows > count ? p.padded_rows : count;
  const i64 items = depthwise_items(S, end);
  for (i64 item = grid_thread(S.threads); item < items; item += grid_threads(S.threads)) {
    const DepthwiseRows<S> rows(p, item, count);
    float sums[S.rows][Shape::kElements] = {};
    for (i32 word = 0; word < Shape::kMaskWords; ++word) add_offsets<S>(p, rows, count, word, sums);
    bool finite = true;
    MINUET_UNROLL
    for (i32 r = 0; r < S.rows; ++r) {
      if (rows.positions[r] >= end) continue;
      if (rows.positions[r] >= count) {
        clear_depthwise_row<S>(p, rows.numbers[r], rows.vector);
      } else {
        finite = finish_depthwise_row<S>(p, rows.numbers[r], rows.vector, sums[r]) && finite;
      }
    }
    if (!finite) *p.overflow = p.overflow_mark;
  }
}

}  // namespace minuet
