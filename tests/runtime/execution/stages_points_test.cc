// Networks from raw points to features of voxels and back to points, on every device: exact and within
// capacities, with batches, with points that are dropped, and with errors.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>

#include "tests/runtime/execution/stages_fixture.h"
#include "tests/support/compare.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

std::string numbers(int ndim, double value) {
  std::string text;
  for (int a = 0; a < ndim; ++a) text += (a == 0 ? "[" : ", ") + std::to_string(value);
  return text + "]";
}

/// The layers on the voxels.
const char* const kVoxelLayers =
    R"({"op": "block", "name": "a", "out_channels": 8, "kernel_size": 3, "output": "voxels"},
            {"op": "block", "name": "b", "out_channels": 16, "kernel_size": 2, "stride": 2,
             "output": "coarse"})";
/// The layers on the points.
const char* const kPointLayers = R"({"op": "linear", "name": "c", "input": "blended", "out_channels": 8},
  {"op": "add", "with": "near"}, {"op": "relu"}, {"op": "linear", "name": "d", "out_channels": 5})";

struct Voxelizing {
  int ndim = 3;
  double size = 0.5;
  bool has_range = false;
  std::string more = {};  // fields of voxelize
};

std::string points_network(const Voxelizing& made) {
  const std::string range =
      made.has_range ? R"("range": [)" + numbers(made.ndim, -3) + ", " + numbers(made.ndim, 3) + "]"
                     : R"("low": )" + numbers(made.ndim, -0.25);
  return R"({"name": "points", "ndim": )" + std::to_string(made.ndim) +
         R"(, "inputs": [{"name": "points", "channels": )" + std::to_string(made.ndim + 1) +
         R"(}], "outputs": ["voxels", "coarse", "near", "blended", "labels"], "layers": [
         {"op": "voxelize", "voxel_size": )" +
         numbers(made.ndim, made.size) + ", " + range + made.more + "}, " + kVoxelLayers +
         R"(, {"op": "devoxelize", "input": "voxels", "output": "near"},
         {"op": "devoxelize", "input": "coarse", "blend": "corners", "output": "blended"}, )" +
         std::string(kPointLayers).substr(0, std::string(kPointLayers).size() - 1) +
         R"(, "output": "labels"}]})";
}

oracle::VoxelRules rules_of(const Voxelizing& made) {
  oracle::VoxelRules rules;
  rules.channels = made.ndim + 1;
  rules.has_range = made.has_range;
  for (int a = 0; a < made.ndim; ++a) {
    const auto axis = static_cast<size_t>(a);
    rules.low[axis] = made.has_range ? -3.0f : -0.25f, rules.high[axis] = 3.0f;
    rules.size[axis] = static_cast<float>(made.size);
  }
  return rules;
}

