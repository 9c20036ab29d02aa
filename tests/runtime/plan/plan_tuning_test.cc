// What was measured reaches the plans of a context, once it is asked for (R33 to R35).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "codegen/bundle/bundle_writer.h"
#include "runtime/abi/context.h"
#include "runtime/network/shipped_network.h"
#include "runtime/plan/compiled_plan.h"
#include "runtime/tuning/map_groups.h"
#include "runtime/tuning/network_meter.h"
#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

DeviceInfo example_gpu() {
  DeviceInfo info;
  info.name = "cuda:0";
  info.description = "NVIDIA H200";
  info.arch = "sm_90a";
  info.compute_capability = "9.0";
  info.multiprocessors = 132;
  info.l2_bytes = 52428800;
  return info;
}

/// A layer of 64 fp16 channels, 27 offsets.
std::shared_ptr<const CompiledPlan> plan_of(std::shared_ptr<const TuningSnapshot> tuning,
                                            const char* arch = "sm_90a") {
  LayerParameters parameters;
  parameters.weight.assign(size_t{27} * 64 * 64, 1.0f);
  const auto plan = llvm::cantFail(
      Plan::create(by(example_problem(), Dataflow::GatherGemmScatter), parameters, std::move(tuning)));
  return llvm::cantFail(CompiledPlan::create(*plan, arch));
}

std::vector<std::string> names_of(const std::vector<KernelRequest>& requests) {
  std::vector<std::string> names;
  for (const KernelRequest& request : requests) names.push_back(request.source.display_name);
  return names;
}

std::vector<std::string> kernels_of(std::shared_ptr<const TuningSnapshot> tuning) {
  return names_of(plan_of(std::move(tuning))->requests());
}

class PlanTuning : public testing::Test {
 protected:
  std::shared_ptr<Context> make_context(bool disk = true) {
    CacheOptions options;
    options.directory = folder_ / "cache";
    options.use_disk = disk;
    options.warn = [this](const std::string& text) { warnings_.push_back(text); };
    return llvm::cantFail(Context::create(std::move(options), {"fixed", "", MINUET_FAKE_HELPER}));
  }
  /// Of the example's GPU, this build and the fake's toolkit.
  TuningEnvironment environment() {
    TuningEnvironment environment = tuning_environment(example_gpu());
    environment.toolkit = toolkit_of(llvm::cantFail(make_context()->cache()->compiler_info()).id);
    EXPECT_NE(environment.toolkit, "");
    return environment;
  }
  TuningStore store() {
    return {folder_ / "cache", tuning_folder_of_cache(), process_policy(process_environment()),
            real_file_system()};
  }

  TemporaryFolder folder_;
  std::vector<std::string> warnings_;
};

TEST_F(PlanTuning, R35_APlanTakesWhatTheUserStored) {
  const std::shared_ptr<Context> context = make_context();
  EXPECT_EQ(context->tuning(), nullptr);
  EXPECT_EQ(llvm::cantFail(context->load_tuning(example_gpu())), 0u);
  EXPECT_EQ(kernels_of(context->tuning()), kernels_of(nullptr));

  // Stored by another process, say: seen when it is asked for, and not before.
  llvm::cantFail(store().publish(example_entry(environment())));
  EXPECT_EQ(kernels_of(context->tuning()), kernels_of(nullptr));
  EXPECT_EQ(llvm::cantFail(context->load_tuning(example_gpu())), 1u);
  const std::vector<std::string> tuned = kernels_of(context->tuning());
  EXPECT_THAT(kernels_of(nullptr), Contains(HasSubstr("gather-f16-c64-t8")));
  EXPECT_THAT(tuned, Contains(HasSubstr("gather-f16-c64-t16")));
  EXPECT_THAT(tuned, Not(Contains(HasSubstr("gather-f16-c64-t8"))));
  EXPECT_TRUE(warnings_.empty()) << warnings_.front();
}

