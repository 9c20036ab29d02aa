// Defines the key of a GEMM algorithm. It has the shape of the GEMM, and buckets of its height and batch
// size.
//
// The heights of GEMMs depend on the cloud. Algorithms are looked up for buckets of heights, so that the next
// cloud finds them again. All functions are pure arithmetic.
#pragma once

#include <algorithm>
#include <compare>
#include <set>

#include "kernels_templates/shared/key_layout.h"

namespace minuet {

/// Selects how the matrices of the GEMMs in one batch are addressed.
enum class BatchMode : i32 { Single, Strided, Pointers };

struct MatmulShape {
  i32 in_channels = 0;
  i32 out_channels = 0;
  DType io = DType::F16;  // This is the type of features and weights; sums are fp32.
  i32 algorithm = 0;      // Holds an index into cuBLASLt's list of algorithms (see GemmChoice).
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 mistakes an implicit 0 for a null pointer.
  auto operator<=>(const MatmulShape&) const = default;
};

/// Describes the GEMMs output[i] = input[i] weight[i] for `batch` members. Their row-major shapes are
/// [height, in] x [in, out] -> [height, out]. Members follow each other without a gap. Rows of the input are
/// input_ld elements apart.
struct MatmulProblem {
  MatmulShape shape;
  BatchMode mode = BatchMode::Single;
  i64 height = 0;
  i32 batch = 1;
  i64 input_ld = 0;
  /// Each alignment is a number of bytes that divides the address of the operand in every member of the
  /// batch.
  i32 weight_alignment = 16;
  i32 input_alignment = 16;
  i32 output_alignment = 16;
};

// There are few buckets of heights, because loading a plan looks up algorithms for all of them and loads
// their kernels. The least bucket has heights of up to 64 rows, and the largest has heights of more than
// 65,536 rows.
constexpr i32 kLeastHeightBucket = 3, kLargestHeightBucket = 9;

/// Returns the bucket of a height. Bucket b has the heights in (4^(b-1), 4^b]. The least bucket also has all
/// lower heights, and the largest has all greater ones.
constexpr i32 height_bucket(i64 height) {
  const i32 bucket = height <= 1 ? 0 : (bit_width_of(static_cast<u64>(height - 1)) + 1) / 2;
  return std::clamp(bucket, kLeastHeightBucket, kLargestHeightBucket);
}

/// Returns the height that represents a bucket. It is half of 4^bucket.
constexpr i64 bucket_height(i32 bucket) { return i64{1} << (2 * bucket - 1); }

constexpr i32 kLargestBatchBucket = 2;

/// Returns the bucket of a batch size. Bucket 0 is for single GEMMs, bucket 1 for batches of up to 4, and
/// bucket 2 for larger ones.
constexpr i32 batch_bucket(i32 batch) { return batch <= 1 ? 0 : batch <= 4 ? 1 : kLargestBatchBucket; }

/// Returns the batch size that represents a bucket.
constexpr i32 bucket_batch(i32 bucket) { return bucket == 0 ? 1 : bucket == 1 ? 3 : 10; }

/// Returns the largest power of two up to 16 that divides `bytes`.
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
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 mistakes an implicit 0 for a null pointer.
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

/// Returns the GEMM that represents all GEMMs with this key when their algorithm is looked up.
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

/// Returns the key of a batch of medium size in Pointers mode. Its look-up tells whether cuBLASLt supports
/// this mode for the shape. A batch that nevertheless has no algorithm runs member by member.
constexpr MatmulKey pointers_probe(const MatmulShape& shape) {
  MatmulProblem problem;
  problem.shape = shape;
  problem.mode = BatchMode::Pointers;
  problem.height = 4096;
  problem.batch = 4;
  problem.input_ld = shape.in_channels;
  problem.weight_alignment =
      alignment_of(i64{shape.in_channels} * shape.out_channels * dtype_bytes(shape.io));
  return key_of(problem);
}

/// Adds every key that the GEMM groups of a layer can have for any cloud. These are single GEMMs and, if the
/// kernel has several offsets, batches in the mode `batches`. Each may begin at any row of the buffers, so
/// this adds a key for every alignment.
inline void add_group_keys(const MatmulShape& shape, i32 volume, BatchMode batches,
                           std::set<MatmulKey>& keys) {
  MatmulKey key = pointers_probe(shape);
  const i64 input_pitch = i64{shape.in_channels} * dtype_bytes(shape.io);
  const i64 output_pitch = i64{shape.out_channels} * dtype_bytes(DType::F32);
  for (key.input_alignment = alignment_of(input_pitch); key.input_alignment <= 16; key.input_alignment *= 2) {
    for (key.output_alignment = alignment_of(output_pitch); key.output_alignment <= 16;
         key.output_alignment *= 2) {
      for (key.height_bucket = kLeastHeightBucket; key.height_bucket <= kLargestHeightBucket;
           ++key.height_bucket) {
        key.mode = BatchMode::Single;
        key.batch_bucket = 0;
        keys.insert(key);
        key.mode = batches;
        for (key.batch_bucket = 1; key.batch_bucket <= batch_bucket(volume) && volume > 1;
             ++key.batch_bucket) {
          keys.insert(key);
        }
      }
    }
  }
}

/// Adds the keys of the GEMM that reads features in place instead of gathering them. Their rows are
/// `input_ld` elements apart, and the layer reads them from element `column` on.
inline void add_direct_keys(const MatmulShape& shape, i64 input_ld, i64 column, std::set<MatmulKey>& keys) {
  MatmulKey key = pointers_probe(shape);
  key.mode = BatchMode::Single;
  key.batch_bucket = 0;
  key.input_ld = input_ld;
  const i64 element = dtype_bytes(shape.io);
  key.input_alignment = std::min(alignment_of(input_ld * element), alignment_of(column * element));
  for (key.height_bucket = kLeastHeightBucket; key.height_bucket <= kLargestHeightBucket; ++key.height_bucket)
    keys.insert(key);
}

}  // namespace minuet
