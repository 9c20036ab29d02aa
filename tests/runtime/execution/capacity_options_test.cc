// Capacity mode with what else an execution may be given: a queue, a workspace, duplicates; and networks
// whose levels are not those of the usual one.
#include <climits>
#include <functional>

#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/capacity_fixture.h"
#include "tests/support/by_hand.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

class CapacityOptionsTest : public CapacityTest {};

/// A kernel of one offset between two levels has a map of its own, down and up.
TEST_P(CapacityOptionsTest, OneOffsetBetweenLevels) {
  expect_as_exact(R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [
      {"op": "block", "name": "a", "width": 0, "kernel_size": 3, "save": "s"},
      {"op": "block", "name": "b", "width": 0, "kernel_size": 1, "stride": 2},
      {"op": "up", "name": "c", "width": 0, "kernel_size": 1, "stride": 2, "onto": "s"}]})");
}

/// Convolutions with and without bias, norm and activation, in blocks whose shortcut has a stride.
TEST_P(CapacityOptionsTest, EveryFieldOfALayer) {
  expect_as_exact(R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8, 24], "layers": [
      {"op": "block", "name": "a", "width": 1, "kernel_size": 3, "norm": "none", "bias": true},
      {"op": "residual", "name": "b", "width": 0, "activation": "leaky_relu", "slope": 0.125, "bias": true,
       "shortcut": {"norm": "none", "bias": false}},
      {"op": "bottleneck", "name": "c", "width": 1, "inner_width": 0, "stride": 2, "activation": "none",
       "conv2": {"activation": "leaky_relu", "affine": false}},
      {"op": "block", "name": "d", "width": 0, "norm": "none", "activation": "none"}]})");
}

/// Rows in the same order as in exact mode.
TEST_P(CapacityOptionsTest, AnOutputOnACoarserLevel) {
  expect_as_exact(R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [
      {"op": "block", "name": "a", "width": 0, "kernel_size": 3},
      {"op": "block", "name": "b", "width": 0, "kernel_size": 2, "stride": 2},
      {"op": "block", "name": "c", "width": 0, "kernel_size": 3}]})");
}

TEST_P(CapacityOptionsTest, AConcatenationOnACoarserLevel) {
  expect_as_exact(R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8, 4], "layers": [
      {"op": "block", "name": "a", "width": 0, "kernel_size": 3},
      {"op": "block", "name": "b", "width": 1, "kernel_size": 2, "stride": 2, "save": "b"},
      {"op": "block", "name": "c", "width": 1, "kernel_size": 3}, {"op": "concat", "with": "b"}]})");
}

TEST_P(CapacityOptionsTest, TheFirstOfDuplicatesIsKept) {
  const Cloud unique = scene(300);
  Cloud doubled = unique;
  for (const int64_t row : {int64_t{0}, int64_t{7}, unique.count() - 1}) {
    for (int64_t i = 4 * row; i < 4 * row + 4; ++i) {
      doubled.coordinates.push_back(unique.coordinates[static_cast<size_t>(i)]);
      doubled.features.push_back(100);  // must not be seen
    }
  }
  doubled.bytes = encode(dtype(), doubled.features);
  const Capacities capacities = suggested(unique);
  minuet_execution_options options = options_of(capacities);
  options.keep_first_duplicate = 1;
  const Execution keeping = execution(&options);
  Room room(machine(), capacities[0], dtype());
  room.fill(doubled);
  enqueue(keeping.get(), room, nullptr);
  const std::vector<float> output = decode(dtype(), room.output.read<char>());
  std::vector<int32_t> counts;
  EXPECT_EQ(status_of(keeping.get(), &counts), 0u);
  EXPECT_EQ(counts[0], doubled.count());
  EXPECT_EQ(counts[1], unique.count());
  const auto row = [&](int64_t number) {
    const auto first = output.begin() + number * kWidths.back();
    return std::vector<float>(first, first + kWidths.back());
  };
  EXPECT_EQ(row(unique.count()), row(0)) << "a duplicate's row is that of the first";
  EXPECT_EQ(row(unique.count() + 1), row(7));
  EXPECT_EQ(row(unique.count() + 2), row(unique.count() - 1));
  EXPECT_EQ(row(doubled.count()), std::vector<float>(kWidths.back(), 0));
  put_zeros(room, unique.count(), doubled.count());
  expect_padded_oracle(room, unique);
}

