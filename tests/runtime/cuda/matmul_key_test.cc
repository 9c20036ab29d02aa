#include "runtime/cuda/matmul_key.h"

#include <gtest/gtest.h>

namespace minuet {
namespace {

TEST(MatmulKey, HeightsFallIntoBucketsInOrder) {
  i32 last = 0;
  for (i64 height = 1; height < 100000; ++height) {
    const i32 bucket = height_bucket(height);
    ASSERT_GE(bucket, last) << height;
    ASSERT_LE(bucket, last + 1) << height;
    if (bucket > 0) {
      ASSERT_GT(height, i64{1} << (bucket - 1));
    }
    ASSERT_LE(height, i64{1} << bucket);
    last = bucket;
  }
  EXPECT_EQ(height_bucket(i64{1} << 40), kLargestHeightBucket);
}

TEST(MatmulKey, TheHeightThatStandsForABucketIsInIt) {
  for (i32 bucket = 0; bucket <= kLargestHeightBucket; ++bucket) {
    EXPECT_EQ(height_bucket(bucket_height(bucket)), bucket);
  }
  for (i32 bucket = 0; bucket <= kLargestBatchBucket; ++bucket) {
    EXPECT_EQ(batch_bucket(bucket_batch(bucket)), bucket);
  }
  EXPECT_EQ(batch_bucket(1 << 20), kLargestBatchBucket);
}

TEST(MatmulKey, AlignmentDividesTheAddress) {
  for (i64 bytes = 1; bytes < 300; ++bytes) {
    const i32 alignment = alignment_of(bytes);
    EXPECT_EQ(bytes % alignment, 0);
    EXPECT_TRUE(alignment == 16 || bytes % (2 * alignment) != 0);
  }
  EXPECT_EQ(alignment_of(0), 16);
}

TEST(MatmulKey, AKeyStandsForItself) {
  MatmulProblem problem;
  problem.shape = {3, 24, DType::BF16};
  problem.mode = BatchMode::Strided;
  problem.batch = 5;
  problem.input_ld = 3;
  problem.weight_alignment = 2;
  problem.input_alignment = 4;
  problem.output_alignment = 8;
  for (i64 height : {1, 2, 3, 64, 1000, 123456}) {
    problem.height = height;
    const MatmulKey key = key_of(problem);
    EXPECT_TRUE(key_of(representative(key)) == key) << height;
  }
  problem.mode = BatchMode::Single;
  problem.batch = 1;
  EXPECT_EQ(representative(key_of(problem)).batch, 1);
}

}  // namespace
}  // namespace minuet
