#include "runtime/cuda/matmul_key.h"

#include <gtest/gtest.h>

#include <random>

namespace minuet {
namespace {

TEST(MatmulKey, HeightsFallIntoBucketsInOrder) {
  i32 last = kLeastHeightBucket;
  for (i64 height = 1; height < 300000; ++height) {
    const i32 bucket = height_bucket(height);
    ASSERT_GE(bucket, last) << height;
    ASSERT_LE(bucket, last + 1) << height;
    if (bucket > kLeastHeightBucket) {
      ASSERT_GT(height, i64{1} << (2 * bucket - 2));
    }
    if (bucket < kLargestHeightBucket) {
      ASSERT_LE(height, i64{1} << (2 * bucket));
    }
    last = bucket;
  }
  EXPECT_EQ(last, kLargestHeightBucket);
  EXPECT_EQ(height_bucket(i64{1} << 40), kLargestHeightBucket);
}

TEST(MatmulKey, WhatStandsForABucketIsInIt) {
  for (i32 bucket = kLeastHeightBucket; bucket <= kLargestHeightBucket; ++bucket) {
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

/// Whatever a cloud makes of a layer's groups, load has looked it up.
TEST(MatmulKey, TheKeysOfALayerAreAll) {
  std::mt19937 random(5);
  const auto below = [&](i64 end) { return static_cast<i64>(random() % static_cast<u64>(end)); };
  for (int round = 0; round < 2000; ++round) {
    const MatmulShape shape{1 + static_cast<i32>(below(40)), 1 + static_cast<i32>(below(40)),
                            kDTypes[below(kDTypeCount)]};
    const i32 volume = 1 + static_cast<i32>(below(130));
    std::set<MatmulKey> keys;
    add_group_keys(shape, volume, BatchMode::Strided, keys);
    MatmulProblem problem;
    problem.shape = shape;
    problem.height = 1 + below(i64{1} << below(24));
    problem.batch = 1 + static_cast<i32>(below(volume));
    problem.mode = problem.batch == 1 ? BatchMode::Single : BatchMode::Strided;
    problem.input_ld = shape.in_channels;
    const i64 first = below(100000), member = problem.batch > 1 ? problem.height : 0;
    const i64 in = i64{shape.in_channels} * dtype_bytes(shape.io), out = shape.out_channels * i64{4};
    problem.weight_alignment = alignment_of(in * shape.out_channels);
    problem.input_alignment = std::min(alignment_of(first * in), alignment_of(member * in));
    problem.output_alignment = std::min(alignment_of(first * out), alignment_of(member * out));
    EXPECT_EQ(keys.count(key_of(problem)), 1u) << problem.height << " " << problem.batch;
    add_direct_keys(shape, 64, 8, keys);
    problem.mode = BatchMode::Single;
    problem.batch = 1;
    problem.input_ld = 64;
    problem.input_alignment = problem.output_alignment = 16;
    EXPECT_EQ(keys.count(key_of(problem)), 1u);
  }
}

TEST(MatmulKey, AKeyStandsForItself) {
  MatmulProblem problem;
  problem.shape = {3, 24, DType::BF16, 2};
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
