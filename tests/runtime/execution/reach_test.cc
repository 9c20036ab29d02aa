// Networks whose levels follow the rule of a dense convolution. Without a bias, such a network of a dense
// tensor is a chain of dense convolutions, which plain loops compute here. On every device, exact, within
// capacities and on pyramids, with maps by an index and by sorting.
#include "tests/runtime/execution/reach_fixture.h"

namespace minuet::abi::chains {
namespace {

using testing::HasSubstr;

TEST_P(ReachTest, ChainsAreThoseOfDenseConvolutions) {
  const uint64_t trials = machine().is_software() ? 1 : 6;
  for (int ndim = 1; ndim <= 4; ++ndim) {
    for (uint64_t seed = 0; seed < trials; ++seed) {
      Random random(100 * seed + static_cast<uint64_t>(ndim));
      const Chain chain = draw_chain(random, ndim, 1 + static_cast<int>(seed % 3));
      SCOPED_TRACE(describe(chain, kToDense));
      const Plan plan = plan_of(chain);
      for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
        const minuet_execution_options options = options_of(method);
        const Execution execution = make_execution(machine(), plan.get(), &options);
        for (const int count : {60, 0, 1, 20}) {
          const Points points = draw_points(chain, random, count);
          EXPECT_EQ(run_exact(execution.get(), chain, points), expected_of(chain, points)) << count;
        }
      }
    }
  }
}

TEST_P(ReachTest, WithinCapacitiesAndOnPyramids) {
  for (const uint64_t seed : {1u, 2u}) {
    Random random(seed);
    const Chain chain = draw_chain(random, 3, 2);
    SCOPED_TRACE(describe(chain, kToDense));
    const Plan plan = plan_of(chain);
    const Points many = draw_points(chain, random, 100), few = draw_points(chain, random, 7);
    const minuet_execution_options exact_options = options_of(MINUET_MAPS_SORTED);
    const Execution exact = make_execution(machine(), plan.get(), &exact_options);
    run_exact(exact.get(), chain, many);
    const Capacities capacities = counts_of(plan.get(), exact.get());
    for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
      minuet_execution_options options = options_of(method);
      options.level_capacity = capacities.data();
      options.level_count = static_cast<int32_t>(capacities.size());
      const Execution within = make_execution(machine(), plan.get(), &options);
      for (const Points& points : {many, Points{}, few, many}) {
        EXPECT_EQ(run_within(within.get(), chain, points, capacities[0], 0), expected_of(chain, points));
      }
      // One level has room for one row only.
      for (size_t level = 1; level < capacities.size(); ++level) {
        Capacities fewer = capacities;
        fewer[level] = 1;
        options.level_capacity = fewer.data();
        const Execution full = make_execution(machine(), plan.get(), &options);
        EXPECT_EQ(run_within(full.get(), chain, many, capacities[0], MINUET_CLOUD_PAST_CAPACITY),
                  std::vector<double>(static_cast<size_t>(elements_of(chain))));
        EXPECT_EQ(run_within(full.get(), chain, Points{}, capacities[0], 0), expected_of(chain, {}));
      }
    }
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.network = plan.get();
    options.level_capacity = capacities.data();
    options.level_count = static_cast<int32_t>(capacities.size());
    options.batch_size = kBatch;
    TestPyramid pyramid(machine(), options);
    for (const Points& points : {many, Points{}, few}) {
      pyramid.build(points.coordinates);
      std::vector<char> features = encode(dtype(), points.features);
      features.resize(static_cast<size_t>(capacities[0] * chain.channels * dtype_bytes(dtype())), '\x7f');
      const Buffer input(machine(), features);
      const Buffer output(machine(), elements_of(chain) * dtype_bytes(dtype()));
      run_on(machine(), plan.get(), pyramid.run_arguments(),
             {array_of(input.data(), {capacities[0], chain.channels}, element())},
             {dense_of(output.data(), chain)});
      EXPECT_EQ(doubles_of(output), expected_of(chain, points));
    }
  }
}

/// The points of one batch item, as item 0.
Points item_of(const Chain& chain, const Points& points, int32_t item) {
  const size_t fields = static_cast<size_t>(chain.ndim()) + 1, width = static_cast<size_t>(chain.channels);
  Points own;
  for (size_t row = 0; row * fields < points.coordinates.size(); ++row) {
    const auto at = points.coordinates.begin() + static_cast<std::ptrdiff_t>(row * fields);
    if (*at != item) continue;
    own.coordinates.push_back(0);
    own.coordinates.insert(own.coordinates.end(), at + 1, at + static_cast<std::ptrdiff_t>(fields));
    const auto features = points.features.begin() + static_cast<std::ptrdiff_t>(row * width);
    own.features.insert(own.features.end(), features, features + static_cast<std::ptrdiff_t>(width));
  }
  return own;
}

