// This file divides the rows of a batch norm among blocks and threads.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/batch_norm_kernels.h"

namespace minuet {

/// Describes the elements of a thread: one vector of every n-th row of a piece.
template <auto S>
struct NormThread {
  static constexpr i32 kBytes = S.vector_bytes;
  static constexpr i32 kElements = kBytes / dtype_bytes(S.io);
  static constexpr i32 kRowsAtOnce = S.threads / S.lanes;  // Counts the threads that share the rows.
  static constexpr i32 kColumns = S.lanes * kElements;     // Counts the channels of a block.
  static constexpr i32 kBatch = 4;  // Counts the rows whose loads are in flight at once.

  i64 piece, group;
  i32 lane, share;
  i64 column;  // Is the first channel of the vector.
  bool is_present;

  MINUET_DEVICE NormThread(i64 item, i64 groups, i32 channels) {
    const i32 thread = static_cast<i32>(threadIdx.x);
    piece = item / groups, group = item % groups;
    lane = thread % S.lanes, share = thread / S.lanes;
    column = group * kColumns + lane * kElements;
    is_present = column < channels;
  }

  MINUET_DEVICE i64 byte_of(i64 row, i64 ld) const { return (row * ld + column) * dtype_bytes(S.io); }
  MINUET_DEVICE Vector<kBytes> load(bool present, const NormRows& rows, i64 row) const {
    return load_vector_if<kBytes, true>(present, rows.data, byte_of(row, rows.ld));
  }
  MINUET_DEVICE void store(const NormRows& rows, i64 row, const float* values) const {
    store_vector(rows.data, byte_of(row, rows.ld), from_floats<S.io, kBytes>(values));
  }

  /// Calls load(b, present, row) for the first batch of rows, so that their loads are in flight while the
  /// thread loads what it needs for all rows. All rows lie before `end`.
  template <class Load>
  MINUET_DEVICE void load_first(i64 end, const Load& load) const {
    load_batch(first_row(), last_row(end), load);
  }
  /// Calls use(b, row) for each row of a batch that is present and then load() for the next batch, for all
  /// rows of the thread. load_first() must have loaded the first batch.
  template <class Load, class Use>
  MINUET_DEVICE void for_rows(i64 end, const Load& load, const Use& use) const {
    const i64 last = last_row(end);
    MINUET_NO_UNROLL
    for (i64 first = first_row(); first < last; first += kBatch * kRowsAtOnce) {
      MINUET_UNROLL
      for (i32 b = 0; b < kBatch; ++b) {
        const i64 row = first + b * kRowsAtOnce;
        if (row < last) use(b, row);
      }
      load_batch(first + kBatch * kRowsAtOnce, last, load);
    }
  }

  /// Loads a number for each channel, or sets all to `missing` if there are none.
  MINUET_DEVICE void load_channels(const float* numbers, float missing, float* values) const {
    MINUET_UNROLL
    for (i32 v = 0; v < kElements; ++v)
      values[v] = numbers == nullptr || !is_present ? missing : fresh(numbers + column + v);
  }
  MINUET_DEVICE void load_channels(const float* saved, i32 channels, const float* weight, const float* bias,
                                   NormChannel* result) const {
    float mean[kElements], inverse_std[kElements], scale[kElements], shift[kElements];
    load_channels(saved, 0, mean);
    load_channels(saved + channels, 0, inverse_std);
    load_channels(weight, 1, scale);
    load_channels(bias, 0, shift);
    MINUET_UNROLL
    for (i32 v = 0; v < kElements; ++v) result[v] = {mean[v], inverse_std[v] * scale[v], shift[v]};
  }

 private:
  MINUET_DEVICE i64 first_row() const { return piece * kNormRows + share; }
  /// Returns the end of the rows of the thread, which is 0 if it has no channels.
  MINUET_DEVICE i64 last_row(i64 end) const {
    const i64 piece_end = (piece + 1) * kNormRows;
    return is_present ? (end < piece_end ? end : piece_end) : 0;
  }
  template <class Load>
  MINUET_DEVICE void load_batch(i64 first, i64 last, const Load& load) const {
    MINUET_UNROLL
    for (i32 b = 0; b < kBatch; ++b) {
      const i64 row = first + b * kRowsAtOnce;
      load(b, row < last, row);
    }
  }
};

/// Returns the number as a tensor of type T holds it.
template <DType T>
MINUET_DEVICE float as_stored(float value) {
  constexpr i32 kBytes = dtype_bytes(T);
  float stored = 0;
  to_floats<T>(from_floats<T, kBytes>(&value), &stored);
  return stored;
}

}  // namespace minuet
