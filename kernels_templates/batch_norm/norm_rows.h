// This file divides the rows of a batch norm among the threads of a block.
#pragma once

#include "kernels_templates/core/early_loads.h"
#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/batch_norm_kernels.h"

namespace minuet {

/// Returns the number of blocks that a multiprocessor must have registers for. With fewer, a launch whose
/// blocks would fit all at once would need a second round of them.
template <class Spec>
MINUET_HD constexpr i32 norm_blocks_at_once(const Spec& spec) {
  constexpr i32 kThreadsAtOnce = 768;
  return kThreadsAtOnce / spec.threads;
}

/// Describes the elements of a thread: one vector of every n-th row of a part of the rows. A part is a piece,
/// or norm_block_rows() rows. Items are ordered by part, then by group of channels. `Batch` counts the rows
/// whose loads are in flight at once.
template <auto S, i32 Batch>
struct NormThread {
  static constexpr i32 kBytes = S.vector_bytes;
  static constexpr i32 kElements = kBytes / dtype_bytes(S.io);
  static constexpr i32 kBatch = Batch;
  static constexpr i32 kLanes = S.lanes, kThreads = S.threads;
  static constexpr i32 kRowsAtOnce = S.threads / S.lanes;  // Counts the threads that share the rows.
  static constexpr i32 kColumns = S.lanes * kElements;     // Counts the channels of a block.
  static_assert(kColumns <= kThreads, "each channel of a block has a thread that prepares or finishes it");

  i64 part, group;
  i32 lane, share;
  i64 column;  // Is the first channel of the vector.
  bool is_present;

  MINUET_DEVICE NormThread(i64 item, i64 groups, i32 channels) {
    const i32 thread = static_cast<i32>(threadIdx.x);
    part = quotient(item, groups), group = item - part * groups;
    lane = thread % kLanes, share = thread / kLanes;
    column = group * kColumns + lane * kElements;
    is_present = column < channels;
  }

  MINUET_DEVICE i64 byte_of(i64 row, i64 ld) const { return (row * ld + column) * dtype_bytes(S.io); }
  MINUET_DEVICE Vector<kBytes> load(bool present, const NormRows& rows, i64 row) const {
    return load_vector_if<kBytes, true>(present, rows.data, byte_of(row, rows.ld));
  }
  MINUET_DEVICE Vector<kBytes> load_early(bool present, const NormRows& rows, i64 row) const {
    return load_early_if<kBytes>(present, rows.data, byte_of(row, rows.ld));
  }
  MINUET_DEVICE void store(const NormRows& rows, i64 row, const float* values) const {
    store_vector(rows.data, byte_of(row, rows.ld), from_floats<S.io, kBytes>(values));
  }

  /// Calls load(b, present, row) for the first batch of rows. Rows from `end` on are not present. All row
  /// numbers are counted from the first row of the part.
  template <class Load>
  MINUET_DEVICE void load_batch(i32 end, const Load& load) const {
    MINUET_UNROLL
    for (i32 b = 0; b < kBatch; ++b) {
      const i32 row = share + b * kRowsAtOnce;
      load(b, is_present && row < end, row);
    }
  }
  /// Calls use(b, row) for all rows of the thread in front of `end`, and load() for the row that takes the
  /// place in the next batch behind it. load_batch() must have loaded the first batch.
  template <class Load, class Use>
  MINUET_DEVICE void for_rows(i32 end, const Load& load, const Use& use) const {
    if (!is_present) return;
    MINUET_NO_UNROLL
    for (i32 first = share; first < end; first += kBatch * kRowsAtOnce) {
      MINUET_UNROLL
      for (i32 b = 0; b < kBatch; ++b) {
        const i32 row = first + b * kRowsAtOnce, next = row + kBatch * kRowsAtOnce;
        if (row < end) use(b, row);
        load(b, next < end, next);
      }
    }
  }
  /// Calls use(b, row) for the rows of the first batch.
  template <class Use>
  MINUET_DEVICE void use_batch(i32 end, const Use& use) const {
    MINUET_UNROLL
    for (i32 b = 0; b < kBatch; ++b) {
      const i32 row = share + b * kRowsAtOnce;
      if (is_present && row < end) use(b, row);
    }
  }

  /// Returns the channel of the group that the thread prepares, or -1 if there is none.
  MINUET_DEVICE i64 own_channel(i32 channels) const {
    const i32 thread = static_cast<i32>(threadIdx.x);
    const i64 channel = group * kColumns + thread;
    return thread < kColumns && channel < channels ? channel : -1;
  }
};

/// Holds numbers of the channels of a block, one array after the other. Threads prepare them together,
/// because a thread that loaded all numbers of its vector would have more loads for them than for its rows.
template <class Thread, i32 Numbers>
struct alignas(16) ChannelNumbers {
  float numbers[Numbers][Thread::kColumns];

  /// Returns number `which` of the channels of the thread's vector.
  MINUET_DEVICE const float* of(const Thread& at, i32 which) const {
    return numbers[which] + at.lane * Thread::kElements;
  }
  /// Receives the mean, scale and bias of the channels of the thread's vector, which are the first three
  /// numbers.
  MINUET_DEVICE void read(const Thread& at, NormChannel* channels) const {
    MINUET_UNROLL
    for (i32 v = 0; v < Thread::kElements; ++v) channels[v] = {of(at, 0)[v], of(at, 1)[v], of(at, 2)[v]};
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
