// What embedders ask of an execution: what it is and needs, memory that is given after create and replaced,
// and a cloud's state in memory of the caller.
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "tests/runtime/execution/capacity_fixture.h"
#include "tests/support/by_hand.h"
#include "tests/support/software_cuda/control.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

/// Both device words of a cloud, as copy_cloud gives them, between poison.
struct CopiedCloud {
  explicit CopiedCloud(Machine& machine) : status(machine, 12), counts(machine, (kLevels + 3) * 4) {
    status.poison(), counts.poison();
  }
  uint32_t* status_word() const { return static_cast<uint32_t*>(status.data()) + 1; }
  int32_t* count_words() const { return static_cast<int32_t*>(counts.data()) + 1; }
  minuet_status copy(minuet_execution* execution, void* stream) const {
    return minuet_execution_copy_cloud(execution, status_word(), count_words(), 1 + kLevels, stream);
  }
  Buffer status, counts;
};

class WorkspaceTest : public CapacityTest {
 protected:
  static minuet_status set(const Execution& execution, const Buffer& workspace, void* stream = nullptr) {
    return minuet_execution_set_workspace(execution.get(), workspace.data(), workspace.bytes(), stream);
  }
  /// Gives the execution other memory, and frees what it had before it runs again.
  void replace(const Execution& execution, std::unique_ptr<Buffer>& workspace, int64_t bytes,
               void* stream = nullptr) {
    auto other = std::make_unique<Buffer>(machine(), bytes);
    check(set(execution, *other, stream));
    workspace = std::move(other);
  }
  static bool has_memory(const Execution& execution) {
    const uint32_t* status = nullptr;
    const int32_t* counts = nullptr;
    const minuet_status answer = minuet_execution_query_cloud(execution.get(), &status, &counts);
    EXPECT_TRUE(answer == MINUET_OK || answer == MINUET_FAILED_PRECONDITION);
    return answer == MINUET_OK;
  }
  std::vector<char> run_within(const Execution& execution, Room& room, const Cloud& cloud) {
    room.fill(cloud);
    enqueue(execution.get(), room, nullptr);
    return room.output.read<char>();
  }
  minuet_status prepare_cloud(const Execution& execution, const Cloud& cloud) {
    return prepare(machine(), execution.get(), cloud.coordinates);
  }
};

/// In capacity mode the bytes are known before any memory is given, and are the same for every cloud.
TEST_P(WorkspaceTest, GivenLaterAndReplacedInCapacityMode) {
  const Cloud cloud = scene(400), small = scene(30);
  const Capacities capacities = suggested(cloud);
  minuet_execution_options options = options_of(capacities);
  std::unique_ptr<Buffer> workspace, of_plain;
  const Execution plain = execution(&options);
  Room room(machine(), capacities[0], dtype());
  const std::vector<char> expected = run_within(plain, room, cloud);
  const minuet_execution_info info = info_of(plain);
  EXPECT_EQ(info.has_capacities, 1);
  EXPECT_EQ(info.prepare_capturable, machine().is_cpu() ? 0 : 1);
  EXPECT_EQ(info.run_capturable, machine().is_cpu() ? 0 : 1);
  EXPECT_EQ(info.map_method, tested_maps() == MINUET_MAPS_SORTED ? MINUET_MAPS_SORTED : MINUET_MAPS_INDEXED);
  EXPECT_EQ(info.workspace_bytes, counters_of(plain.get()).workspace_bytes);

  options.defer_workspace = 1;
  const Execution later = execution(&options);
  EXPECT_EQ(info_of(later).workspace_bytes, info.workspace_bytes);
  EXPECT_EQ(counters_of(later.get()).workspace_bytes, 0);
  EXPECT_EQ(prepare_cloud(later, cloud), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr(std::to_string(info.workspace_bytes) + " bytes"));
  EXPECT_FALSE(has_memory(later));
  {
    const Buffer short_of(machine(), info.workspace_bytes - 256);
    EXPECT_EQ(set(later, short_of), MINUET_RESOURCE_EXHAUSTED);
    EXPECT_THAT(last_error(), HasSubstr("the execution needs " + std::to_string(info.workspace_bytes)));
  }
  EXPECT_EQ(prepare_cloud(later, cloud), MINUET_FAILED_PRECONDITION) << "it has no memory";
  for (int time = 0; time < 3; ++time) {
    replace(later, workspace, info.workspace_bytes);
    uint32_t status = 0;
    EXPECT_EQ(minuet_execution_read_cloud(later.get(), &status, nullptr, 0, nullptr),
              MINUET_FAILED_PRECONDITION)
        << "nothing is prepared";
    EXPECT_EQ(run_within(later, room, cloud), expected);
    run_within(later, room, small);
    expect_padded_oracle(room, small);
    EXPECT_EQ(counters_of(later.get()).workspace_bytes, info.workspace_bytes);
  }
  replace(plain, of_plain, info.workspace_bytes);
  EXPECT_EQ(run_within(plain, room, cloud), expected) << "instead of the execution's own memory";
}

