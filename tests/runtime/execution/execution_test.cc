// Executions of a network on odd clouds and on changing ones, through the C ABI, on every device.
#include <algorithm>
#include <climits>
#include <set>

#include "tests/runtime/execution/execution_fixture.h"

namespace minuet::abi {
namespace {

class CloudTest : public ExecutionTest {};
class CloudOnGpu : public ExecutionTest {};

TEST_P(CloudTest, EmptyClouds) {
  const Execution execution = this->execution();
  for (int repeat = 0; repeat < 2; ++repeat) {
    check(minuet_execution_prepare(execution.get(), nullptr, 0, nullptr));
    int64_t rows = -1;
    int32_t channels = -1;
    check(minuet_execution_output_shape(execution.get(), &rows, &channels));
    EXPECT_EQ(rows, 0);
    EXPECT_EQ(channels, kWidths.back());
    check(enqueue(execution.get(), Cloud({}, dtype()), nullptr, nullptr));
    check(minuet_execution_output_coordinates(execution.get(), nullptr, nullptr));
    check(minuet_device_synchronize(machine().device(), nullptr));
    const Cloud good = scene(150);
    EXPECT_EQ(run(execution, good), fresh(good));
  }
}

TEST_P(CloudTest, OnePoint) {
  for (const std::vector<int32_t>& point :
       {std::vector<int32_t>{0, 0, 0, 0}, {0, -1, -1, -1}, {5, 7, -13, 1000}}) {
    const Cloud cloud(point, dtype());
    expect_oracle(fresh(cloud), cloud);
  }
}

/// Neighbouring items must not see each other, with empty ones between or none.
TEST_P(CloudTest, BatchItemsAreApart) {
  std::vector<int32_t> all;
  for (int32_t batch : {1, 2, 7, 100}) {
    std::vector<int32_t> item;
    add_cluster(item, {-4, -4, -4}, 60, batch, kSeed + batch);
    all.insert(all.end(), item.begin(), item.end());
  }
  const Cloud cloud(all, dtype());
  expect_oracle(fresh(cloud), cloud);
}

TEST_P(CloudTest, DuplicatesAreAnErrorOrTheFirstWins) {
  const Cloud unique = scene(200);
  const int64_t rows = static_cast<int64_t>(unique.coordinates.size()) / 4;
  Cloud doubled = unique;
  for (int64_t row : {int64_t{0}, int64_t{17}, rows - 1}) {
    for (int c = 0; c < 4; ++c) {
      doubled.coordinates.push_back(unique.coordinates[4 * row + c]);
      doubled.features.push_back(100);  // must not be seen
    }
  }
  doubled.bytes = encode(dtype(), doubled.features);
  expect_refused(execution(), doubled.coordinates, MINUET_INVALID_ARGUMENT, "duplicate");

  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.keep_first_duplicate = 1;
  const Execution keeping = execution(&options);
  const NetworkRun expected = fresh(unique), run = this->run(keeping, doubled);
  const size_t row_bytes = expected.bytes.size() / rows;
  ASSERT_EQ(run.rows, rows + 3);
  EXPECT_TRUE(std::equal(expected.bytes.begin(), expected.bytes.end(), run.bytes.begin()));
  EXPECT_TRUE(std::equal(run.bytes.end() - row_bytes, run.bytes.end(), expected.bytes.end() - row_bytes))
      << "a duplicate's row is that of the first";
  EXPECT_EQ(run.coordinates, doubled.coordinates);
}

TEST_P(CloudTest, DeclaredBounds) {
  const Cloud cloud = scene(300);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.has_bounds = 1;
  for (int f = 0; f < 4; ++f) {
    options.least[f] = f == 0 ? 0 : -400;
    options.greatest[f] = f == 0 ? 3 : 400;
  }
  const Execution bounded = execution(&options);
  const NetworkRun expected = fresh(cloud);
  EXPECT_EQ(run(bounded, cloud), expected);
  check(minuet_execution_reset_counters(bounded.get()));
  EXPECT_EQ(run(bounded, cloud), expected);
  EXPECT_LE(counters_of(bounded.get()).host_syncs, 1);
  EXPECT_EQ(counters_of(bounded.get()).allocations, 0);

  for (const std::vector<int32_t>& outside :
       {std::vector<int32_t>{0, 401, 0, 0}, {0, 0, -401, 0}, {0, 0, 0, INT_MAX}, {4, 0, 0, 0}}) {
    std::vector<int32_t> coordinates = cloud.coordinates;
    coordinates.insert(coordinates.end(), outside.begin(), outside.end());
    expect_refused(bounded, coordinates, MINUET_OUT_OF_RANGE, "bounds");
  }
  std::swap(options.least[1], options.greatest[1]);
  minuet_execution* none = nullptr;
  EXPECT_EQ(minuet_execution_create(network_.get(), machine().device(), &options, &none),
            MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(none, nullptr);
}

/// One execution through clouds that grow and shrink gives what a fresh one gives, bit by bit; the second
/// time around nothing is allocated.
TEST_P(CloudTest, CloudsGrowAndShrink) {
  std::vector<Cloud> clouds;
  std::vector<NetworkRun> expected;
  for (int64_t voxels : {100, 1200, 3, 700, 2000, 1}) {
    clouds.push_back(scene(voxels, kSeed + voxels));
    expected.push_back(fresh(clouds.back()));
  }
  const Execution execution = this->execution();
  for (size_t i = 0; i < clouds.size(); ++i) EXPECT_EQ(run(execution, clouds[i]), expected[i]) << i;
  for (size_t i = 0; i < clouds.size(); ++i) {
    check(minuet_execution_reset_counters(execution.get()));
    EXPECT_EQ(run(execution, clouds[i]), expected[i]) << i;
    const minuet_execution_counters counters = counters_of(execution.get());
    EXPECT_EQ(counters.allocations, 0) << i;
    EXPECT_LE(counters.host_syncs, 2) << i;
  }
}

/// 200 on a GPU, where cuBLASLt has thresholds that no stand-in has.
TEST_P(CloudOnGpu, UnseenCloudsLookNothingUp) {
  const Execution execution = this->execution();
  for (uint64_t i = 0; i < (machine().is_software() ? 4 : 200); ++i) {
    run(execution, scene(1 + static_cast<int64_t>(i * i) * 131 % 9000, kSeed + i));
  }
  EXPECT_EQ(counters_of(execution.get()).gemm_lookups, 0);
}

/// Where there is no code for the GPU itself: that of its capability, with the candidates chosen for it.
TEST_P(CloudOnGpu, RunsWhatIsCompiledForAnOlderOne) {
  std::string older = machine().arch();
  if (older.back() != 'a') GTEST_SKIP() << older << " has no code but its own and its elders'";
  older.pop_back();
  NetworkSpec small;  // of widths that no other test loads kernels for
  small.dtype = dtype();
  small.description = R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [20], "layers": [
    {"op": "block", "name": "a", "width": 0, "kernel_size": 3}]})";
  const Cloud cloud = scene(100);
  const auto run_of = [&](const Plan& plan) {
    const Execution execution = make_execution(machine(), plan.get());
    return run_network(machine(), execution.get(), cloud.coordinates, cloud.bytes, dtype());
  };
  Plan plan(nullptr, {minuet_plan_destroy});
  check(create_network(machine(), small, plan));
  std::set<std::string> archs;
  const auto note = [](const minuet_kernel_info* kernel, void* user) {
    static_cast<std::set<std::string>*>(user)->insert(kernel->arch);
  };
  check(minuet_plan_compile(plan.get(), older.c_str(), note, &archs));
  EXPECT_EQ(archs, std::set<std::string>{older});
  check(minuet_plan_load(plan.get(), machine().device()));
  const NetworkRun run = run_of(plan), expected = run_of(make_network(machine(), small));
  EXPECT_EQ(run.coordinates, expected.coordinates);
  const std::vector<float> values = decode(dtype(), expected.bytes);
  EXPECT_TRUE(is_close(decode(dtype(), run.bytes), std::vector<double>(values.begin(), values.end()),
                       run.channels, error_bound(dtype(), true)));
}

/// run again with other features needs no prepare.
TEST_P(CloudTest, RunsAgainWithOtherFeatures) {
  const Cloud first = scene(250);
  Cloud second = first;
  second.features = oracle::draw_features(static_cast<int64_t>(first.features.size()), kSeed + 1);
  second.bytes = encode(dtype(), second.features);
  const NetworkRun expected = fresh(second);
  const Execution execution = this->execution();
  run(execution, first);
  check(minuet_execution_reset_counters(execution.get()));
  const Buffer features(machine(), second.bytes);
  const Buffer output(machine(), static_cast<int64_t>(expected.bytes.size()));
  check(enqueue(execution.get(), second, features.data(), output.data()));
  EXPECT_EQ(counters_of(execution.get()).host_syncs, 0);
  EXPECT_EQ(counters_of(execution.get()).allocations, 0);
  EXPECT_EQ(output.read<char>(), expected.bytes);
}

/// Keys of 32 and of 64 bits in turn.
TEST_P(CloudTest, WideCloudsNeedLongKeys) {
  std::vector<int32_t> coordinates;
  for (int32_t sign : {-1, 1}) {
    add_cluster(coordinates, {sign * 100000, sign * -90000, sign * 80000}, 70, 1, kSeed + sign);
    add_cluster(coordinates, {sign * 100000, sign * 90000, 0}, 70, 3, kSeed + sign + 5);
  }
  const Cloud wide(coordinates, dtype()), narrow = scene(300);
  const Execution execution = this->execution();
  const NetworkRun run = this->run(execution, wide);
  expect_oracle(run, wide);
  EXPECT_EQ(this->run(execution, narrow), fresh(narrow));
  EXPECT_EQ(this->run(execution, wide), run);
}

/// Keys are made for the large ones, as long as they go on to come: nothing is built a second time.
TEST_P(CloudTest, SmallAndLargeCloudsInTurnWaitOnceEach) {
  std::vector<int32_t> coordinates;
  for (const int32_t sign : {-1, 1})
    add_cluster(coordinates, {sign * 100000, sign * -90000, sign * 80000}, 40, 1, kSeed + 7);
  const Cloud large(coordinates, dtype()), small = scene(100);
  const Execution execution = this->execution();
  const NetworkRun large_run = run(execution, large), small_run = run(execution, small);
  run(execution, large);
  check(minuet_execution_reset_counters(execution.get()));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run(execution, small), small_run);
    EXPECT_EQ(run(execution, large), large_run);
  }
  EXPECT_LE(counters_of(execution.get()).host_syncs, 6);
}

