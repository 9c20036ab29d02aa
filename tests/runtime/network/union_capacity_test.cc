// The op union within capacities and on pyramids, on every device and in every dtype.
#include "tests/runtime/network/union_fixture.h"

namespace minuet::abi {
namespace {

class UnionCapacityTest : public UnionTest {};

TEST_P(UnionCapacityTest, WithinCapacitiesAndOnPyramids) {
  int proper = 0;
  for (const uint64_t seed : {1u, 2u, 3u}) {
    Random random(seed);
    UnionGraph graph;
    const Plan plan = draw_plan(random, 3, graph);
    SCOPED_TRACE(graph.text());
    const std::vector<int32_t> cloud = draw_cloud(graph, random, 60);
    Capacities capacities(static_cast<size_t>(info_of(plan.get()).levels));
    const auto count = static_cast<int32_t>(capacities.size());
    for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
      minuet_execution_options options = options_of(method);
      const Execution first = make_execution(machine(), plan.get(), &options);
      check(prepare(machine(), first.get(), cloud));
      check(minuet_execution_suggest_capacities(first.get(), 1.0, capacities.data(), count));
      const std::vector<NetworkRun> exact = run(graph, plan.get(), cloud, method);
      proper += check_unions(graph, exact, cloud);
      options.level_capacity = capacities.data();
      options.level_count = count;
      const Execution within = make_execution(machine(), plan.get(), &options);
      const auto run_once = [&](const std::vector<minuet_array>& in, const std::vector<minuet_array>& out) {
        check(prepare(machine(), within.get(), cloud));
        check(run_arrays(within.get(), in, out));
      };
      expect_within(graph, plan.get(), capacities, cloud, exact, run_once);
      expect_within(graph, plan.get(), capacities, cloud, exact, run_once);
      if (method == MINUET_MAPS_SORTED) continue;
      minuet_pyramid_options of_network = MINUET_PYRAMID_OPTIONS_INIT;
      of_network.network = plan.get();
      of_network.level_capacity = capacities.data();
      of_network.level_count = count;
      TestPyramid pyramid(machine(), of_network);
      pyramid.build(cloud);
      expect_within(graph, plan.get(), capacities, cloud, exact,
                    [&](const std::vector<minuet_array>& in, const std::vector<minuet_array>& out) {
                      run_on(machine(), plan.get(), pyramid.run_arguments(), in, out);
                    });
    }
  }
  EXPECT_GT(proper, 0);
}

/// The order of the layers numbers the parents of a union, but it has the same rows: the pyramid of either
/// network serves both, and contains the coordinates of the union.
TEST_P(UnionCapacityTest, APyramidServesEveryOrderOfTheLayers) {
  const std::string coarse = R"("kernel_size": 1, "stride": 4)",
                    dilated = R"("kernel_size": 3, "dilation": 2, "padding": 2, "rule": "reached")";
  std::array<UnionGraph, 2> graphs;
  graphs[0].add_pool(-1, coarse), graphs[0].add_pool(-1, dilated);
  graphs[1].add_pool(-1, dilated), graphs[1].add_pool(-1, coarse);
  for (UnionGraph& graph : graphs) graph.add_union(0, 1);
  const std::array<Plan, 2> plans = {plan_of(graphs[0]), plan_of(graphs[1])};
  Random random(7);
  const std::vector<int32_t> cloud = draw_cloud(graphs[0], random, 30);
  const Capacities capacities(4, 1024);
  for (const Plan& of : plans) {
    minuet_pyramid_options of_network = MINUET_PYRAMID_OPTIONS_INIT;
    of_network.network = of.get();
    of_network.level_capacity = capacities.data();
    of_network.level_count = 4;
    of_network.keep_coordinates = 1u << 3;
    TestPyramid pyramid(machine(), of_network);
    pyramid.build(cloud);
    for (size_t i = 0; i < 2; ++i) {
      const std::vector<NetworkRun> exact = run(graphs[i], plans[i].get(), cloud, MINUET_MAPS_INDEXED);
      EXPECT_EQ(check_unions(graphs[i], exact, cloud), 1);
      expect_within(graphs[i], plans[i].get(), capacities, cloud, exact,
                    [&](const std::vector<minuet_array>& in, const std::vector<minuet_array>& out) {
                      run_on(machine(), plans[i].get(), pyramid.run_arguments(), in, out);
                    });
      Buffer kept(machine(), capacities[3] * 16);
      kept.poison();
      check(minuet_pyramid_coordinates(pyramid.get(), machine().device(), pyramid.buffer().data(),
                                       pyramid.buffer().bytes(), 3, static_cast<int32_t*>(kept.data()),
                                       nullptr));
      std::vector<int32_t> expected = exact[2].coordinates;
      expected.resize(static_cast<size_t>(capacities[3] * 4));
      EXPECT_EQ(kept.read<int32_t>(), expected);
    }
  }
}

/// Each union has two ways to every level before it. The time must not grow with the number of ways.
TEST_P(UnionCapacityTest, DeeplyNested) {
  UnionGraph graph;
  graph.add_pool(-1, R"("kernel_size": 1, "stride": 2)");
  for (int i = 0; i < 40; ++i) {
    const int last = graph.results - 1;
    graph.add_pool(last, R"("kernel_size": 1, "rule": "reached")");
    graph.add_union(last, last + 1);
  }
  const Plan plan = plan_of(graph);
  const std::vector<int32_t> cloud = {0, 2, 4, 6, 0, 1, 5, 9};
  check_unions(graph, run(graph, plan.get(), cloud, MINUET_MAPS_INDEXED), cloud);
  const Capacities capacities(static_cast<size_t>(info_of(plan.get()).levels), 8);
  minuet_pyramid_options of_network = MINUET_PYRAMID_OPTIONS_INIT;
  of_network.network = plan.get();
  of_network.level_capacity = capacities.data();
  of_network.level_count = static_cast<int32_t>(capacities.size());
  for (const uint32_t kept : {0u, 1u << 20}) {
    of_network.keep_coordinates = kept;
    minuet_pyramid* pyramid = nullptr;
    EXPECT_EQ(minuet_pyramid_create(machine().context(), &of_network, &pyramid), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), testing::HasSubstr("the pyramid has 82 levels; it must have 1 to 16")) << kept;
  }
}

