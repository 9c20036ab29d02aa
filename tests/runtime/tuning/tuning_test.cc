// Tuning through the C ABI: measured, stored, loaded again, told.
#include "include/minuet/tuning.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tests/support/network_abi.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

/// Two layers of few channels on two levels, and the way back.
constexpr const char* kSmall = R"({"name": "small", "ndim": 3, "in_channels": 4, "channels": [4],
  "layers": [
  {"op": "block", "name": "stem", "width": 0, "kernel_size": 3, "save": "fine"},
  {"op": "block", "name": "down", "width": 0, "kernel_size": 2, "stride": 2},
  {"op": "up", "name": "up", "width": 0, "kernel_size": 2, "stride": 2, "onto": "fine"}]})";

/// A bird's-eye image, and the features of which it is made.
constexpr const char* kDense = R"({"name": "dense", "ndim": 3, "in_channels": 4, "channels": [8],
  "shape": [64, 64, 16], "outputs": ["image", "coarse"], "layers": [
  {"op": "block", "name": "down", "width": 0, "kernel_size": 2, "stride": 2, "output": "coarse"},
  {"op": "birds_eye", "image_axes": [1, 0], "output": "image"}]})";

struct Told {
  int64_t rounds = 0, most_rounds = 0, stop_after = -1;
  std::vector<std::string> steps, skipped;
};

void on_progress(const minuet_tuning_progress* progress, void* user) {
  Told& told = *static_cast<Told*>(user);
  EXPECT_LE(progress->rounds, progress->most_rounds);
  EXPECT_GE(progress->seconds_left, 0);
  if (std::string(progress->step) == "the whole network") return;  // where anything won
  if (told.steps.empty() || told.steps.back() != progress->step) told.steps.push_back(progress->step);
  if (progress->rounds > 0) ++told.rounds;
}

void on_skip(const minuet_tuning_skip* skip, void* user) {
  static_cast<Told*>(user)->skipped.push_back(std::string(skip->operation) + " " + skip->config + ": " +
                                              skip->reason);
}

int32_t asks_to_stop(void* user) {
  const Told& told = *static_cast<Told*>(user);
  return told.stop_after >= 0 && told.rounds >= told.stop_after ? 1 : 0;
}

/// By layer, operation and rows: what was chosen.
using Chosen = std::map<std::string, std::string>;

void on_choice(const minuet_tuned_choice* choice, void* user) {
  EXPECT_EQ(choice->most_rows, 2 * choice->least_rows - 1);
  EXPECT_GT(choice->chosen_ns, 0);
  EXPECT_LE(choice->chosen_ns, choice->default_ns);
  EXPECT_STREQ(choice->origin, "user");
  const std::string operation = choice->operation;
  EXPECT_EQ(*choice->layer == '\0', operation == "grouping" || operation == "search" || operation == "order");
  EXPECT_GE(choice->least_density, 0);
  EXPECT_EQ(std::isinf(choice->most_density), operation != "fused" && operation != "dataflow");
  EXPECT_TRUE(std::isinf(choice->most_density) || choice->most_density >= 4 * choice->least_density);
  EXPECT_EQ(choice->chosen_ns == choice->default_ns, std::string(choice->chosen) == choice->otherwise);
  (*static_cast<Chosen*>(user))[std::string(choice->layer) + " " + choice->operation + " " +
                                std::to_string(choice->least_rows)] = choice->chosen;
}

class TuningTest : public DeviceTest {
 protected:
  /// With no results yet: contexts are of the whole test program.
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    char name[] = "/tmp/minuet-tuning-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    here_ = {machine().context(), machine().device()};
    check(minuet_context_load_tuning(here_.context, here_.device, folder_.c_str(), nullptr));
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  struct Process {
    minuet_context* context = nullptr;
    minuet_device* device = nullptr;
  };
  Plan make_plan(const Process& process, minuet_dataflow dataflow, const char* description = kSmall) {
    NetworkSpec spec;
    spec.description = description, spec.dtype = dtype(), spec.dataflow = dataflow;
    const minuet_network_options options = network_options(spec);
    minuet_plan* plan = nullptr;
    check(minuet_plan_create_network(process.context, &options, &plan));
    return Plan(plan, {minuet_plan_destroy});
  }
  minuet_status tune(const Process& process, minuet_plan* plan, Told& told, minuet_tuning_result& result) {
    return tune(process, plan, told, result, make_scene(machine().is_software() ? 30 : 200, 5));
  }
  minuet_status tune(const Process& process, minuet_plan* plan, Told& told, minuet_tuning_result& result,
                     const std::vector<int32_t>& voxels) {
    const Buffer coordinates(machine(), voxels);
    const minuet_tuning_cloud cloud{coordinates.integers(), static_cast<int64_t>(voxels.size() / 4)};
    minuet_tuning_options options = MINUET_TUNING_OPTIONS_INIT;
    options.clouds = &cloud;
    options.cloud_count = 1;
    options.repeats = 3;
    options.budget_seconds = 1e6;
    options.directory = folder_.c_str();
    options.progress = on_progress;
    options.skipped = on_skip;
    options.cancelled = asks_to_stop;
    options.user = &told;
    result.struct_size = sizeof(result);
    return minuet_tune(process.context, plan, process.device, &options, &result);
  }
  /// What a new plan is made by.
  Chosen load(const Process& process, minuet_dataflow dataflow, int64_t* results = nullptr) {
    check(minuet_context_load_tuning(process.context, process.device, folder_.c_str(), results));
    const Plan plan = make_plan(process, dataflow);
    check(minuet_plan_compile(plan.get(), machine().arch().c_str(), nullptr, nullptr));
    check(minuet_plan_load(plan.get(), process.device));
    return chosen_by(plan.get());
  }
  static Chosen chosen_by(minuet_plan* plan) {
    Chosen chosen;
    check(minuet_plan_visit_tuning(plan, on_choice, &chosen));
    return chosen;
  }