class StagesPoints : public StagesTest {
 protected:
  /// The outputs by a network that starts from voxels, and another one on the points.
  StagedRun expected(const oracle::PointCloud& cloud, const Voxelizing& made) {
    const oracle::VoxelRules rules = rules_of(made);
    const oracle::Voxels voxels = oracle::voxels_of(cloud, rules);
    const Plan body = plan_of(R"({"name": "body", "ndim": )" + std::to_string(made.ndim) +
                              R"(, "in_channels": )" + std::to_string(rules.channels) +
                              R"(, "outputs": ["voxels", "coarse"], "layers": [)" + kVoxelLayers + "]}");
    std::vector<float> features = voxels.features;
    for (float& value : features) value = round_to(storage_type(dtype()), static_cast<double>(value));
    StagedRun run;
    run.outputs = run_graph(machine(), body.get(), execution_of(body).get(), voxels.coordinates,
                            {stored(features)}, dtype(), made.ndim);
    const std::vector<float> near = values_of(run.outputs[0]);
    std::vector<float> of_points;
    for (const int32_t row : voxels.rows) {
      for (int c = 0; c < 8; ++c) of_points.push_back(row < 0 ? 0 : near[static_cast<size_t>(row * 8 + c)]);
    }
    std::vector<double> blended = oracle::blended(cloud, rules, false, std::vector<int32_t>(4, 2),
                                                  run.outputs[1].coordinates, values_of(run.outputs[1]), 16);
    for (const std::vector<char>& bytes :
         {stored(of_points), stored(std::vector<float>(blended.begin(), blended.end()))}) {
      run.outputs.push_back({cloud.count(), bytes.size() == stored(of_points).size() ? 8 : 16, bytes, {}});
    }
    return run;
  }
  /// Of the network's own features of points, which differ from those of plain loops by rounding.
  std::vector<char> labels_of(const StagedRun& run, int64_t points) {
    const Plan plan = plan_of(R"({"name": "head", "ndim": 3, "inputs": [{"name": "blended", "channels": 16},
      {"name": "near", "channels": 8, "level": "blended"}], "layers": [)" +
                              std::string(kPointLayers) + "]}");
    std::vector<int32_t> coordinates;
    for (int32_t i = 0; i < points; ++i) coordinates.insert(coordinates.end(), {0, i % 1000, i / 1000, 0});
    return run_graph(machine(), plan.get(), execution_of(plan).get(), coordinates,
                     {run.outputs[3].bytes, run.outputs[2].bytes}, dtype())
        .front()
        .bytes;
  }
  void expect(const StagedRun& run, const oracle::PointCloud& cloud, const Voxelizing& made) {
    const StagedRun wanted = expected(cloud, made);
    EXPECT_EQ(run.outputs[0].coordinates, wanted.outputs[0].coordinates);
    EXPECT_EQ(run.outputs[0].bytes, wanted.outputs[0].bytes);
    EXPECT_EQ(ascending(run.outputs[1], made.ndim), ascending(wanted.outputs[1], made.ndim));
    ASSERT_EQ(run.outputs[2].rows, cloud.count());
    EXPECT_EQ(run.outputs[2].bytes, wanted.outputs[2].bytes);
    const std::vector<float> blended = values_of(wanted.outputs[3]);
    EXPECT_TRUE(is_close(values_of(run.outputs[3]), std::vector<double>(blended.begin(), blended.end()), 16,
                         error_bound(dtype(), true)));
    EXPECT_EQ(run.outputs[4].bytes, labels_of(run, cloud.count()));
  }
};

TEST_P(StagesPoints, ExactClouds) {
  for (const int ndim : machine().is_software() ? std::vector{3} : std::vector{1, 2, 3, 4}) {
    SCOPED_TRACE(ndim);
    const Voxelizing made{.ndim = ndim, .has_range = ndim % 2 == 0};
    const Plan plan = plan_of(points_network(made));
    const Execution execution = execution_of(plan);
    Random random(7);
    for (const int64_t count : {200, 1, 0, 900}) {
      SCOPED_TRACE(count);
      const oracle::PointCloud cloud =
          oracle::random_points_of(random, count, ndim, ndim + 1, 4, count > 100 ? 3 : 0, false);
      const Arrays arrays = arrays_of(plan, cloud, count);
      check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
      expect(read(plan, execution, arrays), cloud, made);
    }
  }
}

/// Capacity mode gives the same bits as exact mode, with rows of zeros behind them.
TEST_P(StagesPoints, CloudsWithinCapacities) {
  for (const int ndim : machine().is_software() ? std::vector{3} : std::vector{1, 2, 3, 4}) {
    SCOPED_TRACE(ndim);
    const Voxelizing made{.ndim = ndim, .has_range = ndim % 2 == 1};
    const Plan plan = plan_of(points_network(made));
    const Execution exact = execution_of(plan),
                    within = execution_of(plan, MINUET_EXECUTION_OPTIONS_INIT, {500, 500, 500});
    EXPECT_EQ(info_of(within).run_capturable, machine().is_cpu() ? 0 : 1);
    EXPECT_EQ(info_of(exact).run_capturable, 0);
    Random random(8);
    for (const int64_t count : {300, 1, 0, 499}) {
      SCOPED_TRACE(count);
      const oracle::PointCloud cloud =
          oracle::random_points_of(random, count, ndim, ndim + 1, 2, count > 100 ? 3 : 0, false);
      const Arrays of_exact = arrays_of(plan, cloud, count), of_within = arrays_of(plan, cloud, 500);
      check(run_arrays(exact.get(), of_exact.inputs, of_exact.outputs));
      check(run_arrays(within.get(), of_within.inputs, of_within.outputs));
      uint32_t status = ~0u;
      const std::vector<int32_t> counts = counts_of(within, 3, status);
      EXPECT_EQ(status, 0u);
      EXPECT_EQ(counts[0], count);
      EXPECT_EQ(counts[1], count);
      StagedRun run = read(plan, within, of_within);
      const StagedRun wanted = read(plan, exact, of_exact);
      cut(plan, counts, run);
      for (size_t i = 0; i < run.outputs.size(); ++i) EXPECT_EQ(run.outputs[i], wanted.outputs[i]) << i;
    }
  }
}

