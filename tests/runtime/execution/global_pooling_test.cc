// Networks that pool whole batch items (global_pool) through the C ABI, on every device, against plain loops:
// every reduction, exact, within capacities and on pyramids, with maps by an index and by sorting.
#include <gmock/gmock.h>

#include "tests/runtime/execution/pyramid_fixture.h"
#include "tests/support/compare.h"
#include "tests/support/network_oracle.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

constexpr int kReductions = 3;
constexpr const char* kReductionNames[kReductions] = {"max", "average", "sum"};

/// A level of a cloud: coordinates [rows, 4] and features [rows, channels].
struct Rows {
  std::vector<int32_t> coordinates;
  std::vector<double> features;
  size_t channels = 4;
  size_t rows() const { return coordinates.size() / 4; }
};

/// Pools each batch item in plain loops.
std::vector<double> pooled(const Rows& level, int64_t batch, int reduction) {
  std::vector<double> items(static_cast<size_t>(batch) * level.channels);
  std::vector<double> counts(static_cast<size_t>(batch));
  for (size_t row = 0; row < level.rows(); ++row) {
    const auto item = static_cast<size_t>(level.coordinates[4 * row]);
    for (size_t c = 0; c < level.channels; ++c) {
      const double value = level.features[row * level.channels + c];
      double& result = items[item * level.channels + c];
      result = counts[item] == 0 ? value : reduction == 0 ? std::max(result, value) : result + value;
    }
    ++counts[item];
  }
  for (size_t i = 0; i < items.size() && reduction == 1; ++i) {
    if (counts[i / level.channels] > 0) items[i] /= counts[i / level.channels];
  }
  return items;
}

/// Coordinates [about rows, 4] of `batch` items in random order. The last item is empty, and so are some
/// others.
std::vector<int32_t> draw_scene(int64_t rows, int64_t batch, uint64_t seed, int32_t extent = 20) {
  Random random(seed);
  std::map<std::array<int32_t, 4>, int> seen;
  std::vector<int32_t> coordinates;
  for (int64_t i = 0; i < rows; ++i) {
    std::array<int32_t, 4> cell{
        static_cast<int32_t>(random.below(static_cast<uint64_t>(std::max<int64_t>(batch - 1, 1))))};
    if (batch > 2 && cell[0] % 5 == 3) cell[0] = 0;
    for (size_t a = 1; a < 4; ++a) cell[a] = static_cast<int32_t>(random.between(-extent, extent));
    if (!seen.emplace(cell, 0).second) continue;
    coordinates.insert(coordinates.end(), cell.begin(), cell.end());
  }
  return coordinates;
}

std::string pool_layer(int reduction, const std::string& input, const std::string& output) {
  return R"({"op": "global_pool", "name": ")" + output + R"(", "input": ")" + input + R"(", "reduction": ")" +
         kReductionNames[reduction] + R"(", "output": ")" + output + R"("})";
}

std::string network_of(const std::string& layers, const std::string& outputs, int channels = 4) {
  return R"({"name": "items", "ndim": 3, "in_channels": )" + std::to_string(channels) + R"(, "outputs": [)" +
         outputs + R"(], "layers": [)" + layers + "]}";
}

class GlobalPoolingTest : public DeviceTest {
 protected:
  Plan plan_of(const std::string& description, const std::string& weights = "") {
    NetworkSpec spec;
    spec.description = description, spec.dtype = dtype(), spec.weights = weights;
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    return make_network(machine(), spec);
  }
  static minuet_execution_options options_of(int64_t batch, minuet_map_method method = MINUET_MAPS_AUTO) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.batch_size = batch;
    options.map_method = method;
    return options;
  }
  std::vector<double> values_of(const std::vector<char>& bytes) const {
    const std::vector<float> values = decode(dtype(), bytes);
    return {values.begin(), values.end()};
  }
  Rows rows_of(const NetworkRun& run) const {
    return {run.coordinates, values_of(run.bytes), static_cast<size_t>(run.channels)};
  }
  /// Four channels for each row, which has four fields.
  std::vector<char> features_of(const std::vector<int32_t>& coordinates) const {
    return encode(dtype(), oracle::draw_features(static_cast<int64_t>(coordinates.size()), 9));
  }
  /// A row for each item, at the coordinates 0, 1, 2, ...
  void check_pooled(const NetworkRun& run, const Rows& level, int64_t batch, int reduction) {
    SCOPED_TRACE(kReductionNames[reduction]);
    ASSERT_EQ(run.rows, batch);
    std::vector<int32_t> items;
    for (int32_t item = 0; item < batch; ++item) items.push_back(item);
    EXPECT_EQ(run.coordinates, items);
    EXPECT_TRUE(is_close(decode(dtype(), run.bytes), pooled(level, batch, reduction), run.channels,
                         error_bound(dtype(), true)));
  }
  minuet_array array(const Buffer& buffer, int64_t rows, int64_t channels) const {
    const minuet_element element =
        dtype() == DType::TF32 ? MINUET_ELEMENT_F32 : static_cast<minuet_element>(abi_dtype(dtype()));
    return array_of(buffer.data(), {rows, channels}, element);
  }
  void put(const Buffer& target, const void* values, int64_t bytes) {
    if (bytes > 0) check(minuet_device_copy(machine().device(), target.data(), values, bytes, 0));
  }
};