  std::string folder_;
  Process here_;
};

/// The batch size of the tuned network is that of the clouds.
TEST_P(TuningTest, NetworksWithDenseTensors) {
  const minuet_dataflow dataflow =
      machine().is_cpu() ? MINUET_DATAFLOW_AUTO : MINUET_DATAFLOW_GATHER_GEMM_SCATTER;
  const Plan plan = make_plan(here_, dataflow, kDense);
  std::vector<int32_t> voxels;
  for (int32_t i = 0; i < 200; ++i) voxels.insert(voxels.end(), {i % 3, i * 7 % 64, i / 4, i % 16});
  Told told;
  minuet_tuning_result result{};
  check(tune(here_, plan.get(), told, result, voxels));
  EXPECT_GT(told.rounds, 0);
}

/// All that there is to try: tiles of few channels on a GPU; on the CPU the dataflows.
TEST_P(TuningTest, R33_WhatWasMeasuredIsLoadedAgain) {
  const minuet_dataflow dataflow =
      machine().is_cpu() ? MINUET_DATAFLOW_AUTO : MINUET_DATAFLOW_GATHER_GEMM_SCATTER;
  const Plan plan = make_plan(here_, dataflow);
  Told told;
  minuet_tuning_result result = {};
  check(tune(here_, plan.get(), told, result));
  EXPECT_THAT(told.skipped, testing::IsEmpty());
  std::vector<std::string> steps{"tiles and GEMMs", "groups of GEMMs", "sorted maps"};
  if (machine().is_cpu()) steps = {"dataflows"};
  EXPECT_EQ(told.steps, steps);
  EXPECT_GT(result.tried, 0);
  EXPECT_GT(result.decided, 0);
  EXPECT_LE(result.won, result.decided);
  EXPECT_EQ(result.untuned_ms > 0, result.won > 0);
  EXPECT_EQ(result.tuned_ms > 0, result.won > 0);
  EXPECT_TRUE(chosen_by(plan.get()).empty()) << "nothing goes by it that is not told to";
  EXPECT_TRUE(chosen_by(make_plan(here_, dataflow).get()).empty());

  int64_t results = 0;
  const Chosen chosen = load(here_, dataflow, &results);
  EXPECT_EQ(results, result.decided);
  EXPECT_EQ(chosen.size(), machine().is_cpu() ? 3u : 11u)
      << "a layer has one, or a gather, a scatter and a GEMM, and all of them a grouping and a search";
  // Ranks that load the same choose the same.
  minuet_context* context = nullptr;
  minuet_device* device = nullptr;
  check(minuet_context_create(nullptr, &context));
  const Handle<minuet_context> of_context(context, {minuet_context_destroy});
  check(minuet_device_open(context, machine().is_cpu() ? "cpu" : "cuda:0", nullptr, &device));
  const Handle<minuet_device> of_device(device, {minuet_device_destroy});
  const Process other{context, device};
  EXPECT_EQ(load(other, dataflow), chosen);

  // Measured again, the first of it: what is there makes room for that, and the rest stays.
  const int64_t decided = results;
  Told again;
  again.stop_after = 1;
  const minuet_status status = tune(other, make_plan(other, dataflow).get(), again, result);
  EXPECT_TRUE(status == MINUET_CANCELLED || (machine().is_cpu() && status == MINUET_OK));
  EXPECT_EQ(result.decided > 0, !machine().is_cpu() || status == MINUET_OK);
  check(minuet_context_load_tuning(other.context, other.device, folder_.c_str(), &results));
  EXPECT_EQ(results, decided);
}