/// The order of the caller's rows does not change a dense tensor, and a batch has the results of its items.
TEST_P(ReachTest, NeitherTheOrderOfRowsNorTheOtherItemsMatter) {
  for (const uint64_t seed : {11u, 12u}) {
    Random random(seed);
    const Chain chain = draw_chain(random, 3, 3);
    const Plan plan = plan_of(chain);
    const Points points = draw_points(chain, random, 120);
    Points reversed;
    const auto width = static_cast<std::ptrdiff_t>(chain.channels);
    for (int64_t row = rows_of(chain, points); row-- > 0;) {
      const auto at = points.coordinates.begin() + row * 4;
      reversed.coordinates.insert(reversed.coordinates.end(), at, at + 4);
      const auto features = points.features.begin() + row * width;
      reversed.features.insert(reversed.features.end(), features, features + width);
    }
    for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
      const minuet_execution_options options = options_of(method);
      const Execution execution = make_execution(machine(), plan.get(), &options);
      const std::vector<double> whole = run_exact(execution.get(), chain, points);
      EXPECT_EQ(run_exact(execution.get(), chain, reversed), whole);
      const auto item_elements = static_cast<std::ptrdiff_t>(whole.size() / kBatch);
      for (int32_t item = 0; item < 2; ++item) {
        const std::vector<double> alone = run_exact(execution.get(), chain, item_of(chain, points, item));
        const auto expected = whole.begin() + item * item_elements;
        EXPECT_TRUE(std::equal(expected, expected + item_elements, alone.begin())) << item;
      }
    }
  }
}

/// A cloud that grows more than is expected in exact mode: each voxel reaches 27 others, with none in common.
TEST_P(ReachTest, LevelsThatGrowMuch) {
  Chain chain;
  chain.shape = {24, 24, 24};
  Random random(5);
  Layer layer{{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 3, {}};
  layer.weight = draw_numbers(random, int64_t{27} * chain.channels * layer.channels);
  chain.layers = {layer};
  const Plan plan = plan_of(chain);
  Points points;
  for (int32_t x = 1; x < 24; x += 3) {
    for (int32_t y = 1; y < 24; y += 3) {
      for (const int32_t z : {1, 4, 13, 22}) {
        points.coordinates.insert(points.coordinates.end(), {0, x, y, z, 1, z, x, y});
      }
    }
  }
  points.features = draw_numbers(random, rows_of(chain, points) * chain.channels);
  for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
    minuet_execution_options options = options_of(method);
    const Execution execution = make_execution(machine(), plan.get(), &options);
    EXPECT_EQ(run_exact(execution.get(), chain, points), expected_of(chain, points));
    EXPECT_EQ(counts_of(plan.get(), execution.get())[1], (27 * rows_of(chain, points) + 255) / 256 * 256);

    int64_t bytes = 0;
    check(minuet_plan_workspace_bytes(plan.get(), machine().arch().c_str(), &options, rows_of(chain, points),
                                      27, &bytes));
    const Buffer workspace(machine(), bytes);
    options.workspace = workspace.data();
    options.workspace_bytes = bytes;
    const Execution within = make_execution(machine(), plan.get(), &options);
    EXPECT_EQ(run_exact(within.get(), chain, points), expected_of(chain, points));
  }
}

/// Without bounds, batch indices may be 0 to 8191, although a set that is dilated needs more bits of key.
TEST_P(ReachTest, LargeBatchIndices) {
  NetworkSpec spec;
  spec.description = R"({"name": "dilated", "ndim": 3, "in_channels": 4, "layers": [
    {"op": "block", "name": "a", "out_channels": 4, "kernel_size": 3, "padding": 1, "rule": "reached"}]})";
  spec.dtype = dtype();
  spec.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan plan = make_network(machine(), spec);
  const std::vector<int64_t> capacities = {1, 27};
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.map_method = MINUET_MAPS_INDEXED;
  options.level_capacity = capacities.data();
  options.level_count = 2;
  const Execution within = make_execution(machine(), plan.get(), &options);
  minuet_reach_options reach = MINUET_REACH_OPTIONS_INIT;
  for (int a = 0; a < 3; ++a) reach.kernel_size[a] = 3, reach.padding[a] = 1;
  for (const int32_t batch : {0, 1024, 8191, 20000}) {
    const std::vector<int32_t> point = {batch, 5, -6, 7};
    if (batch < 8192) {
      check(prepare(machine(), within.get(), point, 3));
      uint32_t status = ~0u;
      int32_t counts[3] = {};
      check(minuet_execution_read_cloud(within.get(), &status, counts, 3, nullptr));
      EXPECT_EQ(status, 0u) << batch;
      EXPECT_EQ(counts[2], 27) << batch;
    }
    const Buffer points(machine(), point);
    const minuet_coordinates_options of_set = MINUET_COORDINATES_OPTIONS_INIT;
    minuet_coordinates* made = nullptr;
    check(minuet_coordinates_create(machine().device(), &of_set, points.integers(), 1, nullptr, &made));
    const Coordinates set(made, {minuet_coordinates_destroy});
    minuet_coordinates* reached = nullptr;
    check(minuet_coordinates_reach(set.get(), &reach, nullptr, &reached));
    const Coordinates of_reach(reached, {minuet_coordinates_destroy});
    EXPECT_EQ(minuet_coordinates_count(reached), 27) << batch;
  }
}

