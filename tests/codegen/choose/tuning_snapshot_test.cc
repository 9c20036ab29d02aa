#include "codegen/choose/tuning_snapshot.h"
#include "codegen/tuning/load_tuning.h"
#include "codegen/tuning/search_space.h"

#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/mman.h>

#include <cstdio>
#include <map>
#include <random>
#include <set>

#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;

TuningSnapshot snapshot_of(std::vector<TuningEntry> entries) {
  return TuningSnapshot(example_environment(), {{"user", std::move(entries)}});
}

GmasChoice choose(const TuningSnapshot* tuning, const ConvolutionProblem& problem = example_problem(),
                  i64 rows = kExampleRows) {
  return choose_gmas(problem, tuning, rows);
}

/// A gather entry whose fastest configuration is `config`.
TuningEntry entry_with(TuningConfig config, i64 rows = kExampleRows) {
  return with_kernels_of_this_build(make_entry(example_environment(), gather_bucket(DType::F16, 64, 27, rows),
                                               measured(tile_config(8), 14000),
                                               {measured(std::move(config), 12000)}));
}

TEST(TuningSnapshot, R34_AConfigThatTheCodeNoLongerHasIsAMiss) {
  const TuningConfig gone[] = {{{"tile", 16}, {"swizzle", 1}},
                               {},
                               {{"width", 16}},
                               {{"tile", 7}},
                               {{"tile", 0}},
                               {{"tile", -8}},
                               {{"tile", 128}},
                               {{"tile", i64{1} << 40}}};
  const std::string untuned = choices_text(nullptr);
  for (const TuningConfig& config : gone) {
    // As a store gives it back: through text.
    const TuningEntry entry = llvm::cantFail(parse_entry(print_entry(entry_with(config))));
    EXPECT_EQ(entry.measurements[0].config, config);
    const TuningSnapshot snapshot = snapshot_of({entry});
    const GmasChoice choice = choose(&snapshot);
    EXPECT_EQ(choice.gather.tile, 8);
    EXPECT_EQ(sources_of(choice)[0].display_name, sources_of(choose(nullptr))[0].display_name);
    // With the default gone as well the entry is no entry at all.
    TuningEntry useless = entry;
    for (TuningMeasurement& measurement : useless.measurements) measurement.config["swizzle"] = 2;
    const TuningSnapshot empty = snapshot_of({useless});
    EXPECT_EQ(choices_text(&empty), untuned);
  }
}

TEST(TuningSnapshot, R34_TheNextConfigThatStillHoldsIsUsed) {
  TuningEntry entry = example_entry();
  entry.measurements.insert(entry.measurements.begin(), measured({{"tile", 16}, {"swizzle", 1}}, 9000));
  const TuningSnapshot snapshot = snapshot_of({entry});
  EXPECT_EQ(choose(&snapshot).gather.tile, 16);
}

TEST(TuningSnapshot, R34_NothingBehindTheDefaultIsUsed) {
  const TuningSnapshot snapshot =
      snapshot_of({make_entry(example_environment(), example_entry().bucket, measured(tile_config(8), 14000),
                              {measured(tile_config(16), 14000), measured(tile_config(32), 15000)})});
  const GmasChoice choice = choose(&snapshot);
  EXPECT_EQ(choice.gather.tile, 8);
  EXPECT_THAT(choice.reasons,
              Contains("gather tile 8: the default, which was the fastest with 0.014 ms (user)"));
}

TEST(TuningSnapshot, R34_EntriesOfOtherEnvironmentsAreLeftOut) {
  TuningEnvironment other = example_environment();
  other.multiprocessors = 114;
  const TuningSnapshot snapshot = snapshot_of({example_entry(other)});
  EXPECT_EQ(choices_text(&snapshot), choices_text(nullptr));
}

