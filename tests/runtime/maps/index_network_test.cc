// Networks whose levels are in an index of voxels (kernels_templates/shared/voxel_index.h): on clouds that
// are hard for it, against the sorted road; clouds of many sizes, and capacities that are one too small;
// through the C ABI, on every device.
#include <algorithm>
#include <string>

#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/maps/index_clouds.h"
#include "tests/support/by_hand.h"
#include "tests/support/network_abi.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

using oracle::Axes;

constexpr int kNetworkLevels = 3;

/// Sums of whole numbers, which are exact in any order, over every map of three levels. The output is on the
/// last one.
std::string describe_sums(int ndim) {
  const auto pool = [&](const char* name, int32_t size, const Axes& stride) {
    std::string sizes, strides;
    for (int a = 0; a < ndim; ++a) {
      sizes += (a ? ", " : "") + std::to_string(size);
      strides += (a ? ", " : "") + std::to_string(stride[a]);
    }
    return std::string(R"({"op": "sum_pool", "name": ")") + name + R"(", "kernel_size": [)" + sizes +
           R"(], "stride": [)" + strides + "]}";
  };
  const Axes one{1, 1, 1, 1};
  return R"({"name": "sums", "ndim": )" + std::to_string(ndim) +
         R"(, "in_channels": 4, "channels": [4], "layers": [)" + pool("a", 2, one) + ", " +
         pool("b", 2, {2, 2, 2, 2}) + ", " + pool("c", 3, one) + ", " + pool("d", 3, {3, 1, 5, 1}) + ", " +
         pool("e", 2, one) + "]}";
}

class IndexedNetworkTest : public SetsOnDevice {
 protected:
  static constexpr int64_t kChannels = 4;

  Plan network(int ndim) {
    NetworkSpec spec{"", {}, DType::F32, "", 7, describe_sums(ndim)};
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    return make_network(machine(), spec);
  }
  static std::vector<float> features_of(int64_t count) {
    Random random(65);
    std::vector<float> features(static_cast<size_t>(count * kChannels));
    for (float& value : features) value = static_cast<float>(random.below(4));
    return features;
  }
  Execution by(minuet_plan* plan, minuet_map_method method, const std::vector<int64_t>& capacities = {}) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.map_method = method;
    if (!capacities.empty()) {
      options.level_capacity = capacities.data();
      options.level_count = static_cast<int32_t>(capacities.size());
    }
    return make_execution(machine(), plan, &options);
  }
  NetworkRun run(const Execution& execution, const Points& points, int ndim) {
    const auto count = static_cast<int64_t>(points.size()) / (1 + ndim);
    return run_network(machine(), execution.get(), points, encode(DType::F32, features_of(count)), DType::F32,
                       ndim, kChannels);
  }
  /// The rows of each level in what an execution has prepared.
  std::vector<int64_t> rows_of(const Execution& execution) {
    std::vector<int64_t> rows;
    for (int32_t l = 0; l < kNetworkLevels; ++l) {
      minuet_level_info info{};
      info.struct_size = sizeof(info);
      check(minuet_execution_query_level(execution.get(), l, &info));
      rows.push_back(info.voxels);
    }
    return rows;
  }

  /// Device memory of clouds with three axes for one execution in capacity mode.
  struct Room {
    Room(Machine& machine, int64_t in_rows, int64_t out_rows)
        : coordinates(machine, in_rows * 16),
          features(machine, in_rows * kChannels * 4),
          output(machine, out_rows * kChannels * 4),
          places(machine, out_rows * 16),
          count(machine, 4),
          in_rows(in_rows),
          out_rows(out_rows) {}
    void fill(Machine& machine, const Points& points) {
      const auto put = [&](const Buffer& target, const void* values, size_t bytes) {
        if (bytes > 0)
          check(minuet_device_copy(machine.device(), target.data(), values, static_cast<int64_t>(bytes), 0));
      };
      coordinates.poison(), features.poison(), output.poison();
      const auto said = static_cast<int32_t>(points.size() / 4);
      const int64_t rows = std::min<int64_t>(said, in_rows);
      put(coordinates, points.data(), static_cast<size_t>(rows * 16));
      put(features, features_of(rows).data(), static_cast<size_t>(rows * kChannels * 4));
      put(count, &said, 4);
    }
    Buffer coordinates, features, output, places, count;
    int64_t in_rows, out_rows;
  };
  static void enqueue(const Execution& execution, const Room& room, void* stream = nullptr) {
    check(minuet_execution_prepare_on_device(execution.get(), room.coordinates.integers(),
                                             room.count.integers(), stream));
    check(run_tensors(execution.get(), {tensor(room.features, room.in_rows, kChannels, DType::F32)},
                      tensor(room.output, room.out_rows, kChannels, DType::F32), stream));
    check(minuet_execution_output_coordinates(execution.get(), static_cast<int32_t*>(room.places.data()),
                                              stream));
  }
  /// Expects the status and the rows of each level, and the output of `expected`, with zeros behind its rows.
  void expect_output(const Execution& execution, const Room& room, uint32_t status,
                     const NetworkRun& expected, void* stream = nullptr) {
    uint32_t found = ~0u;
    std::vector<int32_t> counts(1 + kNetworkLevels);
    check(minuet_execution_read_cloud(execution.get(), stream, &found, counts.data(), 1 + kNetworkLevels));
    EXPECT_EQ(found, status);
    EXPECT_EQ(counts.back(), expected.rows);
    std::vector<char> bytes = expected.bytes;
    bytes.resize(static_cast<size_t>(room.output.bytes()));
    EXPECT_TRUE(room.output.read<char>() == bytes);
    Points places = expected.coordinates;
    places.resize(static_cast<size_t>(room.out_rows * 4));
    EXPECT_TRUE(room.places.read<int32_t>() == places);
  }
};