/// Pools the finest level and a coarser one, with several batch sizes and several clouds for each execution.
TEST_P(GlobalPoolingTest, EveryReduction) {
  std::string layers =
      R"({"op": "sum_pool", "name": "half", "kernel_size": 2, "stride": 2, "output": "half"})";
  std::string outputs = "\"half\"";
  for (int i = 0; i < kReductions; ++i) {
    const std::string name = kReductionNames[i];
    layers += ", " + pool_layer(i, "input", name) + ", " + pool_layer(i, "half", "half_" + name);
    outputs += ", \"" + name + "\", \"half_" + name + "\"";
  }
  const Plan plan = plan_of(network_of(layers, outputs));
  for (const int64_t batch : {1, 2, 70}) {
    for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
      const minuet_execution_options options = options_of(batch, method);
      const Execution execution = make_execution(machine(), plan.get(), &options);
      for (const int64_t rows : machine().is_software() ? std::vector{40, 0} : std::vector{400, 0, 1, 900}) {
        SCOPED_TRACE(testing::Message() << batch << " items, " << rows << " rows, method " << method);
        const std::vector<int32_t> scene = draw_scene(rows, batch, 3);
        const std::vector<char> features = features_of(scene);
        const std::vector<NetworkRun> runs =
            run_graph(machine(), plan.get(), execution.get(), scene, {features}, dtype());
        for (int i = 0; i < kReductions; ++i) {
          check_pooled(runs[static_cast<size_t>(1 + 2 * i)], {scene, values_of(features)}, batch, i);
          check_pooled(runs[static_cast<size_t>(2 + 2 * i)], rows_of(runs[0]), batch, i);
        }
        EXPECT_EQ(run_graph(machine(), plan.get(), execution.get(), scene, {features}, dtype()), runs);
      }
    }
  }
}

/// More rows than the least that fill all pieces of the list, in which items begin and end anywhere.
TEST_P(GlobalPoolingTest, ManyRows) {
  const int64_t rows = machine().is_software() ? 300 : 70000;
  const Plan plan =
      plan_of(network_of(pool_layer(0, "input", "max") + "," + pool_layer(1, "input", "average") + "," +
                             pool_layer(2, "input", "sum"),
                         R"("max", "average", "sum")"));
  for (const int64_t batch : {1, 7, 900}) {
    SCOPED_TRACE(batch);
    const minuet_execution_options options = options_of(batch, tested_maps());
    const Execution execution = make_execution(machine(), plan.get(), &options);
    const std::vector<int32_t> scene = draw_scene(rows, batch, 14, /*extent=*/60);
    const std::vector<char> features = features_of(scene);
    const std::vector<NetworkRun> runs =
        run_graph(machine(), plan.get(), execution.get(), scene, {features}, dtype());
    for (int i = 0; i < kReductions; ++i) {
      check_pooled(runs[static_cast<size_t>(i)], {scene, values_of(features)}, batch, i);
    }
    EXPECT_EQ(run_graph(machine(), plan.get(), execution.get(), scene, {features}, dtype()), runs);
  }
}

