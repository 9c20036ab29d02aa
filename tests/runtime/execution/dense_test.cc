// Networks with dense tensors (to_dense, birds_eye, from_dense) through the C ABI, on every device, against
// plain loops: every format, exact, within capacities and on pyramids, with maps by an index and by sorting.
#include <gmock/gmock.h>

#include <array>
#include <map>
#include <numeric>
#include <set>

#include "tests/runtime/execution/pyramid_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

constexpr int64_t kBatch = 4;  // the last two items are empty

/// A network of dense tensors, behind a max pooling of 2 cells where `stride` is 2.
struct Case {
  int ndim = 3;
  int channels = 5;
  std::vector<int> shape{9, 6, 4};
  int stride = 1;
  bool channels_last = false;
  std::vector<int> image_axes = {};

  bool is_birds_eye() const { return !image_axes.empty(); }
  /// Cells of the level of the dense tensor.
  std::vector<int> cells() const {
    std::vector<int> cells;
    for (const int cell : shape) cells.push_back((cell + stride - 1) / stride);
    return cells;
  }
  std::vector<int64_t> dims() const {
    const std::vector<int> cells = this->cells();
    if (is_birds_eye()) {
      const int z = 3 - image_axes[0] - image_axes[1];
      return {kBatch, int64_t{channels} * cells[z], cells[image_axes[0]], cells[image_axes[1]]};
    }
    std::vector<int64_t> dims{kBatch};
    dims.insert(dims.end(), cells.begin(), cells.end());
    dims.insert(channels_last ? dims.end() : dims.begin() + 1, channels);
    return dims;
  }
  int64_t elements() const {
    const std::vector<int64_t> dims = this->dims();
    return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  }
  /// Where an element lies. `cell` has the batch index, then one number an axis.
  int64_t element(const std::vector<int>& cell, int c) const {
    const std::vector<int> cells = this->cells();
    std::vector<int64_t> at{cell[0]};
    if (is_birds_eye()) {
      const int z = 3 - image_axes[0] - image_axes[1];
      at.insert(at.end(),
                {int64_t{c} * cells[z] + cell[z + 1], cell[image_axes[0] + 1], cell[image_axes[1] + 1]});
    } else {
      at.insert(at.end(), cell.begin() + 1, cell.end());
      at.insert(channels_last ? at.end() : at.begin() + 1, c);
    }
    const std::vector<int64_t> dims = this->dims();
    int64_t element = 0;
    for (size_t axis = 0; axis < dims.size(); ++axis) element = element * dims[axis] + at[axis];
    return element;
  }
};

std::string list(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "[" : ", ") + std::to_string(number);
  return text + "]";
}

std::string dense_layer(const Case& test) {
  if (test.is_birds_eye()) {
    return R"({"op": "birds_eye", "image_axes": )" + list(test.image_axes) + R"(, "output": "dense"})";
  }
  return std::string(R"({"op": "to_dense", "format": ")") +
         (test.channels_last ? "channels_last" : "channels_first") + R"(", "output": "dense"})";
}

std::string pooling_layer(const Case& test) {
  const std::string size = std::to_string(test.stride);
  return R"({"op": "max_pool", "name": "pool", "kernel_size": )" + size + R"(, "stride": )" + size +
         R"(, "save": "level"})";
}

/// The description of a network with these layers.
std::string describe(const Case& test, const std::string& layers, bool has_shape = true) {
  return R"({"name": "dense", "ndim": )" + std::to_string(test.ndim) + R"(, "in_channels": )" +
         std::to_string(test.channels) + R"(, "channels": [1], )" +
         (has_shape ? R"("shape": )" + list(test.shape) + ", " : "") + R"("layers": [)" + layers + "]}";
}

struct Points {
  std::vector<int32_t> coordinates;
  std::vector<float> features;
};