/// A union with more rows than its capacity makes the cloud fail, and the next cloud succeeds.
TEST_P(UnionCapacityTest, PastItsCapacity) {
  UnionGraph graph;
  graph.add_pool(-1, R"("kernel_size": 1, "stride": 2)");
  graph.add_union(-1, 0);
  const Plan plan = plan_of(graph);
  const std::vector<int32_t> many = {0, 1, 1, 1, 0, 3, 3, 3, 0, 5, 5, 5}, few = {0, 2, 2, 2};
  const Capacities capacities{3, 3, 5};
  for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
    minuet_execution_options options = options_of(method);
    options.level_capacity = capacities.data();
    options.level_count = 3;
    const Execution within = make_execution(machine(), plan.get(), &options);
    for (const bool is_full : {true, false, true}) {
      const std::vector<int32_t>& cloud = is_full ? many : few;
      std::vector<NetworkRun> expected(2);
      if (!is_full) expected = run(graph, plan.get(), cloud, method);
      expect_within(graph, plan.get(), capacities, cloud, expected,
                    [&](const std::vector<minuet_array>& in, const std::vector<minuet_array>& out) {
                      check(prepare(machine(), within.get(), cloud));
                      check(run_arrays(within.get(), in, out));
                    });
      uint32_t status = ~0u;
      check(minuet_execution_read_cloud(within.get(), &status, nullptr, 0, nullptr));
      EXPECT_EQ(status, is_full ? static_cast<uint32_t>(MINUET_CLOUD_PAST_CAPACITY) : 0u);
    }
  }
}

/// A pyramid of other levels does not serve the network.
TEST_P(UnionCapacityTest, APyramidWithoutTheUnionIsRefused) {
  UnionGraph graph, other;
  graph.add_pool(-1, R"("kernel_size": 1, "stride": 2)");
  graph.add_union(-1, 0);
  other.add_pool(-1, R"("kernel_size": 1, "stride": 2)");
  const Plan plan = plan_of(graph), without = plan_of(other);
  const Capacities capacities{8, 8};
  minuet_pyramid_options of_network = MINUET_PYRAMID_OPTIONS_INIT;
  of_network.network = without.get();
  of_network.level_capacity = capacities.data();
  of_network.level_count = 2;
  TestPyramid pyramid(machine(), of_network);
  const minuet_run_arguments given = pyramid.run_arguments();
  int64_t bytes = 0;
  EXPECT_EQ(minuet_plan_run_bytes(plan.get(), machine().arch().c_str(), &given, &bytes),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), testing::HasSubstr("that is the union of the same levels"));
}

MINUET_INSTANTIATE_DEVICE_TEST(UnionCapacityTest);

}  // namespace
}  // namespace minuet::abi