/// Clouds around the step of capacities, and clouds whose rows repeat others so that there are more rows than
/// voxels: an execution with the capacities that are suggested for a cloud prepares that cloud.
TEST_P(CapacityOptionsTest, WhatIsSuggestedForACloudHoldsIt) {
  const Plan plan = fused_plan(R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [
      {"op": "block", "name": "a", "width": 0, "kernel_size": 3, "save": "s"},
      {"op": "block", "name": "b", "width": 0, "kernel_size": 1, "stride": 2},
      {"op": "up", "name": "c", "width": 0, "kernel_size": 1, "stride": 2, "onto": "s"}]})");
  const auto steps_for = [](int64_t rows) { return std::max<int64_t>((rows + 255) / 256, 1) * 256; };
  for (const auto& [voxels, copies] :
       {std::pair{0, 1}, {1, 1}, {1, 300}, {255, 1}, {256, 1}, {256, 2}, {257, 1}, {100, 6}}) {
    SCOPED_TRACE(testing::Message() << voxels << " voxels, each " << copies << " times");
    std::vector<int32_t> coordinates;
    for (int32_t copy = 0; copy < copies; ++copy) {
      // Apart from one another, so that the coarser level has as many voxels.
      for (int32_t i = 0; i < voxels; ++i) coordinates.insert(coordinates.end(), {0, 2 * i, 2 * (i % 7), -4});
    }
    for (const bool keeps_duplicates : {false, true}) {
      if (copies > 1 && !keeps_duplicates) continue;
      const Cloud cloud(coordinates, dtype());
      EXPECT_EQ(expect_as_exact(plan.get(), cloud, keeps_duplicates),
                (Capacities{steps_for(cloud.count()), steps_for(voxels)}));
    }
  }
}

/// A stride of 3 floors the least coordinate to one below it. Without bounds it is outside the range of an
/// index.
TEST_P(CapacityOptionsTest, CoarserCoordinatesThatLeave32Bits) {
  const Plan plan = fused_plan(R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [
      {"op": "block", "name": "a", "width": 0, "kernel_size": 3, "save": "s"},
      {"op": "block", "name": "b", "width": 0, "kernel_size": 3, "stride": 3},
      {"op": "up", "name": "c", "width": 0, "kernel_size": 3, "stride": 3, "onto": "s"}]})");
  const Capacities capacities{256, 256};
  minuet_execution_options options = options_of(capacities);
  options.map_method = MINUET_MAPS_SORTED;
  const Execution sorted = make_execution(machine(), plan.get(), &options);
  options.map_method = MINUET_MAPS_INDEXED;
  const Execution indexed = make_execution(machine(), plan.get(), &options);
  Room room(machine(), capacities[0], dtype());
  const Buffer output(machine(), capacities[0] * 8 * dtype_bytes(dtype()));
  const struct {
    minuet_execution* execution;
    int32_t least;
    uint32_t status;
  } cases[] = {{sorted.get(), INT_MIN, MINUET_CLOUD_TOO_FAR},
               {sorted.get(), -7, 0},
               {indexed.get(), INT_MIN, MINUET_CLOUD_OUTSIDE_KEYS},
               {indexed.get(), -7, 0}};
  for (const auto& [execution, least, expected] : cases) {
    room.fill(Cloud({0, least, 1, 2, 0, least + 1, 1, 2}, dtype()), 2);
    check(minuet_execution_prepare_on_device(execution, room.coordinates.integers(), room.count.integers(),
                                             nullptr));
    check(run_tensors(execution, {features_of(room.features.data(), room.capacity)},
                      tensor(output.data(), room.capacity, 8, abi_dtype(dtype()))));
    const std::vector<float> values = decode(dtype(), output.read<char>());
    const bool is_zero = std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
    EXPECT_EQ(is_zero, expected != 0) << least;
    uint32_t status = ~0u;
    check(minuet_execution_read_cloud(execution, &status, nullptr, 0, nullptr));
    EXPECT_EQ(status, expected);
  }
  // Bounds that begin there are refused before there is any cloud.
  options.has_bounds = 1;
  options.key_bits = 0;
  options.least[1] = INT_MIN;
  minuet_execution* none = nullptr;
  EXPECT_EQ(minuet_execution_create(plan.get(), machine().device(), &options, &none), MINUET_OUT_OF_RANGE);
  EXPECT_THAT(last_error(), HasSubstr("32 bits"));
}