Points draw_points(const Case& test, int count, uint64_t seed) {
  Random random(seed);
  Points points;
  std::set<std::vector<int32_t>> taken;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> coordinate{static_cast<int32_t>(random.below(2))};
    for (const int cells : test.shape) coordinate.push_back(static_cast<int32_t>(random.below(cells)));
    if (!taken.insert(coordinate).second) continue;
    points.coordinates.insert(points.coordinates.end(), coordinate.begin(), coordinate.end());
    for (int c = 0; c < test.channels; ++c) {
      points.features.push_back(static_cast<float>(random.between(-127, 127)) / 64);
    }
  }
  return points;
}

/// What the network gives, as plain loops compute it.
std::vector<float> expected_of(const Case& test, const Points& points) {
  std::map<std::vector<int>, std::vector<float>> cells;
  const size_t fields = static_cast<size_t>(1 + test.ndim), channels = static_cast<size_t>(test.channels);
  for (size_t row = 0; row * fields < points.coordinates.size(); ++row) {
    std::vector<int> cell(points.coordinates.begin() + static_cast<std::ptrdiff_t>(row * fields),
                          points.coordinates.begin() + static_cast<std::ptrdiff_t>((row + 1) * fields));
    for (size_t f = 1; f < fields; ++f) cell[f] /= test.stride;
    const auto [found, is_new] = cells.try_emplace(cell, channels, -1e30f);
    for (size_t c = 0; c < channels; ++c) {
      found->second[c] = std::max(found->second[c], points.features[row * channels + c]);
    }
  }
  std::vector<float> dense(static_cast<size_t>(test.elements()));
  for (const auto& [cell, values] : cells) {
    for (int c = 0; c < test.channels; ++c) {
      dense[static_cast<size_t>(test.element(cell, c))] = values[static_cast<size_t>(c)];
    }
  }
  return dense;
}

class DenseTest : public DeviceTest {
 protected:
  Plan plan_of(const std::string& description) {
    NetworkSpec spec;
    spec.description = description;
    spec.dtype = dtype();
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    return make_network(machine(), spec);
  }
  Plan plan_of(const Case& test) {
    return plan_of(describe(test, (test.stride > 1 ? pooling_layer(test) + ", " : "") + dense_layer(test)));
  }
  minuet_element element() const {
    return dtype() == DType::TF32 ? MINUET_ELEMENT_F32 : static_cast<minuet_element>(abi_dtype(dtype()));
  }
  int64_t bytes_of(const Case& test) const { return test.elements() * dtype_bytes(dtype()); }
  minuet_array features_of(const Buffer& buffer, const Case& test, int64_t rows) const {
    return array_of(buffer.data(), {rows, test.channels}, element());
  }
  minuet_array dense_of(void* data, const Case& test) const { return array_of(data, test.dims(), element()); }
  static minuet_execution_options options_of(minuet_map_method method = MINUET_MAPS_AUTO) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.batch_size = kBatch;
    options.map_method = method;
    return options;
  }
  int64_t rows_of(const Case& test, const Points& points) const {
    return static_cast<int64_t>(points.coordinates.size()) / (1 + test.ndim);
  }
  /// Prepares the points and runs; the output is poisoned first. It begins `shift` elements past a multiple
  /// of 256 bytes.
  std::vector<float> run(minuet_execution* execution, const Case& test, const Points& points, int shift = 0) {
    check(prepare(machine(), execution, points.coordinates, test.ndim));
    const Buffer input(machine(), encode(dtype(), points.features));
    const int64_t skipped = shift * dtype_bytes(dtype());
    const Buffer output(machine(), bytes_of(test) + skipped + 64);
    check(run_arrays(execution, {features_of(input, test, rows_of(test, points))},
                     {dense_of(static_cast<char*>(output.data()) + skipped, test)}));
    std::vector<float> values = decode(dtype(), output.read<char>());
    for (int64_t i = shift + test.elements(); i < static_cast<int64_t>(values.size()); ++i) {
      EXPECT_TRUE(std::isnan(values[static_cast<size_t>(i)])) << "past the end";
    }
    values.erase(values.begin(), values.begin() + shift);
    values.resize(static_cast<size_t>(test.elements()));
    return values;
  }
  minuet_status create(minuet_plan* plan, const minuet_execution_options& options) {
    minuet_execution* made = nullptr;
    const minuet_status status = minuet_execution_create(plan, machine().device(), &options, &made);
    Execution(made, {minuet_execution_destroy}).reset();
    return status;
  }
  /// The software device takes long for each kernel.
  std::vector<Case> cases() {
    std::vector<Case> cases{{}, {.channels = 16, .shape = {8, 6, 4}, .stride = 2}};
    cases.push_back({.channels = 16, .stride = 2, .channels_last = true});
    cases.push_back({.channels = 8, .shape = {8, 10, 4}, .stride = 2, .image_axes = {1, 0}});
    if (machine().is_software()) return cases;
    for (const bool channels_last : {false, true}) {
      cases.push_back({.ndim = 1, .channels = 3, .shape = {50}, .channels_last = channels_last});
      cases.push_back({.ndim = 2, .channels = 4, .shape = {7, 11}, .channels_last = channels_last});
      cases.push_back(
          {.ndim = 4, .channels = 2, .shape = {5, 3, 4, 2}, .stride = 2, .channels_last = channels_last});
      cases.push_back({.channels = 1, .channels_last = channels_last});
    }
    for (const auto& axes : {std::vector{0, 1}, {0, 2}, {2, 0}, {1, 2}, {2, 1}}) {
      cases.push_back({.channels = 3, .image_axes = axes});
    }
    return cases;
  }
};