/// The winner beat a default that nobody chooses any more.
TEST(TuningSnapshot, R34_AResultAgainstAnotherDefaultIsAMiss) {
  const TuningBucket tiles = example_entry().bucket,
                     dataflow = layer_bucket(Operation::Dataflow, example_problem(), kExampleRows);
  const auto results = [](const TuningBucket& bucket, const TuningConfig& fallback, const TuningConfig& other,
                          const TuningEnvironment& environment) {
    const TuningEntry entry =
        make_entry(environment, bucket, measured(fallback, 14000), {measured(other, 12000)});
    return TuningSnapshot(environment, {{"user", {entry}}}).size();
  };
  const TuningEnvironment gpu = example_environment();
  EXPECT_EQ(results(tiles, tile_config(8), tile_config(16), gpu), 1u);
  EXPECT_EQ(results(tiles, tile_config(16), tile_config(32), gpu), 0u);
  EXPECT_EQ(results(tiles, tile_config(16), tile_config(8), gpu), 0u) << "today's has no time as a default";
  const TuningConfig fused = config_of(Dataflow::Fused), gmas = config_of(Dataflow::GatherGemmScatter);
  EXPECT_EQ(results(dataflow, fused, gmas, gpu), 1u);
  EXPECT_EQ(results(dataflow, gmas, fused, gpu), 0u);
  // 32-bit types have another default on a GPU than on the CPU.
  const TuningBucket wide =
      layer_bucket(Operation::Dataflow, example_problem(64, 64, DType::F32), kExampleRows);
  TuningEnvironment cpu;
  cpu.gpu = "a processor";
  EXPECT_EQ(results(wide, gmas, fused, gpu), 1u);
  EXPECT_EQ(results(wide, gmas, fused, cpu), 0u);
  EXPECT_EQ(results(wide, fused, gmas, cpu), 1u);
}

/// The default of every task that is measured, but of those for a kernel of a whole layer: one of their
/// buckets has two defaults, with and without a residual.
TEST(TuningSnapshot, R34_TheDefaultOfABucket) {
  ConvolutionProblem problem = example_problem(96, 192);
  std::vector<TuningTask> tasks{search_task(KeyType::U64, 3, 27, 5), grouping_task(problem, 5),
                                order_task(problem, 5)};
  for (const DType dtype : kDTypes) {
    for (const i32 channels : {3, 4, 6, 96}) {
      problem = example_problem(channels, 2 * channels, dtype);
      for (TuningTask& task : kernel_tasks(problem, "sm_90a", Dataflow::GatherGemmScatter, kExampleRows)) {
        tasks.push_back(std::move(task));
      }
      tasks.push_back(dataflow_task(problem, "sm_90a", kExampleRows));
    }
  }
  for (const TuningTask& task : tasks) {
    EXPECT_EQ(default_config_of(task.bucket, false), task.default_config)
        << operation_name(task.bucket.operation) << " of " << task.bucket.channels;
  }
  problem = example_problem(128, 128);
  EXPECT_EQ(default_config_of(layer_bucket(Operation::Fused, problem, 30000), false), std::nullopt);
  const TuningConfig plain = config_of(choose_fused(problem, "sm_90a", 30000).fused);
  problem.residual = true;
  EXPECT_NE(config_of(choose_fused(problem, "sm_90a", 30000).fused), plain);
  EXPECT_EQ(default_config_of(gather_bucket(DType::F16, 0, 27, 5), false), std::nullopt);
}