/// Channels that suit no wide access, and more than a block has threads.
TEST_P(GlobalPoolingTest, NumbersOfChannels) {
  const int64_t batch = 3;
  for (const int channels : machine().is_software() ? std::vector{12} : std::vector{1, 3, 12, 37, 260, 512}) {
    SCOPED_TRACE(channels);
    const Plan plan = plan_of(network_of(pool_layer(2, "input", "sum") + ", " + pool_layer(0, "input", "max"),
                                         R"("sum", "max")", channels));
    const minuet_execution_options options = options_of(batch, tested_maps());
    const Execution execution = make_execution(machine(), plan.get(), &options);
    const std::vector<int32_t> scene = draw_scene(machine().is_software() ? 90 : 300, batch, 8);
    Rows level{scene, {}, static_cast<size_t>(channels)};
    const std::vector<float> drawn = oracle::draw_features(static_cast<int64_t>(level.rows()) * channels, 4);
    const std::vector<char> features = encode(dtype(), drawn);
    level.features = values_of(features);
    const std::vector<NetworkRun> runs =
        run_graph(machine(), plan.get(), execution.get(), scene, {features}, dtype());
    check_pooled(runs[0], level, batch, 2);
    check_pooled(runs[1], level, batch, 0);
  }
}

/// A classifier: two poolings side by side, a linear layer, a convolution of one cell, softmax and argmax;
/// and an input that has a row for each batch item.
TEST_P(GlobalPoolingTest, LayersBehindThePooling) {
  const int64_t batch = 4;
  const TemporaryPath weights("items.safetensors");
  oracle::Parameters parameters(5);
  const std::vector<float> weight = parameters.weight("l.weight", 1, 8, 5, 1);
  const std::vector<float> bias = parameters.vector("l.bias", 5, 0, 0.5);
  write_safetensors(weights.path(), parameters.all());
  std::string description =
      network_of(pool_layer(0, "input", "max") + ", " + pool_layer(1, "input", "average") +
                     R"(, {"op": "concat", "with": "max"}, {"op": "linear", "name": "l", "out_channels": 5,
              "output": "logits"}, {"op": "add", "with": "more"}, {"op": "softmax", "output": "classes"},
             {"op": "max_pool", "name": "one", "output": "one"})",
                 R"("average", "max", "logits", "classes", "one")");
  const std::string inputs = R"("inputs": [{"name": "input", "channels": 4},
      {"name": "more", "channels": 5, "level": "max"}])";
  description.replace(description.find(R"("in_channels": 4)"), 16, inputs);
  const Plan plan = plan_of(description, weights.path());
  const minuet_tensor_info info = output_of(plan.get(), 2);
  EXPECT_EQ(std::pair(info.ndim, info.axes), std::pair(0, 0));
  EXPECT_EQ(info.level, 1);
  const minuet_execution_options options = options_of(batch, tested_maps());
  const Execution execution = make_execution(machine(), plan.get(), &options);
  const std::vector<int32_t> scene = draw_scene(100, batch, 6);
  const std::vector<char> features = features_of(scene),
                          more = encode(dtype(), oracle::draw_features(batch * 5, 2));
  const std::vector<NetworkRun> runs =
      run_graph(machine(), plan.get(), execution.get(), scene, {features, more}, dtype());
  const std::vector<double> average = values_of(runs[0].bytes), max = values_of(runs[1].bytes),
                            logits = values_of(runs[2].bytes), given = values_of(more);
  std::vector<double> expected_logits, expected;
  for (size_t b = 0; b < static_cast<size_t>(batch); ++b) {
    double sum = 0;
    std::vector<double> powers;
    for (size_t o = 0; o < 5; ++o) {
      double logit = bias[o];
      for (size_t c = 0; c < 8; ++c)
        logit += (c < 4 ? average[4 * b + c] : max[4 * b + c - 4]) * weight[c * 5 + o];
      expected_logits.push_back(logit);
      powers.push_back(std::exp(logits[b * 5 + o] + given[b * 5 + o]));
      sum += powers.back();
    }
    for (const double power : powers) expected.push_back(power / sum);
  }
  EXPECT_TRUE(is_close(decode(dtype(), runs[2].bytes), expected_logits, 5, error_bound(dtype(), true)));
  EXPECT_TRUE(is_close(decode(dtype(), runs[3].bytes), expected, 5, error_bound(dtype(), true)));
  EXPECT_EQ(runs[4].bytes, runs[3].bytes);
  minuet_level_info level{};
  level.struct_size = sizeof(level);
  check(minuet_execution_query_level(execution.get(), 1, &level));
  EXPECT_EQ(level.voxels, batch);
  EXPECT_EQ(level.ndim, 0);
}