/// Before there is memory, its parts have addresses from 256 on that only stand for it. No argument may be
/// compared with them.
TEST_P(WorkspaceTest, ACountWhereThePartsWouldLie) {
  const Cloud cloud = scene(20);
  const Capacities capacities = suggested(cloud);
  minuet_execution_options options = options_of(capacities);
  options.defer_workspace = 1;
  std::unique_ptr<Buffer> workspace;
  const Execution later = execution(&options), given = execution(&options);
  replace(given, workspace, info_of(given).workspace_bytes);
  const uint32_t* status = nullptr;
  const int32_t* counts = nullptr;
  check(minuet_execution_query_cloud(given.get(), &status, &counts));
  const auto place = reinterpret_cast<uintptr_t>(counts) - reinterpret_cast<uintptr_t>(workspace->data());
  const Buffer coordinates(machine(), cloud.coordinates);
  EXPECT_EQ(minuet_execution_prepare_on_device(later.get(), coordinates.integers(),
                                               reinterpret_cast<const int32_t*>(256 + place), nullptr),
            MINUET_FAILED_PRECONDITION);
}

/// In exact mode a refused prepare says how much more it needs.
TEST_P(WorkspaceTest, GivenLaterAndReplacedInExactMode) {
  const Cloud cloud = scene(400);
  const NetworkRun expected = fresh(cloud);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.defer_workspace = 1;
  std::unique_ptr<Buffer> workspace, of_own;
  const Execution later = execution(&options);
  EXPECT_EQ(info_of(later).has_capacities, 0);
  EXPECT_EQ(info_of(later).prepare_capturable, 0);
  EXPECT_EQ(prepare_cloud(later, cloud), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("minuet_execution_set_workspace"));
  minuet_status status = MINUET_RESOURCE_EXHAUSTED;
  int64_t bytes = 0;
  for (int attempt = 0; status == MINUET_RESOURCE_EXHAUSTED; ++attempt) {
    ASSERT_LT(attempt, 5) << "never content";
    const int64_t needed = info_of(later).workspace_bytes;
    ASSERT_GT(needed, bytes);
    bytes = needed;
    replace(later, workspace, bytes);
    status = prepare_cloud(later, cloud);
    if (status == MINUET_OK) {
      EXPECT_EQ(run(later, cloud), expected);
    }
  }
  check(status);
  EXPECT_EQ(info_of(later).workspace_bytes, bytes) << "the last prepare needed just that";
  replace(later, workspace, 2 * bytes);
  EXPECT_EQ(run(later, scene(20)), fresh(scene(20))) << "after a larger cloud in other memory";
  replace(later, workspace, 2 * bytes);
  EXPECT_EQ(run(later, cloud), expected);
  const Execution own = execution();
  EXPECT_EQ(run(own, cloud), expected);
  replace(own, of_own, 2 * bytes);
  EXPECT_EQ(run(own, cloud), expected);
  EXPECT_EQ(counters_of(own.get()).workspace_bytes, 2 * bytes);
}

TEST_P(WorkspaceTest, WithAQueue) {
  const Cloud cloud = scene(200);
  const Stream stream(machine());
  const Queue queue = make_queue(machine(), stream.get());
  const Capacities capacities = suggested(cloud);
  minuet_execution_options options = options_of(capacities);
  options.queue = queue.get();
  options.defer_workspace = 1;
  std::unique_ptr<Buffer> workspace;
  const Execution later = execution(&options);
  const Buffer other(machine(), info_of(later).workspace_bytes);
  Room room(machine(), capacities[0], dtype());
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(set(later, other, this), MINUET_INVALID_ARGUMENT) << "another stream than the queue's";
    replace(later, workspace, other.bytes(), stream.get());
    room.fill(cloud);
    enqueue(later.get(), room, stream.get());
    check(minuet_device_synchronize(machine().device(), stream.get()));
    expect_padded_oracle(room, cloud);
  }
}

