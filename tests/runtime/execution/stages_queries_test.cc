// What is asked of executions whose levels are made in each run, on every device: before a run, after the
// prepare of another cloud, after a run that failed; what runs wait for and allocate; graphs and parameters.
#include <gmock/gmock.h>

#include <chrono>

#include "tests/runtime/execution/parameters_fixture.h"
#include "tests/runtime/execution/stages_rows.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

/// What a query tells of a layer.
struct LayerAnswer {
  minuet_dataflow dataflow = MINUET_DATAFLOW_AUTO;
  int64_t pairs = 0;
  bool operator==(const LayerAnswer&) const = default;
};

class StagesQueries : public StagesRowsTest {
 protected:
  /// Output 0 is on the caller's level, and the others are on levels that the run makes.
  static std::string whole() {
    return network_of(std::string(kFirst) +
                          R"(, {"op": "prune", "input": "x", "by": "score", "threshold": 0.25,
                          "output": "kept"}, )" +
                          kSecond,
                      R"("x", "y", "half", "z")");
  }
  static constexpr int32_t kLevels = 3, kMadeOutputs[] = {1, 2, 3};

  static std::vector<LayerAnswer> layers_of(const Plan& plan, const Execution& execution, size_t first = 0) {
    std::vector<LayerAnswer> answers;
    for (int32_t i = static_cast<int32_t>(first); i < info_of(plan.get()).layers; ++i) {
      minuet_layer_info info{};
      info.struct_size = sizeof(info);
      check(minuet_execution_query_layer(execution.get(), i, &info));
      answers.push_back({info.dataflow, info.pairs});
    }
    return answers;
  }
  static int64_t voxels_of(const Execution& execution, int32_t level) {
    minuet_level_info info{};
    info.struct_size = sizeof(info);
    check(minuet_execution_query_level(execution.get(), level, &info));
    return info.voxels;
  }
  /// Layers 0 and 1 are the convolutions of the first stage.
  static constexpr size_t kFirstLayers = 2;

  /// Nothing is told about levels that the run makes, but for the rows of the output `small`, for which a run
  /// has failed.
  void expect_unknown(const Plan& plan, const Execution& execution, bool is_exact, int32_t small = -1) {
    const Buffer where(machine(), 16 * 512);
    int32_t layer = 0;
    EXPECT_EQ(minuet_execution_find_overflow(execution.get(), nullptr, &layer), MINUET_FAILED_PRECONDITION);
    EXPECT_THAT(last_error(),
                HasSubstr(voxels_of(execution, 0) > 0 ? "run the network first" : "no cloud is prepared"));
    int64_t capacities[kLevels] = {};
    EXPECT_EQ(minuet_execution_suggest_capacities(execution.get(), 1, capacities, kLevels),
              MINUET_FAILED_PRECONDITION);
    EXPECT_THAT(last_error(), HasSubstr(is_exact ? "run the network first" : "level_capacity"));
    for (const int32_t output : kMadeOutputs) {
      EXPECT_EQ(minuet_execution_output_coordinates_of(execution.get(), output,
                                                       static_cast<int32_t*>(where.data()), nullptr),
                MINUET_FAILED_PRECONDITION)
          << output;
      EXPECT_THAT(last_error(), HasSubstr(output == small           ? "run the network first"
                                          : is_exact                ? "is known after a run"
                                          : voxels_of(execution, 0) ? "run the network first"
                                                                    : "no cloud is prepared"));
      if (!is_exact || output == small) continue;
      int64_t rows = 0;
      int32_t channels = 0;
      EXPECT_EQ(minuet_execution_output_shape_of(execution.get(), output, &rows, &channels),
                MINUET_FAILED_PRECONDITION);
    }
    for (int32_t level = 1; is_exact && level < kLevels; ++level) EXPECT_EQ(voxels_of(execution, level), 0);
    for (const LayerAnswer& answer : layers_of(plan, execution, kFirstLayers))
      EXPECT_EQ(answer, LayerAnswer{}) << "a layer behind the first stage";
  }
  /// Returns the rows that the network keeps of a cloud, by an execution of its own.
  StagedRun fresh(const Plan& plan, const std::vector<int32_t>& coordinates) {
    return run_exact(plan, execution_of(plan), coordinates, features_of(coordinates), kRoom);
  }
  /// In device memory that is as large as the capacities allow.
  static constexpr int64_t kRoom = 320;
};

