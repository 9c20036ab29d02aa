// Capacity mode: sizes on the device, nothing waits, clouds that do not fit say so, on every device; and
// prepare and run in one captured graph, replayed for clouds that nobody had seen.
#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/capacity_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

/// Launches of MinkUNet42's sets, maps and views.
constexpr struct {
  minuet_map_method method;
  int64_t most;
} kPrepareLaunches[] = {{MINUET_MAPS_SORTED, 110}, {MINUET_MAPS_INDEXED, 30}};

TEST_P(CapacityTest, SuggestsWhatTheLevelsNeed) {
  const Cloud cloud = scene(400);
  const Execution exact = execution();
  Capacities none(kLevels);
  EXPECT_EQ(minuet_execution_suggest_capacities(exact.get(), 1.25, none.data(), kLevels),
            MINUET_FAILED_PRECONDITION);
  run(exact, cloud);
  for (const double factor : {1.0, 1.25, 3.0}) {
    Capacities capacities(kLevels);
    check(minuet_execution_suggest_capacities(exact.get(), factor, capacities.data(), kLevels));
    for (int32_t level = 0; level < kLevels; ++level) {
      minuet_level_info info{};
      info.struct_size = sizeof(info);
      check(minuet_execution_query_level(exact.get(), level, &info));
      EXPECT_GE(static_cast<double>(capacities[level]), factor * static_cast<double>(info.voxels));
      EXPECT_LT(static_cast<double>(capacities[level]), factor * static_cast<double>(info.voxels) + 256);
    }
  }
  EXPECT_EQ(minuet_execution_suggest_capacities(exact.get(), 0.5, none.data(), kLevels),
            MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(minuet_execution_suggest_capacities(exact.get(), 2, none.data(), 3), MINUET_INVALID_ARGUMENT);
}

/// Clouds one after the other in one execution, sizes on the device: no wait, no allocation.
TEST_P(CapacityTest, CloudsOfAnySizeThatFits) {
  const Cloud largest = scene(600, kSeed + 1);
  const Capacities capacities = suggested(largest);
  const Execution execution = within(capacities);
  Room room(machine(), capacities[0], dtype());
  check(minuet_execution_reset_counters(execution.get()));
  std::vector<Cloud> clouds{largest, Cloud({}, dtype()), Cloud({0, 7, -3, 2}, dtype())};
  for (const int64_t voxels : {350, 20, 500})
    clouds.push_back(scene(voxels, kSeed + static_cast<uint64_t>(voxels)));
  for (const Cloud& cloud : clouds) {
    room.fill(cloud);
    enqueue(execution.get(), room, nullptr);
    expect_padded_oracle(room, cloud);
    EXPECT_EQ(counters_of(execution.get()).host_syncs, 0);
    EXPECT_EQ(counters_of(execution.get()).allocations, 0);
    std::vector<int32_t> counts;
    EXPECT_EQ(status_of(execution.get(), &counts), 0u);
    EXPECT_EQ(counts[0], cloud.count());
    EXPECT_EQ(counts[1], cloud.count());
    check(minuet_execution_reset_counters(execution.get()));
  }
}

TEST_P(CapacityTest, WhatDoesNotFitIsZerosAndABit) {
  const Cloud cloud = scene(400);
  Capacities capacities = suggested(cloud);
  const auto status_after = [&](const Capacities& room_for, const Cloud& given, int64_t said,
                                int32_t key_bits = 64, minuet_map_method method = tested_maps()) {
    const Execution execution = within(room_for, key_bits, method);
    Room room(machine(), room_for[0], dtype());
    room.fill(given, static_cast<int32_t>(said));
    enqueue(execution.get(), room, nullptr);
    expect_zeros(room);
    std::vector<int32_t> counts;
    const uint32_t status = status_of(execution.get(), &counts);
    EXPECT_EQ(counts, std::vector<int32_t>(1 + kLevels, 0));
    // And the next one works.
    const Cloud good = scene(60, kSeed + 5);
    if (room_for == capacities && key_bits == 64) {
      room.fill(good);
      enqueue(execution.get(), room, nullptr);
      expect_padded_oracle(room, good);
    }
    return status;
  };
  EXPECT_EQ(status_after(capacities, cloud, capacities[0] + 1), uint32_t{MINUET_CLOUD_PAST_CAPACITY});
  EXPECT_EQ(status_after(capacities, cloud, -1), uint32_t{MINUET_CLOUD_PAST_CAPACITY});
  Cloud doubled = cloud;
  std::copy_n(cloud.coordinates.begin(), 4, doubled.coordinates.begin() + 8);
  EXPECT_EQ(status_after(capacities, doubled, doubled.count()), uint32_t{MINUET_CLOUD_DUPLICATE});
  Cloud negative = cloud;
  negative.coordinates[4] = -1;
  for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
    EXPECT_EQ(status_after(capacities, negative, negative.count(), 64, method),
              uint32_t{MINUET_CLOUD_NEGATIVE_BATCH});
  }
  Cloud far = cloud;
  far.coordinates[5] = 1 << 28;
  EXPECT_EQ(status_after(capacities, far, far.count(), 32, MINUET_MAPS_SORTED),
            uint32_t{MINUET_CLOUD_KEY_TOO_NARROW});
  for (const int32_t key_bits : {32, 64}) {
    EXPECT_EQ(status_after(capacities, far, far.count(), key_bits, MINUET_MAPS_INDEXED),
              uint32_t{MINUET_CLOUD_OUTSIDE_KEYS})
        << key_bits;
  }
  for (const int level : {1, 2, 4}) {
    Capacities tight = capacities;
    tight[static_cast<size_t>(level)] = 1;
    EXPECT_EQ(status_after(tight, cloud, cloud.count()), uint32_t{MINUET_CLOUD_PAST_CAPACITY})
        << "level " << level;
  }
  // Voxels so far from each other that the hash table of a level with room for one has too few slots. The CPU
  // device sorts them, and counts the rows.
  Cloud strewn(make_scene(5000, kSeed), dtype(), kSeed);
  for (int64_t i = 0; i < strewn.count(); ++i) {
    strewn.coordinates[4 * i + 1] = static_cast<int32_t>(i % 70 * 1000);
    strewn.coordinates[4 * i + 2] = static_cast<int32_t>(i / 70 * 1000);
  }
  Capacities one(kLevels, strewn.count());
  one[2] = 1;
  EXPECT_EQ(status_after(one, strewn, strewn.count(), 64, MINUET_MAPS_INDEXED),
            uint32_t{machine().is_cpu() ? MINUET_CLOUD_PAST_CAPACITY : MINUET_CLOUD_INDEX_FULL});
}