TEST_P(DenseTest, EveryFormat) {
  for (const Case& test : cases()) {
    const Plan plan = plan_of(test);
    for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
      const minuet_execution_options options = options_of(method);
      const Execution execution = make_execution(machine(), plan.get(), &options);
      for (const int count : {60, 0, 1, 200}) {
        SCOPED_TRACE(describe(test, "") + " " + std::to_string(count) + " " + std::to_string(method));
        const Points points = draw_points(test, count, 7 + static_cast<uint64_t>(count));
        EXPECT_EQ(run(execution.get(), test, points), expected_of(test, points));
      }
    }
  }
}

TEST_P(DenseTest, OutputsOfAnyAlignment) {
  for (const Case& test :
       {Case{.channels = 16, .shape = {8, 6, 4}}, {.channels = 16, .channels_last = true}}) {
    const Plan plan = plan_of(test);
    const minuet_execution_options options = options_of();
    const Execution execution = make_execution(machine(), plan.get(), &options);
    const Points points = draw_points(test, 90, 3);
    for (const int shift : {1, 3, 4})
      EXPECT_EQ(run(execution.get(), test, points, shift), expected_of(test, points));
  }
}

TEST_P(DenseTest, WithinCapacities) {
  const Case test{.channels = 16, .shape = {8, 6, 4}, .stride = 2, .image_axes = {1, 0}};
  const Plan plan = plan_of(test);
  const Capacities capacities{150, 100};
  for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
    minuet_execution_options options = options_of(method);
    options.level_capacity = capacities.data();
    options.level_count = 2;
    const Execution execution = make_execution(machine(), plan.get(), &options);
    const Buffer coordinates(machine(), capacities[0] * 16),
        input(machine(), capacities[0] * 16 * dtype_bytes(dtype()));
    Buffer output(machine(), bytes_of(test)), count(machine(), 4);
    const auto run_points = [&](const Points& points, uint32_t expected_status) {
      const int32_t rows = static_cast<int32_t>(rows_of(test, points));
      const std::vector<char> bytes = encode(dtype(), points.features);
      output.poison();
      if (rows > 0) {
        check(minuet_device_copy(machine().device(), coordinates.data(), points.coordinates.data(), rows * 16,
                                 0));
        check(minuet_device_copy(machine().device(), input.data(), bytes.data(),
                                 static_cast<int64_t>(bytes.size()), 0));
      }
      check(minuet_device_copy(machine().device(), count.data(), &rows, 4, 0));
      check(minuet_execution_prepare_on_device(execution.get(), coordinates.integers(), count.integers(),
                                               nullptr));
      check(run_arrays(execution.get(), {features_of(input, test, capacities[0])},
                       {dense_of(output.data(), test)}));
      uint32_t status = ~0u;
      check(minuet_execution_read_cloud(execution.get(), nullptr, &status, nullptr, 0));
      EXPECT_EQ(status, expected_status) << method;
      return decode(dtype(), output.read<char>());
    };
    for (const int points : {120, 0, 1, 60}) {
      const Points drawn = draw_points(test, points, 11);
      EXPECT_EQ(run_points(drawn, 0), expected_of(test, drawn)) << points;
    }
    const std::vector<float> zeros(static_cast<size_t>(test.elements()));
    Points outside = draw_points(test, 30, 12);
    for (const auto& [field, value, status] : {std::tuple{1, 8, MINUET_CLOUD_OUT_OF_BOUNDS},
                                               {2, -1, MINUET_CLOUD_OUT_OF_BOUNDS},
                                               {0, 4, MINUET_CLOUD_OUT_OF_BOUNDS}}) {
      Points bad = outside;
      bad.coordinates[static_cast<size_t>(8 + field)] = value;
      EXPECT_EQ(run_points(bad, static_cast<uint32_t>(status)), zeros) << field;
    }
  }
}