TEST_F(PlanTuning, R33_AnotherGpuDoesNotTakeIt) {
  llvm::cantFail(store().publish(example_entry(environment())));
  const std::shared_ptr<Context> context = make_context();
  DeviceInfo other = example_gpu();
  other.multiprocessors = 114;
  EXPECT_EQ(llvm::cantFail(context->load_tuning(other)), 0u);
}

TEST_F(PlanTuning, R35_TheUsersResultGoesBeforeABundles) {
  const TuningEnvironment here = environment();
  const TuningBucket gather = gather_bucket(DType::F16, 64, 27, kExampleRows),
                     scatter = scatter_bucket(DType::F16, 64, 27, kExampleRows);
  const auto best = [&](const TuningBucket& bucket, i32 tile) {
    return with_kernels_of_this_build(
        make_entry(here, bucket, measured(tile_config(8), 14000), {measured(tile_config(tile), 9000)}));
  };
  llvm::cantFail(store().publish(best(gather, 16)));
  const std::string path = folder_ / "a.bundle";
  llvm::cantFail(write_bundle(path, "sm_90a", {}, write_tuning({best(gather, 32), best(scatter, 32)})));

  const std::shared_ptr<Context> context = make_context();
  llvm::cantFail(context->cache()->add_bundle({path, ""}));
  EXPECT_EQ(llvm::cantFail(context->load_tuning(example_gpu())), 2u);
  const std::vector<std::string> kernels = kernels_of(context->tuning());
  EXPECT_THAT(kernels, Contains(HasSubstr("gather-f16-c64-t16")));
  EXPECT_THAT(kernels, Contains(HasSubstr("scatter-f16-c64-t32")));

  // Without a folder the bundle alone is asked.
  const std::shared_ptr<Context> in_memory = make_context(/*disk=*/false);
  llvm::cantFail(in_memory->cache()->add_bundle({path, ""}));
  EXPECT_EQ(llvm::cantFail(in_memory->load_tuning(example_gpu())), 2u);
  EXPECT_THAT(kernels_of(in_memory->tuning()), Contains(HasSubstr("gather-f16-c64-t32")));
}

/// Which of them runs, the cloud decides: a compiled plan, and with it a bundle, has the kernels of all.
TEST_F(PlanTuning, APlanHasTheKernelsOfEveryBucketOnce) {
  const TuningEnvironment here = environment();
  const std::pair<i64, i32> buckets[] = {{1000, 16}, {100000, 32}, {10000, 16}};
  for (const auto& [rows, tile] : buckets) {
    llvm::cantFail(store().publish(with_kernels_of_this_build(
        make_entry(here, gather_bucket(DType::F16, 64, 27, rows), measured(tile_config(8), 14000),
                   {measured(tile_config(tile), 9000)}))));
  }
  const std::shared_ptr<Context> context = make_context();
  ASSERT_EQ(llvm::cantFail(context->load_tuning(example_gpu())), 3u);
  std::vector<std::string> gathers;
  for (const std::string& name : kernels_of(context->tuning())) {
    if (name.find("gather-") == 0) gathers.push_back(name);
  }
  EXPECT_THAT(gathers,
              UnorderedElementsAre(HasSubstr("gather-f16-c64-t16"), HasSubstr("gather-f16-c64-t32")));
  const auto plan = plan_of(context->tuning());
  EXPECT_EQ(select(plan->candidates[0], 1000, 9).choice.get<GmasChoice>().gather.tile, 16);
  EXPECT_EQ(select(plan->candidates[0], 5000, 9).choice.get<GmasChoice>().gather.tile, 32);
  EXPECT_EQ(select(plan->candidates[0], 10000, 9).choice.get<GmasChoice>().gather.tile, 16);
  EXPECT_EQ(plan_of(context->tuning(), "")->candidates[0].size(), 1u) << "of the CPU";
}