/// Voxels so far from each other that the table of an index fills before its rows do.
TEST_P(ReachTest, VoxelsFarFromEachOther) {
  std::vector<int32_t> points;
  for (int32_t x = 0; x < 18; ++x) {
    for (int32_t y = 0; y < 18; ++y) {
      for (int32_t z = 0; z < 18; ++z) points.insert(points.end(), {0, 32 * x, 32 * y, 32 * z});
    }
  }
  const int64_t count = static_cast<int64_t>(points.size()) / 4;
  const Buffer given(machine(), points);
  const minuet_coordinates_options of_set = MINUET_COORDINATES_OPTIONS_INIT;
  minuet_coordinates* made = nullptr;
  check(minuet_coordinates_create(machine().device(), &of_set, given.integers(), count, nullptr, &made));
  const Coordinates set(made, {minuet_coordinates_destroy});
  minuet_reach_options reach = MINUET_REACH_OPTIONS_INIT;
  for (int a = 0; a < 3; ++a) reach.kernel_size[a] = 3, reach.dilation[a] = 8, reach.padding[a] = 8;
  minuet_coordinates* reached = nullptr;
  check(minuet_coordinates_reach(set.get(), &reach, nullptr, &reached));
  const Coordinates of_reach(reached, {minuet_coordinates_destroy});
  EXPECT_EQ(minuet_coordinates_count(reached), 27 * count);
}

/// A kernel with so many offsets that its map can have few rows.
TEST_P(ReachTest, TooManyOutputsForAMap) {
  if (kSanitized) GTEST_SKIP() << "takes long under a sanitizer, where it clears gigabytes";
  if (machine().is_software()) GTEST_SKIP() << "needs 8 GB, and the software device has 4";
  NetworkSpec spec;
  spec.description = R"({"name": "long", "ndim": 1, "in_channels": 1, "layers": [{"op": "block", "name": "a",
    "out_channels": 1, "kernel_size": 65536, "padding": 65535, "rule": "reached"}]})";
  spec.dtype = dtype();
  const Plan plan = make_network(machine(), spec);
  const Execution execution = make_execution(machine(), plan.get());
  EXPECT_EQ(prepare(machine(), execution.get(), {0, 0}, 1), MINUET_RESOURCE_EXHAUSTED);
  EXPECT_THAT(last_error(), HasSubstr("reach too many outputs"));
}