TEST_P(StagesQueries, APrepareLeavesNoAnswersOfTheCloudBefore) {
  const Plan plan = plan_of(whole());
  const Execution execution = execution_of(plan);
  const std::vector<int32_t> first = draw_cells(300, 21), second = draw_cells(150, 22);
  const std::vector<LayerAnswer> before = layers_of(plan, execution);
  const StagedRun run = run_exact(plan, execution, first, features_of(first), kRoom);
  EXPECT_EQ(voxels_of(execution, 1), run.outputs[1].rows);
  EXPECT_EQ(voxels_of(execution, 2), run.outputs[2].rows);
  const std::vector<LayerAnswer> after = layers_of(plan, execution);
  EXPECT_EQ(after[0].dataflow, MINUET_DATAFLOW_FUSED);
  EXPECT_GT(after[kFirstLayers + 1].pairs, 0);
  int32_t layer = 0;
  check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
  EXPECT_EQ(layer, -1);
  check(prepare(machine(), execution.get(), second));
  EXPECT_EQ(voxels_of(execution, 0), static_cast<int64_t>(second.size() / 4));
  EXPECT_EQ(layers_of(plan, execution)[0].dataflow, MINUET_DATAFLOW_FUSED);
  expect_unknown(plan, execution, /*is_exact=*/true);
  const StagedRun again = run_exact(plan, execution, second, features_of(second), kRoom),
                  wanted = fresh(plan, second);
  for (size_t i = 0; i < wanted.outputs.size(); ++i) EXPECT_EQ(again.outputs[i], wanted.outputs[i]) << i;
  EXPECT_NE(before, after);
}

TEST_P(StagesQueries, APrepareWithinCapacitiesLeavesNoAnswersOfTheCloudBefore) {
  const Plan plan = plan_of(whole());
  const Execution execution = within_of(plan, kRoom);
  const std::vector<int32_t> first = draw_cells(300, 23), second = draw_cells(150, 24);
  uint32_t status = ~0u;
  std::vector<int32_t> counts(1 + kLevels);
  EXPECT_EQ(minuet_execution_read_cloud(execution.get(), &status, counts.data(), 1 + kLevels, nullptr),
            MINUET_FAILED_PRECONDITION);
  for (const std::vector<int32_t>& coordinates : {first, second}) {
    prepare_within(execution, coordinates, kRoom);
    const auto rows = static_cast<int32_t>(coordinates.size() / 4);
    EXPECT_EQ(counts_of(execution, kLevels, status), (std::vector<int32_t>{rows, rows, 0, 0}));
    EXPECT_EQ(status, 0u);
    expect_unknown(plan, execution, /*is_exact=*/false);
    const Arrays arrays = arrays_on(plan, features_of(coordinates), kRoom, kRoom);
    check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
    expect_cut(plan, execution, arrays, fresh(plan, coordinates));
    EXPECT_GT(counts_of(execution, kLevels, status)[2], 0);
  }
}