/// One captured run goes from points to labels, for clouds of any size within the capacities.
TEST_P(StagesPoints, OneGraphServesEveryCloud) {
  if (machine().is_cpu()) return;  // Calls on the CPU are not captured.
  const Voxelizing made;
  const Plan plan = plan_of(points_network(made));
  const Execution exact = execution_of(plan),
                  within = execution_of(plan, MINUET_EXECUTION_OPTIONS_INIT, {400, 400, 400});
  Random random(12);
  std::vector<oracle::PointCloud> clouds;
  for (const int64_t count : {200, 399, 1})
    clouds.push_back(oracle::random_points_of(random, count, 3, 4, 3, 3, false));
  const Arrays arrays = arrays_of(plan, clouds[0], 400);
  const auto write = [&](size_t input, const void* values, size_t bytes) {
    check(minuet_device_copy(machine().device(), arrays.inputs[input].data, values,
                             static_cast<int64_t>(bytes), 0));
  };
  Stream stream(machine());
  check(minuet_device_synchronize(machine().device(), nullptr));
  check(run_arrays(within.get(), arrays.inputs, arrays.outputs, stream.get()));
  const CapturedGraph graph(stream.get(), [&] {
    check(run_arrays(within.get(), arrays.inputs, arrays.outputs, stream.get()));
    EXPECT_EQ(run_arrays(exact.get(), arrays.inputs, arrays.outputs, stream.get()),
              MINUET_FAILED_PRECONDITION);
  });
  ASSERT_TRUE(graph.whole());
  for (const oracle::PointCloud& cloud : clouds) {
    SCOPED_TRACE(cloud.count());
    const auto count = static_cast<int32_t>(cloud.count());
    write(0, cloud.points.data(), cloud.points.size() * 4);
    write(1, cloud.batch.data(), cloud.batch.size() * 4);
    write(2, &count, 4);
    EXPECT_EQ(graph.launch(), CUDA_SUCCESS);
    check(minuet_device_synchronize(machine().device(), stream.get()));
    StagedRun run = read(plan, within, arrays);
    uint32_t status = ~0u;
    cut(plan, counts_of(within, 3, status), run);
    EXPECT_EQ(status, 0u);
    const Arrays of_exact = arrays_of(plan, cloud, cloud.count());
    check(run_arrays(exact.get(), of_exact.inputs, of_exact.outputs));
    const StagedRun wanted = read(plan, exact, of_exact);
    for (size_t i = 0; i < run.outputs.size(); ++i) EXPECT_EQ(run.outputs[i], wanted.outputs[i]) << i;
  }
}

/// Of points that are dropped, each is counted once, and its features are 0.
TEST_P(StagesPoints, DroppedPointsAreCounted) {
  const Voxelizing made{.has_range = true, .more = R"(, "most_points_per_voxel": 2, "most_voxels": 60)"};
  oracle::VoxelRules rules = rules_of(made);
  rules.most_points = 2, rules.most_voxels = 60;
  const Plan plan = plan_of(points_network(made));
  const Execution execution = execution_of(plan);
  Random random(9);
  const oracle::PointCloud cloud = oracle::random_points_of(random, 400, 3, 4, 4, 3, false);
  const oracle::Voxels voxels = oracle::voxels_of(cloud, rules);
  ASSERT_GT(voxels.counts[2], 0);
  ASSERT_GT(voxels.counts[5], 0);
  const Arrays arrays = arrays_of(plan, cloud, 400);
  int32_t counts[MINUET_VOXELIZE_COUNTS] = {};
  EXPECT_EQ(minuet_execution_read_points(execution.get(), counts, MINUET_VOXELIZE_COUNTS, nullptr),
            MINUET_FAILED_PRECONDITION);
  check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
  check(minuet_execution_read_points(execution.get(), counts, MINUET_VOXELIZE_COUNTS, nullptr));
  EXPECT_EQ(std::vector<int32_t>(std::begin(counts), std::end(counts)),
            std::vector<int32_t>(voxels.counts.begin(), voxels.counts.end()));
  const StagedRun run = read(plan, execution, arrays);
  EXPECT_EQ(run.outputs[0].coordinates, voxels.coordinates);
  const std::vector<float> near = values_of(run.outputs[2]);
  for (size_t i = 0; i < voxels.rows.size(); ++i) {
    if (voxels.rows[i] < 0) {
      EXPECT_EQ(near[8 * i], 0.0f) << "point " << i;
    }
  }
}