/// Two executions that share a queue's scratch, cloud by cloud in turn.
TEST_P(CapacityOptionsTest, WithAQueue) {
  const Stream stream(machine());
  const Queue queue = make_queue(machine(), stream.get());
  const Capacities capacities = suggested(scene(400));
  minuet_execution_options options = options_of(capacities);
  options.queue = queue.get();
  const Execution executions[] = {execution(&options), execution(&options)};
  Room rooms[] = {{machine(), capacities[0], dtype()}, {machine(), capacities[0], dtype()}};
  for (uint64_t repeat = 0; repeat < 2; ++repeat) {
    const Cloud clouds[] = {scene(400, kSeed + repeat), scene(100, kSeed + 5 + repeat)};
    for (int i = 0; i < 2; ++i) {
      check(minuet_execution_reset_counters(executions[i].get()));
      rooms[i].fill(clouds[i]);
    }
    for (int i = 0; i < 2; ++i) enqueue(executions[i].get(), rooms[i], stream.get());
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(counters_of(executions[i].get()).host_syncs, 0);
      EXPECT_EQ(counters_of(executions[i].get()).allocations, 0);
      EXPECT_EQ(status_of(executions[i].get(), nullptr, stream.get()), 0u);
      expect_padded_oracle(rooms[i], clouds[i]);
    }
  }
  int odd = 0;
  EXPECT_EQ(minuet_execution_prepare_on_device(executions[0].get(), rooms[0].coordinates.integers(),
                                               rooms[0].count.integers(), &odd),
            MINUET_INVALID_ARGUMENT);
}

/// What is needed is known when the execution is made, which says so.
TEST_P(CapacityOptionsTest, InTheCallersWorkspace) {
  const Capacities capacities = suggested(scene(400));
  minuet_execution_options options = options_of(capacities);
  const Buffer workspace(machine(), counters_of(execution(&options).get()).workspace_bytes);
  options.workspace = workspace.data();
  options.workspace_bytes = workspace.bytes();
  const Execution execution = this->execution(&options);
  Room room(machine(), capacities[0], dtype());
  for (const int64_t voxels : {400, 30}) {
    const Cloud cloud = scene(voxels);
    room.fill(cloud);
    enqueue(execution.get(), room, nullptr);
    expect_padded_oracle(room, cloud);
  }
  for (const int64_t bytes : {int64_t{256}, workspace.bytes() / 2 / 256 * 256}) {
    options.workspace_bytes = bytes;
    minuet_execution* none = nullptr;
    EXPECT_EQ(minuet_execution_create(network_.get(), machine().device(), &options, &none),
              MINUET_RESOURCE_EXHAUSTED);
    EXPECT_EQ(none, nullptr);
    EXPECT_THAT(last_error(), HasSubstr("bytes"));
  }
}

/// A prepare that fails leaves the execution unprepared, so that no call gives the rows of the cloud before.
TEST_P(CapacityOptionsTest, AFailedPrepareLeavesNothingPrepared) {
  const Cloud cloud = scene(60);
  const Capacities capacities = suggested(cloud);
  const Execution execution = within(capacities);
  minuet_execution* const given = execution.get();
  Room room(machine(), capacities[0], dtype());
  room.fill(cloud);
  const int32_t* const where = room.coordinates.integers();
  const int32_t* const count = room.count.integers();
  const auto misaligned = [](const int32_t* words) {
    return reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(words) + 1);
  };
  const Buffer coordinates(machine(), capacities[0] * 16);
  const std::vector<std::pair<const char*, std::function<minuet_status()>>> failures = {
      {"more coordinates than the capacity",
       [&] { return minuet_execution_prepare(given, where, capacities[0] + 1, nullptr); }},
      {"a negative count", [&] { return minuet_execution_prepare(given, where, -1, nullptr); }},
      {"no coordinates", [&] { return minuet_execution_prepare(given, nullptr, 1, nullptr); }},
      {"misaligned coordinates",
       [&] { return minuet_execution_prepare(given, misaligned(where), 1, nullptr); }},
      {"no coordinates beside a count on the device",
       [&] { return minuet_execution_prepare_on_device(given, nullptr, count, nullptr); }},
      {"no count on the device",
       [&] { return minuet_execution_prepare_on_device(given, where, nullptr, nullptr); }},
      {"a misaligned count on the device",
       [&] { return minuet_execution_prepare_on_device(given, where, misaligned(count), nullptr); }}};
  for (const auto& [what, fails] : failures) {
    SCOPED_TRACE(what);
    enqueue(given, room, nullptr);
    EXPECT_NE(fails(), MINUET_OK);
    int64_t rows = 0;
    int32_t channels = 0;
    EXPECT_EQ(minuet_execution_output_shape(given, &rows, &channels), MINUET_FAILED_PRECONDITION);
    EXPECT_EQ(minuet_execution_output_coordinates(given, static_cast<int32_t*>(coordinates.data()), nullptr),
              MINUET_FAILED_PRECONDITION);
    EXPECT_EQ(run_tensors(given, {features_of(room.features.data(), room.capacity)},
                          tensor(room.output.data(), room.capacity, kWidths.back(), abi_dtype(dtype()))),
              MINUET_FAILED_PRECONDITION);
  }
  enqueue(given, room, nullptr);
  expect_padded_oracle(room, cloud);
}

MINUET_INSTANTIATE_EXECUTION_TEST(CapacityOptionsTest);

}  // namespace
}  // namespace minuet::abi