/// A run that fails behind the first stage leaves the prepared cloud, and nothing of runs.
TEST_P(StagesQueries, AFailedRunLeavesNoAnswers) {
  const Plan plan = plan_of(whole());
  const Execution execution = execution_of(plan);
  const std::vector<int32_t> coordinates = draw_cells(200, 25);
  const StagedRun wanted = run_exact(plan, execution, coordinates, features_of(coordinates), kRoom);
  const auto rows = static_cast<int64_t>(coordinates.size() / 4);
  Arrays arrays = arrays_on(plan, features_of(coordinates), rows, kRoom);
  shape_outputs(execution, arrays);
  for (const size_t small : {size_t{1}, size_t{3}}) {
    Arrays bad = arrays;
    bad.outputs[small].shape[0] = 2;
    EXPECT_EQ(run_arrays(execution.get(), bad.inputs, bad.outputs), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("output " + std::to_string(small) + " has 2 rows"));
    expect_unknown(plan, execution, /*is_exact=*/true, static_cast<int32_t>(small));
    int64_t needed = 0;
    int32_t channels = 0;
    check(minuet_execution_output_shape_of(execution.get(), static_cast<int32_t>(small), &needed, &channels));
    EXPECT_EQ(needed, wanted.outputs[small].rows);
    EXPECT_EQ(voxels_of(execution, 0), rows);
    check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
    const StagedRun run = read(plan, execution, arrays);
    for (size_t i = 0; i < wanted.outputs.size(); ++i) EXPECT_EQ(run.outputs[i], wanted.outputs[i]) << i;
  }
  // A refused prepare leaves nothing at all.
  EXPECT_NE(minuet_execution_prepare(execution.get(), nullptr, 3, nullptr), MINUET_OK);
  expect_unknown(plan, execution, /*is_exact=*/true);
  EXPECT_EQ(voxels_of(execution, 0), 0);
}

/// A run that fails tells the rows of all outputs of its stage that have too few, so that the second run has
/// enough.
TEST_P(StagesQueries, AFailedRunTellsTheRowsOfAllShortOutputs) {
  const Plan plan = plan_of(whole());
  const Execution execution = execution_of(plan);
  const std::vector<int32_t> coordinates = draw_cells(200, 33);
  const StagedRun wanted = run_exact(plan, execution, coordinates, features_of(coordinates), kRoom);
  check(prepare(machine(), execution.get(), coordinates));
  Arrays arrays =
      arrays_on(plan, features_of(coordinates), static_cast<int64_t>(coordinates.size() / 4), kRoom);
  shape_outputs(execution, arrays);
  for (const int32_t output : kMadeOutputs) arrays.outputs[static_cast<size_t>(output)].shape[0] = 1;
  EXPECT_EQ(run_arrays(execution.get(), arrays.inputs, arrays.outputs), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(),
              HasSubstr("output 1 has 1 rows, but this run needs " + std::to_string(wanted.outputs[1].rows)));
  for (const int32_t output : kMadeOutputs) {
    int64_t rows = 0;
    int32_t channels = 0;
    check(minuet_execution_output_shape_of(execution.get(), output, &rows, &channels));
    EXPECT_EQ(rows, wanted.outputs[static_cast<size_t>(output)].rows) << output;
    arrays.outputs[static_cast<size_t>(output)].shape[0] = rows;
  }
  check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
  const StagedRun run = read(plan, execution, arrays);
  for (size_t i = 0; i < wanted.outputs.size(); ++i) EXPECT_EQ(run.outputs[i], wanted.outputs[i]) << i;
}

/// In capacity mode, a run that is refused leaves no answers about levels of runs, but the state of the cloud
/// is what the run before wrote.
TEST_P(StagesQueries, ARefusedRunWithinCapacitiesLeavesTheStateOfTheCloud) {
  const Plan plan = plan_of(whole());
  const Execution execution = within_of(plan, kRoom);
  const std::vector<int32_t> coordinates = draw_cells(200, 34);
  prepare_within(execution, coordinates, kRoom);
  const Arrays arrays = arrays_on(plan, features_of(coordinates), kRoom, kRoom);
  check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
  uint32_t status = ~0u;
  const std::vector<int32_t> counts = counts_of(execution, kLevels, status);
  EXPECT_GT(counts[2], 0);
  for (const size_t small : {size_t{0}, size_t{3}}) {
    Arrays bad = arrays;
    bad.outputs[small].shape[0] = 2;
    EXPECT_EQ(run_arrays(execution.get(), bad.inputs, bad.outputs), MINUET_INVALID_ARGUMENT);
    expect_unknown(plan, execution, /*is_exact=*/false);
    EXPECT_EQ(counts_of(execution, kLevels, status), counts);
    EXPECT_EQ(status, 0u);
  }
  check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
  expect_cut(plan, execution, arrays, fresh(plan, coordinates));
}