/// Of more than four million values parts are compared.
TEST_P(TuningTest, OutputsOfAnySizeAgree) {
  if (machine().is_software()) GTEST_SKIP() << "takes long on the software device";
  if (kSanitized) GTEST_SKIP() << "takes long under a sanitizer";
  constexpr const char* kWide = R"({"name": "wide", "ndim": 3, "in_channels": 4, "channels": [67], "layers": [
    {"op": "block", "name": "stem", "width": 0, "kernel_size": 1}]})";
  const Plan plan = make_plan(here_, MINUET_DATAFLOW_AUTO, kWide);
  Told told;
  told.stop_after = 2;
  minuet_tuning_result result = {};
  const minuet_status status = tune(here_, plan.get(), told, result, make_scene(70'000, 5));
  EXPECT_TRUE(status == MINUET_OK || status == MINUET_CANCELLED) << last_error();
  EXPECT_THAT(told.skipped, testing::IsEmpty());
  EXPECT_GT(result.tried, 0);
}

TEST_P(TuningTest, AStopKeepsWhatIsDone) {
  const Plan plan = make_plan(here_, MINUET_DATAFLOW_AUTO);
  Told told;
  minuet_tuning_result result = {};
  told.stop_after = 0;
  EXPECT_EQ(tune(here_, plan.get(), told, result), MINUET_CANCELLED);
  EXPECT_EQ(result.tried, 0);
  told.stop_after = 1;
  // On the CPU that round is the only one, and may be the end.
  const minuet_status status = tune(here_, plan.get(), told, result);
  EXPECT_TRUE(status == MINUET_CANCELLED || (machine().is_cpu() && status == MINUET_OK));
  // Of the dataflows that the plan may take there: not every dtype has both on every GPU.
  EXPECT_THAT(told.steps,
              testing::ElementsAre(machine().is_cpu() ? testing::AnyOf("dataflows", "")
                                                      : testing::AnyOf("fused kernels", "tiles and GEMMs")));
  EXPECT_EQ(result.decided > 0, !machine().is_cpu() || status == MINUET_OK)
      << "dataflows count together alone";
  EXPECT_EQ(result.tuned_ms, 0);
  int64_t results = 0;
  load(here_, MINUET_DATAFLOW_AUTO, &results);
  EXPECT_EQ(results, result.decided);
}

/// A pooling has no dataflow. The fused dataflow takes no convolution of so many offsets.
TEST_P(TuningTest, FusedKernelsAreTunedBesideAPoolingOfManyOffsets) {
  constexpr const char* kPooled =
      R"({"name": "pooled", "ndim": 3, "in_channels": 4, "channels": [4], "layers": [
    {"op": "block", "name": "stem", "width": 0, "kernel_size": 3},
    {"op": "max_pool", "name": "pool", "kernel_size": 17}]})";
  const Plan plan = make_plan(here_, MINUET_DATAFLOW_FUSED, kPooled);
  Told told;
  told.stop_after = 1;
  minuet_tuning_result result = {};
  const minuet_status status = tune(here_, plan.get(), told, result);
  if (machine().is_cpu()) {
    // A plan with one dataflow leaves nothing to choose there.
    EXPECT_EQ(status, MINUET_OK) << last_error();
    EXPECT_EQ(result.tried, 0);
  } else {
    EXPECT_EQ(status, MINUET_CANCELLED) << last_error();
    EXPECT_THAT(told.steps, testing::ElementsAre("fused kernels"));
  }
}

/// The fused kernels of layers with 8-bit tensors are tuned beside those of others.
TEST_P(TuningTest, NetworksOf8BitsAreTuned) {
  constexpr const char* kIntegers = R"({"name": "integers", "ndim": 3, "in_channels": 4, "layers": [
    {"op": "block", "name": "a", "out_channels": 16, "kernel_size": 3, "output_range": 4},
    {"op": "block", "name": "b", "out_channels": 8, "kernel_size": 1, "precision": "int8", "output_range": 4},
    {"op": "block", "name": "c", "out_channels": 4, "kernel_size": 1, "precision": "int8"}]})";
  const Plan plan = make_plan(here_, MINUET_DATAFLOW_AUTO, kIntegers);
  Told told;
  if (!machine().is_cpu()) told.stop_after = 4;
  minuet_tuning_result result = {};
  const minuet_status status = tune(here_, plan.get(), told, result);
  if (machine().is_cpu()) {
    EXPECT_EQ(status, MINUET_OK) << last_error();
    EXPECT_EQ(result.tried, 0) << "there is no choice";
    return;
  }
  EXPECT_EQ(status, MINUET_CANCELLED) << last_error();
  EXPECT_THAT(told.skipped, testing::IsEmpty());
  EXPECT_THAT(told.steps, testing::ElementsAre("fused kernels"));
  check(minuet_context_load_tuning(here_.context, here_.device, folder_.c_str(), nullptr));
  const Chosen chosen = chosen_by(make_plan(here_, MINUET_DATAFLOW_AUTO, kIntegers).get());
  std::set<std::string> layers;
  for (const auto& [name, config] : chosen) layers.insert(name.substr(0, name.rfind(' ')));
  EXPECT_THAT(layers, testing::ElementsAre("a fused", "b fused", "c fused"));
}