TEST_P(DenseTest, OnPyramids) {
  const Case test{.channels = 16, .shape = {8, 6, 4}, .stride = 2, .image_axes = {0, 1}};
  const Plan plan = plan_of(test);
  const Capacities capacities{150, 100};
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.network = plan.get();
  options.level_capacity = capacities.data();
  options.level_count = 2;
  minuet_pyramid* made = nullptr;
  EXPECT_EQ(minuet_pyramid_create(machine().context(), &options, &made), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("set batch_size"));
  options.batch_size = kBatch;
  TestPyramid pyramid(machine(), options);
  const Buffer input(machine(), capacities[0] * 16 * dtype_bytes(dtype()));
  Buffer output(machine(), bytes_of(test));
  for (const int count : {100, 0, 1, 40}) {
    const Points points = draw_points(test, count, 21);
    const std::vector<char> bytes = encode(dtype(), points.features);
    if (count > 0)
      check(minuet_device_copy(machine().device(), input.data(), bytes.data(),
                               static_cast<int64_t>(bytes.size()), 0));
    pyramid.build(points.coordinates);
    output.poison();
    run_on(machine(), plan.get(), pyramid.run_arguments(), {features_of(input, test, capacities[0])},
           {dense_of(output.data(), test)});
    EXPECT_EQ(decode(dtype(), output.read<char>()), expected_of(test, points)) << count;
  }
}

/// To dense, then from dense onto the same level, is the identity, in memory of the arena.
TEST_P(DenseTest, FromDenseIsTheInverse) {
  for (Case test : cases()) {
    if (test.ndim == 3) test.stride = 2;
    const std::string pooling = pooling_layer(test);
    const Plan alone = plan_of(describe(test, pooling));
    const Plan plan =
        plan_of(describe(test, pooling + ", " + dense_layer(test) +
                                   R"(, {"op": "from_dense", "input": "dense", "onto": "level"})"));
    const minuet_execution_options options = options_of(tested_maps());
    const Execution execution = make_execution(machine(), plan.get(), &options);
    const Execution reference = make_execution(machine(), alone.get(), &options);
    for (const int count : {80, 0, 1}) {
      const Points points = draw_points(test, count, 31);
      const std::vector<char> features = encode(dtype(), points.features);
      const NetworkRun expected = run_network(machine(), reference.get(), points.coordinates, features,
                                              dtype(), test.ndim, test.channels);
      EXPECT_EQ(run_network(machine(), execution.get(), points.coordinates, features, dtype(), test.ndim,
                            test.channels),
                expected)
          << describe(test, "") << count;
    }
  }
}

