// Networks whose strided layers have kernels as large as their strides, by the rule "reached": levels that
// have all cells with a voxel are made as the rule "cells" makes them, and those that lose their last cells
// are not.
#include "tests/runtime/execution/reach_fixture.h"

namespace minuet::abi::chains {
namespace {

using testing::HasSubstr;

/// A chain whose kernels are as large as their strides, of 1 to 3 cells on each axis. Its shape is a multiple
/// of all strides if `is_whole`.
Chain draw_cells_chain(Random& random, int ndim, int depth, bool is_whole) {
  Chain chain;
  for (int a = 0; a < ndim; ++a) chain.shape.push_back(1);
  int width = chain.channels;
  for (int i = 0; i < depth; ++i) {
    Layer layer;
    for (size_t a = 0; a < chain.shape.size(); ++a) {
      const int stride = static_cast<int>(random.between(a == 0 ? 2 : 1, ndim < 4 ? 3 : 2));
      layer.kernel_size.push_back(stride);
      layer.stride.push_back(stride);
      layer.padding.push_back(0);
      layer.dilation.push_back(1);
      chain.shape[a] *= stride;
    }
    layer.channels = i + 1 == depth ? 3 : 4;
    layer.weight = draw_numbers(random, int64_t{layer.offsets()} * width * layer.channels);
    width = layer.channels;
    chain.layers.push_back(std::move(layer));
  }
  for (int& cells : chain.shape) {
    cells *= 2;
    if (!is_whole) cells += static_cast<int>(random.between(0, cells / 2));
  }
  return chain;
}

class ReachedCellsTest : public ReachTest {
 protected:
  int64_t launches_of_prepare(minuet_execution* execution, const std::vector<int32_t>& coordinates,
                              int ndim) {
    check(prepare(machine(), execution, coordinates, ndim));  // the first one may find out sizes
    check(minuet_execution_reset_counters(execution));
    check(prepare(machine(), execution, coordinates, ndim));
    return counters_of(execution).kernels;
  }
};

TEST_P(ReachedCellsTest, ChainsAreThoseOfDenseConvolutions) {
  const uint64_t trials = machine().is_software() ? 1 : 4;
  for (int ndim = 1; ndim <= 4; ++ndim) {
    for (uint64_t seed = 0; seed < trials; ++seed) {
      for (const bool is_whole : {false, true}) {
        Random random(100 * seed + static_cast<uint64_t>(ndim));
        const Chain chain = draw_cells_chain(random, ndim, ndim < 4 ? 2 : 1, is_whole);
        SCOPED_TRACE(describe(chain, kToDense));
        const Plan plan = plan_of(chain);
        for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
          const minuet_execution_options options = options_of(method);
          const Execution execution = make_execution(machine(), plan.get(), &options);
          for (const int count : {80, 0, 1}) {
            const Points points = draw_points(chain, random, count);
            EXPECT_EQ(run_exact(execution.get(), chain, points), expected_of(chain, points)) << count;
          }
        }
      }
    }
  }
}

TEST_P(ReachedCellsTest, WithinCapacitiesAndOnPyramids) {
  for (const bool is_whole : {false, true}) {
    Random random(is_whole ? 3 : 4);
    const Chain chain = draw_cells_chain(random, 3, 2, is_whole);
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
      for (const Points& points : {many, Points{}, few}) {
        EXPECT_EQ(run_within(within.get(), chain, points, capacities[0], 0), expected_of(chain, points));
      }
      Points outside = many;
      outside.coordinates[1] = chain.shape[0];
      check(prepare(machine(), within.get(), outside.coordinates, 3));
      uint32_t status = 0;
      check(minuet_execution_read_cloud(within.get(), &status, nullptr, 0, nullptr));
      EXPECT_NE(status & MINUET_CLOUD_OUT_OF_BOUNDS, 0u);
    }
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.network = plan.get();
    options.level_capacity = capacities.data();
    options.level_count = static_cast<int32_t>(capacities.size());
    options.batch_size = kBatch;
    TestPyramid pyramid(machine(), options);
    for (const Points& points : {many, few}) {
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

/// Two levels down, within the last one, and back up. `rule` is that of the strided layers. Their kernels lie
/// in the same cells by either rule.
std::string pyramid_network(const std::string& rule, const std::string& shape, const std::string& kernel) {
  const std::string strided =
      R"("kernel_size": )" + kernel + R"(, "stride": )" + kernel + R"(, "rule": ")" + rule + R"("},)";
  return R"({"name": "cells", "ndim": 3, "in_channels": 4,)" + shape +
         R"( "outputs": ["coarse", "fine"], "layers": [
    {"op": "block", "name": "a", "out_channels": 8, )" +
         strided + R"(
    {"op": "block", "name": "b", "out_channels": 8, )" +
         strided + R"(
    {"op": "block", "name": "c", "out_channels": 8, "kernel_size": 3, "output": "coarse"},
    {"op": "inverse", "name": "d", "of": "b", "out_channels": 8},
    {"op": "inverse", "name": "e", "of": "a", "out_channels": 4, "output": "fine"}]})";
}

