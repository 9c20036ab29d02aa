// What there is to try, and that what was found of a whole layer reaches its candidates.
#include "codegen/tuning/search_space.h"

#include <gmock/gmock.h>

#include <set>

#include "codegen/base/arch.h"
#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<TuningTask> tasks_of(const ConvolutionProblem& problem, Dataflow dataflow,
                                 const char* arch = "sm_90a", i64 rows = kExampleRows) {
  return kernel_tasks(problem, arch, dataflow, rows);
}

std::vector<i64> tiles_of(const TuningTask& task) {
  std::vector<i64> tiles;
  for (const TuningConfig& config : task.candidates) tiles.push_back(config.at("tile"));
  return tiles;
}

TEST(SearchSpace, TilesAreAllDivisorsThoseNearTheDefaultFirst) {
  const std::vector<TuningTask> tasks = tasks_of(example_problem(24, 7), Dataflow::GatherGemmScatter);
  ASSERT_THAT(tasks, SizeIs(3));
  EXPECT_EQ(tasks[0].bucket, gather_bucket(DType::F16, 24, 27, kExampleRows));
  EXPECT_EQ(tasks[0].default_config, tile_config(8));
  EXPECT_THAT(tiles_of(tasks[0]), ElementsAre(6, 12, 4, 3, 24, 2, 1));
  EXPECT_EQ(tasks[1].default_config, tile_config(1));
  EXPECT_THAT(tiles_of(tasks[1]), ElementsAre(7));
}

TEST(SearchSpace, GemmsHaveTheFirstOfTheLibrarysAlgorithms) {
  const TuningTask task = tasks_of(example_problem(24, 7), Dataflow::GatherGemmScatter)[2];
  EXPECT_EQ(task.bucket, gemm_bucket(DType::F16, 24, 7, 27, kExampleRows));
  EXPECT_EQ(task.default_config, config_of(GemmChoice{}));
  ASSERT_THAT(task.candidates, SizeIs(kMostGemmAlgorithms - 1));
  for (std::size_t i = 0; i < task.candidates.size(); ++i) {
    EXPECT_EQ(task.candidates[i], config_of(GemmChoice{static_cast<i32>(i) + 1}));
    EXPECT_FALSE(llvm::errorToBool(validate_config(task.bucket, task.candidates[i])));
  }
}

void expect_sound(const TuningTask& task, const ConvolutionProblem& problem, const char* arch) {
  std::set<TuningConfig> known{task.default_config};
  FusedSpec first = choose_fused(problem, arch, kExampleRows).fused;
  for (const TuningConfig& config : task.candidates) {
    EXPECT_TRUE(known.insert(config).second) << "twice";
    EXPECT_FALSE(llvm::errorToBool(validate_config(task.bucket, config)));
    FusedSpec spec = first;
    llvm::cantFail(read_config(config, spec));
    EXPECT_EQ(config_of(spec), config);
    EXPECT_TRUE(runs_on(spec, arch));
    EXPECT_LE(fused_least_sm(spec), capability(arch));
  }
}

TEST(SearchSpace, FusedSpecsFitTheProblemAndTheArchitecture) {
  for (const DType dtype : {DType::F16, DType::TF32, DType::F32}) {
    for (const auto& [in, out] : {std::pair{4, 32}, {32, 32}, {64, 64}, {96, 96}, {192, 128}, {256, 256}}) {
      for (const char* arch : {"sm_80", "sm_90a", "sm_120"}) {
        const ConvolutionProblem problem = example_problem(in, out, dtype);
        const std::vector<TuningTask> tasks = tasks_of(problem, Dataflow::Fused, arch);
        ASSERT_THAT(tasks, SizeIs(1));
        EXPECT_EQ(tasks[0].bucket, layer_bucket(Operation::Fused, problem, kExampleRows));
        EXPECT_GT(tasks[0].candidates.size(), 20u) << in << " " << out << " " << arch;
        expect_sound(tasks[0], problem, arch);
      }
    }
  }
}

ConvolutionProblem integer_problem(i32 in, i32 out, DType input = DType::U8) {
  ConvolutionProblem problem = example_problem(in, out);
  problem.input_type = input;
  problem.output_type = DType::U8;
  return problem;
}