/// Results serve the architecture that they were measured on, in every spelling, and no other. That a GPU
/// runs the code of an older one of the same major makes no difference.
TEST(TuningSnapshot, R35_ServesTheCapabilityThatItWasMeasuredOn) {
  const char* const archs[] = {"",        "sm_75",   "sm_80",      "sm_86",      "sm_87",      "sm_89",
                               "sm_90",   "sm_90a",  "compute_90", "compute_86", "compute_80", "sm_100",
                               "sm_100a", "sm_100f", "sm_103",     "sm_103a",    "sm_110",     "sm_120",
                               "sm_120a", "sm_121",  "compute_120"};
  const std::map<std::string, std::set<std::string>> served = {{"", {""}},
                                                               {"8.0", {"sm_80", "compute_80"}},
                                                               {"8.6", {"sm_86", "compute_86"}},
                                                               {"8.9", {"sm_89"}},
                                                               {"9.0", {"sm_90", "sm_90a", "compute_90"}},
                                                               {"10.0", {"sm_100", "sm_100a", "sm_100f"}},
                                                               {"10.3", {"sm_103", "sm_103a"}},
                                                               {"11.0", {"sm_110"}},
                                                               {"12.0", {"sm_120", "sm_120a", "compute_120"}},
                                                               {"12.1", {"sm_121"}},
                                                               {"8", {}},
                                                               {"8.", {}},
                                                               {"86", {}},
                                                               {".86", {}}};
  for (const auto& [capability, own] : served) {
    TuningEnvironment environment = example_environment();
    environment.compute_capability = capability;
    const TuningSnapshot measured(environment, std::vector<TuningLayer>()),
        on_trial(environment, TuningConfigs());
    for (const char* arch : archs) {
      EXPECT_EQ(measured.serves(arch), own.count(arch) == 1) << capability << " " << arch;
      EXPECT_EQ(on_trial.serves(arch), own.count(arch) == 1) << capability << " " << arch;
    }
  }
}

TEST(TuningSnapshot, R34_LimitsOfEveryConfig) {
  auto is_valid = [](const TuningBucket& bucket, const TuningConfig& config) {
    return !llvm::errorToBool(validate_config(bucket, config));
  };
  auto search = [&](SearchChoice choice, KeyType key = KeyType::U32) {
    return is_valid(search_bucket(key, 3, 27, 1000), config_of(choice));
  };
  EXPECT_TRUE(search({}));
  EXPECT_TRUE(search({8192, 512, 128}));
  EXPECT_FALSE(search({8193, 512, 128})) << "16384 keys of 4 bytes are more than shared memory";
  EXPECT_TRUE(search({4096, 512, 128}, KeyType::U64));
  EXPECT_FALSE(search({4097, 512, 128}, KeyType::U64));
  EXPECT_FALSE(search({0, 512, 128}));
  EXPECT_FALSE(search({256, 0, 128}));
  EXPECT_FALSE(search({1 << 30, 512, 128}));
  for (const i32 threads : {0, 1, 31, 33, 1056, 2048}) EXPECT_FALSE(search({256, 512, threads})) << threads;
  auto grouping = [&](i64 percent, i64 step, i64 streams = 1) {
    return is_valid(grouping_bucket(DType::F16, 27, 1000),
                    {{"padding_percent", percent}, {"height_step", step}, {"streams", streams}});
  };
  EXPECT_TRUE(grouping(25, 64));
  EXPECT_TRUE(grouping(0, 1));
  EXPECT_FALSE(grouping(25, 0));
  EXPECT_FALSE(grouping(-1, 64));
  EXPECT_FALSE(grouping(100000, 64));
  EXPECT_TRUE(grouping(25, 64, kMostGemmStreams));
  EXPECT_FALSE(grouping(25, 64, 0));
  EXPECT_FALSE(grouping(25, 64, kMostGemmStreams + 1));
  const TuningBucket gemm = gemm_bucket(DType::F16, 64, 96, 27, 1000);
  EXPECT_TRUE(is_valid(gemm, config_of(GemmChoice{kMostGemmAlgorithms - 1})));
  EXPECT_FALSE(is_valid(gemm, config_of(GemmChoice{kMostGemmAlgorithms})));
  EXPECT_FALSE(is_valid(gemm, {{"algorithm", -1}}));
  EXPECT_FALSE(is_valid(gemm, tile_config(1)));
  EXPECT_FALSE(is_valid(gemm_bucket(DType::F16, 64, 0, 27, 1000), config_of(GemmChoice{1})));
  const TuningBucket order = order_bucket(DType::F16, 27, 1000);
  EXPECT_TRUE(is_valid(order, {{"order", 0}}));
  EXPECT_TRUE(is_valid(order, config_of(OrderChoice{})));
  EXPECT_FALSE(is_valid(order, {{"order", 3}}));
  EXPECT_FALSE(is_valid(gather_bucket(DType::F16, 1024, 27, 1), tile_config(512))) << "past the registers";
  EXPECT_FALSE(is_valid(gather_bucket(DType::F16, -8, 27, 1), tile_config(8)));
}

