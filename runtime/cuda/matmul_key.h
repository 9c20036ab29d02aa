// What decides the algorithm of a grouped GEMM: its shape, with heights and batch sizes in buckets.
//
// A height is known only when a cloud is; algorithms are looked up for buckets, so that the next
// cloud finds them again. Pure arithmetic.
#pragma once

#include <compare>

#include "kernels_templates/shared/key_layout.h"

namespace minuet {

/// How the members of one batch are addressed.
enum class BatchMode : i32 { Single, Strided, Pointers };

struct MatmulShape {
  i32 in_channels = 0;
  i32 out_channels = 0;
  DType io = DType::F16;  // of features and weights; sums are fp32
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 that it compares with for one
  auto operator<=>(const MatmulShape&) const = default;
};

/// output[i] = input[i] weight[i] for `batch` members: [height, in] x [in, out] -> [height, out], row
/// major; members follow each other without a gap, input rows are input_ld elements apart.
struct MatmulProblem {
  MatmulShape shape;
  BatchMode mode = BatchMode::Single;
  i64 height = 0;
  i32 batch = 1;
  i64 input_ld = 0;
  i32 weight_alignment = 16;  // bytes that divide every member's address
  i32 input_alignment = 16;
  i32 output_alignment = 16;
};

constexpr i32 kLargestHeightBucket = 22;  // above four million rows the choice does not change
constexpr i32 kLargestBatchBucket = 7;

/// Heights in (2^(b-1), 2^b] share bucket b.
constexpr i32 height_bucket(i64 height) {
  const i32 bucket = height <= 1 ? 0 : bit_width_of(static_cast<u64>(height - 1));
  return bucket < kLargestHeightBucket ? bucket : kLargestHeightBucket;
}

/// The height that stands for a bucket: three quarters of the largest.
constexpr i64 bucket_height(i32 bucket) { return bucket < 2 ? i64{1} << bucket : i64{3} << (bucket - 2); }

constexpr i32 batch_bucket(i32 batch) {
  const i32 bucket = batch <= 1 ? 0 : bit_width_of(static_cast<u64>(batch - 1));
  return bucket < kLargestBatchBucket ? bucket : kLargestBatchBucket;
}

constexpr i32 bucket_batch(i32 bucket) { return 1 << bucket; }

/// The largest power of two up to 16 that divides `bytes`.
constexpr i32 alignment_of(i64 bytes) {
  i32 alignment = 16;
  while (bytes % alignment != 0) alignment /= 2;
  return alignment;
}

struct MatmulKey {
  MatmulShape shape;
  BatchMode mode = BatchMode::Single;
  i32 height_bucket = 0;
  i32 batch_bucket = 0;
  i64 input_ld = 0;
  i32 weight_alignment = 16, input_alignment = 16, output_alignment = 16;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 that it compares with for one
  auto operator<=>(const MatmulKey&) const = default;
};

constexpr MatmulKey key_of(const MatmulProblem& problem) {
  return {problem.shape,
          problem.mode,
          height_bucket(problem.height),
          problem.mode == BatchMode::Single ? 0 : batch_bucket(problem.batch),
          problem.input_ld,
          problem.weight_alignment,
          problem.input_alignment,
          problem.output_alignment};
}

/// The problem that an algorithm is looked up for.
constexpr MatmulProblem representative(const MatmulKey& key) {
  return {key.shape,
          key.mode,
          bucket_height(key.height_bucket),
          key.mode == BatchMode::Single ? 1 : bucket_batch(key.batch_bucket),
          key.input_ld,
          key.weight_alignment,
          key.input_alignment,
          key.output_alignment};
}

}  // namespace minuet