/// NaN of one row is that of its item and channel.
TEST_P(GlobalPoolingTest, NaNPassesThrough) {
  const int64_t batch = 3;
  const Plan plan =
      plan_of(network_of(pool_layer(0, "input", "max") + "," + pool_layer(1, "input", "average") + "," +
                             pool_layer(2, "input", "sum"),
                         R"("max", "average", "sum")"));
  const minuet_execution_options options = options_of(batch, tested_maps());
  const Execution execution = make_execution(machine(), plan.get(), &options);
  const std::vector<int32_t> scene = draw_scene(80, batch, 12);
  std::vector<float> features = oracle::draw_features(static_cast<int64_t>(scene.size()), 3);
  const size_t row = scene.size() / 8;
  features[4 * row + 2] = std::nanf("");
  for (const NetworkRun& run :
       run_graph(machine(), plan.get(), execution.get(), scene, {encode(dtype(), features)}, dtype())) {
    const std::vector<double> values = values_of(run.bytes);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(std::isnan(values[i]), i == static_cast<size_t>(scene[4 * row]) * 4 + 2) << i;
    }
  }
  int32_t layer = -1;
  check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
  EXPECT_EQ(layer, 0);
}

/// Rows past the count are garbage, of coordinates and of features. Clouds that do not fit give zeros.
TEST_P(GlobalPoolingTest, WithinCapacities) {
  const int64_t batch = 5;
  const Plan plan = plan_of(
      network_of(R"({"op": "max_pool", "name": "half", "kernel_size": 2, "stride": 2, "output": "half"}, )" +
                     pool_layer(1, "half", "average") + "," + pool_layer(2, "input", "sum"),
                 R"("half", "average", "sum")"));
  const Capacities capacities{160, 120, 8};
  for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
    minuet_execution_options options = options_of(batch, method);
    options.level_capacity = capacities.data();
    options.level_count = 3;
    const Execution execution = make_execution(machine(), plan.get(), &options);
    const minuet_execution_options exact_options = options_of(batch, method);
    const Execution exact = make_execution(machine(), plan.get(), &exact_options);
    Buffer coordinates(machine(), capacities[0] * 16),
        input(machine(), capacities[0] * 4 * dtype_bytes(dtype()));
    Buffer half(machine(), capacities[1] * 4 * dtype_bytes(dtype())), count(machine(), 4);
    Buffer average(machine(), capacities[2] * 4 * dtype_bytes(dtype()));
    Buffer sum(machine(), capacities[2] * 4 * dtype_bytes(dtype())), where(machine(), capacities[2] * 4);
    const auto run = [&](const std::vector<int32_t>& scene, uint32_t expected_status, int64_t items) {
      const auto rows = static_cast<int32_t>(scene.size() / 4);
      const std::vector<char> features = features_of(scene);
      coordinates.poison(), input.poison(), half.poison(), average.poison(), sum.poison(), where.poison();
      put(coordinates, scene.data(), rows * 16);
      put(input, features.data(), static_cast<int64_t>(features.size()));
      put(count, &rows, 4);
      check(minuet_execution_prepare_on_device(execution.get(), coordinates.integers(), count.integers(),
                                               nullptr));
      check(run_arrays(
          execution.get(), {array(input, capacities[0], 4)},
          {array(half, capacities[1], 4), array(average, capacities[2], 4), array(sum, capacities[2], 4)}));
      uint32_t status = ~0u;
      int32_t counts[4] = {};
      check(minuet_execution_read_cloud(execution.get(), &status, counts, 4, nullptr));
      EXPECT_EQ(expected_status == 0 ? status : status & expected_status, expected_status);
      EXPECT_EQ(counts[3], items);
      check(minuet_execution_output_coordinates_of(execution.get(), 2, static_cast<int32_t*>(where.data()),
                                                   nullptr));
      const std::vector<int32_t> items_at = where.read<int32_t>();
      for (int32_t item = 0; item < capacities[2]; ++item) {
        EXPECT_EQ(items_at[static_cast<size_t>(item)], item < items ? item : 0);
      }
      return std::pair(average.read<char>(), sum.read<char>());
    };
    // The bits of an execution that knows its sizes, and zeros in the rows behind them.
    for (const int64_t rows : {100, 0, 1, 60}) {
      SCOPED_TRACE(rows);
      const std::vector<int32_t> scene = draw_scene(rows, batch, 11);
      const std::vector<NetworkRun> expected =
          run_graph(machine(), plan.get(), exact.get(), scene, {features_of(scene)}, dtype());
      const auto padded = [&](std::vector<char> bytes) {
        bytes.resize(static_cast<size_t>(average.bytes()));
        return bytes;
      };
      EXPECT_EQ(run(scene, 0, batch), std::pair(padded(expected[1].bytes), padded(expected[2].bytes)));
    }
    const std::vector<char> zeros(static_cast<size_t>(average.bytes()));
    std::vector<int32_t> outside = draw_scene(50, batch, 12);
    outside[8] = static_cast<int32_t>(batch);
    EXPECT_EQ(run(outside, MINUET_CLOUD_OUT_OF_BOUNDS, 0), std::pair(zeros, zeros));
    EXPECT_EQ(run(draw_scene(150, batch, 13), MINUET_CLOUD_PAST_CAPACITY, 0), std::pair(zeros, zeros));
  }
  minuet_execution_options options = options_of(9);
  options.level_capacity = capacities.data();
  options.level_count = 3;
  minuet_execution* made = nullptr;
  EXPECT_EQ(minuet_execution_create(plan.get(), machine().device(), &options, &made),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("level_capacity[2] is 8, but this level has a row for each of the 9"));
}