/// Every input has features, and every output is compared.
TEST_P(TuningTest, NetworksOfSeveralInputsAndOutputsAreTuned) {
  constexpr const char* kGraph = R"({"name": "graph", "ndim": 3, "outputs": ["b", "c"],
    "inputs": [{"name": "points", "channels": 4}, {"name": "more", "channels": 8, "level": "b"}], "layers": [
    {"op": "block", "name": "a", "out_channels": 4, "kernel_size": 3},
    {"op": "block", "name": "b", "out_channels": 8, "kernel_size": 3, "stride": 2, "output": "b"},
    {"op": "block", "name": "c", "input": "more", "out_channels": 4, "kernel_size": 3, "output": "c"}]})";
  const Plan plan = make_plan(here_, MINUET_DATAFLOW_AUTO, kGraph);
  Told told;
  if (!machine().is_cpu()) told.stop_after = 1;
  minuet_tuning_result result = {};
  EXPECT_EQ(tune(here_, plan.get(), told, result), machine().is_cpu() ? MINUET_OK : MINUET_CANCELLED)
      << last_error();
  EXPECT_GT(result.tried, 0);
}

/// The heuristic is the default, whatever the plan was made by; and a run tunes nothing.
TEST_P(TuningTest, IsExplicit) {
  int64_t results = -1;
  EXPECT_TRUE(load(here_, MINUET_DATAFLOW_FUSED, &results).empty());
  EXPECT_EQ(results, 0);
}

TEST_P(TuningTest, RefusesWhatCannotBeTuned) {
  const Plan plan = make_plan(here_, MINUET_DATAFLOW_AUTO);
  const int32_t voxel[4] = {0, 1, 2, 3};
  const Buffer coordinates(machine(), std::vector<int32_t>(voxel, voxel + 4));
  const minuet_tuning_cloud good{coordinates.integers(), 1}, empty{coordinates.integers(), 0};
  minuet_tuning_options options = MINUET_TUNING_OPTIONS_INIT;
  const auto expect = [&](const Process& of, minuet_status status, const char* reason) {
    EXPECT_EQ(minuet_tune(of.context, plan.get(), of.device, &options, nullptr), status);
    EXPECT_THAT(last_error(), HasSubstr(reason));
  };
  expect(here_, MINUET_INVALID_ARGUMENT, "at least one cloud");
  options.clouds = &empty;
  options.cloud_count = 1;
  expect(here_, MINUET_INVALID_ARGUMENT, "cloud 0 has no coordinates");
  options.clouds = &good;
  options.repeats = 2;
  expect(here_, MINUET_INVALID_ARGUMENT, "repeats is 2");
  options.repeats = 0;
  options.budget_seconds = -1;
  expect(here_, MINUET_INVALID_ARGUMENT, "budget_seconds is -1");
  options.budget_seconds = 0;
  options.training = 3;
  expect(here_, MINUET_INVALID_ARGUMENT, "training is 3");
  options.training = 0;
  options.directory = "results";
  expect(here_, MINUET_INVALID_ARGUMENT, "not an absolute path");
  const std::string file = folder_ + "/file";
  std::ofstream(file) << "no folder";
  options.directory = file.c_str();
  Told told;
  options.user = &told;
  options.progress = on_progress;
  EXPECT_NE(minuet_tune(here_.context, plan.get(), here_.device, &options, nullptr), MINUET_OK);
  EXPECT_THAT(last_error(), HasSubstr("the tuning results cannot be saved: "));
  EXPECT_THAT(told.steps, testing::IsEmpty()) << "nothing was measured in vain";
  options.directory = nullptr;
  minuet_context_options in_memory = MINUET_CONTEXT_OPTIONS_INIT;
  in_memory.disable_disk_cache = 1;
  minuet_context* context = nullptr;
  check(minuet_context_create(&in_memory, &context));
  const Handle<minuet_context> of_context(context, {minuet_context_destroy});
  expect({context, machine().device()}, MINUET_FAILED_PRECONDITION, "no cache folder");
  EXPECT_EQ(minuet_tune(here_.context, plan.get(), here_.device, nullptr, nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(minuet_plan_visit_tuning(plan.get(), nullptr, nullptr), MINUET_INVALID_ARGUMENT);
}

MINUET_INSTANTIATE_DEVICE_TEST(TuningTest);

}  // namespace
}  // namespace minuet::abi