TEST_P(CloudTest, EndsOfThe32BitRange) {
  std::vector<int32_t> coordinates;
  add_cluster(coordinates, {INT_MIN, INT_MIN, INT_MIN}, 80, 0, kSeed);
  const Cloud low(coordinates, dtype());
  expect_oracle(fresh(low), low);
  coordinates.clear();
  add_cluster(coordinates, {INT_MAX - 8, INT_MAX - 8, INT_MAX - 8}, 80, 0, kSeed);
  const Cloud high(coordinates, dtype());
  expect_oracle(fresh(high), high);
  add_cluster(coordinates, {INT_MIN, INT_MAX - 8, INT_MAX - 8}, 80, 0, kSeed + 1);
  const Cloud both(coordinates, dtype());
  expect_oracle(fresh(both), both);
}

TEST_P(CloudTest, CloudsBeyondTheKeyRangeAreRefused) {
  const std::vector<int32_t> coordinates = {0, INT_MIN, INT_MIN, INT_MIN, 0, INT_MAX, INT_MAX, INT_MAX};
  expect_refused(execution(), coordinates, MINUET_OUT_OF_RANGE, "64-bit key");
}

TEST_P(CloudTest, NegativeBatchIndicesAreRefused) {
  expect_refused(execution(), {0, 1, 2, 3, -1, 1, 2, 3}, MINUET_INVALID_ARGUMENT, "batch");
}