/// An inverse layer is the transposed dense convolution, on the voxels that its layer started from.
TEST_P(ReachTest, AnInverseLeadsBackToTheSameVoxels) {
  for (const uint64_t seed : {3u, 4u, 5u}) {
    Random random(seed);
    Chain chain = draw_chain(random, 3, 2);
    const Layer& last = chain.layers.back();
    constexpr int kOutputs = 5;
    const std::vector<float> weight =
        draw_numbers(random, int64_t{last.offsets()} * last.channels * kOutputs);
    const std::string inverse =
        R"({"op": "inverse", "name": "back", "of": "l1", "out_channels": 5, "norm": "none", "activation": "none"},)";
    const Plan plan =
        plan_of(chain, inverse + kToDense,
                {{"back.conv.weight", FileTensor{{last.offsets(), last.channels, kOutputs}, weight}}});
    const Points points = draw_points(chain, random, 60);
    const Dense middle = convolve(input_of(chain, points), chain.layers[0]);
    const Dense coarse = convolve(middle, last);
    // The level that l1 starts from has the cells that l0 reaches.
    Points ones = points;
    std::fill(ones.features.begin(), ones.features.end(), 1.0f);
    Layer counting = chain.layers[0];
    std::fill(counting.weight.begin(), counting.weight.end(), 1.0f);
    const Dense reached = convolve(input_of(chain, ones), counting);
    Dense expected(middle.cells, kOutputs);
    expected.visit([&](int batch, const std::vector<int>& cell) {
      if (reached.values[static_cast<size_t>(reached.at(batch, cell))] == 0) return;
      double* const sums = &expected.values[static_cast<size_t>(expected.at(batch, cell))];
      for (int k = 0; k < last.offsets(); ++k) {
        const std::vector<int> offset = last.offset(k);
        std::vector<int> from(cell.size());
        bool is_there = true;
        for (size_t a = 0; a < cell.size(); ++a) {
          const int scaled = cell[a] - offset[a];
          from[a] = scaled / last.stride[a];
          is_there = is_there && from[a] * last.stride[a] == scaled;
        }
        const int64_t place = is_there ? coarse.at(batch, from) : -1;
        if (place < 0) continue;
        for (int i = 0; i < last.channels; ++i) {
          for (int o = 0; o < kOutputs; ++o) {
            sums[o] += coarse.values[static_cast<size_t>(place + i)] *
                       weight[static_cast<size_t>((k * last.channels + i) * kOutputs + o)];
          }
        }
      }
    });
    // Sums of this length are exact in fp32 only.
    if (dtype() != DType::F32) continue;
    Chain to_middle = chain;
    to_middle.layers.pop_back();
    to_middle.layers.back().channels = kOutputs;
    for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
      const minuet_execution_options options = options_of(method);
      const Execution execution = make_execution(machine(), plan.get(), &options);
      check(prepare(machine(), execution.get(), points.coordinates, 3));
      const Buffer input(machine(), encode(dtype(), points.features));
      const Buffer output(machine(), elements_of(to_middle) * dtype_bytes(dtype()));
      check(run_arrays(execution.get(),
                       {array_of(input.data(), {rows_of(chain, points), chain.channels}, element())},
                       {dense_of(output.data(), to_middle)}));
      EXPECT_EQ(doubles_of(output), expected.values) << seed;
    }
  }
}

TEST_P(ReachTest, RefusesWhatNoSetCanHave) {
  const Buffer points(machine(), std::vector<int32_t>{0, 1, 2, 3});
  minuet_coordinates_options of_set = MINUET_COORDINATES_OPTIONS_INIT;
  minuet_coordinates* made = nullptr;
  check(minuet_coordinates_create(machine().device(), &of_set, points.integers(), 1, nullptr, &made));
  const Coordinates set(made, {minuet_coordinates_destroy});
  const auto refused = [&](const minuet_reach_options& options, minuet_status status, const char* words) {
    minuet_coordinates* reached = nullptr;
    EXPECT_EQ(minuet_coordinates_reach(set.get(), &options, nullptr, &reached), status);
    EXPECT_EQ(reached, nullptr);
    EXPECT_THAT(last_error(), HasSubstr(words));
  };
  minuet_reach_options usual = MINUET_REACH_OPTIONS_INIT, options = usual;
  options.padding[1] = -1;
  refused(options, MINUET_INVALID_ARGUMENT, "padding of axis 1 is -1");
  options = usual, options.padding[3] = 1;
  refused(options, MINUET_INVALID_ARGUMENT, "padding of axis 3 is 1");
  options = usual, options.shape[0] = 4;
  refused(options, MINUET_INVALID_ARGUMENT, "shape of axis 1 is 0");
  options = usual, options.kernel_size[0] = 1 << 20, options.kernel_size[1] = 1 << 20;
  refused(options, MINUET_INVALID_ARGUMENT, "offsets; at most");
  options = usual, options.stride[2] = (1 << 24) + 1;
  refused(options, MINUET_INVALID_ARGUMENT, "axis 2: stride");
  options = usual, options.kernel_size[0] = 3, options.dilation[0] = 1 << 28;
  refused(options, MINUET_INVALID_ARGUMENT, "axis 0");

  minuet_kernel_map_options map_options = MINUET_KERNEL_MAP_OPTIONS_INIT;
  minuet_kernel_map* map = nullptr;
  map_options.padding[0] = 1;
  EXPECT_EQ(minuet_kernel_map_create(set.get(), set.get(), &map_options, nullptr, &map),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("dense_offsets is 0"));
  map_options.dense_offsets = 2;
  EXPECT_EQ(minuet_kernel_map_create(set.get(), set.get(), &map_options, nullptr, &map),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("dense_offsets is 2"));
}

MINUET_INSTANTIATE_DEVICE_TEST(ReachTest);

}  // namespace
}  // namespace minuet::abi::chains