/// The size of a workspace is known, and suffices.
TEST_P(GlobalPoolingTest, WorkspacesOfTheSizeThatIsTold) {
  const int64_t batch = 6;
  const Plan plan = plan_of(network_of(pool_layer(2, "input", "sum"), "\"sum\""));
  const std::vector<int32_t> scene = draw_scene(100, batch, 4);
  minuet_execution_options options = options_of(batch, tested_maps());
  const Execution own = make_execution(machine(), plan.get(), &options);
  const std::vector<NetworkRun> expected =
      run_graph(machine(), plan.get(), own.get(), scene, {features_of(scene)}, dtype());
  int64_t bytes = 0;
  check(minuet_plan_workspace_bytes(plan.get(), machine().arch().c_str(), &options, 100, 1, &bytes));
  const Buffer workspace(machine(), bytes);
  options.workspace = workspace.data(), options.workspace_bytes = bytes;
  const Execution given = make_execution(machine(), plan.get(), &options);
  EXPECT_EQ(run_graph(machine(), plan.get(), given.get(), scene, {features_of(scene)}, dtype()), expected);
}

TEST_P(GlobalPoolingTest, OnPyramids) {
  const int64_t batch = 5;
  const TemporaryPath weights("items.safetensors");
  oracle::Parameters parameters(5);
  parameters.weight("l.weight", 1, 4, 3, 1), parameters.vector("l.bias", 3, 0, 0.5);
  write_safetensors(weights.path(), parameters.all());
  const Plan plan = plan_of(
      network_of(
          R"({"op": "max_pool", "name": "half", "kernel_size": 2, "stride": 2, "output": "half"}, )" +
              pool_layer(1, "half", "average") + "," + pool_layer(0, "input", "max") +
              R"(, {"op": "add", "with": "average"}, {"op": "linear", "name": "l", "out_channels": 3, "output": "l"})",
          R"("average", "l")"),
      weights.path());
  const Capacities capacities{160, 120, 8};
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.network = plan.get();
  options.level_capacity = capacities.data();
  options.level_count = 3;
  options.batch_size = batch;
  TestPyramid pyramid(machine(), options);
  const minuet_execution_options exact_options = options_of(batch, MINUET_MAPS_INDEXED);
  const Execution exact = make_execution(machine(), plan.get(), &exact_options);
  Buffer input(machine(), capacities[0] * 4 * dtype_bytes(dtype()));
  Buffer average(machine(), batch * 4 * dtype_bytes(dtype())),
      linear(machine(), batch * 3 * dtype_bytes(dtype()));
  for (const int64_t rows : {100, 0, 1, 40}) {
    SCOPED_TRACE(rows);
    const std::vector<int32_t> scene = draw_scene(rows, batch, 21);
    const std::vector<char> features = features_of(scene);
    const std::vector<NetworkRun> expected =
        run_graph(machine(), plan.get(), exact.get(), scene, {features}, dtype());
    input.poison(), average.poison(), linear.poison();
    put(input, features.data(), static_cast<int64_t>(features.size()));
    pyramid.build(scene);
    run_on(machine(), plan.get(), pyramid.run_arguments(), {array(input, capacities[0], 4)},
           {array(average, batch, 4), array(linear, batch, 3)});
    EXPECT_EQ(average.read<char>(), expected[0].bytes);
    EXPECT_EQ(linear.read<char>(), expected[1].bytes);
  }
  // A pyramid whose cloud does not fit has no batch items either.
  std::vector<int32_t> outside = draw_scene(40, batch, 22);
  outside[4] = static_cast<int32_t>(batch);
  linear.poison();
  pyramid.build(outside);
  run_on(machine(), plan.get(), pyramid.run_arguments(), {array(input, capacities[0], 4)},
         {array(average, batch, 4), array(linear, batch, 3)});
  EXPECT_EQ(linear.read<char>(), std::vector<char>(static_cast<size_t>(linear.bytes())));
}

