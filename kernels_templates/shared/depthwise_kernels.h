// This file declares the Spec (compile time) and Params (run time) of the depthwise kernel, which computes a
// convolution whose groups have one input channel each. All pointers are device pointers.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// The kernel depthwise computes, for each output row q and output channel c with the multiplier m =
/// out_channels / in_channels,
///
///   output[q][c] = epilogue(sum over offsets k of input[rows[k][q]][c / m] * weights[k][c])
///
/// The offsets that have a row are added in ascending k and in fp32.
struct DepthwiseSpec {
  DType io =
      DType::F16;  // Gives the type of features and weights. The inputs are rounded to TF32 if it is TF32.
  i32 in_channels = 64;
  i32 out_channels = 64;  // Must be a multiple of in_channels.
  i32 volume = 27;        // Gives the number of offsets of the convolution kernel.
  /// Gives the width of one access to an output or residual row, which divides every row's start and length.
  /// The number of elements of an access divides the multiplier, or the multiplier divides it.
  i32 vector_bytes = 16;
  i32 rows = 2;  // Gives the number of rows that a thread computes.
  i32 threads = 128;
  bool scale_shift = true;
  bool residual = false;
  Activation activation = Activation::ReLU;
  /// True means that the kernel writes a second output too (SecondOutput), with `second_activation`.
  bool second_output = false;
  Activation second_activation = Activation::None;
  bool operator==(const DepthwiseSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("in_channels", in_channels), visitor("out_channels", out_channels),
        visitor("volume", volume), visitor("vector_bytes", vector_bytes), visitor("rows", rows),
        visitor("threads", threads), visitor("scale_shift", scale_shift), visitor("residual", residual),
        visitor("activation", activation), visitor("second_output", second_output),
        visitor("second_activation", second_activation);
  }
};

/// The views of the kernel map are those of the fused kernel (FusedParams), and the members of the same names
/// have the same meaning.
struct DepthwiseParams {
  const void* input;
  i64 input_ld;
  const i32* rows;
  const u32* masks;
  i64 row_stride;
  const i32* order;
  i32 ordered_views;
  const i32* query_count;
  /// The kernel writes zeros to the output rows from *query_count up to this number.
  i64 padded_rows;
  const void* weights;  // Has the shape [volume][out_channels] and is aligned to 16 bytes.
  /// Has out_channels elements, as does `shift`. Both are null if the Spec has no scale.
  const float* scale;
  const float* shift;
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

/// Returns the number of elements that a thread computes of each of its rows.
MINUET_HD constexpr i32 depthwise_elements(const DepthwiseSpec& spec) {
  return spec.vector_bytes / dtype_bytes(spec.io);
}
/// Returns the number of threads that compute the channels of one row.
MINUET_HD constexpr i32 depthwise_vectors(const DepthwiseSpec& spec) {
  return spec.out_channels / depthwise_elements(spec);
}
/// Returns the number of rows whose channels a warp computes at once, at least 1. Neighbouring threads of a
/// warp read neighbouring row numbers.
MINUET_HD constexpr i32 depthwise_slots(const DepthwiseSpec& spec) {
  return depthwise_vectors(spec) >= 32 ? 1 : 32 / depthwise_vectors(spec);
}
/// Returns the number of threads that have work for `rows` rows.
MINUET_HD constexpr i64 depthwise_items(const DepthwiseSpec& spec, i64 rows) {
  const i64 tile = i64{depthwise_slots(spec)} * spec.rows;
  return (rows + tile - 1) / tile * depthwise_slots(spec) * depthwise_vectors(spec);
}

}  // namespace minuet