TEST_P(IndexedNetworkTest, GiveTheOutputsOfTheSortedRoad) {
  for (int ndim = 1; ndim <= 4; ++ndim) {
    const Plan plan = network(ndim);
    const Execution index = by(plan.get(), MINUET_MAPS_INDEXED), sorted = by(plan.get(), MINUET_MAPS_SORTED);
    for (const auto& [name, points] : make_clouds(ndim, /*sorts=*/true)) {
      SCOPED_TRACE(std::to_string(ndim) + " axes, " + name);
      const NetworkRun found = run(index, points, ndim), expected = run(sorted, points, ndim);
      EXPECT_EQ(rows_of(index), rows_of(sorted));
      EXPECT_EQ(ascending(expected.coordinates, ndim), expected.coordinates);
      EXPECT_EQ(ascending(found, ndim), expected);
    }
  }
}

/// The table of an execution is used for cloud after cloud, and has more slots after a larger one.
TEST_P(IndexedNetworkTest, TheOrderOfRowsDependsOnNoEarlierCloud) {
  const Plan plan = network(3);
  const Execution used = by(plan.get(), MINUET_MAPS_INDEXED);
  run(used, make_random(3, 3000, 66), 3);
  for (const auto& [name, points] : make_clouds(3)) {
    SCOPED_TRACE(name);
    const NetworkRun expected = run(by(plan.get(), MINUET_MAPS_INDEXED), points, 3);
    EXPECT_EQ(run(used, points, 3), expected);
    EXPECT_EQ(run(used, points, 3), expected) << "again";
  }
}

/// The clouds of a repeated or replayed prepare: all of a cloud, less and less of it, nothing, and all of it
/// again.
std::vector<Points> make_parts(const Points& points) {
  std::vector<Points> parts;
  const size_t count = points.size() / 4;
  for (const size_t rows : {count, count / 3, size_t{7}, size_t{0}, count}) {
    parts.emplace_back(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(4 * rows));
  }
  return parts;
}

