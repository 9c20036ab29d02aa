#include "codegen/choose/tuning_key.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

void change(std::string& value) { value += "x"; }
void change(i64& value) { ++value; }
void change(DType& value) { value = value == DType::F32 ? DType::BF16 : DType::F32; }
void change(KeyType& value) { value = value == KeyType::U32 ? KeyType::U64 : KeyType::U32; }
void change(ConvolutionKind& value) {
  value = value == ConvolutionKind::Strided ? ConvolutionKind::Transposed : ConvolutionKind::Strided;
}

/// Copies of `fields` with one field changed each.
template <class Fields>
std::vector<Fields> with_one_change(const Fields& fields) {
  int count = 0;
  Fields::visit(fields, [&](const char*, const auto&) { ++count; });
  std::vector<Fields> all;
  for (int at = 0; at < count; ++at) {
    Fields changed = fields;
    int i = 0;
    Fields::visit(changed, [&](const char*, auto& value) {
      if (i++ == at) change(value);
    });
    all.push_back(changed);
  }
  return all;
}

TEST(TuningKey, R33_AChangeInAnyFieldOfTheEnvironmentIsAnotherFolder) {
  const TemporaryFolder folder;
  TuningStore store = store_in(folder.path());
  std::vector<TuningEnvironment> all = with_one_change(example_environment());
  ASSERT_EQ(all.size(), 5u) << "GPU, capability, SMs, L2, toolkit";
  all.push_back(example_environment());
  for (const TuningEnvironment& environment : all) {
    EXPECT_FALSE(llvm::errorToBool(store.publish(example_entry(environment))));
  }
  EXPECT_EQ(llvm::cantFail(store.environments()).size(), 6u);
  for (const TuningEnvironment& environment : all) {
    const TuningFolder found = llvm::cantFail(store.load(environment_hash(environment)));
    ASSERT_EQ(found.entries.size(), 1u);
    EXPECT_EQ(found.entries[0].environment, environment);
  }
}

TEST(TuningKey, R33_TheDriverIsRecordedAndChangesNoName) {
  const TemporaryFolder folder;
  TuningStore store = store_in(folder.path());
  TuningEntry entry = example_entry();
  llvm::cantFail(store.publish(entry));
  for (TuningMeasurement& measurement : entry.measurements) measurement.driver = "999.9";
  llvm::cantFail(store.publish(entry));
  EXPECT_EQ(files_below(folder.path()).size(), 1u);
  const TuningFolder found = llvm::cantFail(store.load(environment_hash(entry.environment)));
  ASSERT_EQ(found.entries.size(), 1u);
  EXPECT_EQ(found.entries[0].measurements[0].driver, "999.9");
}

TEST(TuningKey, R33_AChangeInAnyFieldOfTheBucketIsAnotherFile) {
  std::set<std::string> names;
  std::size_t count = 0;
  for (const TuningBucket& bucket :
       {gather_bucket(DType::F16, 64, 27, 1000), scatter_bucket(DType::F16, 64, 27, 1000),
        search_bucket(KeyType::U32, 3, 27, 1000), grouping_bucket(DType::F16, 27, 1000),
        order_bucket(DType::F16, 27, 1000), gemm_bucket(DType::F16, 64, 64, 27, 1000),
        layer_bucket(Operation::Fused, example_problem(), 1000),
        layer_bucket(Operation::Dataflow, example_problem(), 1000),
        layer_bucket(Operation::Dataflow, example_problem(), 1000, 9)}) {
    names.insert(bucket_hash(bucket));
    ++count;
    for (const TuningBucket& changed : with_one_change(bucket)) {
      EXPECT_TRUE(names.insert(bucket_hash(changed)).second) << operation_name(bucket.operation);
      ++count;
    }
  }
  EXPECT_EQ(names.size(), count);
  EXPECT_EQ(count, 9u + 4 + 4 + 4 + 3 + 3 + 5 + 6 + 6 + 7);
}

TEST(TuningKey, R33_DensitiesShareABucketUpToAPowerOfFour) {
  auto density = [](double pairs) {
    return layer_bucket(Operation::Fused, example_problem(), 1000, pairs).log4_density;
  };
  EXPECT_EQ(density(0), 0);
  EXPECT_EQ(density(3.999), 0);
  EXPECT_EQ(density(4), 1);
  EXPECT_EQ(density(15.999), 1);
  EXPECT_EQ(density(16), 2);
  EXPECT_EQ(density(4096), 6);
  EXPECT_EQ(layer_bucket(Operation::Fused, example_problem(), 1000).log4_density, kAnyDensity);
  EXPECT_EQ(buckets_of_layer(example_problem(), 1000, 9)[0].log4_density, 1);
  EXPECT_EQ(buckets_of_layer(example_problem(), 1000, 9)[2].log4_density, kAnyDensity) << "tiles";
  for (const i64 log4 : {0, 1, 2, 6}) EXPECT_EQ(log4_of(least_density_of(log4)), log4);
}

TEST(TuningKey, ALayerOf8BitsIsTunedForTheFusedDataflow) {
  ConvolutionProblem problem = example_problem();
  problem.input_type = DType::S8;
  const std::vector<TuningBucket> buckets = buckets_of_layer(problem, 1000);
  ASSERT_EQ(buckets.size(), 1u);
  EXPECT_EQ(buckets[0], layer_bucket(Operation::Fused, problem, 1000));
  EXPECT_EQ(buckets[0].dtype, DType::S8);
  EXPECT_NE(bucket_hash(buckets[0]), bucket_hash(layer_bucket(Operation::Fused, example_problem(), 1000)));
}

TEST(TuningKey, R33_RowsShareABucketUpToAPowerOfTwo) {
  auto rows = [](i64 count) { return gather_bucket(DType::F16, 64, 27, count); };
  EXPECT_EQ(rows(65536), rows(131071));
  EXPECT_NE(rows(65535), rows(65536));
  EXPECT_EQ(rows(1).log2_rows, 0);
  EXPECT_EQ(rows(i64{1} << 40).log2_rows, 40);
  EXPECT_EQ(rows(0).log2_rows, kAnyRows);
}

/// A folder that was filled by one build is found by the next.
TEST(TuningKey, R33_GoldenHashes) {
  EXPECT_EQ(environment_hash(example_environment()),
            "2d4d917725088eb15e05bd1be9eebe581d0c1f500c0bc8e2dfd65addd079fcf7");
  EXPECT_EQ(bucket_hash(gather_bucket(DType::F16, 64, 27, 100000)),
            "9e18caf550e0568f0724e9ae191bb2c4433207a7f69504de9ba661433257fc90");
  EXPECT_EQ(bucket_hash(search_bucket(KeyType::U64, 3, 8, 0)),
            "c94349762642992138ed95940be790d5592a448e4adb2e0c3cae26f4c9c5687f");
}

}  // namespace
}  // namespace minuet
