// Networks whose levels are in an index of voxels (kernels_templates/shared/voxel_index.h): on clouds that
// are hard for it, against the sorted road; clouds of many sizes, and capacities that are one too small;
// through the C ABI, on every device.
#include <string>

#include "tests/runtime/maps/index_network_fixture.h"

namespace minuet::abi {
namespace {

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
         R"(, "in_channels": 8, "channels": [8], "layers": [)" + pool("a", 2, one) + ", " +
         pool("b", 2, {2, 2, 2, 2}) + ", " + pool("c", 3, one) + ", " + pool("d", 3, {3, 1, 5, 1}) + ", " +
         pool("e", 2, one) + "]}";
}

class IndexedNetworkTest : public IndexedNetworks {
 protected:
  Plan network(int ndim) {
    NetworkSpec spec{"", {}, DType::F32, "", 7, describe_sums(ndim)};
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    return make_network(machine(), spec);
  }
  /// So few that the sums of all layers are exact.
  uint64_t feature_values() const override { return 4; }
};

TEST_P(IndexedNetworkTest, GiveTheOutputsOfTheSortedRoad) {
  for (int ndim = 1; ndim <= 4; ++ndim) {
    const Plan plan = network(ndim);
    const Execution index = by(plan.get(), MINUET_MAPS_INDEXED), sorted = by(plan.get(), MINUET_MAPS_SORTED);
    for (const auto& [name, points] : make_clouds(ndim, /*sorts=*/true)) {
      SCOPED_TRACE(std::to_string(ndim) + " axes, " + name);
      const NetworkRun found = run(index, points, ndim), expected = run(sorted, points, ndim);
      EXPECT_EQ(rows_of(plan.get(), index), rows_of(plan.get(), sorted));
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

TEST_P(IndexedNetworkTest, PreparesOfManySizesInCapacityMode) {
  const Plan plan = network(3);
  const Execution exact = by(plan.get(), MINUET_MAPS_INDEXED);
  for (const auto& [name, points] : make_clouds(3)) {
    SCOPED_TRACE(name);
    if (points.size() < 4 * 21) continue;
    run(exact, points, 3);
    const std::vector<int64_t> capacities = rows_of(plan.get(), exact);
    const Execution within = by(plan.get(), MINUET_MAPS_INDEXED, capacities);
    Room room(machine(), capacities);
    for (const Points& part : make_parts(points)) {
      SCOPED_TRACE(std::to_string(part.size() / 4) + " points");
      const NetworkRun expected = run(exact, part, 3);
      fill(room, part);
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
    const std::vector<int64_t> enough = rows_of(plan.get(), exact);
    for (int level = -1; level < kNetworkLevels; ++level) {
      SCOPED_TRACE(level);
      std::vector<int64_t> capacities = enough;
      if (level >= 0) --capacities[static_cast<size_t>(level)];
      const Execution within = by(plan.get(), MINUET_MAPS_INDEXED, capacities);
      Room room(machine(), capacities);
      for (int repeat = 0; repeat < 2; ++repeat) {
        fill(room, points);
        enqueue(within, room);
        if (level < 0) {
          expect_output(within, room, 0, of_all);
        } else {
          expect_output(within, room, MINUET_CLOUD_PAST_CAPACITY, {});
        }
        fill(room, part);
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
  const std::vector<int64_t> capacities = rows_of(plan.get(), exact);
  const Execution within = by(plan.get(), MINUET_MAPS_INDEXED, capacities);
  Room room(machine(), capacities);
  const Stream stream(machine());
  fill(room, points);
  const CapturedGraph graph(stream.get(), [&] { enqueue(within, room, stream.get()); });
  ASSERT_TRUE(graph.whole());
  for (const Points& part : make_parts(points)) {
    SCOPED_TRACE(std::to_string(part.size() / 4) + " points");
    const NetworkRun expected = run(exact, part, 3);
    fill(room, part);
    ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
    expect_output(within, room, 0, expected, stream.get());
    for (const auto& [other, status] : {std::pair{&larger, uint32_t{MINUET_CLOUD_PAST_CAPACITY}},
                                        {&far, uint32_t{MINUET_CLOUD_OUTSIDE_KEYS}}}) {
      fill(room, *other);
      ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
      expect_output(within, room, status, {}, stream.get());
    }
  }
}

MINUET_INSTANTIATE_SETS_TEST(IndexedNetworkTest);

}  // namespace
}  // namespace minuet::abi