/// Two GPUs of one architecture, each with its own results.
TEST_F(PlanTuning, R35_ABundleHasTheKernelsThatTunedGpusChoose) {
  TuningEnvironment h200 = environment(), h100 = h200;
  h100.gpu = "NVIDIA H100";
  const auto best = [&](const TuningEnvironment& gpu, i32 tile) {
    return make_entry(gpu, gather_bucket(DType::F16, 64, 27, kExampleRows), measured(tile_config(8), 14000),
                      {measured(tile_config(tile), 9000)});
  };
  LayerParameters parameters;
  parameters.weight.assign(size_t{27} * 64 * 64, 1.0f);
  const auto plan =
      llvm::cantFail(Plan::create(by(example_problem(), Dataflow::GatherGemmScatter), parameters, nullptr));
  const auto gathers = [&](const std::vector<TuningEntry>& results) {
    std::set<std::string> gathers;
    for (const std::string& name : names_of(llvm::cantFail(requests_ahead(*plan, "sm_90a", results)))) {
      if (name.find("gather-f16-c64-t") == 0) gathers.insert(name.substr(0, name.find("-v")));
    }
    return gathers;
  };
  EXPECT_THAT(gathers({}), ElementsAre("gather-f16-c64-t8"));
  EXPECT_THAT(gathers({best(h200, 16), best(h100, 32)}),
              ElementsAre("gather-f16-c64-t16", "gather-f16-c64-t32", "gather-f16-c64-t8"));
}

TEST_F(PlanTuning, ASearchAGroupingAndAnOrderAreThoseOfTheLargestKernel) {
  const TuningEnvironment here = environment();
  SearchChoice search{128, 256, 64};
  GroupingChoice grouping{0.5, 32};
  llvm::cantFail(store().publish(with_kernels_of_this_build(
      make_entry(here, search_bucket(KeyType::U32, 3, 27, kExampleRows),
                 measured(config_of(SearchChoice{}), 900), {measured(config_of(search), 800)}))));
  llvm::cantFail(store().publish(with_kernels_of_this_build(
      make_entry(here, grouping_bucket(DType::F16, 27, kExampleRows),
                 measured(config_of(GroupingChoice{}), 900), {measured(config_of(grouping), 800)}))));
  llvm::cantFail(store().publish(with_kernels_of_this_build(
      make_entry(here, order_bucket(DType::F16, 27, kExampleRows), measured(config_of(OrderChoice{}), 900),
                 {measured(config_of(OrderChoice{RowOrder::ByMask}), 800)}))));
  const std::shared_ptr<Context> context = make_context();
  ASSERT_EQ(llvm::cantFail(context->load_tuning(example_gpu())), 3u);
  NetworkProblem problem;
  problem.description = llvm::cantFail(parse_network(llvm::cantFail(shipped_network("minkunet42"))));
  problem.channels.assign(9, 8);
  problem.dataflow = Dataflow::GatherGemmScatter;
  const auto plan = llvm::cantFail(CompiledPlan::create(
      *llvm::cantFail(Plan::create(problem, ParameterSource(uint64_t{1}), context->tuning())), "sm_90a"));
  EXPECT_EQ(plan->engine.map32.search_kernel_map.source_block, 128);
  EXPECT_EQ(plan->engine.map64.search_kernel_map.source_block, SearchChoice{}.source_block);
  EXPECT_EQ(plan->grouping.height_step, 32);
  EXPECT_EQ(plan->grouping.padding_threshold, 0.5);
  EXPECT_EQ(plan->order.order, RowOrder::ByMask);
  EXPECT_EQ(plan_of(context->tuning())->order.order, OrderChoice().order) << "the caller's maps";
}

/// Two levels, each with layers of two shapes; a third shape is on both.
TEST(TunedMaps, WhatSharesAMapStandsOrFallsTogether) {
  const auto bucket = [](i32 channels) {
    return layer_bucket(Operation::Dataflow, example_problem(channels, channels), kExampleRows);
  };
  const std::set<TuningBucket> first{bucket(16), bucket(32)}, second{bucket(64), bucket(96)};
  EXPECT_THAT(group_by_map({}), testing::IsEmpty());
  EXPECT_THAT(group_by_map({{0, bucket(16)}, {1, bucket(64)}, {0, bucket(32)}, {1, bucket(96)}}),
              ElementsAre(first, second));
  std::set<TuningBucket> all = first;
  all.insert(second.begin(), second.end());
  EXPECT_THAT(group_by_map({{0, bucket(16)},
                            {0, bucket(32)},
                            {1, bucket(64)},
                            {1, bucket(96)},
                            {2, bucket(32)},
                            {2, bucket(96)}}),
              ElementsAre(all));
  EXPECT_THAT(group_by_map({{7, bucket(16)}, {9, bucket(16)}}), ElementsAre(std::set{bucket(16)}));
}