/// A pyramid without the coordinates that the pooling reads.
TEST_P(GlobalPoolingTest, PyramidsThatDoNotFit) {
  const Plan plan = plan_of(network_of(pool_layer(1, "input", "average"), "\"average\""));
  const minuet_pyramid_level level = level_of(100);
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.levels = &level;
  options.level_count = 1;
  options.batch_size = 4;
  const TestPyramid bare(machine(), options);
  minuet_run_arguments given = bare.run_arguments();
  int64_t bytes = 0;
  EXPECT_EQ(minuet_plan_run_bytes(plan.get(), machine().arch().c_str(), &given, &bytes),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(),
              HasSubstr("the network has a global pooling of level 0, for which the pyramid must"));
  options.keep_coordinates = 1;
  const TestPyramid kept(machine(), options);
  given = kept.run_arguments();
  check(minuet_plan_run_bytes(plan.get(), machine().arch().c_str(), &given, &bytes));
}

TEST_P(GlobalPoolingTest, BatchItemsThatAreNotThere) {
  const Plan plan = plan_of(network_of(pool_layer(1, "input", "average"), "\"average\""));
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  minuet_execution* made = nullptr;
  EXPECT_EQ(minuet_execution_create(plan.get(), machine().device(), &options, &made),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(
      last_error(),
      HasSubstr("or a global pooling, whose size depends on the number of batch items: set batch_size"));
  options = options_of(4, tested_maps());
  const Execution execution = make_execution(machine(), plan.get(), &options);
  std::vector<int32_t> scene = draw_scene(30, 4, 5);
  scene[12] = 4;
  EXPECT_EQ(prepare(machine(), execution.get(), scene), MINUET_OUT_OF_RANGE);
  EXPECT_THAT(last_error(), HasSubstr("batch index: 0 to 3"));
}

/// A plan that was written and read again.
TEST_P(GlobalPoolingTest, SerializedPlans) {
  const int64_t batch = 3;
  const Plan plan = plan_of(network_of(pool_layer(1, "input", "average"), "\"average\""));
  const std::string arch = machine().arch();
  const char* const archs[] = {arch.c_str()};
  size_t size = 0;
  check(minuet_plan_serialize(plan.get(), archs, 1, 0, nullptr, 0, &size));
  std::vector<char> bytes(size);
  check(minuet_plan_serialize(plan.get(), archs, 1, 0, bytes.data(), size, &size));
  minuet_plan* made = nullptr;
  check(minuet_plan_deserialize(machine().context(), bytes.data(), size, &made));
  const Plan again(made, {minuet_plan_destroy});
  check(minuet_plan_compile(again.get(), arch.c_str(), nullptr, nullptr));
  check(minuet_plan_load(again.get(), machine().device()));
  const std::vector<int32_t> scene = draw_scene(60, batch, 7);
  const auto run = [&](minuet_plan* given) {
    const minuet_execution_options options = options_of(batch, tested_maps());
    const Execution execution = make_execution(machine(), given, &options);
    return run_graph(machine(), given, execution.get(), scene, {features_of(scene)}, dtype());
  };
  EXPECT_EQ(run(again.get()), run(plan.get()));
}

MINUET_INSTANTIATE_DEVICE_TEST(GlobalPoolingTest);

}  // namespace
}  // namespace minuet::abi
