#include "codegen/choose/tuning_entry.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "codegen/base/json_text.h"
#include "llvm/Support/JSON.h"
#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

using testing::HasSubstr;

/// A few measurements of a few configurations, with many ties.
TuningEntry random_entry(std::mt19937& random) {
  std::vector<TuningMeasurement> others;
  auto draw = [&](i32 tile) {
    TuningMeasurement measurement = measured(tile_config(tile), 1000 + static_cast<i64>(random() % 3));
    measurement.spread_ns = static_cast<i64>(random() % 2);
    measurement.driver = random() % 2 ? "580" : "590";
    return measurement;
  };
  for (const i32 tile : {2, 4, 16, 32}) {
    if (random() % 2) others.push_back(draw(tile));
  }
  return make_entry(example_environment(), example_entry().bucket, draw(8), others);
}

TEST(TuningEntry, R33_ItsTextSaysWhatItIs) {
  const std::string text = print_entry(example_entry());
  llvm::Expected<llvm::json::Value> value = parse_json(text);
  ASSERT_TRUE(static_cast<bool>(value));
  const llvm::json::Object& object = *(*value->getAsArray())[0].getAsObject();
  EXPECT_EQ(*object.getInteger("schema"), kTuningSchema);
  EXPECT_EQ(object.getString("operation")->str(), "gather");
  EXPECT_EQ(object.getObject("bucket")->getString("dtype")->str(), "fp16");
  EXPECT_EQ(*object.getObject("bucket")->getInteger("channels"), 64);
  EXPECT_EQ(*object.getObject("bucket")->getInteger("log2_rows"), 16);
  EXPECT_EQ(object.getObject("environment")->getString("gpu")->str(), "NVIDIA H200");
  EXPECT_EQ(*object.getObject("environment")->getInteger("multiprocessors"), 132);
  const llvm::json::Object& best = *(*object.getArray("configs"))[0].getAsObject();
  EXPECT_EQ(*best.getObject("config")->getInteger("tile"), 16);
  EXPECT_EQ(*best.getObject("nanoseconds")->getInteger("median"), 12000);
  EXPECT_EQ(best.getString("driver")->str(), "580.65");
  EXPECT_EQ(object.getString("kernels")->str(), example_entry().kernels);
}

TEST(TuningEntry, R33_ReadsBackAsWritten) {
  std::vector<TuningEntry> entries{example_entry()};
  entries.push_back(make_entry(example_environment(), search_bucket(KeyType::U64, 2, 9, 0),
                               measured(config_of(SearchChoice{}), 5000),
                               {measured(config_of(SearchChoice{512, 1024, 256}), 4000)}));
  entries.push_back(make_entry(example_environment(), grouping_bucket(DType::TF32, 27, 1),
                               measured(config_of(GroupingChoice{}), 5000), {}));
  for (const TuningEntry& entry : entries) {
    llvm::Expected<TuningEntry> read = parse_entry(print_entry(entry));
    ASSERT_TRUE(static_cast<bool>(read)) << llvm::toString(read.takeError());
    EXPECT_EQ(*read, entry);
    EXPECT_EQ(print_entry(*read), print_entry(entry));
  }
}

/// Results of before it was measured have none, and hold for any.
TEST(TuningEntry, R33_ADensityIsKeptWhereThereIsOne) {
  const TuningBucket any = layer_bucket(Operation::Dataflow, example_problem(), kExampleRows);
  const TuningBucket scattered = layer_bucket(Operation::Dataflow, example_problem(), kExampleRows, 1.5);
  for (const TuningBucket& bucket : {any, scattered}) {
    const TuningEntry entry =
        make_entry(example_environment(), bucket, measured(config_of(Dataflow::Fused), 14000),
                   {measured(config_of(Dataflow::GatherGemmScatter), 12000)});
    EXPECT_EQ(llvm::cantFail(parse_entry(print_entry(entry))), entry);
    EXPECT_EQ(print_entry(entry).find("density") == std::string::npos, bucket == any);
  }
  // It says nothing of what does not have one.
  std::string text = print_entry(example_entry());
  text.replace(text.find("\"log2_rows\""), 0, "\"log4_density\": 1, ");
  EXPECT_EQ(llvm::cantFail(parse_entry(text)), example_entry());
}

