// What tests of capacity mode share: clouds in memory as large as the capacities allow, and what comes out.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/execution_fixture.h"

namespace minuet::abi {

inline constexpr int32_t kLevels = 5;

/// Capacities as an array that the options may point into.
using Capacities = std::vector<int64_t>;

class CapacityTest : public ExecutionTest {
 protected:
  NetworkSpec spec() const override {
    NetworkSpec fused = ExecutionTest::spec();
    fused.dataflow = MINUET_DATAFLOW_FUSED;
    return fused;
  }

  Capacities suggested(const Cloud& cloud, double factor = 1.25) {
    const Execution exact = execution();
    run(exact, cloud);
    Capacities capacities(kLevels);
    check(minuet_execution_suggest_capacities(exact.get(), factor, capacities.data(), kLevels));
    return capacities;
  }
  static minuet_execution_options options_of(const Capacities& capacities, int32_t key_bits = 64) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.level_capacity = capacities.data();
    options.level_count = static_cast<int32_t>(capacities.size());
    options.key_bits = key_bits;
    return options;
  }
  Execution within(const Capacities& capacities, int32_t key_bits = 64,
                   minuet_map_method method = tested_maps()) {
    minuet_execution_options options = options_of(capacities, key_bits);
    options.map_method = method;
    return execution(&options);
  }

  /// Device memory of one execution's clouds, each as large as its capacity allows.
  struct Room {
    Room(Machine& machine, int64_t capacity, DType dtype)
        : capacity(capacity),
          dtype(dtype),
          machine(machine),
          coordinates(machine, capacity * 16),
          features(machine, capacity * 4 * dtype_bytes(dtype)),
          output(machine, capacity * kWidths.back() * dtype_bytes(dtype)),
          count(machine, 4) {}
    void fill(const Cloud& cloud) { fill(cloud, static_cast<int32_t>(cloud.count())); }
    /// All of it is poison but what the cloud has.
    void fill(const Cloud& cloud, int32_t said) {
      coordinates.poison(), features.poison(), output.poison();
      const int64_t rows = std::min(cloud.count(), capacity);
      put(coordinates, cloud.coordinates.data(), rows * 16);
      put(features, cloud.bytes.data(), rows * 4 * dtype_bytes(dtype));
      put(count, &said, 4);
    }
    void put(const Buffer& target, const void* values, int64_t bytes) {
      if (bytes > 0) check(minuet_device_copy(machine.device(), target.data(), values, bytes, 0));
    }
    int64_t capacity;
    DType dtype;
    Machine& machine;
    Buffer coordinates, features, output, count;
  };

  void enqueue(minuet_execution* execution, Room& room, void* stream) {
    check(minuet_execution_prepare_on_device(execution, room.coordinates.integers(), room.count.integers(),
                                             stream));
    check(run_tensors(execution, {features_of(room.features.data(), room.capacity)},
                      tensor(room.output.data(), room.capacity, kWidths.back(), abi_dtype(dtype())), stream));
  }
  uint32_t status_of(minuet_execution* execution, std::vector<int32_t>* counts = nullptr,
                     void* stream = nullptr) {
    uint32_t status = ~0u;
    std::vector<int32_t> found(1 + kLevels);
    check(minuet_execution_read_cloud(execution, &status, found.data(), 1 + kLevels, stream));
    if (counts) *counts = found;
    return status;
  }

  /// The output's first rows are the oracle's, and all others zeros.
  void expect_padded_oracle(const Room& room, const Cloud& cloud) {
    const std::vector<float> output = decode(dtype(), room.output.read<char>());
    const size_t values = static_cast<size_t>(cloud.count()) * static_cast<size_t>(kWidths.back());
    if (cloud.count() > 0) {
      const oracle::NetworkOutput expected =
          oracle::minkunet42(weights().parameters, kWidths, cloud.coordinates, cloud.features);
      EXPECT_TRUE(is_close({output.begin(), output.begin() + static_cast<std::ptrdiff_t>(values)},
                           expected.features, kWidths.back(), error_bound(dtype(), true)));
    }
    EXPECT_TRUE(std::all_of(output.begin() + static_cast<std::ptrdiff_t>(values), output.end(),
                            [](float value) { return value == 0; }))
        << "rows past the count are zeros";
  }
  /// Replays a graph of the room's prepare and run for this cloud.
  void expect_replay(const CapturedGraph& graph, const Stream& stream, Room& room, const Cloud& cloud) {
    room.fill(cloud);
    ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
    check(minuet_device_synchronize(machine().device(), stream.get()));
    expect_padded_oracle(room, cloud);
  }
  /// In place of the output's rows [first, end).
  void put_zeros(Room& room, int64_t first, int64_t end) {
    std::vector<char> bytes = room.output.read<char>();
    const int64_t row = kWidths.back() * dtype_bytes(dtype());
    std::fill(bytes.begin() + first * row, bytes.begin() + end * row, '\0');
    room.put(room.output, bytes.data(), room.output.bytes());
  }