/// The dense tensor is the output, and the layers before it are convolutions.
TEST_P(DenseTest, CoordinatesOutsideAreRefused) {
  const Case test;
  const Plan plan = plan_of(test);
  for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
    const minuet_execution_options options = options_of(method);
    const Execution execution = make_execution(machine(), plan.get(), &options);
    const Points points = draw_points(test, 40, 5);
    for (const auto& [field, value] : {std::pair{0, 4}, {1, 9}, {2, 6}, {3, 4}, {1, -1}, {3, -7}}) {
      Points bad = points;
      bad.coordinates[static_cast<size_t>(20 + field)] = value;
      EXPECT_EQ(prepare(machine(), execution.get(), bad.coordinates), MINUET_OUT_OF_RANGE) << field;
      EXPECT_THAT(last_error(), HasSubstr("axis 0: 0 to 8"));
      EXPECT_EQ(run(execution.get(), test, points), expected_of(test, points)) << "the next cloud";
    }
    Points bad = points;
    bad.coordinates[0] = -1;
    EXPECT_EQ(prepare(machine(), execution.get(), bad.coordinates), MINUET_INVALID_ARGUMENT);
  }
}

/// A shape without a batch size, and a batch size without a shape.
TEST_P(DenseTest, LimitsOfSomeFields) {
  const Case test{.channels = 4, .stride = 2};
  const Plan shaped = plan_of(describe(test, pooling_layer(test)));
  const Plan bare = plan_of(describe(test, pooling_layer(test), /*has_shape=*/false));
  const Points points = draw_points(test, 40, 5);
  const Capacities capacities{100, 100};
  for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
    for (const bool has_shape : {false, true}) {
      minuet_execution_options options = options_of(method);
      if (has_shape) options.batch_size = 0;
      minuet_plan* const plan = has_shape ? shaped.get() : bare.get();
      const Execution exact = make_execution(machine(), plan, &options);
      options.level_capacity = capacities.data();
      options.level_count = 2;
      const Execution within = make_execution(machine(), plan, &options);
      const auto status_of = [&](const std::vector<int32_t>& coordinates) {
        check(prepare(machine(), within.get(), coordinates));
        uint32_t status = ~0u;
        check(minuet_execution_read_cloud(within.get(), nullptr, &status, nullptr, 0));
        return status;
      };
      check(prepare(machine(), exact.get(), points.coordinates));
      EXPECT_EQ(status_of(points.coordinates), 0u);
      std::vector<int32_t> bad = points.coordinates;
      bad[has_shape ? 9 : 8] = has_shape ? 9 : 4;
      EXPECT_EQ(prepare(machine(), exact.get(), bad), MINUET_OUT_OF_RANGE);
      EXPECT_THAT(last_error(), HasSubstr(has_shape ? "axis 0: 0 to 8" : "batch index: 0 to 3"));
      EXPECT_NE(status_of(bad) & MINUET_CLOUD_OUT_OF_BOUNDS, 0u);
      // What has no limits is as free as it was.
      std::vector<int32_t> far = points.coordinates;
      far[has_shape ? 8 : 9] = has_shape ? 9000 : (1 << 20) + 5;
      check(prepare(machine(), exact.get(), far));
    }
  }
}

TEST_P(DenseTest, OptionsThatDoNotFit) {
  const Case test;
  const Plan plan = plan_of(test);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  EXPECT_EQ(create(plan.get(), options), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("set batch_size"));
  options.batch_size = -1;
  EXPECT_EQ(create(plan.get(), options), MINUET_INVALID_ARGUMENT);
  options.batch_size = 1 << 30;
  EXPECT_EQ(create(plan.get(), options), MINUET_OUT_OF_RANGE);
  EXPECT_THAT(last_error(), HasSubstr("2^31 - 1 cells"));
  options = options_of();
  options.has_bounds = 1;
  options.greatest[0] = 3, options.greatest[1] = 8, options.greatest[2] = 5, options.greatest[3] = 3;
  EXPECT_EQ(create(plan.get(), options), MINUET_OK);
  options.greatest[2] = 6;
  EXPECT_EQ(create(plan.get(), options), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("greatest[2]"));
  options.greatest[2] = 2;
  const Execution narrow = make_execution(machine(), plan.get(), &options);
  EXPECT_EQ(prepare(machine(), narrow.get(), {0, 0, 3, 0}), MINUET_OUT_OF_RANGE);
  EXPECT_THAT(last_error(), HasSubstr("declared bounds"));
  const Points one{{1, 8, 2, 3}, {1, 2, 3, 4, 5}};
  EXPECT_EQ(run(narrow.get(), test, one), expected_of(test, one));
}