TEST(TuningEntry, R33_AnotherSchemaIsRefused) {
  std::string text = print_entry(example_entry());
  const std::string mark = "\"schema\": " + std::to_string(kTuningSchema);
  ASSERT_NE(text.find(mark), std::string::npos);
  text.replace(text.find(mark), mark.size(), "\"schema\": " + std::to_string(kTuningSchema - 1));
  EXPECT_THAT(take_status(parse_entry(text).takeError()).message(),
              HasSubstr("has schema " + std::to_string(kTuningSchema - 1)));
  EXPECT_THAT(take_status(parse_entry("[{}]").takeError()).message(), HasSubstr("it has no 'schema'"));
}

TEST(TuningEntry, R33_DamagedTextIsAnErrorOrAnEntryAndNeverACrash) {
  const std::string text = print_entry(example_entry());
  for (std::size_t size = 0; size + 2 < text.size(); size += 7) {
    EXPECT_TRUE(llvm::errorToBool(parse_entry(llvm::StringRef(text).take_front(size)).takeError())) << size;
  }
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; ++round) {
    std::string broken = text;
    for (int i = 0; i < 3; ++i) broken[random() % broken.size()] = static_cast<char>(random());
    llvm::Expected<TuningEntry> entry = parse_entry(broken);
    if (!entry) {
      llvm::consumeError(entry.takeError());
      continue;
    }
    const auto& all = entry->measurements;
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](auto& m) { return m.is_default; }));
    llvm::consumeError(validate_config(entry->bucket, all[0].config));
  }
}

TEST(TuningEntry, R33_EveryFieldIsNeeded) {
  for (const char* name :
       {"schema", "operation", "bucket", "environment", "configs", "dtype", "log2_rows", "gpu", "l2_bytes",
        "toolkit", "nanoseconds", "median", "default", "driver", "config", "kernels"}) {
    std::string text = print_entry(example_entry());
    for (std::size_t at = 0; (at = text.find('"' + std::string(name) + "\":", at)) != std::string::npos;) {
      text[at + 1] = '_';
    }
    EXPECT_TRUE(llvm::errorToBool(parse_entry(text).takeError())) << name;
  }
}

TEST(TuningEntry, R34_TheDefaultWinsWhereNothingBeatsIt) {
  auto best = [](std::vector<TuningMeasurement> others) {
    return make_entry(example_environment(), example_entry().bucket, measured(tile_config(8), 14000),
                      std::move(others))
        .measurements.front();
  };
  EXPECT_TRUE(best({}).is_default);
  EXPECT_TRUE(best({measured(tile_config(4), 14001)}).is_default);
  EXPECT_TRUE(best({measured(tile_config(4), 14000)}).is_default) << "as fast is not faster";
  EXPECT_EQ(best({measured(tile_config(4), 13999)}).config, tile_config(4));
}

TEST(TuningEntry, R34_AnEditedFileObeysTheGuard) {
  TuningEntry entry = example_entry();
  std::reverse(entry.measurements.begin(), entry.measurements.end());
  EXPECT_EQ(llvm::cantFail(parse_entry(print_entry(entry))), example_entry());
  for (TuningMeasurement& measurement : entry.measurements) measurement.is_default = false;
  EXPECT_THAT(take_status(parse_entry(print_entry(entry)).takeError()).message(), HasSubstr("default"));
}

TEST(TuningEntry, R35_AMergeLosesNothingAndKnowsNoOrder) {
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const TuningEntry a = random_entry(random), b = random_entry(random), c = random_entry(random);
    EXPECT_EQ(merge_entries(a, b), merge_entries(b, a));
    EXPECT_EQ(merge_entries(merge_entries(a, b), c), merge_entries(a, merge_entries(b, c)));
    EXPECT_EQ(merge_entries(a, a), a);
    const TuningEntry both = merge_entries(a, b);
    for (const TuningEntry& one : {a, b}) {
      for (const TuningMeasurement& measurement : one.measurements) {
        const auto found = std::find_if(both.measurements.begin(), both.measurements.end(),
                                        [&](auto& other) { return other.config == measurement.config; });
        ASSERT_NE(found, both.measurements.end());
        EXPECT_LE(found->median_ns, measurement.median_ns);
      }
    }
  }
}