TEST_P(WorkspaceTest, WrongWorkspaces) {
  const Execution own = execution();
  const Buffer workspace(machine(), 1 << 20);
  char* const data = static_cast<char*>(workspace.data());
  const auto give = [&](void* memory, int64_t bytes) {
    return minuet_execution_set_workspace(own.get(), memory, bytes, nullptr);
  };
  EXPECT_EQ(give(nullptr, 1 << 20), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("workspace"));
  for (const int64_t bytes : {0, -256}) {
    EXPECT_EQ(give(data, bytes), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("bytes is " + std::to_string(bytes)));
  }
  EXPECT_EQ(give(data + 16, 1 << 19), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("multiple of 256"));
  const Cloud cloud = scene(50);
  EXPECT_EQ(run(own, cloud), fresh(cloud)) << "arguments that are refused change nothing";
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.workspace = data, options.workspace_bytes = workspace.bytes();
  options.defer_workspace = 1;
  minuet_execution* none = nullptr;
  EXPECT_EQ(minuet_execution_create(network_.get(), machine().device(), &options, &none),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("defer_workspace"));
}

TEST_P(WorkspaceTest, ACloudsStateInTheCallersMemory) {
  const Cloud cloud = scene(200);
  const Capacities capacities = suggested(cloud);
  minuet_execution_options options = options_of(capacities);
  options.defer_workspace = 1;
  const Execution within = execution(&options);
  const Buffer workspace(machine(), info_of(within).workspace_bytes);
  check(set(within, workspace));
  CopiedCloud copied(machine());
  EXPECT_EQ(copied.copy(within.get(), nullptr), MINUET_FAILED_PRECONDITION) << "nothing is prepared";
  Room room(machine(), capacities[0], dtype());
  for (const int64_t said : {cloud.count(), capacities[0] + 1}) {
    room.fill(cloud, static_cast<int32_t>(said));
    enqueue(within.get(), room, nullptr);
    const std::vector<uint32_t> status_before = copied.status.read<uint32_t>();
    std::vector<int32_t> counts = copied.counts.read<int32_t>(), expected;
    check(copied.copy(within.get(), nullptr));
    const uint32_t status = status_of(within.get(), &expected);
    EXPECT_EQ(status, said == cloud.count() ? 0u : uint32_t{MINUET_CLOUD_PAST_CAPACITY});
    EXPECT_EQ(copied.status.read<uint32_t>(),
              (std::vector<uint32_t>{status_before[0], status, status_before[2]}));
    std::copy(expected.begin(), expected.end(), counts.begin() + 1);
    EXPECT_EQ(copied.counts.read<int32_t>(), counts);
  }
  copied.status.poison();
  check(minuet_execution_copy_cloud(within.get(), copied.status_word(), nullptr, 0, nullptr));
  EXPECT_EQ(copied.status.read<uint32_t>()[1], uint32_t{MINUET_CLOUD_PAST_CAPACITY});
  const auto refused = [&](uint32_t* status, int32_t* counts, int32_t count) {
    EXPECT_EQ(minuet_execution_copy_cloud(within.get(), status, counts, count, nullptr),
              MINUET_INVALID_ARGUMENT);
    return last_error();
  };
  uint32_t* const status = copied.status_word();
  int32_t* const counts = copied.count_words();
  EXPECT_THAT(refused(nullptr, counts, 1 + kLevels), HasSubstr("status"));
  EXPECT_THAT(refused(status, counts, kLevels), HasSubstr("count is"));
  EXPECT_THAT(refused(status, nullptr, 1 + kLevels), HasSubstr("count is"));
  EXPECT_THAT(refused(status, counts, -1), HasSubstr("count is"));
  EXPECT_THAT(refused(reinterpret_cast<uint32_t*>(counts + 2), counts, 1 + kLevels), HasSubstr("overlap"));
  EXPECT_THAT(refused(static_cast<uint32_t*>(workspace.data()), counts, 1 + kLevels), HasSubstr("workspace"));
  EXPECT_THAT(refused(status, static_cast<int32_t*>(workspace.data()) + 64, 1 + kLevels),
              HasSubstr("workspace"));
  EXPECT_THAT(refused(reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(status) + 1), counts, 1 + kLevels),
              HasSubstr("multiple"));
  const Execution plain = this->within(capacities);
  const uint32_t* own_status = nullptr;
  const int32_t* own_counts = nullptr;
  check(minuet_execution_query_cloud(plain.get(), &own_status, &own_counts));
  run_within(plain, room, cloud);
  EXPECT_EQ(minuet_execution_copy_cloud(plain.get(), const_cast<uint32_t*>(own_status), counts, 1 + kLevels,
                                        nullptr),
            MINUET_INVALID_ARGUMENT);
  const Execution exact = execution();
  run(exact, cloud);
  EXPECT_EQ(copied.copy(exact.get(), nullptr), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("level_capacity"));
}