/// A layer of 8-bit tensors has its own bucket, and is tuned for the fused dataflow alone.
TEST(SearchSpace, SpecsOf8BitLayersFitTheProblemAndTheArchitecture) {
  for (const DType input : {DType::U8, DType::S8}) {
    for (const auto& [in, out] : {std::pair{32, 32}, {64, 64}, {96, 96}, {192, 128}, {256, 256}}) {
      for (const char* arch : {"sm_80", "sm_90a", "sm_120"}) {
        const ConvolutionProblem problem = integer_problem(in, out, input);
        const std::vector<TuningTask> tasks = tasks_of(problem, Dataflow::Fused, arch);
        ASSERT_THAT(tasks, SizeIs(1));
        EXPECT_EQ(tasks[0].bucket.dtype, input);
        EXPECT_GT(tasks[0].candidates.size(), 20u) << in << " " << out << " " << arch;
        expect_sound(tasks[0], problem, arch);
        EXPECT_THAT(tasks_of(problem, Dataflow::GatherGemmScatter, arch), IsEmpty());
      }
    }
  }
  const TuningTask large = tasks_of(integer_problem(128, 128), Dataflow::Fused)[0];
  EXPECT_EQ(large.default_config.at("unit"), static_cast<i64>(MmaUnit::Warpgroup));
  EXPECT_EQ(large.candidates[0].at("unit"), static_cast<i64>(MmaUnit::Warp));
  const TuningTask small = tasks_of(integer_problem(64, 64), Dataflow::Fused)[0];
  EXPECT_EQ(small.default_config.at("unit"), static_cast<i64>(MmaUnit::Warp));
  EXPECT_EQ(small.candidates[0].at("unit"), static_cast<i64>(MmaUnit::Warpgroup));
}

/// Persistent blocks were measured with very many rows only, so the tuner does not try them with fewer.
TEST(SearchSpace, PersistentBlocksAreForVeryManyRows) {
  const auto count = [](const ConvolutionProblem& problem, i64 rows, const char* name, i64 value) {
    const TuningTask task = tasks_of(problem, Dataflow::Fused, "sm_90a", rows)[0];
    return llvm::count_if(task.candidates,
                          [&](const TuningConfig& config) { return config.at(name) == value; });
  };
  for (const ConvolutionProblem& problem : {example_problem(96, 96), example_problem(128, 96),
                                            integer_problem(96, 96), example_problem(32, 64)}) {
    EXPECT_EQ(count(problem, 500000, "persistent", 1), 0);
    EXPECT_GE(count(problem, 1000000, "persistent", 1), 1);
  }
  constexpr auto kResident = static_cast<i64>(WeightRoad::Resident);
  EXPECT_GE(count(example_problem(32, 32), 1000000, "weights", kResident), 1);
  EXPECT_EQ(count(example_problem(96, 96), 1000000, "weights", kResident), 0) << "they do not fit";
}

/// With and without, whatever the default is, and not so many that a search does not come to its end.
TEST(SearchSpace, RowNumbersAreStagedOrNot) {
  for (const i32 channels : {32, 64, 96, 128, 256}) {
    for (const char* arch : {"sm_80", "sm_90a"}) {
      for (const i64 rows : {3000, 20000, 80000, 1000000}) {
        const TuningTask task = tasks_of(example_problem(channels, channels), Dataflow::Fused, arch, rows)[0];
        std::set<i64> values;
        for (const TuningConfig& config : task.candidates) values.insert(config.at("staged_rows"));
        EXPECT_THAT(values, ElementsAre(0, 1)) << channels << " channels, " << rows << " rows on " << arch;
        EXPECT_LT(task.candidates.size(), 400u) << channels << " channels, " << rows << " rows on " << arch;
      }
    }
  }
  const TuningTask folded = tasks_of(example_problem(4, 32), Dataflow::Fused)[0];
  for (const TuningConfig& config : folded.candidates) {
    EXPECT_EQ(config.at("staged_rows"), 0) << "steps cover several offsets";
  }
}

TEST(SearchSpace, TheOtherMatrixUnitComesFirst) {
  const TuningTask small = tasks_of(example_problem(48, 64), Dataflow::Fused)[0],
                   large = tasks_of(example_problem(128, 128), Dataflow::Fused)[0];
  EXPECT_EQ(small.default_config.at("unit"), static_cast<i64>(MmaUnit::Warp));
  EXPECT_EQ(small.candidates[0].at("unit"), static_cast<i64>(MmaUnit::Warpgroup));
  EXPECT_EQ(large.default_config.at("unit"), static_cast<i64>(MmaUnit::Warpgroup));
  EXPECT_EQ(large.candidates[0].at("unit"), static_cast<i64>(MmaUnit::Warp));
}

