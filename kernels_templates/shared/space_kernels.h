// This file declares the Spec (compile time) and Params (run time) of the kernels that copy features between
// a level and a coarser one, whose rows have the features of their children side by side. All pointers are
// device pointers.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// The kernel space_to_channel computes out[q][k * channels + c] = in[rows[k][q]][c] for each offset k, and 0
/// if the offset has no row. It copies bits.
struct SpaceToChannelSpec {
  DType io = DType::F16;
  i32 channels = 64;      // Counts the channels of the finer level.
  i32 volume = 8;         // Counts the offsets, which are the children of a coarser cell.
  i32 vector_bytes = 16;  // Gives the width of one access, which divides every row's start and `channels`.
  i32 threads = 128;
  bool operator==(const SpaceToChannelSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("channels", channels), visitor("volume", volume),
        visitor("vector_bytes", vector_bytes), visitor("threads", threads);
  }
};

/// The kernel channel_to_space computes out[p][c] = in[rows[k][p]][k * channels + c] for the one offset k
/// that has a row, and 0 if there is none. It copies bits. The members are those of SpaceToChannelSpec.
struct ChannelToSpaceSpec {
  DType io = DType::F16;
  i32 channels = 64;
  i32 volume = 8;
  i32 vector_bytes = 16;
  i32 threads = 128;
  bool operator==(const ChannelToSpaceSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("channels", channels), visitor("volume", volume),
        visitor("vector_bytes", vector_bytes), visitor("threads", threads);
  }
};

struct SpaceParams {
  const void* input;
  i64 input_ld;
  const i32* rows;          // Has the shape [volume][*output_count] and holds input rows, or -1.
  const i32* output_count;  // The count must be at most output_rows.
  i64 output_rows;
  void* output;
  i64 output_ld;
  /// The kernel sets *overflow to overflow_mark if it writes an infinite or NaN number, and otherwise leaves
  /// it unchanged.
  u32* overflow;
  u32 overflow_mark;  // Gives the value to store in *overflow, which must not be 0.
  i32 pads_output;    // If not 0, output rows at and after *output_count become zeros.
};

}  // namespace minuet
