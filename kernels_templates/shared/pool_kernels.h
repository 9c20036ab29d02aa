// This file declares the Spec (compile time) and Params (run time) of the kernels of poolings: pool, and for
// gradients pool_gradient and count_inputs. All pointers are device pointers.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Selects how a pooling combines, per channel, the inputs that its kernel map assigns to one output.
enum class Reduction : i32 { Max, Average, Sum };

/// The kernel pool computes out[q] = reduction of in[rows[k][q]] over the offsets k that have a row, in
/// ascending k and in fp32. The result is 0 if no offset has a row. With `winners`, a maximum also tells
/// which input row it comes from.
struct PoolSpec {
  DType io = DType::F16;
  i32 channels = 64;
  i32 vector_bytes = 16;  // Gives the width of one access, which divides every row's start and length.
  Reduction reduction = Reduction::Max;
  i32 threads = 128;
  bool winners = false;  // Says whether the kernel writes PoolParams::winners. Only a maximum has winners.
  bool operator==(const PoolSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("channels", channels), visitor("vector_bytes", vector_bytes),
        visitor("reduction", reduction), visitor("threads", threads), visitor("winners", winners);
  }
};
struct PoolParams {
  const void* input;
  i64 input_ld;
  /// Has the shape [volume][*output_count] and holds input rows, or -1. If the pointer is null, each output
  /// row has one input, the row of the same number, at every offset.
  const i32* rows;
  const i32* output_count;  // The count must be at most output_rows.
  i64 output_rows;
  i32 volume;
  i32 pads_output;  // If not 0, output rows at and after *output_count become zeros.
  void* output;
  i64 output_ld;
  /// The kernel sets *overflow to overflow_mark if it writes an infinite or NaN number, and otherwise leaves
  /// it unchanged.
  u32* overflow;
  u32 overflow_mark;  // Gives the value to store in *overflow, which must not be 0.
  // The kernel uses the following members only with PoolSpec::winners.
  /// Receives, for each channel of each output row, the input row that the maximum comes from, or -1 if the
  /// output has no input. Rows at and after *output_count become -1 where the output is padded.
  i32* winners;
  i64 winners_ld;
  /// Holds the number that stands for each input row in `winners`. If the pointer is null, a row stands for
  /// itself.
  const i32* input_numbers;
};

/// The kernel pool_gradient computes the gradient of row q of a pooling's input, in fp32: the sum over the
/// offsets k that have a row of in[rows[k][q]], the gradient of the output. An average divides each element
/// by the number of inputs of its output, which count_inputs counts. A maximum leaves out the elements whose
/// winner is another row than q.
struct PoolGradientSpec {
  DType io = DType::F16;
  i32 channels = 64;
  i32 vector_bytes = 16;  // Gives the width of one access, which divides every row's start and length.
  Reduction reduction = Reduction::Max;
  i32 threads = 128;
  bool operator==(const PoolGradientSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("channels", channels), visitor("vector_bytes", vector_bytes),
        visitor("reduction", reduction), visitor("threads", threads);
  }
};
struct CountInputsSpec {
  i32 threads = 256;
  bool operator==(const CountInputsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct PoolGradientParams {
  const void* input;  // Points to the gradient of the pooling's output.
  i64 input_ld;
  /// Has the shape [volume][*output_count] and holds rows of the input, or -1. If the pointer is null, each
  /// output row reads the row of the same number, at every offset.
  const i32* rows;
  const i32* output_count;  // The count must be at most output_rows.
  i64 output_rows;
  i32 volume;
  i32 pads_output;  // If not 0, output rows at and after *output_count become zeros.
  void* output;     // Points to the gradient of the pooling's input.
  i64 output_ld;
  /// The kernel sets *overflow to overflow_mark if it writes an infinite or NaN number, and otherwise leaves
  /// it unchanged.
  u32* overflow;
  u32 overflow_mark;  // Gives the value to store in *overflow, which must not be 0.
  /// Has a word for each row of the input. count_inputs adds the number of the output rows that read it, and
  /// the words are 0 before. They are used only by an average.
  u32* counts;
  // The kernel uses the following members only for a maximum.
  const i32* winners;  // Holds, for each element of the input, the number of the row that has won, or -1.
  i64 winners_ld;
  /// Holds the number that stands for each output row in `winners`. If the pointer is null, a row stands for
  /// itself.
  const i32* output_numbers;
};

}  // namespace minuet
