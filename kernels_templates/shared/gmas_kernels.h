// Spec (compile time) and Params (run time) of the gather and scatter kernels (paper, section 5.2).
//
// A row is `channels` consecutive elements. Rows of a matrix are `ld` elements apart, so that a layer can
// read or write a column range of a wider matrix (a concatenation needs no copy).
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Copies output[i] = input[index[i]], row by row. It converts between the caller's row order and engine
/// order.
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
  const i32* count;  // device: rows at and after the count become zeros, and their index is not read; null:
                     // all rows count
  void* output;
  i64 output_ld;
};

/// Gather (paper, algorithm 2): each thread reads one tile of one input row into registers and writes it to
/// the buffer row of every offset that uses it. TF32 operands are rounded to nearest on the way. Threads past
/// the last input row zero the padding rows.
struct GatherSpec {
  DType io = DType::F16;
  i32 channels = 64;
  i32 tile = 8;           // consecutive channels that one thread handles; divides channels
  i32 vector_bytes = 16;  // width of one access; divides a tile and every row's start
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
  i32 first_row, last_row;   // buffer rows [first, last) of the slice; table entries and padding outside are
                             // skipped
  i64 padding_rows;          // of all slices
  const i32* padding_ends;   // [volume] inclusive sums of each offset's padding rows
  const i32* padding_start;  // [volume] buffer row of each offset's first padding row
  void* buffer;              // [rows of the slice, channels]; padding rows become zero
};

/// Scatter: out[q] = epilogue(sum over offsets of buffer[table[k][q]]), summed in fp32 registers in ascending
/// order of k, with one write and no atomics. Epilogue: * scale + shift, + residual, activation. Sums from
/// the offset that is read in place, or from an earlier slice of the buffer, are added first (sums_in). If
/// another slice follows, the sums are written without the epilogue (sums_out).
struct ScatterSpec {
  DType io = DType::F16;  // type of the output and the residual
  i32 channels = 64;
  i32 tile = 8;
  i32 vector_bytes = 16;  // width of one access to an output or residual row; buffer accesses cover the same
                          // elements
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
  i32 first_row, last_row;  // buffer rows [first, last) of the slice; table entries outside are skipped
  const float* sums_in;     // [rows, channels] or null
  float* sums_out;          // [rows, channels], may be sums_in; null for the last slice
  const float* scale;       // [channels]; null if the Spec has none
  const float* shift;       // [channels]
  const void* residual;
  i64 residual_ld;
  void* output;
  i64 output_ld;
  u32* overflow;      // set to overflow_mark if an infinite or NaN number is written, otherwise unchanged
  u32 overflow_mark;  // not 0
  float slope;        // of the Spec's leaky ReLU; other activations do not read it
};

/// Copies output[slot] = input[order[slot]], slices of `slice_bytes`: weights into the order of their GEMM
/// groups.
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

/// Returns true if a table entry is a row of the slice [first, last). -1 never is.
MINUET_HD constexpr bool is_in_slice(i32 row, i32 first, i32 last) {
  return static_cast<u32>(row - first) < static_cast<u32>(last - first);
}

/// Returns the work items of a gather or scatter launch: tiles of rows, one thread each.
MINUET_HD constexpr i64 tile_count(i64 rows, i32 channels, i32 tile) { return rows * (channels / tile); }

}  // namespace minuet