/// Of a whole network a candidate is a round of its own: those of one changed field come first.
void expect_grid(const TuningTask& task, std::size_t ones, std::size_t all) {
  std::set<TuningConfig> known{task.default_config};
  ASSERT_THAT(task.candidates, SizeIs(all));
  for (std::size_t i = 0; i < all; ++i) {
    const TuningConfig& config = task.candidates[i];
    EXPECT_TRUE(known.insert(config).second) << "twice";
    EXPECT_FALSE(llvm::errorToBool(validate_config(task.bucket, config)));
    i64 differing = 0;
    for (const auto& [name, value] : config) differing += task.default_config.at(name) != value ? 1 : 0;
    EXPECT_EQ(differing == 1, i < ones);
  }
}

TEST(SearchSpace, OneSearchAndOneGroupingServeANetwork) {
  const TuningTask search = search_task(KeyType::U64, 3, 27, kExampleRows),
                   grouping = grouping_task(example_problem(), kExampleRows);
  EXPECT_EQ(search.bucket, search_bucket(KeyType::U64, 3, 27, kExampleRows));
  EXPECT_EQ(search.default_config, config_of(SearchChoice{}));
  EXPECT_EQ(search.candidates[0].at("query_block"), 1024);
  expect_grid(search, 12, 5 * 6 * 4 - 1);
  EXPECT_EQ(grouping.bucket, grouping_bucket(DType::F16, 27, kExampleRows));
  EXPECT_EQ(grouping.default_config, config_of(GroupingChoice{}));
  EXPECT_EQ(grouping.candidates[0].at("padding_percent"), 15);
  EXPECT_EQ(grouping.default_config.at("streams"), kMostGemmStreams);
  expect_grid(grouping, 12, 8 * 5 * 2 - 1);
}

TEST(SearchSpace, RowsMayBeOrderedLess) {
  const TuningTask task = order_task(example_problem(), kExampleRows);
  EXPECT_EQ(task.bucket, order_bucket(DType::F16, 27, kExampleRows));
  EXPECT_EQ(task.default_config, config_of(OrderChoice{RowOrder::ByBlock}));
  EXPECT_THAT(task.candidates, ElementsAre(config_of(OrderChoice{RowOrder::ByMask}),
                                           config_of(OrderChoice{RowOrder::AsTheyCome})));
}

TEST(SearchSpace, TheCpuChoosesBetweenDataflowsAlone) {
  EXPECT_THAT(tasks_of(example_problem(), Dataflow::Fused, ""), IsEmpty());
  const TuningTask task = dataflow_task(example_problem(), "", kExampleRows);
  EXPECT_EQ(task.default_config, config_of(Dataflow::Fused));
  EXPECT_THAT(task.candidates, ElementsAre(config_of(Dataflow::GatherGemmScatter)));
}

TEST(SearchSpace, WhatOneDataflowTakesAloneIsNoChoice) {
  ConvolutionProblem large = example_problem();
  large.kernel_size = {17, 17, 17, 1};
  EXPECT_THAT(dataflow_task(large, "sm_90a", kExampleRows).candidates, IsEmpty());
  EXPECT_THAT(tasks_of(large, Dataflow::Fused), IsEmpty());
}

// ---- what is found reaches the candidates --------------------------------------------------------------

TuningSnapshot forced(const TuningConfigs& configs, TuningEnvironment environment = example_environment()) {
  return {environment, configs};
}

FusedSpec spec_for(const TuningSnapshot& tuning, const char* arch, i64 rows) {
  const auto candidates =
      llvm::cantFail(convolution_candidates(example_problem(), arch, &tuning, Dataflow::Fused));
  return select(candidates, rows, {}).choice.get<FusedChoice>().fused;
}