TEST_P(DenseTest, ArraysThatDoNotFit) {
  const Case test;
  const Plan plan = plan_of(test);
  const minuet_execution_options options = options_of();
  const Execution execution = make_execution(machine(), plan.get(), &options);
  const Points points = draw_points(test, 20, 2);
  check(prepare(machine(), execution.get(), points.coordinates));
  const Buffer input(machine(), encode(dtype(), points.features));
  const Buffer output(machine(), 2 * bytes_of(test));
  const minuet_array features = features_of(input, test, rows_of(test, points));
  const auto expect_refused = [&](const minuet_array& array, const char* why) {
    EXPECT_EQ(run_arrays(execution.get(), {features}, {array}), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr(why));
  };
  const minuet_array right = dense_of(output.data(), test);
  minuet_array array = right;
  array.shape[0] = 3;
  expect_refused(array, "output 0 has shape [3, 5, 9, 6, 4]; it must be [4, 5, 9, 6, 4]");
  array = right;
  array.rank = 4;
  expect_refused(array, "it must be [4, 5, 9, 6, 4]");
  array = right;
  array.element = array.element == MINUET_ELEMENT_F32 ? MINUET_ELEMENT_F16 : MINUET_ELEMENT_F32;
  expect_refused(array, "elements of");
  array = right;
  array.has_strides = 1;
  for (int axis = 4, stride = 1; axis >= 0; --axis) {
    array.stride[axis] = stride;
    stride *= static_cast<int>(array.shape[axis]);
  }
  check(run_arrays(execution.get(), {features}, {array}));
  array.stride[0] += 1;
  expect_refused(array, "must be contiguous");
  array = right;
  array.data = input.data();
  expect_refused(array, "overlap");
  EXPECT_EQ(run_tensors(execution.get(), {tensor(input, 1, 5, dtype())}, tensor(output, 1, 5, dtype())),
            MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("minuet_execution_run_arrays"));
  int64_t rows = 0;
  int32_t channels = 0;
  EXPECT_EQ(minuet_execution_output_shape(execution.get(), &rows, &channels), MINUET_FAILED_PRECONDITION);
}