TEST_P(IndexedNetworkTest, PreparesOfManySizesInCapacityMode) {
  const Plan plan = network(3);
  const Execution exact = by(plan.get(), MINUET_MAPS_INDEXED);
  for (const auto& [name, points] : make_clouds(3)) {
    SCOPED_TRACE(name);
    if (points.size() < 4 * 21) continue;
    run(exact, points, 3);
    const std::vector<int64_t> capacities = rows_of(exact);
    const Execution within = by(plan.get(), MINUET_MAPS_INDEXED, capacities);
    Room room(machine(), capacities.front(), capacities.back());
    for (const Points& part : make_parts(points)) {
      SCOPED_TRACE(std::to_string(part.size() / 4) + " points");
      const NetworkRun expected = run(exact, part, 3);
      room.fill(machine(), part);
      enqueue(within, room);
      expect_output(within, room, 0, expected);
    }
  }
}

/// A level, its blocks or the cloud has one more than there is room for: a bit of the status, zeros, and the
/// next cloud is right again. Voxels that lie apart have a block each.
TEST_P(IndexedNetworkTest, EachCapacityOneShort) {
  Points apart;
  for (int32_t i = 0; i < 100; ++i) apart.insert(apart.end(), {0, 40 * i, -90 * i, 60 * (i % 7)});
  const Plan plan = network(3);
  const Execution exact = by(plan.get(), MINUET_MAPS_INDEXED);
  for (const Points& points : {make_cube(3), apart}) {
    const Points part(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(points.size() / 8 * 4));
    const NetworkRun of_part = run(exact, part, 3), of_all = run(exact, points, 3);
    const std::vector<int64_t> enough = rows_of(exact);
    for (int level = -1; level < kNetworkLevels; ++level) {
      SCOPED_TRACE(level);
      std::vector<int64_t> capacities = enough;
      if (level >= 0) --capacities[static_cast<size_t>(level)];
      const Execution within = by(plan.get(), MINUET_MAPS_INDEXED, capacities);
      Room room(machine(), capacities.front(), capacities.back());
      for (int repeat = 0; repeat < 2; ++repeat) {
        room.fill(machine(), points);
        enqueue(within, room);
        if (level < 0) {
          expect_output(within, room, 0, of_all);
        } else {
          expect_output(within, room, MINUET_CLOUD_PAST_CAPACITY, {});
        }
        room.fill(machine(), part);
        enqueue(within, room);
        expect_output(within, room, 0, of_part);
      }
    }
  }
}

/// One graph for clouds of many sizes, some of which do not fit.
TEST_P(IndexedNetworkTest, ReplaysOfManySizes) {
  if (machine().is_cpu()) return;  // nothing is captured there
  const Plan plan = network(3);
  const Execution exact = by(plan.get(), MINUET_MAPS_INDEXED);
  const Points points = make_random(3, 300, 67), larger = make_random(3, 600, 68);
  Points far = points;
  far[4 * 5 + 2] = 1 << 20;
  run(exact, points, 3);
  const std::vector<int64_t> capacities = rows_of(exact);
  const Execution within = by(plan.get(), MINUET_MAPS_INDEXED, capacities);
  Room room(machine(), capacities.front(), capacities.back());
  const Stream stream(machine());
  room.fill(machine(), points);
  const CapturedGraph graph(stream.get(), [&] { enqueue(within, room, stream.get()); });
  ASSERT_TRUE(graph.whole());
  for (const Points& part : make_parts(points)) {
    SCOPED_TRACE(std::to_string(part.size() / 4) + " points");
    const NetworkRun expected = run(exact, part, 3);
    room.fill(machine(), part);
    ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
    expect_output(within, room, 0, expected, stream.get());
    for (const auto& [other, status] : {std::pair{&larger, uint32_t{MINUET_CLOUD_PAST_CAPACITY}},
                                        {&far, uint32_t{MINUET_CLOUD_OUTSIDE_KEYS}}}) {
      room.fill(machine(), *other);
      ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
      expect_output(within, room, status, {}, stream.get());
    }
  }
}

MINUET_INSTANTIATE_SETS_TEST(IndexedNetworkTest);

}  // namespace
}  // namespace minuet::abi