// ---- comparisons ----------------------------------------------------------------------------------------

TEST(NetworkMeterTest, WholeInferencesAreComparedWhereThereIsTimeForThreePasses) {
  NetworkProblem problem;
  problem.description = llvm::cantFail(parse_network(
      R"({"name": "small", "ndim": 3, "in_channels": 4, "channels": [4],
          "layers": [{"op": "block", "name": "a", "width": 0, "kernel_size": 3}]})"));
  problem.dtype = DType::F32;
  const std::shared_ptr<const Plan> plan =
      llvm::cantFail(Plan::create(problem, ParameterSource(uint64_t{1})));
  const std::vector<i32> voxels{0, 0, 0, 0, 0, 0, 0, 1, 0, 5, 5, 5};
  MeterOptions options;
  options.clouds = {{voxels.data(), 3}};
  options.repeats = 5;
  const auto meter = llvm::cantFail(
      NetworkMeter::create(plan, nullptr, llvm::cantFail(open_cpu_device(1)), TuningEnvironment(), options));
  const auto passes_in = [&](double seconds) {
    const TuningSamples samples = llvm::cantFail(meter->measure_network({}, seconds));
    EXPECT_EQ(samples.trial.size(), samples.fallback.size());
    return samples.trial.size();
  };
  EXPECT_LT(meter->least_network_seconds(), meter->network_seconds());
  EXPECT_EQ(passes_in(0), 0u);
  EXPECT_EQ(passes_in(meter->least_network_seconds() * 0.99), 0u);
  EXPECT_EQ(passes_in(meter->least_network_seconds()), 3u);
  EXPECT_EQ(passes_in(1e9), 5u);
  // An order is measured by what a cloud takes from its coordinates on.
  const TuningBucket order = order_bucket(DType::F32, 27, 3);
  const auto samples = llvm::cantFail(meter->measure({{order, config_of(OrderChoice{RowOrder::ByMask})}}));
  ASSERT_EQ(samples.count(order), 1u);
  EXPECT_EQ(samples.at(order).trial.size(), 5u);
  EXPECT_THAT(samples.at(order).trial, testing::Each(testing::Gt(0)));
}

// ---- density --------------------------------------------------------------------------------------------

/// How many pairs a caller's map has is not asked: the first that serves the rows.
TEST(TunedDensity, RowsAloneSelectForMapsOfTheCaller) {
  ConvolutionProblem problem = example_problem(1, 1, DType::F32);
  LayerParameters parameters;
  parameters.weight.assign(27, 1.0f);
  const std::shared_ptr<const Plan> plan =
      llvm::cantFail(Plan::create(by(problem, Dataflow::Fused), parameters, nullptr));
  const std::shared_ptr<Device> device = llvm::cantFail(open_cpu_device(1));
  auto compiled = std::make_shared<CompiledPlan>(*llvm::cantFail(CompiledPlan::create(*plan, "")));
  ASSERT_EQ(compiled->candidates[0].size(), 1u);
  Candidate scattered = compiled->candidates[0][0], filled = scattered;
  scattered.most_density = 2;
  filled.least_density = 2;
  CacheOptions in_memory;
  in_memory.use_disk = false;
  auto cache = llvm::cantFail(KernelCache::create(std::move(in_memory), nullptr, make_environment({})));
  const auto engines = llvm::cantFail(MapEngines::create(device, *cache, 3));
  const std::vector<i32> voxels{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2};  // 7 pairs of 3 rows
  const std::shared_ptr<const CoordinateSet> set =
      llvm::cantFail(CoordinateSet::create(engines, {}, voxels.data(), 3, nullptr));
  const std::shared_ptr<const KernelMap> map =
      llvm::cantFail(KernelMap::create(set, set, problem, /*transposed=*/false, nullptr));
  EXPECT_EQ(llvm::cantFail(map->pairs()), 7);
  for (const bool scattered_first : {true, false}) {
    compiled->candidates[0] =
        scattered_first ? std::vector{scattered, filled} : std::vector{filled, scattered};
    const auto loaded = llvm::cantFail(LoadedPlan::create(plan, compiled, {}, device, nullptr, nullptr));
    const auto execution = llvm::cantFail(Execution::create(loaded, {}));
    llvm::cantFail(execution->prepare_maps({map}, nullptr));
    EXPECT_EQ(execution->selected(0)->most_density == 2, scattered_first);
  }
}