TEST_P(StagesPoints, ACloudThatDoesNotFitIsReported) {
  const Plan plan = plan_of(points_network({}));
  Random random(10);
  const oracle::PointCloud cloud = oracle::random_points_of(random, 300, 3, 4, 4, 0, false);
  // The voxels do not fit, then those of the coarser level.
  for (const std::vector<int64_t>& capacities :
       {std::vector<int64_t>{300, 20, 300}, std::vector<int64_t>{300, 300, 20}}) {
    const Execution execution = execution_of(plan, MINUET_EXECUTION_OPTIONS_INIT, capacities);
    const Arrays arrays = arrays_of(plan, cloud, 300);
    std::vector<minuet_array> outputs = arrays.outputs;
    outputs[0].shape[0] = capacities[1], outputs[1].shape[0] = capacities[2];
    check(run_arrays(execution.get(), arrays.inputs, outputs));
    uint32_t status = 0;
    const std::vector<int32_t> counts = counts_of(execution, 3, status);
    EXPECT_EQ(status, uint32_t{MINUET_CLOUD_PAST_CAPACITY});
    EXPECT_EQ(counts, std::vector<int32_t>(4));
    for (const float value : decode(dtype(), arrays.made[4]->read<char>())) ASSERT_EQ(value, 0.0f);
  }
}

TEST_P(StagesPoints, Refusals) {
  const Plan plan = plan_of(points_network({}));
  Random random(11);
  const oracle::PointCloud cloud = oracle::random_points_of(random, 50, 3, 4, 4, 3, false);
  const Execution execution = execution_of(plan);
  const auto refuses = [&](const Execution& own, const Arrays& arrays, const char* text,
                           minuet_status status = MINUET_INVALID_ARGUMENT) {
    EXPECT_EQ(run_arrays(own.get(), arrays.inputs, arrays.outputs), status);
    EXPECT_THAT(last_error(), HasSubstr(text));
  };
  EXPECT_EQ(minuet_execution_prepare(execution.get(), nullptr, 0, nullptr), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("nothing to prepare"));
  int64_t rows = 0;
  int32_t channels = 0;
  EXPECT_EQ(minuet_execution_output_shape_of(execution.get(), 0, &rows, &channels),
            MINUET_FAILED_PRECONDITION);
  Arrays arrays = arrays_of(plan, cloud, 50);
  Arrays changed = arrays;
  changed.outputs[0].shape[0] = 3;
  refuses(execution, changed, "output 0 has 3 rows, but this run needs");
  changed = arrays;
  changed.outputs[4].shape[0] = 49;
  refuses(execution, changed, "output 4 has shape [49, 5]");
  changed = arrays;
  changed.inputs[1].shape[0] = 49;
  refuses(execution, changed, "input 1 has 49 elements of i32");
  changed = arrays;
  changed.inputs[0].element = MINUET_ELEMENT_F64;
  refuses(execution, changed, "input 0 has elements of f64, but the plan needs f32");
  changed = arrays;
  changed.inputs.push_back(array_of(put(std::vector<int32_t>{3}, 1).data(), {1}, MINUET_ELEMENT_I32));
  refuses(execution, changed, "level_capacity", MINUET_FAILED_PRECONDITION);
  changed = arrays;
  changed.inputs.clear();
  refuses(execution, changed, "run takes 1 to 3 inputs");
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.batch_size = 1;
  refuses(execution_of(plan, options), arrays, "batch", MINUET_OUT_OF_RANGE);
  check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
}

