// Executions of a network: the caller's memory, threads, lifetimes, calls out of order, on every device.
#include <array>
#include <thread>

#include "tests/runtime/execution/execution_fixture.h"

namespace minuet::abi {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

/// "... needs 12345: ..."
int64_t bytes_needed(const std::string& message) {
  const size_t at = message.find("needs ");
  return at == std::string::npos ? -1 : std::stoll(message.substr(at + 6));
}

class LifetimeTest : public ExecutionTest {
 protected:
  /// One step of the arena too little is refused, and the message tells what is needed.
  void expect_refused_in(const Buffer& workspace, int64_t bytes, const Cloud& cloud, int64_t needed) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.workspace = workspace.data();
    options.workspace_bytes = bytes;
    const Execution short_of = execution(&options);
    EXPECT_EQ(prepare(machine(), short_of.get(), cloud.coordinates), MINUET_RESOURCE_EXHAUSTED);
    EXPECT_EQ(bytes_needed(last_error()), needed);
  }
};

/// The caller's workspace, poisoned at birth: as much as the library asks for is enough.
TEST_P(LifetimeTest, WorksInTheCallersWorkspace) {
  const Cloud cloud = scene(500), small = scene(40);
  const NetworkRun expected = fresh(cloud);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  int64_t bytes = 256;
  int fitted = 0;
  for (int attempt = 0;; ++attempt) {
    ASSERT_LT(attempt, 5) << "never content";
    const Buffer workspace(machine(), bytes);
    options.workspace = workspace.data();
    options.workspace_bytes = bytes;
    minuet_execution* made = nullptr;
    minuet_status status = minuet_execution_create(network_.get(), machine().device(), &options, &made);
    const Execution given(made, {minuet_execution_destroy});
    if (status == MINUET_OK) status = prepare(machine(), made, cloud.coordinates);
    if (status == MINUET_OK) {
      EXPECT_GT(attempt, 0);
      EXPECT_GE(fitted, 2) << "the empty cloud and one point, before the last attempt";
      EXPECT_EQ(run(given, cloud), expected);
      check(minuet_execution_reset_counters(made));
      EXPECT_EQ(run(given, small), fresh(small));
      EXPECT_EQ(run(given, cloud), expected);
      EXPECT_EQ(counters_of(made).allocations, 0) << "it has the caller's workspace";
      check(minuet_device_synchronize(machine().device(), nullptr));
      expect_refused_in(workspace, bytes - 256, cloud, bytes);
      return;
    }
    ASSERT_EQ(status, MINUET_RESOURCE_EXHAUSTED);
    const int64_t needed = bytes_needed(last_error());
    ASSERT_GT(needed, bytes) << last_error();
    for (const Cloud& less : {Cloud({}, dtype()), Cloud({0, 1, 2, 3}, dtype())}) {
      if (made == nullptr) break;
      // What fits still works after the refusal; what does not says how much more.
      const minuet_status answer = prepare(machine(), made, less.coordinates);
      if (answer == MINUET_OK) {
        EXPECT_EQ(run(given, less), fresh(less));
        ++fitted;
      } else {
        EXPECT_EQ(answer, MINUET_RESOURCE_EXHAUSTED);
        EXPECT_GT(bytes_needed(last_error()), bytes) << last_error();
      }
    }
    bytes = needed;
  }
}

TEST_P(LifetimeTest, MisalignedMemoryIsRefused) {
  const Cloud cloud = scene(50);
  const Execution execution = this->execution();
  check(prepare(machine(), execution.get(), cloud.coordinates));
  const Buffer memory(machine(), int64_t{1} << 16);
  char* const good = static_cast<char*>(memory.data());
  char* const other = good + (1 << 15);
  for (auto [features, output] : {std::pair{good + 4, other}, {good, other + 8}, {good + 2, other + 2}}) {
    EXPECT_EQ(enqueue(execution.get(), cloud, features, output), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("16"));
  }
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.workspace = good + 16;
  options.workspace_bytes = 1 << 15;
  minuet_execution* none = nullptr;
  EXPECT_EQ(minuet_execution_create(network_.get(), machine().device(), &options, &none),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("256"));
}