/// Whatever is in a file, what is chosen passes the checks of a choice, and every choice does.
TEST(TuningSnapshot, R34_EveryChoicePassesItsChecks) {
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  int used = 0;
  for (int round = 0; round < 2000; ++round) {
    const i32 channels = 1 + static_cast<i32>(random() % 300), tile = 1 + static_cast<i32>(random() % 40);
    const DType dtype = static_cast<DType>(random() % kDTypeCount);
    auto entry = [&](const TuningBucket& bucket) {
      return make_entry(example_environment(), bucket, measured(*default_config_of(bucket, false), 9),
                        {measured(tile_config(tile), 5)});
    };
    const TuningSnapshot snapshot = snapshot_of(
        {entry(gather_bucket(dtype, channels, 27, 5)), entry(scatter_bucket(dtype, channels, 27, 5))});
    ConvolutionProblem problem = example_problem(channels, channels, dtype);
    problem.input.column = problem.output.column = static_cast<i32>(random() % 9);
    problem.input.ld = problem.output.ld = channels + 8;
    for (const TuningSnapshot* tuning : {&snapshot, static_cast<const TuningSnapshot*>(nullptr)}) {
      const GmasChoice choice = choose(tuning, problem, 5);
      EXPECT_FALSE(llvm::errorToBool(validate_spec(choice.gather)));
      EXPECT_FALSE(llvm::errorToBool(validate_spec(choice.scatter)));
      if (tuning != nullptr && channels % tile == 0) {
        EXPECT_EQ(choice.gather.tile, tile);
        EXPECT_EQ(choice.scatter.tile, tile);
        ++used;
      }
    }
  }
  EXPECT_GT(used, 0);
}

TEST(TuningSnapshot, R35_ATunedChoiceSaysSo) {
  const TuningSnapshot snapshot = snapshot_of(
      {example_entry(),
       make_entry(example_environment(), search_bucket(KeyType::U32, 3, 27, kExampleRows),
                  measured(config_of(SearchChoice{}), 5000),
                  {measured(config_of(SearchChoice{512, 256, 64}), 4000)}),
       make_entry(example_environment(), grouping_bucket(DType::F16, 27, kExampleRows),
                  measured(config_of(GroupingChoice{}), 5000),
                  {measured(config_of(GroupingChoice{0.5, 128, 1}), 4000)}),
       make_entry(example_environment(), gemm_bucket(DType::F16, 64, 64, 27, kExampleRows),
                  measured(config_of(GemmChoice{}), 5000), {measured(config_of(GemmChoice{3}), 4000)})});
  const GmasChoice choice = choose(&snapshot);
  EXPECT_EQ(choice.gather.tile, 16);
  EXPECT_EQ(choice.gather.vector_bytes, 16);
  EXPECT_THAT(choice.reasons,
              Contains("gather tile 16: tuned, 0.012 ms against 0.014 ms of the default (user)"));
  EXPECT_THAT(choice.reasons, Contains(HasSubstr("scatter tile 8 of 64 channels: one access")));
  const MapChoice map = choose_engine(3, 27, &snapshot).map32;
  EXPECT_EQ(map.search_kernel_map.source_block, 512);
  EXPECT_EQ(map.find_query_borders.query_block, 256);
  EXPECT_EQ(map.search_kernel_map.threads, 64);
  EXPECT_EQ(choose_engine(3, 8, &snapshot).map32.search_kernel_map.source_block, 256)
      << "another volume was not measured";
  std::vector<std::string> reasons;
  const GroupingChoice grouping = choose_grouping(example_problem(), &snapshot, kExampleRows, reasons);
  EXPECT_EQ(grouping.padding_threshold, 0.5);
  EXPECT_EQ(grouping.height_step, 128);
  EXPECT_EQ(grouping.streams, 1);
  EXPECT_EQ(choice.gemm.algorithm, 3);
  EXPECT_THAT(choice.reasons, Contains(HasSubstr("GEMMs by cuBLASLt's algorithm 3: tuned, 0.004 ms")));
  EXPECT_EQ(choose(&snapshot, example_problem(64, 96)).gemm.algorithm, 0) << "other channels";
  EXPECT_THAT(reasons, SizeIs(1));
}

