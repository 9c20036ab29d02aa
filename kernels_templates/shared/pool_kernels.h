// Spec (compile time) and Params (run time) of the pooling kernel.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// How a pooling combines, per channel, the inputs that its kernel map assigns to one output.
enum class Reduction : i32 { Max, Average, Sum };

/// Pooling: out[q] = reduction of in[rows[k][q]] over the offsets k that have a row, in ascending k, in fp32;
/// 0 if there is none.
struct PoolSpec {
  DType io = DType::F16;
  i32 channels = 64;
  i32 vector_bytes = 16;  // width of one access; divides every row's start and length
  Reduction reduction = Reduction::Max;
  i32 threads = 128;
  bool operator==(const PoolSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("channels", channels), visitor("vector_bytes", vector_bytes),
        visitor("reduction", reduction), visitor("threads", threads);
  }
};
struct PoolParams {
  const void* input;
  i64 input_ld;
  const i32* rows;          // [volume][*output_count] input row, or -1; null: each row is its own neighbour
  const i32* output_count;  // device; at most output_rows
  i64 output_rows;
  i32 volume;
  i32 pads_output;  // not 0: rows at and after the count become zeros
  void* output;
  i64 output_ld;
  u32* overflow;      // set to overflow_mark if an infinite or NaN number is written, otherwise unchanged
  u32 overflow_mark;  // not 0
};

}  // namespace minuet
