// Tuning of the kernels that compute gradients, through the C ABI: measured in a training step, stored, told,
// used by training plans, and compiled ahead.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "codegen/tuning/search_space.h"
#include "include/minuet/training.h"
#include "include/minuet/tuning.h"
#include "tests/codegen/choose/examples.h"
#include "tests/runtime/execution/gradient_fixture.h"
#include "tests/support/network_abi.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Layers of few channels on two levels, and the way back.
constexpr const char* kSmall = R"({"name": "small", "ndim": 3, "in_channels": 4, "channels": [8],
  "layers": [
  {"op": "block", "name": "stem", "width": 0, "kernel_size": 3, "save": "fine"},
  {"op": "block", "name": "down", "width": 0, "kernel_size": 2, "stride": 2},
  {"op": "up", "name": "up", "width": 0, "kernel_size": 2, "stride": 2, "onto": "fine"}]})";

struct Told {
  std::string stop_in;  // This step ends the call.
  int64_t rounds = 1;   // Counts the rounds after which it does.
  bool stops = false;
  std::vector<std::string> steps, skipped;
};

void on_progress(const minuet_tuning_progress* progress, void* user) {
  Told& told = *static_cast<Told*>(user);
  if (told.steps.empty() || told.steps.back() != progress->step) told.steps.push_back(progress->step);
  if (progress->rounds >= told.rounds && told.stop_in == progress->step) told.stops = true;
}
void on_skip(const minuet_tuning_skip* skip, void* user) {
  static_cast<Told*>(user)->skipped.push_back(std::string(skip->operation) + " " + skip->config + ": " +
                                              skip->reason);
}
int32_t asks_to_stop(void* user) { return static_cast<Told*>(user)->stops ? 1 : 0; }

/// The layers and operations that have a result.
using Results = std::set<std::string>;

void on_choice(const minuet_tuned_choice* choice, void* user) {
  EXPECT_LE(choice->chosen_ns, choice->default_ns);
  const std::string operation = choice->operation;
  // A list of pairs may be too short for a density. The convolution for the gradient of an input reads none.
  EXPECT_EQ(std::isinf(choice->most_density), operation == "input_gradient");
  for (const char* const field : {"tile_in=", "tile_out=", "unit=", "warps_in="}) {
    EXPECT_EQ(std::string(choice->chosen).find(field) != std::string::npos,
              operation == "weight_gradient" || std::string(field) == "unit=");
  }
  static_cast<Results*>(user)->insert(std::string(choice->layer) + " " + operation);
}

class GradientTuningTest : public Gradient {
 protected:
  void SetUp() override {
    Gradient::SetUp();
    if (IsSkipped()) return;
    check(
        minuet_context_load_tuning(machine().context(), machine().device(), folder_.path().c_str(), nullptr));
  }
  Plan make_plan(minuet_context* context, minuet_dataflow dataflow = MINUET_DATAFLOW_FUSED) {
    NetworkSpec spec;
    spec.description = kSmall, spec.dtype = dtype(), spec.dataflow = dataflow;
    const minuet_network_options options = network_options(spec);
    minuet_plan* plan = nullptr;
    check(minuet_plan_create_network(context, &options, &plan));
    return Plan(plan, {minuet_plan_destroy});
  }
  Plan make_plan() { return make_plan(machine().context()); }
  minuet_status load_training(minuet_context* context, minuet_device* device) {
    const Plan plan = make_plan(context);
    const minuet_training_options options = MINUET_TRAINING_OPTIONS_INIT;
    minuet_training* training = nullptr;
    check(minuet_training_create(context, plan.get(), &options, &training));
    const Handle<minuet_training> owned(training, {minuet_training_destroy});
    return minuet_training_load(training, device);
  }
  minuet_status tune(minuet_plan* plan, Told& told, minuet_tuning_result& result) {
    const std::vector<int32_t> voxels = make_scene(machine().is_software() ? 30 : 200, 5);
    const Buffer coordinates(machine(), voxels);
    const minuet_tuning_cloud cloud{coordinates.integers(), static_cast<int64_t>(voxels.size() / 4)};
    minuet_tuning_options options = MINUET_TUNING_OPTIONS_INIT;
    options.clouds = &cloud, options.cloud_count = 1;
    options.repeats = 3;
    options.budget_seconds = 1e6;
    options.training = 2;
    options.directory = folder_.path().c_str();
    options.progress = on_progress, options.skipped = on_skip, options.cancelled = asks_to_stop;
    options.user = &told;
    result.struct_size = sizeof(result);
    return minuet_tune(machine().context(), plan, machine().device(), &options, &result);
  }