TEST(TuningSnapshot, R35_TheUserBeforeTheBundleBeforeTheHeuristic) {
  auto tile = [](std::vector<TuningEntry> user, std::vector<TuningEntry> bundle) {
    const TuningSnapshot snapshot(example_environment(), {{"user", user}, {"bundle", bundle}});
    return choose(&snapshot).gather.tile;
  };
  EXPECT_EQ(tile({}, {}), 8);
  EXPECT_EQ(tile({}, {entry_with(tile_config(32))}), 32);
  EXPECT_EQ(tile({entry_with(tile_config(16))}, {entry_with(tile_config(32))}), 16);
  EXPECT_EQ(tile({entry_with(tile_config(7))}, {entry_with(tile_config(32))}), 8)
      << "the user measured the default, which holds";
  TuningEntry invalid = entry_with(tile_config(16));
  for (TuningMeasurement& measurement : invalid.measurements) measurement.config["swizzle"] = 1;
  EXPECT_EQ(tile({invalid}, {entry_with(tile_config(32))}), 32) << "the first valid one wins";
  EXPECT_EQ(tile({entry_with(tile_config(16), 5)}, {entry_with(tile_config(32))}), 32) << "other rows";
}

TEST(TuningSnapshot, R35_WhereRowsAreNotKnownOrNotMeasuredTheMostAreMeant) {
  const TuningSnapshot snapshot =
      snapshot_of({entry_with(tile_config(16), 100), entry_with(tile_config(32), 1 << 20),
                   entry_with(tile_config(64), 5000)});
  EXPECT_EQ(choose(&snapshot, example_problem(), 0).gather.tile, 32);
  EXPECT_EQ(choose(&snapshot, example_problem(), 100).gather.tile, 16);
  EXPECT_EQ(choose(&snapshot, example_problem(), 200).gather.tile, 32) << "not measured";
  EXPECT_EQ(choose(&snapshot, example_problem(96), 0).gather.tile, 8) << "other channels";
}

TEST(TuningSnapshot, R33_ResultsOfOtherKernelsAreNotLoaded) {
  const TemporaryFolder folder;
  TuningStore store = store_in(folder.path());
  Warnings warnings;
  TuningEntry other = entry_with(tile_config(32));
  other.kernels = std::string(64, '0');
  llvm::cantFail(store.publish(other));
  const auto count = [&](const TuningEntry& in_bundle) {
    return load_tuning(example_environment(), &store, {write_tuning({in_bundle})}, warnings.sink())->size();
  };
  EXPECT_EQ(count(other), 0u);
  EXPECT_EQ(count(example_entry()), 1u);
  EXPECT_THAT(warnings.all(), testing::IsEmpty());
}

TEST(TuningSnapshot, R35_ABundlesResultOfAnotherSchemaIsWarnedOf) {
  Warnings warnings;
  const std::string section = "[{\"schema\": 9}, " + write_tuning({example_entry()}).substr(1);
  EXPECT_EQ(load_tuning(example_environment(), nullptr, {section}, warnings.sink())->size(), 1u);
  EXPECT_THAT(warnings.all(), testing::ElementsAre(AllOf(HasSubstr("a tuning result of a bundle is not used"),
                                                         HasSubstr("has schema 9"))));
}