/// A library that chose another default measured the earlier default as a candidate. A configuration that was
/// the default of one of the two entries is marked so in both orders, whichever measurement of it is kept.
TEST(TuningEntry, R35_AMergeKeepsTheDefaultsOfBoth) {
  const TuningBucket bucket = example_entry().bucket;
  for (const i64 as_candidate : {9000, 10000, 11000}) {
    const TuningEntry a = make_entry(example_environment(), bucket, measured(tile_config(8), 10000), {}),
                      b = make_entry(
                          example_environment(), bucket, measured(tile_config(4), 20000),
                          {measured(tile_config(8), as_candidate), measured(tile_config(16), 15000)});
    for (const TuningEntry& both : {merge_entries(a, b), merge_entries(b, a)}) {
      SCOPED_TRACE(testing::Message() << as_candidate << " ns as a candidate\n" << print_entry(both));
      ASSERT_EQ(both.measurements.size(), 3u);
      EXPECT_EQ(both.measurements[0].config, tile_config(8));
      EXPECT_EQ(both.measurements[0].median_ns, std::min<i64>(as_candidate, 10000));
      for (const TuningMeasurement& measurement : both.measurements)
        EXPECT_EQ(measurement.is_default, measurement.config != tile_config(16));
    }
  }
  // An entry whose default became a candidate of the other still has a default to compare with.
  const TuningEntry only = make_entry(example_environment(), bucket, measured(tile_config(8), 10000), {});
  TuningEntry without = make_entry(example_environment(), bucket, measured(tile_config(4), 20000),
                                   {measured(tile_config(8), 12000)});
  without.measurements.resize(1);  // its candidate alone
  EXPECT_TRUE(merge_entries(only, without).measurements.front().is_default);
  EXPECT_TRUE(merge_entries(without, only).measurements.front().is_default);
}

/// Of clouds twice as large everything takes twice as long, and that says nothing.
TEST(TuningEntry, RunsOnOtherCloudsAreComparedByTheirDefaults) {
  const TuningBucket bucket = example_entry().bucket;
  const TuningEntry mine = make_entry(example_environment(), bucket, measured(tile_config(8), 10000),
                                      {measured(tile_config(16), 9000)}),
                    other = make_entry(example_environment(), bucket, measured(tile_config(8), 20000),
                                       {measured(tile_config(32), 16000), measured(tile_config(16), 19000)});
  const TuningEntry both = merge_runs(mine, other);
  ASSERT_EQ(both.measurements.size(), 3u);
  EXPECT_EQ(both.measurements[0].config, tile_config(32));
  EXPECT_EQ(both.measurements[0].median_ns, 8000);
  EXPECT_EQ(both.measurements[0].spread_ns, 400);
  EXPECT_EQ(both.measurements[1], mine.measurements[0]);
  EXPECT_TRUE(both.measurements[2].is_default);
  EXPECT_EQ(merge_runs(other, mine).measurements[0].config, tile_config(32));
  const TuningEntry another_default =
      make_entry(example_environment(), bucket, measured(tile_config(4), 20000), {});
  EXPECT_EQ(merge_runs(mine, another_default), mine);
}

TEST(TuningEntry, R35_ASectionHasTheSameBytesInWhateverOrder) {
  std::vector<TuningEntry> entries;
  for (const i32 channels : {32, 64, 96, 128}) {
    entries.push_back(make_entry(example_environment(), gather_bucket(DType::F16, channels, 27, 1000),
                                 measured(tile_config(8), 14000), {measured(tile_config(16), 12000)}));
  }
  const std::string bytes = write_tuning(entries);
  EXPECT_EQ(llvm::cantFail(read_tuning(bytes)).size(), entries.size());
  std::mt19937 random(7);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(entries.begin(), entries.end(), random);
    EXPECT_EQ(write_tuning(entries), bytes);
  }
  EXPECT_EQ(write_tuning(llvm::cantFail(read_tuning(bytes))), bytes);
  entries.push_back(entries.front());
  EXPECT_EQ(write_tuning(entries), bytes) << "what comes twice is there once";
  EXPECT_TRUE(llvm::cantFail(read_tuning(write_tuning({}))).empty());
}

/// Two versions of the library wrote to one bundle, say.
TEST(TuningEntry, R33_ResultsOfOtherKernelsAreNeverMerged) {
  TuningEntry other = example_entry();
  other.kernels = std::string(64, '0');
  other.measurements.resize(1);
  other.measurements[0].is_default = true;
  const std::vector<TuningEntry> both = llvm::cantFail(read_tuning(write_tuning({example_entry(), other})));
  EXPECT_THAT(both, testing::UnorderedElementsAre(example_entry(), other));
}

TEST(TuningEntry, R35_ASectionPassesOverOtherSchemas) {
  const std::string bytes = write_tuning({example_entry()});
  const std::string more = "[{\"schema\": 9}, 5, " + bytes.substr(1);
  const std::vector<TuningEntry> entries = llvm::cantFail(read_tuning(more));
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0], example_entry());
  for (const char* broken : {"", "{}", "[", "\x01\x02"}) {
    EXPECT_TRUE(llvm::errorToBool(read_tuning(broken).takeError())) << broken;
  }
}

}  // namespace
}  // namespace minuet