  /// Measures something, and returns the environment that the store then has.
  TuningEnvironment environment_in(TuningStore& store) {
    Told told;
    told.stop_in = "weight gradients";
    minuet_tuning_result result = {};
    EXPECT_EQ(tune(make_plan().get(), told, result), MINUET_CANCELLED) << last_error();
    const std::string hash = llvm::cantFail(store.environments()).front();
    return llvm::cantFail(store.load(hash)).entries.front().environment;
  }

  const TemporaryPath folder_{"gradient-tuning"}, files_{"gradient-ahead"};
};

/// Every candidate gives the gradients of the default, so none is skipped. The candidates for the gradients
/// of inputs read images of weights in several layouts.
TEST_P(GradientTuningTest, WhatWasMeasuredIsUsed) {
  const Plan plan = make_plan();
  Told told;
  told.stop_in = "input gradients", told.rounds = 12;
  minuet_tuning_result result = {};
  const minuet_status status = tune(plan.get(), told, result);
  if (machine().is_cpu()) {
    EXPECT_EQ(status, MINUET_OK) << last_error();
    EXPECT_EQ(result.tried, 0);
    EXPECT_THAT(told.steps, IsEmpty());
    return;
  }
  EXPECT_EQ(status, MINUET_CANCELLED) << last_error();
  EXPECT_THAT(told.skipped, IsEmpty());
  EXPECT_THAT(told.steps, ElementsAre("weight gradients", "input gradients"));
  EXPECT_GT(result.tried, 3);

  int64_t results = 0;
  check(
      minuet_context_load_tuning(machine().context(), machine().device(), folder_.path().c_str(), &results));
  EXPECT_EQ(results, result.decided);
  const Plan tuned = make_plan();
  Results told_of;
  check(minuet_plan_visit_tuning(tuned.get(), on_choice, &told_of));
  // The gradient of the network's input is not computed.
  EXPECT_EQ(told_of, (Results{"stem weight_gradient", "down weight_gradient", "up weight_gradient",
                              "down input_gradient", "up input_gradient"}));
  // A training plan compiles and loads the kernels that were chosen.
  check(load_training(machine().context(), machine().device()));
}

/// The list of kernels was recorded without results. A machine that compiles nothing loads those that the
/// results choose too.
TEST_P(GradientTuningTest, ATrainingPlanIsCompiledAheadWithItsResults) {
  if (machine().is_cpu()) GTEST_SKIP() << "the CPU has no kernels to compile ahead";
  Told told;
  told.stop_in = "input gradients";
  minuet_tuning_result result = {};
  ASSERT_EQ(tune(make_plan().get(), told, result), MINUET_CANCELLED) << last_error();
  // The times of so small a network are noise, so another kernel than the default is made to win here.
  TuningStore store = store_in(folder_.path());
  int weights = 0;
  for (const std::string& environment : llvm::cantFail(store.environments())) {
    for (const TuningEntry& entry : llvm::cantFail(store.load(environment)).entries) {
      if (entry.bucket.operation != Operation::WeightGradient) continue;
      const auto usual = std::find_if(entry.measurements.begin(), entry.measurements.end(),
                                      [](const TuningMeasurement& one) { return one.is_default; });
      ASSERT_NE(usual, entry.measurements.end());
      TuningMeasurement other = *usual;
      other.config["stages"] = usual->config.at("stages") == 2 ? 3 : 2;
      other.median_ns = usual->median_ns / 2;
      llvm::cantFail(store.publish(
          with_kernels_of_this_build(make_entry(entry.environment, entry.bucket, *usual, {other}))));
      ++weights;
    }
  }
  EXPECT_EQ(weights, 3);

  const std::string list = files_.path() + "/requests.jsonl";
  std::filesystem::create_directories(files_.path());
  struct Program {
    Handle<minuet_context> context{nullptr, {minuet_context_destroy}};
    Handle<minuet_device> device{nullptr, {minuet_device_destroy}};
  };
  const auto open = [](const minuet_context_options& options) {
    Program program;
    minuet_context* context = nullptr;
    check(minuet_context_create(&options, &context));
    program.context.reset(context);
    minuet_device* device = nullptr;
    check(minuet_device_open(context, "cuda:0", nullptr, &device));
    program.device.reset(device);
    return program;
  };
  minuet_context_options recording = MINUET_CONTEXT_OPTIONS_INIT;
  recording.record_path = list.c_str();
  const Program recorder = open(recording);
  check(load_training(recorder.context.get(), recorder.device.get()));

  const char* const archs[] = {machine().arch().c_str()};
  for (const bool has_results : {true, false}) {
    const std::string bundles = files_.path() + (has_results ? "/tuned" : "/untuned");
    minuet_precompile_options options = MINUET_PRECOMPILE_OPTIONS_INIT;
    options.requests_path = list.c_str();
    options.archs = archs, options.arch_count = 1;
    options.output_directory = bundles.c_str();
    minuet_context* const farm = machine().context();
    check(has_results ? minuet_precompile_tuned(farm, &options, folder_.path().c_str(), nullptr)
                      : minuet_precompile(farm, &options, nullptr));
    minuet_context_options strict = MINUET_CONTEXT_OPTIONS_INIT;
    strict.jit = MINUET_JIT_OFF;
    strict.disable_disk_cache = 1;
    strict.bundle_path = bundles.c_str();
    const Program program = open(strict);
    int64_t results = 0;
    check(minuet_context_load_tuning(program.context.get(), program.device.get(),
                                     has_results ? nullptr : folder_.path().c_str(), &results));
    EXPECT_GE(results, weights);
    EXPECT_EQ(load_training(program.context.get(), program.device.get()),
              has_results ? MINUET_OK : MINUET_FAILED_PRECONDITION)
        << last_error();
    EXPECT_TRUE(has_results || last_error().find("weight_gradient") != std::string::npos) << last_error();
  }
}