/// Whatever is wrong with a prepare, nothing is prepared after it; but a call of the other kind is none.
TEST_P(LifetimeTest, AFailedPrepareLeavesNothingPrepared) {
  const Execution execution = this->execution();
  minuet_execution* given = execution.get();
  const Cloud one({0, 1, 2, 3}, dtype());
  const Buffer coordinates(machine(), one.coordinates);
  int64_t rows = 0;
  int32_t channels = 0;
  const auto fails = [&](const int32_t* where, int64_t count) {
    check(minuet_execution_prepare(given, coordinates.integers(), 1, nullptr));
    check(minuet_execution_output_shape(given, &rows, &channels));
    EXPECT_NE(minuet_execution_prepare(given, where, count, nullptr), MINUET_OK);
    EXPECT_EQ(minuet_execution_output_shape(given, &rows, &channels), MINUET_FAILED_PRECONDITION);
  };
  fails(nullptr, 1);
  fails(coordinates.integers(), -1);
  fails(reinterpret_cast<const int32_t*>(static_cast<const char*>(coordinates.data()) + 1), 1);
  check(minuet_execution_prepare(given, coordinates.integers(), 1, nullptr));
  EXPECT_EQ(minuet_execution_prepare_maps(given, nullptr, 0, nullptr), MINUET_FAILED_PRECONDITION);
  check(minuet_execution_output_shape(given, &rows, &channels));
}