/// After a run that fails before or after the voxels are made, nothing is answered with those of the run
/// before.
TEST_P(StagesPoints, AFailedRunLeavesNoAnswers) {
  const Plan plan = plan_of(points_network({}));
  Random random(13);
  const oracle::PointCloud first = oracle::random_points_of(random, 60, 3, 4, 4, 3, false),
                           second = oracle::random_points_of(random, 90, 3, 4, 4, 3, false);
  const Execution execution = execution_of(plan);
  const Buffer where(machine(), 1600);
  // An output of voxels that has too few rows is the reason why a run fails, so its rows are told.
  std::map<int32_t, int64_t> needed;
  const auto expect_no_answers = [&](int32_t small) {
    const auto refused = MINUET_FAILED_PRECONDITION;
    int32_t counts[MINUET_VOXELIZE_COUNTS] = {}, layer = 0, channels = 0;
    int64_t rows = 0, capacities[3] = {};
    EXPECT_EQ(minuet_execution_read_points(execution.get(), counts, MINUET_VOXELIZE_COUNTS, nullptr),
              refused);
    EXPECT_THAT(last_error(), HasSubstr("run the network first"));
    EXPECT_EQ(minuet_execution_find_overflow(execution.get(), nullptr, &layer), refused);
    EXPECT_THAT(last_error(), HasSubstr("run the network first"));
    EXPECT_EQ(minuet_execution_suggest_capacities(execution.get(), 1, capacities, 3), refused);
    for (int32_t i = 0; i < 5; ++i) {
      const minuet_status status = minuet_execution_output_shape_of(execution.get(), i, &rows, &channels);
      const bool is_told = i == small && output_of(plan.get(), i).level > 0;
      EXPECT_EQ(status, is_told ? MINUET_OK : refused) << i;
      if (is_told) needed[i] = rows;
      EXPECT_EQ(minuet_execution_output_coordinates_of(execution.get(), i,
                                                       static_cast<int32_t*>(where.data()), nullptr),
                refused);
    }
    for (int32_t level = 0; level < 3; ++level) {
      minuet_level_info info{};
      info.struct_size = sizeof(info);
      check(minuet_execution_query_level(execution.get(), level, &info));
      EXPECT_EQ(info.voxels, 0) << level;
    }
  };
  expect_no_answers(-1);
  const Arrays good = arrays_of(plan, first, 60), next = arrays_of(plan, second, 90);
  for (const size_t small : {size_t{0}, size_t{1}, size_t{4}}) {
    SCOPED_TRACE(small);
    check(run_arrays(execution.get(), good.inputs, good.outputs));
    expect(read(plan, execution, good), first, {});
    Arrays bad = next;
    bad.outputs[small].shape[0] = 1;
    EXPECT_EQ(run_arrays(execution.get(), bad.inputs, bad.outputs), MINUET_INVALID_ARGUMENT);
    expect_no_answers(static_cast<int32_t>(small));
  }
  check(run_arrays(execution.get(), next.inputs, next.outputs));
  EXPECT_FALSE(needed.empty());
  for (const auto& [output, wanted] : needed) {
    int64_t rows = 0;
    int32_t channels = 0;
    check(minuet_execution_output_shape_of(execution.get(), output, &rows, &channels));
    EXPECT_EQ(rows, wanted) << output;
  }
  expect(read(plan, execution, next), second, {});
}

/// The number is written by voxelize, which is layer 0, and found in layer 1, which computes with it.
TEST_P(StagesPoints, AnInfiniteFeatureOfAPointIsFoundInTheFirstLayerOnVoxels) {
  const Plan plan = plan_of(points_network({}));
  Random random(14);
  oracle::PointCloud cloud = oracle::random_points_of(random, 80, 3, 4, 4, 0, false);
  for (const bool is_within : {false, true}) {
    const Execution execution =
        execution_of(plan, MINUET_EXECUTION_OPTIONS_INIT,
                     is_within ? std::vector<int64_t>(3, 100) : std::vector<int64_t>{});
    for (const float feature : {1.0f, std::numeric_limits<float>::infinity(), -0.5f}) {
      cloud.points[3] = feature;
      const Arrays arrays = arrays_of(plan, cloud, is_within ? 100 : 80);
      check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
      int32_t layer = -2;
      check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
      EXPECT_EQ(layer, std::isinf(feature) ? 1 : -1);
    }
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(StagesPoints);

}  // namespace
}  // namespace minuet::abi