/// A bird's-eye image and the features of the level that it was made of, as two outputs.
TEST_P(DenseTest, AmongOutputs) {
  const Case test{.channels = 8, .shape = {8, 10, 4}, .stride = 2, .image_axes = {1, 0}};
  std::string description = describe(test, pooling_layer(test) + ", " + dense_layer(test));
  description.insert(1, R"("outputs": ["dense", "level"], )");
  const Plan plan = plan_of(description);
  minuet_tensor_info info{};
  info.struct_size = sizeof(info);
  check(minuet_plan_query_output(plan.get(), 0, &info));
  EXPECT_EQ(info.rank, 4);
  EXPECT_EQ((std::vector<int64_t>{info.shape, info.shape + 4}), (std::vector<int64_t>{-1, 16, 5, 4}));
  const minuet_execution_options options = options_of(tested_maps());
  const Execution execution = make_execution(machine(), plan.get(), &options);
  const Points points = draw_points(test, 100, 8);
  check(prepare(machine(), execution.get(), points.coordinates));
  int64_t rows = 0;
  int32_t channels = 0;
  EXPECT_EQ(minuet_execution_output_shape(execution.get(), &rows, &channels), MINUET_FAILED_PRECONDITION);
  check(minuet_execution_output_shape_of(execution.get(), 1, &rows, &channels));
  const Buffer input(machine(), encode(dtype(), points.features));
  const Buffer output(machine(), bytes_of(test)), features(machine(), rows * channels * dtype_bytes(dtype()));
  check(run_arrays(execution.get(), {features_of(input, test, rows_of(test, points))},
                   {dense_of(output.data(), test), array_of(features.data(), {rows, channels}, element())}));
  EXPECT_EQ(decode(dtype(), output.read<char>()), expected_of(test, points));
  std::vector<int32_t> coordinates(static_cast<size_t>(rows) * 4);
  const Buffer where(machine(), static_cast<int64_t>(coordinates.size()) * 4);
  check(minuet_execution_output_coordinates_of(execution.get(), 1, static_cast<int32_t*>(where.data()),
                                               nullptr));
  coordinates = where.read<int32_t>();
  const std::vector<float> values = decode(dtype(), features.read<char>()), dense = expected_of(test, points);
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<int> cell(coordinates.begin() + row * 4, coordinates.begin() + row * 4 + 4);
    for (size_t f = 1; f < 4; ++f) cell[f] /= test.stride;
    for (int c = 0; c < test.channels; ++c) {
      EXPECT_EQ(values[static_cast<size_t>(row * channels + c)],
                dense[static_cast<size_t>(test.element(cell, c))]);
    }
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(DenseTest);

/// What the library prints of a description describes the same network.
TEST(DenseDescriptions, PrintedAndReadAgain) {
  std::string reason;
  Machine& machine = *Machine::open("cpu", reason);
  const Case test{.image_axes = {1, 0}};
  const auto printed = [&](const std::string& description) {
    NetworkSpec spec;
    spec.description = description;
    Plan plan(nullptr, {minuet_plan_destroy});
    check(create_network(machine, spec, plan));
    std::string text(minuet_plan_description(plan.get(), nullptr, 0), 0);
    minuet_plan_description(plan.get(), text.data(), text.size());
    text.pop_back();
    return text;
  };
  const std::string pooling = R"({"op": "max_pool", "name": "pool", "output": "level"}, )";
  const std::string back = R"(, {"op": "from_dense", "onto": "level"})";
  for (const std::string& dense :
       {dense_layer(test), dense_layer({}), dense_layer({.channels_last = true})}) {
    const std::string text = printed(describe(test, pooling + dense + back));
    EXPECT_EQ(printed(text), text);
    EXPECT_THAT(text, HasSubstr("from_dense"));
  }
}

/// Descriptions that are refused, and why.
TEST(DenseDescriptions, Refused) {
  std::string reason;
  Machine& machine = *Machine::open("cpu", reason);
  const auto refused = [&](const std::string& description) {
    NetworkSpec spec;
    spec.description = description;
    Plan plan(nullptr, {minuet_plan_destroy});
    EXPECT_NE(create_network(machine, spec, plan), MINUET_OK);
    return last_error();
  };
  const Case test, flat{.ndim = 2, .shape = {4, 4}};
  const std::string dense = dense_layer(test);
  EXPECT_THAT(refused(describe(test, dense, /*has_shape=*/false)), HasSubstr("no shape"));
  EXPECT_THAT(refused(describe(flat, dense_layer({.image_axes = {0, 1}}))), HasSubstr("3 axes"));
  EXPECT_THAT(refused(describe(test, dense_layer({.image_axes = {1, 1}}))), HasSubstr("image_axes"));
  EXPECT_THAT(refused(describe(test, dense_layer({.image_axes = {1, 3}}))), HasSubstr("image_axes"));
  EXPECT_THAT(refused(describe(test, R"({"op": "birds_eye"})")), HasSubstr("image_axes"));
  EXPECT_THAT(refused(describe(test, R"({"op": "to_dense", "format": "nhwc"})")), HasSubstr("channels_last"));
  EXPECT_THAT(refused(describe(test, dense + ", " + dense)), HasSubstr("layers[1].input"));
  const Case strided{.stride = 2};
  const std::string pooling = pooling_layer(strided);
  EXPECT_THAT(refused(describe(test, dense + ", " + pooling)), HasSubstr("from_dense"));
  EXPECT_THAT(refused(describe(test, pooling + R"(, {"op": "from_dense", "onto": "level"})")),
              HasSubstr("no dense tensor"));
  EXPECT_THAT(refused(describe(test, dense + R"(, {"op": "from_dense", "onto": "dense"})")),
              HasSubstr("is a dense tensor"));
  EXPECT_THAT(refused(describe({.shape = {60000, 60000, 2}}, dense)), HasSubstr("2^31 - 1 cells"));
}

}  // namespace
}  // namespace minuet::abi