TEST(TuningSnapshot, R35_LoadedFromTheStoreAndBundles) {
  const TemporaryFolder folder;
  TuningStore store = store_in(folder.path());
  Warnings warnings;
  const std::vector<std::string> bundles{"no section", write_tuning({entry_with(tile_config(32))})};
  auto load = [&] { return load_tuning(example_environment(), &store, bundles, warnings.sink()); };
  const std::shared_ptr<const TuningSnapshot> before = load();
  EXPECT_EQ(choose(before.get()).gather.tile, 32);
  EXPECT_THAT(warnings.all(), SizeIs(1)) << "the bundle that is none";
  llvm::cantFail(store.publish(example_entry()));
  EXPECT_EQ(choose(before.get()).gather.tile, 32) << "a snapshot never changes";
  EXPECT_EQ(choose(load().get()).gather.tile, 16);
  write_text(files_below(folder.path()).front(), "{}");
  EXPECT_EQ(choose(load().get()).gather.tile, 32);
  EXPECT_THAT(warnings.all(), Contains(HasSubstr("a tuning result is not used")));
  EXPECT_EQ(choose(load_tuning(example_environment(), nullptr, {}, warnings.sink()).get()).gather.tile, 8);
}

/// Each process tunes half of the problems; after the barrier both load what both have stored.
TEST(TuningSnapshot, R35_TwoProcessesThatReloadChooseTheSame) {
  const TemporaryFolder folder, results;
  void* const shared =
      ::mmap(nullptr, sizeof(pthread_barrier_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const barrier = static_cast<pthread_barrier_t*>(shared);
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ASSERT_EQ(pthread_barrier_init(barrier, &attributes, 2), 0);
  in_processes(2, [&](int rank) {
    TuningStore store = store_in(folder.path());
    bool good = true;
    int number = 0;
    for (const DType dtype : {DType::F32, DType::F16, DType::BF16}) {
      for (const i32 channels : {32, 64, 96, 256}) {
        if (number++ % 2 != rank) continue;
        const TuningBucket bucket = gather_bucket(dtype, channels, 27, kExampleRows);
        good &= !llvm::errorToBool(store.publish(with_kernels_of_this_build(
            make_entry(example_environment(), bucket, measured(*default_config_of(bucket, false), 14000),
                       {measured(tile_config(16), 12000 + number)}))));
      }
    }
    pthread_barrier_wait(barrier);
    const auto snapshot = load_tuning(example_environment(), &store, {}, [](const std::string&) {});
    write_text(results / std::to_string(rank), choices_text(snapshot.get()));
    return good;
  });
  pthread_barrier_destroy(barrier);
  ::munmap(shared, sizeof(pthread_barrier_t));
  const std::string first = contents(results / "0");
  EXPECT_EQ(first, contents(results / "1"));
  EXPECT_THAT(first, HasSubstr("tuned, 0.012 ms"));
  EXPECT_NE(first, choices_text(nullptr));
}

TEST(TuningSnapshot, R35_ABundlesResultsHoldWhateverTheToolkit) {
  TuningEnvironment here = example_environment();
  here.toolkit = "13.1";
  const TuningSnapshot snapshot(here, {{"bundle", {example_entry()}}});
  EXPECT_EQ(snapshot.size(), 1u);
  here.l2_bytes /= 2;
  EXPECT_EQ(TuningSnapshot(here, {{"bundle", {example_entry()}}}).size(), 0u);
}

TEST(TuningSnapshot, R35_TheUsersResultsAreThoseOfTheToolkitOrWithoutOneOfAny) {
  const TemporaryFolder folder;
  TuningStore store = store_in(folder.path());
  llvm::cantFail(store.publish(example_entry()));
  const auto found = [&](const std::string& toolkit) {
    TuningEnvironment here = example_environment();
    here.toolkit = toolkit;
    return load_tuning(here, &store, {}, [](const std::string& text) { ADD_FAILURE() << text; })->size();
  };
  EXPECT_EQ(found("13.0"), 1u);
  EXPECT_EQ(found("13.1"), 0u);
  EXPECT_EQ(found(""), 1u);
}

}  // namespace
}  // namespace minuet