TEST(TunedCandidates, ASpecServesItsRowsAndTheNextOnesToThem) {
  const TuningTask task = tasks_of(example_problem(), Dataflow::Fused)[0];
  ASSERT_EQ(task.bucket.log2_rows, 16);
  const TuningSnapshot tuning = forced({{task.bucket, task.candidates[5]}});
  const auto is_tuned = [&](i64 rows) {
    return config_of(spec_for(tuning, "sm_90a", rows)) == task.candidates[5];
  };
  EXPECT_TRUE(is_tuned(1 << 16));
  EXPECT_TRUE(is_tuned((1 << 17) - 1));
  EXPECT_TRUE(is_tuned(1 << 15));
  EXPECT_TRUE(is_tuned((1 << 18) - 1));
  EXPECT_FALSE(is_tuned((1 << 15) - 1));
  EXPECT_FALSE(is_tuned(1 << 18));
  EXPECT_FALSE(is_tuned(0));
  EXPECT_EQ(spec_for(tuning, "sm_90a", 1000), choose_fused(example_problem(), "sm_90a", 1000).fused);
}

FusedSpec spec_at(const std::vector<Candidate>& candidates, i64 rows, std::optional<double> density) {
  return select(candidates, rows, density).choice.get<FusedChoice>().fused;
}

/// Of every range of rows each density is served by one.
void expect_every_density_once(const std::vector<Candidate>& candidates) {
  for (i64 rows = 0; rows <= i64{1} << 20; rows = std::max<i64>(1, 2 * rows)) {
    for (const double density : {0.0, 1.0, 3.999, 4.0, 9.5, 15.999, 16.0, 27.0}) {
      const auto serves = [&](const Candidate& candidate) {
        return rows >= candidate.least_rows && rows <= candidate.most_rows &&
               density >= candidate.least_density && density <= candidate.most_density;
      };
      EXPECT_EQ(std::count_if(candidates.begin(), candidates.end(), serves), 1) << rows << " " << density;
    }
  }
}

TEST(TunedCandidates, ADensityHasASpecOfItsOwn) {
  const auto task_at = [](double density) {
    return kernel_tasks(example_problem(), "sm_90a", Dataflow::Fused, kExampleRows, density)[0];
  };
  const TuningTask scattered = task_at(1.5), surface = task_at(9);
  EXPECT_EQ(scattered.bucket, task_at(3.999).bucket);
  EXPECT_EQ(surface.bucket, task_at(4).bucket);
  EXPECT_NE(surface.bucket, task_at(16).bucket);
  const TuningSnapshot tuning =
      forced({{scattered.bucket, scattered.candidates[5]}, {surface.bucket, surface.candidates[6]}});
  const auto candidates =
      llvm::cantFail(convolution_candidates(example_problem(), "sm_90a", &tuning, Dataflow::Fused));
  expect_every_density_once(candidates);
  EXPECT_TRUE(needs_density(candidates));
  for (const i64 rows : {kExampleRows, kExampleRows / 2, 2 * kExampleRows}) {
    EXPECT_EQ(config_of(spec_at(candidates, rows, 0.5)), scattered.candidates[5]) << rows;
    EXPECT_EQ(config_of(spec_at(candidates, rows, 3.999)), scattered.candidates[5]) << rows;
    EXPECT_EQ(config_of(spec_at(candidates, rows, 4)), surface.candidates[6]) << rows;
    EXPECT_EQ(config_of(spec_at(candidates, rows, 15.999)), surface.candidates[6]) << rows;
    EXPECT_EQ(spec_at(candidates, rows, 16), choose_fused(example_problem(), "sm_90a", rows).fused)
        << "nobody measured that";
  }
  EXPECT_EQ(spec_at(candidates, 1000, 1.5), choose_fused(example_problem(), "sm_90a", 1000).fused);
}

/// In capacity mode, say.
TEST(TunedCandidates, WhereTheDensityIsNotKnownThatOfMostTimeIsMeant) {
  const auto spec_of_most = [](i64 scattered_ns, i64 surface_ns) {
    std::vector<TuningEntry> entries;
    for (const auto& [density, ns, chosen] : {std::tuple(1.5, scattered_ns, 5), {9.0, surface_ns, 6}}) {
      const TuningTask task =
          kernel_tasks(example_problem(), "sm_90a", Dataflow::Fused, kExampleRows, density)[0];
      entries.push_back(make_entry(example_environment(), task.bucket, measured(task.default_config, ns),
                                   {measured(task.candidates[chosen], ns / 2)}));
    }
    const TuningSnapshot tuning(example_environment(), {{"user", entries}});
    const auto candidates =
        llvm::cantFail(convolution_candidates(example_problem(), "sm_90a", &tuning, Dataflow::Fused));
    expect_every_density_once(candidates);
    return config_of(spec_at(candidates, kExampleRows, {}));
  };
  const TuningTask task = tasks_of(example_problem(), Dataflow::Fused)[0];
  EXPECT_EQ(spec_of_most(20000, 14000), task.candidates[5]);
  EXPECT_EQ(spec_of_most(14000, 20000), task.candidates[6]);
}