/// In exact mode, a run waits for the rows that are kept, and for the counts of their level's maps. In
/// capacity mode it never waits, and memory never grows, whatever the cloud is.
TEST_P(StagesQueries, WaitsAndAllocations) {
  const Plan plan = plan_of(whole());
  const Execution exact = execution_of(plan), within = within_of(plan, kRoom);
  const int64_t bytes = counters_of(within.get()).workspace_bytes;
  check(minuet_execution_reset_counters(within.get()));
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{100}, kRoom}) {
    SCOPED_TRACE(count);
    const std::vector<int32_t> coordinates = draw_cells(count, 26);
    const StagedRun wanted = run_exact(plan, exact, coordinates, features_of(coordinates), kRoom);
    check(minuet_execution_reset_counters(exact.get()));
    const auto rows = static_cast<int64_t>(coordinates.size() / 4);
    Arrays arrays = arrays_on(plan, features_of(coordinates), rows, kRoom);
    shape_outputs(exact, arrays);
    check(run_arrays(exact.get(), arrays.inputs, arrays.outputs));
    EXPECT_EQ(counters_of(exact.get()).host_syncs, machine().is_cpu() ? 0 : 2);
    EXPECT_EQ(counters_of(exact.get()).allocations, 0) << "the same cloud again needs no more memory";
    prepare_within(within, coordinates, kRoom);
    arrays = arrays_on(plan, features_of(coordinates), kRoom, kRoom);
    check(run_arrays(within.get(), arrays.inputs, arrays.outputs));
    const minuet_execution_counters counters = counters_of(within.get());
    EXPECT_EQ(counters.host_syncs, 0);
    EXPECT_EQ(counters.allocations, 0);
    EXPECT_EQ(counters.workspace_bytes, bytes);
    expect_cut(plan, within, arrays, wanted);
    check(minuet_execution_reset_counters(within.get()));
  }
}

/// The first run of an execution may be a captured one, and allocates nothing.
TEST_P(StagesQueries, TheFirstRunIsCaptured) {
  if (machine().is_cpu()) return;  // Calls on the CPU are not captured.
  const Plan plan = plan_of(whole());
  const Execution execution = within_of(plan, kRoom);
  check(minuet_execution_reset_counters(execution.get()));
  Stream stream(machine());
  const Buffer coordinates(machine(), kRoom * 16), count(machine(), 4);
  const Arrays arrays = arrays_on(plan, {}, kRoom, kRoom);
  check(minuet_device_synchronize(machine().device(), nullptr));
  const CapturedGraph graph(stream.get(), [&] {
    check(minuet_execution_prepare_on_device(execution.get(), coordinates.integers(), count.integers(),
                                             stream.get()));
    check(run_arrays(execution.get(), arrays.inputs, arrays.outputs, stream.get()));
  });
  ASSERT_TRUE(graph.whole());
  EXPECT_EQ(counters_of(execution.get()).allocations, 0);
  EXPECT_EQ(counters_of(execution.get()).host_syncs, 0);
  const auto write = [&](void* target, const void* values, size_t bytes) {
    if (bytes > 0)
      check(minuet_device_copy(machine().device(), target, values, static_cast<int64_t>(bytes), 0));
  };
  for (const int64_t most : {200, 0, 310}) {
    SCOPED_TRACE(most);
    const std::vector<int32_t> cloud = draw_cells(most, 27);
    const std::vector<char> features = features_of(cloud);
    const auto rows = static_cast<int32_t>(cloud.size() / 4);
    write(coordinates.data(), cloud.data(), cloud.size() * 4);
    write(arrays.inputs[0].data, features.data(), features.size());
    write(count.data(), &rows, 4);
    EXPECT_EQ(graph.launch(), CUDA_SUCCESS);
    check(minuet_device_synchronize(machine().device(), stream.get()));
    expect_cut(plan, execution, arrays, fresh(plan, cloud));
  }
}