TEST_P(CapacityTest, DeclaredBoundsStandForKeyBits) {
  const Cloud cloud = scene(300);
  const Capacities capacities = suggested(cloud);
  minuet_execution_options options = options_of(capacities, 0);
  options.has_bounds = 1;
  for (int f = 0; f < 4; ++f) {
    options.least[f] = f == 0 ? 0 : -400;
    options.greatest[f] = f == 0 ? 3 : 400;
  }
  const Execution execution = this->execution(&options);
  Room room(machine(), capacities[0], dtype());
  room.fill(cloud);
  enqueue(execution.get(), room, nullptr);
  expect_padded_oracle(room, cloud);
  Cloud outside = cloud;
  outside.coordinates[7] = 401;
  room.fill(outside, static_cast<int32_t>(cloud.count()));
  enqueue(execution.get(), room, nullptr);
  expect_zeros(room);
  EXPECT_EQ(status_of(execution.get()), uint32_t{MINUET_CLOUD_OUT_OF_BOUNDS});
}

/// A count from the host, as in exact mode.
TEST_P(CapacityTest, TakesACountOfTheHostToo) {
  const Cloud cloud = scene(200);
  const Capacities capacities = suggested(cloud);
  const Execution execution = within(capacities);
  Room room(machine(), capacities[0], dtype());
  room.fill(cloud, 0);
  check(minuet_execution_prepare(execution.get(), room.coordinates.integers(), cloud.count(), nullptr));
  check(run_tensors(execution.get(), {features_of(room.features.data(), room.capacity)},
                    tensor(room.output.data(), room.capacity, kWidths.back(), abi_dtype(dtype()))));
  expect_padded_oracle(room, cloud);
  int64_t rows = 0;
  int32_t channels = 0;
  check(minuet_execution_output_shape(execution.get(), &rows, &channels));
  EXPECT_EQ(rows, capacities[0]);
  const Buffer coordinates(machine(), capacities[0] * 16);
  check(minuet_execution_output_coordinates(execution.get(), static_cast<int32_t*>(coordinates.data()),
                                            nullptr));
  std::vector<int32_t> expected = cloud.coordinates;
  expected.resize(static_cast<size_t>(capacities[0]) * 4, 0);
  EXPECT_EQ(coordinates.read<int32_t>(), expected);
  EXPECT_EQ(
      minuet_execution_prepare(execution.get(), room.coordinates.integers(), capacities[0] + 1, nullptr),
      MINUET_OUT_OF_RANGE);
}

/// Of keys that are sorted, 0 stands for 64, which holds what 32 bits do not. Those of an index have a range
/// of their own, whatever the option says.
TEST_P(CapacityTest, SortedKeysHave64BitsByDefault) {
  Cloud far = scene(200);
  const Capacities capacities = suggested(far);
  far.coordinates[5] = 1 << 28;
  Room room(machine(), capacities[0], dtype());
  room.fill(far);
  for (const auto& [key_bits, expected] :
       {std::pair{0, 0u}, {64, 0u}, {32, uint32_t{MINUET_CLOUD_KEY_TOO_NARROW}}}) {
    const Execution sorted = within(capacities, key_bits, MINUET_MAPS_SORTED);
    enqueue(sorted.get(), room, nullptr);
    EXPECT_EQ(status_of(sorted.get()), expected) << key_bits;
    const Execution indexed = within(capacities, key_bits, MINUET_MAPS_INDEXED);
    enqueue(indexed.get(), room, nullptr);
    EXPECT_EQ(status_of(indexed.get()), uint32_t{MINUET_CLOUD_OUTSIDE_KEYS}) << key_bits;
  }
}