MINUET_INSTANTIATE_EXECUTION_TEST(WorkspaceTest);

class WorkspaceOnGpu : public WorkspaceTest {};

/// A graph holds on to the workspace that it was captured with until it is released.
TEST_P(WorkspaceOnGpu, CapturedGraphsKeepTheWorkspace) {
  const Capacities capacities = suggested(scene(300, kSeed + 2), 1.5);
  std::unique_ptr<Buffer> workspace;
  const Execution execution = within(capacities);
  const Buffer other(machine(), info_of(execution).workspace_bytes);
  Room room(machine(), capacities[0], dtype());
  const Stream stream(machine());
  const CopiedCloud copied(machine());
  for (int time = 0; time < 2; ++time) {
    replace(execution, workspace, other.bytes(), stream.get());
    minuet_status in_capture = MINUET_OK;
    const CapturedGraph graph(stream.get(), [&] {
      in_capture = set(execution, other, stream.get());
      enqueue(execution.get(), room, stream.get());
      check(copied.copy(execution.get(), stream.get()));
    });
    ASSERT_TRUE(graph.whole());
    EXPECT_EQ(in_capture, MINUET_FAILED_PRECONDITION);
    for (const int64_t voxels : {280, 3, 150}) {
      const Cloud cloud = scene(voxels, kSeed + static_cast<uint64_t>(voxels));
      expect_replay(graph, stream, room, cloud);
      EXPECT_EQ(copied.status.read<uint32_t>()[1], 0u);
      EXPECT_EQ(copied.counts.read<int32_t>()[1], cloud.count());
    }
    EXPECT_EQ(set(execution, other, stream.get()), MINUET_FAILED_PRECONDITION);
    EXPECT_THAT(last_error(), HasSubstr("minuet_execution_release_captures"));
    check(minuet_execution_release_captures(execution.get()));
  }
}

/// So does a graph of one call, also where nothing is prepared because a prepare was refused.
TEST_P(WorkspaceOnGpu, GraphsOfOneCallKeepTheWorkspaceToo) {
  const Cloud cloud = scene(50);
  std::unique_ptr<Buffer> workspace;
  const Execution execution = within(suggested(cloud));
  const Buffer other(machine(), info_of(execution).workspace_bytes),
      coordinates(machine(), cloud.coordinates);
  const Stream stream(machine());
  const CopiedCloud copied(machine());
  const auto prepare = [&](int64_t count) {
    return minuet_execution_prepare(execution.get(), coordinates.integers(), count, stream.get());
  };
  const std::function<minuet_status()> calls[] = {[&] { return prepare(cloud.count()); },
                                                  [&] { return copied.copy(execution.get(), stream.get()); }};
  for (const auto& call : calls) {
    check(prepare(cloud.count()));
    EXPECT_EQ(prepare(-1), MINUET_INVALID_ARGUMENT);
    const CapturedGraph graph(stream.get(), [&] { check(call()); });
    ASSERT_TRUE(graph.whole());
    EXPECT_EQ(prepare(-1), MINUET_INVALID_ARGUMENT);
    EXPECT_EQ(set(execution, other, stream.get()), MINUET_FAILED_PRECONDITION);
    check(minuet_execution_release_captures(execution.get()));
    replace(execution, workspace, other.bytes(), stream.get());
  }
}