// ---- without a compiler ---------------------------------------------------------------------------------

/// A cache without JIT that has the kernels of the default, and of `tuned` where `has_tuned`.
class TunedWithoutJit : public testing::Test {
 protected:
  llvm::Expected<BinaryList> compile_from(const Plan& bundled, std::shared_ptr<const Plan> wanted) {
    const std::string directory = folder_ / "cache";
    {
      const auto farm = make_cache(directory, compiler_);
      llvm::cantFail(
          farm->get_or_compile_all(llvm::cantFail(CompiledPlan::create(bundled, "sm_90a"))->requests()));
    }
    CacheOptions options;
    options.directory = directory;
    options.no_jit = true;
    options.trace = trace_;
    options.warn = warnings_.sink();
    std::shared_ptr<KernelCache> cache =
        llvm::cantFail(KernelCache::create(std::move(options), nullptr, make_environment({})));
    return PlanStore(std::move(wanted), std::move(cache)).compile("sm_90a");
  }
  static std::shared_ptr<const Plan> make_plan(std::shared_ptr<const TuningSnapshot> tuning,
                                               std::optional<Dataflow> dataflow = {}) {
    LayerParameters parameters;
    parameters.weight.assign(size_t{27} * 64 * 64, 1.0f);
    return llvm::cantFail(Plan::create(by(example_problem(), dataflow), parameters, std::move(tuning)));
  }
  static std::shared_ptr<const TuningSnapshot> snapshot(const TuningConfigs& configs) {
    return std::make_shared<const TuningSnapshot>(example_environment(), configs);
  }
  static std::vector<std::string> names(const BinaryList& binaries) {
    std::vector<std::string> names;
    for (const auto& binary : binaries) names.push_back(binary->display_name);
    return names;
  }

  TemporaryFolder folder_;
  std::shared_ptr<FakeCompiler> compiler_ = std::make_shared<FakeCompiler>();
  std::shared_ptr<Trace> trace_ = std::make_shared<Trace>();
  Warnings warnings_;
};

TEST_F(TunedWithoutJit, R34_TheDefaultRunsWhereATunedKernelIsMissing) {
  const auto tuned = snapshot({{gather_bucket(DType::F16, 64, 27, kExampleRows), tile_config(16)},
                               {scatter_bucket(DType::F16, 64, 27, kExampleRows), tile_config(8)}});
  const Dataflow dataflow = Dataflow::GatherGemmScatter;
  auto binaries = compile_from(*make_plan(nullptr, dataflow), make_plan(tuned, dataflow));
  ASSERT_TRUE(static_cast<bool>(binaries));
  EXPECT_THAT(names(*binaries), Contains(HasSubstr("gather-f16-c64-t8")));
  EXPECT_THAT(names(*binaries), Not(Contains(HasSubstr("gather-f16-c64-t16"))));
  EXPECT_THAT(warnings_.all(), ElementsAre(AllOf(HasSubstr("gather-f16-c64-t16"), HasSubstr("the default"),
                                                 HasSubstr("minuet precompile --tuned"))));
  EXPECT_THAT(trace_->json(), HasSubstr("the default in place of tuning results"));
}