TEST(TunedCandidates, AResultWithoutADensityIsForThoseThatHaveNone) {
  const TuningTask any = tasks_of(example_problem(), Dataflow::Fused)[0],
                   surface = kernel_tasks(example_problem(), "sm_90a", Dataflow::Fused, kExampleRows, 9)[0];
  const TuningSnapshot tuning =
      forced({{any.bucket, any.candidates[5]}, {surface.bucket, surface.candidates[6]}});
  const auto candidates =
      llvm::cantFail(convolution_candidates(example_problem(), "sm_90a", &tuning, Dataflow::Fused));
  EXPECT_EQ(config_of(spec_at(candidates, kExampleRows, 1.5)), any.candidates[5]);
  EXPECT_EQ(config_of(spec_at(candidates, kExampleRows, 9)), surface.candidates[6]);
  EXPECT_EQ(config_of(spec_at(candidates, kExampleRows, 20)), any.candidates[5]);
}

/// A plan may be compiled for other GPUs than the one that was measured on.
TEST(TunedCandidates, ASpecIsLeftAloneWhereTheArchitectureDoesNotRunIt) {
  const TuningTask task = tasks_of(example_problem(), Dataflow::Fused)[0];
  const auto by_warpgroups =
      std::find_if(task.candidates.begin(), task.candidates.end(),
                   [](const auto& one) { return one.at("unit") == static_cast<i64>(MmaUnit::Warpgroup); });
  ASSERT_NE(by_warpgroups, task.candidates.end());
  const TuningSnapshot tuning = forced({{task.bucket, *by_warpgroups}});
  EXPECT_EQ(spec_for(tuning, "sm_90a", kExampleRows).unit, MmaUnit::Warpgroup);
  EXPECT_EQ(spec_for(tuning, "sm_80", kExampleRows),
            choose_fused(example_problem(), "sm_80", kExampleRows).fused);
}

TEST(TunedCandidates, ADataflowIsChosenByRows) {
  const TuningBucket bucket = layer_bucket(Operation::Dataflow, example_problem(), 1000);
  TuningEnvironment cpu;
  cpu.gpu = "a processor";
  for (const char* arch : {"sm_90a", ""}) {
    const TuningSnapshot tuning =
        forced({{bucket, config_of(Dataflow::GatherGemmScatter)}}, *arch ? example_environment() : cpu);
    const auto dataflow_at = [&](i64 rows, std::optional<Dataflow> wanted = {}) {
      const auto candidates =
          llvm::cantFail(convolution_candidates(example_problem(), arch, &tuning, wanted));
      return dataflow_of(select(candidates, rows, {}).choice);
    };
    EXPECT_EQ(dataflow_at(1000), Dataflow::GatherGemmScatter) << arch;
    EXPECT_EQ(dataflow_at(100000), Dataflow::Fused) << arch;
    EXPECT_EQ(dataflow_at(10), Dataflow::Fused) << arch;
    EXPECT_EQ(dataflow_at(1000, Dataflow::Fused), Dataflow::Fused) << "the caller's word is the last";
  }
}

/// A trial's configurations come as the tuner, or a study, puts them.
TEST(TunedCandidates, ATrialMovesNoProblemToADataflowThatDoesNotTakeIt) {
  ConvolutionProblem large = example_problem();
  large.kernel_size = {17, 17, 17, 1};
  const TuningSnapshot tuning =
      forced({{layer_bucket(Operation::Dataflow, large, 1000), config_of(Dataflow::Fused)}});
  const auto candidates = llvm::cantFail(convolution_candidates(large, "sm_90a", &tuning));
  EXPECT_EQ(dataflow_of(select(candidates, 1000, {}).choice), Dataflow::GatherGemmScatter);
}

/// One context has plans for both.
TEST(TunedCandidates, TheCpuDoesNotGoByWhatAGpuMeasured) {
  const TuningSnapshot tuning = forced(
      {{layer_bucket(Operation::Dataflow, example_problem(), 1000), config_of(Dataflow::GatherGemmScatter)}});
  const auto candidates = llvm::cantFail(convolution_candidates(example_problem(), "", &tuning));
  EXPECT_EQ(dataflow_of(select(candidates, 1000, {}).choice), Dataflow::Fused);
}

