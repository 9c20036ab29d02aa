// Networks with dense tensors (to_dense, birds_eye, from_dense) through the C ABI, on every device, against
// plain loops: every format, exact, within capacities and on pyramids, with maps by an index and by sorting.
#include <gmock/gmock.h>

#include "tests/runtime/execution/dense_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

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
      check(minuet_execution_read_cloud(execution.get(), &status, nullptr, 0, nullptr));
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

/// What prepare made serves any number of runs, whose outputs lie elsewhere.
TEST_P(DenseTest, RunsAgain) {
  const Case test{.channels = 16, .shape = {8, 6, 4}};
  const Plan plan = plan_of(test);
  const minuet_execution_options options = options_of();
  const Execution execution = make_execution(machine(), plan.get(), &options);
  Points points = draw_points(test, 90, 3);
  check(prepare(machine(), execution.get(), points.coordinates));
  for (int i = 0; i < 3; ++i) {
    std::rotate(points.features.begin(), points.features.begin() + 16, points.features.end());
    const Buffer input(machine(), encode(dtype(), points.features)), output(machine(), bytes_of(test));
    check(run_arrays(execution.get(), {features_of(input, test, rows_of(test, points))},
                     {dense_of(output.data(), test)}));
    EXPECT_EQ(decode(dtype(), output.read<char>()), expected_of(test, points));
  }
}

/// The size of a workspace is known, and suffices, with a dense tensor in it that is no output.
TEST_P(DenseTest, WorkspacesOfTheSizeThatIsTold) {
  Case test{.channels = 8, .shape = {8, 6, 4}, .stride = 2};
  const std::string back = R"(, {"op": "from_dense", "onto": "level"})";
  const Plan plan = plan_of(describe(test, pooling_layer(test) + ", " + dense_layer(test) + back));
  const Plan alone = plan_of(describe(test, pooling_layer(test)));
  const Capacities capacities{150, 100};
  const Points points = draw_points(test, 100, 4);
  const std::vector<char> features = encode(dtype(), points.features);
  const auto run_points = [&](minuet_plan* plan, const minuet_execution_options& options) {
    const Execution execution = make_execution(machine(), plan, &options);
    return run_network(machine(), execution.get(), points.coordinates, features, dtype(), 3, 8);
  };
  const auto bytes_with = [&](const minuet_execution_options& options, int64_t points, double neighbours) {
    int64_t bytes = 0;
    check(minuet_plan_workspace_bytes(plan.get(), machine().arch().c_str(), &options, points, neighbours,
                                      &bytes));
    return bytes;
  };
  for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
    minuet_execution_options options = options_of(method);
    const NetworkRun expected = run_points(alone.get(), options);
    const Buffer exact(machine(), bytes_with(options, 150, 8));
    options.workspace = exact.data(), options.workspace_bytes = exact.bytes();
    EXPECT_EQ(run_points(plan.get(), options), expected);
    options = options_of(method);
    options.level_capacity = capacities.data(), options.level_count = 2;
    const int64_t bytes = bytes_with(options, 0, 0);
    EXPECT_EQ(bytes, info_of(make_execution(machine(), plan.get(), &options)).workspace_bytes);
    options.batch_size = 2 * kBatch;
    EXPECT_GT(bytes_with(options, 0, 0), bytes);
  }
}

class DenseOnGpu : public DenseTest {};

/// Prepare and run of a bird's-eye image in one graph, for clouds that it has not seen.
TEST_P(DenseOnGpu, OneGraphForUnseenClouds) {
  const Case test{.channels = 16, .shape = {8, 6, 4}, .stride = 2, .image_axes = {1, 0}};
  const Plan plan = plan_of(test);
  const Capacities capacities{150, 100};
  minuet_execution_options options = options_of();
  options.level_capacity = capacities.data(), options.level_count = 2;
  const Execution execution = make_execution(machine(), plan.get(), &options);
  const Buffer coordinates(machine(), capacities[0] * 16), count(machine(), 4);
  const Buffer input(machine(), capacities[0] * 16 * dtype_bytes(dtype()));
  Buffer output(machine(), bytes_of(test));
  const Stream stream(machine());
  const CapturedGraph graph(stream.get(), [&] {
    check(minuet_execution_prepare_on_device(execution.get(), coordinates.integers(), count.integers(),
                                             stream.get()));
    check(run_arrays(execution.get(), {features_of(input, test, capacities[0])},
                     {dense_of(output.data(), test)}, stream.get()));
  });
  ASSERT_TRUE(graph.whole());
  for (const int points : {100, 0, 1, 60}) {
    const Points drawn = draw_points(test, points, 41);
    const int32_t rows = static_cast<int32_t>(rows_of(test, drawn));
    const std::vector<char> bytes = encode(dtype(), drawn.features);
    const auto put = [&](const Buffer& target, const void* values, int64_t size) {
      if (size > 0) check(minuet_device_copy(machine().device(), target.data(), values, size, 0));
    };
    put(coordinates, drawn.coordinates.data(), rows * 16);
    put(input, bytes.data(), static_cast<int64_t>(bytes.size()));
    put(count, &rows, 4);
    output.poison();
    ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
    check(minuet_device_synchronize(machine().device(), stream.get()));
    EXPECT_EQ(decode(dtype(), output.read<char>()), expected_of(test, drawn)) << points;
  }
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
INSTANTIATE_TEST_SUITE_P(Devices, DenseOnGpu,
                         testing::Combine(testing::Values("cuda:0"), testing::ValuesIn(all_dtypes())),
                         device_test_name);

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
