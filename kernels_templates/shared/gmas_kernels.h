// Spec (compile time) and Params (run time) of the gather and scatter kernels (paper 5.2).
//
// A row is `channels` consecutive elements; rows of a matrix are `ld` elements apart, so that a
// layer can read or write a column range of a wider matrix (a concatenation needs no copy).
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// output[i] = input[index[i]], row by row: the caller's row order in, and back out.
struct PermuteRowsSpec {
  DType io = DType::F16;
  i32 channels = 64;
  i32 vector_bytes = 16;  // width of one access; divides every row's start and length
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("channels", channels), visitor("vector_bytes", vector_bytes),
        visitor("threads", threads);
  }
};
struct PermuteRowsParams {
  const void* input;
  i64 input_ld;
  const i32* index;  // [rows]
  i64 rows;
  const i32* count;  // device: rows from it on become zeros, and their index is not read; or null
  void* output;
  i64 output_ld;
};

/// Gather (paper algorithm 2): each thread reads one tile of one input row into registers and
/// writes it to the buffer row of every offset that uses it. TF32 rounds to nearest on the way.
/// Rows of padding are zeroed by the threads past the last input row.
struct GatherSpec {
  DType io = DType::F16;
  i32 channels = 64;
  i32 tile = 8;           // consecutive channels one thread handles; divides channels
  i32 vector_bytes = 16;  // width of one access; divides a tile, and every row's start
  i32 threads = 128;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("channels", channels), visitor("tile", tile),
        visitor("vector_bytes", vector_bytes), visitor("threads", threads);
  }
};
struct GatherParams {
  const void* features;
  i64 ld;
  i64 rows;
  const i32* table;  // [volume][rows] buffer row, or -1
  i32 volume;
  i32 first_row, last_row;   // of the slice: other entries of the table, and other padding, are left out
  i64 padding_rows;          // of all slices
  const i32* padding_ends;   // [volume] inclusive sums of each offset's padding rows
  const i32* padding_start;  // [volume] buffer row of each offset's first padding row
  void* buffer;              // [rows of the slice, channels]; zero where they are padding
};

/// Scatter: out[q] = epilogue(sum over offsets of buffer[table[k][q]]), summed in fp32 registers in
/// ascending order of k, one write, no atomics. Epilogue: * scale + shift, + residual, activation.
/// Where the offset that is read in place, or an earlier slice of the buffers, has sums already, they come
/// first; where a slice follows, the sums are written and not finished.
struct ScatterSpec {
  DType io = DType::F16;  // of the output and the residual
  i32 channels = 64;
  i32 tile = 8;
  i32 vector_bytes = 16;  // width of one access to an `io` row; the buffer uses what matches it
  bool scale_shift = true;
  bool residual = false;
  Activation activation = Activation::ReLU;
  i32 threads = 128;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("channels", channels), visitor("tile", tile),
        visitor("vector_bytes", vector_bytes), visitor("scale_shift", scale_shift),
        visitor("residual", residual), visitor("activation", activation), visitor("threads", threads);
  }
};
struct ScatterParams {
  const float* buffer;  // [rows of the slice, channels]
  const i32* table;     // [volume][rows] buffer row, or -1
  i64 rows;
  i32 volume;
  i32 first_row, last_row;  // of the slice: other entries of the table are left out
  const float* sums_in;     // [rows, channels] or null
  float* sums_out;          // [rows, channels], sums_in too; null where the slice is the last
  const float* scale;       // [channels] or null, by the Spec
  const float* shift;       // [channels]
  const void* residual;
  i64 residual_ld;
  void* output;
  i64 output_ld;
  u32* overflow;      // overflow_mark where a number is written that is infinite or NaN, else left alone
  u32 overflow_mark;  // not 0
  float slope;        // of the Spec's leaky ReLU; other activations do not read it
};

/// output[slot] = input[order[slot]], slices of `slice_bytes`: weights into group order.
struct PermuteWeightsSpec {
  i32 vector_bytes = 16;
  i32 threads = 256;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("vector_bytes", vector_bytes), visitor("threads", threads);
  }
};
struct PermuteWeightsParams {
  const void* input;
  void* output;
  const i32* order;  // [volume]
  i64 slice_bytes;   // a multiple of vector_bytes
  i32 volume;
};

/// Whether a table's entry is a row of the slice [first, last); none (-1) never is.
MINUET_HD constexpr bool is_in_slice(i32 row, i32 first, i32 last) {
  return static_cast<u32>(row - first) < static_cast<u32>(last - first);
}

/// Work items of a gather or scatter launch: tiles of rows, one thread each.
MINUET_HD constexpr i64 tile_count(i64 rows, i32 channels, i32 tile) { return rows * (channels / tile); }

}  // namespace minuet