/// A layer of 8-bit tensors has the Spec that was measured for its input's type, and no measured dataflow:
/// one whose input is floating shares a bucket with layers that may run by gather-GEMM-scatter.
TEST(TunedCandidates, LayersOf8BitsHaveResultsOfTheirOwn) {
  const ConvolutionProblem problem = integer_problem(64, 64);
  const TuningTask task = tasks_of(problem, Dataflow::Fused)[0];
  const TuningSnapshot tuning = forced({{task.bucket, task.candidates[3]}});
  const auto spec_of = [&](const ConvolutionProblem& of, const TuningSnapshot& from) {
    const auto candidates = llvm::cantFail(convolution_candidates(of, "sm_90a", &from));
    return select(candidates, kExampleRows, {}).choice.get<FusedChoice>().fused;
  };
  const FusedSpec tuned = spec_of(problem, tuning);
  EXPECT_EQ(config_of(tuned), task.candidates[3]);
  EXPECT_EQ(tuned.io, DType::U8);
  const FusedSpec usual = choose_fused(problem, "sm_90a", kExampleRows).fused;
  EXPECT_EQ(tuned.output_type, usual.output_type);
  EXPECT_EQ(spec_of(example_problem(), tuning),
            choose_fused(example_problem(), "sm_90a", kExampleRows).fused);

  ConvolutionProblem first = example_problem();
  first.output_type = DType::U8;
  const TuningSnapshot moved = forced(
      {{layer_bucket(Operation::Dataflow, first, kExampleRows), config_of(Dataflow::GatherGemmScatter)}});
  EXPECT_EQ(spec_of(first, moved), choose_fused(first, "sm_90a", kExampleRows).fused);
  const TuningEntry entry =
      make_entry(example_environment(), task.bucket, measured(task.default_config, 14000),
                 {measured(task.candidates[3], 12000)});
  EXPECT_EQ(llvm::cantFail(parse_entry(print_entry(entry))), entry);
}

TEST(TunedCandidates, AKindOfConvolutionHasItsOwnResults) {
  ConvolutionProblem strided = example_problem();
  strided.kind = ConvolutionKind::Strided;
  EXPECT_NE(layer_bucket(Operation::Fused, strided, 9), layer_bucket(Operation::Fused, example_problem(), 9));
  EXPECT_NE(bucket_hash(layer_bucket(Operation::Fused, strided, 9)),
            bucket_hash(layer_bucket(Operation::Fused, example_problem(), 9)));
  const TuningTask task = tasks_of(strided, Dataflow::Fused)[0];
  TuningMeasurement fallback = measured(task.default_config, 14000),
                    best = measured(task.candidates[1], 12000);
  const TuningEntry entry = make_entry(example_environment(), task.bucket, fallback, {best});
  EXPECT_EQ(llvm::cantFail(parse_entry(print_entry(entry))), entry);
  EXPECT_THAT(print_entry(entry), HasSubstr("\"kind\": \"strided\""));
}

TEST(TunedCandidates, R34_ASpecThatNoKernelCanBeMadeWithIsAMiss) {
  const TuningTask task = tasks_of(example_problem(), Dataflow::Fused)[0];
  const std::pair<const char*, i64> damages[] = {
      {"step", 0},      {"step", 7},        {"columns", 0}, {"columns", 24},   {"columns", 4096},
      {"warps", 0},     {"warps", 33},      {"split", 0},   {"cluster", 3},    {"prefetch", 0},
      {"stages", 1},    {"stages", 99},     {"blocks", 0},  {"weights", 4},    {"unit", 2},
      {"row_tiles", 0}, {"early_loads", 2}, {"step", 512},  {"staged_rows", 2}};
  for (const auto& [name, value] : damages) {
    TuningConfig config = task.candidates[0];
    config[name] = value;
    EXPECT_TRUE(llvm::errorToBool(validate_config(task.bucket, config))) << name << " " << value;
  }
  TuningBucket bucket = task.bucket;
  bucket.channels = 1 << 20;
  EXPECT_TRUE(llvm::errorToBool(validate_config(bucket, task.candidates[0])));
  const TuningBucket dataflow = layer_bucket(Operation::Dataflow, example_problem(), 9);
  EXPECT_TRUE(llvm::errorToBool(validate_config(dataflow, {{"dataflow", 2}})));
}

}  // namespace
}  // namespace minuet