/// Levels, pairs and the largest activation, by the oracle.
TEST_P(CloudTest, WhatItReportsIsTrue) {
  const Cloud cloud = scene(400);
  const Execution execution = this->execution();
  run(execution, cloud);
  std::vector<int32_t> level = cloud.coordinates;
  std::map<std::string, int64_t> pairs;
  for (int32_t number = 0, stride = 1; number < 5; ++number, stride *= 2) {
    minuet_level_info info{};
    info.struct_size = sizeof(info);
    check(minuet_execution_query_level(execution.get(), number, &info));
    EXPECT_EQ(info.tensor_stride[0], stride);
    EXPECT_EQ(info.voxels, static_cast<int64_t>(level.size()) / 4);
    const oracle::Axes fine{stride, stride, stride, 1};
    const std::vector<int32_t> next =
        oracle::downsample(3, cloud.coordinates, {2 * stride, 2 * stride, 2 * stride, 1});
    const auto count = [&](oracle::Axes kernel, const std::vector<int32_t>& out) {
      return static_cast<int64_t>(
          oracle::find_pairs({3, kernel, {1, 1, 1, 1}, fine, false}, level, out).size());
    };
    if (number == 0) pairs["stem.0"] = count({3, 3, 3, 1}, level);
    if (number > 0)
      pairs["encoder." + std::to_string(number - 1) + ".residual.0.conv1"] = count({3, 3, 3, 1}, level);
    if (number < 4) pairs["encoder." + std::to_string(number) + ".down"] = count({2, 2, 2, 1}, next);
    if (number < 4) pairs["decoder." + std::to_string(3 - number) + ".up"] = count({2, 2, 2, 1}, next);
    level = next;
  }
  for (int32_t i = 0; i < info_of(network_.get()).layers; ++i) {
    minuet_layer_info info{};
    info.struct_size = sizeof(info);
    check(minuet_execution_query_layer(execution.get(), i, &info));
    std::string name = info.name;
    if (!pairs.count(name) && pairs.count(name.substr(0, name.rfind('.'))))
      name = name.substr(0, name.rfind('.'));
    if (!pairs.count(name)) continue;
    EXPECT_EQ(info.pairs, pairs[name]) << info.name;
    pairs.erase(name);
  }
  EXPECT_TRUE(pairs.empty()) << "no layer named " << pairs.begin()->first;
}

MINUET_INSTANTIATE_EXECUTION_TEST(CloudTest);
INSTANTIATE_TEST_SUITE_P(Devices, CloudOnGpu,
                         testing::Combine(testing::Values("cuda:0"), testing::Values(DType::F32, DType::F16)),
                         device_test_name);

}  // namespace
}  // namespace minuet::abi