TEST_P(LifetimeTest, CallsOutOfOrderAreRefused) {
  const Execution execution = this->execution();
  minuet_execution* given = execution.get();
  int64_t rows = 0;
  int32_t channels = 0;
  int32_t overflow = 0;
  minuet_stage_times times = MINUET_STAGE_TIMES_INIT;
  const Buffer memory(machine(), int64_t{1} << 12);
  const Cloud one({0, 1, 2, 3}, dtype());
  EXPECT_EQ(enqueue(given, one, memory.data(), static_cast<char*>(memory.data()) + 1024),
            MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("prepare"));
  EXPECT_EQ(minuet_execution_output_shape(given, &rows, &channels), MINUET_FAILED_PRECONDITION);
  EXPECT_EQ(minuet_execution_output_coordinates(given, static_cast<int32_t*>(memory.data()), nullptr),
            MINUET_FAILED_PRECONDITION);
  EXPECT_EQ(minuet_execution_find_overflow(given, nullptr, &overflow), MINUET_FAILED_PRECONDITION);
  EXPECT_EQ(minuet_execution_query_stages(given, &times), MINUET_FAILED_PRECONDITION);
  const Coordinates set = make_set(machine(), 3, one.coordinates, {1, 1, 1, 1});
  minuet_kernel_map_options whole = MINUET_KERNEL_MAP_OPTIONS_INIT;
  minuet_kernel_map* map = nullptr;
  check(minuet_kernel_map_create(set.get(), set.get(), &whole, nullptr, &map));
  const KernelMap owner(map, {minuet_kernel_map_destroy});
  EXPECT_EQ(prepare_map(given, map), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), AllOf(HasSubstr("network"), ContainsRegex("prepare([^_]|$)")));
  EXPECT_EQ(minuet_execution_prepare(given, memory.integers(), -1, nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(minuet_execution_prepare(given, nullptr, 5, nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(minuet_execution_prepare(nullptr, memory.integers(), 1, nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(minuet_execution_prepare(given, memory.integers(), int64_t{1} << 40, nullptr),
            MINUET_OUT_OF_RANGE);
  minuet_layer_info layer{};
  layer.struct_size = sizeof(layer);
  EXPECT_NE(minuet_execution_query_layer(given, 1 << 20, &layer), MINUET_OK);
  EXPECT_NE(minuet_execution_query_layer(given, -1, &layer), MINUET_OK);

  Plan unloaded(nullptr, {minuet_plan_destroy});
  check(create_network(machine(), spec(), unloaded));
  minuet_execution* none = nullptr;
  EXPECT_EQ(minuet_execution_create(unloaded.get(), machine().device(), nullptr, &none),
            MINUET_FAILED_PRECONDITION);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(minuet_plan_load(unloaded.get(), machine().device()), MINUET_FAILED_PRECONDITION);
}

TEST_P(LifetimeTest, TwoExecutionsInTwoThreads) {
  std::vector<Cloud> clouds;
  std::vector<NetworkRun> expected;
  for (int64_t voxels : {150, 400, 60}) {
    clouds.push_back(scene(voxels, kSeed + voxels));
    expected.push_back(fresh(clouds.back()));
  }
  std::vector<std::thread> threads;
  std::array<int, 2> equal{};
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      const Execution own = execution();
      for (int i = 0; i < 6; ++i) {
        const size_t which = static_cast<size_t>(i + t) % clouds.size();
        equal[t] += run(own, clouds[which]) == expected[which];
        // A failed call here leaves the other thread's message alone.
        if (minuet_execution_run(nullptr, nullptr, 0, nullptr, 0, nullptr) == MINUET_OK) equal[t] = -1000;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, (std::array<int, 2>{6, 6}));
}

TEST_P(LifetimeTest, TheDeviceOpenedTwice) {
  const Cloud cloud = scene(100);
  const NetworkRun expected = fresh(cloud);
  minuet_device* again = nullptr;
  check(minuet_device_open(machine().context(), std::get<0>(GetParam()), nullptr, &again));
  const Handle<minuet_device> owner(again, {minuet_device_destroy});
  check(minuet_plan_load(network_.get(), again));
  minuet_execution* made = nullptr;
  check(minuet_execution_create(network_.get(), again, nullptr, &made));
  const Execution execution(made, {minuet_execution_destroy});
  EXPECT_EQ(run(execution, cloud), expected);
  EXPECT_EQ(fresh(cloud), expected);
}

/// What an execution was made from may go first: it keeps alive what it needs.
TEST_P(LifetimeTest, DestroyedInTheOrderOfCreation) {
  const Cloud cloud = scene(100);
  const NetworkRun expected = fresh(cloud);
  minuet_context* context = nullptr;
  minuet_device* device = nullptr;
  minuet_plan* network = nullptr;
  minuet_execution* made = nullptr;
  check(minuet_context_create(nullptr, &context));
  check(minuet_device_open(context, std::get<0>(GetParam()), nullptr, &device));
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  options.dataflow = tested_dataflow();
  options.name = "minkunet42";
  options.dtype = abi_dtype(dtype());
  options.channels = kWidths.data();
  options.channel_count = static_cast<int32_t>(kWidths.size());
  options.weights_path = weights().file.path().c_str();
  check(minuet_plan_create_network(context, &options, &network));
  check(minuet_plan_compile(network, machine().arch().c_str(), nullptr, nullptr));
  check(minuet_plan_load(network, device));
  check(minuet_execution_create(network, device, nullptr, &made));
  minuet_context_destroy(context);
  minuet_device_destroy(device);
  minuet_plan_destroy(network);
  const Execution execution(made, {minuet_execution_destroy});
  EXPECT_EQ(run(execution, cloud), expected);
}

/// Destroyed right behind a run that may still be under way; the output is whole all the same.
TEST_P(LifetimeTest, DestroyWaits) {
  const Cloud cloud = scene(1000);
  const NetworkRun expected = fresh(cloud);
  const Buffer features(machine(), cloud.bytes);
  const Buffer output(machine(), static_cast<int64_t>(expected.bytes.size()));
  {
    const Execution execution = this->execution();
    check(prepare(machine(), execution.get(), cloud.coordinates));
    check(enqueue(execution.get(), cloud, features.data(), output.data()));
  }
  EXPECT_EQ(output.read<char>(), expected.bytes);
}

MINUET_INSTANTIATE_EXECUTION_TEST(LifetimeTest);

}  // namespace
}  // namespace minuet::abi
