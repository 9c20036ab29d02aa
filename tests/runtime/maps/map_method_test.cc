// Sets and maps by sorting and by the cells that are occupied: the same network output, bit by bit, and the
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
  /// The CPU has no index.
  minuet_map_method indexed() { return machine().is_cpu() ? MINUET_MAPS_SORTED : MINUET_MAPS_INDEXED; }
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
  Cloud with_far_point(const Cloud& cloud) {
    std::vector<int32_t> coordinates = cloud.coordinates;
    coordinates.insert(coordinates.end(), {0, 1 << 20, -(1 << 20), 5});
    return Cloud(coordinates, dtype());
  }
};

TEST_P(MapMethodTest, GiveTheSameBits) {
  const Execution sorted = by(MINUET_MAPS_SORTED), index = by(MINUET_MAPS_INDEXED);
  EXPECT_EQ(method_of(index.get()), MINUET_MAPS_AUTO) << "nothing is prepared";
  for (const int64_t voxels : {900, 30, 1500}) {
    const Cloud cloud = scene(voxels, kSeed + voxels);
    EXPECT_EQ(run(index, cloud), run(sorted, cloud)) << voxels;
    EXPECT_EQ(method_of(index.get()), indexed());
    EXPECT_EQ(method_of(sorted.get()), MINUET_MAPS_SORTED);
  }
  std::vector<int32_t> batches;
  for (const int32_t batch : {1, 2, 100}) add_cluster(batches, {-4, 3, -70}, 60, batch, kSeed + batch);
  for (const std::vector<int32_t>& coordinates :
       {batches, std::vector<int32_t>{5, 7, -13, 1000}, std::vector<int32_t>{}}) {
    const Cloud cloud(coordinates, dtype());
    EXPECT_EQ(run(index, cloud), run(sorted, cloud)) << coordinates.size();
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
  EXPECT_EQ(run(index, doubled), run(execution(&options), doubled));
}

/// A cloud of too many cells is sorted, at the price of a wait where the one before was not. So are those
/// that follow, until enough in a row could have had an index.
TEST_P(MapMethodTest, SparseCloudsAreSorted) {
  const Cloud dense = scene(500), sparse = with_far_point(dense);
  const Execution sorted = by(MINUET_MAPS_SORTED), index = by(MINUET_MAPS_INDEXED);
  const NetworkRun of_dense = run(sorted, dense), of_sparse = run(sorted, sparse);
  const auto expect_step = [&](bool is_dense, minuet_map_method method, int64_t waits) {
    check(minuet_execution_reset_counters(index.get()));
    EXPECT_EQ(run(index, is_dense ? dense : sparse), is_dense ? of_dense : of_sparse);
    EXPECT_EQ(method_of(index.get()), method);
    if (!machine().is_cpu()) {
      EXPECT_EQ(counters_of(index.get()).host_syncs, waits);
    }
  };
  run(index, dense);  // whose bounds are waited for
  expect_step(true, indexed(), 1);
  expect_step(false, MINUET_MAPS_SORTED, 2);
  expect_step(false, MINUET_MAPS_SORTED, 1);
  for (int i = 0; i < 16; ++i) expect_step(true, MINUET_MAPS_SORTED, 1);
  expect_step(true, indexed(), 1);
}

/// The same where its keys take no more bits, so that nothing else makes it be built anew.
TEST_P(MapMethodTest, SparseCloudsOfTheSameKeysAreSorted) {
  const auto cloud_to = [&](int32_t x) {
    std::vector<int32_t> coordinates{0, x, 0, 0};
    add_cluster(coordinates, {-4, -4, -4}, 200, 0, kSeed);
    return Cloud(coordinates, dtype());
  };
  const Cloud dense = cloud_to(10000), sparse = cloud_to(60000);  // 26 and 28 bits of 32
  const Execution sorted = by(MINUET_MAPS_SORTED), index = by(MINUET_MAPS_INDEXED);
  for (int repeat = 0; repeat < 2; ++repeat) EXPECT_EQ(run(index, dense), run(sorted, dense));
  EXPECT_EQ(method_of(index.get()), indexed());
  check(minuet_execution_reset_counters(index.get()));
  EXPECT_EQ(run(index, sparse), run(sorted, sparse));
  EXPECT_EQ(method_of(index.get()), MINUET_MAPS_SORTED);
  if (!machine().is_cpu()) {
    EXPECT_EQ(counters_of(index.get()).host_syncs, 2);
  }
}

TEST_P(MapMethodTest, DeclaredBoundsDecideInCapacityMode) {
  std::vector<int32_t> cluster;
  add_cluster(cluster, {-20, 30, -4}, 300, 2, kSeed);
  const Cloud cloud(cluster, dtype());
  NetworkSpec fused = spec();
  fused.dataflow = MINUET_DATAFLOW_FUSED;
  network_ = network(fused);
  const std::vector<int64_t> capacities(5, cloud.count() + 100);
  const auto within = [&](int32_t greatest) {
    minuet_execution_options options = options_of(MINUET_MAPS_INDEXED);
    options.level_capacity = capacities.data();
    options.level_count = 5;
    options.has_bounds = greatest > 0;
    options.key_bits = greatest > 0 ? 0 : 64;
    for (int f = 0; f < 4; ++f) {
      options.least[f] = f == 0 ? 0 : -greatest;
      options.greatest[f] = f == 0 ? 3 : greatest;
    }
    return execution(&options);
  };
  std::vector<char> first;
  const std::pair<int32_t, minuet_map_method> cases[] = {
      {60, indexed()}, {1 << 17, MINUET_MAPS_SORTED}, {0, MINUET_MAPS_SORTED}};
  for (const auto& [greatest, method] : cases) {
    const Execution execution = within(greatest);
    std::vector<char> rows(cloud.bytes.begin(), cloud.bytes.end());
    rows.resize(static_cast<size_t>(capacities[0] * 4 * dtype_bytes(dtype())));
    const Buffer coordinates(machine(), cloud.coordinates), features(machine(), rows);
    Buffer output(machine(), capacities[0] * kWidths.back() * dtype_bytes(dtype()));
    check(minuet_execution_prepare(execution.get(), coordinates.integers(), cloud.count(), nullptr));
    EXPECT_EQ(method_of(execution.get()), method) << greatest;
    check(run_tensors(execution.get(), {tensor(features.data(), capacities[0], 4, abi_dtype(dtype()))},
                      tensor(output.data(), capacities[0], kWidths.back(), abi_dtype(dtype())), nullptr));
    uint32_t status = ~0u;
    check(minuet_execution_read_cloud(execution.get(), nullptr, &status, nullptr, 0));
    EXPECT_EQ(status, 0u);
    const std::vector<char> bytes = output.read<char>();
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first) << greatest;
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
    // 5 sets by 4 launches and more, 9 maps by 4 and more; 7 of an index.
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