TEST_F(TunedWithoutJit, R34_WhatABundleHasIsUsed) {
  const auto tuned = snapshot({{gather_bucket(DType::F16, 64, 27, kExampleRows), tile_config(16)}});
  const Dataflow dataflow = Dataflow::GatherGemmScatter;
  auto binaries = compile_from(*make_plan(tuned, dataflow), make_plan(tuned, dataflow));
  ASSERT_TRUE(static_cast<bool>(binaries));
  EXPECT_THAT(names(*binaries), Contains(HasSubstr("gather-f16-c64-t16")));
  EXPECT_THAT(warnings_.all(), testing::IsEmpty());
}

TEST_F(TunedWithoutJit, R34_ADataflowWithoutKernelsIsNotChosen) {
  const auto tuned = snapshot({{layer_bucket(Operation::Dataflow, example_problem(), kExampleRows),
                                config_of(Dataflow::GatherGemmScatter)}});
  auto binaries = compile_from(*make_plan(nullptr), make_plan(tuned));
  ASSERT_TRUE(static_cast<bool>(binaries));
  EXPECT_EQ(names(*binaries),
            names_of(llvm::cantFail(CompiledPlan::create(*make_plan(nullptr), "sm_90a"))->requests()));
  EXPECT_THAT(warnings_.all(), testing::SizeIs(1));
}

TEST_F(TunedWithoutJit, R34_AMissingSearchIsTheDefaults) {
  const auto tuned =
      snapshot({{search_bucket(KeyType::U32, 3, 27, kExampleRows), config_of(SearchChoice{128, 256, 64})}});
  auto binaries = compile_from(*make_plan(nullptr), make_plan(tuned));
  ASSERT_TRUE(static_cast<bool>(binaries));
  // Both kernels of the search are missing, and either may be met first.
  EXPECT_THAT(warnings_.all(),
              ElementsAre(testing::AnyOf(HasSubstr("find_query_borders"), HasSubstr("search_kernel_map"))));
}

/// Of the default's kernels a miss is the error that it always is (R22).
TEST_F(TunedWithoutJit, R22_AMissingDefaultIsAnError) {
  const auto tuned = snapshot({{gather_bucket(DType::F16, 64, 27, kExampleRows), tile_config(16)}});
  const auto other = make_plan(nullptr, Dataflow::Fused);
  auto binaries = compile_from(*other, make_plan(tuned, Dataflow::GatherGemmScatter));
  ASSERT_FALSE(static_cast<bool>(binaries));
  const StatusError status = take_status(binaries.takeError());
  EXPECT_EQ(status.code(), StatusCode::FailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("MINUET_NO_JIT forbids compiling it"));
}

/// Of which there is no toolkit, and nobody asks for one.
TEST_F(PlanTuning, TheCpuHasResultsOfItsOwn) {
  DeviceInfo cpu;
  cpu.name = "cpu";
  cpu.description = "a processor, 2 threads";
  const std::shared_ptr<Context> context = make_context();
  const TuningEnvironment here = llvm::cantFail(context->tuning_environment_of(cpu));
  EXPECT_EQ(here.toolkit, "");
  const TuningBucket bucket = layer_bucket(Operation::Dataflow, example_problem(), kExampleRows);
  llvm::cantFail(store().publish(
      with_kernels_of_this_build(make_entry(here, bucket, measured(config_of(Dataflow::Fused), 900),
                                            {measured(config_of(Dataflow::GatherGemmScatter), 800)}))));
  llvm::cantFail(store().publish(example_entry(environment())));
  EXPECT_EQ(llvm::cantFail(context->load_tuning(cpu)), 1u);
  const auto candidates =
      llvm::cantFail(convolution_candidates(example_problem(), "", context->tuning().get()));
  EXPECT_EQ(dataflow_of(select(candidates, kExampleRows, {}).choice), Dataflow::GatherGemmScatter);
  cpu.description = "a processor, 4 threads";
  EXPECT_EQ(llvm::cantFail(context->load_tuning(cpu)), 0u);
}

}  // namespace
}  // namespace minuet