/// What a graph kept of a larger cloud does not count for the workspace that comes after it.
TEST_P(WorkspaceOnGpu, AfterALargerArenaThatAGraphKept) {
  const Cloud large = scene(900), small = scene(40);
  const NetworkRun expected = fresh(small);
  std::unique_ptr<Buffer> workspace;
  const Execution execution = this->execution();
  run(execution, large);
  const Buffer features(machine(), large.bytes);
  const Buffer output(machine(), large.count() * kWidths.back() * dtype_bytes(dtype()));
  const Stream stream(machine());
  const CapturedGraph graph(stream.get(), [&] {
    check(ExecutionTest::enqueue(execution.get(), large, features.data(), output.data(), stream.get()));
  });
  ASSERT_TRUE(graph.whole());
  run(execution, small);
  check(minuet_execution_release_captures(execution.get()));
  replace(execution, workspace, info_of(execution).workspace_bytes);
  const minuet_status again = prepare_cloud(execution, small);
  EXPECT_EQ(again, MINUET_OK) << last_error();
  EXPECT_EQ(run(execution, small), expected);
}

/// The old workspace may be freed on return, so the call waits for the work that uses it.
TEST_P(WorkspaceOnGpu, WaitsForWorkInTheOldWorkspace) {
  const ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 16, 16, 100);
  const ConvolutionData data = make_data(test);
  const Map map = make_map(machine(), test, data);
  Convolution convolution(machine(), test, data);
  std::unique_ptr<Buffer> workspace;
  const Execution execution = convolution.execution();
  const std::vector<char> expected = convolution.run(execution.get(), map, data);
  const Stream stream(machine());
  replace(execution, workspace, info_of(execution).workspace_bytes, stream.get());
  const Buffer other(machine(), workspace->bytes());
  check(prepare_map(execution.get(), map.map.get(), stream.get()));
  check(minuet_device_synchronize(machine().device(), stream.get()));
  Gate gate(stream.get());
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate.open();
  });
  check(set(execution, other, stream.get()));
  EXPECT_TRUE(gate.is_open());
  opener.join();
  workspace.reset();
  EXPECT_EQ(convolution.run(execution.get(), map, data), expected);
}

/// Whichever call of the driver fails, the execution is as it was before, or has no memory and says so.
TEST_P(WorkspaceOnGpu, AFailedCallOfTheDriverLeavesTheOldMemoryOrNone) {
  const std::optional<software_cuda::Control> control = software_cuda::Control::find();
  if (!control) return;  // only the software device fails on demand
  const Cloud cloud = scene(40);
  const Capacities capacities = suggested(cloud);
  std::unique_ptr<Buffer> workspace;
  const Execution execution = within(capacities);
  const int64_t bytes = info_of(execution).workspace_bytes;
  Room room(machine(), capacities[0], dtype());
  int kept = 0, lost = 0;
  for (const char* const name : {"cuStreamGetCtx_v2", "cuStreamIsCapturing", "cuStreamSynchronize",
                                 "cuMemcpyHtoDAsync", "cuMemsetD32Async", "cuEventRecord"}) {
    for (int nth = 1; nth <= 3; ++nth) {
      SCOPED_TRACE(testing::Message() << name << " number " << nth);
      replace(execution, workspace, bytes);
      const std::vector<char> expected = run_within(execution, room, cloud);
      auto other = std::make_unique<Buffer>(machine(), bytes);
      control->fail(name, nth, CUDA_ERROR_NOT_SUPPORTED);
      const minuet_status status = set(execution, *other);
      control->reset();
      if (status == MINUET_OK) {
        workspace = std::move(other);
        continue;
      }
      other.reset();
      if (has_memory(execution)) {
        ++kept;
        room.output.poison();
        check(run_tensors(execution.get(), {features_of(room.features.data(), room.capacity)},
                          tensor(room.output, room.capacity, kWidths.back(), dtype())));
        EXPECT_EQ(room.output.read<char>(), expected);
      } else {
        ++lost;
        EXPECT_EQ(prepare_cloud(execution, cloud), MINUET_FAILED_PRECONDITION);
        EXPECT_THAT(last_error(), HasSubstr("minuet_execution_set_workspace"));
      }
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(lost, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, WorkspaceOnGpu,
                         testing::Combine(testing::Values("cuda:0"), testing::Values(DType::F32, DType::F16)),
                         device_test_name);

}  // namespace
}  // namespace minuet::abi