/// Whichever kernel has won, an op computes the gradients by it from a list that is shorter than its room,
/// and writes nothing behind the memory for which it asks.
TEST_P(GradientTuningTest, GradientOpsUseTheResults) {
  if (machine().is_cpu()) GTEST_SKIP() << "no kernels of gradients are chosen on the CPU";
  TuningStore store = store_in(folder_.path());
  const TuningEnvironment environment = environment_in(store);
  for (const int groups : {1, 2}) {
    const Problem problem = random_problem(ConvolutionKind::Submanifold, 64, 96 * groups, groups);
    const Map map = make_map(machine(), problem.test, problem.data);
    const Expected expected(problem, map.pairs);
    ConvolutionProblem forward =
        example_problem(problem.test.in_channels, problem.test.out_channels, dtype());
    forward.groups = groups;
    for (std::size_t axis = 0; axis < 3; ++axis) forward.kernel_size[axis] = problem.test.kernel_size[axis];
    if (!is_gradient_tunable(forward)) GTEST_SKIP() << "without tensor cores there is no choice";
    const int64_t more = 500, most = static_cast<int64_t>(map.pairs.size()) + more,
                  rows = problem.data.out_rows();
    const TuningTask task = weight_gradient_task(forward, machine().arch(), rows, most,
                                                 static_cast<double>(most) / static_cast<double>(rows));
    const auto gradients_of = [&](minuet_gradient_op* op) {
      Room room(machine(), op, problem, map, more);
      const int64_t bytes = room.workspace.bytes();
      Buffer guarded(machine(), bytes + 1024);
      guarded.poison(), room.weight.poison(), room.bias.poison();
      const std::vector<char> before = guarded.read<char>();
      room.given.workspace = guarded.data();
      compute(op, room);
      const std::vector<char> after = guarded.read<char>();
      EXPECT_TRUE(std::equal(before.begin() + bytes, before.end(), after.begin() + bytes));
      expect_sums(room.weight.read<float>(), expected.weight, expected.weight_sizes);
      expect_sums(room.bias.read<float>(), expected.bias, expected.bias_sizes);
      int64_t written = 0;
      for (std::size_t i = 0; i < before.size(); ++i) written += before[i] != after[i] ? 1 : 0;
      return std::tuple(bytes, written, room.weight.read<uint32_t>());
    };
    const minuet_gradient both = MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS;
    const GradientOp untuned = make_op(problem, both);
    const auto usual = gradients_of(untuned.get());
    // A kernel with a tile that fits worse stores more. On the software device, only such a one wins.
    const auto stored_by = [&](const TuningConfig& config) {
      WeightGradientCandidate::Spec spec;
      llvm::cantFail(read_gradient_config(task.bucket, config, spec));
      const auto* const warpgroups = std::get_if<WarpgroupGradientSpec>(&spec);
      return (warpgroups ? make_candidate(forward, *warpgroups)
                         : make_candidate(forward, std::get<WeightGradientSpec>(spec)))
          .layout.elements;
    };
    const auto most_stored = std::max_element(
        task.candidates.begin(), task.candidates.end(),
        [&](const auto& one, const auto& other) { return stored_by(one) < stored_by(other); });
    ASSERT_GT(stored_by(*most_stored), stored_by(task.default_config));
    const std::vector<TuningConfig> winners =
        machine().is_software() ? std::vector{*most_stored} : task.candidates;
    for (const TuningConfig& winner : winners) {
      SCOPED_TRACE(std::to_string(winner.at("tile_in")) + " x " + std::to_string(winner.at("tile_out")));
      llvm::cantFail(store.publish_joined(
          {with_kernels_of_this_build(make_entry(
              environment, task.bucket, measured(task.default_config, 9000), {measured(winner, 8000)}))},
          [](const TuningEntry& mine, const TuningEntry&) { return mine; }));
      check(minuet_context_load_tuning(machine().context(), machine().device(), folder_.path().c_str(),
                                       nullptr));
      const GradientOp tuned = make_op(problem, both);
      const auto found = gradients_of(tuned.get());
      if (winner != *most_stored) continue;
      EXPECT_GT(std::get<0>(found), std::get<0>(usual)) << "bytes of workspace";
      EXPECT_NE(std::get<1>(found), std::get<1>(usual)) << "bytes that are written";
    }
    EXPECT_EQ(gradients_of(untuned.get()), usual) << "an op keeps its kernels";
    const TemporaryPath none{"no-results"};
    check(minuet_context_load_tuning(machine().context(), machine().device(), none.path().c_str(), nullptr));
  }
}