TEST_P(CapacityTest, OptionsThatCannotBe) {
  const Capacities good(kLevels, 1000), few(3, 1000), empty{1000, 1000, 0, 1000, 1000};
  const auto refused = [&](const minuet_execution_options& options, const char* words) {
    minuet_execution* none = nullptr;
    EXPECT_EQ(minuet_execution_create(network_.get(), machine().device(), &options, &none),
              MINUET_INVALID_ARGUMENT);
    EXPECT_EQ(none, nullptr);
    EXPECT_THAT(last_error(), HasSubstr(words));
  };
  refused(options_of(few), "5 levels");
  refused(options_of(empty), "level_capacity[2] is 0");
  refused(options_of(good, 33), "key_bits");
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.key_bits = 64;
  refused(options, "level_capacity");
  const Execution exact = execution();
  const Buffer words(machine(), 64);
  EXPECT_EQ(minuet_execution_prepare_on_device(exact.get(), words.integers(), words.integers(), nullptr),
            MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("level_capacity"));
  uint32_t status = 0;
  EXPECT_EQ(minuet_execution_read_cloud(exact.get(), &status, nullptr, 0, nullptr),
            MINUET_FAILED_PRECONDITION);
}

TEST_P(CapacityTest, GatherGemmScatterNeedsTheHost) {
  NetworkSpec other = spec();
  other.dataflow = MINUET_DATAFLOW_GATHER_GEMM_SCATTER;
  const Plan plan = make_network(machine(), other);
  const Capacities capacities(kLevels, 1000);
  const minuet_execution_options options = options_of(capacities);
  minuet_execution* none = nullptr;
  EXPECT_EQ(minuet_execution_create(plan.get(), machine().device(), &options, &none),
            MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("fused dataflow"));
}

MINUET_INSTANTIATE_EXECUTION_TEST(CapacityTest);

class CapacityOnGpu : public CapacityTest {};

/// Prepare and run in one graph; twenty clouds, replayed one after the other.
TEST_P(CapacityOnGpu, OneGraphForUnseenClouds) {
  const Capacities capacities = suggested(scene(900, kSeed + 2), 2.5);
  const Execution execution = within(capacities);
  Room room(machine(), capacities[0], dtype());
  const Stream stream(machine());
  const CapturedGraph graph(stream.get(), [&] { enqueue(execution.get(), room, stream.get()); });
  ASSERT_TRUE(graph.whole());
  const int64_t capacity = capacities[0];
  for (uint64_t i = 0; i < (machine().is_software() ? 8 : 20); ++i) {
    Cloud cloud = i == 3   ? Cloud({}, dtype())
                  : i == 5 ? Cloud({1, -4, 9, 3}, dtype())
                           : scene(30 + static_cast<int64_t>(i * 211) % 900, kSeed + 40 + i);
    if (i == 7) {
      room.fill(cloud, static_cast<int32_t>(capacity + 1));
      ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
      EXPECT_EQ(status_of(execution.get(), nullptr, stream.get()), uint32_t{MINUET_CLOUD_PAST_CAPACITY});
      expect_zeros(room);
      continue;
    }
    expect_replay(graph, stream, room, cloud);
    std::vector<int32_t> counts;
    EXPECT_EQ(status_of(execution.get(), &counts, stream.get()), 0u) << "cloud " << i;
    EXPECT_EQ(counts[0], cloud.count());
  }
}

/// The views of all maps are made together. One by one they would take some eighty launches more.
TEST_P(CapacityOnGpu, AnInferenceTakesFewLaunches) {
  const Cloud cloud = scene(200);
  const Buffer coordinates(machine(), cloud.coordinates), features(machine(), cloud.bytes);
  const Buffer output(machine(), cloud.count() * kWidths.back() * dtype_bytes(dtype()));
  for (const auto& [method, most] : kPrepareLaunches) {
    SCOPED_TRACE(method);
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.map_method = method;
    const Execution execution = this->execution(&options);
    run(execution, cloud);
    const auto launches = [&] {
      const minuet_execution_counters counters = counters_of(execution.get());
      check(minuet_execution_reset_counters(execution.get()));
      return counters.kernels + counters.fills + counters.copies;
    };
    check(minuet_execution_reset_counters(execution.get()));
    check(minuet_execution_prepare(execution.get(), coordinates.integers(), cloud.count(), nullptr));
    EXPECT_LE(launches(), most);
    check(ExecutionTest::enqueue(execution.get(), cloud, features.data(), output.data()));
    EXPECT_LE(launches(), int64_t{info_of(network_.get()).layers} + 2)
        << "a layer, and the rows' way in and out";
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CapacityOnGpu,
                         testing::Combine(testing::Values("cuda:0"), testing::Values(DType::F32, DType::F16)),
                         device_test_name);

}  // namespace
}  // namespace minuet::abi