/// A graph of a run alone is replayed after prepares that are not captured, and queries answer with what the
/// replay has made. That ends with minuet_execution_release_captures.
TEST_P(StagesQueries, ARunAloneIsCapturedAndReplayedForOtherClouds) {
  if (machine().is_cpu()) return;  // Calls on the CPU are not captured.
  const Plan plan = plan_of(whole());
  const Execution execution = within_of(plan, kRoom);
  Stream stream(machine());
  const Arrays arrays = arrays_on(plan, {}, kRoom, kRoom);
  prepare_within(execution, draw_cells(50, 35), kRoom, stream.get());
  const CapturedGraph graph(
      stream.get(), [&] { check(run_arrays(execution.get(), arrays.inputs, arrays.outputs, stream.get())); });
  ASSERT_TRUE(graph.whole());
  for (const int64_t most : {200, 0, 310}) {
    SCOPED_TRACE(most);
    const std::vector<int32_t> cloud = draw_cells(most, 36);
    const std::vector<char> features = features_of(cloud);
    prepare_within(execution, cloud, kRoom, stream.get());
    if (!features.empty()) {
      check(minuet_device_copy(machine().device(), arrays.inputs[0].data, features.data(),
                               static_cast<int64_t>(features.size()), 0));
    }
    EXPECT_EQ(graph.launch(), CUDA_SUCCESS);
    check(minuet_device_synchronize(machine().device(), stream.get()));
    expect_cut(plan, execution, arrays, fresh(plan, cloud));
    int32_t layer = 0;
    check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
    EXPECT_EQ(layer, -1);
  }
  check(minuet_execution_release_captures(execution.get()));
  prepare_within(execution, draw_cells(100, 37), kRoom);
  expect_unknown(plan, execution, /*is_exact=*/false);
}

/// The measured times of the last prepare and run are no longer than both took, however many runs were
/// before.
TEST_P(StagesQueries, TimesAreThoseOfTheLastRun) {
  const Plan plan = plan_of(whole());
  const Execution execution = execution_of(plan);
  const std::vector<int32_t> coordinates = draw_cells(300, 28);
  const auto rows = static_cast<int64_t>(coordinates.size() / 4);
  Arrays arrays = arrays_on(plan, features_of(coordinates), rows, kRoom);
  check(prepare(machine(), execution.get(), coordinates));
  shape_outputs(execution, arrays);
  check(minuet_execution_set_profiling(execution.get(), 1));
  double taken = 0;
  for (int i = 0; i < (machine().is_software() ? 2 : 200); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    check(prepare(machine(), execution.get(), coordinates));
    check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
    check(minuet_device_synchronize(machine().device(), nullptr));
    taken = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }
  minuet_stage_times times{};
  times.struct_size = sizeof(times);
  check(minuet_execution_query_stages(execution.get(), &times));
  const double sum = times.sort + times.map + times.gather + times.gemm + times.scatter + times.other;
  EXPECT_GT(sum, 0);
  EXPECT_LE(sum, taken);
}

