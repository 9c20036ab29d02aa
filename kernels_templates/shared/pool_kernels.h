// Spec (compile time) and Params (run time) of the pooling kernel.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// What a pooling makes, per channel, of the inputs that its kernel map leads to one output.
enum class Reduction : i32 { Max, Average, Sum };

/// out[q] = the reduction of in[rows[k][q]] over the offsets k that are there, in ascending k, in fp32; 0
/// where none is.
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
  const i32* output_count;  // device; output_rows at most
  i64 output_rows;
  i32 volume;
  i32 pads_output;  // not 0: rows from the count on become zeros
  void* output;
  i64 output_ld;
  u32* overflow;      // overflow_mark where a number is written that is infinite or NaN, else left alone
  u32 overflow_mark;  // not 0
};

}  // namespace minuet
