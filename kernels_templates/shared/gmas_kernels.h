// This file declares the Spec (compile time) and Params (run time) of the gather and scatter kernels (Minuet
// paper, section 5.2), and of the kernels that permute rows and weights. All pointers are device pointers.
//
// A row is `channels` consecutive elements. Rows of a matrix are `ld` elements apart, so that a layer can
// read or write a column range of a wider matrix. A concatenation therefore needs no copy.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// The kernel permute_rows copies output[i] = input[index[i]], row by row. It converts between the caller's
/// row order and engine order, in which keys ascend. Without an index it copies output[i] = input[i].
struct PermuteRowsSpec {
  DType io = DType::F16;
  i32 channels = 64;
  i32 vector_bytes = 16;  // Gives the width of one access, which divides every row's start and length.
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
  /// Holds the input row of each of the `rows` output rows, or -1 for a row of `padding`. May be null.
  const i32* index;
  i64 rows;
  /// Output rows at and after *count are filled with `padding`, and their index is not read. If the pointer
  /// is null, all rows are copied.
  const i32* count;
  void* output;
  i64 output_ld;
  u32 padding;  // Must be 0 or ~0.
};

/// In the kernel gather (Minuet paper, algorithm 2), each thread reads one tile of one input row into
/// registers and writes it to the buffer row of every offset that uses the input row. On the way it rounds
/// TF32 operands to nearest. Threads past the last input row write zeros to the padding rows of the buffer.
struct GatherSpec {
  DType io = DType::F16;
  i32 channels = 64;
  i32 tile = 8;           // Gives the number of channels that one thread handles, which divides `channels`.
  i32 vector_bytes = 16;  // Gives the width of one access, which divides a tile and every row's start.
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
  const i32* table;  // Has the shape [volume][rows] and holds buffer rows, or -1.
  i32 volume;
  /// The launch fills one slice of the buffer, which is the buffer rows [first_row, last_row). It skips table
  /// entries and padding rows outside the slice.
  i32 first_row, last_row;
  i64 padding_rows;  // Gives the number of padding rows of all slices.
  /// Holds, for each of the `volume` offsets, the number of padding rows up to and including this offset.
  const i32* padding_ends;
  const i32* padding_start;  // Holds the buffer row of each offset's first padding row.
  void* buffer;  // Receives rows, in the shape [rows of the slice, channels]. Padding rows become zero.
};

/// The kernel scatter computes out[q] = epilogue(sum over offsets k of buffer[table[k][q]]). A thread adds up
/// a tile in fp32 registers in ascending order of k and writes it once, without atomics. The epilogue
/// multiplies by scale, adds shift, adds the residual and applies the activation. Sums from an offset whose
/// input rows a GEMM reads in place, or from an earlier slice of the buffer, are added first (sums_in). If
/// another slice follows, the kernel writes the sums without the epilogue (sums_out).
struct ScatterSpec {
  DType io = DType::F16;  // Gives the type of the output and the residual.
  i32 channels = 64;
  i32 tile = 8;
  /// Gives the width of one access to an output or residual row. Buffer accesses cover the same elements.
  i32 vector_bytes = 16;
  bool scale_shift = true;
  bool residual = false;
  Activation activation = Activation::ReLU;
  /// True means that the kernel writes a second output too (SecondOutput), with `second_activation`.
  bool second_output = false;
  Activation second_activation = Activation::None;
  i32 threads = 128;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("channels", channels), visitor("tile", tile),
        visitor("vector_bytes", vector_bytes), visitor("scale_shift", scale_shift),
        visitor("residual", residual), visitor("activation", activation),
        visitor("second_output", second_output), visitor("second_activation", second_activation),
        visitor("threads", threads);
  }
};
struct ScatterParams {
  const float* buffer;  // Holds partial sums, in the shape [rows of the slice, channels].
  const i32* table;     // Has the shape [volume][rows] and holds buffer rows, or -1.
  i64 rows;
  i32 volume;
  /// The launch adds up one slice of the buffer, which is the buffer rows [first_row, last_row). It skips
  /// table entries outside the slice.
  i32 first_row, last_row;
  const float* sums_in;  // Holds sums to add first, in the shape [rows, channels], or is null.
  /// Receives the sums in the shape [rows, channels], and may equal sums_in. It is null for the last slice,
  /// whose sums go through the epilogue to the output.
  float* sums_out;
  const float* scale;  // Has `channels` elements, or is null if the Spec has no scale.
  const float* shift;  // Has `channels` elements, or is null if the Spec has no scale.
  const void* residual;
  i64 residual_ld;
  void* output;
  i64 output_ld;
  /// The kernel sets *overflow to overflow_mark if a sum or an output is infinite or NaN, and otherwise
  /// leaves it unchanged.
  u32* overflow;
  u32 overflow_mark;  // Gives the value to store in *overflow, which must not be 0.
  float slope;        // Gives the slope of the leaky ReLU. Other activations do not read it.
  SecondOutput second;
};

/// The kernel permute_weights copies output[slot] = input[order[slot]] in slices of `slice_bytes`. It brings
/// weights into the order of their GEMM groups.
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
  const i32* order;  // Holds the input slice of each of the `volume` output slices.
  i64 slice_bytes;   // The size must be a multiple of vector_bytes.
  i32 volume;
};

/// Returns true if a table entry is a row of the slice [first, last). An entry of -1 never is.
MINUET_HD constexpr bool is_in_slice(i32 row, i32 first, i32 last) {
  return static_cast<u32>(row - first) < static_cast<u32>(last - first);
}

/// Returns the number of tiles of all rows, which a gather or scatter launch handles with one thread each.
MINUET_HD constexpr i64 tile_count(i64 rows, i32 channels, i32 tile) { return rows * (channels / tile); }

}  // namespace minuet