/// Each run takes values of the parameters, and the result has the bits of a plan with these values.
TEST_P(StagesQueries, ParametersAsInputsOfARun) {
  NetworkSpec spec;
  spec.description = whole(), spec.dtype = dtype(), spec.dataflow = MINUET_DATAFLOW_FUSED;
  spec.without_values = true, spec.seed = 0;
  const Plan bare = make_network(machine(), spec);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.parameter_inputs = 1;
  const Execution exact = execution_of(bare, options),
                  within = execution_of(bare, options, std::vector<int64_t>(kLevels, kRoom));
  const std::vector<int32_t> coordinates = draw_cells(250, 29);
  const std::vector<char> features = features_of(coordinates);
  const auto rows = static_cast<int64_t>(coordinates.size() / 4);
  check(prepare(machine(), exact.get(), coordinates));
  prepare_within(within, coordinates, kRoom);
  spec.without_values = false;
  std::vector<char> before;
  for (const uint64_t seed : {31u, 32u}) {
    Random random(seed);
    Values values;
    for (int32_t i = 0; i < info_of(bare.get()).parameter_tensors; ++i) {
      minuet_parameter_info info{};
      info.struct_size = sizeof(info);
      check(minuet_plan_query_parameter(bare.get(), i, &info));
      FileTensor& tensor = values[info.name];
      int64_t count = 1;
      for (int32_t a = 0; a < info.rank; ++a) tensor.shape.push_back(info.shape[a]), count *= info.shape[a];
      const bool is_variance = std::string(info.name).ends_with("running_var");
      for (int64_t k = 0; k < count; ++k)
        tensor.values.push_back(static_cast<float>(random.between(is_variance ? 4 : -8, 8)) / 8);
    }
    const TemporaryPath file("stages_parameters.safetensors");
    write_safetensors(file.path(), values);
    spec.weights = file.path();
    const StagedRun wanted = fresh(make_network(machine(), spec), coordinates);
    EXPECT_NE(wanted.outputs[0].bytes, before);
    before = wanted.outputs[0].bytes;
    DeviceArrays parameters(machine(), bare.get(), values);
    const auto add_parameters = [&](Arrays arrays) {
      arrays.inputs.insert(arrays.inputs.end(), parameters.arrays().begin(), parameters.arrays().end());
      return arrays;
    };
    Arrays of_exact = add_parameters(arrays_on(bare, features, rows, kRoom));
    shape_outputs(exact, of_exact);
    check(run_arrays(exact.get(), of_exact.inputs, of_exact.outputs));
    const StagedRun run = read(bare, exact, of_exact);
    for (size_t i = 0; i < wanted.outputs.size(); ++i) EXPECT_EQ(run.outputs[i], wanted.outputs[i]) << i;
    const Arrays of_within = add_parameters(arrays_on(bare, features, kRoom, kRoom));
    check(run_arrays(within.get(), of_within.inputs, of_within.outputs));
    expect_cut(bare, within, of_within, wanted);
    // A parameter of another shape is refused, and nothing of the run before is left.
    of_exact.inputs.back().shape[0] += 1;
    EXPECT_EQ(run_arrays(exact.get(), of_exact.inputs, of_exact.outputs), MINUET_INVALID_ARGUMENT);
    expect_unknown(bare, exact, /*is_exact=*/true);
  }
}

/// Messages name a level by its number in the network, not in its stage.
TEST_P(StagesQueries, MessagesNameLevelsOfTheNetwork) {
  const auto refuses = [&](const std::string& description, const std::vector<int64_t>& capacities,
                           minuet_status status, const char* text) {
    const Plan plan = plan_of(description);
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.batch_size = 3;
    options.level_capacity = capacities.empty() ? nullptr : capacities.data();
    options.level_count = static_cast<int32_t>(capacities.size());
    minuet_execution* made = nullptr;
    EXPECT_EQ(minuet_execution_create(plan.get(), machine().device(), &options, &made), status);
    EXPECT_THAT(last_error(), HasSubstr(text));
  };
  const std::string kept =
      std::string(kFirst) + R"(, {"op": "prune", "input": "x", "by": "score", "output": "kept"}, )";
  const std::string pooled = network_of(
      kept + R"({"op": "global_pool", "name": "g", "reduction": "max", "output": "end"})", R"("end")");
  refuses(pooled, {64, 64, 2}, MINUET_INVALID_ARGUMENT, "level_capacity[2] is 2");
  refuses(network_of(kept + kSecond, kOutputs), {64, 100000000, 64}, MINUET_OUT_OF_RANGE,
          "level_capacity[1]: 100000000 coordinates");
  refuses(R"({"name": "large", "ndim": 3, "in_channels": 4, "shape": [1024, 1024, 1024], "outputs": ["end"],
              "layers": [)" +
              kept + R"({"op": "to_dense", "output": "end"}]})",
          {}, MINUET_OUT_OF_RANGE, "dense tensor of level 1");
}

MINUET_INSTANTIATE_DEVICE_TEST(StagesQueries);

}  // namespace
}  // namespace minuet::abi