/// The rules give the same rows in the same order, and take the same launches, without a shape and with one
/// that is a multiple of the strides. Otherwise cells are lost, which takes launches.
TEST_P(ReachedCellsTest, BothRulesGiveTheSameRows) {
  Random random(4);
  Chain cloud;
  cloud.shape = {24, 20, 16};
  const Points points = draw_points(cloud, random, 300);
  const std::vector<char> features = encode(dtype(), points.features);
  const auto run = [&](const std::string& description, minuet_map_method method, int64_t& launches) {
    NetworkSpec spec;
    spec.description = description;
    spec.dtype = dtype();
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    const Plan plan = make_network(machine(), spec);
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.map_method = method;
    const Execution execution = make_execution(machine(), plan.get(), &options);
    launches = launches_of_prepare(execution.get(), points.coordinates, 3);
    return run_graph(machine(), plan.get(), execution.get(), points.coordinates, {features}, dtype());
  };
  for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
    for (const std::string& shape : {std::string(), std::string(R"("shape": [24, 20, 16],)")}) {
      SCOPED_TRACE(shape + (method == MINUET_MAPS_SORTED ? " sorted" : " indexed"));
      int64_t launches = 0, fewest = 0;
      const std::vector<NetworkRun> reached = run(pyramid_network("reached", shape, "2"), method, launches),
                                    cells = run(pyramid_network("cells", shape, "2"), method, fewest);
      EXPECT_EQ(reached, cells);
      // Keys have room for the kernels' reach by the rule "reached", so that sorting them may take longer.
      if (method == MINUET_MAPS_INDEXED) {
        EXPECT_EQ(launches, fewest);
      }
    }
    // 26 and 18 are no multiples of 4.
    const std::string odd = R"("shape": [26, 20, 18],)";
    int64_t launches = 0, fewest = 0;
    run(pyramid_network("reached", odd, "2"), method, launches);
    run(pyramid_network("cells", odd, "2"), method, fewest);
    EXPECT_TRUE(machine().is_cpu() || launches > fewest);
  }
}

/// Negative coordinates, where there is no shape.
TEST_P(ReachedCellsTest, BothRulesGiveTheSameRowsOfNegativeCoordinates) {
  std::vector<int32_t> coordinates = make_scene(200, 6);
  const std::vector<char> features = encode(dtype(), std::vector<float>(coordinates.size() / 4 * 4, 0.5f));
  for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
    std::vector<NetworkRun> runs[2];
    for (const char* const rule : {"reached", "cells"}) {
      NetworkSpec spec;
      spec.description = pyramid_network(rule, "", "[3, 2, 1]");
      spec.dtype = dtype();
      const Plan plan = make_network(machine(), spec);
      minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
      options.map_method = method;
      const Execution execution = make_execution(machine(), plan.get(), &options);
      runs[std::string(rule) == "cells"] =
          run_graph(machine(), plan.get(), execution.get(), coordinates, {features}, dtype());
    }
    // The rule "cells" centres its kernels, so that a kernel of 3 has other neighbours, on the same rows.
    for (size_t output = 0; output < 2; ++output) {
      EXPECT_EQ(runs[0][output].coordinates, runs[1][output].coordinates) << output;
      EXPECT_EQ(runs[0][output].rows, runs[1][output].rows) << output;
    }
  }
}

/// A network finds the levels of a pyramid that was described by hand by the same rule, and no others.
TEST_P(ReachedCellsTest, PyramidsDescribedByHand) {
  NetworkSpec spec;
  spec.description = R"({"name": "cells", "ndim": 3, "in_channels": 4, "layers": [{"op": "block", "name": "a",
    "out_channels": 4, "kernel_size": 2, "stride": 2, "rule": "reached"}]})";
  spec.dtype = dtype();
  spec.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan plan = make_network(machine(), spec);
  const std::vector<int32_t> points = make_scene(60, 3);
  const int64_t count = static_cast<int64_t>(points.size()) / 4;
  const std::vector<char> features = encode(dtype(), std::vector<float>(points.size(), 0.5f));
  const std::vector<int64_t> capacities{count, count};
  for (const bool is_reached : {true, false}) {
    std::vector<minuet_pyramid_level> levels{level_of(count), level_of(count, 0, 2)};
    minuet_pyramid_map map = map_between(0, 1, 2, MINUET_PURPOSE_CONVOLUTION);
    map.dense_offsets = 1;
    levels[1].is_reached = is_reached;
    for (int a = 0; a < 3 && is_reached; ++a) levels[1].kernel_size[a] = 2;
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.levels = levels.data(), options.level_count = 2;
    options.maps = &map, options.map_count = 1;
    TestPyramid pyramid(machine(), options);
    if (!is_reached) {
      int64_t bytes = 0;
      const minuet_run_arguments given = pyramid.run_arguments();
      EXPECT_EQ(minuet_plan_run_bytes(plan.get(), machine().arch().c_str(), &given, &bytes),
                MINUET_INVALID_ARGUMENT);
      EXPECT_THAT(last_error(), HasSubstr("reached by this op"));
      continue;
    }
    pyramid.build(points);
    minuet_pyramid_options of_network = MINUET_PYRAMID_OPTIONS_INIT;
    of_network.network = plan.get();
    of_network.level_capacity = capacities.data();
    of_network.level_count = 2;
    TestPyramid own(machine(), of_network);
    own.build(points);
    std::vector<char> results[2];
    for (TestPyramid* const each : {&pyramid, &own}) {
      const Buffer input(machine(), features);
      const Buffer output(machine(), count * 4 * dtype_bytes(dtype()));
      run_on(machine(), plan.get(), each->run_arguments(), {array_of(input.data(), {count, 4}, element())},
             {array_of(output.data(), {count, 4}, element())});
      results[each == &own] = output.read<char>();
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(ReachedCellsTest);

}  // namespace
}  // namespace minuet::abi::chains
