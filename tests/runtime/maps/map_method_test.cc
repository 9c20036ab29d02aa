// Sets and maps by sorting and by an index of the occupied voxels: the same network outputs and the
// same levels, on every device.
#include <algorithm>
#include <climits>

#include "tests/runtime/execution/execution_fixture.h"

namespace minuet::abi {
namespace {

class MapMethodTest : public ExecutionTest {
 protected:
  static minuet_execution_options options_of(minuet_map_method method) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.map_method = method;
    return options;
  }
  Execution by(minuet_map_method method) {
    const minuet_execution_options options = options_of(method);
    return execution(&options);
  }
  /// Of all levels.
  static minuet_map_method method_of(minuet_execution* execution) {
    minuet_map_method method = -1;
    for (int32_t level = 0; level < 5; ++level) {
      minuet_level_info info{};
      info.struct_size = sizeof(info);
      check(minuet_execution_query_level(execution, level, &info));
      if (level > 0) {
        EXPECT_EQ(info.map_method, method) << level;
      }
      method = info.map_method;
    }
    return method;
  }
  /// On a GPU, each row's bits are the same. On the CPU device, the GEMM of one offset adds up a row's
  /// products in an order that depends on the row's place among the others, which depends on the order of the
  /// set.
  void expect_same(const NetworkRun& run, const NetworkRun& expected) {
    EXPECT_EQ(run.coordinates, expected.coordinates);
    ASSERT_EQ(run.channels, expected.channels);
    if (!machine().is_cpu()) {
      EXPECT_EQ(run.bytes, expected.bytes);
      return;
    }
    const std::vector<float> values = decode(dtype(), expected.bytes);
    EXPECT_TRUE(is_close(decode(dtype(), run.bytes), {values.begin(), values.end()}, run.channels,
                         error_bound(dtype(), true)));
  }
  static int64_t waits_of(const Execution& execution) {
    const int64_t waits = counters_of(execution.get()).host_syncs;
    check(minuet_execution_reset_counters(execution.get()));
    return waits;
  }
};

TEST_P(MapMethodTest, GiveTheSameOutputs) {
  const Execution sorted = by(MINUET_MAPS_SORTED), index = by(MINUET_MAPS_INDEXED);
  EXPECT_EQ(method_of(index.get()), MINUET_MAPS_AUTO) << "nothing is prepared";
  for (const int64_t voxels : {900, 30, 1500}) {
    const Cloud cloud = scene(voxels, kSeed + voxels);
    SCOPED_TRACE(voxels);
    expect_same(run(index, cloud), run(sorted, cloud));
    EXPECT_EQ(method_of(index.get()), MINUET_MAPS_INDEXED);
    EXPECT_EQ(method_of(sorted.get()), MINUET_MAPS_SORTED);
  }
  std::vector<int32_t> batches;
  for (const int32_t batch : {1, 2, 100}) add_cluster(batches, {-4, 3, -70}, 60, batch, kSeed + batch);
  for (const std::vector<int32_t>& coordinates :
       {batches, std::vector<int32_t>{5, 7, -13, 1000}, std::vector<int32_t>{}}) {
    const Cloud cloud(coordinates, dtype());
    SCOPED_TRACE(coordinates.size());
    expect_same(run(index, cloud), run(sorted, cloud));
  }
}

TEST_P(MapMethodTest, FirstDuplicatesAreTheSame) {
  Cloud cloud = scene(300);
  const std::vector<int32_t> once = cloud.coordinates;
  cloud.coordinates.insert(cloud.coordinates.end(), once.begin() + 40, once.begin() + 120);
  const Cloud doubled(cloud.coordinates, dtype());
  expect_refused(by(MINUET_MAPS_INDEXED), doubled.coordinates, MINUET_INVALID_ARGUMENT, "duplicate");
  minuet_execution_options options = options_of(MINUET_MAPS_INDEXED);
  options.keep_first_duplicate = 1;
  const Execution index = execution(&options);
  options.map_method = MINUET_MAPS_SORTED;
  expect_same(run(index, doubled), run(execution(&options), doubled));
}

/// An index does not mind how far apart points are. A cloud that is outside its keys' range is built again
/// with wider keys, which takes two waits more, once.
TEST_P(MapMethodTest, FarPointsAreIndexed) {
  const Execution sorted = by(MINUET_MAPS_SORTED), index = by(MINUET_MAPS_AUTO);
  const Cloud dense = scene(300);
  std::vector<int32_t> inside = dense.coordinates, outside = dense.coordinates, beyond = dense.coordinates;
  inside.insert(inside.end(), {8191, -(1 << 20), (1 << 20) - 17, 5});
  outside.insert(outside.end(), {3, 1 << 21, -(1 << 21), 5});
  beyond.insert(beyond.end(),
                {5, 3 << 20, -(3 << 20), 9});  // in the range of keys that clouds like `far` get
  const Cloud sparse(inside, dtype()), far(outside, dtype()), farther(beyond, dtype());
  const auto expect_step = [&](const Cloud& cloud, int64_t waits) {
    SCOPED_TRACE(cloud.coordinates[cloud.coordinates.size() - 3]);
    const NetworkRun expected = run(sorted, cloud);
    check(minuet_execution_reset_counters(index.get()));
    expect_same(run(index, cloud), expected);
    EXPECT_EQ(method_of(index.get()), MINUET_MAPS_INDEXED);
    if (!machine().is_cpu()) {
      EXPECT_EQ(waits_of(index), waits);
    }
  };
  run(index, dense);  // allocates
  expect_step(dense, 1);
  expect_step(sparse, 1);
  expect_step(dense, 1);
  expect_step(far, 3);
  expect_step(far, 1);
  expect_step(farther, 1);
  expect_step(dense, 1);
}

/// Without bounds there is a range of coordinates that every index has room for.
TEST_P(MapMethodTest, TheRangeWithoutBounds) {
  std::vector<int32_t> cluster;
  add_cluster(cluster, {-20, 30, -4}, 100, 2, kSeed);
  NetworkSpec fused = spec();
  fused.dataflow = MINUET_DATAFLOW_FUSED;
  network_ = network(fused);
  const std::vector<int64_t> capacities(5, 256);
  minuet_execution_options options = options_of(MINUET_MAPS_AUTO);
  options.level_capacity = capacities.data();
  options.level_count = 5;
  const Execution within = execution(&options);
  constexpr int32_t kLeast = -(1 << 20), kGreatest = (1 << 20) - 17;
  const std::pair<std::array<int32_t, 4>, bool> places[] = {{{0, kLeast, kLeast, kLeast}, true},
                                                            {{8191, kGreatest, kGreatest, kGreatest}, true},
                                                            {{8192, 0, 0, 0}, false},
                                                            {{0, 0, kLeast - 1, 0}, false},
                                                            {{0, 0, 0, kGreatest + 1}, false}};
  for (const auto& [place, is_inside] : places) {
    std::vector<int32_t> coordinates = cluster;
    coordinates.insert(coordinates.end(), place.begin(), place.end());
    const Buffer memory(machine(), coordinates);
    check(minuet_execution_prepare(within.get(), memory.integers(),
                                   static_cast<int64_t>(coordinates.size()) / 4, nullptr));
    uint32_t status = ~0u;
    std::vector<int32_t> counts(6);
    check(minuet_execution_read_cloud(within.get(), &status, counts.data(), 6, nullptr));
    EXPECT_EQ(status, is_inside ? 0u : uint32_t{MINUET_CLOUD_OUTSIDE_KEYS})
        << place[0] << ", " << place[2] << ", " << place[3];
    EXPECT_EQ(counts[1], is_inside ? static_cast<int32_t>(coordinates.size() / 4) : 0);
  }
}

/// Clouds that not even keys of their own bounds hold are refused, in exact mode with the reason.
TEST_P(MapMethodTest, CloudsThatNoKeyHolds) {
  const Execution index = by(MINUET_MAPS_INDEXED);
  std::vector<int32_t> coordinates;
  for (const int32_t sign : {-1, 1}) {
    coordinates.insert(coordinates.end(), {0, sign << 29, sign << 29, sign << 29});
  }
  expect_refused(index, coordinates, MINUET_OUT_OF_RANGE, "64-bit key");
}

TEST_P(MapMethodTest, NoBoundsChangeTheMethodInCapacityMode) {
  std::vector<int32_t> cluster;
  add_cluster(cluster, {-20, 30, -4}, 300, 2, kSeed);
  const Cloud cloud(cluster, dtype());
  NetworkSpec fused = spec();
  fused.dataflow = MINUET_DATAFLOW_FUSED;
  network_ = network(fused);
  const std::vector<int64_t> capacities(5, cloud.count() + 100);
  const auto within = [&](minuet_map_method method, int32_t greatest) {
    minuet_execution_options options = options_of(method);
    options.level_capacity = capacities.data();
    options.level_count = 5;
    options.has_bounds = greatest > 0;
    for (int f = 0; f < 4; ++f) {
      options.least[f] = f == 0 ? 0 : -greatest;
      options.greatest[f] = f == 0 ? 3 : greatest;
    }
    return execution(&options);
  };
  NetworkRun first;
  const std::pair<minuet_map_method, int32_t> cases[] = {{MINUET_MAPS_SORTED, 0},
                                                         {MINUET_MAPS_AUTO, 0},
                                                         {MINUET_MAPS_INDEXED, 60},
                                                         {MINUET_MAPS_INDEXED, 1 << 17},
                                                         {MINUET_MAPS_AUTO, 1 << 22}};
  for (const auto& [method, greatest] : cases) {
    const Execution execution = within(method, greatest);
    std::vector<char> rows(cloud.bytes.begin(), cloud.bytes.end());
    rows.resize(static_cast<size_t>(capacities[0] * 4 * dtype_bytes(dtype())));
    const Buffer coordinates(machine(), cloud.coordinates), features(machine(), rows);
    Buffer output(machine(), capacities[0] * kWidths.back() * dtype_bytes(dtype()));
    check(minuet_execution_prepare(execution.get(), coordinates.integers(), cloud.count(), nullptr));
    EXPECT_EQ(method_of(execution.get()),
              method == MINUET_MAPS_SORTED ? MINUET_MAPS_SORTED : MINUET_MAPS_INDEXED)
        << greatest;
    check(run_tensors(execution.get(), {tensor(features.data(), capacities[0], 4, abi_dtype(dtype()))},
                      tensor(output.data(), capacities[0], kWidths.back(), abi_dtype(dtype())), nullptr));
    uint32_t status = ~0u;
    check(minuet_execution_read_cloud(execution.get(), &status, nullptr, 0, nullptr));
    EXPECT_EQ(status, 0u);
    const NetworkRun run{capacities[0], kWidths.back(), output.read<char>(), {}};
    if (first.bytes.empty()) first = run;
    SCOPED_TRACE(greatest);
    expect_same(run, first);
  }
}

/// An index takes a launch for each of its passes and one for all maps, a sort some for each set and map.
TEST_P(MapMethodTest, AnIndexTakesFewLaunches) {
  const Cloud cloud = scene(500);
  const auto launches = [&](minuet_map_method method) {
    const Execution execution = by(method);
    run(execution, cloud);
    check(minuet_execution_reset_counters(execution.get()));
    run(execution, cloud);
    return counters_of(execution.get()).kernels;
  };
  const int64_t sorted = launches(MINUET_MAPS_SORTED), index = launches(MINUET_MAPS_INDEXED);
  if (machine().is_cpu()) {
    EXPECT_EQ(index, sorted);
  } else {
    // 5 sets by 4 launches and more, 9 maps by 4 and more; an index takes 6, and its search 1.
    EXPECT_LE(index, sorted - 5 * 4 - 9 * 4 + 7);
  }
}

TEST_P(MapMethodTest, OthersAreRefused) {
  const minuet_execution_options options = options_of(3);
  minuet_execution* none = nullptr;
  EXPECT_EQ(minuet_execution_create(network_.get(), machine().device(), &options, &none),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), testing::HasSubstr("map_method is 3; it must be 0 to 2"));
}

MINUET_INSTANTIATE_EXECUTION_TEST(MapMethodTest);

}  // namespace
}  // namespace minuet::abi