  Plan fused_plan(const std::string& description) {
    NetworkSpec narrow{"", {}, dtype(), "", 7, description};
    narrow.dataflow = MINUET_DATAFLOW_FUSED;
    return make_network(machine(), narrow);
  }
  /// One cloud through a network of two levels and 8 output channels, by the capacities that are suggested
  /// for it: features and coordinates as in exact mode, zeros behind them. Gives the capacities.
  Capacities expect_as_exact(minuet_plan* plan, const Cloud& cloud, bool keeps_duplicates = false) {
    minuet_execution_options exactly = MINUET_EXECUTION_OPTIONS_INIT;
    exactly.keep_first_duplicate = keeps_duplicates;
    const Execution exact = make_execution(machine(), plan, &exactly);
    const NetworkRun expected = run_network(machine(), exact.get(), cloud.coordinates, cloud.bytes, dtype());
    Capacities capacities(2);
    check(minuet_execution_suggest_capacities(exact.get(), 1, capacities.data(), 2));
    minuet_execution_options options = options_of(capacities);
    options.keep_first_duplicate = keeps_duplicates;
    const Execution within = make_execution(machine(), plan, &options);
    expect_within(plan, within.get(), capacities, cloud, expected);
    return capacities;
  }
  void expect_as_exact(const std::string& description) {
    expect_as_exact(fused_plan(description).get(), scene(300));
  }
  void expect_within(minuet_plan* plan, minuet_execution* within, const Capacities& capacities,
                     const Cloud& cloud, const NetworkRun& expected) {
    Room room(machine(), capacities[0], dtype());
    room.fill(cloud);
    check(minuet_execution_prepare_on_device(within, room.coordinates.integers(), room.count.integers(),
                                             nullptr));
    int64_t rows = 0;
    int32_t channels = 0;
    check(minuet_execution_output_shape(within, &rows, &channels));
    EXPECT_EQ(rows, capacities[static_cast<size_t>(info_of(plan).output_level)]);
    ASSERT_LE(expected.rows, rows);
    if (info_of(plan).output_level == 0) {
      EXPECT_EQ(expected.coordinates, cloud.coordinates);
    }
    ASSERT_EQ(channels, 8);
    Buffer output(machine(), rows * 8 * dtype_bytes(dtype()));
    output.poison();
    const Buffer coordinates(machine(), rows * 16);
    check(run_tensors(within, {features_of(room.features.data(), room.capacity)},
                      tensor(output.data(), rows, 8, abi_dtype(dtype()))));
    check(minuet_execution_output_coordinates(within, static_cast<int32_t*>(coordinates.data()), nullptr));
    const std::vector<float> wanted = decode(dtype(), expected.bytes);
    std::vector<float> values = decode(dtype(), output.read<char>());
    const auto end = values.begin() + static_cast<std::ptrdiff_t>(wanted.size());
    EXPECT_TRUE(std::all_of(end, values.end(), [](float value) { return value == 0; }));
    values.erase(end, values.end());
    uint32_t status = ~0u;
    check(minuet_execution_read_cloud(within, &status, nullptr, 0, nullptr));
    EXPECT_EQ(status, 0u);
    if (wanted.empty()) return;
    EXPECT_TRUE(
        is_close(values, std::vector<double>(wanted.begin(), wanted.end()), 8, error_bound(dtype(), true)));
    std::vector<int32_t> places = expected.coordinates;
    places.resize(static_cast<size_t>(rows) * 4, 0);
    EXPECT_EQ(coordinates.read<int32_t>(), places);
  }
  void expect_zeros(const Room& room) { expect_padded_oracle(room, Cloud({}, dtype())); }
};

}  // namespace minuet::abi