/// Such a plan is a convolution itself. Results for the gradient of the weight of an equal layer are not its.
TEST_P(GradientTuningTest, APlanOfAnInputGradientHasNoResultsOfFurtherGradients) {
  if (machine().is_cpu()) GTEST_SKIP() << "no kernels of gradients are chosen on the CPU";
  const Problem problem = random_problem(ConvolutionKind::Strided, 64, 64);
  const minuet_convolution_options options = options_of(problem.test, problem.data);
  ConvolutionProblem forward = example_problem(64, 64, dtype());
  for (std::size_t axis = 0; axis < 3; ++axis) {
    forward.kernel_size[axis] = problem.test.kernel_size[axis];
    forward.stride[axis] = problem.test.stride[axis];
  }
  ConvolutionProblem transposed = forward;
  forward.kind = ConvolutionKind::Strided, transposed.kind = ConvolutionKind::Transposed;
  if (!is_gradient_tunable(forward)) GTEST_SKIP() << "without tensor cores there is no choice";
  TuningStore store = store_in(folder_.path());
  const TuningEnvironment environment = environment_in(store);
  for (const ConvolutionProblem& layer : {forward, transposed}) {
    const TuningTask task = weight_gradient_task(layer, machine().arch(), 1024, 8192);
    llvm::cantFail(store.publish(with_kernels_of_this_build(make_entry(
        environment, task.bucket, measured(task.default_config, 9), {measured(task.candidates[0], 8)}))));
  }
  check(minuet_context_load_tuning(machine().context(), machine().device(), folder_.path().c_str(), nullptr));
  minuet_plan* made = nullptr;
  check(minuet_plan_create_convolution(machine().context(), &options, &made));
  const Plan plan(made, {minuet_plan_destroy});
  const auto operations_of = [](minuet_plan* of) {
    std::set<std::string> operations;
    check(minuet_plan_visit_tuning(
        of,
        [](const minuet_tuned_choice* choice, void* user) {
          static_cast<std::set<std::string>*>(user)->insert(choice->operation);
        },
        &operations));
    return operations;
  };
  EXPECT_THAT(operations_of(plan.get()), ElementsAre("weight_gradient"));
  check(minuet_plan_create_convolution_gradient(machine().context(), &options, MINUET_GRADIENT_INPUT, &made));
  const Plan of_input(made, {minuet_plan_destroy});
  EXPECT_THAT(operations_of(of_input.get()), IsEmpty());
}

TEST_P(GradientTuningTest, RefusesWhatCannotBeTrained) {
  if (machine().is_cpu()) GTEST_SKIP() << "no kernels of gradients are chosen on the CPU";
  Told told;
  minuet_tuning_result result = {};
  const Plan plan = make_plan(machine().context(), MINUET_DATAFLOW_GATHER_GEMM_SCATTER);
  EXPECT_EQ(tune(plan.get(), told, result), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("the training step of the network"));
  EXPECT_THAT(last_error(), HasSubstr("gather-gemm-scatter"));
  EXPECT_THAT(told.steps, IsEmpty()) << "nothing was measured in vain";
}

MINUET_INSTANTIATE_DEVICE_TEST(GradientTuningTest);

}  // namespace
}  // namespace minuet::abi
